"""NWB: `DynamicTable`, also with variable-length rows, and the values of time series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk._printable import printable
from hyperchunk.exceptions import CorruptError
from hyperchunk.frames import attributes
from hyperchunk.frames.model import Field, Source, Unique, Values, decode_texts
from hyperchunk.references import Reference
from hyperchunk.typing import Array

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.frames.frame import Frame
    from hyperchunk.group import Group
    from hyperchunk.objects import HLObject
    from hyperchunk.typing import Member

#: Maximum number of indexes of one column.
_MAX_INDEXES = 8


class _Column:
    """A column: values, and for variable-length rows the datasets with the end of each row."""

    def __init__(self, group: Group, name: str) -> None:
        self.values = _dataset(group, name)
        self.indexes: list[Dataset] = []
        ending = f"{name}_index"
        while len(self.indexes) < _MAX_INDEXES and ending in group:
            self.indexes.append(_dataset(group, ending))
            ending += "_index"
        # A category is an index in `elements`.
        self.elements: Values | None = None
        elements = self.values.attrs.get("elements")
        if isinstance(elements, Reference) and elements:
            texts = group.file.dataset(elements)
            self.elements = Values(decode_texts(np.asarray(texts[()])), "text")
        outermost = self.indexes[-1] if self.indexes else self.values
        if not outermost.shape:
            raise CorruptError(f"expected a column with rows ({attributes.where(outermost)})")
        self.count: int = outermost.shape[0]

    def read(self, start: int, stop: int) -> Values:
        ends: list[Array] = []
        for index in reversed(self.indexes):
            bounds = np.asarray(index[max(start - 1, 0) : stop]).astype(np.int64)
            first = int(bounds[0]) if start and len(bounds) else 0
            found = bounds[1:] if start else bounds
            if (np.diff(np.concatenate([[first], found])) < 0).any():
                raise CorruptError(f"expected growing ends of rows, got others ({attributes.where(index)})")
            ends.append(found - first)
            start, stop = first, int(found[-1]) if len(found) else first
        values = self._stored(start, stop)
        for end in reversed(ends):
            if len(end) and int(end[-1]) > len(values):
                raise CorruptError(
                    f"expected {int(end[-1])} values, got {len(values)} ({attributes.where(self.values)})"
                )
            values = Values(values, "ragged", ends=end)
        return values

    def _stored(self, start: int, stop: int) -> Values:
        data = np.asarray(self.values[start:stop])
        if self.elements is not None:
            return Values(data.astype(np.int64), "category", categories=self.elements)
        if self.values.dtype.names is not None and {"idx_start", "count"} <= set(self.values.dtype.names):
            # A part of a time series, by reference.
            return Values(np.column_stack([data["idx_start"], data["count"]]))
        if data.dtype.kind == "O" and len(data) and isinstance(data.flat[0], Reference):
            return Values(self._names(data), "text")
        if data.dtype.kind in "SO" and data.ndim == 1:
            return Values(decode_texts(data, "utf-8", "surrogateescape"), "text")
        names = getattr(data.dtype, "metadata", None) or {}
        if data.dtype.kind == "i" and "enum" in names and set(names["enum"]) == {"FALSE", "TRUE"}:
            return Values(data.astype(bool))
        return Values(data)

    def _names(self, references: Array) -> Array:
        """Returns the paths of the objects that references point to."""
        found = np.empty(len(references), "O")
        file, known = self.values.file, dict[bytes, str | None]()
        for number, reference in enumerate(references.tolist()):
            raw = bytes(reference._raw) if isinstance(reference, Reference) and reference else b""
            if raw not in known:
                known[raw] = file[reference].name if raw else None
            found[number] = known[raw]
        return found


class TableSource(Source):
    """A `DynamicTable`: `id` is the index, `colnames` are the columns."""

    format = "nwb"

    def __init__(self, group: Group) -> None:
        names = attributes.texts(group, "colnames")
        if names is None:
            raise CorruptError(f"expected an attribute 'colnames' of texts, got others ({attributes.where(group)})")
        self.columns = [_Column(group, "id"), *(_Column(group, name) for name in names)]
        self.num_rows = self.columns[0].count
        for name, column in zip(names, self.columns[1:], strict=True):
            if column.count != self.num_rows:
                raise CorruptError(
                    f"expected {self.num_rows} rows of the column {printable(repr(name))}, got {column.count} "
                    f"({attributes.where(group)})"
                )
        unique = Unique()
        shown = [Field(unique.name(name, name), name) for name in names]
        self.fields = [Field(unique.name("id", "id"), "id", True), *shown]

    def read(self, numbers: Sequence[int], start: int, stop: int) -> list[Values]:
        return [self.columns[number].read(start, stop) for number in numbers]


def _dataset(group: Group, name: str) -> Dataset:
    from hyperchunk.dataset import Dataset

    found = group.get(name)
    if not isinstance(found, Dataset):
        raise CorruptError(f"expected a column {printable(repr(name))}, got none ({attributes.where(group)})")
    return found


def read(found: HLObject) -> object:
    """Returns an object of NWB: of a group a dictionary of its members, tables as frames; of a dataset its values."""
    from hyperchunk.dataset import Dataset
    from hyperchunk.frames.reading import read_frame
    from hyperchunk.group import Group

    if isinstance(found, Dataset):
        value = found[()]
        return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    assert isinstance(found, Group)
    made: dict[str, Frame | Member] = {}
    for name, member in found.items():
        if isinstance(member, Group) and "colnames" in member.attrs:
            made[name] = read_frame(TableSource(member), None, None)
        else:
            made[name] = member
    return made
