"""Frames and series that pandas stored, in its fixed format and its table format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hyperchunk._printable import printable
from hyperchunk.exceptions import CorruptError, UnsupportedError
from hyperchunk.frames import attributes
from hyperchunk.frames.model import Axis, Field, Source, Unique, Values, is_missing
from hyperchunk.frames.pandas_arrays import (
    Coding,
    Level,
    Stored,
    decoded,
    index_values,
    is_bits,
    levels_of_index,
    member,
    times,
)
from hyperchunk.frames.stored import rows_as_stored
from hyperchunk.typing import Array

if TYPE_CHECKING:
    from hyperchunk.group import Group

#: Maximum number of blocks of a frame.
_MAX_BLOCKS = 100_000
#: Label of a column, with the member of a row in which it is stored and the position in that.
Column: TypeAlias = tuple[object, tuple[str, int]]
_UNNAMED_LEVEL = re.compile(r"level_\d+")


def source(group: Group) -> Source:
    """Returns the reader of a frame or series that pandas stored.

    Raises:
        UnsupportedError: Its kind is not supported.
        CorruptError: A part is missing.
    """
    kind = attributes.text(group, "pandas_type") or ""
    if kind == "frame":
        return FixedFrame(group)
    if kind == "series":
        return FixedSeries(group)
    if kind in ("frame_table", "series_table") or kind.startswith("appendable_"):
        return TableSource(group)
    raise UnsupportedError(
        f"cannot read what pandas stored: expected a frame or a series, got {printable(repr(kind))}; wide panels were "
        f"removed from pandas ({attributes.where(group)})"
    )


def _label_key(label: object) -> object:
    """Returns a column's label so that labels can be compared: pandas stores None and NaN, which are missing names, in
    several ways, and NaN is unequal to itself.
    """
    if isinstance(label, tuple | list):
        return tuple(_label_key(part) for part in label)
    return ("missing",) if label is None or label != label else label


def index_names(levels: Sequence[object], unique: Unique) -> list[str]:
    """Returns the names in Arrow of the levels of an index; an index without a name is `index`."""
    found = []
    for number, name in enumerate(levels):
        otherwise = "index" if len(levels) == 1 else f"level_{number}"
        if name is None and otherwise in unique.taken:
            otherwise = f"__index_level_{number}__"
        found.append(unique.name(name, otherwise))
    return found


def make_fields(levels: Sequence[tuple[object, object]], labels: Sequence[object]) -> list[Field]:
    """Returns the fields of an index and of columns: pairs of name and offset, and labels."""
    unique = Unique()
    columns = [(unique.name(label, "None"), label) for label in labels]
    names = index_names([name for name, _ in levels], unique)
    index = [Field(name, label, True, freq) for name, (label, freq) in zip(names, levels, strict=True)]
    return [*index, *(Field(name, label) for name, label in columns)]


def level_labels(levels: Sequence[Values]) -> list[object]:
    """Returns the labels of columns as Python values: tuples if there are several levels."""
    parts = []
    for values in levels:
        inner = values.categories if values.kind in ("level", "category") else values
        assert inner is not None
        data = inner.data if inner.kind == "text" else _readable(inner)
        found = (
            [data[code] if code >= 0 else None for code in values.data.tolist()] if inner is not values else list(data)
        )
        parts.append(found)
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def _readable(values: Values) -> list[object]:
    """Returns values as Python objects."""
    if values.data.dtype.kind in "mM":
        return [str(value) for value in values.data]
    return list(values.data.tolist())


class _Fixed(Source):
    """Object in fixed format: its columns are in arrays of their own, or in blocks."""

    format = "pandas, fixed"

    def __init__(self, group: Group) -> None:
        self.group = group
        self.coding = Coding.of(group)
        self.levels: list[Level] = []
        #: Block and column in it, for each field that is not of the index.
        self.locations: list[tuple[Stored, int]] = []

    def read(self, numbers: Sequence[int], start: int, stop: int) -> list[Values]:
        found: dict[int, Values] = {}
        wanted: dict[int, tuple[Stored, list[int]]] = {}
        for number in numbers:
            if number < len(self.levels):
                found[number] = self.levels[number].read(start, stop)
            else:
                block, _ = self.locations[number - len(self.levels)]
                wanted.setdefault(id(block), (block, []))[1].append(number)
        for block, of_block in wanted.values():
            columns = [self.locations[number - len(self.levels)][1] for number in of_block]
            read = block.read(start, stop, columns)
            for position, number in enumerate(of_block):
                column = read if read.ndim == 1 else read[:, position]
                found[number] = self._strings(block, column, read)
        return [found[number] for number in numbers]

    def _strings(self, block: Stored, column: Array, read: Array) -> Values:
        values = block.values(column)
        if values.kind == "objects" and values.dtype is None:
            # pandas 3 reads a block of texts as its string dtype.
            whole = read if len(block.shape) < 2 or read.shape == block.shape else block.read(0, self.num_rows, None)
            if is_texts(whole, self.is_series):
                return Values(column, "objects", dtype="strings")
        return values


def is_texts(data: Array, needs_one: bool) -> bool:
    """Returns whether there are objects, and all are texts or missing; if `needs_one`, at least one is a text."""
    flat = data.ravel().tolist()
    if not flat or (needs_one and not any(isinstance(value, str) for value in flat)):
        return False
    return all(isinstance(value, str) or is_missing(value) for value in flat)


class FixedFrame(_Fixed):
    """A frame in fixed format: a two-dimensional array, a *block*, for the columns of each dtype."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.levels = levels_of_index(group, "axis1", self.coding)
        self.num_rows = self.levels[0].rows
        if any(level.rows != self.num_rows for level in self.levels):
            raise CorruptError(f"expected levels of {self.num_rows} rows, got others ({attributes.where(group)})")
        columns = levels_of_index(group, "axis0", self.coding)
        values = [level.read(0, level.rows) for level in columns]
        labels = level_labels(values)
        self.axis = Axis(
            tuple(values),
            tuple(level.name for level in columns),
            attributes.text(group, "axis0_variety") == "multi",
            freq=columns[0].freq if len(columns) == 1 else None,
        )
        locations: dict[object, tuple[Stored, int]] = {}
        count = attributes.pytables(group, "nblocks", None)
        for number in range(min(_MAX_BLOCKS if count is None else int(count), _MAX_BLOCKS)):
            if count is None and f"block{number}_items" not in group:
                break
            self._add_block(number, locations)
        try:
            self.locations = [locations[label] for label in labels]
        except KeyError as error:
            raise CorruptError(
                f"expected the column {printable(str(error))} in a block, got none ({attributes.where(group)})"
            ) from None
        self.fields = make_fields([(level.name, level.freq) for level in self.levels], labels)
        chunked = [block.dataset.chunks for block, _ in self.locations]
        self.chunk_rows = max((chunks[0] for chunks in chunked if chunks), default=1)

    def _add_block(self, number: int, locations: dict[object, tuple[Stored, int]]) -> None:
        items = levels_of_index(self.group, f"block{number}_items", self.coding)
        names = level_labels([level.read(0, level.rows) for level in items])
        block = Stored(member(self.group, f"block{number}_values"), self.num_rows)
        shape = block.shape
        width = shape[1] if len(shape) > 1 else 1
        if width != len(names) or (shape[0] != self.num_rows and names):
            raise CorruptError(
                f"expected {self.num_rows} rows of {len(names)} columns, got the extent {shape} "
                f"({attributes.where(block.dataset)})"
            )
        for column, name in enumerate(names):
            locations[name] = block, column


class FixedSeries(_Fixed):
    """A series in fixed format."""

    is_series = True

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.levels = levels_of_index(group, "index", self.coding)
        self.series_name = attributes.pytables(group, "name", None)
        block = Stored(member(group, "values"))
        self.num_rows = block.shape[0] if block.shape else 0
        if any(level.rows != self.num_rows for level in self.levels):
            raise CorruptError(f"expected an index of {self.num_rows} rows, got another ({attributes.where(group)})")
        self.locations = [(block, 0)]
        label = "values" if self.series_name is None else self.series_name
        self.fields = make_fields([(level.name, level.freq) for level in self.levels], [label])
        self.chunk_rows = block.dataset.chunks[0] if block.dataset.chunks else 1


class TableSource(Source):
    """A frame or series in table format: rows of a table of PyTables."""

    format = "pandas, table"

    def __init__(self, group: Group) -> None:
        self.group = group
        self.table = member(group, "table")
        self.coding = Coding.of(group)
        self.num_rows = len(self.table)
        self.chunk_rows = self.table.chunks[0] if self.table.chunks else 1
        kind = attributes.text(group, "table_type") or ""
        self.is_series = "series" in kind
        self.info: dict[object, dict[str, Any]] = attributes.pytables(group, "info", None) or {}
        levels = attributes.pytables(group, "levels", None)
        self.levels: list[object] = list(levels) if isinstance(levels, list | tuple) else []
        self.data_columns = set(attributes.pytables(group, "data_columns", None) or ())
        self.nan_rep = attributes.pytables(group, "nan_rep", None)
        self.own_nan_rep = bool(attributes.pytables(group, "data_col_nan_rep", False))
        self.level_nan_rep = bool(attributes.pytables(group, "mi_level_nan_rep", False))
        self._categories: dict[str, Values | None] = {}
        self._make_fields()

    def _make_fields(self) -> None:
        index_columns = attributes.pytables(self.group, "index_cols", [(0, "index")])
        if len(index_columns) != 1 or index_columns[0][0] != 0:
            raise UnsupportedError(
                "cannot read a table of pandas that has rows for columns or several indexes "
                f"({attributes.where(self.group)})"
            )
        self.index_column = str(index_columns[0][1])
        # An index of dates is of HDF5's class of times, and the table then has no NumPy dtype.
        description = self.table._data.datatype.description
        stored_names = [part[0] for part in description[2]] if description[0] == "compound" else []
        members = [name.decode("utf-8", "surrogateescape") for name in stored_names]
        members = [name for name in members if name != self.index_column]
        stored: list[Column] = []
        for name in attributes.pytables(self.group, "values_cols", members):
            labels = attributes.pytables(self.table, f"{name}_kind", [name])
            for position, label in enumerate(labels if isinstance(labels, list | tuple) else [name]):
                stored.append((tuple(label) if isinstance(label, list) else label, (str(name), position)))
        columns = self._ordered(stored)
        if self.is_series:
            columns = [column for column in columns if column[0] not in self.levels][:1] or columns[:1]
            self.series_name = None if columns[0][0] == "values" else columns[0][0]
        index = self.info.get(self.index_column, {})
        if self.levels:
            unnamed = not self.is_series
            locations = dict(reversed(stored))
            names = [None if unnamed and _is_unnamed(name) else name for name in self.levels]
            self.locations = [locations[name] for name in self.levels]
            parts = [(name, None) for name in names]
            columns = [column for column in columns if column[0] not in self.levels]
        else:
            self.locations = [(self.index_column, -1)]
            freq = index.get("freq")
            self.period = freq if self._kind() == "integer" else None
            parts = [(index.get("index_name"), None if self.period else freq)]
        labels = [label for label, _ in columns]
        self.locations += [position for _, position in columns]
        self.fields = make_fields(parts, labels)
        described = self.info.get(1, {})
        names = described.get("names") or [None]
        if described.get("type") == "MultiIndex" and labels and not self.is_series:
            transposed = [Values(_object_array(part), "objects") for part in zip(*labels, strict=True)]
            self.axis = Axis(tuple(transposed), tuple(names), True)
        elif not self.is_series and (names != [None] or not all(isinstance(label, str) for label in labels)):
            shown = [*self.levels, *labels]
            self.axis = Axis((Values(_object_array(shown), "objects"),), tuple(names), skip=len(self.levels))

    def _ordered(self, stored: list[Column]) -> list[Column]:
        """Returns the columns in the frame's order. Several may have one label."""
        for axis, labels in attributes.pytables(self.group, "non_index_axes", None) or ():
            if axis != 1:
                continue
            ordered = [tuple(label) if isinstance(label, list) else label for label in labels]
            if ordered == [label for label, _ in stored]:
                return stored
            columns: dict[object, list[Column]] = {_label_key(label): [] for label in ordered}
            rest: list[Column] = []
            for column in stored:
                columns.get(_label_key(column[0]), rest).append(column)
            # A column without a place in the order is not lost; levels of the index have none.
            rest = [column for column in rest if column[0] not in self.levels]
            return [column for found in [*columns.values(), rest] for column in found]
        return stored

    def _kind(self) -> str:
        return str(attributes.pytables(self.table, f"{self.index_column}_kind", "integer"))

    def read(self, numbers: Sequence[int], start: int, stop: int) -> list[Values]:
        members = list(dict.fromkeys(self.locations[number][0] for number in numbers))
        if not members:
            return []
        rows = rows_as_stored(self.table, members, start, stop)
        return [self._values(number, rows) for number in numbers]

    def _values(self, number: int, rows: Array) -> Values:
        name, position = self.locations[number]
        stored = np.ascontiguousarray(rows[name])
        if position < 0:
            return self._index_values(name, stored)
        column = stored[:, position] if stored.ndim == 2 else stored
        return self._column_values(name, self.fields[number].label, column)

    def _index_values(self, name: str, stored: Array) -> Values:
        if stored.ndim == 2:
            stored = stored[:, 0]
        info = self.info.get(name, {})
        kind = self._kind()
        categories = self._read_categories(name)
        if categories is not None or attributes.pytables(self.table, f"{name}_meta", None) == "category":
            return _category(stored, categories, bool(info.get("ordered")))
        if self.period is not None and kind == "integer":
            return Values(stored.astype("i8"), "period", freq=self.period)
        if kind == "bool" or is_bits(self.table, name):
            return Values(stored.astype(bool))
        if kind == "date":
            # As in pandas: ordinals.
            return Values(stored)
        missing = attributes.pytables(self.table, f"{name}_nan_rep", "nan") or None
        return index_values(stored, kind, self.coding, missing, info.get("tz"))

    def _column_values(self, name: str, label: object, stored: Array) -> Values:
        dtype = str(attributes.pytables(self.table, f"{name}_dtype", "") or stored.dtype.name)
        info = self.info.get(name, {})
        if dtype.startswith("datetime64"):
            return Values(times(stored, dtype), zone=info.get("tz"))
        if dtype.startswith("timedelta64"):
            return Values(times(stored, dtype))
        if dtype.startswith("period["):
            return Values(stored.astype("i8"), "period", freq=dtype[7:-1])
        if dtype == "date":
            return index_values(stored, "date", self.coding, None, None)
        if attributes.pytables(self.table, f"{name}_meta", None) == "category":
            return _category(stored, self._read_categories(name), bool(info.get("ordered")))
        if dtype.startswith(("bytes", "string")) or stored.dtype.kind == "S":
            meta = attributes.pytables(self.table, f"{label}_meta", None)
            text = decoded(stored, self.coding, self._missing(name))
            return Values(text, "text", dtype=meta if meta in ("str", "string") else None)
        if dtype == "bool" or is_bits(self.table, name):
            return Values(stored.astype(bool))
        return Values(stored)

    def _missing(self, name: str) -> str | None:
        """Returns the text that stands for a missing value in a column."""
        if self.own_nan_rep or (name in self.levels and self.level_nan_rep):
            found = attributes.pytables(self.table, f"{name}_nan_rep", None)
        else:
            found = "nan" if self.nan_rep is None else self.nan_rep
        return None if found is None else str(found)

    def _read_categories(self, name: str) -> Values | None:
        """Returns the categories of a column, which are a series of their own, or None."""
        if name not in self._categories:
            from hyperchunk.group import Group

            found = self.group.get(f"meta/{name}/meta")
            self._categories[name] = None
            if isinstance(found, Group):
                inner = TableSource(found)
                self._categories[name] = inner.read([len(inner.fields) - 1], 0, inner.num_rows)[0]
        return self._categories[name]


def _is_unnamed(name: object) -> bool:
    return isinstance(name, str) and _UNNAMED_LEVEL.fullmatch(name) is not None


def _object_array(values: Sequence[object]) -> Array:
    found = np.empty(len(values), "O")
    for number, value in enumerate(values):
        found[number] = value
    return found


def _category(codes: Array, categories: Values | None, ordered: bool) -> Values:
    """Returns a categorical column. Values of a missing category are missing."""
    if categories is None:
        categories = Values(np.zeros(0, "f8"))
    if categories.kind == "text":
        missing = np.array([value is None for value in categories.data], bool)
    elif categories.data.dtype.kind in "fmM":
        missing = np.isnan(categories.data) if categories.data.dtype.kind == "f" else np.isnat(categories.data)
    else:
        missing = np.zeros(len(categories), bool)
    if missing.any():
        renumbered = np.full(len(categories), -1, codes.dtype)
        renumbered[~missing] = np.arange((~missing).sum(), dtype=codes.dtype)
        codes = np.where(codes < 0, codes, renumbered[codes])
        categories = categories.take(~missing)
    return Values(codes, "category", categories=categories, ordered=ordered)
