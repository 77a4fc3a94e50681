"""Dimensions of datasets, with their labels and scales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from hyperchunk.h5py import h5ds
from hyperchunk.h5py._hl import base
from hyperchunk.h5py._objects import identifier

if TYPE_CHECKING:
    from hyperchunk import Dataset as NativeDataset
    from hyperchunk.dimensions import DimensionProxy as NativeDimension
    from hyperchunk.h5py._hl.dataset import Dataset
    from hyperchunk.h5py.h5d import DatasetID


class DimensionProxy(base.CommonStateObject):
    """A dimension of a dataset."""

    def __init__(self, oid: DatasetID, dimension: int) -> None:
        self._id = oid
        self._dimension = dimension

    @property
    def _native(self) -> NativeDimension:
        return self._id._hc.dims[self._dimension]

    def _wrap(self, scale: NativeDataset) -> Dataset:
        return cast("Dataset", base.wrap(identifier(scale, self._id._handle)))

    @property
    def label(self) -> str:
        """Label; empty without one."""
        return self._native.label

    @label.setter
    def label(self, val: str) -> None:
        self._native.label = val

    def __hash__(self) -> int:
        return hash((type(self), self._id, self._dimension))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimensionProxy) and hash(self) == hash(other)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, item: int | str | bytes) -> Dataset:
        return self._wrap(self._native[item])

    def attach_scale(self, dset: Dataset) -> None:
        """Attaches a scale."""
        self._native.attach_scale(base.native(dset))

    def detach_scale(self, dset: Dataset) -> None:
        """Detaches a scale."""
        self._native.detach_scale(base.native(dset))

    def items(self) -> list[tuple[str, Dataset]]:
        """Returns the names and the scales."""
        return [(name, self._wrap(scale)) for name, scale in self._native.items()]

    def keys(self) -> list[str]:
        """Returns the names of the scales."""
        return self._native.keys()

    def values(self) -> list[Dataset]:
        """Returns the scales."""
        return [self._wrap(scale) for scale in self._native.values()]

    def __repr__(self) -> str:
        if not self._id:
            return "<Dimension of closed HDF5 dataset>"
        return f'<"{self.label}" dimension {self._dimension} of HDF5 dataset at {id(self._id)}>'


class DimensionManager(base.CommonStateObject):
    """The dimensions of a dataset."""

    def __init__(self, parent: Dataset) -> None:
        self._id = parent.id

    def __getitem__(self, index: int) -> DimensionProxy:
        if index > len(self) - 1:
            raise IndexError("Index out of range")
        return DimensionProxy(self._id, index)

    def __len__(self) -> int:
        return int(self._id.rank)

    def __iter__(self) -> Iterator[DimensionProxy]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        if not self._id:
            return "<Dimensions of closed HDF5 dataset>"
        return f"<Dimensions of HDF5 object at {id(self._id)}>"

    def create_scale(self, dset: Dataset, name: str = "") -> None:
        """Makes a dataset a dimension scale."""
        h5ds.set_scale(dset.id, name.encode("utf-8", "surrogateescape"))
