"""A table as a dataset of pyarrow: whoever scans it says which columns and rows he wants, and only those are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from hyperchunk.arrow.guarantees import kept
from hyperchunk.arrow.zones import Condition, Zones, chosen
from hyperchunk.arrow.zones import scan as zoned_scan

if TYPE_CHECKING:
    from hyperchunk.arrow.table import Table
    from hyperchunk.arrow.zones import Scanned


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """A :class:`pyarrow.dataset.Dataset` over a :class:`hyperchunk.Table`.

    It is one fragment without partitions. Comparisons of columns of numbers with numbers, and what they are joined to,
    are evaluated where the values lie; all other filters by pyarrow, row by row. Rows that they rule out by what is
    known of the values are not read."""

    def __init__(self, table: Table, chosen: ds.Expression | None = None) -> None:
        # pyarrow's own has a C++ object, which this has not: all that would look at it is replaced below.
        self._table = table
        self._schema = table.schema
        # Only rows for which this is true are there.
        self._filter = chosen

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    @property
    def scanned(self) -> Scanned | None:
        """What the last scan with a filter looked at."""
        return self._table.scanned

    @property
    def partition_expression(self) -> ds.Expression:
        """What holds for all rows: nothing."""
        return ds.scalar(True)

    def scanner(
        self,
        columns: Any = None,
        filter: ds.Expression | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> ds.Scanner:
        """A scanner over some columns, or expressions by name, of the rows for which a filter is true."""
        known = {name: value for name, value in options.items() if name in _OPTIONS}
        filter = self._both(filter)
        plain = isinstance(columns, list | tuple) and all(map(self._schema.names.__contains__, columns))
        if plain and len(set(columns)) == len(columns):
            # Nothing is left to do for pyarrow.
            names = list(columns)
            return TableScanner(self._schema, names, lambda: self._reader(names, filter, batch_size), known)
        if batch_size is not None:
            known["batch_size"] = batch_size
        names = self._needed(columns, None)
        return ds.Scanner.from_batches(self._reader(names, filter, batch_size), columns=columns, **known)

    def _reader(self, names: list[str], filter: ds.Expression | None, batch_size: int | None) -> pa.RecordBatchReader:
        """Columns of the rows for which a filter is true."""
        if filter is None:
            return self._table.select(names).to_reader(batch_size)
        condition = self._condition(filter)
        if condition is not None:
            return pa.RecordBatchReader.from_stream(chosen(self._table, condition, names, batch_size))
        schema = pa.schema([self._schema.field(name) for name in names], self._schema.metadata)
        return pa.RecordBatchReader.from_batches(schema, self._chosen(names, filter))

    def _condition(self, filter: ds.Expression) -> Condition | None:
        """The condition that a filter is, if it is known to be one."""
        try:
            written = filter.__reduce__()[1][0]
        except (pa.ArrowException, TypeError):
            return None
        found = self._table._core.predicate_of_expression(bytes(written))
        if found is None:
            return None
        text, columns = found
        known = columns and self._table._core.chooses(text, "unordered")
        return Condition(text, "unordered", columns) if known else None

    def _chosen(self, names: list[str], filter: ds.Expression) -> Iterator[pa.RecordBatch]:
        """Columns of the rows for which a filter is true. What the filter needs is read first; the others only where it
        is true for a row."""
        first = self._needed([], filter)
        zones = Zones.of(self._table, first)
        may = None if zones is None else kept(zones, self._schema, filter)
        for part in zoned_scan(self._table, first, names, zones, may):
            mask = _evaluated(pa.record_batch(part.first()), filter)
            if mask.true_count:
                yield pa.record_batch(part.chosen(mask.__arrow_c_array__()))

    def _both(self, filter: ds.Expression | None) -> ds.Expression | None:
        """A filter, and the one that this has."""
        if self._filter is None:
            return filter
        return self._filter if filter is None else self._filter & filter

    def _needed(self, columns: Any, filter: ds.Expression | None) -> list[str]:
        """The columns that must be read, in their order."""
        names: list[str] = self._schema.names
        if columns is None:
            return names
        expressions = list(columns.values()) if isinstance(columns, dict) else []
        wanted = set() if isinstance(columns, dict) else set(columns)
        if filter is not None:
            expressions.append(filter)
        if expressions:
            text = " ".join(map(str, expressions))
            mentioned = wanted | {name for name in names if name in text}
            # Columns that are meant by their number must stay where they are.
            if "FieldPath" in text or not self._binds(mentioned, expressions):
                return names
            for name in mentioned - wanted if len(mentioned) <= _FEW else ():
                # A text may hold the name of a column that is not meant.
                if self._binds(mentioned - {name}, expressions):
                    mentioned = mentioned - {name}
            wanted = mentioned
        return [name for name in names if name in wanted]

    def _binds(self, names: set[str], expressions: list[ds.Expression]) -> bool:
        """Whether expressions mean something for these columns alone."""
        schema = pa.schema([field for field in self._schema if field.name in names])
        columns = {str(number): expression for number, expression in enumerate(expressions)}
        try:
            ds.Scanner.from_batches([], schema=schema, columns=columns).to_table()
        except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return False
        return True

    def to_batches(self, columns: Any = None, filter: Any = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a scan, batch by batch."""
        batches: Iterator[pa.RecordBatch] = self.scanner(columns=columns, filter=filter, **options).to_batches()
        return batches

    def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:
        """The rows of a scan."""
        return self.scanner(columns=columns, filter=filter, **options).to_table()

    def count_rows(self, filter: ds.Expression | None = None, **options: Any) -> int:
        """How many rows there are for which a filter is true."""
        if self._both(filter) is None:
            return self._table.num_rows
        return int(self.scanner(columns=[], filter=filter, **options).count_rows())

    def head(self, num_rows: int, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:
        """The first rows of a scan."""
        if self._both(filter) is None:
            return TableDataset(self._table.slice(0, num_rows)).to_table(columns=columns, **options)
        return self.scanner(columns=columns, filter=filter, **options).head(num_rows)

    def take(self, indices: Any, columns: Any = None, **options: Any) -> pa.Table:
        """Rows by their numbers."""
        return self.to_table(columns=columns, **options).take(indices)

    def filter(self, expression: ds.Expression) -> TableDataset:
        """The rows for which an expression is true, as a dataset."""
        return TableDataset(self._table, self._both(expression))

    def get_fragments(self, filter: ds.Expression | None = None) -> NoReturn:
        """Not here: an HDF5 table has no fragments of pyarrow's."""
        raise NotImplementedError("a table of Hyperchunk has no fragments")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not here."""
        raise NotImplementedError("a table of Hyperchunk has the schema that its data have")

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """All rows in another order, in memory."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, keys: Any, **options: Any) -> ds.InMemoryDataset:
        """A join, in memory."""
        return ds.InMemoryDataset(self.to_table().join(right_dataset.to_table(), keys, **options))

    def join_asof(self, right_dataset: Any, **options: Any) -> ds.InMemoryDataset:
        """A join by the nearest, in memory."""
        return ds.InMemoryDataset(self.to_table().join_asof(right_dataset.to_table(), **options))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a dataset over an HDF5 table cannot be pickled")

    def __repr__(self) -> str:
        return f"<TableDataset over {self._table!r}>"


class TableScanner(ds.Scanner):  # type: ignore[misc]
    """A :class:`pyarrow.dataset.Scanner` over columns as they are, of rows that are chosen already: its reader is the
    table's."""

    def __init__(
        self, schema: pa.Schema, names: list[str], open: Callable[[], pa.RecordBatchReader], options: dict[str, Any]
    ) -> None:
        # As of the dataset: there is no C++ object.
        self._schema = schema
        self._names = names
        self._open = open
        self._options = options

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns of the dataset."""
        return self._schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that come."""
        return pa.schema([self._schema.field(name) for name in self._names], self._schema.metadata)

    def to_reader(self) -> pa.RecordBatchReader:
        """A reader of the rows."""
        return self._open()

    def _theirs(self) -> ds.Scanner:
        return ds.Scanner.from_batches(self._open(), **self._options)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        return iter(self._open())

    def scan_batches(self) -> Any:
        """The rows, batch by batch, with where they come from."""
        return self._theirs().scan_batches()

    def to_table(self) -> pa.Table:
        """All rows."""
        return self._open().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        reader, found, left = self._open(), [], num_rows
        while left > 0 and (batch := next(reader, None)) is not None:
            found.append(batch.slice(0, left))
            left -= len(found[-1])
        return pa.Table.from_batches(found, self.projected_schema)

    def count_rows(self) -> int:
        """How many rows there are."""
        return sum(map(len, self._open()))

    def take(self, indices: Any) -> pa.Table:
        """Rows by their numbers."""
        return self.to_table().take(indices)

    def __repr__(self) -> str:
        return f"<TableScanner of {', '.join(self._names)}>"


def _evaluated(batch: pa.RecordBatch, expression: ds.Expression) -> pa.BooleanArray:
    """For each row, whether an expression is true."""
    found = ds.Scanner.from_batches(
        [batch], schema=batch.schema, columns={"": expression}, use_threads=False
    ).to_table()[0]
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


# Of more columns that a text may mention, all are read.
_FEW = 64
_OPTIONS = frozenset(("batch_size", "batch_readahead", "fragment_readahead", "use_threads", "memory_pool"))
