"""Zone pruning and evaluation of polars predicates.

Reads the serialized form of a predicate after polars has optimized the query: comparisons of columns with values of
the same type. Any other expression is treated as unknown.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from hyperchunk.arrow.zones import BoolArray, Column, Condition, Predicate, Zones
from hyperchunk.typing import Array, Dtype

if TYPE_CHECKING:
    import polars as pl

    from hyperchunk.arrow.table import Table


#: Node of a serialized polars expression, as parsed JSON.
Expression: TypeAlias = Any


class PossibleResults(NamedTuple):
    """Possible results of a predicate for the rows of a zone: true, and false."""

    yes: BoolArray | bool
    no: BoolArray | bool


_EITHER = PossibleResults(True, True)
_TYPES = {
    "Int8": "i1",
    "Int16": "i2",
    "Int32": "i4",
    "Int64": "i8",
    "UInt8": "u1",
    "UInt16": "u2",
    "UInt32": "u4",
    "UInt64": "u8",
    "Float32": "f4",
    "Float64": "f8",
}
_FLIPPED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_NULL_SAFE = {"EqValidity": "Eq", "NotEqValidity": "NotEq"}


_COMPARISONS = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
# polars is faster for longer lists of values.
_MAX_LISTED_VALUES = 16


def condition(table: Table, predicate: pl.Expr) -> Condition | None:
    """Converts a predicate to a condition; None if it is not supported."""
    types = dict(table._core.types)
    try:
        tree = _tree(json.loads(predicate.meta.serialize(format="json")), types)
    except (_UnknownError, RecursionError):
        return None
    names = set(predicate.meta.root_names())
    # polars orders NaN as the largest number.
    found = Condition(json.dumps(tree), "largest", [name for name in types if name in names])
    return found if found.columns and table._core.chooses(found.text, found.nan) else None


class _UnknownError(Exception):
    """An unsupported predicate."""


def _tree(tree: Expression, types: dict[str, str]) -> Predicate:
    """Converts a polars predicate to one of ours."""
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return {"and": [_tree(left, types), _tree(right, types)]}
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return {"or": [_tree(left, types), _tree(right, types)]}
        case {"BinaryExpr": {"left": left, "op": str(operator), "right": right}}:
            operator = _NULL_SAFE.get(operator, operator)
            if "Literal" in left:
                left, operator, right = right, _FLIPPED.get(operator, operator), left
            return _comparison(left, operator, right, types)
        case {"Function": {"input": [one], "function": {"Boolean": "Not"}}}:
            return {"not": _tree(one, types)}
        case {
            "Function": {"input": [value, low, high], "function": {"Boolean": {"IsBetween": {"closed": str(closed)}}}}
        }:
            above = _comparison(value, "GtEq" if closed in ("Both", "Left") else "Gt", low, types)
            return {"and": [above, _comparison(value, "LtEq" if closed in ("Both", "Right") else "Lt", high, types)]}
        case {
            "Function": {
                "input": [value, {"Literal": {"Scalar": {"List": list(stored)}}}],
                "function": {"Boolean": {"IsIn": _}},
            }
        }:
            name, dtype = _numeric_column(value, types)
            values = _list(bytes(stored))
            if values is None or values.dtype != dtype or len(values) > _MAX_LISTED_VALUES or (values != values).any():
                raise _UnknownError
            return [name, "in", [_number_to_json(one) for one in values]]
        case {"Function": {"input": [value], "function": {"Boolean": "IsNull" | "IsNotNull" as function}}}:
            return [_numeric_column(value, types)[0], "is null" if function == "IsNull" else "is not null"]
        case {"Function": {"input": [value], "function": {"Boolean": "IsNan" | "IsNotNan" as function}}}:
            name, dtype = _numeric_column(value, types)
            if dtype.kind == "f":
                return [name, ">" if function == "IsNan" else "<=", {"float": "inf"}]
    raise _UnknownError


def _comparison(value: Expression, operator: str, given: Expression, types: dict[str, str]) -> Predicate:
    name, dtype = _numeric_column(value, types)
    number = _literal(given, dtype)
    if number is None or operator not in _COMPARISONS:
        raise _UnknownError
    return [name, _COMPARISONS[operator], _number_to_json(number)]


def _numeric_column(tree: Expression, types: dict[str, str]) -> tuple[str, Dtype]:
    """Returns a numeric column and its dtype."""
    match tree:
        case {"Column": str(name)} if types.get(name) in _TYPES:
            return name, np.dtype(_TYPES[types[name]])
    raise _UnknownError


def _number_to_json(number: np.number) -> int | dict[str, str]:
    return {"float": repr(float(number))} if number.dtype.kind == "f" else int(number)


def candidate_zones(zones: Zones, predicate: pl.Expr) -> BoolArray:
    """Returns for each zone whether a predicate may be true of a row."""
    tree = json.loads(predicate.meta.serialize(format="json"))
    found = _Judge(zones).judge(tree)
    return np.broadcast_to(np.asarray(found.yes), len(zones))


class _Judge:
    """Evaluates predicates for the statistics of zones."""

    def __init__(self, zones: Zones) -> None:
        self._zones = zones

    def judge(self, tree: Expression) -> PossibleResults:
        """Judges a boolean expression."""
        match tree:
            case {"Literal": {"Scalar": {"Boolean": bool(truth)}}}:
                return PossibleResults(truth, not truth)
            case {"Literal": {"Scalar": {"Null": "Boolean"}}}:
                return PossibleResults(False, False)
            case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
                one, other = self.judge(left), self.judge(right)
                return PossibleResults(one.yes & other.yes, one.no | other.no)
            case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
                one, other = self.judge(left), self.judge(right)
                return PossibleResults(one.yes | other.yes, one.no & other.no)
            case {"BinaryExpr": {"left": left, "op": str(operator), "right": right}}:
                operator = _NULL_SAFE.get(operator, operator)
                if "Literal" in left:
                    left, operator, right = right, _FLIPPED.get(operator, operator), left
                return self._judge_comparison(left, operator, right)
            case {"Ternary": {"predicate": asked, "truthy": truthy, "falsy": falsy}}:
                asked, one, other = self.judge(asked), self.judge(truthy), self.judge(falsy)
                # The condition may be null, so the otherwise branch is always possible.
                return PossibleResults((asked.yes & one.yes) | other.yes, (asked.yes & one.no) | other.no)
            case {"Function": {"input": list(given), "function": {"Boolean": function}}}:
                return self._function(function, given)
        return _EITHER

    def _function(self, function: Expression, given: list[Expression]) -> PossibleResults:
        match function, given:
            case "Not", [one]:
                found = self.judge(one)
                return PossibleResults(found.no, found.yes)
            case {"IsBetween": {"closed": str(closed)}}, [value, low, high]:
                above = self._judge_comparison(value, "GtEq" if closed in ("Both", "Left") else "Gt", low)
                below = self._judge_comparison(value, "LtEq" if closed in ("Both", "Right") else "Lt", high)
                return PossibleResults(above.yes & below.yes, above.no | below.no)
            case {"IsIn": _}, [value, {"Literal": {"Scalar": {"List": list(stored)}}}]:
                return self._judge_membership(value, bytes(stored))
            case _, [value]:
                column = self._column(value)
                if column is None:
                    return _EITHER
                unknown = ~column.known
                # HDF5 numbers are never null.
                if function == "IsNull":
                    return PossibleResults(unknown, True)
                if function == "IsNotNull":
                    return PossibleResults(True, unknown)
                if function == "IsNan":
                    return PossibleResults(column.nan | unknown, column.numbers | unknown)
                if function == "IsNotNan":
                    return PossibleResults(column.numbers | unknown, column.nan | unknown)
        return _EITHER

    def _judge_comparison(self, left: Expression, operator: str, right: Expression) -> PossibleResults:
        """Judges a comparison of a column with a value."""
        column = self._column(left)
        if column is None:
            return _EITHER
        value = _literal(right, column.low.dtype)
        if value is None:
            return _EITHER
        numbers, low, high = column.numbers, column.low, column.high
        # NaN is larger than every number.
        match operator:
            case "Gt":
                yes, no = (numbers & (high > value)) | column.nan, numbers & (low <= value)
            case "GtEq":
                yes, no = (numbers & (high >= value)) | column.nan, numbers & (low < value)
            case "Lt":
                yes, no = numbers & (low < value), (numbers & (high >= value)) | column.nan
            case "LtEq":
                yes, no = numbers & (low <= value), (numbers & (high > value)) | column.nan
            case "Eq" | "NotEq":
                yes = numbers & (low <= value) & (value <= high)
                no = (numbers & ((low != value) | (high != value))) | column.nan
                yes, no = (yes, no) if operator == "Eq" else (no, yes)
            case _:
                return _EITHER
        return PossibleResults(yes | ~column.known, no | ~column.known)

    def _judge_membership(self, value: Expression, stored: bytes) -> PossibleResults:
        """Judges a membership test of a column in a list of values."""
        column, values = self._column(value), _list(stored)
        if column is None or values is None or values.dtype != column.low.dtype or (values != values).any():
            return _EITHER
        values = np.sort(values)
        some = np.searchsorted(values, column.low, "left") < np.searchsorted(values, column.high, "right")
        return PossibleResults((column.numbers & some) | ~column.known, True)

    def _column(self, tree: Expression) -> Column | None:
        """Returns the statistics of a column, also through a cast that preserves the order of its values."""
        match tree:
            case {"Column": str(name)}:
                return self._zones.columns.get(name)
            case {"Cast": {"expr": {"Column": str(name)}, "dtype": {"Literal": str(kind)}}}:
                column, wanted = self._zones.columns.get(name), _TYPES.get(kind)
                if column is None or wanted is None:
                    return None
                before, dtype = column.low.dtype, np.dtype(wanted)
                if dtype != np.float64 and not np.can_cast(before, dtype, "safe"):
                    return None
                return column._replace(low=column.low.astype(dtype), high=column.high.astype(dtype))
        return None


def _literal(tree: Expression, dtype: Dtype) -> np.number | None:
    """Returns a literal number of a dtype; None if it has another type."""
    match tree:
        case {"Literal": {"Scalar": dict(scalar)}} if len(scalar) == 1:
            ((kind, value),) = scalar.items()
            if _TYPES.get(kind) != dtype.str[1:] or isinstance(value, bool) or not isinstance(value, int | float):
                return None
            found = dtype.type(value)
            return None if found != found else found
    return None


def _list(stored: bytes) -> Array | None:
    """Decodes the values of a list, which is stored as an Arrow stream."""
    import polars as pl

    try:
        series = pl.read_ipc_stream(io.BytesIO(stored)).to_series()
        return None if series.null_count() or not series.dtype.is_numeric() else series.to_numpy()
    except (OSError, pl.exceptions.PolarsError):
        return None
