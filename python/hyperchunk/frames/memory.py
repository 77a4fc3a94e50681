"""Frames over columns in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.frames.model import Field, Source, Unique, Values, is_missing

if TYPE_CHECKING:
    from hyperchunk.frames.frame import Frame


class MemorySource(Source):
    """Columns in memory."""

    def __init__(self, format: str, fields: list[Field], values: Sequence[Values], rows: int) -> None:
        self.format = format
        self.fields = fields
        self.num_rows = rows
        self._values = list(values)

    def read(self, numbers: Sequence[int], start: int, stop: int) -> list[Values]:
        wanted = np.arange(start, stop)
        whole = (start, stop) == (0, self.num_rows)
        return [self._values[number] if whole else self._values[number].take(wanted) for number in numbers]


def as_values(column: Any, rows: int) -> Values:
    """Converts a column in any form: an array, a list, a single value, or pandas' categories.

    Raises:
        ValueError: It has another number of rows.
    """
    if hasattr(column, "codes") and hasattr(column, "categories"):
        categories = as_values(np.asarray(column.categories, "O"), len(column.categories))
        found = Values(np.asarray(column.codes), "category", categories=categories, ordered=bool(column.ordered))
    elif isinstance(column, np.ndarray) and column.dtype != object:
        if column.ndim and column.shape[0] != rows and column.shape[-1] == rows and column.ndim == 1:
            raise ValueError(f"expected a column of {rows} rows, got {column.shape[0]}")
        found = Values(
            column if column.ndim and (rows != 1 or column.shape[0] == 1) else column.reshape(rows, *column.shape[1:])
        )
    else:
        if isinstance(column, np.ndarray | list | tuple):
            items = list(column)
            items = [items] if rows == 1 and len(items) != 1 else items
        else:
            items = [column]
        flat = np.empty(len(items), "O")
        for number, item in enumerate(items):
            flat[number] = item
        if all(isinstance(item, str) or is_missing(item) for item in items) and items:
            flat[[is_missing(item) for item in items]] = None
            found = Values(flat, "text")
        elif all(isinstance(item, np.generic) for item in items) and items:
            found = Values(np.array(items))
        else:
            found = Values(flat, "objects")
    if len(found) != rows:
        raise ValueError(f"expected a column of {rows} rows, got {len(found)}")
    return found


def frame_of_columns(
    format: str, columns: Mapping[str, object], rows: int, index_name: str | None, index: object
) -> Frame:
    """Returns the frame of columns in memory.

    Args:
        format: Name of the format.
        columns: Columns by name.
        rows: Number of rows.
        index_name, index: Name and values of the index; without values, no index.
    """
    import_optional("pyarrow")
    from hyperchunk.frames.frame import Frame

    unique = Unique()
    made = [(Field(unique.name(name, name), name), as_values(column, rows)) for name, column in columns.items()]
    if index is not None:
        made.insert(0, (Field(unique.name(index_name, "index"), index_name, True), as_values(index, rows)))
    return Frame.of(MemorySource(format, [field for field, _ in made], [values for _, values in made], rows))
