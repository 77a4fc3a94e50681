"""Hyperchunk: HDF5 that computes, streams and scales.

- :func:`open` reads and writes HDF5 files with h5py's interface and without libhdf5.
- :meth:`Group.table` and :meth:`Dataset.arrow` return data as Apache Arrow tables, for pyarrow, polars, pandas and
  DuckDB.
- :mod:`hyperchunk.frames` reads data of pandas, PyTables, AnnData, MATLAB, NWB, NeXus and Keras as these show them.
- :mod:`hyperchunk.udf` attaches programs to HDF5 files as live datasets.
- :mod:`hyperchunk.store` lets many processes write one file.
- :mod:`hyperchunk.trust` manages whose programs may run, and with which rights.
- :mod:`hyperchunk.plugins` makes live datasets readable for every HDF5 program.
"""

from __future__ import annotations

import importlib
import os.path

from hyperchunk import _core
from hyperchunk._core import __version__, set_metadata_cache_bytes

# A constant of our own: importing `typing` takes as long as the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, Unpack, overload

    from hyperchunk import (
        arrow,
        cloud,
        cuda,
        exceptions,
        executors,
        frames,
        h5coro,
        hdf5_udf,
        layouts,
        netcdf,
        observing,
        plugins,
        pool,
        progress,
        store,
        trust,
        typing,
        udf,
    )
    from hyperchunk.arrow import Table, scan_hyperchunk
    from hyperchunk.arrow.dual import DualFile, DualOptions
    from hyperchunk.attributes import AttributeManager
    from hyperchunk.cloud import check, index
    from hyperchunk.collection import Collection, open_collection
    from hyperchunk.collection_dataset import CollectionDataset, FileStatistics
    from hyperchunk.collection_queries import CollectionQuery, FileMatches
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
    from hyperchunk.salvaging import SalvagedObject, SalvageReport, salvage
    from hyperchunk.selections import MultiBlockSlice
    from hyperchunk.typing import (
        AnyModeOptions,
        CreateOptions,
        FileName,
        NetworkOptions,
        NewFileOptions,
        PathLike,
        StorageOptions,
    )
    from hyperchunk.virtual import UNLIMITED, VirtualLayout, VirtualSource
    from hyperchunk.write.file import WritableFile

_core.set_package_dir(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 (pathlib takes 10 ms to import)

# Home module of each public name, imported on first use: the command needs neither NumPy nor the reader's classes.
_HOMES = {
    "arrow": ("Table", "scan_hyperchunk"),
    "attributes": ("AttributeManager",),
    "cloud": ("check", "index"),
    "collection": ("Collection", "open_collection"),
    "collection_dataset": ("CollectionDataset", "FileStatistics"),
    "collection_queries": ("CollectionQuery", "FileMatches"),
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
    "salvaging": ("SalvageReport", "SalvagedObject", "salvage"),
    "selections": ("MultiBlockSlice",),
    "virtual": ("UNLIMITED", "VirtualLayout", "VirtualSource"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
# Public modules, also imported on first use.
_MODULES = (
    "arrow",
    "cloud",
    "cuda",
    "exceptions",
    "executors",
    "frames",
    "h5coro",
    "h5py",
    "hdf5_udf",
    "layouts",
    "netcdf",
    "observing",
    "plugins",
    "pool",
    "progress",
    "store",
    "trust",
    "typing",
    "udf",
    "zarr",
)
# Names of h5py that only `hyperchunk.h5py` has.
_H5PY_NAMES = (
    *("_hl", "enable_ipython_completer", "get_config", "h5", "h5a", "h5ac", "h5d", "h5ds", "h5f", "h5fd", "h5g", "h5i"),
    *("h5l", "h5o", "h5p", "h5pl", "h5py_warnings", "h5r", "h5s", "h5t", "h5z", "register_driver"),
    *("registered_drivers", "run_tests", "unregister_driver", "version"),
)


if not TYPE_CHECKING:  # with this function, type checkers would accept any name

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"hyperchunk.{name}")
        home = _HOME.get(name)
        if home is None:
            message = f"module 'hyperchunk' has no attribute {name!r}"
            if name in _H5PY_NAMES:
                message += ": use `import hyperchunk.h5py as h5py` in programs that are written for h5py"
            raise AttributeError(message)
        found = getattr(importlib.import_module(f"hyperchunk.{home}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:

    @overload
    def open(
        name: FileName, mode: Literal["w", "w-", "x", "r+", "a"], **options: Unpack[CreateOptions]
    ) -> WritableFile: ...
    @overload
    def open(name: FileName, mode: str = "r", **options: Unpack[AnyModeOptions]) -> File: ...


def open(
    name: FileName,
    mode: str = "r",
    driver: str | None = None,
    libver: str | tuple[str, str] | None = None,
    userblock_size: int | None = None,
    swmr: bool = False,
    *,
    storage_options: StorageOptions | None = None,
    network: NetworkOptions | None = None,
    locking: bool | str | None = None,
    ignore_locks: bool = False,
    allow_truncated: bool = False,
    threads: int | None = None,
    external: str = "anywhere",
    index: PathLike = "auto",
    epoch: int | None = None,
    layouts: bool = True,
    limits: Mapping[str, int] | None = None,
    **creation: Unpack[NewFileOptions],
) -> File:
    """Opens an HDF5 file for reading or editing, or creates a new one.

    Args:
        name: Path, URL (``s3://bucket/key``, ``gs://…``, ``az://…``, ``https://…``), file-like object, or a pair of an
            fsspec file system or an obstore store and a path in it.
        mode: ``"r"`` reads a file; ``"r+"`` edits an existing one; ``"a"`` edits or creates one; ``"w"`` creates one,
            replacing an existing file; ``"x"`` or ``"w-"`` creates one that must not exist.
        driver, libver, userblock_size, swmr: h5py's: see :class:`File`.
        storage_options: Access to a store: ``endpoint``, ``region``, ``key``, ``secret``, ``token``, ``anonymous``, ….
        network: Tuning of requests: :class:`hyperchunk.typing.NetworkOptions`.
        locking, ignore_locks, allow_truncated, threads, external, index, epoch, layouts, limits: See :class:`File`.
        creation: Options of new files: see :class:`hyperchunk.write.file.WritableFile`.

    Returns:
        A :class:`File`, or for other modes than ``"r"`` a :class:`hyperchunk.write.file.WritableFile`. A ``with`` block
            closes it.

    Raises:
        NotFoundError: There is no such file.
        NotHdf5Error: The file has no HDF5 signature.
        UnsupportedError: The file cannot be edited (mode ``"a"`` or ``"r+"``); the message says why.
        TypeError: An option does not exist, or not for this mode.

    Example:
        >>> with hyperchunk.open("scene.h5", "w") as file:
        ...     file["B04"] = numpy.arange(6.0).reshape(2, 3)
        >>> with hyperchunk.open("scene.h5") as file:
        ...     file["B04"][:, 1].tolist()
        [1.0, 4.0]
    """
    from hyperchunk.file import File

    if mode in ("w", "w-", "x", "r+", "a"):
        from hyperchunk.write.file import WritableFile

        # Options for reading are errors in these modes.
        for_reading = {
            "ignore_locks": ignore_locks or None,
            "allow_truncated": allow_truncated or None,
            "external": None if external == "anywhere" else external,
            "index": None if index == "auto" else index,
            "epoch": epoch,
            "layouts": None if layouts else layouts,
            "limits": limits,
        }
        if given := [option for option, value in for_reading.items() if value is not None]:
            raise TypeError(f"open() got {given[0]!r}, an option for reading, with mode {mode!r}")
        return WritableFile(
            name,
            mode,
            driver,
            libver,
            userblock_size,
            swmr,
            locking=locking,
            threads=threads,
            storage_options=storage_options,
            network=network,
            **creation,
        )
    return File(
        name,
        mode,
        driver=driver,
        libver=libver,
        userblock_size=userblock_size,
        swmr=swmr,
        locking=locking,
        ignore_locks=ignore_locks,
        allow_truncated=allow_truncated,
        threads=threads,
        external=external,
        index=index,
        epoch=epoch,
        layouts=layouts,
        limits=limits,
        storage_options=storage_options,
        network=network,
        **creation,
    )


if TYPE_CHECKING:

    @overload
    def create(name: PathLike, *, layout: Literal["arrow"], **options: Unpack[DualOptions]) -> DualFile: ...
    @overload
    def create(name: FileName, **options: Unpack[CreateOptions]) -> WritableFile: ...


def create(name: FileName, *, layout: str | None = None, **options: object) -> WritableFile:
    """Creates a new HDF5 file, replacing an existing one: :func:`open` with mode ``"w"``.

    Args:
        name: As for :func:`open`; a path for ``layout="arrow"``.
        layout: ``"arrow"``: the file is an Arrow IPC file, too (:class:`hyperchunk.arrow.dual.DualFile`); ``"cloud"``:
            all structure is in the first page; None: neither.
        options: Options of new files: :class:`hyperchunk.typing.CreateOptions`, or for ``layout="arrow"`` those of
            :class:`hyperchunk.arrow.dual.DualFile`.

    Returns:
        The file. A ``with`` block closes it.

    Example:
        >>> with hyperchunk.create("new.h5", track_order=True) as file:
        ...     file["x"] = [1, 2, 3]
    """
    if layout == "arrow":
        from hyperchunk.arrow.dual import DualFile

        return DualFile(name, **options)  # type: ignore[arg-type]
    return open(name, "w", layout=layout, **options)  # type: ignore[call-overload, no-any-return]


__all__ = [
    "UNLIMITED",
    "AttributeManager",
    "AttributeReference",
    "Collection",
    "CollectionDataset",
    "CollectionQuery",
    "Dataset",
    "Datatype",
    "Empty",
    "ExternalLink",
    "File",
    "FileMatches",
    "FileStatistics",
    "Group",
    "HLObject",
    "HardLink",
    "HyperchunkError",
    "Layout",
    "MultiBlockSlice",
    "Query",
    "Reference",
    "RegionReference",
    "SalvageReport",
    "SalvagedObject",
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
    "arrow",
    "check",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "cloud",
    "complex_compat_dtype",
    "create",
    "cuda",
    "enum_dtype",
    "exceptions",
    "executors",
    "frames",
    "h5coro",
    "h5py",
    "hdf5_udf",
    "index",
    "is_hdf5",
    "layouts",
    "netcdf",
    "observing",
    "opaque_dtype",
    "open",
    "open_collection",
    "plugins",
    "pool",
    "progress",
    "query",
    "ref_dtype",
    "regionref_dtype",
    "register_filter",
    "restructure",
    "salvage",
    "scan_hyperchunk",
    "set_metadata_cache_bytes",
    "special_dtype",
    "store",
    "string_dtype",
    "trust",
    "typing",
    "udf",
    "vlen_dtype",
]
