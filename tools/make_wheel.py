"""Makes the source archive and the wheel for publication, and tests the wheel in new environments: `make wheel`.

`build` makes both in `dist/` and checks the wheel's size, the oldest C library it runs with, and its use of Python's
stable ABI. `try` installs the wheel, with only NumPy, for each Python of this machine (or those in
HYPERCHUNK_WHEEL_PYTHONS, separated by colons), without Rust on the path, and prints a table. `twice` builds it again
from a copy in another folder, and compares the bytes. Standard library only, except for
tools/requirements-wheel.txt."""

import argparse
import hashlib
import io
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import another_python
import native
import native_dist
import repack_wheel

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
MAX_BYTES = 22_000_000
# Processor time in milliseconds, with Python's own start.
MAX_IMPORT_MS, MAX_VERSION_MS = 60, 30
# Tests with h5py that run with a wheel: reading, writing, editing, plugins, functions in each language, the command.
TESTS = ["compatibility", "store/test_store.py", "test_attach_and_read.py", "test_expressions.py", "test_lib.py"]
TESTS += ["test_numpy_indices.py", "test_plugin_path.py", "test_reader_types.py", "write/test_snappy.py"]
TESTS += ["write/test_transactions.py", "write/test_types.py"]
TEST_PACKAGES = ["h5py", "netCDF4", "pytest>=8.3,<10", "pytest-timeout>=2.3,<3", "hypothesis>=6.100,<7"]


def say(text: str) -> None:
    print(f"wheel: {text}", flush=True)


def clean_environment(inside: Path) -> dict[str, str]:
    """Returns an environment without this checkout's settings, Rust or a compiler of Python extensions."""
    ours = ("PYTHON", "HDF5_", "HYPERCHUNK_", "VIRTUAL_ENV", "CARGO", "RUST")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = [str(inside.parent), *(f for f in os.defpath.split(os.pathsep) if not (Path(f) / "cargo").exists())]
    return kept | {"PATH": os.pathsep.join(path)}


def run(words: list[str | Path], cwd: Path, env: dict[str, str]) -> str:
    """Runs a program that must succeed; returns its output."""
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"wheel: {' '.join(map(str, words))} failed:\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


def build(root: Path, to: Path, env: dict[str, str]) -> Path:
    """Makes the archives of the checkout `root` in the folder `to`; returns the wheel."""
    to.mkdir(parents=True, exist_ok=True)
    for old in to.glob("hyperchunk-*"):
        old.unlink()
    words: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "-d", to]
    subprocess.run(words, cwd=root, env=env | {native_dist.VARIABLE: "1"}, check=True)
    wheel = only_wheel(to)
    repack_wheel.repack(wheel)
    return wheel


def only_wheel(folder: Path) -> Path:
    wheels = sorted(folder.glob("hyperchunk-*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"wheel: expected one wheel in {folder}, got {len(wheels)}; run `make wheel`")
    return wheels[0]


def inspect(wheel: Path) -> None:
    """Checks a wheel's size, platform and use of the stable ABI; ends the program if one is wrong."""
    size = wheel.stat().st_size
    say(f"{wheel.name}: {size / 1e6:.2f} MB, sha256 {digest(wheel)}")
    if size > MAX_BYTES:
        raise SystemExit(f"wheel: {wheel.name} has {size} bytes; expected at most {MAX_BYTES}")
    bin_dir = Path(sys.executable).parent
    env = os.environ | {"PATH": os.pathsep.join([str(bin_dir), os.environ.get("PATH", os.defpath)])}
    shown = run([bin_dir / "auditwheel", "show", wheel], ROOT, env)
    if f'"{native_dist.tag()}"' not in " ".join(shown.split()):
        raise SystemExit(f"wheel: expected a wheel for {native_dist.tag()}; auditwheel says:\n{shown}")
    say(f"auditwheel: {native_dist.tag()}, nothing to add")
    check_symbols(wheel)
    run([bin_dir / "abi3audit", "--strict", wheel], ROOT, env)
    say("abi3audit: only Python's stable ABI")


def check_symbols(wheel: Path) -> None:
    """Ends the program if a library asks for a symbol that glibc 2.28 lacks.

    Such a symbol has no version, so auditwheel accepts it, but the library would not load on an old system.
    """
    from elftools.elf.elffile import ELFFile

    with zipfile.ZipFile(wheel) as archive:
        for name in native.ARTEFACTS.values():
            # Typed only where pyelftools is installed.
            table: Any = ELFFile(io.BytesIO(archive.read(name)))
            versions = table.get_section_by_name(".gnu.version")
            for number, symbol in enumerate(table.get_section_by_name(".dynsym").iter_symbols()):
                undefined = symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
                of_python = name == native.ARTEFACTS["_core"] and symbol.name.startswith(("Py", "_Py"))
                unversioned = versions.get_symbol(number)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")
                if undefined and unversioned and not of_python:
                    raise SystemExit(f"wheel: {name} needs {symbol.name}, which glibc {native_dist.GLIBC} lacks")


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def twice(wheel: Path) -> None:
    """Builds the wheel again from a copy in another folder; ends the program if a byte differs."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    with tempfile.TemporaryDirectory(prefix="hyperchunk-wheel-", dir=os.environ.get("TMPDIR", "/var/tmp")) as temporary:
        copy = Path(temporary) / "elsewhere"
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
        env = os.environ | {"CARGO_TARGET_DIR": str(Path(temporary) / "target")}
        again = build(copy, Path(temporary) / "dist", env)
        if digest(again) != digest(wheel):
            shutil.copy2(again, wheel.with_suffix(".again.zip"))
            raise SystemExit(f"wheel: another build differs: compare {wheel} with {wheel.with_suffix('.again.zip')}")
    say("a second build, from another folder, has the same bytes")


def pythons() -> list[Path]:
    """Returns the interpreters to test: the newest of each minor version."""
    if named := os.environ.get("HYPERCHUNK_WHEEL_PYTHONS"):
        return [Path(name) for name in named.split(os.pathsep)]
    found: dict[str, Path] = {}
    # The base interpreter of this checkout's environment, instead of that environment.
    for python in [Path(sys.base_prefix) / "bin" / "python3", *another_python.candidates()]:
        if another_python.usable(python):
            code = "import platform; print('.'.join(platform.python_version_tuple()[:2]))"
            version = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
            found.setdefault(version, python)
    return [found[version] for version in sorted(found)]


def median_ms(words: list[str | Path], cwd: Path, env: dict[str, str]) -> float:
    """Returns the median processor time of a program in 21 runs, which other load does not affect."""
    times = []
    for _ in range(21):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times) * 1000


def try_in(python: Path, wheel: Path, folder: Path, tests: bool) -> str:
    """Installs a wheel in a new environment and tests it there; returns a row of the table."""
    run([python, "-m", "venv", folder / "env"], folder, dict(os.environ))
    inside = folder / "env" / "bin" / "python"
    env = clean_environment(inside)
    if shutil.which("cargo", path=env["PATH"]) or shutil.which("rustc", path=env["PATH"]):
        raise SystemExit(f"wheel: Rust is on the path {env['PATH']}; a wheel without Rust cannot be tested")
    pip: list[str | Path] = [inside, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--only-binary=:all:"]
    run([*pip, wheel], folder, env)
    empty = folder / "empty"
    empty.mkdir()
    home = run([inside, ROOT / "tools" / "probe_wheel.py"], empty, env).strip()
    if not Path(home).is_relative_to(folder.resolve()):
        raise SystemExit(f"wheel: expected the package of the wheel, got {home}")
    # The probe has also compiled the modules.
    commands: list[list[str | Path]] = [
        [inside, "-c", "pass"],
        [inside, "-c", "import hyperchunk"],
        [inside.with_name("hyperchunk"), "--version"],
    ]
    nothing, imported, version = (median_ms(words, empty, env) for words in commands)
    passed = "not run"
    if tests:
        run([*pip, *TEST_PACKAGES], folder, env)
        words: list[str | Path] = [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=0"]
        words += [f"--basetemp={folder / 'tests'}", *(f"python/tests/{name}" for name in TESTS)]
        if shutil.which("g++", path=env["PATH"]) is None:
            say("no C++ compiler: tests of functions in C++ are skipped")
            words += ["-k", "not cpp and not strings_that_fill and not strings_that_were_never"]
        passed = run(words, ROOT, env).strip().splitlines()[-1].strip("= ")
    name = run([inside, "-c", "import sys; print(sys.version.split()[0])"], empty, env).strip()
    return f"| {name} | {nothing:.0f} | {imported:.0f} | {version:.0f} | {passed} |"


def try_all(wheel: Path, tests: bool) -> None:
    """Tests the wheel with each Python, and prints a table."""
    rows = []
    for python in pythons():
        with tempfile.TemporaryDirectory(prefix="hyperchunk-wheel-") as folder:
            rows.append(try_in(python, wheel, Path(folder), tests))
            say(rows[-1])
    print("\n| Python | an empty program, ms | `import hyperchunk`, ms | `hyperchunk --version`, ms | tests |")
    print("| --- | --- | --- | --- | --- |")
    print("\n".join(rows))
    print(f"aims: at most {MAX_IMPORT_MS} ms for the import and {MAX_VERSION_MS} ms for the version")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP", help="build, try or twice; by default build and try")
    parser.add_argument("--no-tests", action="store_true", help="with try: install and measure only")
    options = parser.parse_args()
    steps = options.steps or ["build", "try"]
    if unknown := set(steps) - {"build", "try", "twice"}:
        parser.error(f"expected the steps build, try or twice, got {', '.join(sorted(unknown))}")
    if "build" in steps:
        inspect(build(ROOT, DIST, dict(os.environ)))
    wheel = only_wheel(DIST)
    if "twice" in steps:
        twice(wheel)
    if "try" in steps:
        try_all(wheel, not options.no_tests)


if __name__ == "__main__":
    main()
