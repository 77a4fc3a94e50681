"""NumPy's indexing that h5py lacks: several lists and masks in one read.

A selection of a file has each element once, in the file's order. A :class:`Rearrangement` makes NumPy's result from it:
repeated, in another order, or with other dimensions.
"""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hyperchunk import _core
from hyperchunk.exceptions import InvalidError, also
from hyperchunk.typing import Array, Index, Shape, Values

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperchunk.dataset import Dataset
    from hyperchunk.selections import Args, Selection

#: All combinations of the lists' indices are read if there are at most this many times as many as selected points.
_PRODUCT = 4


class Rearrangement(NamedTuple):
    """Transformation of the elements that were read into the result of an index."""

    #: Shape of the array that is read.
    shape: Shape
    #: NumPy index that makes the result from it.
    items: tuple[int | slice | EllipsisType | Array | None, ...]
    #: Dimensions of the lists: their number, their first axis after the indexing, and their first axis in the result.
    move: tuple[int, int, int] = (0, 0, 0)

    def apply(self, read: Array) -> Array:
        """Returns the result of an array that was read; both have the dataset's inner dimensions at the end."""
        count, source, target = self.move
        found = read[self.items]
        if source != target:
            found = np.moveaxis(found, [*range(source, source + count)], [*range(target, target + count)])
        return np.ascontiguousarray(found).reshape(found.shape)

    def undo(self, values: Array) -> Array:
        """Returns the array to write for values in the shape of the result; for a repeated element, the last one."""
        count, source, target = self.move
        if source != target:
            values = np.moveaxis(values, [*range(target, target + count)], [*range(source, source + count)])
        inner = values.ndim - self._rank()
        stored = np.zeros(self.shape + values.shape[values.ndim - inner :], values.dtype)
        stored[self.items] = values
        return stored

    def _rank(self) -> int:
        probe = np.broadcast_to(np.empty((), np.bool_), self.shape)
        return int(probe[self.items].ndim)


def is_list(arg: object) -> bool:
    """True if an item of an index is a list of indices or a mask, with one dimension or more."""
    return np.ndim(arg) > 0 if isinstance(arg, np.ndarray | list | tuple | range) else False


def is_several(args: Args) -> bool:
    """True if an index has several lists, or one of several dimensions: NumPy's meaning then applies."""
    lists = [arg for arg in args if is_list(arg)]
    return len(lists) > 1 or any(np.ndim(arg) > 1 for arg in lists)


def pointwise(dims: Shape, args: Args, *, front: bool, exact: bool) -> Selection:
    """Selects by several lists that are broadcast together, as NumPy does.

    Args:
        dims: Extent of the dataset.
        args: The index.
        front: Puts the lists' dimensions first, as `vindex` does; otherwise where NumPy puts them.
        exact: Selects no element beyond the index, for writing.
    """
    from hyperchunk.selections import Selection, _each_dimension, _index, _slice, is_blocks

    parts: list[Array | tuple[int, int, int, int]] = []
    steps: list[slice] = []
    args = _split_masks(dims, args)
    apart = _are_apart(args)
    for axis, (arg, length) in enumerate(_each_dimension(dims, args)):
        if is_blocks(arg):
            parts.append(arg.indices(length))
            steps.append(slice(None))
        elif arg is None or isinstance(arg, slice):
            start, step, count = (0, 1, length) if arg is None else _slice(arg, length)
            parts.append((start, abs(step), count, 1))
            steps.append(slice(None, None, 1 if step > 0 else -1))
        elif is_list(arg):
            parts.append(_bounded(np.asarray(arg), axis, length))
            steps.append(slice(None))
        else:
            index = _index(arg, length)
            if index is None:
                raise TypeError(f"Selection can't process {arg!r}")
            parts.append(np.array(index, np.int64))
            steps.append(slice(None))
    at = [position for position, part in enumerate(parts) if isinstance(part, np.ndarray)]
    lists = [part for part in parts if isinstance(part, np.ndarray)]
    try:
        points = np.broadcast_arrays(*lists)
    except ValueError:
        shapes = " ".join(str(part.shape) for part in lists if part.ndim)
        message = f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        raise also(also(InvalidError(message), IndexError), TypeError) from None
    shape, patterns = points[0].shape, [part for part in parts if not isinstance(part, np.ndarray)]
    counts = tuple(count * block for _, _, count, block in patterns)
    turned = tuple(steps[position] for position in range(len(parts)) if position not in at)
    position = 0 if front or apart else at[0]
    final = (*counts[:position], *shape, *counts[position:])
    flat = [part.ravel() for part in points]
    unique, inverse = _unique(flat, [dims[axis] for axis in at])
    positions = inverse.reshape(shape)
    move = (len(shape), 0, position)
    if not exact and unique.shape[1]:
        found = _product(parts, at, unique, positions, counts, turned, move, final)
        if found is not None:
            return found
    each = int(np.prod(counts, dtype=np.int64))
    coordinates = np.empty((unique.shape[1], each, len(dims)), np.uint64)
    grid = np.indices(counts, np.uint64).reshape(len(counts), -1) if counts else np.empty((0, 1), np.uint64)
    order = iter(zip(patterns, grid, strict=True))
    for axis, part in enumerate(parts):
        if isinstance(part, np.ndarray):
            coordinates[:, :, axis] = unique[at.index(axis)][:, None]
        else:
            (start, stride, _, block), line = next(order)
            coordinates[:, :, axis] = (
                np.uint64(start) + line // np.uint64(block) * np.uint64(stride) + line % np.uint64(block)
            )
    native = _core.Selection.points(len(dims), coordinates.tobytes())
    read = (unique.shape[1], *counts)
    return Selection(
        native, (unique.shape[1] * each,), final, False, after=Rearrangement(read, (positions, *turned), move)
    )


def _product(
    parts: list[Array | tuple[int, int, int, int]],
    at: list[int],
    unique: Array,
    positions: Array,
    counts: Shape,
    turned: tuple[slice, ...],
    move: tuple[int, int, int],
    final: Shape,
) -> Selection | None:
    """Selects all combinations of the lists' indices; None if these are many more than the points."""
    from hyperchunk.selections import Selection

    lines = [np.unique(line, return_inverse=True) for line in unique]
    size = 1
    for line, _ in lines:
        size *= len(line)
    if size > _PRODUCT * unique.shape[1]:
        return None
    axes: list[tuple[int, int, int, int] | bytes] = []
    shape: list[int] = []
    for axis, part in enumerate(parts):
        if isinstance(part, np.ndarray):
            line = lines[at.index(axis)][0]
            axes.append(line.astype(np.uint64).tobytes())
            shape.append(len(line))
        else:
            axes.append(part)
            shape.append(part[2] * part[3])
    rest = iter(turned)
    index = tuple(lines[at.index(axis)][1][positions] if axis in at else next(rest) for axis in range(len(parts)))
    # NumPy puts the lists' dimensions first if slices separate them.
    count, _, target = move
    after = Rearrangement(tuple(shape), index, (count, at[0] if at[-1] - at[0] == len(at) - 1 else 0, target))
    return Selection(_core.Selection.axes(axes), tuple(shape), final, False, after=after)


def _unique(lists: list[Array], dims: list[int]) -> tuple[Array, Array]:
    """Returns the distinct points of lists of indices in the file's order, a row for each list, and points' numbers."""
    if len(lists) == 1:
        line, inverse = np.unique(lists[0], return_inverse=True)
        return line[None], inverse
    try:
        numbers = np.ravel_multi_index(tuple(lists), tuple(dims)) if lists[0].size else np.empty(0, np.intp)
    except ValueError:
        # The extent has more elements than a 64-bit number can count.
        rows, inverse = np.unique(np.stack(lists, axis=1), axis=0, return_inverse=True)
        return rows.T, inverse
    line, inverse = np.unique(numbers, return_inverse=True)
    if not line.size:
        return np.empty((len(lists), 0), np.int64), inverse
    return np.stack(np.unravel_index(line, tuple(dims))), inverse


def _are_apart(args: Args) -> bool:
    """True if a slice or an ellipsis (of any number of axes) is between lists: NumPy puts their dimensions first."""
    lists = [position for position, arg in enumerate(args) if not (arg is Ellipsis or isinstance(arg, slice))]
    return lists != list(range(lists[0], lists[-1] + 1))


def _split_masks(dims: Shape, args: Args) -> Args:
    """Replaces masks by the indices of their true elements."""
    used = sum(_count_axes(arg) for arg in args if arg is not Ellipsis)
    if used > len(dims):
        message = f"too many indices for array: array is {len(dims)}-dimensional, but {used} were indexed"
        raise also(also(InvalidError(message), IndexError), TypeError)
    found: list[Any] = []
    axis = 0
    for arg in args:
        if arg is Ellipsis:
            axis += len(dims) - used
            found.append(arg)
            continue
        width = _count_axes(arg)
        if is_list(arg) and np.asarray(arg).dtype.kind == "b":
            mask = np.asarray(arg)
            for position, (have, length) in enumerate(zip(mask.shape, dims[axis:], strict=False)):
                if have != length:
                    message = (
                        f"boolean index did not match indexed array along axis {axis + position}; size of axis is "
                        f"{length} but size of corresponding boolean axis is {have}"
                    )
                    raise also(also(InvalidError(message), IndexError), TypeError)
            found += mask.nonzero()
        else:
            found.append(arg)
        axis += width
    return tuple(found)


def _count_axes(arg: object) -> int:
    """Returns the number of dimensions that an item of an index takes."""
    if is_list(arg) and (mask := np.asarray(arg)).dtype.kind == "b":
        return mask.ndim
    return 1


def _bounded(indices: Array, axis: int, length: int) -> Array:
    """Checks indices, and counts negative ones from the end."""
    if indices.size == 0 and indices.dtype.kind == "f":
        # NumPy makes an empty list an array of floats.
        indices = indices.astype(np.int64)
    if indices.dtype.kind not in "iu":
        message = "arrays used as indices must be of integer (or boolean) type"
        raise also(also(InvalidError(message), IndexError), TypeError)
    if indices.size:
        wrong = (indices >= length) if indices.dtype.kind == "u" else (indices >= length) | (indices < -length)
        if wrong.any():
            message = f"index {indices[wrong].flat[0]} is out of bounds for axis {axis} with size {length}"
            raise also(InvalidError(message), IndexError)
    indices = indices.astype(np.int64)
    return np.where(indices < 0, indices + length, indices)


class Indexer:
    """Result of ``dataset.oindex`` and ``dataset.vindex``: reads and writes by an index with several lists."""

    def __init__(self, dataset: Dataset, way: str) -> None:
        self._dataset = dataset
        self._way = way

    def __getitem__(self, args: Index) -> Values:
        return self._dataset._read_by(args if isinstance(args, tuple) else (args,), self._way)

    def __setitem__(self, args: Index, values: npt.ArrayLike) -> None:
        self._dataset._write_at(args if isinstance(args, tuple) else (args,), values, self._way)

    def __repr__(self) -> str:
        return f"<{self._way} of {self._dataset!r}>"


__all__ = ["Indexer", "Rearrangement"]
