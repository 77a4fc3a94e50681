"""Python for aarch64 under QEMU, and the tests of the reader with it: used by `tools/platforms.py run`.

Needs no root: Debian's packages of Python are downloaded and unpacked into a folder, the wheels of the tests' packages
beside them, and a program that starts QEMU acts as the interpreter. Standard library only."""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import native

TARGET = "aarch64-unknown-linux-gnu"
DEBIAN = ["python3", "libstdc++6"]
PACKAGES = ["h5py", "netCDF4", "numpy", "pytest>=8.3,<10", "pytest-timeout>=2.3,<3", "hypothesis>=6.100,<7"]
WHEELS = ["manylinux_2_28", "manylinux_2_27", "manylinux2014", "manylinux_2_17"]
# What the reader's tests use of the package: the module, and the filters that libhdf5 loads.
BUILT = ["hyperchunk-python", "hyperchunk-filter", "hyperchunk-snappy"]
TESTS = [
    "test_corpus.py",
    "test_numpy_indices.py",
    "test_reader_indices.py",
    "test_reader_objects.py",
    "test_reader_types.py",
]
# They write files, which QEMU does not emulate: it cannot give a name to a file that has none.
WRITING = [
    "test_numpy_indices.py::test_a_store_is_written_and_read",
    "test_numpy_indices.py::test_an_ellipsis_of_no_axes_separates_lists",
    "test_numpy_indices.py::test_writes_by_the_same_indices",
    "test_reader_objects.py::test_what_a_file_may_be",
]


def ask(words: list[str], **options: object) -> str | None:
    """Runs a program; returns its output, or `None` if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    return str(done.stdout) if done.returncode == 0 else None


def unpack(folder: Path) -> Path | None:
    """Downloads and unpacks Python for aarch64; returns the interpreter, `None` if there is none to be had."""
    root, apt = folder / "root", folder / "apt"
    if not (root / "usr/bin/python3").exists():
        for needed in (apt / "state/lists/partial", apt / "cache/archives/partial"):
            needed.mkdir(parents=True, exist_ok=True)
        # An empty status: all that Python depends on is downloaded, whatever this machine has.
        (apt / "status").touch()
        settings = {
            "APT::Architecture": "arm64",
            "APT::Architectures": "arm64",
            "APT::Sandbox::User": "",
            "Debug::NoLocking": "1",
            "Dir::Cache": str(apt / "cache"),
            "Dir::State": str(apt / "state"),
            "Dir::State::status": str(apt / "status"),
        }
        get = ["apt-get", "-qq", *(word for item in settings.items() for word in ("-o", "=".join(item)))]
        download = [*get, "--yes", "--no-install-recommends", "--download-only", "install", *DEBIAN]
        if shutil.which("apt-get") is None or ask([*get, "update"]) is None or ask(download) is None:
            return None
        for package in sorted((apt / "cache/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
        shutil.rmtree(apt)
    return (root / "usr/bin/python3").resolve()


def version(python: Path) -> str:
    """Returns the version of an interpreter by its name: 3.11 for python3.11."""
    return python.name.removeprefix("python")


def wheels(folder: Path, python: Path) -> Path | None:
    """Installs the tests' packages for aarch64; returns their folder, `None` if a wheel is missing."""
    site, mark = folder / "site", folder / "site.installed"
    wanted = "\n".join([version(python), *PACKAGES])
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(site, ignore_errors=True)
        words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--target", str(site)]
        words += ["--only-binary=:all:", "--python-version", version(python)]
        words += [word for name in WHEELS for word in ("--platform", f"{name}_aarch64")]
        if ask([*words, *PACKAGES]) is None:
            return None
        mark.write_text(wanted)
    return site


def interpreter(folder: Path, python: Path, paths: list[Path]) -> Path:
    """Writes the programs that act as the interpreter and as the command, which tests start, too; returns the first."""
    program, start = folder / "python", folder / "start"
    start.mkdir(exist_ok=True)
    (start / "sitecustomize.py").write_text(f"import sys\nsys.executable = {str(program)!r}\n")
    variables = {
        "LD_LIBRARY_PATH": "/usr/lib/aarch64-linux-gnu",
        "PYTHONPATH": os.pathsep.join(map(str, [start, *paths])),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = ["exec", "qemu-aarch64", "-L", str(folder / "root")]
    words += [word for item in variables.items() for word in ("-E", "=".join(item))]
    for file, command in (
        (program, [*words, str(python)]),
        (folder / "hyperchunk", ["exec", str(program), "-m", "hyperchunk"]),
    ):
        file.write_text(f'#!/bin/sh\n{shlex.join(command)} "$@"\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return program


def package(root: Path, folder: Path, env: dict[str, str]) -> Path:
    """Compiles the package for aarch64; returns the folder that it is in."""
    command = ["cargo", "build", "--release", "--locked", "--target", TARGET]
    command += ["--message-format=json-render-diagnostics", *(word for name in BUILT for word in ("-p", name))]
    done = subprocess.run(command, cwd=root, env=env, stdout=subprocess.PIPE, text=True, check=True)
    to = folder / "package"
    shutil.rmtree(to, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.so", "libexec", "worker-python", "__pycache__")
    shutil.copytree(root / "python" / "hyperchunk", to / "hyperchunk", ignore=ignored)
    for path, file in native.artefacts(done.stdout).items():
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, to / path)
    return to


def run(root: Path, env: dict[str, str]) -> bool | None:
    """Runs the reader's tests; returns whether they pass, `None` if Python for aarch64 cannot be had."""
    folder = Path(native.target_dir()) / "platforms" / "aarch64-python"
    folder.mkdir(parents=True, exist_ok=True)
    python = unpack(folder)
    site = wheels(folder, python) if python else None
    if python is None or site is None:
        return None
    program = interpreter(folder, python, [package(root, folder, env), site])
    words = [str(program), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=3600"]
    words += [f"--basetemp={folder / 'tests'}", *(f"python/tests/{name}" for name in TESTS)]
    words += [f"--deselect=python/tests/{name}" for name in WRITING]
    return subprocess.run(words, cwd=root, check=False).returncode == 0
