"""Builds parallel HDF5 2.2.0 and the functions in parallel_hdf5.c over it; once, in a cache folder (ten minutes).

    python bench/sharded/parallel_hdf5.py             # prints the built library
    python bench/sharded/parallel_hdf5.py --hdf5      # HDF5 itself: a folder with include/ and a shared lib/libhdf5.so

The source is in the crate `hdf5-metno-src`, from cargo's registry; the compiler is `mpicc` of PyPI's `mpich`, and
CMake and Ninja are from PyPI, too (requirements.txt). No h5py with MPI is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

VERSION = "0.10.4"
CRATE = f"hdf5-metno-src-{VERSION}"
HERE = Path(__file__).resolve().parent
ON = ["HDF5_ENABLE_PARALLEL", "CMAKE_POSITION_INDEPENDENT_CODE"]
OFF = [
    "BUILD_SHARED_LIBS",
    "BUILD_TESTING",
    "HDF5_BUILD_CPP_LIB",
    "HDF5_BUILD_EXAMPLES",
    "HDF5_BUILD_FORTRAN",
    "HDF5_BUILD_HL_LIB",
    "HDF5_BUILD_JAVA",
    "HDF5_BUILD_TOOLS",
    "HDF5_BUILD_UTILS",
    "HDF5_ENABLE_SZIP_SUPPORT",
    "HDF5_ENABLE_ZLIB_SUPPORT",
    "HDF5_ENABLE_Z_LIB_SUPPORT",
]


def cache() -> Path:
    """Returns the folder for builds."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hyperchunk" / "parallel-hdf5"


def run(*command: str | Path, **options: Any) -> None:
    """Runs a command with the lowest priority; shows its output only if it fails."""
    done = subprocess.run(["nice", "-n", "19", *map(str, command)], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def crate() -> Path:
    """Returns the crate's source in cargo's registry, and fetches it if necessary."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    for _ in range(2):
        if found := sorted(home.glob(f"registry/src/*/{CRATE}")):
            return found[0]
        with tempfile.TemporaryDirectory() as folder:
            package = '[package]\nname = "f"\nversion = "0.0.0"\nedition = "2021"\n'
            needs = f'[dependencies]\nhdf5-metno-src = "={VERSION}"\n'
            Path(folder, "Cargo.toml").write_text(package + needs)
            Path(folder, "src").mkdir()
            Path(folder, "src/lib.rs").touch()
            run("cargo", "fetch", cwd=folder)
    sys.exit(f"cargo did not fetch {CRATE}")


def tool(name: str) -> str:
    """Returns a program of this Python's environment, or of the system."""
    mine = Path(sys.executable).parent / name
    found = str(mine) if mine.exists() else shutil.which(name)
    return found or sys.exit(f"needs {name}: pip install -r bench/sharded/requirements.txt")


def hdf5(jobs: int) -> Path:
    """Returns the folder of the installed static library."""
    built = cache() / "2.2.0"
    if (built / "done").exists():
        return built
    work = cache() / "build"
    shutil.rmtree(work, ignore_errors=True)
    settings = [f"-D{name}=ON" for name in ON] + [f"-D{name}=OFF" for name in OFF]
    settings += [f"-DCMAKE_C_COMPILER={tool('mpicc')}", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    settings += [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DHDF5_NO_PACKAGES=ON",
        f"-DCMAKE_INSTALL_PREFIX={built}",
        "-DCMAKE_INSTALL_LIBDIR=lib",
    ]
    run(tool("cmake"), "-G", "Ninja", "-S", crate() / "ext" / "hdf5", "-B", work, *settings)
    run(tool("ninja"), "-C", work, "-j", str(jobs), "install")
    (built / "done").touch()
    shutil.rmtree(work)
    return built


def shared(jobs: int = 2) -> Path:
    """Returns the folder of HDF5 with a shared library, for programs that load connectors."""
    built = hdf5(jobs)
    made = built / "lib" / "libhdf5.so"
    if not made.exists():
        whole = ["-Wl,--whole-archive", built / "lib" / "libhdf5.a", "-Wl,--no-whole-archive"]
        run(tool("mpicc"), "-shared", "-Wl,-soname,libhdf5.so", *whole, "-lm", "-ldl", "-lpthread", "-o", made)
    return built


def library(jobs: int = 2) -> Path:
    """Returns our functions, built over it."""
    source = HERE / "parallel_hdf5.c"
    made = cache() / f"phdf5-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.so"
    if not made.exists():
        built = hdf5(jobs)
        archive = built / "lib" / "libhdf5.a"
        hidden = ["-fvisibility=hidden", "-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic"]
        flags = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-fPIC", "-shared", *hidden]
        partial = made.with_suffix(f".{os.getpid()}")
        run(tool("mpicc"), *flags, f"-I{built / 'include'}", source, archive, "-lm", "-ldl", "-lpthread", "-o", partial)
        partial.replace(made)
    return made


def main() -> None:
    """Prints the library, or the folder of HDF5."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hdf5", action="store_true", help="HDF5 itself, with a shared library")
    print(shared() if parser.parse_args().hdf5 else library())


if __name__ == "__main__":
    main()
