"""DuckDB's pushdown interface: the columns and filters that it passes to a table.

From an object with Arrow's PyCapsule interface, DuckDB reads all columns and rows and filters them itself. To its own
sources (DuckDB 2.0: ``duckdb._sources``) it passes the columns and filters of a query, and it does not check again
the rows that a source returns. A :class:`hyperchunk.Table` is such a source if DuckDB is loaded and has the interface
known here; otherwise it is a stream.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from hyperchunk.arrow.zones import Condition, Predicate, filtered_batches

if TYPE_CHECKING:
    from hyperchunk.arrow.table import Table

#: Methods that DuckDB calls on a source, with the parameters known here.
_SOURCE_PARAMETERS = {"rows": ["self"], "accepts": ["self", "predicate"], "stream": ["self", "columns", "filters"]}
#: All members of a source.
NAMES = frozenset((*_SOURCE_PARAMETERS, "obj", "one_shot", "pull_under_gil", "schema_is_stable"))

_INTEGERS = {
    "TINYINT": "Int8",
    "SMALLINT": "Int16",
    "INTEGER": "Int32",
    "BIGINT": "Int64",
    "UTINYINT": "UInt8",
    "USMALLINT": "UInt16",
    "UINTEGER": "UInt32",
    "UBIGINT": "UInt64",
}
_FLOATS = {"FLOAT": "Float32", "DOUBLE": "Float64"}
_COMPARISONS = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
# DuckDB is faster for longer lists of values.
_MAX_LISTED_VALUES = 16
# Maximum number of nodes of a filter that is evaluated here.
_MAX_NODES = 256

#: Class of a table for DuckDB, by DuckDB's own class.
_classes: dict[type, type | None] = {}


def source_class(table: type[Table]) -> type | None:
    """Returns the class that a table reports while DuckDB is loaded: both a table and a DuckDB source. None if DuckDB
    is not loaded, or its interface is not the one known here.
    """
    sources = sys.modules.get("duckdb._sources")
    theirs = getattr(sources, "ArrowScanSource", None)
    if not isinstance(theirs, type):
        return None
    if theirs not in _classes:
        known = all(_parameters(getattr(theirs, name, None)) == names for name, names in _SOURCE_PARAMETERS.items())
        _classes[theirs] = type("Table", (table, theirs), {"__module__": __name__}) if known else None
    return _classes[theirs]


def _parameters(function: object) -> list[str] | None:
    try:
        return list(inspect.signature(cast("Callable[..., object]", function)).parameters)
    except (TypeError, ValueError):
        return None


class TableSource:
    """DuckDB's source interface of a table."""

    one_shot = False
    pull_under_gil = False
    schema_is_stable = True

    def __init__(self, table: Table) -> None:
        self.obj = table

    def rows(self) -> int:
        """Returns the number of rows."""
        return self.obj.num_rows

    def accepts(self, predicate: object) -> bool:
        """Returns whether a filter is evaluated here."""
        return _condition(self.obj, [predicate]) is not None

    def stream(self, columns: Sequence[int] | None, filters: Sequence[object]) -> tuple[object, bool]:
        """Returns the rows for which all filters are true, with columns selected by number, and whether columns were
        selected.
        """
        names = self.obj.column_names
        wanted = names if columns is None else [names[number] for number in columns]
        if not filters:
            return self.obj.select(wanted).__arrow_c_stream__(), columns is not None
        condition = _condition(self.obj, filters)
        if condition is None:
            raise ValueError("expected only filters for which accepts() returned True")
        return filtered_batches(self.obj, condition, wanted).__arrow_c_stream__(), columns is not None


def _condition(table: Table, filters: Sequence[object]) -> Condition | None:
    """Converts DuckDB's filters to a condition; None if one of them is not supported."""
    if table._decoded:
        # A frame: filters apply to its decoded values.
        return None
    types = dict(table._core.types)
    budget = iter(range(_MAX_NODES))
    try:
        tree = {"and": [_tree(one, types, budget) for one in filters]}
    except _UnknownError:
        return None
    text = json.dumps(tree)
    # DuckDB, like polars, orders NaN as the largest number.
    found = Condition(text, "largest", [name for name in types if name in _columns(tree)])
    return found if found.columns and table._core.chooses(text, found.nan) else None


class _UnknownError(Exception):
    """An unsupported filter."""


def _tree(node: object, types: dict[str, str], budget: Iterator[int]) -> Predicate:
    """Converts a DuckDB filter to a predicate; `budget` has an item for each node that may still follow."""
    if next(budget, None) is None:
        raise _UnknownError
    match _parts(node):
        case ("Binary", "AND" | "OR" as operator, one, other):
            return {operator.lower(): [_tree(one, types, budget), _tree(other, types, budget)]}
        case ("Unary", "NOT", operand):
            return {"not": _tree(operand, types, budget)}
        case ("Postfix", "IS NULL" | "IS NOT NULL" as operator, operand):
            return [_column(operand, types), operator.lower()]
        case ("Binary", str(operator), one, other) if operator in _COMPARISONS:
            name = _column(one, types)
            return [name, _COMPARISONS[operator], _value(other, types[name])]
        case ("In", operand, [*values]) if 0 < len(values) <= _MAX_LISTED_VALUES:
            name = _column(operand, types)
            return [name, "in", [_value(value, types[name]) for value in values]]
    raise _UnknownError


def _parts(node: object) -> tuple[object, ...]:
    """Returns the kind of a DuckDB node and its fields."""
    fields = {
        "Binary": ("op", "left", "right"),
        "Unary": ("op", "operand"),
        "Postfix": ("op", "operand"),
        "In": ("operand", "values"),
        "Col": ("parts",),
        "Lit": ("value", "type"),
    }
    kind = type(node).__name__
    names = fields.get(kind, ())
    if getattr(node, "__match_args__", None) != names:
        raise _UnknownError
    return (kind, *(getattr(node, name) for name in names))


def _column(node: object, types: dict[str, str]) -> str:
    match _parts(node):
        case ("Col", (str(name),)) if name in types:
            return name
    raise _UnknownError


def _value(node: object, column: str) -> int | dict[str, str]:
    """Returns a number of the column's own type."""
    match _parts(node):
        case ("Lit", int(value), str(kind)) if _INTEGERS.get(kind) == column and not isinstance(value, bool):
            return value
        case ("Lit", float(value), str(kind)) if _FLOATS.get(kind) == column and not math.isnan(value):
            return {"float": repr(value)}
    raise _UnknownError


def _columns(tree: Predicate) -> set[str]:
    """Returns the columns that a predicate uses."""
    match tree:
        case {"and": parts} | {"or": parts}:
            return {name for part in parts for name in _columns(part)}
        case {"not": part}:
            return _columns(part)
    return {tree[0]}
