"""Datasets of collections: the datasets of all files, joined along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk import batches
from hyperchunk import collection_reads as reads
from hyperchunk._printable import printable
from hyperchunk.dataset import Dataset
from hyperchunk.exceptions import InvalidError
from hyperchunk.objects import encode
from hyperchunk.typing import Array, Dtype, Index

if TYPE_CHECKING:
    from hyperchunk.collection import Collection

__all__ = ["CollectionDataset", "FileStatistics"]


@dataclass(frozen=True)
class FileStatistics:
    """Statistics of a dataset in one file."""

    #: Number of elements, and number of NaNs among them.
    count: int
    nan: int
    #: Exact minimum and maximum of the others; None if there are none.
    min: float | int | None
    max: float | int | None


class CollectionDataset:
    """A dataset of all files of a collection, joined along one axis; without that axis, the dataset of the first file.

    Example:
        >>> for number in range(2):
        ...     with hyperchunk.create(f"part{number}.h5") as file:
        ...         file["x"] = [number, number + 10]
        >>> x = hyperchunk.open_collection(["part0.h5", "part1.h5"], concat=0)["x"]
        >>> x.shape, x[1:].tolist(), x.spans()
        ((4,), [10, 1, 11], [(0, 2), (2, 4)])
    """

    def __init__(
        self,
        collection: Collection,
        path: str,
        axis: int | None,
        ends: Array,
        values: bytes | None,
        units: dict[int, tuple[str | None, str | None]],
    ) -> None:
        self._collection = collection
        self._axis = axis
        self._values = values
        #: Path in each file.
        self.name = path
        #: Units and calendar of files in which they differ from the first file's, by number of the file.
        self.units = units
        #: Row after the last one of each file along the joined axis.
        self.ends = ends

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "first"}

    @cached_property
    def first(self) -> Dataset:
        """The dataset of the first file."""
        return self._dataset(0)

    def _dataset(self, number: int) -> Dataset:
        found = self._collection.file(number)[self.name]
        if not isinstance(found, Dataset):
            file = printable(self._collection.files[number])
            raise InvalidError(
                f"cannot read {printable(self.name)} of the collection: expected a dataset in {file}, got a group or a "
                "datatype; collect the files again"
            )
        return found

    def file_name(self, number: int) -> str:
        """Returns the path or URL of a file.

        Args:
            number: Number of the file, from 0.
        """
        return self._collection.files[number]

    @property
    def open_files(self) -> reads.OpenFiles:
        """The open files of the collection."""
        return self._collection._open

    @property
    def axis(self) -> int | None:
        """Axis along which the files' datasets are joined; None if only the first file's dataset is used."""
        return self._axis

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of the joined dataset."""
        shape = list(self.first.shape or ())
        if self._axis is not None:
            if self._axis >= len(shape):
                raise InvalidError(f"cannot join {self.name} along axis {self._axis}: it has {len(shape)} dimensions")
            shape[self._axis] = int(self.ends[-1])
        return tuple(shape)

    @property
    def dtype(self) -> Dtype:
        """Dtype of the elements."""
        return self.first.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.first.ndim

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f'<CollectionDataset "{self.name}": shape {self.shape}, type "{self.dtype.str}">'

    @property
    def statistics(self) -> list[FileStatistics | None] | None:
        """Statistics of each file, None for one without; None if there are none (:meth:`Collection.gather`)."""
        found = self._collection._core.statistics(encode(self.name), self.first._readable)
        return None if found is None else [None if file is None else FileStatistics(*file) for file in found]

    def spans(self) -> list[tuple[int, int]]:
        """Returns the first row and the end (exclusive) of each file along the joined axis."""
        ends = [int(end) for end in self.ends]
        return list(zip([0, *ends[:-1]], ends, strict=True))

    def collected_values(self) -> Array | None:
        """Returns the values of a coordinate that are stored in the collection, without reading the files; None if
        they are not stored.
        """
        dtype = self.dtype
        if self._values is None or dtype.hasobject or len(self._values) != int(np.prod(self.shape)) * dtype.itemsize:
            return None
        return np.frombuffer(self._values, dtype).reshape(self.shape).copy()

    def check_units(self, numbers: Sequence[int]) -> None:
        """Raises an InvalidError if files have different units.

        Args:
            numbers: Numbers of the files.
        """
        odd = [number for number in numbers if number in self.units]
        kinds = {self.units[number] for number in odd}
        if len(kinds) + (len(odd) < len(numbers)) > 1:
            unit, calendar = self.units[odd[0]]
            raise InvalidError(
                f"cannot join values of {self.name}: its units differ between the files, {unit!r} (calendar "
                f"{calendar!r}) in {self.file_name(odd[0])}; open the collection with xarray, which decodes them, or "
                "read values as they are stored with `stored(index)`"
            )

    def __getitem__(self, index: Index) -> Array:
        """Reads elements of all files. The index has an integer, a slice, a list or a mask for each axis; several lists
        select all combinations, as in xarray's outer indexing.

        Raises:
            InvalidError: The elements are in files with different units.
        """
        items, shown = _per_axis(index, self.shape)
        if self.units and self._axis is not None:
            rows = np.arange(self.shape[self._axis])[items[self._axis]]
            self.check_units(np.unique(np.searchsorted(self.ends, rows, side="right")).tolist())
        return self._elements(items)[shown]

    def stored(self, index: Index = ...) -> Array:
        """Reads elements of all files as they are stored, also of files with different units (:attr:`units`).

        Args:
            index: Integers, slices, and a list or mask on each axis.
        """
        items, shown = _per_axis(index, self.shape)
        return self._elements(items)[shown]

    def _elements(self, items: tuple[reads.Item, ...]) -> Array:
        kept = self.collected_values()
        if kept is not None:
            return reads.outer(kept, items)
        if self._axis is None:
            plain, rest = reads.split(items)
            return reads.outer(np.asarray(batches._read([(self.first, plain)])[0]), rest)
        return reads.read(self, items, self.shape)


def _per_axis(index: Index, shape: tuple[int, ...]) -> tuple[tuple[reads.Item, ...], tuple[int | slice, ...]]:
    """Returns an item for each axis, none of them an integer, and the index that removes the axes of integers."""
    given = list(index) if isinstance(index, tuple) else [index]
    if sum(item is Ellipsis for item in given) > 1:
        raise InvalidError("an index can only have a single ellipsis")
    if any(item is None for item in given):
        raise InvalidError("a collection takes no new axes: index with None afterwards")
    if Ellipsis not in [item for item in given if not isinstance(item, np.ndarray)]:
        given.append(Ellipsis)
    at = next(position for position, item in enumerate(given) if item is Ellipsis)
    given[at : at + 1] = [slice(None)] * (len(shape) - len(given) + 1)
    if len(given) != len(shape):
        raise InvalidError(f"expected at most {len(shape)} indices, one for each dimension, got {len(given)}")
    items: list[reads.Item] = []
    shown: list[int | slice] = []
    for item, length in zip(given, shape, strict=True):
        if isinstance(item, slice):
            items.append(item)
            shown.append(slice(None))
        elif isinstance(item, int | np.integer) and not isinstance(item, bool):
            if not -length <= item < length:
                raise IndexError(f"index {item} is out of bounds for an axis of length {length}")
            items.append(np.array([int(item) % length]))
            shown.append(0)
        else:
            rows = np.asarray(item)
            if rows.dtype == bool:
                if rows.shape != (length,):
                    raise InvalidError(f"expected a mask of shape {(length,)}, got one of shape {rows.shape}")
                (rows,) = np.nonzero(rows)
            elif rows.dtype.kind not in "iu" and rows.size:
                raise IndexError(f"an axis takes an integer, a slice, a list of integers or a mask, not {item!r}")
            elif rows.dtype.kind == "u" and rows.size and rows.max() >= length:
                raise IndexError(f"indices out of bounds for an axis of length {length}")
            rows = rows.astype(np.int64, copy=False)
            if rows.ndim != 1:
                raise InvalidError(f"expected a one-dimensional list for an axis, got {rows.ndim} dimensions")
            if rows.size and not (-length <= rows.min() and rows.max() < length):
                raise IndexError(f"indices out of bounds for an axis of length {length}")
            items.append(np.where(rows < 0, rows + length, rows))
            shown.append(slice(None))
    return tuple(items), tuple(shown)
