"""Tables over HDF5 data."""

from __future__ import annotations

import builtins
import operator
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Unpack

from hyperchunk import _core
from hyperchunk._printable import printable
from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.arrow.stream_errors import own_errors
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.progress import Progress, ProgressLike, counted, is_wanted
from hyperchunk.suggestions import unexpected_keyword
from hyperchunk.typing import Array, ConversionOptions, PandasOptions, Rows

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from hyperchunk.arrow.dataset import TableDataset
    from hyperchunk.arrow.zones import ScanReport
    from hyperchunk.objects import HLObject

#: Conversion options of a table's columns, and the default of each.
CONVERSION_OPTIONS = {
    "cells": "tensor",
    "strings": "text",
    "half": "float16",
    "enums": "values",
    "compounds": "columns",
}


class Table:
    """A table over data of an HDF5 file: columns of equal length, none of them in memory.

    Values stored in a local file in Arrow's representation are used in place (*zero copy*, by mapping the file). All
    others are read and decoded on all processors, but only the requested columns and rows. A mapping shows the file's
    contents at the moment of access; if the file is truncated meanwhile, the process is killed (``mapped=False``
    avoids that).

    Made by :meth:`Group.table`, :meth:`Dataset.arrow` and :func:`scan_hyperchunk`, and accepted by every user of
    Arrow's PyCapsule interface: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``duckdb.sql("select … from t")``.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"], file["y"] = numpy.arange(5), numpy.arange(5.0)
        >>> table = hyperchunk.open("a.h5").table()
        >>> table.shape, table["x"][1:3].num_rows
        ((5, 2), 2)
    """

    __slots__ = ("__weakref__", "_conversion", "_core", "_scans")

    #: True for a :class:`hyperchunk.frames.Frame`, whose values are decoded in Python.
    _decoded = False

    def __init__(self, core: _core.Table, conversion: dict[str, str], scans: deque[ScanReport] | None = None) -> None:
        self._core = core
        self._conversion = conversion
        # Shared by all parts of a table.
        self._scans: deque[ScanReport] = deque(maxlen=1) if scans is None else scans

    # --- DuckDB ---

    @property  # type: ignore[misc]
    def __class__(self) -> type[Table]:
        """Class of the object. While DuckDB is loaded, it reports to be a DuckDB source as well, so that DuckDB
        requests only the columns and rows of a query.
        """
        found = _duckdb().source_class(Table) if "duckdb._sources" in sys.modules else None
        return Table if found is None else found

    if not TYPE_CHECKING:  # with this method, type checkers would accept any name

        def __getattr__(self, name: str) -> object:
            if "duckdb._sources" in sys.modules and name in _duckdb().NAMES:
                return getattr(_duckdb().TableSource(self), name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    # --- Properties ---

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._core.num_rows

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self._core.column_names)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        return self.num_rows, self.num_columns

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return self._core.column_names

    @property
    def schema(self) -> pa.Schema:
        """Columns as a :class:`pyarrow.Schema`."""
        return import_optional("pyarrow").schema(self)

    @property
    def is_zero_copy(self) -> bool:
        """True if all values are used in place."""
        return all(copied == 0 for _, _, copied in self._core.storage())

    @property
    def copied_rows(self) -> dict[str, int]:
        """Number of rows of each column that are read or copied on access; 0 for columns that are used in place."""
        return {name: copied for name, _, copied in self._core.storage()}

    @property
    def nbytes(self) -> int:
        """Size in bytes of the values as stored, before compression."""
        return self._core.nbytes

    @property
    def scanned(self) -> ScanReport | None:
        """Report of the last scan with a filter, of this table or any part of it."""
        return self._scans[-1] if self._scans else None

    def __len__(self) -> int:
        return self._core.num_rows

    def __repr__(self) -> str:
        columns = ", ".join(f"{printable(name)}: {printable(kind)}" for name, kind in self._core.types)
        return f"<hyperchunk.Table: {self.num_rows} rows of ({columns})>"

    def _repr_html_(self) -> str:
        """Returns the table for a notebook."""
        from hyperchunk.notebook_parts import render_table

        return render_table(self)

    # --- Parts ---

    def _with(self, core: _core.Table) -> Table:
        return Table(core, self._conversion, self._scans)

    def select(self, columns: Sequence[str]) -> Table:
        """Returns the table with the given columns, in this order."""
        if isinstance(columns, str):
            raise TypeError("select() takes a list of names")
        return self._with(self._core.select(list(columns)))

    def slice(self, offset: int = 0, length: int | None = None) -> Table:
        """Returns at most `length` rows, from `offset` on."""
        if offset < 0 or (length is not None and length < 0):
            raise ValueError("offset and length must not be negative")
        start = min(offset, self.num_rows)
        return self._with(
            self._core.slice(start, self.num_rows if length is None else min(start + length, self.num_rows))
        )

    def __getitem__(self, key: builtins.slice | str | Sequence[str]) -> Table:
        """Selects rows with ``t[a:b]``, columns with ``t["x"]`` and ``t[["x", "y"]]``."""
        if isinstance(key, slice):
            return self._with(self._core.slice(*slice_bounds(key, self.num_rows)))
        if isinstance(key, int):
            raise TypeError(
                f"cannot select row {key}: expected a slice or names of columns; use table[{key}:{key + 1}]"
            )
        return self.select([key] if isinstance(key, str) else key)

    # --- Conversions ---

    def __arrow_c_schema__(self) -> object:
        return self._core.schema_capsule()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._core.stream_capsule(requested_schema)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._core.array_capsules(requested_schema)

    def batches(self, rows: int | None = None) -> Iterator[_core.Batch]:
        """Iterates over batches of at most `rows` rows, each with Arrow's PyCapsule interface."""
        core = self._core if rows is None else self._core.with_batch_rows(operator.index(rows))
        return core.batches()

    def to_reader(self, rows: int | None = None, *, progress: ProgressLike = None) -> pa.RecordBatchReader:
        """Returns a :class:`pyarrow.RecordBatchReader` with batches of at most `rows` rows.

        Args:
            rows: Maximum number of rows.
            progress: Shows the number of rows: True, a function of the finished part and the total, or a tqdm object
                (:mod:`hyperchunk.progress`).
        """
        core = self._core if rows is None else self._core.with_batch_rows(operator.index(rows))
        reader = import_optional("pyarrow").RecordBatchReader.from_stream(self._with(core))
        return reader if not is_wanted(progress) else self._counted(reader, progress)

    def _counted(self, reader: pa.RecordBatchReader, progress: ProgressLike) -> pa.RecordBatchReader:
        """Returns a reader whose rows are counted as they are read."""
        shown = Progress(progress, self.num_rows, "rows")
        return type(reader).from_batches(reader.schema, counted(reader, len, shown))

    def to_pyarrow(self, *, progress: ProgressLike = None) -> pa.Table:
        """Returns a :class:`pyarrow.Table`. A contiguous column is one chunk, unless progress is shown: then each batch
        is one.

        Args:
            progress: Shows the number of rows: True, a function of the finished part and the total, or a tqdm object
                (:mod:`hyperchunk.progress`).

        Raises:
            ReadError: The rows cannot be read; of its class :exc:`~hyperchunk.exceptions.ChangedError` if the file has
                changed.
        """
        if is_wanted(progress):
            with own_errors():
                return self.to_reader(progress=progress).read_all()
        with own_errors():
            return import_optional("pyarrow").table(self._with(self._core.with_batch_rows(2**63)))

    def to_pandas(self, **options: Unpack[PandasOptions]) -> pandas.DataFrame:
        """Returns a :class:`pandas.DataFrame`; `options` as for :meth:`pyarrow.Table.to_pandas`. Multi-dimensional
        cells are lists, unless the table was made with ``cells="tensor"``.
        """
        import_optional("pandas")
        from hyperchunk.arrow.arrays import with_arrow_booleans

        found = with_arrow_booleans(self._with_defaults(cells="list").to_pyarrow())
        return found.to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """Returns a :class:`polars.DataFrame`. Multi-dimensional cells are arrays, unless the table was made with
        ``cells="tensor"``; types that exist only in HDF5 become their storage types.
        """
        import_optional("polars")
        from hyperchunk.arrow.scan import to_frame

        table = self._with_defaults(cells="list")
        return to_frame(table._with(table._core.with_batch_rows(2**63)))

    def to_numpy(self) -> dict[str, Array]:
        """Returns a NumPy array for each column; multi-dimensional cells add dimensions."""
        from hyperchunk.arrow.arrays import to_numpy

        return to_numpy(self.to_pyarrow())

    def to_dataset(self) -> TableDataset:
        """Returns a :class:`pyarrow.dataset.Dataset`, which reads only the columns and rows that DuckDB,
        ``polars.scan_pyarrow_dataset`` or pyarrow request.
        """
        import_optional("pyarrow")
        from hyperchunk.arrow.dataset import TableDataset

        return TableDataset(self)

    def _with_defaults(self, **conversion: str) -> Table:
        """Returns the table with other conversion options, except where the caller has chosen."""
        wanted = {**conversion, **self._conversion}
        if wanted == self._conversion:
            return self
        return Table(
            self._core.with_conversion([f"{name}={value}" for name, value in wanted.items()]), wanted, self._scans
        )


def _duckdb() -> ModuleType:
    from hyperchunk.arrow import duckdb

    return duckdb


def slice_bounds(rows: slice, count: int) -> tuple[int, int]:
    """Returns the first row and the end (exclusive) of a slice."""
    start, stop, step = rows.indices(count)
    if step != 1:
        raise ValueError(f"rows must be consecutive: expected a slice with step 1, got step {step}")
    return start, max(start, stop)


def to_slice(rows: Rows, count: int) -> slice:
    """Returns rows as a slice.

    Raises:
        ValueError: A pair is not within the table.
    """
    if isinstance(rows, tuple):
        start, stop = rows
        if not 0 <= operator.index(start) <= operator.index(stop) <= count:
            raise ValueError(f"rows {start} to {stop} are out of range: the table has {count} rows")
        return slice(start, stop)
    return slice(rows.start, rows.stop, rows.step) if isinstance(rows, range) else rows


def check_conversion(function: str, options: ConversionOptions) -> None:
    """Checks the names of conversion options."""
    if unknown := set(options) - set(CONVERSION_OPTIONS):
        raise unexpected_keyword(function, unknown, CONVERSION_OPTIONS)


def as_table(
    found: HLObject,
    columns: Sequence[str] | None = None,
    rows: Rows | None = None,
    *,
    mapped: bool = True,
    batch_rows: int | None = None,
    **conversion: Unpack[ConversionOptions],
) -> Table:
    """Returns the table of a group or a dataset.

    Args:
        found: The group or the dataset.
        columns, rows, mapped, batch_rows, conversion: As for :meth:`hyperchunk.Group.table`.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"] = numpy.arange(5)
        >>> hyperchunk.arrow.as_table(hyperchunk.open("a.h5"), rows=(0, 3)).num_rows
        3
    """
    found._opened.need()
    core = found._object
    if not isinstance(core, _core.Object):
        raise UnsupportedError(
            f"cannot make a table: expected a file opened for reading, got one being written (object {found.name})"
        )
    check_conversion("as_table", conversion)
    if isinstance(columns, str):
        raise TypeError("columns must be a list of names")
    given = {name: str(value) for name, value in conversion.items() if value is not None}
    settings = [f"{name}={value}" for name, value in given.items()]
    table = Table(
        _core.Table.from_object(core, None if columns is None else list(columns), None, settings, mapped, batch_rows),
        given,
    )
    return table if rows is None else table[to_slice(rows, table.num_rows)]
