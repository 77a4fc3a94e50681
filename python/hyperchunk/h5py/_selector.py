"""Selections made from indices, under the name of h5py's module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperchunk.h5py.h5s import SpaceID
from hyperchunk.selections import Args, MultiBlockSlice, select

if TYPE_CHECKING:
    from hyperchunk.h5py._hl.selections import FancySelection, SimpleSelection


class Selector:
    """Selects in a dataspace by indices."""

    def __init__(self, space: SpaceID) -> None:
        self.spaceobj = space

    def make_selection(self, args: Args) -> SimpleSelection | FancySelection:
        """Selects by an index; returns the selection."""
        from hyperchunk.h5py._hl.selections import FancySelection, SimpleSelection

        shape = self.spaceobj._need()
        found = select(shape, args)
        self.spaceobj._selected = found.native.description(list(shape))
        made = (SimpleSelection if found.simple else FancySelection)(shape, self.spaceobj)
        made._shape, made._array_shape = found.shape, found.array_shape
        return made


__all__ = ["MultiBlockSlice", "Selector"]
