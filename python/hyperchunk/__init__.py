"""Hyperchunk: HDF5 that computes, streams and scales.

- :func:`open` reads HDF5 files, in h5py's shape and without libhdf5.
- :mod:`hyperchunk.udf` attaches programs to HDF5 files as live datasets.
- :mod:`hyperchunk.plugins` makes them readable for every HDF5 program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperchunk import _core, exceptions, plugins, udf
from hyperchunk._core import __version__
from hyperchunk.attributes import AttributeManager
from hyperchunk.dataset import Dataset
from hyperchunk.datatype import Datatype
from hyperchunk.dtypes import (
    Empty,
    check_complex_dtype,
    check_dtype,
    check_enum_dtype,
    check_opaque_dtype,
    check_ref_dtype,
    check_string_dtype,
    check_vlen_dtype,
    complex_compat_dtype,
    enum_dtype,
    opaque_dtype,
    ref_dtype,
    regionref_dtype,
    special_dtype,
    string_dtype,
    vlen_dtype,
)
from hyperchunk.exceptions import HyperchunkError
from hyperchunk.file import File, is_hdf5
from hyperchunk.group import Group
from hyperchunk.links import ExternalLink, HardLink, SoftLink, UserLink
from hyperchunk.objects import HLObject
from hyperchunk.references import AttributeReference, Reference, RegionReference
from hyperchunk.selections import MultiBlockSlice

_core.set_package_dir(str(Path(__file__).resolve().parent))


def open(name: Any, mode: str = "r", **options: Any) -> File:
    """Opens an HDF5 file; see :class:`File` for what `name` and `options` may be."""
    return File(name, mode, **options)


__all__ = [
    "AttributeManager",
    "AttributeReference",
    "Dataset",
    "Datatype",
    "Empty",
    "ExternalLink",
    "File",
    "Group",
    "HLObject",
    "HardLink",
    "HyperchunkError",
    "MultiBlockSlice",
    "Reference",
    "RegionReference",
    "SoftLink",
    "UserLink",
    "__version__",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "complex_compat_dtype",
    "enum_dtype",
    "exceptions",
    "is_hdf5",
    "opaque_dtype",
    "open",
    "plugins",
    "ref_dtype",
    "regionref_dtype",
    "special_dtype",
    "string_dtype",
    "udf",
    "vlen_dtype",
]
