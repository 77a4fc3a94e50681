"""Construction of the types that occur in pickles of PyTables and pandas, without calls that a pickle chooses.

Each is on the list :data:`_MAKERS`, with a function that checks its arguments. The pickled name of a type is looked up
in the list and nowhere else.
"""

from __future__ import annotations

import datetime
import decimal
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from hyperchunk._printable import printable
from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.exceptions import InvalidError, UnsupportedError
from hyperchunk.typing import Array, Dtype

_SIMPLE_DTYPE = re.compile(r"[<>|=]?[biufcSUVOmM]\d{0,9}")
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_MAX_DIMENSIONS = 32


class Global(NamedTuple):
    """A global that a pickle names, and that is on the list."""

    module: str
    name: str

    @staticmethod
    def of(module: str, name: str) -> object:
        """Returns a global, or its value if that is a constant.

        Raises:
            UnsupportedError: It is not on the list.
        """
        module = _MODULES.get(module, module)
        if (module, name) == ("pandas", "NA"):
            return import_optional("pandas").NA
        if module == _OFFSETS or (module, name) in _MAKERS:
            return Global(module, name)
        raise UnsupportedError(
            f"they name {printable(module)}.{printable(name)}, which is not read from files; read them with the "
            "program that wrote the file, if you trust it"
        )


class Offset(NamedTuple):
    """A date offset of pandas: its class and the arguments of its constructor."""

    name: str
    arguments: tuple[object, ...]

    def to_pandas(self) -> object:
        """Returns the offset.

        Raises:
            UnsupportedError: pandas has no such offset, or it takes other arguments.
        """
        offsets = import_optional("pandas").offsets
        made = getattr(offsets, self.name, None) if self.name in offsets.__all__ else None
        try:
            return made(*self.arguments)  # type: ignore[misc]
        except (TypeError, ValueError) as error:
            raise UnsupportedError(
                f"the offset {printable(self.name)} of pandas cannot be made: {printable(str(error))}"
            ) from None


class Unfinished:
    """An object whose state follows in the pickle."""

    def __init__(self, kind: str, name: str = "") -> None:
        self.kind = kind
        #: Name of a dtype.
        self.name = name


def construct(function: Global, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> object:
    """Makes the value of a call."""
    if keywords:
        raise UnsupportedError(f"unsupported keyword arguments of {function.module}.{function.name}")
    if function.module == _OFFSETS:
        return Offset(function.name, arguments)
    return _MAKERS[function](*arguments)


def build(value: object, state: Any) -> object:
    """Returns a value with its state."""
    if not isinstance(value, Unfinished):
        if value == [] and isinstance(state, dict) and not state:
            return value
        raise UnsupportedError(f"unsupported state of a {type(value).__name__}")
    if value.kind == "array":
        return _array(state)
    if value.kind == "dtype":
        return _dtype_with_state(value.name, state)
    if value.kind == "tzlocal":
        return import_optional("dateutil.tz").tzlocal()
    if value.kind == "tzoffset":
        return _dateutil_offset(state.get("_name"), state.get("_offset"))
    return _relative_offset(state)


# --- NumPy ---


def _reconstruct(kind: object, *_: object) -> Unfinished:
    if kind != Global("numpy", "ndarray"):
        raise UnsupportedError("unsupported class of an array: expected numpy.ndarray")
    return Unfinished("array")


def _dtype(name: object, *_: object) -> Unfinished:
    if not isinstance(name, str) or not _SIMPLE_DTYPE.fullmatch(name):
        raise UnsupportedError(f"unsupported dtype {printable(repr(name))}")
    return Unfinished("dtype", name)


def _dtype_with_state(name: str, state: Any) -> Dtype:
    """Returns a dtype: the order of bytes, the members and the unit of time are in its state."""
    order, subarray, names, fields, size = state[1:6]
    if subarray is not None:
        base, shape = subarray
        found: Dtype = np.dtype((_as_dtype(base), _shape(shape)))
        return found
    if names is not None:
        members = [fields[member] for member in names]
        return np.dtype(
            {
                "names": list(names),
                "formats": [_as_dtype(member[0]) for member in members],
                "offsets": [int(member[1]) for member in members],
                "itemsize": int(size),
            }
        )
    found = np.dtype(name)
    if found.kind in "mM" and len(state) > 8 and state[8] is not None:
        unit, count = state[8][1][:2]
        unit = unit.decode("ascii") if isinstance(unit, bytes) else str(unit)
        if unit not in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic"):
            raise InvalidError("unknown unit of time")
        if unit != "generic":
            found = np.dtype(f"{found.kind}8[{int(count)}{unit}]")
    return found.newbyteorder(order) if order in ("<", ">") else found


def _as_dtype(value: object) -> Dtype:
    if isinstance(value, Unfinished) and value.kind == "dtype":
        found: Dtype = np.dtype(value.name)
        return found
    if not isinstance(value, np.dtype):
        raise InvalidError("expected a dtype")
    return value


def _shape(value: object) -> tuple[int, ...]:
    if isinstance(value, int):
        value = (value,)
    if not isinstance(value, tuple) or len(value) > _MAX_DIMENSIONS:
        raise InvalidError("expected a shape")
    if not all(isinstance(length, int) and length >= 0 for length in value):
        raise InvalidError("expected a shape without negative lengths")
    return value


def _array(state: Any) -> Array:
    _, shape, dtype, fortran, data = state
    shape, dtype = _shape(shape), _as_dtype(dtype)
    order = "F" if fortran else "C"
    if isinstance(data, list):
        if dtype != np.dtype("O"):
            raise InvalidError("expected bytes for an array of numbers, got a list")
        found = np.empty(len(data), "O")
        for index, value in enumerate(data):
            found[index] = value
        # Objects are listed row by row, independent of the order in memory.
        return _reshaped(found, shape, "C")
    return _from_bytes(data, dtype, shape, order)


def _from_bytes(data: object, dtype: Dtype, shape: tuple[int, ...], order: str) -> Array:
    if isinstance(data, str):
        data = data.encode("latin-1")
    if not isinstance(data, bytes | bytearray) or dtype.hasobject or dtype.itemsize == 0:
        raise InvalidError("expected the bytes of an array")
    return _reshaped(np.frombuffer(bytes(data), dtype), shape, order)


def _reshaped(found: Array, shape: tuple[int, ...], order: str) -> Array:
    count = 1
    for length in shape:
        count *= length
    if count != found.size:
        raise InvalidError(f"expected an array of shape {shape}, got {found.size} elements")
    return found.reshape(shape, order="F" if order == "F" else "C")


def _from_buffer(data: object, dtype: object, shape: object, order: object, *_: object) -> Array:
    return _from_bytes(data, _as_dtype(dtype), _shape(shape), str(order))


def _scalar(dtype: object, data: object = b"") -> object:
    found = _as_dtype(dtype)
    if found.hasobject:
        raise UnsupportedError("unsupported scalar of objects")
    return _from_bytes(data, found, (1,), "C")[0]


# --- Python ---


def _encode(text: object, encoding: object = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "utf8", "ascii"):
        raise UnsupportedError("unsupported encoding of bytes")
    return text.encode(encoding)


def _reconstructor(kind: object, base: object, state: object) -> list[object] | Unfinished:
    """Returns a Python object of protocols 0 and 1."""
    if kind == Global("pandas", "FrozenList") and isinstance(state, list):
        return list(state)
    if isinstance(kind, Global) and kind.module == "dateutil" and state is None and kind.name in _DATEUTIL:
        return Unfinished(kind.name)
    raise UnsupportedError("unsupported class of an object")


def _datetime(state: object, zone: object = None, *rest: object) -> datetime.datetime:
    if isinstance(state, bytes) and not rest:
        state = _packed(state, 10)
        day = (state[0] << 8 | state[1], state[2] & 0x7F, state[3])
        hour, minute, second = state[4:7]
        made = datetime.datetime(*day, hour, minute, second, int.from_bytes(state[7:10], "big"))
        return made.replace(tzinfo=_zone_or_none(zone), fold=state[2] >> 7)
    raise UnsupportedError("unsupported form of a time")


def _date(state: object, *_: object) -> datetime.date:
    state = _packed(state, 4)
    return datetime.date(state[0] << 8 | state[1], state[2], state[3])


def _time(state: object, zone: object = None) -> datetime.time:
    state = _packed(state, 6)
    fraction = int.from_bytes(state[3:6], "big")
    return datetime.time(state[0] & 0x7F, state[1], state[2], fraction, _zone_or_none(zone), fold=state[0] >> 7)


def _packed(state: object, size: int) -> bytes:
    if isinstance(state, str):
        state = state.encode("latin-1")
    if not isinstance(state, bytes) or len(state) != size:
        raise InvalidError("unknown form of a date or time")
    return state


def _integers(values: tuple[object, ...]) -> tuple[int, ...]:
    found = tuple(value for value in values if isinstance(value, int))
    if len(found) != len(values):
        raise InvalidError("expected integers")
    return found


def _timedelta(*arguments: object) -> datetime.timedelta:
    return datetime.timedelta(*_integers(arguments))


def _timezone(offset: object, name: object = None) -> datetime.timezone:
    if not isinstance(offset, datetime.timedelta):
        raise InvalidError("expected a duration")
    if offset == datetime.timedelta(0) and name is None:
        return datetime.UTC
    return datetime.timezone(offset) if name is None else datetime.timezone(offset, str(name))


def _zone_or_none(zone: object) -> datetime.tzinfo | None:
    if zone is not None and not isinstance(zone, datetime.tzinfo):
        raise InvalidError("expected a time zone")
    return zone


def _decimal(text: object, *_: object) -> decimal.Decimal:
    if not isinstance(text, str) or len(text) > 1000:
        raise InvalidError("expected a decimal number")
    return decimal.Decimal(text)


def _complex(real: Any, imaginary: Any) -> complex:
    return complex(float(real), float(imaginary))


def _set(kind: type[set[object]] | type[frozenset[object]]) -> Callable[..., object]:
    def make(values: object = ()) -> set[object] | frozenset[object]:
        from hyperchunk.frames.pickles import check_key

        if not isinstance(values, list | tuple):
            raise InvalidError("expected a list")
        return kind(map(check_key, values))

    return make


def _bytearray(value: object = b"", *_: object) -> bytearray:
    return bytearray(value if isinstance(value, bytes) else _encode(value))


# --- Time zones ---


def zone(name: str) -> datetime.tzinfo:
    """Returns a time zone of the IANA database."""
    import zoneinfo

    if not _ZONE.fullmatch(name):
        raise InvalidError(f"invalid name of a time zone: {printable(repr(name))}")
    try:
        return zoneinfo.ZoneInfo(name)
    except zoneinfo.ZoneInfoNotFoundError:
        raise UnsupportedError(f"the time zone {printable(name)} is not in this machine's database") from None


def _getattr(owner: object, name: object) -> Global:
    if owner == Global("zoneinfo", "ZoneInfo") and name == "_unpickle":
        return Global("zoneinfo", "_unpickle")
    raise UnsupportedError("unsupported attribute of an object")


def _zone_info(name: object, *_: object) -> datetime.tzinfo:
    return zone(str(name))


def _pytz(name: object, *_: object) -> object:
    """Returns a zone of pytz, or the standard library's if pytz is not installed."""
    if not isinstance(name, str) or not _ZONE.fullmatch(name):
        raise InvalidError(f"invalid name of a time zone: {printable(repr(name))}")
    try:
        pytz = importlib.import_module("pytz")
    except ModuleNotFoundError:
        return zone(name)
    try:
        return pytz.timezone(name)
    except pytz.UnknownTimeZoneError:
        raise UnsupportedError(f"the time zone {printable(name)} is not in this machine's database") from None


def _pytz_utc() -> object:
    return _pytz("UTC")


def _pytz_fixed(minutes: object, *_: object) -> object:
    (minutes,) = _integers((minutes,))
    try:
        pytz = importlib.import_module("pytz")
    except ModuleNotFoundError:
        return _timezone(datetime.timedelta(minutes=minutes))
    return pytz.FixedOffset(minutes)


def _dateutil(kind: object, name: object, *_: object) -> object:
    if not isinstance(name, str) or not _ZONE.fullmatch(name):
        raise UnsupportedError("unsupported time zone of dateutil: it has no name")
    return import_optional("dateutil.tz").gettz(name)


def _dateutil_utc() -> object:
    return import_optional("dateutil.tz").tzutc()


def _dateutil_offset(name: object, offset: object) -> object:
    if isinstance(offset, datetime.timedelta):
        offset = offset.total_seconds()
    if not isinstance(offset, int | float) or not (name is None or isinstance(name, str)):
        raise InvalidError("expected an offset from UTC")
    return import_optional("dateutil.tz").tzoffset(name, offset)


def _dateutil_object(name: str) -> Callable[..., object]:
    def make(*arguments: object) -> object:
        return _dateutil_offset(*arguments) if name == "tzoffset" and arguments else Unfinished(name)

    return make


#: Classes of dateutil whose objects have a state.
_DATEUTIL = ("relativedelta", "tzlocal", "tzoffset")

# --- pandas ---

#: Units by pandas' number of them.
_UNITS: dict[object, str] = {7: "s", 8: "ms", 9: "us", 10: "ns"}


def _timestamp(value: object, freq: object = None, zone: object = None, unit: object = 10) -> object:
    pandas = import_optional("pandas")
    (value,) = _integers((value,))
    found = pandas.Timestamp(_counted("M8", value, unit))
    return found if zone is None else found.tz_localize("UTC").tz_convert(_zone_or_none(zone))


def _pandas_timedelta(value: object, unit: object = 10) -> object:
    (value,) = _integers((value,))
    return import_optional("pandas").Timedelta(_counted("m8", value, unit))


def _counted(kind: str, value: int, unit: object) -> object:
    """Returns a number of pandas' units as a time or a duration."""
    return np.array(value, "i8").view(f"{kind}[{_UNITS[unit]}]")[()]


def _nat(*_: object) -> object:
    return import_optional("pandas").NaT


def _period(_: object, freq: object, ordinal: object) -> object:
    (ordinal,) = _integers((ordinal,))
    if not isinstance(freq, Offset):
        raise InvalidError("expected the frequency of a period")
    return import_optional("pandas").Period(ordinal=ordinal, freq=freq.to_pandas())


def _interval(left: object, right: object, closed: object = "right") -> object:
    return import_optional("pandas").Interval(left, right, str(closed))


def _date_offset(*arguments: object) -> Offset | Unfinished:
    return Unfinished("DateOffset") if not arguments else Offset("DateOffset", _integers(arguments))


def _relative_offset(state: object) -> object:
    """Returns a `DateOffset` with calendar units, from its state or the state of its inner form."""
    if not isinstance(state, dict):
        raise InvalidError("expected the state of an offset")
    units = {"years", "months", "weeks", "days", "hours", "minutes", "seconds", "microseconds", "nanoseconds"}
    given = {name: value for name, value in state.items() if name in units and isinstance(value, int)}
    pandas = import_optional("pandas")
    return pandas.DateOffset(int(state.get("n", 1)), bool(state.get("normalize", False)), **given)


_OFFSETS = "pandas._libs.tslibs.offsets"
#: Names of modules in older and newer versions, and their names in `_MAKERS`.
_MODULES = {
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "pandas._libs.tslib": "pandas._libs.tslibs.nattype",
    "pandas.tslib": "pandas._libs.tslibs.nattype",
    "pandas._libs.missing": "pandas",
    "pandas._libs.interval": "pandas",
    "pandas._libs.tslibs.period": "pandas",
    "pandas.tseries.offsets": _OFFSETS,
    "pandas.core.indexes.frozen": "pandas",
    "pandas.core.base": "pandas",
    "dateutil.relativedelta": "dateutil",
    "dateutil.tz.tz": "dateutil",
    "dateutil.tz._tzfile": "dateutil",
}


def _uncallable(*_: object) -> NoReturn:
    raise UnsupportedError("expected a function, got a class")


#: Functions that make the values of calls, by module and name of the global that a pickle calls.
_MAKERS: dict[tuple[str, str], Callable[..., object]] = {
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "ndarray"): _uncallable,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
    ("copyreg", "_reconstructor"): _reconstructor,
    ("builtins", "object"): _uncallable,
    ("builtins", "list"): _uncallable,
    ("builtins", "complex"): _complex,
    ("builtins", "set"): _set(set),
    ("builtins", "frozenset"): _set(frozenset),
    ("builtins", "bytearray"): _bytearray,
    ("builtins", "getattr"): _getattr,
    ("datetime", "datetime"): _datetime,
    ("datetime", "date"): _date,
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): _timedelta,
    ("datetime", "timezone"): _timezone,
    # The base class of a zone, without a value of its own.
    ("datetime", "tzinfo"): lambda: None,
    ("decimal", "Decimal"): _decimal,
    ("zoneinfo", "ZoneInfo"): _uncallable,
    ("zoneinfo", "_unpickle"): _zone_info,
    ("pytz", "_p"): _pytz,
    ("pytz", "_UTC"): _pytz_utc,
    ("pytz", "FixedOffset"): _pytz_fixed,
    ("pytz", "_FixedOffset"): _pytz_fixed,
    ("dateutil", "_unpickle"): _dateutil,
    ("dateutil", "tzfile"): _uncallable,
    ("dateutil", "tzutc"): _dateutil_utc,
    **{("dateutil", name): _dateutil_object(name) for name in _DATEUTIL},
    ("pandas", "FrozenList"): lambda *_: [],
    ("pandas", "Period"): _period,
    ("pandas", "Interval"): _interval,
    ("pandas", "DateOffset"): _date_offset,
    ("pandas._libs.tslibs.timestamps", "_unpickle_timestamp"): _timestamp,
    ("pandas._libs.tslibs.timedeltas", "_timedelta_unpickle"): _pandas_timedelta,
    ("pandas._libs.tslibs.nattype", "_nat_unpickle"): _nat,
    ("pandas._libs.tslibs.nattype", "__nat_unpickle"): _nat,
}
