"""Datasets."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from hyperchunk import Dataset, _core, dtypes, values
from hyperchunk.exceptions import InvalidError, UnsupportedError, also
from hyperchunk.h5py import h5s, h5t
from hyperchunk.h5py._objects import Location, LocationID, R, missing, writable
from hyperchunk.h5py._types import in_file, plain_memory
from hyperchunk.h5py.h5s import SpaceID
from hyperchunk.typing import Array, Dtype
from hyperchunk.write import elements

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

    from hyperchunk import Datatype
    from hyperchunk.h5py import h5p
    from hyperchunk.h5py.h5g import GroupID
    from hyperchunk.write.dataset import WritableDataset

COMPACT, CONTIGUOUS, CHUNKED, VIRTUAL = 0, 1, 2, 3
ALLOC_TIME_DEFAULT, ALLOC_TIME_EARLY, ALLOC_TIME_LATE, ALLOC_TIME_INCR = 0, 1, 2, 3
FILL_TIME_ALLOC, FILL_TIME_NEVER, FILL_TIME_IFSET = 0, 1, 2
FILL_VALUE_UNDEFINED, FILL_VALUE_DEFAULT, FILL_VALUE_USER_DEFINED = 0, 1, 2
SPACE_STATUS_NOT_ALLOCATED, SPACE_STATUS_PART_ALLOCATED, SPACE_STATUS_ALLOCATED = 0, 1, 2
VDS_FIRST_MISSING, VDS_LAST_AVAILABLE = 0, 1
_LAYOUTS = {"compact": COMPACT, "contiguous": CONTIGUOUS, "chunked": CHUNKED, "virtual": VIRTUAL}


class StoreInfo(NamedTuple):
    """A stored chunk."""

    #: Indices of its first element; None if it is not stored.
    chunk_offset: tuple[int, ...] | None
    #: Mask of skipped filters, one bit for each.
    filter_mask: int
    #: Offset in the file; None if it is not stored.
    byte_offset: int | None
    #: Stored size in bytes.
    size: int


class DatasetID(LocationID[Dataset]):
    """A dataset."""

    @property
    def _written(self) -> WritableDataset:
        """Hyperchunk's object, of a file that is being written; an error if the file is open for reading."""
        return cast("WritableDataset", writable(self._hc))

    #: Settings for libhdf5's chunk cache that the program passed.
    _cache: tuple[int, int, float] | None = None

    #: The dtype, once a program has asked for it.
    _dtype: Dtype | None = None

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype; of a closed file too if a program has asked for it before."""
        if self._dtype is None or self.valid:
            self._dtype = self._hc.dtype
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Extent; None for a null dataspace."""
        found = self._hc.shape
        return None if found is None else tuple(found)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return int(self._hc.ndim)

    # --- Properties ---

    def get_space(self) -> SpaceID:
        """Returns the dataspace."""
        hc = self._hc
        return SpaceID(hc.shape, hc.maxshape)

    def get_space_status(self) -> int:
        """Returns whether space is allocated for the elements."""
        hc = self._hc
        if hc.is_virtual:
            return SPACE_STATUS_ALLOCATED
        if hc.chunks is None:
            return SPACE_STATUS_ALLOCATED if self.get_storage_size() else SPACE_STATUS_NOT_ALLOCATED
        count = math.prod(-(-length // side) for length, side in zip(hc.shape or (), hc.chunks, strict=True))
        stored = self.get_num_chunks()
        if not stored:
            return SPACE_STATUS_NOT_ALLOCATED
        return SPACE_STATUS_ALLOCATED if stored == count else SPACE_STATUS_PART_ALLOCATED

    def get_type(self) -> h5t.TypeID:
        """Returns the datatype."""
        hc = self._hc
        made = h5t.typewrap(dtypes.in_memory(hc._data.datatype.description))
        address = hc._data.committed
        if address is not None:
            from hyperchunk.group import wrap

            made._found = cast("Datatype", wrap(hc._opened, hc._opened.need().object(address), None))
            made._opened_by = self._handle
        made.lock()
        return made

    def get_create_plist(self) -> h5p.PropDCID:
        """Returns the creation properties."""
        from hyperchunk.h5py import _plists

        return _plists.dataset_plist(self)

    def get_access_plist(self) -> h5p.PropDAID:
        """Returns the access properties."""
        from hyperchunk.h5py import h5p

        settings = self._handle.session.settings
        plist = h5p.PropDAID()
        if "cache" in settings:
            _, slots, size, w0 = settings["cache"]
            plist.set_chunk_cache(slots, size, w0)
        if self._cache is not None:
            plist.set_chunk_cache(*self._cache)
        return plist

    def get_offset(self) -> int | None:
        """Returns the offset of the elements of a contiguous dataset in the file; None for another layout, or if
        they are not allocated.
        """
        hc = self._hc
        if hc._data.layout != "contiguous" or hc._data.external:
            return None
        from hyperchunk.h5py import _headers

        return _headers.place(self)

    def get_storage_size(self) -> int:
        """Returns the size of the elements in the file, in bytes; 0 if none was allocated.

        In a file that is being written, the elements of contiguous datasets always count.
        """
        hc = self._hc
        if hc.chunks is not None:
            return sum(chunk.size for chunk in self._stored())
        if hc.is_virtual or hc.shape is None:
            return 0
        size = int(math.prod(hc.shape) * hc._data.datatype.size)
        if size and hc._data.layout == "contiguous" and not hc._data.external and not self._handle.session.writes:
            with contextlib.suppress(UnsupportedError):  # of a file that is not local
                return 0 if self.get_offset() is None else size
        return size

    def flush(self) -> None:
        """Commits the file."""
        self._hc  # noqa: B018 - raises an error if the file is closed
        if self._handle.session.writes:
            self._handle.session.flush()

    def refresh(self) -> None:
        """Loads the current extent and values."""
        self._hc.refresh()

    def extend(self, shape: tuple[int, ...]) -> None:
        """Enlarges the extent to at least `shape`."""
        now = self.shape or ()
        self._hc.resize(tuple(max(pair) for pair in zip(now, shape, strict=True)))

    def set_extent(self, shape: tuple[int, ...]) -> None:
        """Changes the extent."""
        self._hc.resize(tuple(shape))

    # --- Elements ---

    def _file_space(self, space: SpaceID) -> SpaceID:
        return self.get_space() if space is h5s.ALL or space._dims == () != self.shape else space

    def read(
        self, mspace: SpaceID, fspace: SpaceID, arr: Array, mtype: h5t.TypeID | None = None, dxpl: object = None
    ) -> None:
        """Reads the selection of a dataspace into the selection of an array, with conversion to its dtype."""
        if not arr.flags.c_contiguous or not arr.flags.writeable:
            raise ValueError("Array must be C-contiguous and writable")
        hc = self._hc
        chosen = self._file_space(fspace)
        count, target = chosen.get_select_npoints(), chosen if mspace is h5s.ALL else mspace
        memory, arr = plain_memory(mtype, arr, target._need())
        if memory is not None:
            # Members that the dataset lacks keep their values.
            raw = elements.flat(_gather(arr, target)[:count]).copy().view(f"V{memory[1]}")
            if count:
                hc._data.read(chosen._native(), _core.Conversion(hc._data.datatype, _core.Datatype(memory)), raw)
            _scatter(arr, target, raw.view(arr.dtype))
            return
        plan = values.plan_as(hc._data.datatype.description, arr.dtype if mtype is None else _shown(mtype, arr))
        out = plan.empty((count,))
        if count:
            hc._data.read(chosen._native(), plan.conversion, out)
        found = plan.finish(hc._opened.need(), out)
        _scatter(arr, target, found)

    def write(
        self, mspace: SpaceID, fspace: SpaceID, arr: Array, mtype: h5t.TypeID | None = None, dxpl: object = None
    ) -> None:
        """Writes the selection of an array into the selection of a dataspace, with conversion from its dtype."""
        hc = self._written
        out = hc._out
        chosen = self._file_space(fspace)
        source = chosen if mspace is h5s.ALL else mspace
        memory, buffer = plain_memory(mtype, np.ascontiguousarray(arr), source._need())
        given = _gather(buffer, source)
        if memory is None:
            made = elements.ready(hc._writing.writer, out.datatype.description, given)
        else:
            made = elements.Ready(given, given.shape, None if memory == out.datatype.description else memory)
        if chosen.get_select_npoints() != len(given):
            raise TypeError(f"Can't broadcast {len(given)} elements to a selection of {chosen.get_select_npoints()}")
        if len(given):
            out.write(chosen._native(), made.memory_type, elements.flat(made.array))

    # --- Chunks ---

    def _stored(self) -> list[StoreInfo]:
        hc = self._hc
        if hc.chunks is None:
            raise TypeError("Chunk info not available (not a chunked storage layout)")
        return [StoreInfo(*chunk) for chunk in hc._readable.stored_chunks()]

    def get_num_chunks(self, space: SpaceID | None = None) -> int:
        """Returns the number of stored chunks."""
        return len(self._stored())

    def get_chunk_info(self, index: int, space: SpaceID | None = None) -> StoreInfo:
        """Returns a stored chunk by its number, in the order of coordinates."""
        chunks = self._stored()
        if not 0 <= index < len(chunks):
            raise ValueError(f"Can't get chunk info (chunk index {index} is out of range: {len(chunks)} are stored)")
        return chunks[index]

    def get_chunk_info_by_coord(self, chunk_offset: tuple[int, ...]) -> StoreInfo:
        """Returns the chunk that contains the element at these indices."""
        hc = self._hc
        if hc.chunks is None:
            raise TypeError("Chunk info not available (not a chunked storage layout)")
        first = tuple(int(index) // side * side for index, side in zip(chunk_offset, hc.chunks, strict=True))
        found = next((chunk for chunk in self._stored() if chunk.chunk_offset == first), None)
        return StoreInfo(None, 0, None, 0) if found is None else found

    def chunk_iter(self, func: Callable[[StoreInfo], R | None], dxpl: object = None) -> R | None:
        """Calls a function for each stored chunk until it returns a value."""
        for chunk in self._stored():
            found = func(chunk)
            if found is not None:
                return found
        return None

    def read_direct_chunk(
        self, offsets: Sequence[int], dxpl: object = None, out: Buffer | None = None
    ) -> tuple[int, bytes | memoryview]:
        """Returns a chunk in its stored form: the mask of skipped filters, and the bytes, in `out` if it is given."""
        mask, data = self._hc.read_chunk(tuple(offsets))
        if out is None:
            return mask, data
        view = memoryview(out)
        if view.readonly:
            raise BufferError("The provided buffer is read-only")
        if not view.c_contiguous:
            raise ValueError("The provided buffer is not contiguous")
        view = view.cast("B")
        if len(view) < len(data):
            raise ValueError(f"The provided buffer is only {len(view)} bytes and cannot be used to hold {len(data)}")
        view[: len(data)] = data
        return mask, view[: len(data)]

    def write_direct_chunk(
        self, offsets: Sequence[int], data: Buffer | Array, filter_mask: int = 0, dxpl: object = None
    ) -> None:
        """Stores a chunk as it is: `data` is the output of the filters."""
        try:
            self._hc.write_chunk(tuple(offsets), data, filter_mask)
        except InvalidError as error:
            raise also(error, OSError) from None


def _shown(mtype: h5t.TypeID, arr: Array) -> Dtype:
    """Returns the dtype for reading with a datatype in memory: the array's own for Python objects."""
    return arr.dtype if arr.dtype.hasobject or mtype._description[0] == "opaque" else mtype.dtype


def _index(space: SpaceID, shape: tuple[int, ...]) -> npt.NDArray[np.intp] | None:
    """Returns the flat indices of the selected elements, in the order in which HDF5 visits them; None for all."""
    kind, *rest = space._selected
    if kind == "all":
        return None
    dims = space._need()
    if kind == "points":
        return np.asarray(np.ravel_multi_index(tuple(np.array(rest[1], np.int64).reshape(-1, rest[0]).T), dims))
    return np.flatnonzero(space._mask(space._selected))


def _scatter(arr: Array, space: SpaceID, found: Array) -> None:
    flat = arr.reshape(-1)
    indices = _index(space, arr.shape)
    if indices is None:
        flat[: len(found)] = found
    else:
        flat[indices] = found


def _gather(arr: Array, space: SpaceID) -> Array:
    flat = arr.reshape(-1)
    indices = _index(space, arr.shape)
    found: Array = flat[: space.get_select_npoints()] if indices is None else flat[indices]
    return found


def create(
    loc: GroupID,
    name: bytes | None,
    tid: h5t.TypeID,
    space: SpaceID,
    dcpl: h5p.PropDCID | None = None,
    lcpl: object = None,
    dapl: object = None,
) -> DatasetID:
    """Creates a dataset from a datatype, a dataspace and properties."""
    from hyperchunk.h5py import _plists

    hc = loc._written
    made = _plists.create_dataset(hc, name, tid, in_file(tid._description), space, dcpl)
    if dcpl is not None and (kept := _plists.kept(dcpl)):
        loc._handle.session.created[made._object.address] = kept
    return DatasetID(made, loc._handle)


def open(loc: Location, name: bytes, dapl: object = None) -> DatasetID:
    """Opens a dataset."""
    from hyperchunk.h5py import h5o

    found = h5o.open(loc, name)
    if not isinstance(found, DatasetID):
        raise also(UnsupportedError(f"Unable to open dataset ({name!r} is not a dataset)"), KeyError)
    return found


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
