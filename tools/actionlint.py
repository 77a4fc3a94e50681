"""Checks the workflows with actionlint, part of `make lint`.

actionlint (MIT) is taken from the path, or built by Go into the cache folder, once (a minute). If neither is
installed, it prints one line, and only the tests of `python/tests/test_shell.py` check the workflows. Standard
library only."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = "v1.7.7"
MODULE = "github.com/rhysd/actionlint/cmd/actionlint"
BUILD_SECONDS = 600


def find() -> Path | None:
    """Returns the program; None, after a line that says why, if it is not installed and cannot be built."""
    if found := shutil.which("actionlint"):
        return Path(found)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "hyperchunk"
    program = cache / f"go-actionlint-{VERSION}" / "actionlint"
    if program.exists():
        return program
    go = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/go/bin"]))
    if go is None:
        print("actionlint: the workflows are not checked: neither actionlint nor Go (https://go.dev/dl) is installed")
        return None
    return build(go, program)


def build(go: str, program: Path) -> Path | None:
    """Builds the program with Go."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        command = [go, "install", "-trimpath", "-ldflags=-s -w", f"{MODULE}@{VERSION}"]
        env = os.environ | {"GOBIN": folder}
        try:
            subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=BUILD_SECONDS)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            lines = str(error.stderr or error).splitlines()[-2:]
            print(f"actionlint: the workflows are not checked: the build of actionlint failed: {' / '.join(lines)}")
            return None
        (Path(folder) / program.name).replace(program)
    return program


def main() -> None:
    program = find()
    if program is None:
        return
    # With shellcheck on the path, actionlint also checks the commands.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    sys.exit(subprocess.run([program], cwd=ROOT, env=os.environ | {"PATH": path}, check=False).returncode)


if __name__ == "__main__":
    main()
