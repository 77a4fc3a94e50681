"""Selections made from indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from hyperchunk import selections as native
from hyperchunk.h5py.h5s import SpaceID
from hyperchunk.typing import Array, Index, Shape

#: Coordinates, a row for each point.
Points: TypeAlias = Sequence[Sequence[int]] | Array


class Selection:
    """A selection of elements of a dataspace."""

    def __init__(self, shape: Sequence[int], spaceid: SpaceID | None = None) -> None:
        self._dims = tuple(shape)
        self._id = SpaceID(self._dims) if spaceid is None else spaceid
        self._shape: tuple[int, ...] | None = None
        self._array_shape: tuple[int, ...] | None = None

    @property
    def id(self) -> SpaceID:
        """Dataspace."""
        return self._id

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of the dataspace."""
        return self._dims

    @property
    def nselect(self) -> int:
        """Number of selected elements."""
        return self._id.get_select_npoints()

    @property
    def mshape(self) -> tuple[int, ...]:
        """Number of selected elements in each dimension."""
        return (self.nselect,) if self._shape is None else self._shape

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of the array that is read: without dimensions that are indexed by an integer."""
        return self.mshape if self._array_shape is None else self._array_shape

    def expand_shape(self, source_shape: Shape) -> Shape:
        """Returns the shape of values, without dimensions of length 1 that are not selected."""
        if tuple(source_shape) != self.mshape:
            raise TypeError(f"Broadcasting is not supported for point-wise selections: {source_shape}")
        return source_shape

    def broadcast(self, source_shape: Shape) -> Iterator[SpaceID]:
        """Yields the dataspaces to which the values are written, one by one."""
        if tuple(source_shape) not in (self.mshape, self.array_shape):
            raise TypeError(f"Broadcasting is not supported for {type(self).__name__}")
        yield self._id


class PointSelection(Selection):
    """Single elements."""

    @classmethod
    def from_mask(cls, mask: Array, spaceid: SpaceID | None = None) -> PointSelection:
        """Selects the elements at which a mask is true."""
        made = cls(mask.shape, spaceid)
        made._put(np.transpose(np.asarray(mask).nonzero()))
        return made

    def __init__(self, shape: Sequence[int], spaceid: SpaceID | None = None, points: Points | None = None) -> None:
        super().__init__(shape, spaceid)
        if points is not None:
            self._put(points)

    def _put(self, points: Points, op: int = 0) -> None:
        if len(points):
            self._id.select_elements(points, op)
        else:
            self._id.select_none()

    def append(self, points: Points) -> None:
        """Adds points at the end."""
        self._put(points, 6)

    def prepend(self, points: Points) -> None:
        """Adds points at the beginning."""
        self._put(points, 7)

    def set(self, points: Points) -> None:
        """Replaces the points."""
        self._put(points)


class SimpleSelection(Selection):
    """Slices and integers."""


class FancySelection(Selection):
    """Slices, integers and a list."""


def select(shape: Shape, args: Index | Selection, dataset: object = None) -> Selection:
    """Returns the selection of an index."""
    args = args if isinstance(args, tuple) else (args,)
    if len(args) == 1 and isinstance(args[0], Selection):
        if args[0].shape != tuple(shape):
            raise TypeError("Mismatched selection shape")
        return args[0]
    if len(args) == 1 and isinstance(args[0], np.ndarray) and args[0].dtype.kind == "b" and args[0].shape == shape:
        return PointSelection.from_mask(args[0])
    found = native.select(tuple(shape), args)
    space = SpaceID(tuple(shape), selected=found.native.description(list(shape)))
    made = (SimpleSelection if found.simple else FancySelection)(shape, space)
    made._shape, made._array_shape = found.shape, found.array_shape
    return made


def guess_shape(sid: SpaceID) -> Shape | None:
    """Returns the shape of a selection."""
    return sid._space().selected_shape()
