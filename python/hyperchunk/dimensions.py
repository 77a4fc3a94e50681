"""Dimension scales, which are datasets with the coordinates of a dimension, and dimension labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hyperchunk._printable import printable
from hyperchunk.exceptions import HyperchunkError
from hyperchunk.objects import read_only

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
    return str(value)


class _NoScaleError(HyperchunkError, IndexError, RuntimeError):
    """The dimension has no scales; h5py raises RuntimeError."""


def is_scale(dataset: Dataset) -> bool:
    """True if a dataset is a dimension scale."""
    value = dataset.attrs.get("CLASS")
    return isinstance(value, bytes | str) and _text(value) == "DIMENSION_SCALE"


class DimensionProxy:
    """A dimension of a dataset: its label, and its scales by number or name.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["time"], file["t"] = [0.0, 0.5], [20.0, 21.0]
        ...     file["t"].dims[0].label = "time"
        ...     file["t"].dims[0].attach_scale(file["time"])
        ...     file["t"].dims[0][0].name
        '/time'
    """

    def __init__(self, dataset: Dataset, dimension: int) -> None:
        self._dataset = dataset
        self._dimension = dimension

    @property
    def label(self) -> str:
        """Label of the dimension; empty without one."""
        labels = self._dataset.attrs.get("DIMENSION_LABELS")
        if labels is None or self._dimension >= len(labels):
            return ""
        return _text(labels[self._dimension])

    @label.setter
    def label(self, label: str) -> None:
        read_only()

    def _scales(self) -> list[Dataset]:
        from hyperchunk.netcdf import references

        attached = self._dataset.attrs.get("DIMENSION_LIST")
        file = self._dataset.file
        return [file.dataset(reference) for reference in references(attached, self._dimension)]

    def __len__(self) -> int:
        return len(self._scales())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, item: int | str | bytes) -> Dataset:
        if isinstance(item, int):
            scales = self._scales()
            if not scales:
                raise _NoScaleError(f"the dimension {self._dimension} has no scale (object {self._dataset.name})")
            return scales[item]
        wanted = _text(item)
        for name, scale in self.items():
            if name == wanted:
                return scale
        raise KeyError(item)

    def items(self) -> list[tuple[str, Dataset]]:
        """Returns the names and the scales."""
        return [(_text(scale.attrs.get("NAME", "")), scale) for scale in self._scales()]

    def keys(self) -> list[str]:
        """Returns the names of the scales."""
        return [name for name, _ in self.items()]

    def values(self) -> list[Dataset]:
        """Returns the scales."""
        return self._scales()

    def __hash__(self) -> int:
        return hash((type(self), self._dataset, self._dimension))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimensionProxy) and hash(self) == hash(other)

    def __repr__(self) -> str:
        if not self._dataset:
            return "<Dimension of closed HDF5 dataset>"
        return f'<"{printable(self.label)}" dimension {self._dimension} of HDF5 dataset at {id(self._dataset)}>'

    attach_scale = detach_scale = read_only


class DimensionManager:
    """The dimensions of a dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __getitem__(self, index: int) -> DimensionProxy:
        if index > len(self) - 1:
            raise IndexError("Index out of range")
        return DimensionProxy(self._dataset, index)

    def __len__(self) -> int:
        return self._dataset.ndim

    def __iter__(self) -> Iterator[DimensionProxy]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        if not self._dataset:
            return "<Dimensions of closed HDF5 dataset>"
        return f"<Dimensions of HDF5 object at {id(self._dataset)}>"

    create_scale = read_only
