"""Types of arguments and results, for annotations.

>>> from hyperchunk.typing import Array, OpenOptions
>>> options: OpenOptions = {"threads": 2}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow

    from hyperchunk import _core
    from hyperchunk.dataset import Dataset
    from hyperchunk.datatype import Datatype
    from hyperchunk.group import Group
    from hyperchunk.references import RegionReference
    from hyperchunk.selections import MultiBlockSlice
    from hyperchunk.write.dataset import WritableDataset
    from hyperchunk.write.group import WritableDatatype, WritableGroup

#: An array of elements of any dtype.
Array: TypeAlias = npt.NDArray[Any]
#: Any NumPy dtype.
Dtype: TypeAlias = np.dtype[Any]
#: Extent: the length of each dimension.
Shape: TypeAlias = tuple[int, ...]
#: Result of an index, by h5py's rules: an :data:`Array` of the dataset's dtype if elements are selected in a dimension;
#: else one element: a NumPy scalar, ``bytes`` for a string, an array for a sequence, a reference, or
#: :class:`hyperchunk.Empty` for a null dataspace.
Values: TypeAlias = Any
#: Python value of an attribute: as :data:`Values`, with strings as ``str``.
AttributeValue: TypeAlias = Any
#: Member of a group, and of one that is being written. Narrow it by ``isinstance``, or use
#: :meth:`hyperchunk.Group.dataset` and :meth:`hyperchunk.Group.group`.
Member: TypeAlias = "Group | Dataset | Datatype"
WritableMember: TypeAlias = "WritableGroup | WritableDataset | WritableDatatype"
#: Index of one dimension, the name of a member, a mask of the whole dataset, or a region reference.
IndexItem: TypeAlias = (
    "SupportsIndex | slice | EllipsisType | str | Sequence[int] | Array | MultiBlockSlice | RegionReference"
)
#: Index of a dataset, as in ``dataset[index]``.
Index: TypeAlias = "IndexItem | tuple[IndexItem, ...]"
#: Index of a dataset that cannot be the name of a group's member.
ElementIndex: TypeAlias = "SupportsIndex | slice | EllipsisType | list[int] | Array | tuple[IndexItem, ...]"
#: Dtype of a new dataset or attribute: NumPy's forms of it, or a committed datatype.
DtypeOrDatatype: TypeAlias = "npt.DTypeLike | Datatype | _core.Datatype"
#: Shape of a new dataset; an integer means one dimension.
ShapeLike: TypeAlias = int | Sequence[int]
#: External files with a dataset's data: one name, or name, offset and size of each; the last two may be missing.
ExternalFile: TypeAlias = str | bytes | Path
ExternalFiles: TypeAlias = (
    ExternalFile
    | Sequence[ExternalFile | tuple[ExternalFile] | tuple[ExternalFile, int] | tuple[ExternalFile, int, int]]
)
#: Maximum extent of a new dataset: None in an unlimited dimension, True for no limit in all.
MaxShape: TypeAlias = int | Sequence[int | None] | bool | None
#: Rows of a table: a slice, a range, or the first row and the end (exclusive).
Rows: TypeAlias = slice | tuple[int, int] | range
#: Path or URL.
PathLike: TypeAlias = str | os.PathLike[str]


class SupportsSeekRead(Protocol):
    """A binary file-like object."""

    def read(self, size: int, /) -> bytes:
        """Reads at most `size` bytes."""

    def seek(self, offset: int, whence: int = 0, /) -> int | None:
        """Moves to an offset in bytes."""

    def tell(self) -> int:
        """Returns the offset in bytes."""


class SupportsFsPath(Protocol):
    """A path in an fsspec file system: an ``OpenFile``, or a path of universal_pathlib."""

    @property
    def fs(self) -> object:
        """The file system."""

    @property
    def path(self) -> str:
        """The path in it."""


class SupportsArrowStream(Protocol):
    """Arrow data as a stream of record batches: a table, a reader, a data frame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class SupportsArrowArray(Protocol):
    """Arrow data as one array or record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class SupportsArrowSchema(Protocol):
    """An Arrow schema, or data with one."""

    def __arrow_c_schema__(self) -> object: ...


#: Arrow data: of pyarrow, polars, pandas, DuckDB and others.
ArrowData: TypeAlias = SupportsArrowStream | SupportsArrowArray
#: A file: a path, a URL, a binary file-like object (also of fsspec), a path of fsspec or universal_pathlib, or a pair
#: of an fsspec file system or an obstore store and a path in it.
FileName: TypeAlias = PathLike | bytes | SupportsSeekRead | SupportsFsPath | tuple[object, str]
#: Access to a store: ``endpoint``, ``region``, ``key``, ``secret``, ``token``, ``anonymous``, ``allow_http``, and
#: every other option of the store.
StorageOptions: TypeAlias = Mapping[str, object]
#: Filter given by name, by number, by number and options, or as an object of hdf5plugin.
FilterLike: TypeAlias = str | SupportsIndex | Sequence[object] | Mapping[str, object]
#: Attributes by name.
Attributes: TypeAlias = Mapping[str, object]


class NetworkOptions(TypedDict, total=False):
    """Tuning of requests."""

    #: Time limit of a request, of a connection, and of all retries, in seconds.
    timeout: float
    connect_timeout: float
    retry_timeout: float
    #: Maximum number of retries.
    retries: int
    #: Maximum number of requests at a time.
    concurrency: int
    #: Number of bytes for which opening waits, and number of bytes after them that the same request fetches meanwhile.
    first_read: int
    read_ahead: int
    #: Minimum size in bytes of a piece of metadata that is fetched.
    block: int
    #: Ranges at most this number of bytes apart are fetched with one request.
    gap: int
    #: Maximum size of a request in bytes.
    largest_request: int
    #: Maximum number of unneeded bytes, as a fraction of the needed ones.
    over_read: float
    #: Size in bytes of a part of an upload, and maximum number of parts at a time.
    part: int
    parts_at_once: int


class CacheOptions(TypedDict, total=False):
    """h5py's options for libhdf5's caches. Their values are checked, and have no effect."""

    rdcc_nslots: int | None
    rdcc_nbytes: int | None
    rdcc_w0: float | None
    page_buf_size: int | None
    min_meta_keep: int | None
    min_raw_keep: int | None
    meta_block_size: int | None
    block_size: int | None


class NewFileOptions(CacheOptions, total=False):
    """Options for new files: see :class:`hyperchunk.write.file.WritableFile`. When an existing file is read, those of
    h5py have no effect, and the others are errors.
    """

    track_order: bool | None
    track_times: bool | None
    fs_strategy: str | None
    fs_persist: bool
    fs_threshold: int
    fs_page_size: int | None
    alignment_threshold: int
    alignment_interval: int
    backing_store: bool | None
    sync: str | bool | None
    layout: str | None
    page_size: int | None
    alignment: int
    journal: bool
    guard: bool
    waiting_bytes: int


class OpenOptions(CacheOptions, total=False):
    """Options for reading a file: see :class:`hyperchunk.File`."""

    swmr: bool
    locking: bool | str | None
    ignore_locks: bool
    allow_truncated: bool
    threads: int | None
    external: str
    index: PathLike
    epoch: int | None
    layouts: bool
    limits: Mapping[str, int] | None
    storage_options: StorageOptions | None
    network: NetworkOptions | None
    driver: str | None
    libver: str | tuple[str, str] | None
    userblock_size: int | None


class AnyModeOptions(OpenOptions, NewFileOptions, total=False):
    """Options of :func:`hyperchunk.open` for a mode that type checkers do not know."""


class CreateOptions(NewFileOptions, total=False):
    """Options of a new file: see :class:`hyperchunk.write.file.WritableFile`."""

    driver: str | None
    libver: str | tuple[str, str] | None
    userblock_size: int | None
    locking: bool | str | None
    threads: int | None
    storage_options: StorageOptions | None
    network: NetworkOptions | None


class DatasetOptions(TypedDict, total=False):
    """Options of a new dataset: see :meth:`hyperchunk.write.group.WritableGroup.create_dataset`."""

    #: Shape of a chunk; True for a guess, False for a contiguous layout.
    chunks: int | Sequence[int] | bool | None
    maxshape: MaxShape
    #: Preset (``"deflate"``, ``"fast"``, ``"small"``, ``"snappy"``, ``"none"``), or filters.
    filters: str | Sequence[FilterLike] | None
    #: ``"gzip"``, ``"lzf"``, ``"szip"``, a level of gzip, a filter's number, or an object of hdf5plugin.
    compression: FilterLike | bool | None
    compression_opts: object
    shuffle: bool | None
    fletcher32: bool | None
    scaleoffset: int | bool | None
    #: ``"compact"``, ``"contiguous"`` or ``"chunked"``.
    layout: str | None
    #: External files: names, or name, offset and size of each.
    external: ExternalFiles | None
    fillvalue: object
    #: Time at which fill values are written: ``"ifset"``, ``"alloc"`` or ``"never"``.
    fill_time: str | None
    track_order: bool | None
    track_times: bool | None
    #: Accept a filter without a codec, for chunks that are written in their stored form.
    allow_unknown_filter: bool
    #: h5py's options for prefixes of file names; only None is supported.
    efile_prefix: None
    virtual_prefix: None
    #: h5py's options for libhdf5's chunk cache; without effect.
    rdcc_nslots: int | None
    rdcc_nbytes: int | None
    rdcc_w0: float | None


#: Conversion of multi-dimensional cells, strings, 16-bit floats, enumerations and compounds to Arrow.
Cells: TypeAlias = Literal["tensor", "list"]
Strings: TypeAlias = Literal["text", "stored"]
Half: TypeAlias = Literal["float16", "float32"]
Enums: TypeAlias = Literal["values", "dictionary"]
Compounds: TypeAlias = Literal["columns", "struct"]


class ConversionOptions(TypedDict, total=False):
    """Conversion of HDF5 data to Arrow: see :meth:`hyperchunk.Group.table`."""

    cells: Cells | None
    strings: Strings | None
    half: Half | None
    enums: Enums | None
    compounds: Compounds | None


class DlpackOptions(TypedDict, total=False):
    """Arguments of ``__dlpack__`` in the array API standard."""

    stream: None
    max_version: tuple[int, int] | None
    dl_device: tuple[int, int] | None
    copy: bool | None


class PandasOptions(TypedDict, total=False):
    """Options of :meth:`pyarrow.Table.to_pandas`."""

    memory_pool: object
    categories: Sequence[str] | None
    strings_to_categorical: bool
    zero_copy_only: bool
    integer_object_nulls: bool
    date_as_object: bool
    timestamp_as_object: bool
    use_threads: bool
    deduplicate_objects: bool
    ignore_metadata: bool
    safe: bool
    split_blocks: bool
    self_destruct: bool
    maps_as_pydicts: str | None
    types_mapper: Callable[[pyarrow.DataType], object] | None
    coerce_temporal_nanoseconds: bool


__all__ = [
    "AnyModeOptions",
    "Array",
    "ArrowData",
    "AttributeValue",
    "Attributes",
    "CacheOptions",
    "Cells",
    "Compounds",
    "ConversionOptions",
    "CreateOptions",
    "DatasetOptions",
    "DlpackOptions",
    "Dtype",
    "DtypeOrDatatype",
    "ElementIndex",
    "Enums",
    "ExternalFile",
    "ExternalFiles",
    "FileName",
    "FilterLike",
    "Half",
    "Index",
    "IndexItem",
    "MaxShape",
    "Member",
    "NetworkOptions",
    "NewFileOptions",
    "OpenOptions",
    "PandasOptions",
    "PathLike",
    "Rows",
    "Shape",
    "ShapeLike",
    "StorageOptions",
    "Strings",
    "SupportsArrowArray",
    "SupportsArrowSchema",
    "SupportsArrowStream",
    "SupportsFsPath",
    "SupportsSeekRead",
    "Values",
    "WritableMember",
]
