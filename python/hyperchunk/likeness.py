"""What makes our objects pass for h5py's: their class, as ``isinstance`` asks for it, and ``id`` with the low-level
calls that libraries use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hyperchunk.exceptions import InvalidError, UnsupportedError, also

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.objects import HLObject


def class_of_h5py(name: str) -> Any:
    """A property for ``__class__``: the class of that name of h5py, if a program has it; so ``isinstance(found,
    h5py.Dataset)`` is true. ``type(found)``, and ``isinstance`` for our own classes, are what they are."""

    def find(self: Any) -> type:
        module = sys.modules.get("h5py")
        found = getattr(module, name, None)
        return found if isinstance(found, type) else type(self)

    return property(find)


class ChunkInfo(NamedTuple):
    """A stored chunk, as h5py's ``StoreInfo``."""

    #: The indices of its first element.
    chunk_offset: tuple[int, ...]
    #: Which filters were left out: a bit for each.
    filter_mask: int
    #: Where it lies in the file; None where that is not known.
    byte_offset: int | None
    #: How many bytes it has as it is stored.
    size: int


class ObjectID:
    """An object as libhdf5's low-level interface has it. What hyperchunk has no equivalent for is an error that names
    it."""

    __slots__ = ("_object",)

    def __init__(self, found: HLObject) -> None:
        self._object = found

    @property
    def valid(self) -> bool:
        """Whether its file is open."""
        return bool(self._object)

    @property
    def id(self) -> int:
        """A number that is the object's as long as its file is open."""
        return hash(self) & 0x7FFFFFFFFFFFFFFF

    @property
    def name(self) -> bytes | None:
        """The path; of a file its name."""
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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"cannot call {type(self).__name__}.{name}: hyperchunk has no libhdf5 below it, and no equivalent of this; "
            "see 'Moving from h5py' in the documentation"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._object!r}>"


class DatasetID(ObjectID):
    """A dataset as libhdf5's low-level interface has it."""

    __slots__ = ()

    _object: Dataset

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Its extent."""
        return self._object.shape

    @property
    def rank(self) -> int:
        """How many dimensions it has."""
        return self._object.ndim

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of its elements."""
        return self._object.dtype

    def get_num_chunks(self) -> int:
        """How many chunks are stored."""
        return len(self._stored())

    def get_chunk_info(self, index: int, *_: Any) -> ChunkInfo:
        """A stored chunk by its number, in the order of their places."""
        chunks = self._stored()
        if not -len(chunks) <= index < len(chunks):
            raise ValueError(f"cannot get chunk {index}: {len(chunks)} are stored")
        return chunks[index]

    def get_chunk_info_by_coord(self, offset: tuple[int, ...]) -> ChunkInfo:
        """The chunk whose first element has these indices; size 0 if it is not stored."""
        found = next((chunk for chunk in self._stored() if chunk.chunk_offset == tuple(offset)), None)
        return found or ChunkInfo(tuple(offset), 0, None, 0)

    def chunk_iter(self, work: Callable[[ChunkInfo], Any], *_: Any) -> Any:
        """Calls a function for each stored chunk, until it returns something else than None."""
        for chunk in self._stored():
            if (found := work(chunk)) is not None:
                return found
        return None

    def get_storage_size(self) -> int:
        """How many bytes its stored chunks have; of other layouts, its elements."""
        if self._object.chunks is None:
            return self._object.nbytes
        return sum(chunk.size for chunk in self._stored())

    def _stored(self) -> list[ChunkInfo]:
        if self._object.chunks is None:
            raise TypeError(f"the dataset is not stored in chunks (object {self._object.name})")
        return [ChunkInfo(*chunk) for chunk in self._object._readable.stored_chunks()]

    def read_direct_chunk(self, offsets: tuple[int, ...], *_: Any) -> tuple[int, bytes]:
        """A chunk as it is stored: the mask of filters that were left out, and its bytes."""
        return self._object.read_chunk(offsets)

    def write_direct_chunk(self, offsets: tuple[int, ...], data: Any, filter_mask: int = 0, *_: Any) -> None:
        """Stores a chunk as it is: `data` is what its filters made of it."""
        write = getattr(self._object, "write_chunk", None)
        if write is None:
            from hyperchunk.objects import refusal

            raise refusal()
        try:
            write(offsets, data, filter_mask)
        except InvalidError as error:
            raise also(error, OSError) from None


__all__ = ["ChunkInfo", "DatasetID", "ObjectID", "class_of_h5py"]
