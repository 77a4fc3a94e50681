"""Selections made from indices: by h5py's rules and with its error messages, or by NumPy's where h5py refuses."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from hyperchunk import _core
from hyperchunk.indexing import Rearrangement, is_list, is_several, pointwise
from hyperchunk.typing import Array, IndexItem, Shape

#: Index of a dataset as a tuple, one item for each dimension, or less.
Args: TypeAlias = tuple[Any, ...]
#: `_core`'s form of a stored selection.
StoredSelection: TypeAlias = tuple[Any, ...]


class MultiBlockSlice:
    """A slice of `count` blocks (None: as many as fit) of `block` elements, at distances of `stride`.

    Raises:
        ValueError: A number is negative or 0, or blocks would overlap.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"] = numpy.arange(10)
        ...     file["x"][hyperchunk.MultiBlockSlice(start=1, stride=4, count=2, block=2)].tolist()
        [1, 2, 5, 6]
    """

    def __init__(self, start: int = 0, stride: int = 1, count: int | None = None, block: int = 1) -> None:
        if start < 0:
            raise ValueError("Start can't be negative")
        if stride < 1 or (count is not None and count < 1) or block < 1:
            raise ValueError("Stride, count and block can't be 0 or negative")
        if block > stride:
            raise ValueError("Blocks will overlap if block > stride")
        self.start = start
        self.stride = stride
        self.count = count
        self.block = block

    def indices(self, length: int) -> tuple[int, int, int, int]:
        """Returns start, stride, count and block in a dimension of `length` elements."""
        count = self.count
        if count is None:
            count = (length - self.start - self.block) // self.stride + 1
            if count < 1:
                raise ValueError(f"No full blocks can be selected using {self} on dimension of length {length}")
        end = self.start + self.block + (count - 1) * self.stride - 1
        if end >= length:
            raise ValueError(
                f"{self._repr(count)} range ({self.start} - {end}) extends beyond maximum index ({length - 1})"
            )
        return self.start, self.stride, count, self.block

    def _repr(self, count: int | None) -> str:
        return f"MultiBlockSlice(start={self.start}, stride={self.stride}, count={count}, block={self.block})"

    def __repr__(self) -> str:
        return self._repr(self.count)


def is_blocks(arg: object) -> TypeGuard[MultiBlockSlice]:
    """Returns whether an index is a slice of blocks, of this class or of h5py's, which has the same methods."""
    return isinstance(arg, MultiBlockSlice) or type(arg).__name__ == "MultiBlockSlice"


class Selection(NamedTuple):
    """A selection of elements of a dataset."""

    #: Selection for `_core`.
    native: _core.Selection
    #: Number of elements in each dimension; for a selection of points, the number of points.
    shape: Shape
    #: Shape of the resulting array: without the dimensions that are indexed by an integer.
    array_shape: Shape
    #: True if it consists of slices and integers only, so that values can be broadcast to it.
    simple: bool = True
    #: Dimensions that are indexed by an integer.
    scalar: tuple[bool, ...] = ()
    #: Start, stride, count and block of each dimension; None if these do not describe the selection.
    axes: tuple[tuple[int, int, int, int], ...] | None = None
    #: Transformation of the elements, read in the file's order, into the array; None if no transformation is necessary.
    after: Rearrangement | None = None

    @property
    def is_null(self) -> bool:
        """True for an empty selection of a scalar, which has no shape and no array."""
        return self.shape is None

    @property
    def read_shape(self) -> Shape:
        """Shape of the array that is read, in the file's order."""
        return self.array_shape if self.after is None else self.after.shape

    def stored(self, array: Array, inner: Shape = ()) -> Array:
        """Returns the array to write for values of this selection; `inner` has the dimensions of an element.

        Raises:
            TypeError: The values cannot be broadcast to the selection.
        """
        outer = array.shape[: array.ndim - len(inner)]
        rank = len(self.array_shape)
        while len(outer) > rank and outer[0] == 1:
            outer = outer[1:]
        try:
            whole = np.broadcast_to(array.reshape((1,) * (rank - len(outer)) + outer + inner), self.array_shape + inner)
        except ValueError:
            raise TypeError(f"Can't broadcast {outer} -> {self.array_shape}") from None
        return whole if self.after is None else self.after.undo(whole)


def slab(dims: Shape, args: Args) -> tuple[list[int], Shape] | None:
    """Fast path of small reads, for plain slices and integers: returns start, step and count of each dimension, and
    the shape of the array. None for any other index, and for an invalid one.
    """
    if len(args) != len(dims):
        return None
    plain: list[int] = []
    shape: list[int] = []
    for arg, length in zip(args, dims, strict=True):
        kind = type(arg)
        if kind is slice:
            start, stop, step = arg.indices(length)
            if step < 1:
                return None
            count = (stop - start + step - 1) // step if stop > start else 0
            plain += (start, step, count)
            shape.append(count)
        elif kind is int:
            if arg < 0:
                arg += length
            if not 0 <= arg < length:
                return None
            plain += (arg, 1, 1)
        else:
            return None
    return plain, tuple(shape)


def select_in_order(dims: Shape, args: Args) -> Selection:
    """Returns the selection of an index that has each element once and in the file's order, as files store it.

    Raises:
        TypeError: The index reverses, repeats or rearranges elements.
    """
    found = select(dims, args)
    if found.after is not None:
        raise TypeError("Indexing elements must be in increasing order, and in one list or mask")
    return found


def select(dims: Shape, args: Args, way: str = "", *, exact: bool = False) -> Selection:
    """Returns the selection of an index.

    Args:
        dims: Extent of the dataset.
        args: The index.
        way: Meaning of several lists: ``"oindex"`` selects all combinations; ``"vindex"`` combines them element by
            element, and puts their dimensions first; ``""`` is NumPy's.
        exact: Selects no element beyond the index, for writing.
    """
    if way == "vindex" or (not way and is_several(args)):
        if way and not any(is_list(arg) for arg in args):
            return select(dims, args, exact=exact)
        if not (
            len(args) == 1 and isinstance(args[0], np.ndarray) and args[0].dtype.kind == "b" and args[0].shape == dims
        ):
            return pointwise(dims, args, front=way == "vindex", exact=exact)
    if len(args) == 1 and isinstance(args[0], np.ndarray) and args[0].dtype.kind == "b":
        mask = args[0]
        if mask.shape == dims:
            return _masked(dims, mask)
        if mask.shape != dims[:1]:
            raise TypeError("Boolean indexing array has incompatible shape")
    if not args:
        return everything(dims)
    return _axes(dims, args)


def everything(dims: Shape) -> Selection:
    """Selects all elements."""
    axes = tuple((0, 1, length, 1) for length in dims)
    return Selection(_core.Selection.all(), dims, dims, True, (False,) * len(dims), axes)


def _masked(dims: Shape, mask: Array) -> Selection:
    points = np.transpose(mask.nonzero()).astype(np.uint64)
    shape = (len(points),)
    native = _core.Selection.points(len(dims), points.tobytes())
    return Selection(native, shape, shape, False)


def _axes(dims: Shape, args: Args) -> Selection:
    axes: list[tuple[int, int, int, int] | bytes] = []
    counts: list[int] = []
    scalar: list[bool] = []
    lists = 0
    #: Items of the index that makes the array from the elements in the file's order.
    order: list[slice | Array] = []
    for arg, length in _each_dimension(dims, args):
        is_scalar = False
        positions: slice | Array = slice(None)
        if arg is None:
            axes.append((0, 1, length, 1))
            counts.append(length)
        elif isinstance(arg, slice):
            start, step, count = _slice(arg, length)
            axes.append((start, abs(step), count, 1))
            counts.append(count)
            if step < 0:
                positions = slice(None, None, -1)
        elif (index := _index(arg, length)) is not None:
            axes.append((index, 1, 1, 1))
            counts.append(1)
            is_scalar = True
        elif is_blocks(arg):
            axes.append(arg.indices(length))
            counts.append(axes[-1][2] * axes[-1][3])
        else:
            indices = _checked(_indices(arg, length), length)
            lists += 1
            if (indices[1:] <= indices[:-1]).any():
                indices, positions = np.unique(indices, return_inverse=True)
            axes.append(indices.astype(np.uint64).tobytes())
            counts.append(len(indices))
        scalar.append(is_scalar)
        if not is_scalar:
            order.append(positions)
    shape = tuple(counts)
    read = tuple(count for count, gone in zip(counts, scalar, strict=True) if not gone)
    patterns = None if lists else tuple(axis for axis in axes if not isinstance(axis, bytes))
    native = _core.Selection.axes(axes)
    if all(isinstance(positions, slice) and positions.step is None for positions in order):
        return Selection(native, shape, read, not lists, tuple(scalar), patterns)
    final = tuple(
        count if isinstance(positions, slice) else len(positions) for count, positions in zip(read, order, strict=True)
    )
    return Selection(native, shape, final, False, tuple(scalar), None, Rearrangement(read, _mesh(read, order)))


def _mesh(shape: Shape, order: list[slice | Array]) -> tuple[slice | Array, ...]:
    """Returns an index of NumPy that applies each item to its dimension, also if several are lists."""
    if sum(isinstance(positions, np.ndarray) for positions in order) < 2:
        return tuple(order)
    lines = [np.arange(length)[positions] for length, positions in zip(shape, order, strict=True)]
    return np.ix_(*lines)


def _each_dimension(dims: Shape, args: Args) -> list[tuple[IndexItem | None, int]]:
    """Returns the index of each dimension; None for a whole dimension."""
    rank = len(dims)
    at = [position for position, arg in enumerate(args) if arg is Ellipsis]
    if len(at) > 1:
        raise ValueError("Only one ellipsis may be used.")
    given = len(args) - len(at)
    if given > rank:
        raise ValueError(f"{given} indexing arguments for {rank} dimensions")
    position = at[0] if at else len(args)
    missing = (None,) * (rank - given)
    return list(zip(args[:position] + missing + args[position + 1 :], dims, strict=True))


def _slice(arg: slice, length: int) -> tuple[int, int, int]:
    """Returns the lowest index of a slice, its step (negative if it runs downwards), and the number of its indices."""
    found = range(*arg.indices(length))
    if not found:
        return 0, 1, 0
    return min(found[0], found[-1]), found.step, len(found)


def _index(arg: object, length: int) -> int | None:
    try:
        index = operator.index(arg)  # type: ignore[arg-type]
    except TypeError:
        return None
    if index < 0:
        index += length
    if not 0 <= index < length:
        where = "empty dimension" if length == 0 else f"(0-{length - 1})"
        raise IndexError(f"Index ({index}) out of range for {where}")
    return index


def _indices(arg: object, length: int) -> Array:
    """Converts a list of indices, or a mask, to indices."""
    array = arg if isinstance(arg, np.ndarray) else np.asarray(arg)
    if array.ndim != 1:
        if isinstance(arg, np.ndarray):
            raise TypeError("Only 1D arrays allowed for fancy indexing")
        raise TypeError(f"Selection can't process {arg!r}")
    if array.size == 0 and not isinstance(arg, np.ndarray):
        # NumPy makes an empty list an array of floats.
        array = array.astype(np.intp)
    if array.dtype.kind == "b":
        if array.size != length:
            raise TypeError("boolean index did not match indexed array")
        array = array.nonzero()[0]
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError("Indexing arrays must have integer dtypes")
    return array


def _checked(indices: Array, length: int) -> Array:
    if len(indices) == 0:
        return indices
    if indices.dtype.kind != "u":
        indices = np.where(indices < 0, indices.astype(np.int64) + length, indices)
    if (indices < 0).any() or (indices >= length).any():
        where = "empty dimension" if length == 0 else f"(0-{length - 1})"
        raise IndexError(f"Fancy indexing out of range for {where}")
    return indices


def broadcast_shape(source: Shape, target: Selection) -> Shape:
    """Returns the shape that an array must take to fill `target`, with one dimension for each of the dataset's.

    Raises:
        TypeError: The array cannot be broadcast to `target`.
    """
    if not target.simple:
        if source != target.array_shape:
            raise TypeError("Broadcasting is not supported for complex selections")
        return source
    rest = list(source)
    shape: list[int] = []
    for count, scalar in zip(reversed(target.shape), reversed(target.scalar), strict=True):
        if not rest or scalar:
            shape.append(1)
            continue
        length = rest.pop()
        if length not in (1, count):
            raise TypeError(f"Can't broadcast {source} -> {target.array_shape}")
        shape.append(length)
    if any(length > 1 for length in rest):
        raise TypeError(f"Can't broadcast {source} -> {target.array_shape}")
    return tuple(reversed(shape))


def numpy_index(args: Args, dims: Shape) -> Args:
    """Converts an index for NumPy, which has no slices of blocks."""

    def blocks(arg: IndexItem | None, length: int) -> IndexItem:
        if not is_blocks(arg):
            return slice(None) if arg is None else arg
        start, stride, count, block = arg.indices(length)
        return (start + stride * np.arange(count)[:, None] + np.arange(block)).ravel()

    if not any(is_blocks(arg) for arg in args):
        return args
    return tuple(blocks(arg, length) for arg, length in _each_dimension(dims, args))


def bounded(selection: StoredSelection) -> Space:
    """Returns a selection in the smallest extent that contains it; in one of no dimensions if that is unknown."""
    kind, *rest = selection
    if kind == "regular" and all(count is not None for _, _, count, _ in rest[0]):
        return Space(tuple(start + stride * (count - 1) + block for start, stride, count, block in rest[0]), selection)
    if kind in ("points", "blocks"):
        last = np.array(rest[1], np.int64).reshape(-1, rest[0]).max(axis=0)
        return Space(tuple(int(index) + 1 for index in last), selection)
    return Space((), selection)


class Space:
    """A dataspace with a selection, as a file stores it. `_core` describes it by a tuple, the first item of which is
    ``"none"``, ``"all"``, ``"points"``, ``"regular"`` or ``"blocks"``.
    """

    def __init__(self, shape: Shape, selection: StoredSelection) -> None:
        #: Extent; where the file does not store it, the smallest one that contains the selection, or empty.
        self.shape = shape
        self.selection = selection

    def _regular(self) -> tuple[tuple[int | None, ...], ...] | None:
        """Returns start, stride, count and block of each dimension, if the selection is a regular pattern, also for
        one that an old file stores as a list of blocks.
        """
        if self.selection[0] == "regular":
            return tuple(self.selection[1])
        if self.selection[0] != "blocks":
            return None
        corners = self._corners().astype(np.int64)
        axes = []
        for axis in range(corners.shape[2]):
            spans = np.unique(corners[:, :, axis], axis=0)
            sizes, strides = spans[:, 1] - spans[:, 0] + 1, np.diff(spans[:, 0])
            if (sizes != sizes[0]).any() or (len(strides) and (strides != strides[0]).any()):
                return None
            axes.append((int(spans[0, 0]), int(strides[0]) if len(strides) else 1, len(spans), int(sizes[0])))
        blocks = 1
        for _, _, count, _ in axes:
            blocks *= count
        return tuple(axes) if blocks == len(corners) else None

    def is_regular_hyperslab(self) -> bool:
        """True if the selection is a regular pattern of blocks."""
        return self._regular() is not None

    def get_regular_hyperslab(self) -> tuple[tuple[int | None, ...], ...]:
        """Returns start, stride, count and block of a regular pattern; None for an unlimited count."""
        regular = self._regular()
        if regular is None:
            raise TypeError("the selection is not a regular hyperslab")
        return tuple(zip(*regular, strict=True))

    def get_select_npoints(self) -> int:
        """Returns the number of selected elements."""
        return int(_core.Selection.selected(self.selection).count(list(self.shape)))

    def get_select_bounds(self) -> tuple[Shape, Shape]:
        """Returns the first and the last index in each dimension."""
        corners = self._corners()
        return tuple(map(int, corners[:, 0].min(axis=0))), tuple(map(int, corners[:, 1].max(axis=0)))

    def _corners(self) -> Array:
        """Returns the first and the last corner of each block."""
        kind, *rest = self.selection
        if kind == "regular":
            first = [start for start, *_ in rest[0]]
            last = [start + stride * (count - 1) + block - 1 for start, stride, count, block in rest[0]]
            return np.array([[first, last]])
        if kind == "all":
            return np.array([[[0] * len(self.shape), [length - 1 for length in self.shape]]])
        if kind == "none":
            raise ValueError("nothing is selected")
        rank, numbers = rest
        array = np.array(numbers, np.uint64)
        return np.repeat(array.reshape(-1, 1, rank), 2, axis=1) if kind == "points" else array.reshape(-1, 2, rank)

    def selected_shape(self) -> Shape | None:
        """Returns the shape of the selection: of its bounding box if the selection fills it, else a row of elements;
        None for an empty selection of a scalar.
        """
        kind, *rest = self.selection
        dims = self.shape
        if kind == "none":
            return (0,) * len(dims) if dims else None
        if kind == "all":
            return dims
        count = self.get_select_npoints()
        if kind == "points":
            return (count,)
        if count == 0:
            return (0,) * len(dims)
        if kind == "regular":
            return tuple(number * block for _, _, number, block in rest[0])
        # The number of elements in the first plane of each dimension gives the number of planes, if all are alike.
        corners = self._corners().astype(np.int64)
        sizes = corners[:, 1] - corners[:, 0] + 1
        box = corners[:, 0].min(axis=0)
        shape = []
        for axis in range(corners.shape[2]):
            others = np.delete(sizes, axis, axis=1).prod(axis=1)
            plane = int(others[corners[:, 0, axis] == box[axis]].sum())
            shape.append(count // plane)
        return tuple(shape) if int(np.prod(shape)) == count else (count,)


def merged(selection: StoredSelection) -> StoredSelection:
    """Returns a stored selection with adjacent blocks merged, as libhdf5 shows it."""
    if selection[0] != "regular":
        return selection
    axes = []
    for start, stride, count, block in selection[1]:
        adjacent = count == 1 or (count is not None and block is not None and stride == block)
        axes.append((start, 1, 1, count * block) if adjacent and block is not None else (start, stride, count, block))
    return ("regular", tuple(axes))


def as_region(selection: Selection) -> Selection:
    """Returns a selection as a region reference has it: integers keep their dimensions, and nothing has the length 0
    in each.
    """
    if selection.is_null:
        return selection
    shape = (0,) * len(selection.shape) if 0 in selection.shape else selection.shape
    return Selection(selection.native, shape, shape, False)


def referred(dims: Shape, selection: StoredSelection) -> Selection:
    """Resolves a stored selection for a dataset of this extent."""
    shape = Space(dims, selection).selected_shape()
    # An empty selection of a scalar has no shape, and no array.
    return Selection(_core.Selection.selected(selection), shape, shape, False)  # type: ignore[arg-type]
