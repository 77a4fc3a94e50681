"""Frames as pandas objects."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd

from hyperchunk.frames.model import Axis, Field, Values
from hyperchunk.frames.pickled_types import Offset
from hyperchunk.frames.to_arrow import native
from hyperchunk.typing import Array, Dtype

if TYPE_CHECKING:
    from hyperchunk.frames.model import Source

#: Array of pandas or NumPy.
PandasArray: TypeAlias = "pd.api.extensions.ExtensionArray | Array"
#: Index that may have an offset between its times.
TimeIndex: TypeAlias = "pd.DatetimeIndex | pd.TimedeltaIndex"


def shows_strings() -> bool:
    """Returns whether pandas has a string dtype that it infers for texts."""
    return bool(pd.Series(["a"]).dtype != object)


def frame(
    source: Source, fields: Sequence[Field], values: Sequence[Values], is_whole: bool
) -> pd.DataFrame | pd.Series:
    """Returns the :class:`pandas.DataFrame`, or the :class:`pandas.Series`, of columns.

    Args:
        source: Source of the columns.
        fields, values: The columns.
        is_whole: True if these are all rows, so that the index is as regular as it was.
    """
    index_parts = [(field, found) for field, found in zip(fields, values, strict=True) if field.is_index]
    columns = [(field, found) for field, found in zip(fields, values, strict=True) if not field.is_index]
    rows = len(values[0]) if values else source.num_rows
    is_fixed = source.format == "pandas, fixed"
    index = make_index(index_parts, is_whole, is_fixed) if index_parts else pd.RangeIndex(rows)
    arrays = [to_pandas(found) for _, found in columns]
    if source.is_series and len(columns) == 1:
        return pd.Series(arrays[0], index=index, name=source.series_name, dtype=_kept(arrays[0]))
    made = pd.DataFrame(
        {number: pd.Series(found, index=index, dtype=_kept(found)) for number, found in enumerate(arrays)}, index=index
    )
    made.columns = _labels(source.axis, [field for field, _ in columns], source)
    return made


def _kept(found: object) -> Dtype | None:
    """Returns the dtype of an array if pandas would infer another one; else None."""
    return found.dtype if isinstance(found, np.ndarray) and found.dtype == object else None


def _labels(axis: Axis | None, fields: Sequence[Field], source: Source) -> pd.Index:
    """Returns the names of columns."""
    if axis is None:
        # The labels of pandas 3 have its string dtype, even if there are none.
        nothing = "str" if shows_strings() else object
        return pd.Index([field.label for field in fields], dtype=None if fields else nothing)
    everything = [field for field in source.fields if not field.is_index]
    whole = axis_index(axis)
    if len(fields) == len(everything):
        return whole
    positions = {id(field): position for position, field in enumerate(everything)}
    return whole.take([positions[id(field)] for field in fields])


def axis_index(axis: Axis) -> pd.Index:
    """Returns the names of all columns as pandas' index."""
    if axis.is_multi:
        return _multi_index(list(axis.levels), list(axis.names))
    if axis.freq is not None:
        return make_index([(Field("", axis.names[0], True, axis.freq), axis.levels[0])], True, True)
    found = _index(axis.levels[0])[axis.skip :]
    return found.rename(axis.names[0])


def make_index(parts: Sequence[tuple[Field, Values]], is_whole: bool, is_fixed: bool) -> pd.Index:
    """Returns the index of rows.

    Args:
        parts: Levels of the index.
        is_whole: True for all rows, so that an offset between times holds.
        is_fixed: True for pandas' fixed format.
    """
    if len(parts) > 1:
        return _multi_index([values for _, values in parts], [field.label for field, _ in parts])
    ((field, values),) = parts
    if values.kind == "level":
        return _multi_index([values], [field.label])
    zone = values.zone
    found = _index(replace(values, zone=None) if zone is not None else values)
    if field.freq is not None and is_whole and isinstance(found, pd.DatetimeIndex | pd.TimedeltaIndex):
        found = _with_freq(found, field.freq)
    if zone is not None:
        # pandas keeps an offset only if the times have it in UTC, too; pandas 2 always keeps it in the fixed format.
        found = found.tz_localize("UTC").tz_convert(zone)
        if found.freq is None and field.freq is not None and is_whole and is_fixed and pd.__version__ < "3":
            found = _with_freq(found, field.freq)
    return found.rename(field.label)


def _with_freq(found: TimeIndex, freq: object) -> TimeIndex:
    offset = freq.to_pandas() if isinstance(freq, Offset) else freq
    # Values that were appended later may not be as regular.
    with contextlib.suppress(ValueError):
        found.freq = offset
    return found


def _index(values: Values) -> pd.Index:
    if values.kind == "text" and not shows_strings():
        return pd.Index(to_pandas(values), dtype=object if values.dtype else None)
    if values.kind == "objects" and values.dtype is None:
        return pd.Index(values.data.tolist())
    found = to_pandas(values)
    return pd.Index(found, dtype=_kept(found))


def _multi_index(parts: list[Values], names: list[object]) -> pd.MultiIndex:
    if all(values.kind == "level" for values in parts):
        levels = [_index(values.categories) for values in parts if values.categories is not None]
        return pd.MultiIndex(levels=levels, codes=[values.data for values in parts], names=names)
    return pd.MultiIndex.from_arrays([_index(values) for values in parts], names=names)


def to_pandas(values: Values) -> PandasArray:
    """Returns the values as an array of pandas or NumPy."""
    match values.kind:
        case "text":
            return _texts(values)
        case "objects":
            return _objects(values)
        case "category" | "level":
            assert values.categories is not None
            categories = _index(values.categories)
            made = pd.Categorical.from_codes(values.data, categories=categories, ordered=values.ordered)
            return made if values.kind == "category" else made.astype(categories.dtype)
        case "period":
            freq = values.freq.to_pandas() if isinstance(values.freq, Offset) else values.freq
            return pd.arrays.PeriodArray(values.data, dtype=pd.PeriodDtype(freq))
        case "nullable":
            return _nullable(values)
        case "ragged":
            return _ragged(values)
    return _plain(values)


def _plain(values: Values) -> PandasArray:
    data = native(values.data)
    if data.ndim > 1 or data.dtype.kind == "V":
        found = np.empty(len(data), "O")
        found[:] = list(data)
        return found
    if data.dtype.kind in "mM" and np.datetime_data(data.dtype)[0] == "D":
        data = data.astype(f"{data.dtype.kind}8[s]")
    if values.zone is None:
        return data.astype("O") if data.dtype.kind == "S" else data
    return pd.DatetimeIndex(data).tz_localize("UTC").tz_convert(values.zone).array


def _texts(values: Values) -> PandasArray:
    if values.dtype is not None and values.dtype not in ("object", "str"):
        return pd.array(values.data, dtype=values.dtype)
    if shows_strings() and (values.dtype == "str" or any(isinstance(value, str) for value in values.data)):
        try:
            return pd.array(values.data, dtype=pd.StringDtype(na_value=np.nan))
        except UnicodeEncodeError:
            # pandas stores texts in Arrow, which has no lone surrogates.
            return pd.array(values.data, dtype=pd.StringDtype("python", na_value=np.nan))
    data = values.data
    missing = np.array([value is None for value in data], bool)
    if missing.any():
        data = data.copy()
        data[missing] = np.nan
    return data


def _objects(values: Values) -> PandasArray:
    if values.dtype == "strings":
        return pd.array(values.data, dtype=pd.StringDtype(na_value=np.nan)) if shows_strings() else values.data
    if values.dtype is not None and values.dtype != "object":
        return pd.array(values.data, dtype=values.dtype)
    return values.data


def _nullable(values: Values) -> PandasArray:
    assert values.mask is not None
    data = native(values.data)
    if data.dtype.kind == "O":
        data = data.copy()
        data[values.mask] = pd.NA
        return pd.array(data, dtype=values.dtype or "string")
    made = {"b": pd.arrays.BooleanArray, "f": pd.arrays.FloatingArray}.get(data.dtype.kind, pd.arrays.IntegerArray)
    return made(data.copy(), np.array(values.mask, bool))


def _ragged(values: Values) -> Array:
    assert values.ends is not None
    found = np.empty(len(values.ends), "O")
    start = 0
    inner = to_pandas(values.data) if isinstance(values.data, Values) else values.data
    for number, end in enumerate(values.ends.tolist()):
        found[number] = inner[start:end]
        start = end
    return found
