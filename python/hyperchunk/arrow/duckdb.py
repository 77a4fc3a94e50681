"""How DuckDB asks a table: which columns it wants, and which of its filters are evaluated here.

Of what knows Arrow's PyCapsule interface, DuckDB takes all columns and rows and chooses itself. Of its own sources
(DuckDB 2.0: ``duckdb._sources``) it asks for what a query needs, and does not look again at rows that a source has
chosen. A :class:`hyperchunk.Table` is such a source where DuckDB is loaded and asks as it is known here; else it is a
stream."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hyperchunk.arrow.zones import Condition, chosen

if TYPE_CHECKING:
    from hyperchunk.arrow.table import Table

#: What DuckDB asks of a source, with the parameters that are known here.
_ASKED = {"rows": ["self"], "accepts": ["self", "predicate"], "stream": ["self", "columns", "filters"]}
#: All that a source has.
NAMES = frozenset((*_ASKED, "obj", "one_shot", "pull_under_gil", "schema_is_stable"))

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
# Of more values in a list, DuckDB has better ways.
_FEW = 16
# Filters that are longer than this are DuckDB's.
_NODES = 256

#: The class that a table is for DuckDB, by the class of DuckDB's.
_classes: dict[type, type | None] = {}


def source_class(table: type[Table]) -> type | None:
    """The class that a table says it has while DuckDB is loaded: a table, and a source of DuckDB's. None if DuckDB is
    not, or does not ask as it is known here."""
    sources = sys.modules.get("duckdb._sources")
    theirs = getattr(sources, "ArrowScanSource", None)
    if not isinstance(theirs, type):
        return None
    if theirs not in _classes:
        known = all(_parameters(getattr(theirs, name, None)) == names for name, names in _ASKED.items())
        _classes[theirs] = type("Table", (table, theirs), {"__module__": __name__}) if known else None
    return _classes[theirs]


def _parameters(function: Any) -> list[str] | None:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


class TableSource:
    """What DuckDB asks of a table."""

    one_shot = False
    pull_under_gil = False
    schema_is_stable = True

    def __init__(self, table: Table) -> None:
        self.obj = table

    def rows(self) -> int:
        """How many rows it has."""
        return self.obj.num_rows

    def accepts(self, predicate: Any) -> bool:
        """Whether a filter is evaluated here."""
        return _condition(self.obj, [predicate]) is not None

    def stream(self, columns: Sequence[int] | None, filters: Sequence[Any]) -> tuple[object, bool]:
        """The rows for which all filters are true, with some columns by their numbers; whether these are all it has."""
        names = self.obj.column_names
        wanted = names if columns is None else [names[number] for number in columns]
        if not filters:
            return self.obj.select(wanted).__arrow_c_stream__(), columns is not None
        condition = _condition(self.obj, filters)
        if condition is None:
            raise ValueError("a filter that was not accepted")
        return chosen(self.obj, condition, wanted).__arrow_c_stream__(), columns is not None


def _condition(table: Table, filters: Sequence[Any]) -> Condition | None:
    """The condition that all of DuckDB's filters are; None if one of them is not known here."""
    types = dict(table._core.types)
    left = iter(range(_NODES))
    try:
        tree = {"and": [_tree(one, types, left) for one in filters]}
    except _UnknownError:
        return None
    text = json.dumps(tree)
    # As polars, DuckDB has NaN for the largest number.
    found = Condition(text, "largest", [name for name in types if name in _columns(tree)])
    return found if found.columns and table._core.chooses(text, found.nan) else None


class _UnknownError(Exception):
    """A filter that is not known here."""


def _tree(node: Any, types: dict[str, str], left: Iterator[int]) -> Any:
    """A filter of DuckDB's as a predicate of ours."""
    if next(left, None) is None:
        raise _UnknownError
    match _parts(node):
        case ("Binary", "AND" | "OR" as operator, one, other):
            return {operator.lower(): [_tree(one, types, left), _tree(other, types, left)]}
        case ("Unary", "NOT", operand):
            return {"not": _tree(operand, types, left)}
        case ("Postfix", "IS NULL" | "IS NOT NULL" as operator, operand):
            return [_column(operand, types), operator.lower()]
        case ("Binary", str(operator), one, other) if operator in _COMPARISONS:
            name = _column(one, types)
            return [name, _COMPARISONS[operator], _value(other, types[name])]
        case ("In", operand, [*values]) if 0 < len(values) <= _FEW:
            name = _column(operand, types)
            return [name, "in", [_value(value, types[name]) for value in values]]
    raise _UnknownError


def _parts(node: Any) -> tuple[Any, ...]:
    """What a node of DuckDB's is, and what it is made of."""
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


def _column(node: Any, types: dict[str, str]) -> str:
    match _parts(node):
        case ("Col", (str(name),)) if name in types:
            return name
    raise _UnknownError


def _value(node: Any, column: str) -> Any:
    """A number of a column's own type."""
    match _parts(node):
        case ("Lit", int(value), str(kind)) if _INTEGERS.get(kind) == column and not isinstance(value, bool):
            return value
        case ("Lit", float(value), str(kind)) if _FLOATS.get(kind) == column and not math.isnan(value):
            return {"float": repr(value)}
    raise _UnknownError


def _columns(tree: Any) -> set[str]:
    """The columns that a predicate looks at."""
    match tree:
        case {"and": parts} | {"or": parts}:
            return {name for part in parts for name in _columns(part)}
        case {"not": part}:
            return _columns(part)
    return {tree[0]}
