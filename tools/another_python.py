"""Tests functions in Python with another Python, if this machine has one: called by `make test`.

The behaviour of a Python function depends on the interpreter of its worker. The environment of the other
interpreter is kept with the other build outputs, and reused.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperchunk"
PACKAGES = ("h5py==3.16.*", "numpy>=1.26,<3", "pytest>=8.3,<10", "pytest-timeout>=2.3,<3")
TESTS = ("python/tests/compatibility", "python/tests/test_lib.py", "python/tests/test_attach_and_read.py")
OLDEST, NEWEST = 11, 14
SCRIPT = "#!{python}\nimport sys\nfrom hyperchunk._command import main\nsys.exit(main())\n"


def candidates() -> list[Path]:
    """Returns possible Python interpreters of another minor version, newest first."""
    found = []
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in range(NEWEST, OLDEST - 1, -1):
        if minor == sys.version_info.minor:
            continue
        found += sorted(pyenv.glob(f"3.{minor}.*/bin/python3.{minor}"), reverse=True)
        on_path = shutil.which(f"python3.{minor}")
        found += [Path(on_path)] if on_path else []
    return found


def usable(python: Path) -> bool:
    """True if the interpreter runs and can create environments."""
    code = "import sys, venv, ensurepip; sys.exit(sys.implementation.name != 'cpython')"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def environment(python: Path) -> Path | None:
    """Returns the interpreter of an environment with the tests' requirements; None if it cannot be created."""
    key = hashlib.sha256(f"{python} {PACKAGES}".encode()).hexdigest()[:12]
    folder = CACHE / f"python-{key}"
    inside = folder / "bin" / "python"
    done = folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        pip: list[str | Path] = [
            inside,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--no-input",
            "install",
            "-q",
            "--only-binary=:all:",
        ]
        steps: list[list[str | Path]] = [[python, "-m", "venv", folder], [*pip, *PACKAGES]]
        for words in steps:
            result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                said = (result.stderr or result.stdout).strip().splitlines()
                print(f"another Python: {python} is skipped: {said[-1] if said else 'no environment'}")
                return None
        done.touch()
    return inside


def main() -> int:
    """Runs the tests of functions in Python; returns 0 if there is no other Python, too."""
    for python in candidates():
        if not usable(python) or (inside := environment(python)) is None:
            continue
        script = inside.with_name("hyperchunk")
        script.write_text(SCRIPT.format(python=inside))
        script.chmod(0o755)
        variables = os.environ | {"PYTHONPATH": str(ROOT / "python"), "HYPERCHUNK_PYTHON": str(inside)}
        print(f"another Python: {python}", flush=True)
        words: list[str | Path] = [inside, "-m", "pytest", "-q", *TESTS, "-k", "[py", "-p", "no:cacheprovider"]
        return subprocess.run(words, cwd=ROOT, env=variables, check=False).returncode
    print("another Python: none on this machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
