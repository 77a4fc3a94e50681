"""Times of a collection in the units of its first file, where files count them in different ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperchunk import netcdf
from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.collection import Collection, CollectionDataset
from hyperchunk.exceptions import InvalidError
from hyperchunk.typing import Array
from hyperchunk.zarr.arrays import FileDataset


class JoinedTimes(FileDataset):
    """A dataset of a collection with values in the units of the first file."""

    def __init__(self, dataset: CollectionDataset, values: Array) -> None:
        super().__init__(dataset.first, dataset.shape)
        self.axis = dataset.axis
        self.dtype = values.dtype
        self._spans = dataset.spans()
        self._values = values

    def spans(self) -> list[tuple[int, int]]:
        """Returns the first row and the end (exclusive) of each file."""
        return self._spans

    def kept(self) -> Array | None:
        """Returns the values."""
        return self._values

    def __getitem__(self, box: tuple[slice, ...]) -> Array:
        return self._values[box]


class Times:
    """Datasets of a collection whose units differ between files, and their bounds."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._bounds: dict[str, Any] = {}
        if any(dataset.units for dataset in collection.values()):
            import_optional("xarray")
            from hyperchunk.xarray_collection import CollectionStore

            self._bounds = CollectionStore(collection, "/", "access", True, {})._units_of_bounds

    def joined(self, variable: netcdf.Variable) -> JoinedTimes | None:
        """Returns a dataset in the units of the first file; None if its units are the same in all files.

        Raises:
            InvalidError: Its units do not count times, or its values are not exact in them.
        """
        dataset = self._collection[str(variable.hdf5.name)]
        if not dataset.units and dataset.name not in self._bounds:
            return None
        from xarray import open_dataset
        from xarray.coding.times import decode_cf_datetime, encode_cf_datetime

        from hyperchunk.xarray_engine import HyperchunkBackendEntrypoint

        given: Any = self._collection  # which xarray's types do not have
        found = open_dataset(given, engine=HyperchunkBackendEntrypoint, group=variable.group.path.strip("/") or None)
        dates = found[variable.name].values
        attrs = netcdf.attributes(dataset.first)
        units, calendar = attrs.get("units"), attrs.get("calendar")
        if not dataset.units:
            units, calendar = self._bounds[dataset.name][-1]
        for dtype in (dataset.dtype, np.dtype(np.float64)):
            try:
                numbers, made, _ = encode_cf_datetime(dates, units, calendar or "standard", dtype)
            except (ValueError, OverflowError):
                continue
            values = np.asarray(numbers, dtype)
            if made == units and np.array_equal(decode_cf_datetime(values, units, calendar), dates):
                return JoinedTimes(dataset, values)
        raise InvalidError(
            f"cannot join {dataset.name}: its units differ between the files, and its times are not exact in "
            f"{units!r}, as the first file does; open the collection in xarray, which decodes them"
        )


__all__ = ["JoinedTimes", "Times"]
