"""What is known of a table's values without looking at them, and which rows a filter can be true of.

It comes from the writers of a store (``statistics=True``) or from ``hyperchunk analyze``. Rows are left out only where
no value can be what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from hyperchunk import _core
    from hyperchunk.arrow.table import Table

Truths = npt.NDArray[np.bool_]
Rows = list[tuple[int, int]]

_WIDE = {"i": np.int64, "u": np.uint64, "f": np.float64}


class Condition(NamedTuple):
    """A filter that is evaluated where the values are, by Hyperchunk itself."""

    #: It as JSON, as ``where`` of a Flight server.
    text: str
    #: How NaN compares: not at all (``unordered``), or as the ``largest`` number.
    nan: str
    #: The columns that it looks at.
    columns: list[str]


class Column(NamedTuple):
    """What is known of a column, stretch by stretch."""

    #: Whether anything is.
    known: Truths
    #: Whether there are numbers, and between which two all of them are.
    numbers: Truths
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    #: Whether there may be values that are not a number.
    nan: Truths

    def grouped(self, firsts: npt.NDArray[np.intp]) -> Column:
        """The same of groups of stretches, which begin with those of these numbers."""
        # Where there are no numbers, none is smaller or larger.
        least, most = _ends(self.low.dtype)
        low = np.where(self.numbers, self.low, most)
        high = np.where(self.numbers, self.high, least)
        return Column(
            np.logical_and.reduceat(self.known, firsts),
            np.logical_or.reduceat(self.numbers, firsts),
            np.minimum.reduceat(low, firsts),
            np.maximum.reduceat(high, firsts),
            np.logical_or.reduceat(self.nan, firsts),
        )

    def of(self, chosen: npt.NDArray[np.intp]) -> Column:
        """The same of some stretches."""
        return Column(*(part[chosen] for part in self))


def _ends(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)


class Zones:
    """What is known of columns of a table: stretch by stretch of its rows."""

    def __init__(
        self, found: tuple[bytes, list[tuple[str, bytes, bytes, bytes]], int, bytes | None], types: dict[str, str]
    ) -> None:
        ends, columns, self.looked_at, may = found
        #: For each stretch, whether the condition may be true of a row, if there is one.
        self.may = None if may is None else np.frombuffer(may, np.bool_)
        #: The row behind each stretch. The first one begins with the first row.
        self.ends = np.frombuffer(ends, np.uint64).astype(np.int64)
        self.columns: dict[str, Column] = {}
        for name, known, low, high in columns:
            flags, dtype = np.frombuffer(known, np.uint8), np.dtype(types[name].lower())
            least, most = (np.frombuffer(part, _WIDE[dtype.kind]).astype(dtype) for part in (low, high))
            bits = [(flags & bit) != 0 for bit in (1, 2, 4)]
            self.columns[name] = Column(bits[0], bits[1], least, most, bits[2])

    @classmethod
    def of(cls, table: Table, columns: Sequence[str], condition: Condition | None = None) -> Zones | None:
        """What is known of these columns; None if that is nothing."""
        asked = () if condition is None else (condition.text, condition.nan)
        found = table._core.zones(columns, *asked)
        return None if found is None else cls(found, dict(table._core.types))

    def __len__(self) -> int:
        return len(self.ends)

    def rows(self, kept: Truths) -> Rows:
        """The rows of some stretches, those that follow each other as one."""
        starts = np.concatenate([[0], self.ends[:-1]])
        edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(np.int8)))
        return [(int(starts[first]), int(self.ends[end - 1])) for first, end in edges.reshape(-1, 2).tolist()]

    def unknown(self, kept: Truths, columns: Sequence[str]) -> int:
        """In how many rows of some stretches there is a column of which nothing is known."""
        known = np.ones(len(self), np.bool_)
        for name in columns:
            known &= self.columns[name].known if name in self.columns else False
        lengths = np.diff(self.ends, prepend=0)
        return int(lengths[kept & ~known].sum())


class Scanned:
    """What a scan with a filter looked at, in bytes of elements as they are without compression."""

    def __init__(
        self, scan: _core.Scan, statistics: int, left: int, unknown: int, total: int, fused: bool = False
    ) -> None:
        self._scan = scan
        self._statistics = statistics
        #: How many the rows have that what is known of the values did not rule out.
        self.left = left
        #: How many of them lie where of some column that the filter needs nothing is known.
        self.unknown = unknown
        #: Whether the filter was evaluated by Hyperchunk itself.
        self.fused = fused
        #: How many all rows have, in the columns that were asked for and those that the filter needs.
        self.total = total

    @property
    def looked_at(self) -> int:
        """How many bytes were looked at until now: statistics, and elements."""
        return self._statistics + self._scan.looked_at

    def __repr__(self) -> str:
        return f"<{self.looked_at} of {self.total} bytes looked at, {self.left} left by what is known>"


def scan(
    table: Table,
    first: list[str],
    wanted: list[str],
    zones: Zones | None,
    kept: Truths | None,
    *,
    fused: bool = False,
) -> _core.Scan:
    """A scan of the rows of stretches, or of all."""
    names = [*first, *(name for name in wanted if name not in first)]
    whole = table._core.select(names).nbytes
    each = whole // max(len(table), 1)
    statistics, left, unknown, rows = 0, whole, whole, None
    if zones is not None:
        kept = np.ones(len(zones), np.bool_) if kept is None else kept
        rows = zones.rows(kept)
        statistics = zones.looked_at
        left = each * sum(stop - start for start, stop in rows)
        unknown = each * zones.unknown(kept, first)
    found = table._core.scan(first, wanted, rows)
    table._scans.append(Scanned(found, statistics, left, unknown, whole, fused))
    return found


def chosen(table: Table, condition: Condition, wanted: list[str], rows: int | None = None) -> _core.Chosen:
    """Columns of the rows for which a condition is true, in batches of so many rows at most."""
    zones = Zones.of(table, condition.columns, condition)
    found = scan(table, condition.columns, wanted, zones, None if zones is None else zones.may, fused=True)
    reader = found.chosen(condition.text, condition.nan, rows)
    if reader is None:
        raise ValueError(f"a condition that this table does not evaluate: {condition.text}")
    return reader
