"""Compatibility with h5py: ``__class__`` for ``isinstance`` checks, and ``id`` with the low-level calls that
libraries use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, TypeVar

from hyperchunk.exceptions import InvalidError, UnsupportedError, also
from hyperchunk.typing import Dtype

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from hyperchunk.dataset import Dataset
    from hyperchunk.objects import HLObject


R = TypeVar("R")

#: Filters that h5py names.
FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 6: "scaleoffset", 32000: "lzf"}
# Coding options in szip's parameter.
_SZIP_ENTROPY, _SZIP_NEAREST = 4, 32

#: Settings of a filter as h5py shows them: gzip's level, szip's coding and block size, or all parameters.
FilterSetting: TypeAlias = int | tuple[int | str, ...] | None


def filter_setting(number: int, parameters: list[int]) -> FilterSetting:
    """Returns the settings of a filter as h5py shows them."""
    if number == 1 and parameters:
        return parameters[0]
    if number == 4 and len(parameters) > 1:
        for code, bit in (("ec", _SZIP_ENTROPY), ("nn", _SZIP_NEAREST)):
            if parameters[0] & bit:
                return (code, parameters[1])
        raise TypeError("Unknown SZIP configuration")
    return None if number == 32000 or not parameters else tuple(parameters)


def class_of_h5py(name: str, place: str = "h5py") -> Any:
    """Returns a property for ``__class__``: the class of that name in h5py, or in its module `place`, if that is
    imported, so that ``isinstance(found, h5py.Dataset)`` is true. ``type(found)``, and ``isinstance`` with our own
    classes, work as usual.
    """

    def find(self: object) -> type:
        module = sys.modules.get(place)
        found = getattr(module, name, None)
        return found if isinstance(found, type) else type(self)

    return property(find)


class ChunkInfo(NamedTuple):
    """A stored chunk, like h5py's ``StoreInfo``."""

    #: Indices of its first element.
    chunk_offset: tuple[int, ...]
    #: Mask of skipped filters, one bit for each.
    filter_mask: int
    #: Offset in the file; None if unknown.
    byte_offset: int | None
    #: Stored size in bytes.
    size: int


class ObjectID:
    """Handle like those of h5py's low-level interface. Methods without an equivalent raise an error that names them."""

    __slots__ = ("_object",)

    def __init__(self, found: HLObject) -> None:
        self._object = found

    @property
    def valid(self) -> bool:
        """True if the file is open."""
        return bool(self._object)

    @property
    def id(self) -> int:
        """Number that identifies the object while its file is open."""
        return hash(self) & 0x7FFFFFFFFFFFFFFF

    @property
    def name(self) -> bytes | None:
        """Path of the object; for a file, the file name."""
        from hyperchunk.file import File

        if isinstance(self._object, File):
            return self._object.filename.encode("utf-8", "surrogateescape")
        name = self._object.name
        return None if name is None else name.encode("utf-8", "surrogateescape")

    def close(self) -> None:
        """Does nothing: objects need not be closed."""

    def __bool__(self) -> bool:
        return self.valid

    def __eq__(self, other: object) -> bool:
        return self._object == other._object if isinstance(other, ObjectID) else NotImplemented

    def __hash__(self) -> int:
        return hash((ObjectID, self._object))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"cannot call {type(self).__name__}.{name}: hyperchunk has no libhdf5 below it, and no equivalent of this; "
            "see 'Moving from h5py' in the documentation"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._object!r}>"


class DatasetID(ObjectID):
    """Handle of a dataset."""

    __slots__ = ()

    _object: Dataset

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Extent of the dataset."""
        return self._object.shape

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self._object.ndim

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype of the elements."""
        return self._object.dtype

    def get_num_chunks(self) -> int:
        """Returns the number of stored chunks."""
        return len(self._stored())

    def get_chunk_info(self, index: int, *_: object) -> ChunkInfo:
        """Returns a stored chunk by its number, in the order of coordinates."""
        chunks = self._stored()
        if not -len(chunks) <= index < len(chunks):
            raise ValueError(f"cannot get chunk {index}: {len(chunks)} are stored")
        return chunks[index]

    def get_chunk_info_by_coord(self, offset: tuple[int, ...]) -> ChunkInfo:
        """Returns the chunk whose first element has these indices; size 0 if it is not stored."""
        found = next((chunk for chunk in self._stored() if chunk.chunk_offset == tuple(offset)), None)
        return found or ChunkInfo(tuple(offset), 0, None, 0)

    def chunk_iter(self, work: Callable[[ChunkInfo], R | None], *_: object) -> R | None:
        """Calls a function for each stored chunk, until it returns a value other than None."""
        for chunk in self._stored():
            if (found := work(chunk)) is not None:
                return found
        return None

    def get_storage_size(self) -> int:
        """Returns the size of the stored chunks in bytes; for other layouts, of the elements, or 0 if they are not
        stored in the file.
        """
        if self._object.chunks is not None:
            return sum(chunk.size for chunk in self._stored())
        from hyperchunk.h5py import _files, h5d

        return h5d.DatasetID(self._object, _files.wrap_native(self._object.file)).get_storage_size()

    def _stored(self) -> list[ChunkInfo]:
        if self._object.chunks is None:
            raise TypeError(f"the dataset is not stored in chunks (object {self._object.name})")
        return [ChunkInfo(*chunk) for chunk in self._object._readable.stored_chunks()]

    def read_direct_chunk(self, offsets: tuple[int, ...], *_: object) -> tuple[int, bytes]:
        """Returns a chunk in its stored form: the mask of skipped filters, and the bytes."""
        return self._object.read_chunk(offsets)

    def write_direct_chunk(self, offsets: tuple[int, ...], data: Buffer, filter_mask: int = 0, *_: object) -> None:
        """Stores a chunk as it is: `data` is the output of the filters."""
        write = getattr(self._object, "write_chunk", None)
        if write is None:
            from hyperchunk.objects import refusal

            raise refusal()
        try:
            write(offsets, data, filter_mask)
        except InvalidError as error:
            raise also(error, OSError) from None


__all__ = ["FILTERS", "ChunkInfo", "DatasetID", "FilterSetting", "ObjectID", "class_of_h5py", "filter_setting"]
