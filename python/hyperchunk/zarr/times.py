"""Conversion of the times of a collection, whose units differ between files, to the units of the first file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperchunk import netcdf
from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.collection import Collection
from hyperchunk.collection_dataset import CollectionDataset
from hyperchunk.exceptions import InvalidError
from hyperchunk.typing import Array
from hyperchunk.zarr.arrays import FileDataset

if TYPE_CHECKING:
    from hyperchunk.xarray_collection import Units


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

    def collected_values(self) -> Array | None:
        """Returns the values."""
        return self._values

    def __getitem__(self, box: tuple[slice, ...]) -> Array:
        return self._values[box]


class Times:
    """Datasets of a collection whose units differ between files, and their bounds."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._bounds: dict[str, Units] = {}
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

        given: Any = self._collection  # xarray's annotations do not allow it
        found = open_dataset(given, engine=HyperchunkBackendEntrypoint, group=variable.group.path.strip("/") or None)
        dates = found[variable.name].values
        attrs = netcdf.attributes(dataset.first)
        units: Any = attrs.get("units")
        calendar = attrs.get("calendar")
        if not dataset.units:
            units, calendar = self._bounds[dataset.name][-1]
        tries = itertools.product((dataset.dtype, np.dtype(np.float64)), _spellings(str(units)))
        for dtype, spelling in tries:
            try:
                # xarray spells units in its own way, or uses finer ones, which do not decode to the same times.
                numbers, _, _ = encode_cf_datetime(dates, spelling, calendar or "standard", dtype)
                values = np.asarray(numbers, dtype)
                again = decode_cf_datetime(values, units, calendar)
            except (KeyError, TypeError, ValueError, OverflowError):
                continue
            if _are_equal(np.asarray(again), dates):
                return JoinedTimes(dataset, values)
        raise InvalidError(
            f"cannot join {dataset.name}: its units or calendars differ between the files, and its times are not exact "
            f"in {units!r} (calendar {calendar or 'standard'!r}), as in the first file; open the collection in xarray, "
            "which decodes them"
        )


def _spellings(units: str) -> Iterator[str]:
    """Iterates over units of the same reference date: as they are, and with a name that xarray encodes, which may mean
    another unit.
    """
    yield units
    unit, since, date = units.partition(" since ")
    for name in ("days", "hours", "minutes", "seconds", "milliseconds", "microseconds"):
        if since and name[0] == unit.strip().lower()[:1]:
            yield f"{name}{since}{date}"


def _are_equal(first: Array, second: Array) -> bool:
    """True if times are equal, or missing in both."""
    # A missing time is not equal to itself.
    return first.shape == second.shape and bool(np.all((first == second) | ((first != first) & (second != second))))


__all__ = ["JoinedTimes", "Times"]
