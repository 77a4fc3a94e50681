"""The installed library for C: found by pkg-config and CMake, and used from there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import native
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """\
cmake_minimum_required(VERSION 3.16)
project(reads C)
find_package(hyperchunk 0.1 REQUIRED)
add_executable(shared {source})
target_link_libraries(shared hyperchunk::hyperchunk)
"""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("c") / "prefix"
    command = [sys.executable, ROOT / "tools" / "install_c.py", "--prefix", prefix, "--profile", "debug"]
    done = subprocess.run(command, env=native.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return prefix


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = [1.5, 2.5]
    return tmp_path / "a.h5"


def lists(program: Path, path: Path, prefix: Path) -> None:
    done = subprocess.run(
        [program, path], capture_output=True, text=True, env={"LD_LIBRARY_PATH": str(prefix / "lib")}, check=False
    )
    assert (done.returncode, done.stdout) == (0, "/x  2: 1.5 2.5\n"), done.stderr


def test_what_is_installed(prefix: Path) -> None:
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
    assert files == {
        "include/hyperchunk.h",
        "include/hdf5-udf.h",
        "lib/libhyperchunk.so",
        "lib/libhyperchunk.a",
        "lib/pkgconfig/hyperchunk.pc",
        "lib/cmake/hyperchunk/hyperchunk-config.cmake",
        "lib/cmake/hyperchunk/hyperchunk-config-version.cmake",
    }


def test_compiled_with_the_flags_of_pkg_config(prefix: Path, path: Path, tmp_path: Path) -> None:
    flags = ["-I" + str(prefix / "include"), "-L" + str(prefix / "lib"), "-lhyperchunk"]
    if shutil.which("pkg-config"):
        asked = ["pkg-config", "--cflags", "--libs", "hyperchunk"]
        where = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig"), "PATH": "/usr/bin:/bin:/usr/local/bin"}
        told = subprocess.run(asked, env=where, capture_output=True, text=True, check=True).stdout.split()
        assert told == flags
    program = tmp_path / "read_file"
    source = ROOT / "examples" / "c" / "read_file.c"
    subprocess.run(["cc", "-std=c99", str(source), *flags, "-o", program], check=True)
    lists(program, path, prefix)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")
def test_found_by_cmake(prefix: Path, path: Path, tmp_path: Path) -> None:
    text = PROJECT.format(source=ROOT / "examples" / "c" / "read_file.c")
    (tmp_path / "CMakeLists.txt").write_text(text)
    for command in (
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
        ["cmake", "--build", tmp_path / "build"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    lists(tmp_path / "build" / "shared", path, prefix)
