"""Versions: of h5py's interface, and of this package."""

from __future__ import annotations

import platform
import sys
from typing import NamedTuple

import numpy as np

from hyperchunk._core import __version__ as hyperchunk_version


class _Version(NamedTuple):
    major: int
    minor: int
    bugfix: int
    pre: str | None
    post: str | None
    dev: str | None


#: Release of h5py whose interface this is.
version = "3.16.0"
version_tuple = _Version(3, 16, 0, None, None, None)
#: Release of HDF5 whose files are read and written.
hdf5_version_tuple = (2, 0, 0)
hdf5_version = "2.0.0"
hdf5_built_version_tuple = hdf5_version_tuple
api_version_tuple = (1, 8)
api_version = "1.8"
info = f"""\
Hyperchunk's module with h5py's names
-------------------------------------

hyperchunk      {hyperchunk_version}
interface       h5py {version}
HDF5            {hdf5_version} (files; no libhdf5)
Python          {platform.python_version()}
sys.platform    {sys.platform}
sys.maxsize     {sys.maxsize}
numpy           {np.__version__}
"""
