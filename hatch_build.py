"""The build hook: one `cargo build`, whose artefacts go into the wheel.

An editable install gets them in `python/hyperchunk/`."""

import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "tools"))
import native


class NativeBuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it packs a wheel; `version` is "standard" or "editable"."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        artefacts = native.build(root)
        if version == "editable":
            native.place(artefacts, root / "python")
            native.name_interpreter(root / "python", sys.executable)
        else:
            build_data["force_include"] |= {str(built): path for path, built in artefacts.items()}
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
