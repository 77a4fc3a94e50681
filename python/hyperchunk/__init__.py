"""Hyperchunk: HDF5 that computes, streams and scales.

- :func:`open` reads and writes HDF5 files with h5py's interface and without libhdf5.
- :meth:`Group.table` and :meth:`Dataset.arrow` return data as Apache Arrow tables, for pyarrow, polars, pandas and
  DuckDB.
- :mod:`hyperchunk.udf` attaches programs to HDF5 files as live datasets.
- :mod:`hyperchunk.trust` manages whose programs may run, and with which rights.
- :mod:`hyperchunk.plugins` makes live datasets readable for every HDF5 program.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperchunk import _core
from hyperchunk._core import __version__, set_metadata_cache_bytes

if TYPE_CHECKING:
    from hyperchunk import cuda, exceptions, executors, layouts, plugins, trust, udf
    from hyperchunk.arrow import Table, scan_hyperchunk
    from hyperchunk.attributes import AttributeManager
    from hyperchunk.cloud import check, index
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
    from hyperchunk.file import File, Stats, is_hdf5
    from hyperchunk.filters import register_filter
    from hyperchunk.group import Group
    from hyperchunk.layouts import Layout, restructure
    from hyperchunk.links import ExternalLink, HardLink, SoftLink, UserLink
    from hyperchunk.objects import HLObject
    from hyperchunk.queries import Query, StoredStatistics, Zones, analyze, query
    from hyperchunk.references import AttributeReference, Reference, RegionReference
    from hyperchunk.selections import MultiBlockSlice
    from hyperchunk.virtual import UNLIMITED, VirtualLayout, VirtualSource

_core.set_package_dir(str(Path(__file__).resolve().parent))

# Home module of each public name, imported on first use: the command needs neither NumPy nor the reader's classes.
_HOMES = {
    "arrow": ("Table", "scan_hyperchunk"),
    "attributes": ("AttributeManager",),
    "cloud": ("check", "index"),
    "dataset": ("Dataset",),
    "datatype": ("Datatype",),
    "dtypes": (
        "Empty",
        "check_complex_dtype",
        "check_dtype",
        "check_enum_dtype",
        "check_opaque_dtype",
        "check_ref_dtype",
        "check_string_dtype",
        "check_vlen_dtype",
        "complex_compat_dtype",
        "enum_dtype",
        "opaque_dtype",
        "ref_dtype",
        "regionref_dtype",
        "special_dtype",
        "string_dtype",
        "vlen_dtype",
    ),
    "exceptions": ("HyperchunkError",),
    "file": ("File", "Stats", "is_hdf5"),
    "filters": ("register_filter",),
    "group": ("Group",),
    "layouts": ("Layout", "restructure"),
    "links": ("ExternalLink", "HardLink", "SoftLink", "UserLink"),
    "objects": ("HLObject",),
    "queries": ("Query", "StoredStatistics", "Zones", "analyze", "query"),
    "references": ("AttributeReference", "Reference", "RegionReference"),
    "selections": ("MultiBlockSlice",),
    "virtual": ("UNLIMITED", "VirtualLayout", "VirtualSource"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = frozenset(
    (
        "arrow",
        "cuda",
        "exceptions",
        "executors",
        "h5coro",
        "layouts",
        "netcdf",
        "plugins",
        "pool",
        "store",
        "trust",
        "udf",
    )
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"hyperchunk.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'hyperchunk' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"hyperchunk.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def open(name: Any, mode: str = "r", **options: Any) -> File:
    """Opens an HDF5 file; see :class:`File` for `name` and `options`."""
    from hyperchunk.file import File

    return File(name, mode, **options)


def create(name: Any, *, layout: str | None = None, **options: Any) -> Any:
    """Creates a new HDF5 file, replacing an existing one: :func:`open` with mode ``"w"``. With ``layout="arrow"`` the
    file is an Arrow IPC file, too: see :class:`hyperchunk.arrow.dual.DualFile`.
    """
    if layout == "arrow":
        from hyperchunk.arrow.dual import DualFile

        return DualFile(name, **options)
    return open(name, "w", layout=layout, **options)


__all__ = [
    "UNLIMITED",
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
    "Layout",
    "MultiBlockSlice",
    "Query",
    "Reference",
    "RegionReference",
    "SoftLink",
    "Stats",
    "StoredStatistics",
    "Table",
    "UserLink",
    "VirtualLayout",
    "VirtualSource",
    "Zones",
    "__version__",
    "analyze",
    "check",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "complex_compat_dtype",
    "create",
    "cuda",
    "enum_dtype",
    "exceptions",
    "executors",
    "index",
    "is_hdf5",
    "layouts",
    "opaque_dtype",
    "open",
    "plugins",
    "query",
    "ref_dtype",
    "regionref_dtype",
    "register_filter",
    "restructure",
    "scan_hyperchunk",
    "set_metadata_cache_bytes",
    "special_dtype",
    "string_dtype",
    "trust",
    "udf",
    "vlen_dtype",
]
