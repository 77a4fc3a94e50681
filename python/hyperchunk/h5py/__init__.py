"""Hyperchunk under h5py's name, for programs and libraries that are written for h5py.

``import hyperchunk.h5py as h5py`` gives a program h5py's classes and functions, and
:func:`install` makes ``import h5py`` mean this module in the whole process, so that libraries use it as well.
"""

from __future__ import annotations

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
from hyperchunk.h5py import (
    _hl,
    _objects,
    h5,
    h5a,
    h5ac,
    h5d,
    h5ds,
    h5f,
    h5fd,
    h5g,
    h5i,
    h5l,
    h5o,
    h5p,
    h5pl,
    h5py_warnings,
    h5r,
    h5s,
    h5t,
    h5z,
    version,
)
from hyperchunk.h5py._hl import filters
from hyperchunk.h5py._hl.attrs import AttributeManager
from hyperchunk.h5py._hl.base import HLObject, native
from hyperchunk.h5py._hl.dataset import Dataset
from hyperchunk.h5py._hl.datatype import Datatype
from hyperchunk.h5py._hl.files import File, register_driver, registered_drivers, unregister_driver
from hyperchunk.h5py._hl.group import ExternalLink, Group, HardLink, SoftLink
from hyperchunk.h5py._hl.vds import VirtualLayout, VirtualSource
from hyperchunk.h5py._install import Installed, install, uninstall
from hyperchunk.h5py.h5 import get_config
from hyperchunk.h5py.h5f import is_hdf5
from hyperchunk.references import Reference, RegionReference
from hyperchunk.selections import MultiBlockSlice
from hyperchunk.virtual import UNLIMITED

__version__ = version.version


def __getattr__(name: str) -> object:
    return _objects.missing(__name__)(name)


def run_tests(args: str = "") -> int:
    """Raises an error: h5py's own tests are in h5py's package."""
    raise _objects.MissingError("h5py.run_tests")


def enable_ipython_completer() -> None:
    """Does nothing: completion of names is a method of groups."""


def _register_converters() -> None:
    """Does nothing: conversions need no registration."""


_unregister_converters = _register_lzf = _register_converters

__all__ = [
    "UNLIMITED",
    "AttributeManager",
    "Dataset",
    "Datatype",
    "Empty",
    "ExternalLink",
    "File",
    "Group",
    "HLObject",
    "HardLink",
    "Installed",
    "MultiBlockSlice",
    "Reference",
    "RegionReference",
    "SoftLink",
    "VirtualLayout",
    "VirtualSource",
    "__version__",
    "_hl",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "complex_compat_dtype",
    "enable_ipython_completer",
    "enum_dtype",
    "filters",
    "get_config",
    "h5",
    "h5a",
    "h5ac",
    "h5d",
    "h5ds",
    "h5f",
    "h5fd",
    "h5g",
    "h5i",
    "h5l",
    "h5o",
    "h5p",
    "h5pl",
    "h5py_warnings",
    "h5r",
    "h5s",
    "h5t",
    "h5z",
    "install",
    "is_hdf5",
    "native",
    "opaque_dtype",
    "ref_dtype",
    "regionref_dtype",
    "register_driver",
    "registered_drivers",
    "run_tests",
    "special_dtype",
    "string_dtype",
    "uninstall",
    "unregister_driver",
    "version",
    "vlen_dtype",
]
