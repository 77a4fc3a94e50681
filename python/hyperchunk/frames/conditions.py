"""Conditions on the rows of a frame, in the form of pandas' `where`."""

from __future__ import annotations

import ast
import datetime
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperchunk._printable import printable
from hyperchunk.exceptions import InvalidError
from hyperchunk.frames.model import Field, Source, Values
from hyperchunk.typing import Array

#: Maximum length of a condition, and maximum number of its parts.
_MAX_LENGTH, _MAX_PARTS = 100_000, 1000
_COMPARISONS: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
#: Value with which a column is compared.
Operand: TypeAlias = "bool | int | float | str | list[Operand] | None"
#: Condition on the rows, or choice of columns.
Tree: TypeAlias = "Test | Both | Not | Labels"
_TIMES = ("Timestamp", "datetime64", "to_datetime")
_DURATIONS = ("Timedelta", "timedelta64", "to_timedelta")


@dataclass(frozen=True)
class Test:
    """A comparison of a column with a value, or with a list of values."""

    column: int
    compare: type
    value: Operand


@dataclass(frozen=True)
class Both:
    """Two conditions, joined by `and` or `or`."""

    is_and: bool
    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Not:
    """Negation of a condition."""

    part: Tree


@dataclass(frozen=True)
class Labels:
    """A choice of columns, which is true for all rows: `columns == ["a", "b"]`."""

    is_wanted: bool
    labels: tuple[object, ...]

    def keeps(self, field: Field) -> bool:
        """Returns whether a column is chosen."""
        found = any(label == field.label or label == field.name for label in self.labels)
        return found is self.is_wanted


class Condition:
    """A condition, bound to the columns of a source."""

    def __init__(self, text: str, tree: Tree, columns: list[int], chosen: Sequence[Labels] = ()) -> None:
        self.text = text
        self._tree = tree
        self._chosen = tuple(chosen)
        #: False if it only chooses columns.
        self.has_rows = not isinstance(tree, Labels)
        #: Numbers of the columns that it needs.
        self.columns = columns

    @staticmethod
    def parse(condition: str | Sequence[str], source: Source) -> Condition:
        """Returns the condition of a text, or the conjunction of several.

        Raises:
            InvalidError: It cannot be parsed, or names a column that does not exist.
        """
        given = [condition] if isinstance(condition, str) else list(condition)
        if not given or not all(isinstance(text, str) for text in given):
            raise TypeError("a condition is a text, or a list of texts that must all hold")
        parser = _Parser(source)
        parts = [parser.parse(text) for text in given]
        return Condition(" & ".join(given), _joined(True, parts), sorted(parser.columns), parser.chosen)

    def keeps(self, field: Field) -> bool:
        """Returns whether a column is one of the chosen ones; the index always is."""
        return field.is_index or all(choice.keeps(field) for choice in self._chosen)

    def mask(self, source: Source, start: int, stop: int) -> Array:
        """Returns for each row of a range whether the condition is true."""
        found = dict(zip(self.columns, source.read(self.columns, start, stop), strict=True))
        return _evaluate(self._tree, found, stop - start)


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.columns: set[int] = set()
        self.chosen: list[Labels] = []
        self.parts = 0
        self.names: dict[str, int] = {}
        for number, field in enumerate(source.fields):
            self.names.setdefault(field.name, number)
        index = [number for number, field in enumerate(source.fields) if field.is_index]
        if len(index) == 1:
            self.names.setdefault("index", index[0])

    def parse(self, text: str) -> Tree:
        self.text = text
        if len(text) > _MAX_LENGTH:
            raise InvalidError(f"cannot parse a condition of {len(text)} characters: at most {_MAX_LENGTH}")
        try:
            tree = ast.parse(_as_python(text), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self.error("expected comparisons joined by & and |") from None
        return self.condition(tree, True)

    def error(self, reason: str) -> InvalidError:
        return InvalidError(f"cannot parse the condition {printable(repr(self.text[:200]))}: {reason}")

    def condition(self, node: ast.expr, is_outer: bool = False) -> Tree:
        """Returns the tree of a condition. Columns can be chosen if `is_outer`: outside of `or` and `not`."""
        self.parts += 1
        if self.parts > _MAX_PARTS:
            raise self.error(f"more than {_MAX_PARTS} parts")
        match node:
            case ast.BoolOp(op=joined, values=values):
                is_and = isinstance(joined, ast.And)
                return _joined(is_and, [self.condition(value, is_outer and is_and) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Not(self.condition(operand))
            case ast.Compare(left=ast.Name(id="columns"), ops=[operation], comparators=[value]) if self.has_labels:
                return self.labels(operation, value, is_outer)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self.comparison([left, *comparators], list(ops))
            case ast.Name():
                return Test(self.column(node), ast.Eq, True)
        raise self.error("expected a comparison such as index > 5 or name == 'x'")

    @property
    def has_labels(self) -> bool:
        """True if `columns` means the labels of the columns: no column has that name, and it is no series."""
        return "columns" not in self.names and not self.source.is_series

    def labels(self, operation: ast.cmpop, value: ast.expr, is_outer: bool) -> Labels:
        if not is_outer or not isinstance(operation, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            raise self.error("columns can only be chosen by ==, != or in, joined by & with other conditions")
        found = self.value(value)
        labels = tuple(found) if isinstance(found, list) else (found,)
        self.chosen.append(Labels(isinstance(operation, ast.Eq | ast.In), labels))
        return self.chosen[-1]

    def comparison(self, operands: list[ast.expr], ops: list[ast.cmpop]) -> Tree:
        tests: list[Tree] = []
        for left, operation, right in zip(operands, ops, operands[1:], strict=False):
            kind = type(operation)
            if isinstance(left, ast.Name) and left.id in self.names:
                tests.append(self.test(left, kind, self.value(right)))
            elif isinstance(right, ast.Name) and right.id in self.names:
                tests.append(self.test(right, _MIRRORED.get(kind, kind), self.value(left)))
            else:
                name = left.id if isinstance(left, ast.Name) else "?"
                raise self.error(f"no column {printable(repr(name))}; there are {', '.join(list(self.names)[:20])}")
        return tests[0] if len(tests) == 1 else Both(True, tuple(tests))

    def test(self, name: ast.Name, kind: type, value: Operand) -> Test | Not:
        if kind in (ast.In, ast.NotIn):
            value = value if isinstance(value, list) else [value]
            found = Test(self.column(name), ast.In, value)
            return Not(found) if kind is ast.NotIn else found
        if isinstance(value, list):
            # As in pandas, equality with a list is membership.
            if kind not in (ast.Eq, ast.NotEq):
                raise self.error("a list can only be compared by ==, != or in")
            found = Test(self.column(name), ast.In, value)
            return Not(found) if kind is ast.NotEq else found
        if kind not in _COMPARISONS:
            raise self.error("expected one of == != < <= > >= in")
        return Test(self.column(name), kind, value)

    def column(self, node: ast.Name) -> int:
        if node.id not in self.names:
            raise self.error(f"no column {printable(repr(node.id))}; there are {', '.join(list(self.names)[:20])}")
        number = self.names[node.id]
        self.columns.add(number)
        return number

    def value(self, node: ast.expr) -> Operand:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values):
                return [self.value(value) for value in values]
            case ast.Call(func=function, args=[_, *_], keywords=[]):
                return self.time(_name(function), [self.value(argument) for argument in node.args])
            case ast.Name(id=name):
                # A bare word is a text for pandas.
                return name
        raise self.error("expected a number, a text, a time or a list of them")

    def time(self, function: str, arguments: list[Any]) -> str:
        """Returns the text of a time or duration that a call makes."""
        numbers = [value for value in arguments if isinstance(value, int) and not isinstance(value, bool)]
        match function, arguments:
            case ("datetime" | "date" | "Timestamp", [_, _, _, *_]) if len(numbers) == len(arguments):
                try:
                    return datetime.datetime(*arguments).isoformat(" ")
                except (ValueError, TypeError, OverflowError):
                    raise self.error("expected a valid date") from None
            case "Timestamp" | "to_datetime", [int()] if numbers:
                # As in pandas: nanoseconds since 1970.
                if abs(numbers[0]) < 1 << 63:
                    return str(np.datetime64(numbers[0], "ns"))
            case name, [str(text), *_] if name in _TIMES or name in _DURATIONS:
                return text
            case name, [int() | float() as number] if name in _DURATIONS:
                return f"{number} ns"
            case name, [int() | float() as number, str(unit)] if name in _DURATIONS:
                return f"{number} {unit}"
        raise self.error("expected a number, a text, a time or a list of them")


def _joined(is_and: bool, parts: Sequence[Tree]) -> Tree:
    """Returns the conjunction or disjunction of conditions, without those that only choose columns."""
    rows = [part for part in parts if not isinstance(part, Labels)]
    if not rows:
        return parts[0]
    return rows[0] if len(rows) == 1 else Both(is_and, tuple(rows))


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _as_python(text: str) -> str:
    """Returns a condition as a Python expression: `=` is equality; `&`, `|` and `~` bind as `and`, `or` and `not`."""
    operators = {"&": " and ", "|": " or ", "~": " not "}
    found, quote = [], ""
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in operators:
            letter = operators[letter]
        elif (
            letter == "="
            and text[position + 1 : position + 2] != "="
            and text[position - 1 : position] not in ("=", "!", "<", ">")
        ):
            letter = "=="
        found.append(letter)
    return "".join(found).strip()


def _evaluate(tree: Tree, found: dict[int, Values], rows: int) -> Array:
    if isinstance(tree, Both):
        masks = [_evaluate(part, found, rows) for part in tree.parts]
        joined = np.logical_and if tree.is_and else np.logical_or
        result: Array = joined.reduce(masks)
        return result
    if isinstance(tree, Not):
        return ~_evaluate(tree.part, found, rows)
    assert isinstance(tree, Test)
    return _test(tree, found[tree.column])


def _test(test: Test, values: Values) -> Array:
    if values.kind in ("category", "level"):
        assert values.categories is not None
        true = _test(test, values.categories)
        missing = test.compare is ast.NotEq
        return np.where(values.data < 0, missing, np.append(true, missing)[values.data])
    if test.compare is ast.In:
        assert isinstance(test.value, list)
        masks = [_compare(values, ast.Eq, value) for value in test.value]
        return np.logical_or.reduce(masks) if masks else np.zeros(len(values), bool)
    return _compare(values, test.compare, test.value)


def _compare(values: Values, kind: type, value: Operand) -> Array:
    compare, data = _COMPARISONS[kind][1], values.data
    if values.kind == "period":
        import pandas

        from hyperchunk.frames.to_pandas import to_pandas

        periods: pandas.arrays.PeriodArray = to_pandas(values)
        return np.asarray(compare(periods, pandas.Period(value, periods.dtype.freq)), bool)
    if data.dtype.kind in "mM":
        return _plain_mask(values, compare(data, _time(data, values.zone, value)))
    if data.dtype.kind == "O":
        found = np.zeros(len(data), bool)
        for number, stored in enumerate(data.tolist()):
            is_missing = stored is None or stored != stored
            same = type(stored) is type(value) or (not isinstance(stored, str) and not isinstance(value, str))
            found[number] = kind is ast.NotEq if is_missing or not same else bool(compare(stored, value))
        return found
    if isinstance(value, str) or value is None:
        raise InvalidError(f"cannot compare numbers with {printable(repr(value))}")
    return _plain_mask(values, compare(data, value))


def _plain_mask(values: Values, found: npt.ArrayLike) -> Array:
    """Returns the result of a comparison as a mask, which is false where a value is missing."""
    mask = np.asarray(found, bool)
    if values.mask is not None:
        mask = mask & ~values.mask
    return mask


def _time(data: Array, zone: object, value: Operand) -> np.datetime64 | np.timedelta64:
    """Returns a text or a number as a time or duration of the kind of `data`."""
    if data.dtype.kind == "m" and isinstance(value, int | float) and not isinstance(value, bool):
        # As in pandas: seconds.
        return np.timedelta64(round(value * 1e9), "ns")
    if not isinstance(value, str):
        # As in pandas: 20000110 is a day, and 2000 a year.
        value = str(value)
    try:
        import pandas
    except ModuleNotFoundError:
        if data.dtype.kind == "m" or zone is not None:
            raise InvalidError(
                "durations and times with a zone in conditions need pandas: pip install pandas"
            ) from None
        return np.datetime64(datetime.datetime.fromisoformat(value))
    try:
        if data.dtype.kind == "m":
            duration: np.timedelta64 = pandas.Timedelta(value).to_timedelta64()
            return duration
        found = pandas.Timestamp(value)
        # Without a zone, a time is in UTC, as for pandas.
        found = found.tz_convert("UTC").tz_localize(None) if found.tzinfo is not None else found
        time: np.datetime64 = found.to_datetime64()
        return time
    except (ValueError, TypeError) as error:
        raise InvalidError(f"cannot read {printable(repr(value))} as a time: {printable(str(error))}") from None
