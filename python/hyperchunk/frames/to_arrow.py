"""Columns of frames as Arrow arrays."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hyperchunk._printable import printable
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.frames.model import Values, is_missing
from hyperchunk.frames.pickled_types import Offset
from hyperchunk.typing import Array

if TYPE_CHECKING:
    from hyperchunk.frames.model import Field

#: Metadata of a field with complex numbers.
_COMPLEX = {b"ARROW:extension:name": b"h5.complex", b"ARROW:extension:metadata": b""}


def array(field: Field, values: Values) -> pa.Array:
    """Returns the Arrow array of a column.

    Raises:
        UnsupportedError: Arrow has no type for the values.
    """
    try:
        return _array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeError) as error:
        reason = printable(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise UnsupportedError(
            f"cannot convert the column {printable(repr(field.label))} to Arrow: {reason}; leave it out with "
            "columns=[…], or use to_pandas()"
        ) from None


def arrow_field(field: Field, made: pa.Array, values: Values) -> pa.Field:
    """Returns the description of a column."""
    is_complex = values.kind == "plain" and values.data.dtype.kind == "c"
    return pa.field(field.name, made.type, metadata=_COMPLEX if is_complex else None)


def _array(values: Values) -> pa.Array:
    match values.kind:
        case "text":
            return whole(pa.array(values.data, pa.large_string(), from_pandas=True))
        case "objects":
            return _objects(values.data)
        case "category":
            return _dictionary(values)
        case "level":
            return _dictionary(values).dictionary_decode()
        case "period":
            return _periods(values)
        case "nullable":
            return _nullable(values)
        case "ragged":
            return _ragged(values)
    return _plain(values)


def whole(made: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns one array, joined if pyarrow has split it."""
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def _plain(values: Values) -> pa.Array:
    data = native(values.data)
    if data.ndim > 1 or data.dtype.names is not None:
        return _cells(data, values)
    match data.dtype.kind:
        case "c":
            parts = np.ascontiguousarray(data).view(f"f{data.dtype.itemsize // 2}")
            return pa.FixedSizeListArray.from_arrays(pa.array(parts), 2)
        case "M":
            data, missing = _without_nat(data)
            unit = _time_unit(data)
            if unit == "D" and values.zone is None:
                data, unit = data.astype("M8[s]"), "s"
            kind = pa.timestamp(unit, None if values.zone is None else zone_name(values.zone))
            return pa.array(data.astype(f"M8[{unit}]"), pa.timestamp(unit), mask=missing).cast(kind)
        case "m":
            data, missing = _without_nat(data)
            return pa.array(data, pa.duration(_time_unit(data)), mask=missing)
        case "S":
            # pyarrow ends elements of an array at a null byte.
            return pa.array(data.tolist(), pa.large_binary())
        case "V":
            return pa.array([bytes(value) for value in data], pa.binary(data.dtype.itemsize))
        case "f" if data.dtype.itemsize > 8:
            raise UnsupportedError("cannot convert floating-point numbers of more than 64 bits to Arrow")
        case "f":
            return pa.array(data, from_pandas=True)
        case "O":
            return _objects(data)
    return pa.array(data)


def _cells(data: Array, values: Values) -> pa.Array:
    """Returns rows with dimensions as lists of fixed size, and rows with members as structures."""
    if data.ndim > 1:
        flat = _array(Values(data.reshape(-1), values.kind, zone=values.zone))
        for length in reversed(data.shape[1:]):
            flat = pa.FixedSizeListArray.from_arrays(flat, length) if length else _empty_lists(flat, data.shape)
        return flat
    names = list(data.dtype.names or ())
    return pa.StructArray.from_arrays([_array(Values(np.ascontiguousarray(data[name]))) for name in names], names)


def _empty_lists(flat: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    return pa.array([[]] * int(np.prod(shape[:-1])), pa.list_(flat.type))


def native(data: Array) -> Array:
    """Returns an array in the machine's byte order."""
    return data.astype(data.dtype.newbyteorder("=")) if not data.dtype.isnative else data


def _without_nat(data: Array) -> tuple[Array, Array | None]:
    """Replaces missing times by zero, and returns their mask: DuckDB converts the values of nulls, too."""
    missing = np.isnat(data)
    if not missing.any():
        return data, None
    data = data.copy()
    data[missing] = 0
    return data, missing


def _time_unit(data: Array) -> str:
    unit, count = np.datetime_data(data.dtype)
    if count != 1 or unit not in ("D", "s", "ms", "us", "ns"):
        raise UnsupportedError(f"cannot convert times in units of {count} {unit} to Arrow")
    return unit


def zone_name(zone: str | datetime.tzinfo) -> str:
    """Returns the name of a time zone, for Arrow."""
    if isinstance(zone, str):
        return zone.removeprefix("dateutil/").removeprefix("/usr/share/zoneinfo/")
    for attribute in ("key", "zone"):
        if isinstance(name := getattr(zone, attribute, None), str):
            return name
    offset = zone.utcoffset(None)
    if offset is None:
        raise UnsupportedError(f"the time zone {printable(repr(zone))} has no name")
    if offset == datetime.timedelta(0):
        return "UTC"
    minutes = int(offset.total_seconds()) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _objects(data: Array) -> pa.Array:
    """Returns the array of objects, with their common type."""
    if data.ndim > 1:
        return _cells(data, Values(data, "objects"))
    given = [None if is_missing(value) else value for value in data.tolist()]
    if any(isinstance(value, str) for value in given) and all(isinstance(value, str | None) for value in given):
        return whole(pa.array(given, pa.large_string()))
    kinds = {_family(value) for value in given if value is not None}
    if len(kinds) > 1:
        raise pa.ArrowInvalid(f"values of several types: {', '.join(sorted(kinds))}")
    return whole(pa.array(given, from_pandas=True))


def _family(value: object) -> str:
    """Returns the name of an object's type; one name for integers and other numbers."""
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | float | np.integer | np.floating):
        return "number"
    return type(value).__name__


def _dictionary(values: Values) -> pa.Array:
    assert values.categories is not None
    categories = _array(values.categories)
    missing = values.data < 0
    if values.data.size and int(values.data.max()) >= len(categories):
        raise UnsupportedError(f"code {int(values.data.max())} is out of range: there are {len(categories)} categories")
    codes = pa.array(values.data, mask=missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(codes, categories, ordered=values.ordered)


def _periods(values: Values) -> pa.Array:
    stored = pa.array(values.data, mask=values.data == np.iinfo("i8").min)
    try:
        import pandas
        from pandas.core.arrays.arrow.extension_types import ArrowPeriodType
    except ImportError:
        return stored
    freq = values.freq.to_pandas() if isinstance(values.freq, Offset) else values.freq
    freq = freq if isinstance(freq, str) else pandas.PeriodDtype(freq).name[7:-1]
    return pa.ExtensionArray.from_storage(ArrowPeriodType(freq), stored)


def _nullable(values: Values) -> pa.Array:
    if values.data.dtype.kind == "O":
        return whole(pa.array(values.data, pa.large_string(), mask=values.mask))
    return pa.array(native(values.data), mask=values.mask)


def _ragged(values: Values) -> pa.Array:
    assert values.ends is not None
    inner = values.data if isinstance(values.data, Values) else Values(values.data)
    if inner.kind == "plain" and inner.data.dtype.kind == "O":
        inner = Values(inner.data, "objects")
    offsets = np.concatenate([[0], values.ends]).astype(np.int64)
    return pa.LargeListArray.from_arrays(pa.array(offsets), _array(inner))
