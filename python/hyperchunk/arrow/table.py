"""Tables over HDF5 data."""

from __future__ import annotations

import builtins
import operator
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hyperchunk import _core
from hyperchunk._printable import printable
from hyperchunk.arrow.installed import needed
from hyperchunk.exceptions import UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    from hyperchunk.arrow.zones import Scanned
    from hyperchunk.objects import HLObject

Cells = Literal["tensor", "list"]
Strings = Literal["text", "stored"]
Half = Literal["float16", "float32"]
Enums = Literal["values", "dictionary"]
Compounds = Literal["columns", "struct"]

#: What a table's columns look like where there is a choice, and the default of each.
LOOKS = {"cells": "tensor", "strings": "text", "half": "float16", "enums": "values", "compounds": "columns"}


class Table:
    """A table over data of an HDF5 file: columns of equal length, and nothing of them in memory.

    Where values lie in a file of this machine as Arrow has them, whoever asks gets them where they lie (*zero copy*, by
    a mapping of the file); all else is read and decoded on all processors, only the columns and rows that are asked
    for. A mapping shows what the file has when it is looked at; a file that becomes shorter meanwhile ends the process
    (``mapped=False`` is safe from that).

    It is made by :meth:`Group.table`, :meth:`Dataset.arrow` and :func:`scan_hyperchunk`, and taken as it is by whatever
    knows Arrow's PyCapsule interface: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``duckdb.sql("select … from
    t")``."""

    __slots__ = ("__weakref__", "_core", "_looks", "_scans")

    def __init__(self, core: _core.Table, looks: dict[str, str], scans: deque[Scanned] | None = None) -> None:
        self._core = core
        self._looks = looks
        # Shared by all parts of a table.
        self._scans: deque[Scanned] = deque(maxlen=1) if scans is None else scans

    # --- For DuckDB ---

    @property  # type: ignore[misc]
    def __class__(self) -> type[Table]:
        """Its class. Where DuckDB is loaded, it says that it is one of DuckDB's sources as well: then it is asked for
        what a query needs."""
        found = _duckdb().source_class(Table) if "duckdb._sources" in sys.modules else None
        return Table if found is None else found

    def __getattr__(self, name: str) -> Any:
        if "duckdb._sources" in sys.modules and name in _duckdb().NAMES:
            return getattr(_duckdb().TableSource(self), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    # --- What it is ---

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self._core.num_rows

    @property
    def num_columns(self) -> int:
        """How many columns it has."""
        return len(self._core.column_names)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns it has."""
        return self.num_rows, self.num_columns

    @property
    def column_names(self) -> list[str]:
        """The names of its columns."""
        return self._core.column_names

    @property
    def schema(self) -> Any:
        """Its columns as a :class:`pyarrow.Schema`."""
        return needed("pyarrow").schema(self)

    @property
    def is_zero_copy(self) -> bool:
        """Whether all its values are looked at where they lie."""
        return all(copied == 0 for _, _, copied in self._core.storage())

    @property
    def copied_rows(self) -> dict[str, int]:
        """For each column, how many of its rows are read or copied when somebody asks for them; 0 for those that are
        looked at where they lie."""
        return {name: copied for name, _, copied in self._core.storage()}

    @property
    def nbytes(self) -> int:
        """How many bytes its values have as they are stored, without compression."""
        return self._core.nbytes

    @property
    def scanned(self) -> Scanned | None:
        """What the last scan with a filter looked at, of this table or a part of it, by whomever."""
        return self._scans[-1] if self._scans else None

    def __len__(self) -> int:
        return self._core.num_rows

    def __repr__(self) -> str:
        columns = ", ".join(f"{printable(name)}: {printable(kind)}" for name, kind in self._core.types)
        return f"<hyperchunk.Table: {self.num_rows} rows of ({columns})>"

    # --- Parts of it ---

    def _with(self, core: _core.Table) -> Table:
        return Table(core, self._looks, self._scans)

    def select(self, columns: Sequence[str]) -> Table:
        """Some of its columns, in this order."""
        if isinstance(columns, str):
            raise TypeError("select() takes a list of names")
        return self._with(self._core.select(list(columns)))

    def slice(self, offset: int = 0, length: int | None = None) -> Table:
        """Its rows from `offset` on: `length` of them at most."""
        if offset < 0 or (length is not None and length < 0):
            raise ValueError("offset and length are not negative")
        start = min(offset, self.num_rows)
        return self._with(
            self._core.slice(start, self.num_rows if length is None else min(start + length, self.num_rows))
        )

    def __getitem__(self, key: builtins.slice | str | Sequence[str]) -> Table:
        """``t[a:b]`` are rows, ``t["x"]`` and ``t[["x", "y"]]`` columns."""
        if isinstance(key, slice):
            return self._with(self._core.slice(*bounds(key, self.num_rows)))
        return self.select([key] if isinstance(key, str) else key)

    # --- As others have it ---

    def __arrow_c_schema__(self) -> object:
        return self._core.schema_capsule()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._core.stream_capsule(requested_schema)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._core.array_capsules(requested_schema)

    def batches(self, rows: int | None = None) -> Iterator[_core.Batch]:
        """Its rows in parts, of `rows` rows at most: objects that know Arrow's PyCapsule interface."""
        core = self._core if rows is None else self._core.with_batch_rows(operator.index(rows))
        return core.batches()

    def to_reader(self, rows: int | None = None) -> Any:
        """A :class:`pyarrow.RecordBatchReader` over it, with batches of `rows` rows at most."""
        core = self._core if rows is None else self._core.with_batch_rows(operator.index(rows))
        return needed("pyarrow").RecordBatchReader.from_stream(self._with(core))

    def to_pyarrow(self) -> Any:
        """A :class:`pyarrow.Table`. Of what lies in one piece, a column is one chunk."""
        return needed("pyarrow").table(self._with(self._core.with_batch_rows(2**63)))

    def to_pandas(self, **options: Any) -> Any:
        """A :class:`pandas.DataFrame`; `options` as for :meth:`pyarrow.Table.to_pandas`. Rows of several dimensions are
        lists."""
        needed("pandas")
        return self._looking(cells="list").to_pyarrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """A :class:`polars.DataFrame`. Rows of several dimensions are arrays, unless the table was made with
        ``cells="tensor"``; types that only HDF5 has are what they are stored as."""
        needed("polars")
        from hyperchunk.arrow.scan import to_frame

        table = self._looking(cells="list")
        return to_frame(table._with(table._core.with_batch_rows(2**63)))

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """A NumPy array for each column; of rows of several dimensions, one with as many dimensions."""
        from hyperchunk.arrow.arrays import to_numpy

        return to_numpy(self.to_pyarrow())

    def to_dataset(self) -> Any:
        """A :class:`pyarrow.dataset.Dataset`: what DuckDB, ``polars.scan_pyarrow_dataset`` and pyarrow ask of it,
        columns and filters, is what is read."""
        needed("pyarrow")
        from hyperchunk.arrow.dataset import TableDataset

        return TableDataset(self)

    def _looking(self, **looks: str) -> Table:
        """With another look where nobody said which."""
        wanted = {**looks, **self._looks}
        if wanted == self._looks:
            return self
        return Table(self._core.with_looks([f"{name}={value}" for name, value in wanted.items()]), wanted, self._scans)


def _duckdb() -> Any:
    from hyperchunk.arrow import duckdb

    return duckdb


def bounds(rows: slice, count: int) -> tuple[int, int]:
    """The first row of a slice, and that behind the last."""
    start, stop, step = rows.indices(count)
    if step != 1:
        raise ValueError("rows of a table come one after the other: no step but 1")
    return start, max(start, stop)


def table_of(
    found: HLObject,
    columns: Sequence[str] | None = None,
    rows: slice | tuple[int, int] | range | None = None,
    *,
    mapped: bool = True,
    batch_rows: int | None = None,
    **looks: str | None,
) -> Table:
    """The table that a group or a dataset is: see :meth:`Group.table`."""
    found._opened.need()
    core = found._object
    if not isinstance(core, _core.Object):
        raise UnsupportedError(
            f"tables are of files that are read, not of one that is being written (object {found.name})"
        )
    if unknown := set(looks) - set(LOOKS):
        raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}: tables have {', '.join(LOOKS)}")
    if isinstance(columns, str):
        raise TypeError("columns is a list of names")
    given = {name: value for name, value in looks.items() if value is not None}
    words = [f"{name}={value}" for name, value in given.items()]
    table = Table(
        _core.Table.of_object(core, None if columns is None else list(columns), None, words, mapped, batch_rows), given
    )
    if rows is None:
        return table
    if isinstance(rows, tuple):
        start, stop = rows
        if not 0 <= operator.index(start) <= operator.index(stop) <= table.num_rows:
            raise ValueError(f"rows {start} to {stop} of a table that has {table.num_rows}")
        rows = slice(start, stop)
    elif isinstance(rows, range):
        rows = slice(rows.start, rows.stop, rows.step)
    return table[rows]
