"""Frames: tables whose columns are decoded as the writing program shows them."""

from __future__ import annotations

import builtins
import operator
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from hyperchunk._printable import printable
from hyperchunk.arrow.arrays import to_numpy
from hyperchunk.arrow.dataset import BatchOptions, TableDataset, _evaluate
from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.arrow.table import Table, slice_bounds
from hyperchunk.exceptions import InvalidError, ObjectNotFoundError
from hyperchunk.frames import to_arrow
from hyperchunk.frames.conditions import Condition
from hyperchunk.frames.model import Field, Source, Values, consistent
from hyperchunk.progress import ProgressLike, is_wanted
from hyperchunk.suggestions import suggestion
from hyperchunk.typing import Array, PandasOptions

if TYPE_CHECKING:
    import pandas
    import polars

#: Number of rows of a batch, unless chunks are larger.
_BATCH_ROWS = 1 << 16


class Frame(Table):
    """A frame of pandas, AnnData, NWB or PyTables: a :class:`hyperchunk.Table` with that program's dtypes, names,
    index, time zones, categories and missing values. Nothing is read before values are requested, and
    then only the requested columns and rows.

    Made by :func:`hyperchunk.frames.read` and :meth:`hyperchunk.Group.table`. ``to_pandas()`` returns what the owner's
    library reads; pyarrow, polars and DuckDB take a frame as they take a table.

    Example:
        >>> frame = hyperchunk.frames.read(hyperchunk.open("store.h5")["prices"])  # doctest: +SKIP
        >>> frame.to_pandas()  # doctest: +SKIP
    """

    __slots__ = ("_batch_rows", "_condition", "_fields", "_half", "_source", "_start", "_stop", "_types")

    _decoded = True

    def __init__(
        self,
        source: Source,
        fields: Sequence[int],
        start: int,
        stop: int,
        *,
        condition: Condition | None = None,
        half: str | None = None,
        batch_rows: int | None = None,
    ) -> None:
        self._core = None  # type: ignore[assignment]
        self._conversion = {}
        self._scans = deque(maxlen=1)
        self._source = source
        self._fields = list(fields)
        self._start, self._stop = start, stop
        self._condition = condition
        self._half = half
        self._batch_rows = batch_rows
        self._types: pa.Schema | None = None

    @staticmethod
    def of(source: Source, half: str | None = None) -> Frame:
        """Returns the frame of all columns and rows of a source."""
        return Frame(source, range(len(source.fields)), 0, source.num_rows, half=half)

    def _replaced(
        self,
        *,
        fields: Sequence[int] | None = None,
        start: int | None = None,
        stop: int | None = None,
        condition: Condition | None = None,
        batch_rows: int | None = None,
    ) -> Frame:
        """Returns the frame with other parts; None keeps what there is."""
        return Frame(
            self._source,
            self._fields if fields is None else fields,
            self._start if start is None else start,
            self._stop if stop is None else stop,
            condition=self._condition if condition is None else condition,
            half=self._half,
            batch_rows=self._batch_rows if batch_rows is None else batch_rows,
        )

    # --- Properties ---

    @property
    def format(self) -> str:
        """Format that was recognised, such as ``"pandas, table"``."""
        return self._source.format

    @property
    def _columns(self) -> list[Field]:
        return [self._source.fields[number] for number in self._fields]

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, the index first."""
        return [field.name for field in self._columns]

    @property
    def index_names(self) -> list[str]:
        """Names of the columns that are the index."""
        return [field.name for field in self._columns if field.is_index]

    @property
    def num_rows(self) -> int:
        """Number of rows. With a condition, its columns are read to count them."""
        if self._condition is None:
            return self._stop - self._start
        return sum(int(mask.sum()) for _, _, mask in self._masks())

    @property
    def num_columns(self) -> int:
        """Number of columns, with the index."""
        return len(self._fields)

    @property
    def schema(self) -> pa.Schema:
        """Columns as a :class:`pyarrow.Schema`, with pandas' metadata if pandas is installed."""
        if self._types is None:
            values = self._read(self._fields, self._start, self._start)
            if any(found.kind == "objects" for found in values):
                # The type of Python objects is known only after all of them are read.
                values = [
                    self._read([number], self._start, self._stop)[0] if found.kind == "objects" else found
                    for number, found in zip(self._fields, values, strict=True)
                ]
            fields = [self._arrow_field(field, found) for field, found in zip(self._columns, values, strict=True)]
            self._types = pa.schema(fields, self._pandas_metadata())
        return self._types

    def _arrow_field(self, field: Field, found: Values) -> pa.Field:
        return to_arrow.arrow_field(field, self._halved(to_arrow.array(field, found)), found)

    def _pandas_metadata(self) -> dict[bytes, bytes] | None:
        """Returns the metadata from which pandas restores the index, the labels and the dtypes."""
        try:
            import pandas
        except ModuleNotFoundError:
            return None
        from hyperchunk.frames.metadata import pandas_metadata

        values = self._read(self._fields, self._start, self._start)
        with consistent(self._source.where):
            return pandas_metadata(pandas, self._source, self._columns, values)

    @property
    def is_zero_copy(self) -> bool:
        """False: the values are decoded."""
        return False

    @property
    def copied_rows(self) -> dict[str, int]:
        """Number of rows of each column that are read: all."""
        return dict.fromkeys(self.column_names, self._stop - self._start)

    @property
    def nbytes(self) -> int:
        """Size in bytes of all values in Arrow's representation. Reads them."""
        return int(self.to_pyarrow().nbytes)

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        columns = ", ".join(printable(name) for name in self.column_names[:20])
        more = ", …" if len(self._fields) > 20 else ""
        rows = "some" if self._condition is not None else str(self._stop - self._start)
        return f"<hyperchunk.Frame ({self._source.format}): {rows} rows of ({columns}{more})>"

    # --- Parts ---

    def _with_defaults(self, **conversion: str) -> Frame:
        return self

    def select(self, columns: Sequence[str]) -> Frame:
        """Returns the frame with the given columns, in this order, and without an index column that is not named."""
        if isinstance(columns, str):
            raise TypeError("select() takes a list of names")
        known: dict[object, int] = {
            field.name: number for number, field in zip(self._fields, self._columns, strict=True)
        }
        # Labels that are not text, such as numbers, are names too.
        for number, field in zip(self._fields, self._columns, strict=True):
            if not isinstance(field.label, str) and _is_hashable(field.label):
                known.setdefault(field.label, number)
        try:
            return self._replaced(fields=[known[name] for name in columns])
        except KeyError as error:
            near = suggestion(str(error.args[0]), len(self._fields), self.column_names[:1000], "the frame")
            raise ObjectNotFoundError(f"no column of the name {printable(str(error))}{near}") from None

    def select_with_index(self, columns: Sequence[str]) -> Frame:
        """Returns the frame with the given columns, and its index before them."""
        index = [name for name in self.index_names if name not in columns]
        return self.select([*index, *columns])

    def slice(self, offset: int = 0, length: int | None = None) -> Frame:
        """Returns at most `length` rows, from `offset` on."""
        if offset < 0 or (length is not None and length < 0):
            raise ValueError("offset and length must not be negative")
        self._need_all_rows("slice()")
        start = min(self._start + offset, self._stop)
        return self._replaced(start=start, stop=self._stop if length is None else min(start + length, self._stop))

    def where(self, condition: str | Sequence[str]) -> Frame:
        """Returns the rows for which a condition is true: see :func:`hyperchunk.frames.read`."""
        self._need_all_rows("where()")
        found = Condition.parse(condition, self._source)
        kept = [number for number in self._fields if found.keeps(self._source.fields[number])]
        return self._replaced(condition=found if found.has_rows else None, fields=kept)

    def _need_all_rows(self, function: str) -> None:
        if self._condition is not None:
            raise InvalidError(f"cannot use {function} with a condition: read the frame, and select rows of the result")

    def __getitem__(self, key: builtins.slice | str | Sequence[str]) -> Frame:
        """Selects rows with ``f[a:b]``, columns with ``f["x"]`` and ``f[["x", "y"]]``."""
        if isinstance(key, slice):
            self._need_all_rows("a slice")
            start, stop = slice_bounds(key, self._stop - self._start)
            return self._replaced(start=self._start + start, stop=self._start + stop)
        return self.select([key] if isinstance(key, str) else key)

    # --- Reading ---

    def _ranges(self, rows: int | None) -> Iterator[tuple[int, int]]:
        """Iterates over ranges of rows, of whole chunks where that is possible."""
        wanted = rows or self._batch_rows
        if wanted is None:
            chunk = max(self._source.chunk_rows, 1)
            wanted = max(_BATCH_ROWS // chunk, 1) * chunk
        at = self._start
        while at < self._stop:
            end = min(at + wanted, self._stop)
            yield at, end
            at = end

    def _read(self, numbers: Sequence[int], start: int, stop: int) -> list[Values]:
        with consistent(self._source.where):
            found = self._source.read(numbers, start, stop)
            if any(len(values) != stop - start for values in found):
                raise ValueError(f"expected columns of {stop - start} rows, got {[len(values) for values in found]}")
            return found

    def _masks(self, rows: int | None = None) -> Iterator[tuple[int, int, Array]]:
        """Reads the columns of the condition, and yields ranges of rows, each with the mask of the matching ones."""
        assert self._condition is not None
        for start, stop in self._ranges(rows):
            yield start, stop, self._condition.mask(self._source, start, stop)

    def _parts(self, rows: int | None = None) -> Iterator[list[Values]]:
        """Iterates over the values of all columns, range by range."""
        if self._condition is None:
            for start, stop in self._ranges(rows):
                yield self._read(self._fields, start, stop)
            return
        for start, stop, mask in self._masks(rows):
            if mask.any():
                found = self._read(self._fields, start, stop)
                yield found if mask.all() else [values.take(mask) for values in found]

    def _halved(self, made: pa.Array) -> pa.Array:
        return made.cast(pa.float32()) if self._half == "float32" and made.type == pa.float16() else made

    def _batch(self, values: list[Values]) -> pa.RecordBatch:
        arrays = []
        for field, found, kind in zip(self._columns, values, self.schema if values else (), strict=True):
            made = self._halved(to_arrow.array(field, found))
            if made.type != kind.type:
                made = to_arrow.whole(made.cast(kind.type))
            arrays.append(made)
        schema = self.schema if values else pa.schema([])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def batches(self, rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Iterates over :class:`pyarrow.RecordBatch` of at most `rows` rows."""
        for values in self._parts(None if rows is None else operator.index(rows)):
            yield self._batch(values)

    def to_reader(self, rows: int | None = None, *, progress: ProgressLike = None) -> pa.RecordBatchReader:
        """Returns a :class:`pyarrow.RecordBatchReader` with batches of at most `rows` rows; `progress` as for
        :meth:`hyperchunk.Table.to_reader`.
        """
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches(rows))
        return reader if not is_wanted(progress) else self._counted(reader, progress)

    def to_pyarrow(self, *, progress: ProgressLike = None) -> pa.Table:
        """Returns a :class:`pyarrow.Table`; `progress` as for :meth:`hyperchunk.Table.to_pyarrow`."""
        if is_wanted(progress) and self._fields and self._condition is None and self.num_rows:
            return self.to_reader(progress=progress).read_all()
        if not self._fields:
            return pa.table({"": pa.nulls(self.num_rows)}).select([])
        batches = list(self.batches(max(self._stop - self._start, 1)))
        if not batches:
            # The result must have categories even without rows.
            batches = [self._batch(self._read(self._fields, self._start, self._start))]
        return pa.Table.from_batches(batches, self.schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        table = self.to_pyarrow().combine_chunks()
        batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        found: tuple[object, object] = batches[0].__arrow_c_array__(requested_schema)
        return found

    def values(self) -> list[Values]:
        """Returns all columns as they were decoded, in one piece."""
        if self._condition is None:
            return self._read(self._fields, self._start, self._stop)
        masks = [mask for _, _, mask in self._masks()]
        found = self._read(self._fields, self._start, self._stop)
        mask = np.concatenate(masks) if masks else np.zeros(0, bool)
        return [part.take(mask) for part in found]

    def to_pandas(self, **options: Unpack[PandasOptions]) -> pandas.DataFrame:
        """Returns the :class:`pandas.DataFrame` that the owner's library reads; of a series that pandas stored, the
        :class:`pandas.Series`.

        Args:
            options: If there are any, the conversion is :meth:`pyarrow.Table.to_pandas`, with them.
        """
        import_optional("pandas")
        if options:
            found: pandas.DataFrame = self.to_pyarrow().to_pandas(**options)
            return found
        from hyperchunk.frames.to_pandas import frame

        is_whole = self._condition is None and (self._start, self._stop) == (0, self._source.num_rows)
        values = self.values()
        with consistent(self._source.where):
            made: pandas.DataFrame = frame(self._source, self._columns, values, is_whole)
        return made

    def to_polars(self) -> polars.DataFrame:
        """Returns a :class:`polars.DataFrame`, in which the index is columns. Times in a zone without a name, such as
        ``+05:30``, are in UTC, since polars has no such zones.
        """
        import_optional("polars")
        from hyperchunk.arrow.scan import to_frame

        return to_frame(for_polars(self.to_pyarrow().replace_schema_metadata(None)))

    def to_numpy(self) -> dict[str, Array]:
        """Returns a NumPy array for each column."""
        return to_numpy(self.to_pyarrow())

    def to_dataset(self) -> FrameDataset:
        """Returns a :class:`pyarrow.dataset.Dataset`, which reads only the columns of a scan."""
        return FrameDataset(self)


def for_polars(data: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Returns a table or batch in which times of a zone without a name are in UTC: polars has no such zones."""
    fields = [
        field.with_type(pa.timestamp(field.type.unit, "UTC"))
        if pa.types.is_timestamp(field.type) and (field.type.tz or "")[:1] in ("+", "-")
        else field
        for field in data.schema
    ]
    return data if fields == list(data.schema) else data.cast(pa.schema(fields))


class FrameDataset(TableDataset):
    """A :class:`pyarrow.dataset.Dataset` over a frame; pyarrow evaluates the filters, batch by batch."""

    def _reader(self, names: list[str], filter: ds.Expression | None, batch_size: int | None) -> pa.RecordBatchReader:
        if filter is None:
            return self._table.select(names).to_reader(batch_size)
        needed = self._needed_columns(names, filter)
        schema = pa.schema([self._schema.field(name) for name in names], self._schema.metadata)
        return pa.RecordBatchReader.from_batches(schema, self._chosen(needed, names, filter, batch_size))

    def _chosen(
        self, needed: list[str], names: list[str], filter: ds.Expression, batch_size: int | None
    ) -> Iterator[pa.RecordBatch]:
        for batch in self._table.select(needed).to_reader(batch_size):
            mask = _evaluate(batch, filter)
            if mask.true_count:
                yield batch.filter(mask).select(names)

    def count_rows(self, filter: ds.Expression | None = None, **options: Unpack[BatchOptions]) -> int:
        """Counts the rows for which a filter is true."""
        filter = self._combined_filter(filter)
        if filter is None:
            return self._table.num_rows
        return sum(map(len, self._reader(self._needed_columns([], filter), filter, None)))


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
