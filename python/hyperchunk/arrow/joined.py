"""Tables over all files of a collection: the tables of the files, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Unpack, cast

import numpy as np

from hyperchunk import _core, netcdf
from hyperchunk.arrow.table import Table, check_conversion, to_slice
from hyperchunk.collection_reads import in_order
from hyperchunk.exceptions import InvalidError
from hyperchunk.group import Group
from hyperchunk.objects import encode
from hyperchunk.typing import Array, ConversionOptions, Rows

if TYPE_CHECKING:
    from hyperchunk.collection import Collection
    from hyperchunk.collection_dataset import CollectionDataset


class _Source(NamedTuple):
    """The tables of the files."""

    collection: Collection
    #: Path of the group or dataset in each file.
    path: str
    #: Columns of each file's table; None for all members of a dataset.
    columns: list[str] | None
    #: Row after the last one of each file.
    ends: Array


class _Part(NamedTuple):
    """Rows of one file, by their numbers there."""

    number: int
    ranges: list[tuple[int, int]]


def joined_table(
    collection: Collection,
    path: str,
    columns: Sequence[str] | None,
    rows: Rows | None,
    batch_rows: int | None,
    **conversion: Unpack[ConversionOptions],
) -> Table:
    """Returns the table of a group or a dataset of all files: see :meth:`hyperchunk.Collection.table`."""
    check_conversion("table", conversion)
    if isinstance(columns, str):
        raise TypeError("columns must be a list of names")
    full = "/" + path.strip("/")
    if full in collection:
        ends = _ends({full: collection[full]}, full)
        source = _Source(collection, full, None if columns is None else list(columns), ends)
    else:
        names, ends = _columns(collection, full, columns)
        source = _Source(collection, full, names, ends)
    given = {name: str(value) for name, value in conversion.items() if value is not None}
    core = JoinedTable(source, None, 0, int(ends[-1]), [f"{name}={value}" for name, value in given.items()], batch_rows)
    # JoinedTable has the methods of `_core.Table`.
    table = Table(cast("_core.Table", core), given)
    return table if rows is None else table[to_slice(rows, table.num_rows)]


def _columns(collection: Collection, path: str, columns: Sequence[str] | None) -> tuple[list[str], Array]:
    """Returns the columns of a group, and the ends of the files' rows."""
    group = collection.file(0)[path]
    if not isinstance(group, Group):
        raise InvalidError(f"cannot make a table of {path}: expected a group or a dataset of the collection")
    prefix = path.rstrip("/")
    names = columns
    if names is None and "h5.table" in group.attrs:
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in group.attrs["h5.table"]]
    if names is None:
        found = ((name, collection.get(f"{prefix}/{name}")) for name in group)
        names = [name for name, dataset in found if dataset is not None and _is_column(dataset)]
        if not names:
            raise InvalidError(
                f"cannot make a table of {path}: none of its datasets is joined along its first axis; choose others "
                "with columns="
            )
    datasets = {}
    for name in names:
        dataset = collection.get(f"{prefix}/{name.strip('/')}")
        if dataset is None:
            raise KeyError(f"{path} has no dataset {name!r}")
        datasets[name] = dataset
    return list(names), _ends(datasets, path)


def _is_column(dataset: CollectionDataset) -> bool:
    """True for a dataset that is a column by default: joined along its first axis, and not a dimension's name only."""
    if dataset.axis != 0:
        return False
    name = dataset.first.attrs.get("NAME", b"")
    return not (isinstance(name, bytes) and name.startswith(netcdf.NOT_A_VARIABLE))


def _ends(datasets: dict[str, CollectionDataset], path: str) -> Array:
    """Returns the row after the last one of each file.

    Raises:
        InvalidError: The datasets cannot be columns of one table.
    """
    if not datasets:
        raise InvalidError(f"cannot make a table of {path}: expected the name of at least one column, got none")
    for name, dataset in datasets.items():
        if dataset.axis != 0:
            what = "it is not joined" if dataset.axis is None else f"it is joined along axis {dataset.axis}"
            raise InvalidError(
                f"cannot make a column of {name}: expected a dataset that is joined along its first axis, but {what}; "
                "leave it out with columns="
            )
        if dataset.units:
            raise InvalidError(
                f"cannot make a column of {name}: its units differ between the files; leave it out with columns="
            )
    first = next(iter(datasets.values())).ends
    if any(not np.array_equal(dataset.ends, first) for dataset in datasets.values()):
        lengths = ", ".join(f"{name} {dataset.ends[-1]}" for name, dataset in datasets.items())
        raise InvalidError(
            f"cannot make a table of {path}: expected columns of equal length in each file, got {lengths} rows; choose "
            "some with columns="
        )
    return first


class JoinedTable:
    """The methods of ``_core.Table`` over the tables of many files."""

    def __init__(
        self,
        source: _Source,
        columns: list[str] | None,
        start: int,
        stop: int,
        conversion_options: list[str],
        batch_rows: int | None,
    ) -> None:
        self._source = source
        # None for all.
        self._columns = columns
        self._start, self._stop = start, stop
        self._conversion_options = conversion_options
        self._batch_rows = batch_rows
        self._first_table: _core.Table | None = None

    def _table(self, number: int) -> _core.Table:
        """Opens the table of one file."""
        source = self._source
        object = source.collection.file(number)[source.path]._object
        assert isinstance(object, _core.Object)
        table = _core.Table.from_object(object, source.columns, None, self._conversion_options, False, self._batch_rows)
        return table if self._columns is None else table.select(self._columns)

    @property
    def _first(self) -> _core.Table:
        if self._first_table is None:
            self._first_table = self._table(0)
        return self._first_table

    def _checked(self, number: int) -> _core.Table:
        """Opens the table of one file, which must have the first one's columns, and the rows of its dimension."""
        source = self._source
        table, name = self._table(number), source.collection.files[number]
        expected = int(source.ends[number]) - (int(source.ends[number - 1]) if number else 0)
        if table.num_rows != expected:
            raise InvalidError(
                f"cannot read the table {source.path}: expected {expected} rows in {name}, as its dimension has, got "
                f"{table.num_rows}; read its datasets one by one, collection[PATH], where missing rows are fill values"
            )
        if table.types != self._first.types:
            raise InvalidError(
                f"cannot read the table {source.path}: expected the columns {self._first.types}, got {table.types} in "
                f"{name}; collect the files again"
            )
        return table

    def _with(
        self,
        columns: list[str] | None = None,
        rows: tuple[int, int] | None = None,
        conversion_options: list[str] | None = None,
        batch_rows: int | None = None,
    ) -> JoinedTable:
        start, stop = (self._start, self._stop) if rows is None else rows
        return JoinedTable(
            self._source,
            self._columns if columns is None else columns,
            start,
            stop,
            self._conversion_options if conversion_options is None else conversion_options,
            self._batch_rows if batch_rows is None else batch_rows,
        )

    # --- Properties ---

    @property
    def num_rows(self) -> int:
        return self._stop - self._start

    @property
    def column_names(self) -> list[str]:
        return self._first.column_names

    @property
    def types(self) -> list[tuple[str, str]]:
        return self._first.types

    @property
    def nbytes(self) -> int:
        lengths = np.diff(self._source.ends, prepend=0)
        if not self.num_rows or not lengths.any():
            return 0
        table = self._checked(int(np.flatnonzero(lengths)[0]))
        return table.nbytes * self.num_rows // table.num_rows

    def storage(self) -> list[tuple[str, int, int]]:
        return [(name, 0, self.num_rows) for name in self.column_names]

    def mapped_memory(self) -> list[tuple[int, int]]:
        return []

    def chooses(self, predicate: str, nan: str) -> bool:
        return self._first.chooses(predicate, nan)

    def predicate_of_expression(self, written: bytes) -> tuple[str, list[str]] | None:
        return self._first.predicate_of_expression(written)

    # --- Parts ---

    def select(self, columns: Sequence[str]) -> JoinedTable:
        self._first.select(columns)
        return self._with(columns=list(columns))

    def slice(self, start: int, end: int) -> JoinedTable:
        return self._with(rows=(self._start + start, self._start + end))

    def with_batch_rows(self, rows: int | None) -> JoinedTable:
        return self._with(batch_rows=rows)

    def with_conversion(self, conversion_options: Sequence[str]) -> JoinedTable:
        return self._with(conversion_options=list(conversion_options))

    # --- Statistics ---

    def _paths(self, columns: Sequence[str]) -> list[tuple[str, bytes, _core.Dataset]]:
        """Returns the columns that are datasets of one dimension, and may have statistics."""
        source, found = self._source, []
        plain = set(self._first.plain_numbers())
        for name in columns:
            path = source.path if source.path in source.collection else f"{source.path.rstrip('/')}/{name.strip('/')}"
            dataset = source.collection.get(path)
            if name in plain and dataset is not None and dataset.ndim == 1 and dataset.dtype.kind in "iuf":
                found.append((name, encode(path), dataset.first._readable))
        return found

    def keeps_zones(self) -> bool:
        kept = self._source.collection._core.paths_with_statistics()
        return bool(kept) and any(path in kept for _, path, _ in self._paths(self.column_names))

    def zones(
        self, columns: Sequence[str], predicate: str | None = None, nan: str = "unordered"
    ) -> tuple[bytes, list[tuple[str, bytes, bytes, bytes]], int, bytes | None] | None:
        if not self.keeps_zones():
            return None
        ends = self._source.ends
        found = self._source.collection._core.zones(ends.tolist(), self._paths(columns), predicate, nan)
        if found is None:
            return None
        # Only files that have rows of this table: their ends are distinct.
        own = (np.clip(ends, self._start, self._stop) - self._start).astype(np.uint64)
        some = np.diff(own, prepend=np.uint64(0)) > 0
        known = [
            (
                name,
                *(np.frombuffer(part, f"u{size}")[some].tobytes() for part, size in zip(parts, (1, 8, 8), strict=True)),
            )
            for name, *parts in found[1]
        ]
        possible = None if found[3] is None else np.frombuffer(found[3], "u1")[some].tobytes()
        return own[some].tobytes(), cast("list[tuple[str, bytes, bytes, bytes]]", known), found[2], possible

    # --- Reads ---

    def _parts(self, rows: Iterable[tuple[int, int]]) -> Iterator[_Part]:
        """Divides ranges of rows, in order, by file."""
        ends, part = self._source.ends, None
        for start, stop in rows:
            at, stop = self._start + start, self._start + stop
            while at < stop:
                number = int(np.searchsorted(ends, at, side="right"))
                first, end = int(ends[number - 1]) if number else 0, min(stop, int(ends[number]))
                if part is not None and part.number != number:
                    yield part
                    part = None
                part = part or _Part(number, [])
                part.ranges.append((at - first, end - first))
                at = end
        if part is not None:
            yield part

    def batches(self) -> _core.JoinedBatches:
        def begin(part: _Part) -> tuple[_core.Batch | None, Iterator[_core.Batch]]:
            batches = iter(self._checked(part.number).slice(*part.ranges[0]).batches())
            return next(batches, None), batches

        return self._joined(self._first, in_order(self._source.collection, begin, self._parts([(0, self.num_rows)])))

    @staticmethod
    def _joined(
        like: _core.Table, begun: Iterator[tuple[_core.Batch | None, Iterator[_core.Batch]]]
    ) -> _core.JoinedBatches:
        """Joins the batches of files, of each of which the first batch was read already."""

        def batches() -> Iterator[_core.Batch]:
            for first, rest in begun:
                if first is not None:
                    yield first
                    yield from rest

        return _core.JoinedBatches(like.schema_capsule(), batches())

    def scan(
        self, first: Sequence[str], wanted: Sequence[str], rows: Sequence[tuple[int, int]] | None = None
    ) -> JoinedScan:
        return JoinedScan(self, first, wanted, [(0, self.num_rows)] if rows is None else rows)

    def schema_capsule(self) -> object:
        return self._first.schema_capsule()

    def stream_capsule(self, requested: object | None = None) -> object:
        return self.batches().__arrow_c_stream__()

    def array_capsules(self, requested: object | None = None) -> tuple[object, object]:
        return self.batches().array_capsules()


class JoinedScan:
    """The methods of ``_core.Scan`` over the tables of many files."""

    def __init__(
        self, table: JoinedTable, first: Sequence[str], wanted: Sequence[str], rows: Sequence[tuple[int, int]]
    ) -> None:
        self._table = table
        self._first, self._wanted = list(first), list(wanted)
        self._rows = list(rows)
        # Scans in progress, and the number of bytes that completed ones scanned.
        self._begun: list[_core.Scan] = []
        self._ended = 0

    @property
    def bytes_scanned(self) -> int:
        return self._ended + sum(scan.bytes_scanned for scan in list(self._begun))

    def _parts(self) -> Iterator[_Part]:
        """Divides the rows by file, after a check of the versions of local files whose rows statistics all rule out."""
        table = self._table
        parts = list(table._parts(self._rows))
        left = {part.number for part in parts}
        ruled_out = (part.number for part in table._parts([(0, table.num_rows)]) if part.number not in left)
        table._source.collection._open.check(ruled_out)
        yield from parts

    def _begin(self, part: _Part) -> _core.Scan:
        scan = self._table._checked(part.number).scan(self._first, self._wanted, part.ranges)
        self._begun.append(scan)
        return scan

    def _end(self, scan: _core.Scan) -> None:
        self._begun.remove(scan)
        self._ended += scan.bytes_scanned

    def __iter__(self) -> Iterator[_core.ScanPart]:
        budget = _core.ReadBudget()
        for part in self._parts():
            scan = budget.run(self._begin, part)
            yield from scan
            self._end(scan)

    def chosen(self, predicate: str, nan: str, rows: int | None = None) -> _core.JoinedBatches:
        def begin(part: _Part) -> tuple[_core.Batch | None, Iterator[_core.Batch]]:
            scan = self._begin(part)
            found = scan.chosen(predicate, nan, rows)
            if found is None:
                raise ValueError(f"this table cannot evaluate the condition {predicate}")

            def rest() -> Iterator[_core.Batch]:
                yield from found
                self._end(scan)

            batches = rest()
            first = next(batches, None)
            return first, batches

        like = self._table._first.select(self._wanted)
        return self._table._joined(like, in_order(self._table._source.collection, begin, self._parts()))
