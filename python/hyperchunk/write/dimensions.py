"""Dimension scales and labels of datasets that are being written. Source: the HDF5 Dimension Scale specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hyperchunk import _core, dimensions
from hyperchunk.dataset import Dataset
from hyperchunk.dimensions import DimensionManager, DimensionProxy
from hyperchunk.dtypes import ref_dtype, string_dtype, vlen_dtype
from hyperchunk.objects import encode
from hyperchunk.references import Reference
from hyperchunk.typing import Dtype

if TYPE_CHECKING:
    from hyperchunk.write.dataset import WritableDataset

_REFERENCES = ("vlen", 16, ("reference", 8, 0))
# Type of an entry in REFERENCE_LIST: the dataset that uses a scale, and the number of its dimension.
_USES = (
    "compound",
    16,
    ((b"dataset", 0, ("reference", 8, 0)), (b"dimension", 8, ("integer", 4, "<", False, 0, 32))),
)


def _uses_dtype() -> Dtype:
    return np.dtype(
        {"names": ["dataset", "dimension"], "formats": [ref_dtype, "<u4"], "offsets": [0, 8], "itemsize": 16}
    )


def _set_text(dataset: WritableDataset, name: str, text: str) -> None:
    data = encode(text) + b"\0"
    charset = "ascii" if data.isascii() else "utf-8"
    datatype = _core.Datatype(("string", len(data), "null-terminated", charset))
    dataset._node.set_attribute(encode(name), datatype, [], data, utf8=False)


def make_scale(dataset: WritableDataset, name: str) -> None:
    """Makes a dataset a dimension scale."""
    if "DIMENSION_LIST" in dataset.attrs:
        raise ValueError("a dataset with attached scales cannot be a scale")
    _set_text(dataset, "CLASS", "DIMENSION_SCALE")
    _set_text(dataset, "NAME", name)


class WritableDimension(DimensionProxy):
    """A dimension of a dataset that is being written."""

    _dataset: WritableDataset

    @property
    def label(self) -> str:
        """Label of the dimension; empty without one."""
        return super().label

    @label.setter
    def label(self, text: str) -> None:
        dataset = self._dataset
        labels = [*dataset.attrs.get("DIMENSION_LABELS", [""] * dataset.ndim)]
        labels[self._dimension] = text
        values = np.empty(len(labels), object)
        values[:] = labels
        dataset.attrs.create("DIMENSION_LABELS", values, dtype=string_dtype("ascii" if _is_ascii(labels) else "utf-8"))

    def attach_scale(self, dset: Dataset) -> None:
        """Attaches a scale to this dimension."""
        dataset = self._dataset
        scale = _scale(dset)
        if "DIMENSION_LIST" in scale.attrs:
            raise ValueError("a dataset with attached scales cannot be a scale")
        if dimensions.is_scale(dataset):
            raise ValueError("a scale cannot have scales")
        if not dimensions.is_scale(scale):
            make_scale(scale, "")
        lists = self._lists()
        if scale.ref in lists[self._dimension]:
            return
        lists[self._dimension].append(scale.ref)
        self._store(lists)
        uses = [*scale.attrs["REFERENCE_LIST"]] if "REFERENCE_LIST" in scale.attrs else []
        _set_uses(scale, [*((use[0], int(use[1])) for use in uses), (dataset.ref, self._dimension)])

    def detach_scale(self, dset: Dataset) -> None:
        """Detaches a scale from this dimension."""
        scale = _scale(dset)
        lists = self._lists()
        if scale.ref not in lists[self._dimension]:
            raise RuntimeError("the dataset is not a scale of this dimension")
        lists[self._dimension].remove(scale.ref)
        if any(lists):
            self._store(lists)
        else:
            del self._dataset.attrs["DIMENSION_LIST"]
        mine = (self._dataset.ref, self._dimension)
        uses = [(use[0], int(use[1])) for use in scale.attrs["REFERENCE_LIST"]]
        uses.remove(mine)
        if uses:
            _set_uses(scale, uses)
        else:
            del scale.attrs["REFERENCE_LIST"]

    def _lists(self) -> list[list[Reference]]:
        attached = self._dataset.attrs.get("DIMENSION_LIST")
        if attached is None:
            return [[] for _ in range(self._dataset.ndim)]
        return [[*scales] for scales in attached]

    def _store(self, lists: list[list[Reference]]) -> None:
        values = np.empty(len(lists), vlen_dtype(ref_dtype))
        for axis, references in enumerate(lists):
            row = np.empty(len(references), ref_dtype)
            row[:] = references
            values[axis] = row
        self._dataset.attrs.create("DIMENSION_LIST", values, dtype=vlen_dtype(ref_dtype))


def _is_ascii(labels: list[object]) -> bool:
    return all(str(label).isascii() for label in labels)


def _scale(dset: Dataset) -> WritableDataset:
    from hyperchunk.write.dataset import WritableDataset

    if not isinstance(dset, WritableDataset):
        raise TypeError("a scale must be a dataset of the same file")
    return dset


def _set_uses(scale: WritableDataset, uses: list[tuple[Reference, int]]) -> None:
    from hyperchunk.write import elements

    values = np.empty(len(uses), _uses_dtype())
    for number, (reference, dimension) in enumerate(uses):
        values[number] = (reference, dimension)
    stored = elements.to_stored(scale._writing.writer, _USES, values)
    scale._node.set_attribute(b"REFERENCE_LIST", _core.Datatype(_USES), [len(uses)], stored, utf8=False)


class WritableDimensions(DimensionManager):
    """Dimensions of a dataset that is being written."""

    _dataset: WritableDataset

    def __getitem__(self, index: int) -> WritableDimension:
        if index > len(self) - 1:
            raise IndexError("Index out of range")
        return WritableDimension(self._dataset, index)

    def create_scale(self, dset: Dataset, name: str = "") -> None:
        """Makes a dataset a dimension scale."""
        make_scale(_scale(dset), name)
