"""Zone statistics of tables, and the zones in which a filter may be true.

The statistics come from the writers of a store (``statistics=True``) or from ``hyperchunk analyze``. Zones are
skipped only if none of their values can match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperchunk.typing import Array, Dtype

if TYPE_CHECKING:
    from hyperchunk import _core
    from hyperchunk.arrow.table import Table

BoolArray = npt.NDArray[np.bool_]
#: Filter of rows as JSON: a condition ``[column, operator, value]``, or ``and``, ``or``, ``not`` of others.
Predicate: TypeAlias = Any
Rows = list[tuple[int, int]]

_STORED_TYPES = {"i": np.int64, "u": np.uint64, "f": np.float64}


class Condition(NamedTuple):
    """A filter that Hyperchunk itself evaluates on the stored values."""

    #: The filter as JSON, in the form of a Flight server's ``where``.
    text: str
    #: Order of NaN: ``unordered``, or the ``largest`` number.
    nan: str
    #: Columns that the filter uses.
    columns: list[str]


class Column(NamedTuple):
    """Statistics of a column, by zone."""

    #: True where there are statistics.
    known: BoolArray
    #: True where there are numbers; `low` and `high` bound them.
    numbers: BoolArray
    low: Array
    high: Array
    #: True where there may be NaN.
    nan: BoolArray

    def grouped(self, firsts: npt.NDArray[np.intp]) -> Column:
        """Merges zones into groups, given the first zone of each."""
        # Without numbers, the bounds are the neutral elements of minimum and maximum.
        least, most = _extremes(self.low.dtype)
        low = np.where(self.numbers, self.low, most)
        high = np.where(self.numbers, self.high, least)
        return Column(
            np.logical_and.reduceat(self.known, firsts),
            np.logical_or.reduceat(self.numbers, firsts),
            np.minimum.reduceat(low, firsts),
            np.maximum.reduceat(high, firsts),
            np.logical_or.reduceat(self.nan, firsts),
        )

    def take(self, indices: npt.NDArray[np.intp]) -> Column:
        """Returns the statistics of some zones."""
        return Column(*(part[indices] for part in self))


def _extremes(dtype: Dtype) -> tuple[np.generic, np.generic]:
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)


class Zones:
    """Statistics of a table's columns, by zone."""

    def __init__(
        self, found: tuple[bytes, list[tuple[str, bytes, bytes, bytes]], int, bytes | None], types: dict[str, str]
    ) -> None:
        ends, columns, self.bytes_scanned, candidates = found
        #: For each zone, whether the condition may be true of a row; None without a condition.
        self.candidates = None if candidates is None else np.frombuffer(candidates, np.bool_)
        #: End row (exclusive) of each zone. The first zone starts at row 0.
        self.ends = np.frombuffer(ends, np.uint64).astype(np.int64)
        self.columns: dict[str, Column] = {}
        for name, known, low, high in columns:
            flags, dtype = np.frombuffer(known, np.uint8), np.dtype(types[name].lower())
            least, most = (np.frombuffer(part, _STORED_TYPES[dtype.kind]).astype(dtype) for part in (low, high))
            bits = [(flags & bit) != 0 for bit in (1, 2, 4)]
            self.columns[name] = Column(bits[0], bits[1], least, most, bits[2])

    @classmethod
    def read(cls, table: Table, columns: Sequence[str], condition: Condition | None = None) -> Zones | None:
        """Reads the statistics of columns; None if the file has none."""
        asked = () if condition is None else (condition.text, condition.nan)
        found = table._core.zones(columns, *asked)
        return None if found is None else cls(found, dict(table._core.types))

    def __len__(self) -> int:
        return len(self.ends)

    def rows(self, candidates: BoolArray) -> Rows:
        """Returns the row ranges of some zones, with adjacent ones merged."""
        starts = np.concatenate([[0], self.ends[:-1]])
        edges = np.flatnonzero(np.diff(np.concatenate([[False], candidates, [False]]).astype(np.int8)))
        return [(int(starts[first]), int(self.ends[end - 1])) for first, end in edges.reshape(-1, 2).tolist()]

    def unknown(self, candidates: BoolArray, columns: Sequence[str]) -> int:
        """Counts the rows of some zones in which one of the columns has no statistics."""
        known = np.ones(len(self), np.bool_)
        for name in columns:
            known &= self.columns[name].known if name in self.columns else False
        lengths = np.diff(self.ends, prepend=0)
        return int(lengths[candidates & ~known].sum())


class ScanReport:
    """Report of a scan with a filter, in bytes of uncompressed elements."""

    def __init__(
        self, scan: _core.Scan, statistics: int, candidate: int, unknown: int, total: int, fused: bool = False
    ) -> None:
        self._scan = scan
        self._statistics = statistics
        #: Bytes of the rows that the statistics did not rule out.
        self.bytes_candidate = candidate
        #: Bytes of those rows for which a column of the filter has no statistics.
        self.unknown = unknown
        #: True if Hyperchunk itself evaluated the filter.
        self.fused = fused
        #: Bytes of all rows, in the requested columns and the filter's columns.
        self.total = total

    @property
    def bytes_scanned(self) -> int:
        """Bytes scanned until now: statistics and elements."""
        return self._statistics + self._scan.bytes_scanned

    def __repr__(self) -> str:
        return f"<{self.bytes_scanned} of {self.total} bytes scanned, {self.bytes_candidate} candidates>"


def scan(
    table: Table,
    first: list[str],
    wanted: list[str],
    zones: Zones | None,
    candidates: BoolArray | None,
    *,
    fused: bool = False,
) -> _core.Scan:
    """Starts a scan of the rows of some zones, or of all."""
    names = [*first, *(name for name in wanted if name not in first)]
    whole = table._core.select(names).nbytes
    each = whole // max(len(table), 1)
    statistics, candidate, unknown, rows = 0, whole, whole, None
    if zones is not None:
        candidates = np.ones(len(zones), np.bool_) if candidates is None else candidates
        rows = zones.rows(candidates)
        statistics = zones.bytes_scanned
        candidate = each * sum(stop - start for start, stop in rows)
        unknown = each * zones.unknown(candidates, first)
    found = table._core.scan(first, wanted, rows)
    table._scans.append(ScanReport(found, statistics, candidate, unknown, whole, fused))
    return found


def filtered_batches(
    table: Table, condition: Condition, wanted: list[str], rows: int | None = None
) -> _core.FilteredRows:
    """Reads columns of the rows for which a condition is true, in batches of at most `rows` rows."""
    zones = Zones.read(table, condition.columns, condition)
    found = scan(table, condition.columns, wanted, zones, None if zones is None else zones.candidates, fused=True)
    reader = found.chosen(condition.text, condition.nan, rows)
    if reader is None:
        raise ValueError(f"this table cannot evaluate the condition {condition.text}")
    return reader
