"""Tables as pyarrow datasets: a scan names columns and rows, and only these are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypedDict, Unpack

import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds

from hyperchunk.arrow.guarantees import candidate_zones
from hyperchunk.arrow.zones import Condition, Zones, filtered_batches
from hyperchunk.arrow.zones import scan as zoned_scan

if TYPE_CHECKING:
    from hyperchunk.arrow.table import Table
    from hyperchunk.arrow.zones import ScanReport


#: Columns of a scan: names, or expressions by the names of the results; None for all.
ColumnsWanted: TypeAlias = "Sequence[str] | dict[str, ds.Expression] | None"


class ScannerOptions(TypedDict, total=False):
    """Options of pyarrow's scanners. `cache_metadata` and `fragment_scan_options` have no effect here."""

    batch_readahead: int
    fragment_readahead: int
    use_threads: bool
    memory_pool: pa.MemoryPool
    cache_metadata: bool
    fragment_scan_options: ds.FragmentScanOptions


class BatchOptions(ScannerOptions, total=False):
    """Options of pyarrow's scanners, with the maximum number of rows of a batch."""

    batch_size: int


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """A :class:`pyarrow.dataset.Dataset` over a :class:`hyperchunk.Table`.

    It is a single fragment without partitions. Hyperchunk evaluates comparisons of numeric columns with numbers, and
    their combinations, directly on the stored values; pyarrow evaluates all other filters, row by row. Zones whose
    statistics rule out a match are not read.
    """

    def __init__(self, table: Table, filter: ds.Expression | None = None) -> None:
        # pyarrow's class has a C++ object, which this one lacks: every method that would use it is overridden below.
        self._table = table
        self._schema = table.schema
        # Filter of this dataset; only rows for which it is true exist.
        self._filter = filter

    @property
    def schema(self) -> pa.Schema:
        """Schema of the columns."""
        return self._schema

    @property
    def scanned(self) -> ScanReport | None:
        """Report of the last scan with a filter."""
        return self._table.scanned

    @property
    def partition_expression(self) -> ds.Expression:
        """Expression that holds for all rows: ``true``, since there are no partitions."""
        return ds.scalar(True)

    def scanner(
        self,
        columns: ColumnsWanted = None,
        filter: ds.Expression | None = None,
        batch_size: int | None = None,
        **options: Unpack[ScannerOptions],
    ) -> ds.Scanner:
        """Returns a scanner over columns, or named expressions, of the rows for which a filter is true."""
        known = {name: value for name, value in options.items() if name in _OPTIONS}
        filter = self._combined_filter(filter)
        fields = self._schema.names
        if isinstance(columns, list | tuple) and set(columns) <= set(fields) and len(set(columns)) == len(columns):
            # pyarrow has nothing left to evaluate.
            names = list(columns)
            return TableScanner(self._schema, names, lambda: self._reader(names, filter, batch_size), known)
        if batch_size is not None:
            known["batch_size"] = batch_size
        names = self._needed_columns(columns, None)
        return ds.Scanner.from_batches(self._reader(names, filter, batch_size), columns=columns, **known)

    def _reader(self, names: list[str], filter: ds.Expression | None, batch_size: int | None) -> pa.RecordBatchReader:
        """Reads columns of the rows for which a filter is true."""
        if filter is None:
            return self._table.select(names).to_reader(batch_size)
        condition = self._condition(filter)
        if condition is not None:
            return pa.RecordBatchReader.from_stream(filtered_batches(self._table, condition, names, batch_size))
        schema = pa.schema([self._schema.field(name) for name in names], self._schema.metadata)
        return pa.RecordBatchReader.from_batches(schema, self._filtered_batches(names, filter))

    def _condition(self, filter: ds.Expression) -> Condition | None:
        """Converts a filter to a condition; None if it is not supported."""
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

    def _filtered_batches(self, names: list[str], filter: ds.Expression) -> Iterator[pa.RecordBatch]:
        """Reads columns of the rows for which a filter is true: first the columns that the filter needs, then the
        others, only for matching rows.
        """
        first = self._needed_columns([], filter)
        zones = Zones.read(self._table, first)
        candidates = None if zones is None else candidate_zones(zones, self._schema, filter)
        for part in zoned_scan(self._table, first, names, zones, candidates):
            mask = _evaluate(pa.record_batch(part.first()), filter)
            if mask.true_count:
                yield pa.record_batch(part.chosen(mask.__arrow_c_array__()))

    def _combined_filter(self, filter: ds.Expression | None) -> ds.Expression | None:
        """Combines a filter with the dataset's own."""
        if self._filter is None:
            return filter
        return self._filter if filter is None else self._filter & filter

    def _needed_columns(self, columns: ColumnsWanted, filter: ds.Expression | None) -> list[str]:
        """Returns the columns that must be read, in their order."""
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
            # Columns referred to by number must keep their positions.
            if "FieldPath" in text or not self._binds(mentioned, expressions):
                return names
            for name in mentioned - wanted if len(mentioned) <= _MAX_TESTED_COLUMNS else ():
                # A string literal may contain the name of a column that is not used.
                if self._binds(mentioned - {name}, expressions):
                    mentioned = mentioned - {name}
            wanted = mentioned
        return [name for name in names if name in wanted]

    def _binds(self, names: set[str], expressions: list[ds.Expression]) -> bool:
        """True if expressions bind to a schema of these columns alone."""
        schema = pa.schema([field for field in self._schema if field.name in names])
        columns = {str(number): expression for number, expression in enumerate(expressions)}
        try:
            ds.Scanner.from_batches([], schema=schema, columns=columns).to_table()
        except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return False
        return True

    def to_batches(
        self, columns: ColumnsWanted = None, filter: ds.Expression | None = None, **options: Unpack[BatchOptions]
    ) -> Iterator[pa.RecordBatch]:
        """Scans, and returns the batches."""
        batches: Iterator[pa.RecordBatch] = self.scanner(columns=columns, filter=filter, **options).to_batches()
        return batches

    def to_table(
        self, columns: ColumnsWanted = None, filter: ds.Expression | None = None, **options: Unpack[BatchOptions]
    ) -> pa.Table:
        """Scans, and returns a table."""
        return self.scanner(columns=columns, filter=filter, **options).to_table()

    def count_rows(self, filter: ds.Expression | None = None, **options: Unpack[BatchOptions]) -> int:
        """Counts the rows for which a filter is true."""
        if self._combined_filter(filter) is None:
            return self._table.num_rows
        return int(self.scanner(columns=[], filter=filter, **options).count_rows())

    def head(
        self,
        num_rows: int,
        columns: ColumnsWanted = None,
        filter: ds.Expression | None = None,
        **options: Unpack[BatchOptions],
    ) -> pa.Table:
        """Returns the first rows of a scan."""
        if self._combined_filter(filter) is None:
            return TableDataset(self._table.slice(0, num_rows)).to_table(columns=columns, **options)
        return self.scanner(columns=columns, filter=filter, **options).head(num_rows)

    def take(self, indices: npt.ArrayLike, columns: ColumnsWanted = None, **options: Unpack[BatchOptions]) -> pa.Table:
        """Returns rows by their numbers."""
        return self.to_table(columns=columns, **options).take(indices)

    def filter(self, expression: ds.Expression) -> TableDataset:
        """Returns a dataset of the rows for which an expression is true."""
        return TableDataset(self._table, self._combined_filter(expression))

    def get_fragments(self, filter: ds.Expression | None = None) -> NoReturn:
        """Unsupported: an HDF5 table has no pyarrow fragments."""
        raise NotImplementedError("a Hyperchunk table has no fragments")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Unsupported."""
        raise NotImplementedError("the schema of a Hyperchunk table cannot be replaced")

    def sort_by(self, sorting: str | list[tuple[str, str]], **options: object) -> ds.InMemoryDataset:
        """Returns all rows sorted, in memory."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: ds.Dataset, keys: str | list[str], **options: object) -> ds.InMemoryDataset:
        """Joins in memory."""
        return ds.InMemoryDataset(self.to_table().join(right_dataset.to_table(), keys, **options))

    def join_asof(self, right_dataset: ds.Dataset, **options: object) -> ds.InMemoryDataset:
        """Joins by the nearest key, in memory."""
        return ds.InMemoryDataset(self.to_table().join_asof(right_dataset.to_table(), **options))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a dataset over an HDF5 table cannot be pickled")

    def __repr__(self) -> str:
        return f"<TableDataset over {self._table!r}>"


class TableScanner(ds.Scanner):  # type: ignore[misc]
    """A :class:`pyarrow.dataset.Scanner` over unmodified columns of rows that are already filtered; it uses the
    table's reader.
    """

    def __init__(
        self, schema: pa.Schema, names: list[str], open: Callable[[], pa.RecordBatchReader], options: dict[str, object]
    ) -> None:
        # As in the dataset, there is no C++ object.
        self._schema = schema
        self._names = names
        self._open = open
        self._options = options

    @property
    def dataset_schema(self) -> pa.Schema:
        """Schema of the dataset."""
        return self._schema

    @property
    def projected_schema(self) -> pa.Schema:
        """Schema of the result."""
        return pa.schema([self._schema.field(name) for name in self._names], self._schema.metadata)

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns a reader of the rows."""
        return self._open()

    def _pyarrow_scanner(self) -> ds.Scanner:
        return ds.Scanner.from_batches(self._open(), **self._options)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Returns the rows, batch by batch."""
        return iter(self._open())

    def scan_batches(self) -> Iterator[ds.TaggedRecordBatch]:
        """Returns the batches, each with its fragment."""
        return iter(self._pyarrow_scanner().scan_batches())

    def to_table(self) -> pa.Table:
        """Returns all rows."""
        return self._open().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """Returns the first rows."""
        reader, found, left = self._open(), [], num_rows
        while left > 0 and (batch := next(reader, None)) is not None:
            found.append(batch.slice(0, left))
            left -= len(found[-1])
        return pa.Table.from_batches(found, self.projected_schema)

    def count_rows(self) -> int:
        """Counts the rows."""
        return sum(map(len, self._open()))

    def take(self, indices: npt.ArrayLike) -> pa.Table:
        """Returns rows by their numbers."""
        return self.to_table().take(indices)

    def __repr__(self) -> str:
        return f"<TableScanner of {', '.join(self._names)}>"


def _evaluate(batch: pa.RecordBatch, expression: ds.Expression) -> pa.BooleanArray:
    """Evaluates a boolean expression for each row."""
    found = ds.Scanner.from_batches(
        [batch], schema=batch.schema, columns={"": expression}, use_threads=False
    ).to_table()[0]
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


# Maximum number of columns, named in the text of expressions, that are tested for whether they are needed.
_MAX_TESTED_COLUMNS = 64
_OPTIONS = frozenset(("batch_size", "batch_readahead", "fragment_readahead", "use_threads", "memory_pool"))
