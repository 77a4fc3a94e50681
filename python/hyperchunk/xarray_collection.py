"""Collections in xarray: one dataset, joined lazily."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from xarray import Variable as XarrayVariable
from xarray import conventions
from xarray.backends import BackendArray
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing

from hyperchunk import netcdf
from hyperchunk.collection import Collection
from hyperchunk.collection_dataset import CollectionDataset
from hyperchunk.dtypes import check_string_dtype
from hyperchunk.exceptions import InvalidError
from hyperchunk.typing import Array
from hyperchunk.xarray_engine import HyperchunkStore

#: Options of xarray for decoding, of its version.
Decoding: TypeAlias = dict[str, Any]
#: Units and calendar by number of a file.
Units: TypeAlias = "dict[int, tuple[str | None, str | None]]"


def _with_cftime(options: Decoding) -> Decoding:
    """Returns options for decoding dates with cftime, in the form that this version of xarray takes."""
    try:
        from xarray.coders import CFDatetimeCoder
    except ImportError:  # before 2025.1
        return {**options, "use_cftime": True}
    rest = {name: value for name, value in options.items() if name != "use_cftime"}
    return {**rest, "decode_times": CFDatetimeCoder(use_cftime=True)}


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
        found: Array = indexing.explicit_indexing_adapter(key, self.shape, support, self._read)
        return found

    def _read(self, key: tuple[int | slice | Array, ...]) -> Array:
        values = self.dataset[key]
        if not self._text:
            return values
        decode = np.frompyfunc(lambda text: text.decode("utf-8", "surrogateescape"), 1, 1)
        return np.asarray(decode(values), object)


class CollectionStore(HyperchunkStore):
    """A group of a collection as an xarray data store."""

    def __init__(
        self,
        collection: Collection,
        group: str,
        phony_dims: str | None,
        decode_strings: bool,
        decoding: Decoding,
    ) -> None:
        file = collection.file(0)
        found = netcdf.Group(file, phony_dims=phony_dims, paths=collection).child(group)
        super().__init__(file, found, collection.filename, decode_strings)
        self.collection = collection
        self._decoding = {name: value for name, value in decoding.items() if value is not None}

    def get_encoding(self) -> dict[str, object]:
        encoding = super().get_encoding()
        unlimited = encoding["unlimited_dims"]
        assert isinstance(unlimited, set)
        encoding["unlimited_dims"] = unlimited - {self.collection.concat}
        return encoding

    def _variable(self, variable: netcdf.Variable) -> XarrayVariable:
        made = super()._variable(variable)
        dataset = self.collection[str(variable.hdf5.name)]
        if dataset.axis is None and dataset.collected_values() is None:
            return made
        encoding = {**made.encoding, "original_shape": dataset.shape}
        units = dataset.units or self._units_of_bounds.get(dataset.name, {})
        if units:
            inherited = None if dataset.units else self._units_of_bounds[dataset.name][-1]
            return XarrayVariable(made.dims, *self._times(dataset, made.attrs, units, inherited), encoding)
        kept = dataset.collected_values()
        if kept is not None:
            return XarrayVariable(made.dims, kept, made.attrs, encoding)
        lazy = indexing.LazilyIndexedArray(CollectionArray(dataset, self.decode_strings))
        return XarrayVariable(made.dims, lazy, made.attrs, encoding)

    @cached_property
    def _units_of_bounds(self) -> dict[str, Units]:
        """Units and calendars, by number of the file, of bounds without units of their own: those of their coordinate.
        The first file's have the number -1.
        """
        found: dict[str, Units] = {}
        for path, dataset in self.collection.items():
            attrs = netcdf.attributes(dataset.first) if dataset.units else {}
            for name in (attrs.get("bounds"), attrs.get("climatology")):
                bounds = self.collection.get(f"{path.rpartition('/')[0]}/{name}") if name else None
                if bounds is not None and "units" not in bounds.first.attrs:
                    found[bounds.name] = {**dataset.units, -1: (attrs.get("units"), attrs.get("calendar"))}
        return found

    def _times(
        self,
        dataset: CollectionDataset,
        attrs: dict[Any, Any],
        units: Units,
        inherited: tuple[str | None, str | None] | None,
    ) -> tuple[Array, dict[Any, Any]]:
        """Decodes the times of files whose units differ; returns them with the other attributes."""
        values = dataset.stored()
        first = inherited or (attrs.get("units"), attrs.get("calendar"))
        is_time = all("since" in str(unit) for unit, _ in (first, *units.values()))
        if not is_time or not self._decoding.get("decode_times", True):
            raise InvalidError(
                f"cannot join {dataset.name}: its units are {first[0]!r} in the first file, and differ in "
                f"{len(units.keys() - {-1})} of {len(self.collection.files)} files"
                + ("; open it with decode_times=True" if is_time else "")
            )
        rest = {name: value for name, value in attrs.items() if name not in ("units", "calendar")}

        def decoded(with_cftime: bool) -> list[Array]:
            parts = []
            for number, (start, end) in enumerate(dataset.spans()):
                unit, calendar = units.get(number, first)
                coded = {**rest, "units": unit, **({"calendar": calendar} if calendar else {})}
                dims = [f"axis {axis}" for axis in range(values.ndim)]
                rows = (slice(None),) * (dataset.axis or 0) + (slice(start, end),)
                options = dict(self._decoding)
                if with_cftime:
                    options = _with_cftime(options)
                part = conventions.decode_cf_variable(
                    dataset.name, XarrayVariable(dims, values[rows], coded), **options
                )
                parts.append(part.values)
            return parts

        parts = decoded(with_cftime=False)
        if len({part.dtype.kind for part in parts}) > 1:
            # The dates of some files need cftime, so it decodes the dates of all.
            parts = decoded(with_cftime=True)
        if self._decoding.get("mask_and_scale", True):
            for name in ("_FillValue", "missing_value"):
                rest.pop(name, None)
        return np.concatenate(parts, dataset.axis or 0), rest

    def close(self) -> None:
        """Leaves the collection open: other datasets may use it."""
