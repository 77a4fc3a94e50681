"""Arrays and indexes of pandas' fixed format, and conversions that both formats of pandas share."""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from hyperchunk._printable import printable
from hyperchunk.exceptions import CorruptError, HyperchunkError, UnsupportedError
from hyperchunk.frames import attributes
from hyperchunk.frames.model import Values, Zone, decode_texts
from hyperchunk.frames.pickles import loads
from hyperchunk.frames.stored import stored_plan
from hyperchunk.typing import Array, Dtype

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.group import Group

#: Maximum size in bytes of a pickled array.
MAX_PICKLE_BYTES = 4 << 30


class Coding(NamedTuple):
    """Encoding of texts in an object of pandas."""

    encoding: str
    errors: str

    @staticmethod
    def of(group: Group) -> Coding:
        """Returns the coding of a stored object."""
        encoding, errors = attributes.pytables(group, "encoding", ""), attributes.pytables(group, "errors", "")
        return Coding(str(encoding or "UTF-8"), str(errors or "strict"))


class Level(NamedTuple):
    """A level of an index: its name, and a function that reads the values of rows."""

    name: object
    rows: int
    read: Callable[[int, int], Values]
    freq: object = None


def member(group: Group, name: str) -> Dataset:
    """Returns a dataset of a stored object.

    Raises:
        CorruptError: It does not exist.
    """
    from hyperchunk.dataset import Dataset

    found = group.get(name)
    if not isinstance(found, Dataset):
        raise CorruptError(f"expected a dataset {printable(repr(name))}, got none ({attributes.where(group)})")
    return found


def times(data: Array, kind: str) -> Array:
    """Converts integers to times or durations of a dtype such as `datetime64[us]`; in nanoseconds if it has no unit."""
    if data.dtype.kind in "mM":
        return data
    wanted = np.dtype(kind if "[" in kind else f"{kind}[ns]")
    stored = np.ascontiguousarray(data)
    if stored.dtype.itemsize != 8:
        # Without rows, any type may be stored.
        return stored.astype("i8").view(wanted)
    return stored.view("i8").view(wanted)


def decoded(data: Array, coding: Coding, missing: str | None) -> Array:
    """Returns texts, None where one is `missing`."""
    if data.dtype.kind != "S" or coding.encoding.upper() in ("UTF-8", "UTF8", "ASCII"):
        found = decode_texts(data, "utf-8", coding.errors)
    else:
        flat = [value.decode(coding.encoding, coding.errors) for value in data.ravel().tolist()]
        found = np.empty(len(flat), "O")
        found[:] = flat
        found = found.reshape(data.shape)
    if missing is not None:
        found[found == missing] = None
    return found


def is_bits(dataset: Dataset, member_name: str | None = None) -> bool:
    """Returns whether elements are booleans of PyTables: bit fields of 8 bits."""
    description = dataset._data.datatype.description
    if member_name is not None and description[0] == "compound":
        wanted = member_name.encode("utf-8", "surrogateescape")
        description = next((part[2] for part in description[2] if part[0] == wanted), description)
    while description[0] == "array":
        description = description[3]
    return bool(description[0] == "bitfield" and description[1] == 1)


def pickled(dataset: Dataset) -> Array:
    """Returns the array that a dataset of PyTables holds as a pickle.

    Raises:
        UnsupportedError: It contains objects of unsupported types.
        CorruptError: It is not a pickled array.
    """
    where = attributes.where(dataset)
    if not dataset.shape or dataset.shape[0] < 1:
        raise CorruptError(f"expected a pickled array, got no rows ({where})")
    stored = np.asarray(dataset[0])
    if stored.nbytes > MAX_PICKLE_BYTES:
        raise UnsupportedError(
            f"cannot read a pickled array of {stored.nbytes} bytes: more than {MAX_PICKLE_BYTES} ({where})"
        )
    found = loads(stored.tobytes(), where)
    if not isinstance(found, np.ndarray):
        raise CorruptError(f"expected a pickled array, got a {type(found).__name__} ({where})")
    return found


def _lengths(shape: npt.ArrayLike) -> tuple[int, ...]:
    """Returns a shape, which may be text."""
    if isinstance(shape, str):
        shape = [int(length) for length in re.findall(r"\d{1,18}", shape)]
    return tuple(int(length) for length in np.atleast_1d(shape))


class Stored:
    """An array of the fixed format, which has a row for each row of the frame."""

    def __init__(self, dataset: Dataset, rows: int | None = None) -> None:
        self.dataset = dataset
        self.value_type = str(attributes.pytables(dataset, "value_type", "") or "")
        self.zone = attributes.pytables(dataset, "tz", None) if dataset.attrs.get("tz") is not None else None
        self.transposed = attributes.pytables(dataset, "transposed", None)
        self.is_pickled = attributes.text(dataset, "CLASS") == "VLARRAY" or dataset.dtype.kind == "O"
        shape = attributes.pytables(dataset, "shape", None)
        #: Shape of an array without elements, which is stored as one element.
        self.empty = None if shape is None else _lengths(shape)
        if self.empty is not None and (len(self.empty) > 2 or 0 not in self.empty or min(self.empty) < 0):
            raise CorruptError(f"expected the shape of an empty array, got {self.empty} ({attributes.where(dataset)})")
        self.rows = rows
        self._objects: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape: rows, then columns."""
        found: tuple[int, ...] = self.dataset.shape or ()
        if self.is_pickled and self.empty is None:
            found = self._pickled().shape
        if self.empty is not None:
            found = self.empty
        return found if self._has_rows_first(found) else found[::-1]

    def _pickled(self) -> Array:
        """Returns the pickled array, read once."""
        if self._objects is None:
            self._objects = pickled(self.dataset)
        return self._objects

    def _has_rows_first(self, stored: tuple[int, ...]) -> bool:
        if len(stored) < 2:
            return True
        if self.transposed is None:
            return self.rows is None or stored[0] == self.rows
        return bool(self.transposed)

    def read(self, start: int, stop: int, columns: list[int] | None) -> Array:
        """Reads rows; only some columns of them if `columns` is given."""
        # pandas reads fixed-length texts including the bytes after a null byte.
        plan = stored_plan(self.dataset._data.datatype.description) if self.dataset.dtype.kind == "S" else None
        if self.empty is not None or 0 in (self.dataset.shape or ()):
            shape = self.shape
            found = np.empty(shape, self._empty_dtype())[start:stop]
        elif self.is_pickled:
            found = self._pickled()
            found = (found if self._has_rows_first(found.shape) else found.T)[start:stop]
        elif not self._has_rows_first(self.dataset.shape or ()):
            found = np.asarray(self.dataset[:, start:stop]).T
        elif columns is not None and self.dataset.ndim == 2 and self.dataset.chunks is None and len(columns) == 1:
            return self._typed(np.asarray(self.dataset[start:stop, columns[0] : columns[0] + 1]))
        elif plan is not None and self.dataset.ndim:
            found = np.asarray(self.dataset._read((slice(start, stop),), plan))
        else:
            found = np.asarray(self.dataset[start:stop])
        if columns is not None and found.ndim == 2:
            found = found[:, columns]
        return self._typed(found)

    def _empty_dtype(self) -> Dtype:
        if self.value_type.startswith(("datetime64", "timedelta64", "period")):
            return np.dtype("i8")
        try:
            return np.dtype(self.value_type or "f8")
        except TypeError:
            return np.dtype("O")

    def _typed(self, found: Array) -> Array:
        return found.view(bool) if is_bits(self.dataset) and found.dtype.itemsize == 1 else found

    def values(self, found: Array) -> Values:
        """Returns the values of a column of rows that were read."""
        kind = self.value_type
        if kind.startswith("datetime64"):
            return Values(times(found, kind), zone=self.zone)
        if kind.startswith("timedelta64"):
            return Values(times(found, kind))
        if kind.startswith("period["):
            return Values(found.astype("i8"), "period", freq=kind[7:-1])
        if found.dtype == object:
            known = kind if kind in ("str", "string") or kind.startswith("string[") else None
            return Values(found, "objects", dtype=known)
        return Values(found)


def levels_of_index(group: Group, key: str, coding: Coding) -> list[Level]:
    """Returns the levels of an index in the fixed format."""
    if attributes.text(group, f"{key}_variety") == "multi":
        return _multi(group, key, coding)
    return [_regular(group, key, coding)]


def _multi(group: Group, key: str, coding: Coding) -> list[Level]:
    found = []
    for number in range(int(attributes.pytables(group, f"{key}_nlevels"))):
        level = _regular(group, f"{key}_level{number}", coding)
        categories = level.read(0, level.rows)
        codes = Stored(member(group, f"{key}_label{number}"))

        def read(start: int, stop: int, codes: Stored = codes, categories: Values = categories) -> Values:
            return Values(codes.read(start, stop, None), "level", categories=categories)

        found.append(Level(level.name, codes.shape[0], read))
    return found


def _regular(group: Group, key: str, coding: Coding) -> Level:
    dataset = member(group, key)
    stored = Stored(dataset)
    kind = str(attributes.pytables(dataset, "kind", "") or "")
    name = attributes.pytables(dataset, "name", None)
    freq = _freq(dataset)
    index_class = attributes.text(dataset, "index_class")
    missing = attributes.pytables(dataset, "nan_rep", "nan") or None
    categories = None
    if kind == "category":
        inner = _regular(group, f"{key}_categories", coding)
        categories = inner.read(0, inner.rows)
    ordered = bool(attributes.pytables(dataset, "ordered", False))

    def read(start: int, stop: int) -> Values:
        found = stored.read(start, stop, None)
        if categories is not None:
            return Values(found, "category", categories=categories, ordered=ordered)
        if index_class == "period" or kind.startswith("period"):
            return Values(found.astype("i8"), "period", freq=freq or kind[7:-1])
        return index_values(found, kind, coding, missing, stored.zone)

    count = stored.shape[0] if stored.shape else 0
    return Level(name, count, read, None if index_class == "period" else freq)


def _freq(dataset: Dataset) -> object:
    """Returns the offset between the times of an index; None, with a warning, if its form is not supported. The
    times themselves do not depend on it.
    """
    try:
        found = attributes.pytables(dataset, "freq", None)
    except HyperchunkError as error:
        warnings.warn(f"the offset of an index was left out: {error}", stacklevel=2)
        return None
    return None if isinstance(found, str | bytes) else found


def index_values(found: Array, kind: str, coding: Coding, missing: str | None, zone: Zone) -> Values:
    """Returns the values of an index by the kind that pandas stored."""
    if kind.startswith("datetime64"):
        return Values(times(found, kind), zone=zone)
    if kind.startswith("timedelta64"):
        return Values(times(found, kind))
    if kind == "date":
        dates = np.empty(len(found), "O")
        dates[:] = [datetime.date.fromordinal(int(value)) for value in found.tolist()]
        return Values(dates, "objects", dtype="object")
    if kind == "string" or (not kind and found.dtype.kind == "S"):
        return Values(decoded(found, coding, missing), "text", dtype="str")
    if found.dtype == object:
        return Values(found, "objects", dtype="object")
    return Values(found)
