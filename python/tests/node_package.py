"""The npm package of this checkout, for tests that run it in Node."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "bindings" / "javascript"


@functools.cache
def lacking() -> str | None:
    """Returns the reason for which the package cannot run here; ``None`` if it can."""
    node = shutil.which("node")
    if node is None:
        return "node is missing"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < 20:
        return f"node {version} is older than 20"
    if not (PACKAGE / "hyperchunk.wasm").exists():
        return "the WebAssembly module is not built: make npm"
    return None
