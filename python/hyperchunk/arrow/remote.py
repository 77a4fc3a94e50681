"""Tables on Flight servers."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeAlias, Unpack

import numpy as np

from hyperchunk import _core
from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.arrow.stream_errors import own_errors
from hyperchunk.arrow.table import check_conversion, slice_bounds, to_slice
from hyperchunk.typing import ConversionOptions, NetworkOptions, Rows, StorageOptions

if TYPE_CHECKING:
    import pyarrow as pa

#: Filter of rows: a condition, a list of conditions that must all be true, or a combination of conditions.
Where: TypeAlias = Sequence[object] | Mapping[str, object]


def _filter(value: object) -> object:
    """Returns a filter, a part of one or a value as JSON has it. Floating-point numbers are texts, which are read
    exactly.
    """
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "mM":
        raise TypeError("cannot filter by a time: columns of times are compared as integers; use value.astype('i8')")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if value != value:
                raise ValueError("cannot filter by NaN: no value equals it; use [column, '>=', -inf] for all others")
            return {"float": repr(value)}
        case Mapping():
            return {name: part if name == "float" else _filter(part) for name, part in value.items()}
        case Sequence() | Set() if not isinstance(value, bytes | bytearray):
            return [_filter(part) for part in value]
    raise TypeError(f"cannot filter by {value!r:.100}: expected a number, a text or a boolean")


class RemoteTable:
    """A table on a Flight server (``hyperchunk serve --flight``). The server selects columns, rows and filters, and
    only the result crosses the network. It is one version of the file: if the file has changed on the server, reading
    is an error, and the table must be opened again.

    Args:
        url: URL of the server and path of the file.
        table: Path of the dataset or group in the file.
        columns: Names of columns; by default all.
        rows: A slice, a range, or the first row and the end (exclusive).
        where: Filter of rows: ``[column, operator, value]`` with the operators ``==``, ``!=``, ``<``, ``<=``, ``>``,
            ``>=``, ``in``, ``is null`` and ``is not null``; a list of conditions is their conjunction, and there are
            ``{"and": […]}``, ``{"or": […]}`` and ``{"not": …}``. Numbers are compared by value, independent of their
            types. The values of ``in`` may be any sequence, an array or a set.
        epoch: Commit of a sharded store.
        batch_rows: Maximum number of rows in a batch.
        storage_options: ``token``, ``ca`` (a file of trusted certificates), ``domain`` (the name in the server's
            certificate) and ``local``; without a token, ``$HYPERCHUNK_TOKEN`` is sent.
        network: Tuning of requests: :class:`hyperchunk.typing.NetworkOptions`.
        conversion: As for :meth:`hyperchunk.Group.table`.

    Raises:
        ReadError: The server cannot be reached, or refuses the request.
        ChangedError: The file has changed since the table was opened.
        TypeError: An option does not exist, or a value cannot be compared.
        ValueError: A value is NaN, or rows are not consecutive.

    Example:
        >>> from hyperchunk.arrow import RemoteTable
        >>> t = RemoteTable("grpc://host:8815/run.h5", "/particles", where=[["px", ">", 32]])  # doctest: +SKIP
        >>> t.select(["x", "y"]).to_pyarrow()  # doctest: +SKIP
    """

    __slots__ = ("_core",)

    def __init__(
        self,
        url: str,
        table: str = "/",
        columns: Sequence[str] | None = None,
        rows: Rows | tuple[int, int | None] | None = None,
        where: Where | None = None,
        *,
        epoch: int | None = None,
        batch_rows: int | None = None,
        storage_options: StorageOptions | None = None,
        network: NetworkOptions | None = None,
        **conversion: Unpack[ConversionOptions],
    ) -> None:
        from hyperchunk.file import network_options

        check_conversion("RemoteTable", conversion)
        if isinstance(columns, str):
            raise TypeError("columns must be a list of names")
        query: dict[str, object] = {
            "file": "",
            "table": table,
            "columns": None if columns is None else list(columns),
            "rows": [operator.index(rows[0]), None if rows[1] is None else operator.index(rows[1])]
            if isinstance(rows, tuple)
            else None,
            "where": None if where is None else _filter(where),
            "epoch": epoch,
            "batch_rows": batch_rows,
            **conversion,
        }
        options = network_options(network, storage_options)
        core = _core.RemoteTable.open(url, json.dumps(query), options)
        if isinstance(rows, slice | range):
            core = core.slice(*slice_bounds(to_slice(rows, core.num_rows), core.num_rows))
        self._core = core

    @classmethod
    def _of(cls, core: _core.RemoteTable) -> RemoteTable:
        table = object.__new__(cls)
        table._core = core
        return table

    @property
    def num_rows(self) -> int:
        """Number of rows before `where` filters them."""
        return self._core.num_rows

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return self._core.column_names

    @property
    def schema(self) -> pa.Schema:
        """Columns as a :class:`pyarrow.Schema`."""
        return import_optional("pyarrow").schema(self)

    @property
    def is_local(self) -> bool:
        """True if the rows are mapped directly: the server's file is on this machine and may be opened, each column
        is contiguous, and there is no `where`. Nothing is transferred then; ``local="no"`` in `storage_options`
        requests the rows from the server anyway.
        """
        return self._core.is_local

    @property
    def query(self) -> dict[str, object]:
        """Query sent to the server: a ticket in its own format."""
        found: dict[str, object] = json.loads(self._core.query)
        return found

    def select(self, columns: Sequence[str]) -> RemoteTable:
        """Returns the table with the given columns, in this order."""
        if isinstance(columns, str):
            raise TypeError("select() takes a list of names")
        return self._of(self._core.select(list(columns)))

    def __getitem__(self, key: slice | str | Sequence[str]) -> RemoteTable:
        """Selects rows with ``t[a:b]``, columns with ``t["x"]`` and ``t[["x", "y"]]``."""
        if isinstance(key, slice):
            return self._of(self._core.slice(*slice_bounds(key, self.num_rows)))
        return self.select([key] if isinstance(key, str) else key)

    def __len__(self) -> int:
        return self.num_rows

    def __arrow_c_schema__(self) -> object:
        return self._core.schema_capsule()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._core.stream_capsule()

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns a :class:`pyarrow.RecordBatchReader` that yields batches as they arrive."""
        return import_optional("pyarrow").RecordBatchReader.from_stream(self)

    def to_pyarrow(self) -> pa.Table:
        """Reads everything into a :class:`pyarrow.Table`.

        Raises:
            ChangedError: The file has changed since the table was opened.
            ReadError: The server cannot be reached, or cannot read the rows.
        """
        with own_errors():
            return import_optional("pyarrow").table(self)

    def __repr__(self) -> str:
        return f"<hyperchunk.arrow.RemoteTable: {', '.join(self.column_names)} of {self.num_rows} rows>"
