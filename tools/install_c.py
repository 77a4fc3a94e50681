"""Installs the library for C: `libhyperchunk`, its headers, and files for pkg-config and CMake.

    make install-c PREFIX=/usr/local

Builds the library first. `DESTDIR` is prepended to the prefix, for packagers."""

import argparse
import os
import re
import shutil
import subprocess
from pathlib import Path

import native

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ("hyperchunk.h", "hdf5-udf.h")
#: System libraries that the static library needs.
SYSTEM = "-lpthread -ldl -lm"

PKG_CONFIG = """\
prefix={prefix}
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: hyperchunk
Description: Reads, writes and edits HDF5 files, local and in object stores
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -lhyperchunk
Libs.private: {system}
"""

CMAKE = """\
# Defines the targets hyperchunk::hyperchunk (shared) and hyperchunk::static.
get_filename_component(_hyperchunk_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hyperchunk::hyperchunk)
  add_library(hyperchunk::hyperchunk SHARED IMPORTED)
  set_target_properties(hyperchunk::hyperchunk PROPERTIES
    IMPORTED_LOCATION "${_hyperchunk_prefix}/lib/libhyperchunk.so"
    IMPORTED_NO_SONAME ON
    INTERFACE_INCLUDE_DIRECTORIES "${_hyperchunk_prefix}/include")
  find_package(Threads REQUIRED)
  add_library(hyperchunk::static STATIC IMPORTED)
  set_target_properties(hyperchunk::static PROPERTIES
    IMPORTED_LOCATION "${_hyperchunk_prefix}/lib/libhyperchunk.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_hyperchunk_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()
unset(_hyperchunk_prefix)
"""

CMAKE_VERSION = """\
set(PACKAGE_VERSION "@version@")
# Versions before 1.0 are compatible only within a minor version.
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(PACKAGE_FIND_VERSION_MAJOR EQUAL @major@ AND PACKAGE_FIND_VERSION_MINOR EQUAL @minor@
   AND NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""


def version() -> str:
    """Returns the version of the crates."""
    found = re.search(r'(?m)^version = "([^"]+)"$', (ROOT / "Cargo.toml").read_text())
    assert found is not None
    return found[1]


def install(built: Path, prefix: Path, destination: Path) -> None:
    """Copies the library from the folder `built`, with its headers, to `destination`, for use at `prefix`."""
    parts = {name: destination / name for name in ("include", "lib", "lib/pkgconfig", "lib/cmake/hyperchunk")}
    for folder in parts.values():
        folder.mkdir(parents=True, exist_ok=True)
    for header in HEADERS:
        shutil.copyfile(ROOT / "include" / header, parts["include"] / header)
    for name in ("libhyperchunk.so", "libhyperchunk.a"):
        # Programs may be using the installed library: it is replaced, not overwritten.
        waiting = parts["lib"] / f"{name}.new"
        shutil.copy2(built / name, waiting)
        waiting.replace(parts["lib"] / name)
    pc = PKG_CONFIG.format(prefix=prefix, version=version(), system=SYSTEM)
    (parts["lib/pkgconfig"] / "hyperchunk.pc").write_text(pc)
    cmake = parts["lib/cmake/hyperchunk"]
    (cmake / "hyperchunk-config.cmake").write_text(CMAKE)
    text = CMAKE_VERSION.replace("@version@", version())
    major, minor, _ = version().split(".", 2)
    text = text.replace("@major@", major).replace("@minor@", minor)
    (cmake / "hyperchunk-config-version.cmake").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", type=Path, default=Path("/usr/local"), help="where to install it (/usr/local)")
    parser.add_argument("--profile", choices=["release", "debug"], default="release", help="the build profile")
    options = parser.parse_args()
    prefix = options.prefix.absolute()
    if options.profile == "debug":
        native.c_library()
    else:
        command = ["cargo", "build", "--locked", "--release", "-p", "hyperchunk-c"]
        subprocess.run(command, cwd=ROOT, env=native.environment(), check=True)
    destination = Path(os.environ.get("DESTDIR", "") + str(prefix))
    install(Path(native.target_dir()) / options.profile, prefix, destination)
    flags = f"PKG_CONFIG_PATH={prefix}/lib/pkgconfig pkg-config --cflags --libs hyperchunk"
    print(f"hyperchunk: installed libhyperchunk in {destination}")
    print(f"hyperchunk: compile with `cc program.c $({flags})`")


if __name__ == "__main__":
    main()
