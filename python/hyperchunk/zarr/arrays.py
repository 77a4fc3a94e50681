"""Datasets of files and collections as arrays of Zarr.

An array is *exact* if Zarr's codecs decode its stored chunks: they are passed on as stored. The chunks of every other
array are decoded, and passed on without filters. A chunk of an exact array that differs from the others (it skips a
filter, or its file has other filters) is decoded and encoded again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.recfunctions import repack_fields

from hyperchunk.collection_dataset import CollectionDataset
from hyperchunk.dataset import Dataset
from hyperchunk.dtypes import check_string_dtype
from hyperchunk.exceptions import InvalidError, ObjectNotFoundError, UnsupportedError
from hyperchunk.typing import Array, Dtype, Shape

if TYPE_CHECKING:
    from hyperchunk.zarr.attributes import Json

#: Form of variable-length strings: text, or their bytes.
Strings: TypeAlias = Literal["text", "bytes"]
#: Codec, as numcodecs configures it.
CodecConfig: TypeAlias = dict[str, str | int]

#: Size in bytes up to which contiguous data are one chunk.
_PIECE_BYTES = 16 << 20
#: Size in bytes below which chunks of contiguous data are not worth a reference each.
_SMALL_BYTES = 4 << 10


class ChunkLocation(NamedTuple):
    """Location of a chunk whose stored bytes Zarr's codecs decode."""

    #: Number of the file.
    number: int
    #: Offset in the file, and length, in bytes.
    offset: int
    length: int


class FileDataset:
    """A dataset of one file, with the interface of :class:`hyperchunk.CollectionDataset`.

    Args:
        dataset: The dataset.
        shape: Its extent as a netCDF variable, which may be longer than what is stored.
    """

    axis: int | None = None

    def __init__(self, dataset: Dataset, shape: Shape) -> None:
        self.first = dataset
        self.name = str(dataset.name)
        self.dtype = dataset.dtype
        self.shape = shape

    def spans(self) -> list[tuple[int, int]]:
        """Returns no span: nothing is joined."""
        return []

    def collected_values(self) -> Array | None:
        """Returns None: no values are kept."""
        return None

    def _dataset(self, number: int) -> Dataset:
        assert number == 0
        return self.first

    def __getitem__(self, box: tuple[slice, ...]) -> Array:
        """Reads a box; elements that are not stored have the fill value."""
        stored = self.first.shape or ()
        inside = tuple(slice(part.start, min(part.stop, length)) for part, length in zip(box, stored, strict=True))
        if inside == box:
            return np.asarray(self.first[box], (self.dtype.subdtype or (self.dtype,))[0])
        out = np.empty(tuple(part.stop - part.start for part in box), self.dtype)
        out[...] = self.first.fillvalue
        if all(part.start < part.stop for part in inside):
            at = tuple(slice(0, part.stop - part.start) for part in inside)
            out[at] = self.first[inside]
        return out


#: A dataset of a file or of a collection.
Source: TypeAlias = FileDataset | CollectionDataset


class ZarrArray:
    """A dataset as an array of Zarr.

    Args:
        source: The dataset.
        dimensions: Names of its dimensions.
        attributes: Its attributes, as JSON has them.
        strings: Form of variable-length strings.
        stored: False to decode all chunks.

    Raises:
        UnsupportedError: Zarr has no such elements.
    """

    def __init__(
        self,
        source: Source,
        dimensions: tuple[str, ...],
        attributes: dict[str, Json],
        strings: Strings = "text",
        stored: bool = True,
    ) -> None:
        self.source = source
        self.name = source.name
        self.attributes = attributes
        self._first = source.first
        text = check_string_dtype(source.dtype)
        #: ``"text"`` or ``"bytes"`` for variable-length strings.
        self.strings: Strings | None = strings if text is not None and text.length is None else None
        plain, inner = source.dtype.subdtype or (source.dtype, ())
        self.dtype = _element(plain, self.name) if self.strings is None else np.dtype(object)
        self._inner: Shape = inner
        outer = source.shape
        self.shape: Shape = (*outer, *inner)
        self.dimensions = (*dimensions, *(f"{self.name.rpartition('/')[2]}_axis_{at}" for at in range(len(inner))))
        #: Reason why chunks are decoded; None if they are passed on as stored.
        self.why_decoded = "the caller asks for it" if not stored else self._why_decoded()
        found = None if self.why_decoded else _filters(self._first)
        #: Codecs of the bytes of a chunk, as numcodecs configures them, in the order of encoding.
        self.filters: list[CodecConfig] = found or []
        chunks = self._exact_chunks(outer) if self.why_decoded is None else None
        if chunks is None:
            self.why_decoded = self.why_decoded or "its data cannot be divided into equal chunks"
            self.filters = []
            chunks = self._plain_chunks(outer)
        self._chunks = chunks
        #: Extent of a chunk.
        self.chunks: Shape = (*chunks, *inner)
        self._part = lru_cache(4096)(self._make_part)

    @property
    def is_exact(self) -> bool:
        """True if chunks are passed on as stored."""
        return self.why_decoded is None

    @property
    def grid(self) -> Shape:
        """Number of chunks along each dimension."""
        return tuple(math.ceil(length / chunk) for length, chunk in zip(self.shape, self.chunks, strict=True))

    @cached_property
    def fill(self) -> np.generic | bytes | str:
        """Value of elements that were never written."""
        if self.strings is not None:
            value = self._first.fillvalue
            raw = value if isinstance(value, bytes) else b""
            return raw if self.strings == "bytes" else raw.decode("utf-8", "replace")
        fill = np.asarray(self._first.fillvalue)
        found: np.generic = (fill if fill.size else np.zeros(1, self.dtype)).flat[0]
        return found

    # --- Form ---

    def _why_decoded(self) -> str | None:
        first = self._first
        if self.source.collected_values() is not None:
            return "its values are in the collection"
        if self.strings is not None:
            return "its strings are stored elsewhere than its chunks"
        is_other = self.dtype.names is not None and self.dtype != first.dtype
        if self._inner or is_other or first._reading().conversion is not None:
            return "its elements are stored in another form"
        if first._data.layout not in ("chunked", "contiguous") or first.external:
            return f"its layout is {'external' if first.external else first._data.layout}"
        if _filters(first) is None:
            return f"numcodecs cannot decode its filters ({', '.join(map(str, first.filter_ids))})"
        if _places(first) is None:
            return "its data have no known location in the file"
        return None

    def _exact_chunks(self, shape: Shape) -> Shape | None:
        """Returns the extent of the chunks, if the chunks of all files are parts of one grid."""
        axis = self.source.axis
        lengths = [end - start for start, end in self.source.spans()][:-1] if axis is not None else []
        if self._first.chunks is not None:
            found: Shape | None = self._first.chunks
            if found and axis is not None and any(length % found[axis] for length in lengths):
                return None
            return found
        if not shape:
            return ()
        # Contiguous data: any range of rows of the first axis is contiguous.
        rest = math.prod(shape[1:]) * self.dtype.itemsize
        if axis not in (None, 0):
            found = list(shape)  # type: ignore[assignment]
            equal = {end - start for start, end in self.source.spans()[:-1]} or {shape[axis]}
            last = self.source.spans()[-1]
            # A shorter last file would have shorter rows.
            if len(equal | {last[1] - last[0]}) > 1:
                return None
            return tuple(max(1, equal.copy().pop() if at == axis else length) for at, length in enumerate(shape))
        common = math.gcd(*lengths, shape[0]) if lengths else shape[0]
        rows = _divisor(common, max(1, _PIECE_BYTES // max(rest, 1)))
        if rows < shape[0] and rows * rest < _SMALL_BYTES and shape[0] // max(rows, 1) > len(lengths) + 1:
            return None
        return (max(1, rows), *(max(1, length) for length in shape[1:]))

    def _plain_chunks(self, shape: Shape) -> Shape:
        found = [max(1, length) for length in shape]
        axis = self.source.axis
        if not found or self.source.collected_values() is not None:
            return tuple(found)
        if axis is not None:
            found[axis] = max(1, *(end - start for start, end in self.source.spans()))
        if self._first.chunks is not None:
            return tuple(min(length, chunk) for length, chunk in zip(found, self._first.chunks, strict=True))
        rest = math.prod(found[1:]) * max(1, math.prod(self._inner)) * self.dtype.itemsize
        found[0] = min(found[0], max(1, _PIECE_BYTES // max(rest, 1)))
        return tuple(found)

    # --- Chunks ---

    def stored(self, chunk_index: Shape) -> bytes | None:
        """Returns a chunk as it is stored, or encoded with the array's codecs; None if all of it has the fill value.

        Args:
            chunk_index: Indices of the chunk in the grid.
        """
        found = self._find(chunk_index)
        if found is not None:
            number, offset = found
            part = self._part(number)
            if self._is_beyond(offset, part.shape):
                return None if part.has_same_fill else self.encoded(chunk_index)
            if part.fits and self._first.chunks is not None and not self._is_cut(chunk_index, offset, part.shape):
                try:
                    mask, data = part.dataset.read_chunk(offset)
                except ObjectNotFoundError:
                    return None if part.has_same_fill else self.encoded(chunk_index)
                if mask == 0 and not self._needs_encoding(offset, part.shape, len(data)):
                    return data
        return self.encoded(chunk_index)

    def check_sources(self) -> None:
        """Checks that the sources of virtual datasets exist, before their values are copied: reads take the fill value
        for those of missing sources, and a copy would make it permanent.

        Raises:
            ObjectNotFoundError: A source is missing.
        """
        for number in range(max(len(self.source.spans()), 1)):
            data: Any = self.source._dataset(number)._data
            data.check_sources()

    def places(self) -> Iterator[tuple[Shape, ChunkLocation | bool]]:
        """Iterates over the chunks: the indices of each in the grid, and its location. True stands for a chunk that
        must be encoded, False for one that has only the fill value.
        """
        axis = self.source.axis
        for chunk_index in _by_axis(self.grid, axis or 0):
            yield chunk_index, self._place(chunk_index)

    def _place(self, chunk_index: Shape) -> ChunkLocation | bool:
        found = self._find(chunk_index)
        if found is None:
            return True
        number, offset = found
        part = self._part(number)
        if self._is_beyond(offset, part.shape):
            return not part.has_same_fill
        if not part.fits or self._is_cut(chunk_index, offset, part.shape):
            return True
        stored = part.stored
        if isinstance(stored, int):
            row = math.prod(part.shape[1:]) * self.dtype.itemsize
            if part.shape[0] - offset[0] < self._chunks[0]:
                return True
            return ChunkLocation(number, stored + offset[0] * row, self._chunks[0] * row)
        chunk = stored.get(offset)
        if chunk is None:
            return not part.has_same_fill
        mask, address, size = chunk
        if mask or self._needs_encoding(offset, part.shape, size):
            return True
        return ChunkLocation(number, address, size)

    def encoded(self, chunk_index: Shape) -> bytes:
        """Returns a chunk that is read, decoded and encoded with the codecs of the array."""
        values = self.values(chunk_index)
        if self.strings is not None:
            return self._encoded_strings(values)
        data: bytes | Array = values.tobytes()
        if self.filters:
            import numcodecs

            for config in self.filters:
                data = numcodecs.get_codec(config).encode(data)
        return bytes(data)

    def values(self, chunk_index: Shape) -> Array:
        """Returns the elements of a chunk; past the end of the array, fill values."""
        outer = chunk_index[: len(self._chunks)]
        box = tuple(
            slice(at * chunk, min((at + 1) * chunk, length))
            for at, chunk, length in zip(outer, self._chunks, self.source.shape, strict=True)
        )
        found = np.asarray(self.source[box])
        if self.strings is not None:
            found = found.astype(object, copy=False)
        else:
            found = np.ascontiguousarray(found.astype(self.dtype, copy=False)).reshape(found.shape)
        if found.shape == self.chunks:
            return found
        whole = np.empty(self.chunks, self.dtype)
        whole[...] = self.fill
        whole[tuple(map(slice, found.shape))] = found
        return whole

    def _encoded_strings(self, values: Array) -> bytes:
        import numcodecs

        raw = [value if isinstance(value, bytes) else str(value or "").encode("utf-8") for value in values.flat]
        if self.strings == "bytes":
            codec = numcodecs.VLenBytes()
            items: list[bytes] | list[str] = raw
        else:
            codec = numcodecs.VLenUTF8()
            items = [self._text(item) for item in raw]
        flat = np.empty(len(items), object)
        flat[:] = items
        return bytes(codec.encode(flat))

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidError(
                f"cannot read {self.name} as text: expected UTF-8, got {raw[error.start : error.end]!r} at byte "
                f"{error.start} of a string; read it with strings='bytes'"
            ) from None

    # --- Parts of files ---

    def _find(self, chunk_index: Shape) -> tuple[int, Shape] | None:
        """Returns the file of a chunk, and the indices of its first element in that file's dataset; None if the chunk
        has rows of several files, or is decoded.
        """
        if not self.is_exact:
            return None
        offset = [at * chunk for at, chunk in zip(chunk_index, self._chunks, strict=True)]
        axis = self.source.axis
        if axis is None:
            return 0, tuple(offset)
        start = offset[axis]
        end = min(start + self._chunks[axis], self.shape[axis])
        number = int(np.searchsorted(self._ends, start, side="right"))
        first, last = self._spans[number]
        if end > last or (start - first) % self._chunks[axis]:
            return None
        offset[axis] = start - first
        return number, tuple(offset)

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        return self.source.spans()

    @cached_property
    def _ends(self) -> Array:
        return np.array([end for _, end in self._spans], np.int64)

    def _make_part(self, number: int) -> _Part:
        dataset = self.source._dataset(number)
        same = number == 0 or (
            dataset.chunks == self._first.chunks
            and dataset._data.layout == self._first._data.layout
            and not dataset.external
            and _decoders(_filters(dataset)) == _decoders(self.filters)
            and dataset.dtype == self._first.dtype
            and dataset._reading().conversion is None
        )
        has_same_fill = number == 0 or _bytes(dataset.fillvalue) == _bytes(self._first.fillvalue)
        return _Part(dataset, dataset.shape or (), same, has_same_fill)

    @staticmethod
    def _is_beyond(offset: Shape, shape: Shape) -> bool:
        return any(start >= length for start, length in zip(offset, shape, strict=True))

    def _is_cut(self, chunk_index: Shape, offset: Shape, shape: Shape) -> bool:
        """True if a chunk in the array has more elements than the file's dataset has of it."""
        return any(
            length - start < min(chunk, whole - at * chunk)
            for start, length, chunk, at, whole in zip(
                offset, shape, self._chunks, chunk_index, self.source.shape, strict=True
            )
        )

    def _needs_encoding(self, offset: Shape, shape: Shape, size: int) -> bool:
        """True if a chunk has another size than its elements, or may be stored without filters at the edge."""
        is_plain = size == math.prod(self._chunks) * self.dtype.itemsize
        if not self.filters or not is_plain:
            return not self.filters and not is_plain
        return any(start + chunk > length for start, chunk, length in zip(offset, self._chunks, shape, strict=True))


class _Part:
    """A file's part of an array."""

    def __init__(self, dataset: Dataset, shape: Shape, same: bool, has_same_fill: bool) -> None:
        self.dataset = dataset
        self.shape = shape
        self._same = same
        #: True if its fill value is the array's.
        self.has_same_fill = has_same_fill

    @cached_property
    def stored(self) -> int | dict[Shape, tuple[int, int, int]]:
        """Offset of contiguous data; or mask, offset and size of each stored chunk by the indices of its first
        element.
        """
        found = _places(self.dataset)
        return {} if found is None else found

    @cached_property
    def fits(self) -> bool:
        """True if the stored chunks can be used as the array's."""
        return self._same and (self.dataset.chunks is not None or _places(self.dataset) is not None)


def _places(dataset: Dataset) -> int | dict[Shape, tuple[int, int, int]] | None:
    """Returns the offset of contiguous data, or the locations of chunks; None if the data are not in the file."""
    data = dataset._readable
    try:
        if dataset.chunks is not None:
            return {offset: (mask, address, size) for offset, mask, address, size in data.stored_chunks()}
        found = data.placement(0, 0, dataset.shape[0]) if dataset.shape else []
    except UnsupportedError:
        return None
    return found[0][1] + dataset._opened.need().base if found else None


def _filters(dataset: Dataset) -> list[CodecConfig] | None:
    """Returns numcodecs' configurations of a dataset's filters; None if numcodecs cannot decode them."""
    found: list[CodecConfig] = []
    size: int | None = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    for number, _, parameters in dataset._data.filters:
        first = parameters[0] if parameters else None
        if number == 2 and (size is None or size % max(1, first or dataset.dtype.itemsize)):
            # numcodecs shuffles whole elements only.
            return None
        size = size if number == 2 else None
        match number:
            case 1:
                found.append({"id": "zlib", "level": 6 if first is None else first})
            case 2:
                found.append({"id": "shuffle", "elementsize": dataset.dtype.itemsize if first is None else first})
            case 3:
                found.append({"id": "fletcher32"})
            case 307:
                found.append({"id": "bz2", "level": 9 if first is None else first})
            case 32001:
                # A Blosc frame describes itself.
                found.append({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0})
            case 32015:
                found.append({"id": "zstd", "level": 3 if first is None else first})
            case _:
                return None
    return found


def _decoders(filters: list[CodecConfig] | None) -> list[CodecConfig] | None:
    """Returns configurations without the parameters that decoding does not need."""
    if filters is None:
        return None
    return [{name: value for name, value in config.items() if name != "level"} for config in filters]


def _element(dtype: Dtype, name: str) -> Dtype:
    """Returns the dtype of elements without metadata and gaps.

    Raises:
        UnsupportedError: Zarr has no such elements.
    """
    if dtype.hasobject or (dtype.kind == "f" and dtype.itemsize > 8) or (dtype.kind == "c" and dtype.itemsize > 16):
        raise UnsupportedError(f"cannot make {name} an array of Zarr: Zarr has no elements of dtype {dtype}")
    if dtype.names is not None:
        if any(dtype[member].subdtype for member in dtype.names):
            raise UnsupportedError(f"cannot make {name} an array of Zarr: Zarr has no arrays in compounds ({dtype})")
        # Compounds of Zarr have no byte order.
        packed: Dtype = repack_fields(np.empty(0, dtype), recurse=True).dtype.newbyteorder("<")
        return packed
    return np.dtype(dtype.str)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else np.asarray(value).tobytes()


def _divisor(number: int, most: int) -> int:
    """Returns the largest divisor of a number up to a limit."""
    if number <= most:
        return max(number, 1)
    for parts in itertools.count(math.ceil(number / most)):
        if number % parts == 0 or parts > 1 << 20:
            break
    return number // parts if number % parts == 0 else 1


def _by_axis(grid: Shape, axis: int) -> Iterator[Shape]:
    """Iterates over the indices of a grid; the index along one axis changes slowest."""
    if not grid:
        yield ()
        return
    order = [axis, *(at for at in range(len(grid)) if at != axis)]
    for found in itertools.product(*(range(grid[at]) for at in order)):
        chunk_index = [0] * len(grid)
        for at, value in zip(order, found, strict=True):
            chunk_index[at] = value
        yield tuple(chunk_index)


__all__ = ["ChunkLocation", "FileDataset", "Source", "Strings", "ZarrArray"]
