"""Runs HDF5-UDF's own test script and sources, unmodified, with the `hdf5-udf` command and the plugin of this checkout.

    python tools/hdf5_udf_suite.py [FOLDER]

FOLDER is a checkout of HDF5-UDF; without it, one is cloned, and where there is no network that is said and nothing is
run. The script expects what it tests in a folder `build` beside it, which is made here of links: nothing of HDF5-UDF is
built but the program that makes the inputs. It needs `g++`, `pkg-config`, the headers and tools of HDF5, and `numdiff`.
Standard library only."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "hyperchunk"
URL = "https://github.com/lucasvr/hdf5-udf"
CASES = 47
"""What the script checks, at its last commit (a23d14d of 2023-03-19)."""


def missing() -> list[str]:
    """The programs that are needed and not there."""
    programs = ("g++", "pkg-config", "make", "h5dump", "numdiff", "awk", "bash")
    return [program for program in programs if not shutil.which(program)]


def checkout(folder: Path) -> bool:
    """Clones HDF5-UDF."""
    done = subprocess.run(
        ["git", "clone", "-q", "--depth", "1", URL, folder], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(f"not run: {URL} cannot be cloned here: {done.stderr.strip()}")
    return done.returncode == 0


def build(folder: Path) -> None:
    """The folder that HDF5-UDF's build would have made."""
    made = folder / "build"
    made.mkdir(exist_ok=True)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "hdf5"], capture_output=True, text=True, check=True)
    source = folder / "examples" / "createh5.cpp"
    subprocess.run(["g++", "-O1", source, "-o", made / "createh5", *flags.stdout.split()], check=True)
    (made / "hdf5-udf").symlink_to(Path(sys.executable).with_name("hdf5-udf"))
    for plugin in (PACKAGE / "plugins").glob("*.so"):
        (made / plugin.name).symlink_to(plugin)


def run(folder: Path, home: Path) -> int:
    """Runs the script, in a home where nobody has a key yet; how many cases passed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HDF5_", "HYPERCHUNK_", "XDG_"))}
    env = kept | {"HOME": str(home)}
    script = ["bash", "run_tests.sh"]
    done = subprocess.run(script, cwd=folder / "test", env=env, capture_output=True, text=True, check=False)
    passed = done.stdout.count("Successful validation")
    if done.returncode != 0 or passed != CASES:
        print("\n".join(done.stdout.splitlines()[-60:]))
        print(done.stderr)
    print(f"HDF5-UDF's test script: {passed} of {CASES}")
    return 0 if done.returncode == 0 and passed == CASES else 1


def main() -> int:
    """The exit status."""
    if absent := missing():
        print(f"not run: {', '.join(absent)} not found")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder, home = Path(scratch) / "hdf5-udf", Path(scratch) / "home"
        home.mkdir()
        if len(sys.argv) > 1:
            shutil.copytree(sys.argv[1], folder, ignore=shutil.ignore_patterns(".git", "build"))
        elif not checkout(folder):
            return 0
        build(folder)
        return run(folder, home)


if __name__ == "__main__":
    sys.exit(main())
