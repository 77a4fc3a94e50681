"""The build hook: one `cargo build`, whose artefacts go into the wheel.

An editable install gets them in `python/hyperchunk/`. `make wheel` has smaller ones built: tools/native_dist.py."""

import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "tools"))
import native
import native_dist


class NativeBuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it packs a wheel; `version` is "standard" or "editable"."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        if native_dist.requested() and version != "editable":
            artefacts, platform = native_dist.build(root), native_dist.tag()
        else:
            artefacts = native.build(root)
        if version == "editable":
            native.place(artefacts, root / "python")
            native.name_interpreter(root / "python", sys.executable)
        else:
            # Sorted, so that a wheel's files have the same order each time.
            build_data["force_include"] |= {str(artefacts[path]): path for path in sorted(artefacts)}
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
