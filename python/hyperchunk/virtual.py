"""Layouts of new virtual datasets."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hyperchunk.datatype import Datatype
from hyperchunk.dtypes import Description
from hyperchunk.objects import encode
from hyperchunk.selections import Args, Selection, everything, select_in_order
from hyperchunk.typing import Index, PathLike, Shape, ShapeLike

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset

#: End of an unlimited slice. h5py's ``h5s.UNLIMITED``.
UNLIMITED = 2**64 - 1


class VirtualSource:
    """A source of a virtual dataset: a path and a name with the shape, or a dataset. ``source[index]`` selects a part
    of it. In the names of files and datasets, ``%b`` stands for a block number.

    Args:
        path_or_dataset: Path of the file, or a dataset, which then takes no other argument.
        name: Path of the dataset in that file.
        shape, dtype, maxshape: Extent, dtype and maximum extent of the dataset.

    Raises:
        TypeError: A path without `name` and `shape`, or a dataset with another argument.

    Example:
        >>> hyperchunk.VirtualSource("day-1.h5", "t", (24, 10))[:, 0].shape
        (24,)
    """

    def __init__(
        self,
        path_or_dataset: PathLike | bytes | Dataset,
        name: str | None = None,
        shape: ShapeLike | None = None,
        dtype: npt.DTypeLike | None = None,
        maxshape: int | tuple[int | None, ...] | None = None,
    ) -> None:
        if isinstance(path_or_dataset, str | bytes | os.PathLike):
            if name is None or shape is None:
                raise TypeError("a source that is given by its path needs a name and a shape")
            path = path_or_dataset
        else:
            if any(value is not None for value in (name, shape, dtype, maxshape)):
                raise TypeError("a source that is a dataset takes no other argument")
            dataset = path_or_dataset
            path, name = dataset.file.filename, dataset.name
            shape, dtype, maxshape = dataset.shape, dataset.dtype, dataset.maxshape
        self.path: str = os.fsdecode(path)
        self.name: str = str(name)
        self.dtype = dtype
        self._dims: Shape = _extent(shape)
        self.maxshape = self._dims if maxshape is None else _bounds(maxshape)
        self._selection: Selection | None = None
        self._args: Args = ()

    @property
    def shape(self) -> Shape:
        """Shape of the selected part."""
        return self._dims if self._selection is None else self._selection.array_shape

    def __getitem__(self, args: Index) -> VirtualSource:
        if self._selection is not None:
            raise RuntimeError("VirtualSource objects can only be sliced once.")
        part = object.__new__(VirtualSource)
        part.path, part.name, part.dtype, part.maxshape = self.path, self.name, self.dtype, self.maxshape
        part._dims = self._dims
        part._args = args if isinstance(args, tuple) else (args,)
        part._selection = select_in_order(self._dims, part._args)
        return part

    def _region(self) -> Description:
        selection = everything(self._dims) if self._selection is None else self._selection
        return _region(selection, self._dims, self._args)


class VirtualLayout:
    """Layout of a new virtual dataset: assign ``layout[index] = source`` for each part, then call
    ``group.create_virtual_dataset(name, layout)``.

    Args:
        shape: Extent of the dataset.
        dtype: Dtype, or a committed datatype.
        maxshape: Maximum extent; None in an unlimited dimension.
        filename: Name of the only file that the layout may be used in; by default any.

    Example:
        >>> with hyperchunk.open("day-1.h5", "w") as file:
        ...     file["t"] = numpy.arange(4)
        >>> layout = hyperchunk.VirtualLayout((2, 4), "i8")
        >>> layout[0] = hyperchunk.VirtualSource("day-1.h5", "t", (4,))
        >>> with hyperchunk.open("days.h5", "w") as file:
        ...     days = file.create_virtual_dataset("t", layout, fillvalue=-1)
        >>> with hyperchunk.open("days.h5") as file:
        ...     file["t"][:].tolist()
        [[0, 1, 2, 3], [-1, -1, -1, -1]]
    """

    def __init__(
        self,
        shape: ShapeLike,
        dtype: npt.DTypeLike | Datatype,
        maxshape: int | tuple[int | None, ...] | None = None,
        filename: str | None = None,
    ) -> None:
        self.shape = _extent(shape)
        self.dtype = dtype
        self.maxshape = None if maxshape is None else _bounds(maxshape)
        self._filename = filename
        self._parts: list[tuple[str, str, Description, Description]] = []

    def __setitem__(self, args: Index, source: VirtualSource) -> None:
        args = args if isinstance(args, tuple) else (args,)
        chosen = select_in_order(self.shape, args)
        target, taken = _region(chosen, self.shape, args), source._region()
        if not _endless(target) and math.prod(chosen.shape) != math.prod(source.shape):
            raise ValueError(
                f"a source of shape {source.shape} has a different number of elements than the part of shape "
                f"{chosen.array_shape}"
            )
        self._parts.append((source.path, source.name, taken, target))

    def _mappings(self, filename: str) -> list[tuple[list[bytes], list[bytes], Description, Description]]:
        """Returns the mappings for a dataset in the given file; sources in the same file are stored as ``"."``, so
        that the file may be renamed.
        """
        if self._filename is not None and os.fspath(self._filename) != filename:
            raise ValueError(f"the layout was made for {self._filename!r}, not for {filename!r}")
        return [
            (_parts("." if path == filename else path), _parts(name), source, target)
            for path, name, source, target in self._parts
        ]


def _extent(shape: ShapeLike | None) -> Shape:
    if shape is None:
        raise TypeError("a dataset with a null dataspace cannot be a source")
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(length) for length in shape)


def _bounds(maxshape: int | tuple[int | None, ...]) -> tuple[int | None, ...]:
    bounds = (maxshape,) if isinstance(maxshape, int) else tuple(maxshape)
    return tuple(None if bound in (None, UNLIMITED) else bound for bound in bounds)


def _region(selection: Selection, dims: Shape, args: Args) -> Description:
    """Converts a selection to its form in a file; slices up to `UNLIMITED` have no end."""
    found: Description = selection.native.description(list(dims))
    endless = [isinstance(arg, slice) and arg.stop == UNLIMITED for arg in args]
    if not any(endless):
        if found == ("all",):
            # A stored "all" would follow the extent; this selection must not.
            return ("regular", tuple((0, 1, 1, length) for length in dims)) if dims else found
        return found
    if selection.axes is None:
        raise TypeError("a selection with an unlimited slice takes only slices and integers")
    if any(arg is Ellipsis for arg in args):
        at = next(index for index, arg in enumerate(args) if arg is Ellipsis)
        endless[at : at + 1] = [False] * (len(dims) - len(args) + 1)
    endless += [False] * (len(dims) - len(endless))
    return (
        "regular",
        tuple(
            (start, stride, None if free else count, block)
            for (start, stride, count, block), free in zip(selection.axes, endless, strict=True)
        ),
    )


def _endless(region: Description) -> bool:
    return region[0] == "regular" and any(count is None or block is None for _, _, count, block in region[1])


def _parts(name: str) -> list[bytes]:
    """Splits a name at ``%b``; ``%%`` is a percent sign."""
    parts, rest = [b""], encode(name)
    while rest:
        head, percent, rest = rest.partition(b"%")
        parts[-1] += head
        if percent and rest.startswith(b"b"):
            parts.append(b"")
            rest = rest[1:]
        elif percent:
            parts[-1] += b"%"
            rest = rest.removeprefix(b"%")
    return parts
