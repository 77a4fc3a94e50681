"""PyTables: tables with nested columns, enumerations and times, arrays, and variable-length rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk.dtypes import Description, check_enum_dtype
from hyperchunk.exceptions import InvalidError, UnsupportedError
from hyperchunk.frames import attributes
from hyperchunk.frames.model import Field, Source, Unique, Values
from hyperchunk.frames.pandas_arrays import is_bits
from hyperchunk.frames.pickles import loads
from hyperchunk.frames.stored import has, is_complex, rows_as_stored, stored_plan
from hyperchunk.typing import Array

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.objects import HLObject

#: Maximum number of columns of a table, the nested ones counted one by one.
_MAX_COLUMNS = 100_000


class TableSource(Source):
    """A table: its columns, nested ones by paths such as ``info/name``."""

    format = "pytables"

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        if dataset.ndim != 1:
            raise InvalidError(
                f"expected rows in one dimension, got the extent {dataset.shape} ({attributes.where(dataset)})"
            )
        self.num_rows = len(dataset)
        self.chunk_rows = dataset.chunks[0] if dataset.chunks else 1
        self.paths: list[tuple[str, ...]] = []
        self._descriptions: list[Description] = []
        description = dataset._data.datatype.description
        self._add((), description)
        unique = Unique()
        self.fields = [Field(unique.name("/".join(path), ""), "/".join(path)) for path in self.paths]

    def _add(self, path: tuple[str, ...], description: Description) -> None:
        if description[0] == "compound" and not (path and is_complex(description)):
            for name, _, member in description[2]:
                self._add((*path, name.decode("utf-8", "surrogateescape")), member)
            return
        if len(self.paths) >= _MAX_COLUMNS:
            raise InvalidError(f"more than {_MAX_COLUMNS} columns ({attributes.where(self.dataset)})")
        self.paths.append(path)
        self._descriptions.append(description)

    def read(self, numbers: Sequence[int], start: int, stop: int) -> list[Values]:
        members = list(dict.fromkeys(self.paths[number][0] for number in numbers))
        if not members:
            return []
        rows = rows_as_stored(self.dataset, members, start, stop)
        found = []
        for number in numbers:
            stored = rows
            for name in self.paths[number]:
                stored = stored[name]
            found.append(self._values(np.ascontiguousarray(stored), number))
        return found

    def _values(self, stored: Array, number: int) -> Values:
        return decode_values(stored, self._descriptions[number])


def decode_values(stored: Array, description: Description) -> Values:
    """Returns values by the type that they are stored as: booleans, times in seconds, names of enumerations."""
    element = description
    while element[0] == "array":
        element = element[3]
    if element[0] == "bitfield" and element[1] == 1:
        return Values(stored.astype(bool))
    if element[0] == "time":
        return Values(seconds(stored))
    if element[0] == "enum" and stored.ndim == 1:
        names = check_enum_dtype(stored.dtype)
        if names and stored.dtype.kind in "iu":
            return _names(stored, names)
    return Values(stored)


def seconds(stored: Array) -> Array:
    """Converts times of PyTables to seconds since 1970: 32-bit times to integers, 64-bit times, which hold seconds and
    microseconds, to floating-point numbers.
    """
    if stored.dtype.itemsize != 8:
        return stored.astype(np.int32)
    native = stored.astype(np.int64)
    found: Array = (native >> 32) + (native & 0xFFFFFFFF) * 1e-6
    return found


def _names(stored: Array, names: dict[str, int]) -> Values:
    """Returns values of an enumeration as categories; a value without a name is missing."""
    ordered = sorted(names, key=lambda name: names[name])
    values = np.array([names[name] for name in ordered])
    indices = np.searchsorted(values, stored)
    indices = np.minimum(indices, len(values) - 1)
    codes = np.where(values[indices] == stored, indices, -1).astype("i4")
    texts = np.empty(len(ordered), "O")
    texts[:] = ordered
    return Values(codes, "category", categories=Values(texts, "text"))


def read(found: HLObject) -> object:
    """Returns an object of PyTables: an array; for a `VLArray` a list of its rows, which are texts, arrays, or objects
    whose pickles contain nothing but data; for a group a dictionary.
    """
    from hyperchunk.dataset import Dataset
    from hyperchunk.group import Group

    if isinstance(found, Group):
        return dict(found.items())
    assert isinstance(found, Dataset)
    if attributes.text(found, "CLASS") == "VLARRAY":
        if has(found._data.datatype.description, "time"):
            raise UnsupportedError(f"cannot read variable-length rows of times ({attributes.where(found)})")
        return [_row(found, row, number) for number, row in enumerate(np.asarray(found[()], "O"))]
    description = found._data.datatype.description
    plan = stored_plan(description)
    if plan is not None:
        return decode_values(np.asarray(found._read((Ellipsis,), plan)), description).data
    stored = found[()]
    if is_bits(found):
        return np.asarray(stored).astype(bool)
    return stored


def _row(dataset: Dataset, row: Array, number: int) -> object:
    """Returns a row of a `VLArray`, by the kind of object that it stores."""
    kind = attributes.text(dataset, "PSEUDOATOM")
    data = np.asarray(row)
    if kind is None:
        return data.astype(bool) if _base_is_bits(dataset) else data
    if kind == "vlstring":
        return data.tobytes()
    if kind == "vlunicode":
        order = "le" if data.dtype.isnative == (np.little_endian) else "be"
        return data.tobytes().decode(f"utf-32-{order}", "replace")
    if kind == "object":
        return loads(data.tobytes(), f"row {number}, {attributes.where(dataset)}")
    raise UnsupportedError(f"cannot read rows of the kind {kind!r} ({attributes.where(dataset)})")


def _base_is_bits(dataset: Dataset) -> bool:
    description = dataset._data.datatype.description
    return bool(description[0] == "vlen" and description[2][0] == "bitfield")
