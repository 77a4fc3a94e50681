"""Folders of filter plugins. Plugins of libhdf5 are not loaded; the folders are kept for programs that list them."""

from __future__ import annotations

import os

from hyperchunk.h5py._objects import missing

_folders = [
    os.fsencode(folder) for folder in os.environ.get("HDF5_PLUGIN_PATH", "/usr/local/hdf5/lib/plugin").split(os.pathsep)
]


def append(search_path: bytes) -> None:
    """Adds a folder at the end."""
    _folders.append(search_path)


def prepend(search_path: bytes) -> None:
    """Adds a folder at the beginning."""
    _folders.insert(0, search_path)


def insert(search_path: bytes, index: int) -> None:
    """Adds a folder at a position."""
    _folders.insert(_checked(index), search_path)


def replace(search_path: bytes, index: int) -> None:
    """Replaces the folder at a position."""
    _folders[_checked(index)] = search_path


def remove(index: int) -> None:
    """Removes the folder at a position."""
    del _folders[_checked(index)]


def get(index: int) -> bytes:
    """Returns the folder at a position."""
    return _folders[_checked(index)]


def size() -> int:
    """Returns the number of folders."""
    return len(_folders)


def _checked(index: int) -> int:
    if not 0 <= index < len(_folders):
        raise RuntimeError(f"no folder with the index {index}: {len(_folders)} exist")
    return index


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
