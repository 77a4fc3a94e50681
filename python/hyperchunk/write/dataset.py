"""Datasets of files that are being written."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from hyperchunk import _core, selections
from hyperchunk.dataset import AnyDataset, Dataset
from hyperchunk.dtypes import Description
from hyperchunk.exceptions import (
    ExtentError,
    InvalidError,
    UnsupportedError,
    also,
)
from hyperchunk.objects import resolve_region
from hyperchunk.references import RegionReference
from hyperchunk.selections import Args, Selection
from hyperchunk.typing import Array, Index
from hyperchunk.write import elements
from hyperchunk.write.dimensions import WritableDimensions, make_scale
from hyperchunk.write.objects import WritableObject

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from hyperchunk.dtypes import Empty
    from hyperchunk.references import Reference

#: Offset of a chunk, its bytes, and optionally a mask of skipped filters.
StoredChunk: TypeAlias = "tuple[Sequence[int], Buffer | Array] | tuple[Sequence[int], Buffer | Array, int]"
# Approximate size in bytes of the pieces in which broadcast values are expanded.
_BROADCAST_BYTES = 64 << 20
# Number of HDF5-UDF's filter, which live datasets have.
_LIVE_FILTER = 31300


def _numbers(values: npt.ArrayLike, dtype: type[np.uint64 | np.uint32]) -> Array:
    """Returns non-negative integers as a contiguous array."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"expected integers, got dtype {array.dtype}")
    if array.size and (array.min() < 0 or array.max() > np.iinfo(dtype).max):
        raise ValueError("an offset, size or mask is out of range")
    return np.ascontiguousarray(array, dtype)


def _has_source_extent(data: AnyDataset) -> TypeGuard[_core.DatasetWriter]:
    return isinstance(data, _core.DatasetWriter) and data.layout == "virtual" and None in (data.max_shape or ())


def _length(size: object) -> int:
    """Returns the new length of a dimension."""
    try:
        return operator.index(size)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"cannot resize: expected an integer for each axis, got {size!r}") from None


class WritableDataset(WritableObject, Dataset):
    """A dataset of a file that is being written: ``dataset[index] = values``, with h5py's rules for the index, for
    broadcasting and for conversion.
    """

    __slots__ = ()

    @property
    def _data(self) -> AnyDataset:
        if self._core_data is None:
            self._core_data = self._node.dataset()
        self._opened.need()
        data = self._core_data
        # The extent of a virtual dataset with an unlimited dimension follows its sources.
        self._dims = data.snapshot().shape if _has_source_extent(data) else data.shape
        return data

    @property
    def _out(self) -> _core.DatasetWriter:
        data = self._data
        assert isinstance(data, _core.DatasetWriter)
        return data

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Extent; None for a null dataspace. Setting it calls :meth:`resize`."""
        self._data  # noqa: B018 - finds the extent
        return self._dims

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        self.resize(shape)

    @property
    def dims(self) -> WritableDimensions:
        """Dimensions, with their labels and scales."""
        self._opened.need()
        return WritableDimensions(self)

    # --- Elements ---

    def __setitem__(self, args: Index, values: npt.ArrayLike | Reference | Empty) -> None:
        args = args if isinstance(args, tuple) else (args,)
        names = [arg for arg in args if isinstance(arg, str)]
        if names:
            self._write_fields(names, tuple(arg for arg in args if not isinstance(arg, str)), values)
            return
        plan = self._reading()
        array = elements.as_array(values, plan.dtype)
        if array.dtype.names is not None and plan.dtype.names is not None and array.dtype.names != plan.dtype.names:
            missing = set(plan.dtype.names) - set(array.dtype.names)
            if missing:
                self._write_fields(list(array.dtype.names), args, array, whole=True)
                return
        self._write(args, array)

    def _write_all(self, array: Array) -> None:
        """Writes all elements of a new dataset, regardless of the shape of the array."""
        made = self._prepare(array)
        self._out.write(_core.Selection.all(), made.memory_type, elements.flat(made.array))

    def _prepare(self, array: Array) -> elements.Ready:
        return elements.ready(self._writing.writer, self._out.datatype.description, array)

    def _write(self, args: Args, array: Array) -> None:
        data = self._out
        dims = data.shape
        if dims is None:
            raise also(also(InvalidError("Empty datasets cannot be written"), TypeError), OSError)
        made = self._prepare(array)
        slab = selections.slab(dims, args)
        if slab is not None and slab[1] == made.shape:
            data.write_slab(slab[0], made.memory_type, elements.flat(made.array))
            return
        self._write_selection(self._find_selection(dims, args), made)

    def _write_at(self, args: Args, values: npt.ArrayLike, mode: str) -> None:
        dims = self._out.shape
        if not dims:
            self[args] = values
            return
        selection = selections.select(dims, args, mode, exact=True)
        self._write_selection(selection, self._prepare(elements.as_array(values, self._reading().dtype)))

    def _write_selection(self, selection: Selection, made: elements.Ready) -> None:
        data = self._out
        dims = data.shape or ()
        if not selection.simple:
            whole = selection.stored(made.array, made.array.shape[len(made.shape) :])
            if whole.size:
                data.write(selection.native, made.memory_type, elements.flat(whole))
            return
        wanted = 1
        for length in selection.shape:
            wanted *= length
        if wanted == 0:
            selections.broadcast_shape(made.shape, selection)
            return
        have = int(np.prod(made.shape, dtype=np.int64))
        shape = selections.broadcast_shape(made.shape, selection)
        if have == wanted:
            data.write(selection.native, made.memory_type, elements.flat(made.array))
            return
        inner = made.array.shape[len(made.shape) :]
        source = made.array.reshape(shape + inner)
        if wanted * source.dtype.itemsize <= _BROADCAST_BYTES or not dims:
            spread = np.broadcast_to(source, selection.shape + inner)
            data.write(selection.native, made.memory_type, elements.flat(spread))
            return
        self._write_spread(selection, source, inner, made.memory_type)

    def _write_spread(
        self, selection: Selection, source: Array, inner: tuple[int, ...], memory: _core.Datatype | None
    ) -> None:
        """Expands broadcast values piece by piece along the first dimension."""
        assert selection.axes is not None
        (start, stride, count, block), *rest = selection.axes
        if block != 1 or count == 1:
            spread = np.broadcast_to(source, selection.shape + inner)
            self._out.write(selection.native, memory, elements.flat(spread))
            return
        row = int(np.prod(selection.shape[1:] + inner, dtype=np.int64)) * source.dtype.itemsize
        step = max(1, _BROADCAST_BYTES // max(row, 1))
        chunks = self._out.chunks
        if chunks is not None and stride == 1:
            # Pieces of whole chunks: a part of a chunk would wait in memory for the rest.
            step = max(step // chunks[0] * chunks[0], chunks[0]) if start % chunks[0] == 0 else step
        for first in range(0, count, step):
            some = min(step, count - first)
            part = source if source.shape[0] == 1 else source[first : first + some]
            spread = np.broadcast_to(part, (some, *selection.shape[1:], *inner))
            native = _core.Selection.axes([(start + first * stride, stride, some, 1), *rest])
            self._out.write(native, memory, elements.flat(spread))

    def _find_selection(self, dims: tuple[int, ...], args: Args) -> Selection:
        """Returns the selection of an index, with h5py's rules for writing."""
        if any(arg is None for arg in args):
            raise TypeError("Indexing with None (or np.newaxis) is not supported")
        if len(args) == 1 and isinstance(args[0], RegionReference):
            return resolve_region(self._opened, args[0])[1]
        whole = args == () or (len(args) == 1 and args[0] is Ellipsis)
        if dims == () and not whole:
            raise ValueError("Illegal slicing argument for scalar dataspace")
        return selections.everything(dims) if whole else selections.select(dims, args, exact=True)

    def _write_fields(self, names: list[str], args: Args, values: object, *, whole: bool = False) -> None:
        """Changes some members of elements, and leaves the others unchanged."""
        dtype = self._reading().dtype
        if dtype.names is None:
            raise also(InvalidError("Field names only allowed for compound types"), TypeError)
        for name in names:
            if name not in dtype.names:
                raise ValueError(f"Field {name} does not appear in this type.")
        if len(names) == 1 and not whole:
            name = names[0]
            given = elements.as_array(values, dtype[name])
            if given.dtype.kind in "biufc" and elements.converts(given.dtype, dtype[name].base):
                # As in h5py: NumPy converts the values of one member, HDF5 those of records.
                given = given.astype(dtype[name].base)
            columns = {name: given}
            if name in (given.dtype.names or ()) and not set(given.dtype.names or ()) <= set(dtype[name].names or ()):
                columns = {name: given[name]}
        else:
            given = np.asarray(values)
            columns = {name: given if given.dtype.names is None else given[name] for name in names}
        self._write_columns(args, columns)

    def _write_columns(self, args: Args, columns: dict[str, Array]) -> None:
        """Writes members of elements. The others keep their stored bytes: not every type stays the same when it is
        read and written.
        """
        data = self._out
        dims = data.shape
        if dims is None:
            raise also(also(InvalidError("Empty datasets cannot be written"), TypeError), OSError)
        selection = self._find_selection(dims, args)
        described = {
            name.decode("utf-8", "surrogateescape"): member for name, _, member in data.datatype.description[2]
        }
        parts: list[Array] = []
        members: list[tuple[bytes, int, Description]] = []
        size = 0
        for name, array in columns.items():
            made = elements.ready(self._writing.writer, described[name], array)
            memory = described[name] if made.memory is None else made.memory
            inner = made.array.shape[len(made.shape) :]
            if selection.simple:
                shape = selections.broadcast_shape(made.shape, selection)
                spread = np.broadcast_to(made.array.reshape(shape + inner), selection.shape + inner)
            else:
                spread = selection.stored(made.array, inner)
            parts.append(elements.flat(spread).reshape(-1, memory[1]))
            members.append((name.encode("utf-8", "surrogateescape"), size, memory))
            size += memory[1]
        records = np.concatenate(parts, axis=1)
        if records.size:
            data.write(selection.native, elements.datatype(("compound", size, tuple(members))), records.reshape(-1))

    def write_direct(self, source: Array, source_sel: Index | None = None, dest_sel: Index | None = None) -> None:
        """Writes from an array; the selections are made by ``numpy.s_[…]``."""
        if not source.flags.c_contiguous:
            raise TypeError("Array must be C-contiguous")
        self[... if dest_sel is None else dest_sel] = (
            source if source_sel is None else source[cast("tuple[slice, ...]", source_sel)]
        )

    def write_future(self, index: Index, values: npt.ArrayLike) -> Future[None]:
        """Does ``dataset[index] = values`` in the background. The values must not change until it is done."""
        from hyperchunk.batches import submit

        return submit(lambda pair: self.__setitem__(*pair), (index, values))

    async def write_async(self, index: Index, values: npt.ArrayLike) -> None:
        """Does ``dataset[index] = values`` as a coroutine of asyncio."""
        from asyncio import wrap_future

        await wrap_future(self.write_future(index, values))

    # --- Stored chunks ---

    @property
    def _chunked(self) -> _core.DatasetWriter:
        """The `_core` object that writes chunks; a stale extent does not matter here."""
        data = self._core_data
        if data is None:
            return self._out
        self._opened.need()
        assert isinstance(data, _core.DatasetWriter)
        return data

    def write_chunk(self, offset: Sequence[int], data: Buffer | Array, filter_mask: int = 0) -> None:
        """Writes a chunk in its stored form: `data`, any object with contiguous memory, is the output of the filters,
        and is neither checked nor copied. `offset` holds the indices of the chunk's first element. A set bit of
        `filter_mask` means that the filter of that number was skipped for this chunk; 0 means none. `data` is no
        longer needed when this returns. Threads may write different chunks at the same time.

        Raises:
            ValueError: `offset` or `filter_mask` is out of range.

        Example:
            >>> dataset.write_chunk((0, 0), zlib.compress(block.tobytes()))  # doctest: +SKIP
        """
        try:
            self._chunked.write_chunk(offset, data, filter_mask)
        except OverflowError:
            raise ValueError(f"an offset or mask is out of range: {offset}, {filter_mask}") from None

    def write_chunks(
        self,
        chunks: Iterable[StoredChunk] | npt.ArrayLike,
        data: Sequence[Buffer | Array] | Buffer | Array | None = None,
        *,
        filter_masks: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
    ) -> None:
        r"""Like :meth:`write_chunk`, for several chunks at once, which is far cheaper for small chunks. All are
        checked before the first is written.

        `chunks` holds either tuples of an offset, the bytes and, if it is not 0, a filter mask; or an array of
        offsets, a row for each chunk, with `data`: a list with the bytes of each, or one object with contiguous
        memory that holds them one after another. `filter_masks` has a mask for each, or one for all; `sizes` is the
        size of each in bytes, if they are in one object and not equal.

        Raises:
            ValueError: An offset, a mask or a size is out of range.
            TypeError: `data` is missing for an array of offsets, or `filter_masks` and `sizes` are given with tuples.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     x = file.create_dataset("x", (4,), "u1", chunks=(2,))
            ...     x.write_chunks([((0,), b"\x01\x02"), ((2,), b"\x03\x04")])
            ...     x[:].tolist()
            [1, 2, 3, 4]
        """
        out = self._chunked
        try:
            if data is None:
                if filter_masks is not None or sizes is not None:
                    raise TypeError("filter_masks and sizes can only be used with an array of offsets")
                every: list[StoredChunk] = (
                    chunks if isinstance(chunks, list) else list(cast("Iterable[StoredChunk]", chunks))
                )
                out.write_chunks(every)
                return
            offsets = _numbers(cast("npt.ArrayLike", chunks), np.uint64)
            rank = len(out.chunks or ())
            if offsets.ndim != 2 and not (offsets.ndim == 1 and rank == 1):
                raise ValueError(f"expected an array of offsets, a row for each chunk, got the shape {offsets.shape}")
            count = offsets.shape[0]
            if offsets.ndim == 2 and offsets.shape[1] != rank:
                raise ValueError(f"expected offsets of {rank} numbers, got {offsets.shape[1]}")
            masks = None
            if filter_masks is not None:
                masks = np.ascontiguousarray(np.broadcast_to(_numbers(filter_masks, np.uint32), (count,)))
            if isinstance(data, list | tuple):
                if len(data) != count or sizes is not None:
                    raise ValueError(f"expected a list of {count} chunks and no sizes, got {len(data)} chunks")
                out.write_chunk_list(offsets, data, masks)
            else:
                whole = cast("Buffer | Array", data)
                out.write_chunk_run(offsets, whole, None if sizes is None else _numbers(sizes, np.uint64), masks)
        except OverflowError:
            raise ValueError("an offset or mask is out of range") from None

    def write_chunk_future(self, offset: Sequence[int], data: Buffer | Array, filter_mask: int = 0) -> Future[None]:
        """Does :meth:`write_chunk` in the background. `data` must not change until it is done."""
        from hyperchunk.batches import submit

        return submit(lambda chunk: self.write_chunk(*chunk), (offset, data, filter_mask))

    # --- Extent ---

    def resize(self, size: int | tuple[int, ...], axis: int | None = None) -> None:
        """Changes the extent; with `axis`, of that dimension only. Elements outside the new extent are lost; new ones
        have the fill value.

        Raises:
            TypeError: The layout is not chunked, or `size` has another number of dimensions.
            ValueError: `axis` is out of range.
            ExtentError: The new extent exceeds `maxshape`.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     x = file.create_dataset("x", (10,), "f4", maxshape=(None,))
            ...     x.resize(20, axis=0)
            ...     x.shape
            (20,)
        """
        data = self._out
        if data.chunks is None:
            raise TypeError("Only chunked datasets can be resized")
        if _LIVE_FILTER in self.filter_ids:
            raise UnsupportedError(
                "cannot write or resize a live dataset: its values are computed; to replace it, remove it first, "
                f"`hyperchunk udf rm FILE:DATASET` (object {self.name}, file {self._opened.filename})"
            )
        assert data.shape is not None
        if axis is not None:
            axis = _length(axis)
            if not 0 <= axis < len(data.shape):
                raise ValueError(f"Invalid axis (0 to {len(data.shape) - 1} allowed)")
            new = [*data.shape]
            new[axis] = _length(size)
        else:
            given: object = size
            if isinstance(given, str | bytes):
                raise TypeError(f"expected a shape, got {given!r}")
            new = [_length(length) for length in given] if np.iterable(given) else [_length(given)]
        if len(new) != len(data.shape):
            message = f"New shape length ({len(new)}) must match dataset rank ({len(data.shape)})"
            raise also(InvalidError(message), TypeError)
        for number, (length, bound) in enumerate(zip(new, data.max_shape or (), strict=True)):
            if bound is not None and length > bound:
                raise ExtentError(
                    f"cannot resize axis {number} to {length}: maxshape is {bound} (object {self.name}, file "
                    f"{self._opened.filename})"
                )
        data.resize(new)

    def append(self, values: npt.ArrayLike, axis: int = 0) -> None:
        """Extends the dataset along a dimension, and writes values there.

        Args:
            values: The values; their extents in the other dimensions are those of the dataset.
            axis: The dimension.

        Raises:
            ExtentError: The new extent exceeds `maxshape`.
            ValueError: The values have other extents.
            TypeError: The dataset has no dimensions.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     x = file.create_dataset("x", (0, 2), "f4", maxshape=(None, 2))
            ...     x.append([[1, 2], [3, 4]])
            ...     x.shape
            (2, 2)
        """
        plan = self._reading()
        array = elements.as_array(values, plan.dtype)
        shape = self._out.shape
        if not shape:
            raise TypeError("Only datasets with dimensions can be appended to")
        inner = plan.dtype.subdtype[1] if plan.dtype.subdtype is not None else ()
        rank = array.ndim - len(inner)
        if rank == len(shape) - 1:
            array = np.expand_dims(array, axis)
        elif rank != len(shape):
            raise ValueError(f"expected values of {len(shape)} dimensions, got {rank}")
        more, start = array.shape[axis], shape[axis]
        for at, length in enumerate(shape):
            if at != axis and array.shape[at] != length:
                raise ValueError(f"values of shape {array.shape} cannot be appended to {shape} along axis {axis}")
        self.resize(start + more, axis)
        where: list[slice] = [slice(None)] * len(shape)
        where[axis] = slice(start, start + more)
        if array.size:
            self._write(tuple(where), array)

    # --- Dimension scales ---

    def make_scale(self, name: str = "") -> None:
        """Makes the dataset a dimension scale.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["time"], file["t"] = [0.0, 0.5], [20.0, 21.0]
            ...     file["time"].make_scale("time")
            ...     file["t"].dims[0].attach_scale(file["time"])
            ...     file["t"].dims[0].keys()
            ['time']
        """
        make_scale(self, name)

    def flush(self) -> None:
        """Commits the file: see :meth:`WritableFile.flush`."""
        self.file.flush()
