"""Collections in xarray: one dataset, joined lazily."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray import Variable as XarrayVariable
from xarray import conventions
from xarray.backends import BackendArray
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing

from hyperchunk import netcdf
from hyperchunk.collection import Collection, CollectionDataset
from hyperchunk.dtypes import check_string_dtype
from hyperchunk.exceptions import InvalidError
from hyperchunk.typing import Array
from hyperchunk.xarray_engine import HyperchunkStore


class CollectionArray(BackendArray):
    """A variable of a collection, whose values are read on demand."""

    def __init__(self, dataset: CollectionDataset, decode_strings: bool) -> None:
        self.dataset = dataset
        self.shape = dataset.shape
        text = check_string_dtype(dataset.dtype)
        self._text = text is not None and text.length is None and decode_strings
        vlen: Any = create_vlen_dtype  # xarray has no types for it
        self.dtype = vlen(str) if self._text else dataset.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Array:
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

    def _read(self, key: tuple[Any, ...]) -> Array:
        values = self.dataset[key]
        if not self._text:
            return values
        decode = np.frompyfunc(lambda text: text.decode("utf-8", "surrogateescape"), 1, 1)
        return np.asarray(decode(values), object)


class CollectionStore(HyperchunkStore):
    """A group of a collection as an xarray data store."""

    def __init__(
        self, collection: Collection, group: str, phony_dims: str | None, decode_strings: bool, decode_times: bool
    ) -> None:
        file = collection.file(0)
        found = netcdf.Group(file, phony_dims=phony_dims).child(group)
        super().__init__(file, found, collection.filename, decode_strings)
        self.collection = collection
        self._decode_times = decode_times

    def get_encoding(self) -> dict[str, object]:
        encoding = super().get_encoding()
        unlimited = encoding["unlimited_dims"]
        assert isinstance(unlimited, set)
        encoding["unlimited_dims"] = unlimited - {self.collection.concat}
        return encoding

    def _variable(self, variable: netcdf.Variable) -> XarrayVariable:
        made = super()._variable(variable)
        dataset = self.collection[str(variable.hdf5.name)]
        if dataset.axis is None and dataset.kept() is None:
            return made
        encoding = {**made.encoding, "original_shape": dataset.shape}
        if dataset.units:
            return XarrayVariable(made.dims, *self._times(dataset, made.attrs), encoding)
        kept = dataset.kept()
        if kept is not None:
            return XarrayVariable(made.dims, kept, made.attrs, encoding)
        lazy = indexing.LazilyIndexedArray(CollectionArray(dataset, self.decode_strings))
        return XarrayVariable(made.dims, lazy, made.attrs, encoding)

    def _times(self, dataset: CollectionDataset, attrs: dict[Any, Any]) -> tuple[Array, dict[Any, Any]]:
        """Decodes the times of files whose units differ; returns them with the other attributes."""
        values = dataset[:]
        first = (attrs.get("units"), attrs.get("calendar"))
        is_time = all("since" in str(units) for units, _ in (first, *dataset.units.values()))
        if not is_time or not self._decode_times:
            raise InvalidError(
                f"cannot join {dataset.name}: its units are {first[0]!r} in the first file and others in "
                f"{len(dataset.units)} of {len(self.collection.files)} files"
                + ("; open it with decode_times=True" if is_time else "")
            )
        rest = {name: value for name, value in attrs.items() if name not in ("units", "calendar")}
        parts = []
        for number, (start, end) in enumerate(dataset.spans()):
            units, calendar = dataset.units.get(number, first)
            coded = {**rest, "units": units, **({"calendar": calendar} if calendar else {})}
            decoded = conventions.decode_cf_variable(dataset.name, XarrayVariable(("row",), values[start:end], coded))
            parts.append(decoded.values)
        for name in ("_FillValue", "missing_value"):
            rest.pop(name, None)
        return np.concatenate(parts), rest

    def close(self) -> None:
        """Leaves the collection open: other datasets may use it."""
