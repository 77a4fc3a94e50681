"""Dataspaces: an extent with a selection of its elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hyperchunk import _core
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.h5py._objects import ObjectID, missing
from hyperchunk.selections import Selection, Space, StoredSelection
from hyperchunk.typing import Array

NO_CLASS, SCALAR, SIMPLE, NULL = -1, 0, 1, 2
SELECT_NOOP, SELECT_SET, SELECT_OR, SELECT_AND, SELECT_XOR = -1, 0, 1, 2, 3
SELECT_NOTB, SELECT_NOTA, SELECT_APPEND, SELECT_PREPEND, SELECT_INVALID = 4, 5, 6, 7, 8
SEL_ERROR, SEL_NONE, SEL_POINTS, SEL_HYPERSLABS, SEL_ALL = -1, 0, 1, 2, 3
UNLIMITED = 2**64 - 1

_KINDS = {"none": SEL_NONE, "points": SEL_POINTS, "regular": SEL_HYPERSLABS, "blocks": SEL_HYPERSLABS, "all": SEL_ALL}
# Maximum number of elements of an extent in which selections are combined element by element.
_MOST_COMBINED = 1 << 28

Dims = tuple[int, ...]


def _bound(length: int | None) -> int | None:
    return None if length in (None, UNLIMITED) else length


class SpaceID(ObjectID):
    """A dataspace. `dims` is None for a null dataspace."""

    def __init__(
        self, dims: Dims | None, bounds: tuple[int | None, ...] | None = None, *, selected: StoredSelection = ("all",)
    ) -> None:
        super().__init__()
        self._dims = dims
        self._bounds = tuple(dims or ()) if bounds is None else tuple(_bound(length) for length in bounds)
        self._selected = selected

    def _selection(self) -> Selection:
        """Returns the selection in Hyperchunk's form."""
        from hyperchunk.selections import referred

        return referred(self._need(), self._selected)

    def _need(self) -> Dims:
        return () if self._dims is None else self._dims

    # --- Extent ---

    @property
    def shape(self) -> Dims | None:
        """Extent; None for a null dataspace."""
        return self._dims

    def copy(self) -> SpaceID:
        """Returns a copy."""
        return SpaceID(self._dims, self._bounds, selected=self._selected)

    def is_simple(self) -> bool:
        """Returns whether the dataspace has an extent: False only for a null dataspace."""
        return self._dims is not None

    def get_simple_extent_ndims(self) -> int:
        """Returns the number of dimensions."""
        return len(self._need())

    def get_simple_extent_dims(self, maxdims: bool = False) -> Dims | None:
        """Returns the extent; or, with `maxdims`, the maximum extent, with ``UNLIMITED`` for dimensions without one;
        None for a null dataspace.
        """
        if not maxdims or self._dims is None:
            return self._dims
        return tuple(UNLIMITED if length is None else length for length in self._bounds)

    def get_simple_extent_npoints(self) -> int:
        """Returns the number of elements."""
        return 0 if self._dims is None else math.prod(self._dims)

    def get_simple_extent_type(self) -> int:
        """Returns ``SCALAR``, ``SIMPLE`` or ``NULL``."""
        if self._dims is None:
            return NULL
        return SIMPLE if self._dims else SCALAR

    def extent_copy(self, source: SpaceID) -> None:
        """Copies the extent of another dataspace."""
        self._dims, self._bounds, self._selected = source._dims, source._bounds, ("all",)

    def set_extent_simple(self, dims_tpl: Dims, max_dims_tpl: tuple[int | None, ...] | None = None) -> None:
        """Changes the extent."""
        _check_bounds(tuple(dims_tpl), max_dims_tpl)
        self._dims, self._selected = tuple(dims_tpl), ("all",)
        self._bounds = self._dims if max_dims_tpl is None else tuple(_bound(length) for length in max_dims_tpl)

    def set_extent_none(self) -> None:
        """Makes it a null dataspace."""
        self._dims, self._bounds, self._selected = None, (), ("all",)

    # --- Selections ---

    def get_select_type(self) -> int:
        """Returns ``SEL_ALL``, ``SEL_NONE``, ``SEL_POINTS`` or ``SEL_HYPERSLABS``."""
        return _KINDS[self._selected[0]]

    def get_select_npoints(self) -> int:
        """Returns the number of selected elements."""
        if self._dims is None:
            return 0
        kind = self._selected[0]
        if kind == "all":
            return math.prod(self._dims)
        if kind == "regular" and any(count is None for _, _, count, _ in self._selected[1]):
            return UNLIMITED
        return int(self._space().get_select_npoints())

    def get_select_bounds(self) -> tuple[Dims, Dims]:
        """Returns the first and the last selected index of each dimension."""
        return self._space().get_select_bounds()

    def _space(self) -> Space:
        return Space(self._need(), self._selected)

    def select_all(self) -> None:
        """Selects all elements."""
        self._selected = ("all",)

    def select_none(self) -> None:
        """Selects nothing."""
        self._selected = ("none",)

    def select_copy(self, source: SpaceID) -> None:
        """Copies the extent and the selection of another dataspace."""
        self._dims, self._bounds, self._selected = source._dims, source._bounds, source._selected

    def select_valid(self) -> bool:
        """Returns whether the selection is within the extent."""
        if self._selected[0] in ("none", "all"):
            return True
        _, last = self.get_select_bounds()
        return all(index < length for index, length in zip(last, self._need(), strict=True))

    def select_shape_same(self, space: SpaceID) -> bool:
        """Returns whether the selection of another dataspace has the same shape."""
        mine, other = self._selection(), space._selection()
        return _squeezed(mine.shape) == _squeezed(other.shape)

    def get_select_elem_npoints(self) -> int:
        """Returns the number of selected points."""
        if self._selected[0] != "points":
            raise ValueError("Can't get number of element points (not an element selection)")
        return int(len(self._selected[2]) // self._selected[1])

    def get_select_elem_pointlist(self) -> Array:
        """Returns the coordinates of selected points, a row for each."""
        if self._selected[0] != "points":
            raise ValueError("Can't get element points (not an element selection)")
        return np.array(self._selected[2], np.uint64).reshape(-1, self._selected[1])

    def select_elements(self, coords: npt.ArrayLike, op: int = SELECT_SET) -> None:
        """Selects points by their coordinates, a row for each; also before (``SELECT_PREPEND``) or after
        (``SELECT_APPEND``) the current ones.
        """
        rank = len(self._need())
        rows = np.asarray(coords, np.uint64)
        if rows.ndim != 2 or rows.shape[1] != rank or not len(rows):
            raise ValueError(f"Coordinate array must have shape (<npoints>, {rank})")
        listed = [int(number) for number in rows.ravel()]
        present = list(self._selected[2]) if self._selected[0] == "points" else []
        if op == SELECT_SET:
            self._selected = ("points", rank, listed)
        elif op in (SELECT_APPEND, SELECT_PREPEND):
            self._selected = ("points", rank, present + listed if op == SELECT_APPEND else listed + present)
        else:
            raise ValueError("Unsupported operation for element selections")

    def get_select_hyper_nblocks(self) -> int:
        """Returns the number of blocks of a hyperslab selection."""
        return len(self.get_select_hyper_blocklist())

    def get_select_hyper_blocklist(self, startblock: int = 0, numblocks: int | None = None) -> Array:
        """Returns the first and last corner of each block of a hyperslab selection."""
        kind, *rest = self._selected
        if kind == "blocks":
            corners = np.array(rest[1], np.uint64).reshape(-1, 2, rest[0])
        elif kind == "regular":
            firsts = [[start + stride * number for number in range(count)] for start, stride, count, _ in rest[0]]
            grid = np.array(np.meshgrid(*firsts, indexing="ij"), np.uint64).reshape(len(firsts), -1).T
            sizes = np.array([block - 1 for _, _, _, block in rest[0]], np.uint64)
            corners = np.stack([grid, grid + sizes], axis=1)
        else:
            raise TypeError("Can't get number of hyperslab blocks (not a hyperslab selection)")
        return corners[startblock : None if numblocks is None else startblock + numblocks]

    def select_hyperslab(
        self,
        start: Sequence[int],
        count: Sequence[int],
        stride: Sequence[int] | None = None,
        block: Sequence[int] | None = None,
        op: int = SELECT_SET,
    ) -> None:
        """Selects a pattern of blocks, combined with the current selection by `op`."""
        rank = len(self._need())
        if not rank:
            raise ValueError("Can't select hyperslab: a scalar dataspace has no hyperslabs")
        parts = (start, (1,) * rank if stride is None else stride, count, (1,) * rank if block is None else block)
        axes = []
        for part in parts:
            if len(tuple(part)) != rank:
                raise TypeError(f"expected a tuple of {rank} numbers, got {part!r}")
        for first, step, number, size in zip(*parts, strict=True):
            if step == 0:
                raise ValueError("Unable to set hyperslab selection (invalid stride==0)")
            if number > 1 and number != UNLIMITED and step < size:
                raise ValueError("Unable to set hyperslab selection (hyperslab blocks overlap)")
            axes.append((int(first), int(step), None if number == UNLIMITED else int(number), int(size)))
        empty = any(number == 0 or size == 0 for _, _, number, size in axes)
        made: StoredSelection = ("none",) if empty else ("regular", tuple(axes))
        self._combine(made, op)

    def _combine(self, other: StoredSelection, op: int) -> None:
        present = self._selected
        if op == SELECT_SET or (op == SELECT_OR and present[0] == "none"):
            self._selected = other
            return
        if op == SELECT_AND and present[0] == "all":
            self._selected = other
            return
        if op == SELECT_OR and "all" in (present[0], other[0]):
            self._selected = ("all",)
            return
        mine, yours = self._mask(present), self._mask(other)
        operations = {
            SELECT_OR: lambda: mine | yours,
            SELECT_AND: lambda: mine & yours,
            SELECT_XOR: lambda: mine ^ yours,
            SELECT_NOTB: lambda: mine & ~yours,
            SELECT_NOTA: lambda: ~mine & yours,
        }
        if op not in operations:
            raise ValueError(f"Unable to set hyperslab selection (operation {op})")
        self._selected = _blocks(operations[op]())

    def _mask(self, selected: StoredSelection) -> Array:
        dims = self._need()
        if math.prod(dims) > _MOST_COMBINED:
            raise UnsupportedError(f"cannot combine selections in an extent of {math.prod(dims)} elements")
        kind, *rest = selected
        if kind == "points":
            mask = np.zeros(dims, bool)
            mask[tuple(np.array(rest[1], np.int64).reshape(-1, rest[0]).T)] = True
            return mask
        if kind != "blocks":
            if kind in ("none", "all"):
                return np.full(dims, kind == "all")
            mask = np.ones(dims, bool)
            for axis, (start, stride, count, block) in enumerate(rest[0]):
                line = np.zeros(dims[axis], bool)
                for number in range(-(-(dims[axis] - start) // stride) if count is None else count):
                    line[start + number * stride : start + number * stride + block] = True
                mask &= line.reshape([-1 if at == axis else 1 for at in range(len(dims))])
            return mask
        mask = np.zeros(dims, bool)
        for first, last in np.array(rest[1], np.int64).reshape(-1, 2, rest[0]):
            mask[tuple(slice(a, b + 1) for a, b in zip(first, last, strict=True))] = True
        return mask

    def combine_select(self, space: SpaceID, op: int) -> SpaceID:
        """Returns a dataspace with the combination of both selections."""
        made = self.copy()
        made._combine(space._selected, op)
        return made

    def modify_select(self, space: SpaceID, op: int) -> None:
        """Combines the selection with another one."""
        self._combine(space._selected, op)

    def is_regular_hyperslab(self) -> bool:
        """Returns whether the selection is one pattern of blocks."""
        if self.get_select_type() != SEL_HYPERSLABS:
            return False
        return self._space().is_regular_hyperslab()

    def get_regular_hyperslab(self) -> tuple[Dims, ...]:
        """Returns start, stride, count and block of the selection."""
        found = self._space().get_regular_hyperslab()
        start, stride, count, block = (
            tuple(UNLIMITED if number is None else number for number in part) for part in found
        )
        return start, stride, count, block

    def _native(self) -> _core.Selection:
        return _core.Selection.all() if self._selected == ("all",) else _core.Selection.selected(self._selected)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpaceID):
            return NotImplemented
        mine, yours = (self._dims, self._bounds, self._selected), (other._dims, other._bounds, other._selected)
        return self is other or mine == yours

    def __hash__(self) -> int:
        return id(self)


def _squeezed(shape: Dims | None) -> Dims:
    return tuple(length for length in shape or () if length != 1)


def _blocks(mask: Array) -> StoredSelection:
    """Returns the selection of a mask, as a row of elements for each block, merged along the second last dimension."""
    if not mask.any():
        return ("none",)
    rank = mask.ndim
    edges = np.diff(np.pad(mask.astype(np.int8), [(0, 0)] * (rank - 1) + [(1, 1)]), axis=-1)
    firsts, ends = np.argwhere(edges == 1), np.argwhere(edges == -1)
    ends[:, -1] -= 1
    blocks: list[list[list[int]]] = []
    for first, last in zip(firsts.tolist(), ends.tolist(), strict=True):
        if rank > 1 and blocks:
            before = blocks[-1]
            follows = before[0][:-2] == first[:-2] and before[1][-2] + 1 == first[-2]
            if follows and before[0][-1] == first[-1] and before[1][-1] == last[-1]:
                before[1][-2] += 1
                continue
        blocks.append([first, last])
    return ("blocks", rank, [number for block in blocks for corner in block for number in corner])


def create(class_code: int) -> SpaceID:
    """Creates a dataspace of a class."""
    if class_code == SIMPLE:
        return SpaceID(())
    if class_code not in (SCALAR, NULL):
        raise ValueError(f"Unable to create dataspace (class {class_code})")
    return SpaceID(None if class_code == NULL else ())


def create_simple(dims_tpl: Dims, max_dims_tpl: tuple[int | None, ...] | None = None) -> SpaceID:
    """Creates a dataspace from an extent and a maximum extent."""
    dims = tuple(int(length) for length in dims_tpl)
    if max_dims_tpl is not None and len(max_dims_tpl) != len(dims):
        raise ValueError("Dimension tuples must have same length")
    _check_bounds(dims, max_dims_tpl)
    return SpaceID(dims, max_dims_tpl)


def _check_bounds(dims: Dims, bounds: tuple[int | None, ...] | None) -> None:
    """Raises an error if an extent is larger than its maximum."""
    for length, most in zip(dims, bounds or (), strict=False):
        if _bound(most) is not None and most is not None and length > most:
            raise ValueError(f"Unable to create dataspace (maxdims is smaller than dims: {most} < {length})")


#: Stands for all elements, in calls that read or write.
ALL = SpaceID(())
_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
