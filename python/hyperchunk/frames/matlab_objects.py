"""Objects of MATLAB's classes: strings, times, categories, tables.

MATLAB does not document how it stores objects; this is known from files: a variable has the numbers of its objects, and
the dataset ``/#subsystem#/MCOS`` refers to a table of names, classes, objects and properties (:class:`_Metadata`), and
to the values of the properties.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hyperchunk.exceptions import CorruptError
from hyperchunk.frames import attributes
from hyperchunk.frames.matlab import Opaque, Properties, Reader
from hyperchunk.references import Reference
from hyperchunk.typing import Array

if TYPE_CHECKING:
    import pandas

    from hyperchunk.dataset import Dataset
    from hyperchunk.frames.frame import Frame

_TAG = 0xDD000000
_VERSIONS = (2, 3, 4)
#: Number of the first cell with the value of a property.
_FIRST_VALUE = 2
_MAX_OBJECTS = 10_000_000


class _Object(NamedTuple):
    class_name: str
    class_number: int
    #: Number of its properties in the region of saved objects, and in the region of ordinary ones.
    saved: int
    ordinary: int


class _Metadata:
    """The table of names, classes, objects and properties."""

    def __init__(self, stored: bytes, where: str) -> None:
        self.where = where
        self.stored = stored
        _, count, *self.offsets = self._integers(0, 8)
        end = self.offsets[0]
        self.names = stored[40:end].split(b"\0")[:count] if end <= len(stored) else []
        if any(not 40 <= offset <= len(stored) for offset in self.offsets[:4]):
            raise CorruptError(f"expected a table of objects, got offsets past its end ({where})")
        self.classes = self._classes()
        self.objects = self._objects()
        self.saved = self._properties(self.offsets[1], self.offsets[2])
        self.ordinary = self._properties(self.offsets[3], self.offsets[4])

    def _integers(self, offset: int, count: int) -> list[int]:
        end = offset + 4 * count
        if end > len(self.stored) or offset < 0:
            raise CorruptError(
                f"expected a table of objects of at least {end} bytes, got {len(self.stored)} ({self.where})"
            )
        return list(struct.unpack_from(f"<{count}I", self.stored, offset))

    def name(self, number: int) -> str:
        """Returns a name by its number, from 1."""
        if not 0 < number <= len(self.names):
            raise CorruptError(f"expected the number of a name, got {number} of {len(self.names)} ({self.where})")
        return self.names[number - 1].decode("utf-8", "replace")

    def _classes(self) -> list[str]:
        found = [""]
        for offset in range(self.offsets[0] + 16, self.offsets[1] - 15, 16):
            namespace, name = self._integers(offset, 2)
            prefix = f"{self.name(namespace)}." if namespace else ""
            found.append(prefix + self.name(name))
        return found

    def _objects(self) -> list[_Object]:
        found = [_Object("", 0, 0, 0)]
        for offset in range(self.offsets[2] + 24, self.offsets[3] - 23, 24):
            kind, _, _, saved, ordinary, _ = self._integers(offset, 6)
            if not kind < len(self.classes):
                raise CorruptError(f"expected the number of a class, got {kind} ({self.where})")
            found.append(_Object(self.classes[kind], kind, saved, ordinary))
        return found

    def _properties(self, start: int, end: int) -> list[list[tuple[int, int, int]]]:
        """Returns the properties of objects: numbers of the name, the kind and the value."""
        found: list[list[tuple[int, int, int]]] = []
        at = start
        while at + 4 <= end:
            (count,) = self._integers(at, 1)
            values = self._integers(at + 4, 3 * count) if count <= (end - at) // 12 else None
            if values is None:
                raise CorruptError(f"expected properties, got {count} of them in {end - at} bytes ({self.where})")
            found.append(list(zip(values[::3], values[1::3], values[2::3], strict=True)))
            at += 4 + 12 * count
            at += -(at - start) % 8
        return found


class Objects:
    """Objects of a file."""

    def __init__(self, reader: Reader) -> None:
        from hyperchunk.dataset import Dataset

        self.reader = reader
        found = reader.file.get("#subsystem#/MCOS")
        self.cells: list[Reference] = []
        self.metadata: _Metadata | None = None
        self._all_defaults: list[object] | None = None
        if not isinstance(found, Dataset) or not found.shape:
            return
        self.dataset = found
        self.cells = list(np.asarray(found[()], "O").ravel())
        first = reader.file[self.cells[0]] if self.cells else None
        if isinstance(first, Dataset) and first.dtype == np.uint8:
            stored = np.asarray(first[()]).tobytes()
            # Objects of a version that is not known have a class, and no properties.
            if int.from_bytes(stored[:4], "little") in _VERSIONS:
                self.metadata = _Metadata(stored, attributes.where(found))

    def value(self, found: Dataset, kind: str) -> object:
        """Returns the value of a variable whose class is `kind`."""
        stored = found[()]
        numbers = np.asarray(stored).ravel()
        where = attributes.where(found)
        if self.metadata is None or numbers.dtype.kind not in "ui" or len(numbers) < 2 or int(numbers[0]) != _TAG:
            return Opaque(kind, None)
        rank = int(numbers[1])
        shape = tuple(int(length) for length in numbers[2 : 2 + rank])
        ids = [int(number) for number in numbers[2 + rank : -1]]
        size = 1
        for length in shape:
            size *= length
        if len(numbers) < rank + 3 or size != len(ids) or size > _MAX_OBJECTS:
            raise CorruptError(f"expected numbers of objects in an array of shape {shape}, got {len(ids)} ({where})")
        found_values = [self._object(number, kind, where) for number in ids]
        if len(found_values) == 1:
            return found_values[0]
        made = np.empty(size, "O")
        made[:] = found_values
        made = made.reshape(shape, order="F")
        return list(made.ravel()) if made.size in made.shape else made

    def stands_for_objects(self, found: Dataset) -> bool:
        """Returns whether an array of numbers stands for objects."""
        if self.metadata is None or found.ndim != 2 or not found.size or found.size < 5:
            return False
        first, rank = (int(number) for number in np.asarray(found[()]).ravel()[:2])
        return first == _TAG and 2 <= rank <= found.size - 3

    def _defaults(self, kind: int) -> Properties:
        """Returns the properties that a class has by default."""
        if self._all_defaults is None:
            # Objects among the defaults are read without defaults.
            self._all_defaults = []
            found = self._read(self.cells[-1])
            self._all_defaults = found if isinstance(found, list) else []
        known = self._all_defaults[kind] if kind < len(self._all_defaults) else None
        return dict(known) if isinstance(known, dict) else {}

    def _read(self, cell: object) -> object:
        outer, self.reader.in_properties = self.reader.in_properties, True
        try:
            return self.reader.referred(cell, self.dataset)
        finally:
            self.reader.in_properties = outer

    def _object(self, number: int, kind: str, where: str) -> object:
        assert self.metadata is not None
        if not 0 < number < len(self.metadata.objects):
            return Opaque(kind, None)
        entry = self.metadata.objects[number]
        region, index = (self.metadata.saved, entry.saved) if entry.saved else (self.metadata.ordinary, entry.ordinary)
        if index >= len(region):
            raise CorruptError(f"expected the properties of an object, got number {index} of {len(region)} ({where})")
        properties = self._defaults(entry.class_number)
        for name, form, value in region[index]:
            properties[self.metadata.name(name)] = self._property(form, value, where)
        return _converted(entry.class_name or kind, properties)

    def _property(self, form: int, value: int, where: str) -> object:
        assert self.metadata is not None
        if form == 0:
            return self.metadata.name(value)
        if form == 2:
            return bool(value)
        cell = value + _FIRST_VALUE
        if form != 1 or not _FIRST_VALUE <= cell < len(self.cells):
            raise CorruptError(f"expected the value of a property, got number {value} of {len(self.cells)} ({where})")
        return self._read(self.cells[cell])


def _converted(kind: str, properties: Properties) -> object:
    """Converts an object to a Python type, if there is one for its class."""
    convert = _CONVERTERS.get(kind)
    if convert is None:
        return Opaque(kind, properties)
    try:
        return convert(properties)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        # An unknown form, of another version of MATLAB.
        return Opaque(kind, properties)


def _strings(properties: Properties) -> str | Array | None:
    """Converts texts, stored as a version, the shape, the length of each, and all code units."""
    stored = np.asarray(properties["any"]).ravel()
    if stored.dtype != np.uint64 or int(stored[0]) != 1:
        raise ValueError("another version")
    rank = int(stored[1])
    shape = tuple(int(length) for length in stored[2 : 2 + rank])
    count = int(np.prod(shape))
    lengths = stored[2 + rank : 2 + rank + count]
    units = stored[2 + rank + count :].tobytes()
    found, at = np.empty(count, "O"), 0
    for number, length in enumerate(lengths.tolist()):
        # A missing text has the largest length.
        if length == 2**64 - 1:
            found[number] = None
            continue
        end = at + 2 * length
        if end > len(units):
            raise ValueError("a text past the end")
        found[number] = units[at:end].decode("utf-16-le", "surrogatepass")
        at = end
    if count == 1:
        only: str | None = found[0]
        return only
    made = found.reshape(shape, order="F")
    return made.ravel() if made.size in made.shape else made


def _nanoseconds(milliseconds: Array, more: Array | float) -> Array:
    """Returns the sum of two numbers of milliseconds as integers of nanoseconds; NaN as the value of NaT."""
    whole = np.floor(milliseconds)
    missing = ~np.isfinite(milliseconds)
    with np.errstate(invalid="ignore"):
        rest = np.rint((milliseconds - whole + more) * 1e6)
        limit = np.abs(whole) < 9.2e12
        if not (limit | missing).all():
            raise ValueError("time out of range of 64-bit nanoseconds")
        found = np.where(missing, 0, whole).astype(np.int64) * 1_000_000 + np.where(missing, 0, rest).astype(np.int64)
    result: Array = np.where(missing, np.iinfo(np.int64).min, found)
    return result


def _datetimes(properties: Properties) -> Array | np.datetime64:
    """Converts times: milliseconds since 1970 in the real part, and their rounding error in the imaginary part. With a
    zone, the times are in UTC.
    """
    data = np.asarray(properties["data"])
    found = _nanoseconds(data.real.astype("f8"), data.imag.astype("f8")).view("M8[ns]")
    return found if found.ndim else found[()]


def _durations(properties: Properties) -> Array | np.timedelta64:
    found = _nanoseconds(np.asarray(properties["millis"], "f8"), 0.0).view("m8[ns]")
    return found if found.ndim else found[()]


def _categories(properties: Properties) -> Array | pandas.Categorical:
    names = [str(name) for name in _list(properties["categoryNames"])]
    codes = np.asarray(properties["codes"]).astype(np.int64) - 1
    flat = np.atleast_1d(codes)
    try:
        import pandas
    except ModuleNotFoundError:
        return np.array([*names, None], "O")[flat]
    if flat.ndim > 1:
        return np.array([*names, None], "O")[flat]
    ordered = bool(properties.get("isOrdinal", False))
    return pandas.Categorical.from_codes(flat, categories=pandas.Index(names, dtype=None), ordered=ordered)


def _list(value: Iterable[object]) -> list[Any]:
    """Returns a cell array, or the texts of a `string`, as a list."""
    if isinstance(value, str):
        return [value]
    return list(np.asarray(value, "O").ravel()) if isinstance(value, np.ndarray) else list(value)


def _table(properties: Properties) -> Frame:
    from hyperchunk.frames.memory import frame_of_columns

    rows = int(properties["nrows"])
    columns = dict(zip(_list(properties["varnames"]), _list(properties["data"]), strict=True))
    names = _list(properties.get("rownames", []))
    return frame_of_columns("matlab, table", columns, rows, None, names if len(names) == rows and rows else None)


def _timetable(properties: Properties) -> Frame:
    from hyperchunk.frames.memory import frame_of_columns

    stored = properties["any"]
    rows = int(stored["numRows"])
    columns = dict(zip(_list(stored["varNames"]), _list(stored["data"]), strict=True))
    times = stored["rowTimes"]
    if isinstance(times, dict):
        # Regular times: an origin and a step.
        origin, step = times["origin"], times.get("stepSize", times.get("sampleRate"))
        times = np.asarray(origin) + np.arange(rows) * np.asarray(step)
    names = _list(stored["dimNames"])
    return frame_of_columns("matlab, timetable", columns, rows, names[0], np.atleast_1d(times))


def _map(properties: Properties) -> dict[object, object]:
    stored = properties["serialization"]
    return dict(zip(_keys(stored["keys"]), _list(stored["values"]), strict=True))


def _keys(value: Iterable[object]) -> list[object]:
    return [key.item() if isinstance(key, np.generic) else key for key in _list(value)]


def _dictionary(properties: Properties) -> dict[object, object]:
    stored = properties["data"]
    keys, values = stored["Key"], stored["Value"]
    return dict(
        zip(
            _keys(np.atleast_1d(keys) if not isinstance(keys, list) else keys),
            _list(np.atleast_1d(values) if not isinstance(values, list) else values),
            strict=True,
        )
    )


_CONVERTERS: dict[str, Callable[[Properties], object]] = {
    "string": _strings,
    "datetime": _datetimes,
    "duration": _durations,
    "categorical": _categories,
    "table": _table,
    "timetable": _timetable,
    "containers.Map": _map,
    "dictionary": _dictionary,
}
