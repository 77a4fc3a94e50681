"""Dual files, which are HDF5 and Arrow IPC at once."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sized
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from hyperchunk import _core
from hyperchunk.dtypes import opaque_dtype, to_dtype
from hyperchunk.exceptions import InvalidError, UnsupportedError
from hyperchunk.objects import Opened, Recipe
from hyperchunk.typing import Array, ArrowData, Dtype, PathLike, SupportsArrowSchema
from hyperchunk.write.datatypes import stored
from hyperchunk.write.file import _OLDEST, _SYNC, WritableFile
from hyperchunk.write.group import WritableGroup
from hyperchunk.write.opened import Writing

#: Columns of a new file: an Arrow schema, Arrow data, or arrays or dtypes by their names.
ColumnsLike: TypeAlias = "SupportsArrowSchema | ArrowData | Mapping[str, npt.ArrayLike | npt.DTypeLike]"


class DualOptions(TypedDict, total=False):
    """Options of a :class:`DualFile`."""

    mode: str
    columns: ColumnsLike | None
    group: str
    row_group: int | None
    growable: bool
    userblock_size: int | None
    sync: str | bool | None
    threads: int | None


class DualFile(WritableFile):
    """A new file that is HDF5 and Arrow at once: each column is a dataset whose stored bytes Arrow can read in place.

    The file can be written like any other HDF5 file: as soon as it has columns, you can add groups, attributes and
    further datasets. Attributes of the columns and of their group are also stored in Arrow's metadata.

    Args:
        name: Path of the file.
        mode: ``"w"`` replaces an existing file, ``"x"`` does not.
        columns: A pyarrow schema, a table, any object with ``__arrow_c_schema__``, or a mapping of names to arrays or
            dtypes; without it, the first :meth:`append` defines them.
        group: Path of the group of the datasets.
        row_group: Number of rows that are stored together; without it, the rows of the first append are stored
            contiguously.
        growable: HDF5 programs may add rows (Arrow sees them after ``hyperchunk arrow fix``).
        userblock_size: Size in bytes of a block before the HDF5 data.
        sync: As for :class:`hyperchunk.write.file.WritableFile`.
        threads: Maximum number of threads.

    Example:
        >>> with hyperchunk.create("a.h5", layout="arrow") as file:
        ...     file.append({"x": numpy.arange(3), "y": numpy.arange(3.0)})
        3
        >>> with hyperchunk.open("a.h5") as file:
        ...     file["y"][:].tolist()
        [0.0, 1.0, 2.0]
    """

    __slots__ = ("_dual", "_options", "_path", "_placement")

    def __init__(
        self,
        name: PathLike | bytes,
        mode: str = "w",
        *,
        columns: ColumnsLike | None = None,
        group: str = "/",
        row_group: int | None = None,
        growable: bool = False,
        userblock_size: int | None = None,
        sync: str | bool | None = None,
        threads: int | None = None,
    ) -> None:
        if mode not in ("w", "w-", "x"):
            raise ValueError(f"mode must be 'w', 'w-' or 'x', not {mode!r}")
        if sync not in _SYNC:
            raise ValueError(f"sync must be 'commit', 'never' or 'write', not {sync!r}")
        if row_group is not None and row_group < 1:
            raise ValueError(f"row_group must be 1 or more, not {row_group}")
        self._path = os.fsdecode(name)
        self._dual: _core.DualWriter | None = None
        self._placement = (group, row_group, growable)
        self._options: dict[str, Any] = {
            "oldest": _OLDEST["earliest"],
            "threads": threads or 0,
            "sync": _SYNC[sync],
            "page": None,
            "alignment": 1,
            "replace": mode == "w",
            "journal": False,
            "waiting_bytes": 64 << 20,
            "user_block": userblock_size or 0,
        }
        # The file is created only when its columns are known.
        self._opened = _PendingFile(None, Recipe(self._path, "sec2", self._options))
        if columns is not None:
            self._start(columns)

    def _start(self, columns: ColumnsLike) -> None:
        if isinstance(columns, Mapping):
            described = [(str(name), *_column_type(name, array)) for name, array in columns.items()]
            dual = _core.DualWriter.from_columns(self._path, described, *self._placement, **self._options)
        else:
            dual = _core.DualWriter.from_stream(self._path, _empty(columns), *self._placement, **self._options)
        self._attach(dual)

    def _attach(self, dual: _core.DualWriter) -> None:
        self._dual = dual
        writer = dual.writer()
        opened = _DualWriting(writer, Recipe(self._path, "sec2", self._options), dual)
        WritableGroup.__init__(self, opened, writer.root, "/")

    @property
    def _writing(self) -> Writing:
        self._opened.need()
        return super()._writing

    def __repr__(self) -> str:
        return f'<HDF5 and Arrow file "{Path(self._path).name}">' if self else "<Closed HDF5 file>"

    def _open_dual(self) -> _core.DualWriter:
        self._opened.need()
        assert self._dual is not None
        return self._dual

    def append(self, rows: ArrowData | Mapping[str, npt.ArrayLike]) -> int:
        """Appends rows and returns their number. `rows` is any object with ``__arrow_c_stream__`` or
        ``__arrow_c_array__`` (tables and batches of pyarrow, polars, DuckDB, …), or a mapping of column names to
        arrays of equal length. Values are written directly from their memory to the file. Readers see them after the
        next :meth:`flush` or :meth:`close`. Arrays of times (``M8[ns]``) become Arrow timestamps, and big-endian
        numbers are stored as little-endian ones. Nulls, masked values and NaT are errors.
        """
        if isinstance(rows, Mapping):
            return self._append_arrays({str(name): _as_column(name, array) for name, array in rows.items()})
        stream = _stream(rows)
        if self._dual is None:
            self._opened.need_open()  # type: ignore[attr-defined]
            self._attach(_core.DualWriter.from_stream(self._path, stream, *self._placement, **self._options))
        known = getattr(rows, "num_rows", None)
        if known is None and isinstance(rows, Sized):
            known = len(rows)
        return self._open_dual().append_stream(stream, known)

    def _append_arrays(self, arrays: dict[str, Array]) -> int:
        lengths = {name: array.shape[0] if array.ndim else None for name, array in arrays.items()}
        if len(set(lengths.values())) > 1 or None in lengths.values():
            raise ValueError(f"columns must have equal lengths, got {lengths}")
        if self._dual is None:
            self._opened.need_open()  # type: ignore[attr-defined]
            self._start(arrays)
        dual = self._open_dual()
        columns = []
        for name, description, cell in dual.columns():
            if name not in arrays:
                raise InvalidError(f"cannot append rows: they lack the column {name!r} (file {self._path})")
            array = arrays.pop(name)
            if array.dtype.kind == "S" and (fitting := to_dtype(description.description)).kind == "S":
                # Shorter bytes are padded as in the file; longer ones are an error below.
                array = array.astype(fitting) if array.dtype.itemsize < fitting.itemsize else array
            given, extent = _column_type(name, array)
            if given.description != description.description or extent != cell:
                raise InvalidError(f"column {name!r} has another type or cell shape: got {array.dtype}, {extent}")
            columns.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        if arrays:
            raise InvalidError(f"the file has no column {', '.join(map(repr, arrays))} (file {self._path})")
        rows = next(iter(lengths.values()), 0) or 0
        dual.append_arrays(columns, rows)
        return rows

    @property
    def num_rows(self) -> int:
        """Number of rows written."""
        return 0 if self._dual is None else self._open_dual().rows

    def flush(self) -> None:
        """Commits the data written until now: HDF5 and Arrow programs that open the file from now on see this state.
        While further rows are being appended, it is not a valid Arrow file until the next commit.
        """
        self._open_dual().flush()

    def discard(self) -> None:
        """Discards the file, with all uncommitted data."""
        if isinstance(self._opened, _DualWriting):
            self._opened.discard()
        else:
            self._opened.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._dual is None:
            self._opened.close()
        elif self._opened.is_open:
            self.close()

    def close(self) -> None:
        """Commits and closes the file."""
        if isinstance(self._opened, _PendingFile) and self._opened.is_open:
            raise InvalidError(f"the file has no columns: append rows, or set columns= (file {self._path})")
        self._opened.close()


class _PendingFile(Opened):
    """A file whose columns are not known yet."""

    __slots__ = ()

    @property
    def core(self) -> None:
        return None

    @property
    def is_open(self) -> bool:
        return not self._closed

    def need_open(self) -> None:
        """Raises an error if the file is closed."""
        if self._closed:
            super().need()

    def need(self) -> NoReturn:
        self.need_open()
        raise InvalidError(f"the file has no columns yet: append rows, or set columns= (file {self.recipe.filename})")


class _DualWriting(Writing):
    """A file with columns; closing it commits both formats."""

    __slots__ = ("_dual", "_end")

    def __init__(self, writer: _core.Writer, recipe: Recipe, dual: _core.DualWriter) -> None:
        super().__init__(writer, recipe)
        self._dual = dual
        self._close.detach()
        self._end = weakref.finalize(self, _commit, dual, os.getpid())

    def discard(self) -> None:
        self._end.detach()
        super().discard()

    def close(self) -> None:
        if not self._closed:
            self._end.detach()
            self._dual.close()
        super().close()


def _commit(dual: _core.DualWriter, process: int) -> None:
    # A forked child must not commit a file that its parent is still writing.
    if os.getpid() == process:
        dual.close()


def _stream(rows: object) -> _core.ArrowStream:
    """Returns the record batches of an Arrow object."""
    if hasattr(rows, "__arrow_c_stream__"):
        return _core.ArrowStream(rows.__arrow_c_stream__())
    if hasattr(rows, "__arrow_c_array__"):
        return _core.ArrowStream.from_array(*rows.__arrow_c_array__())
    raise TypeError(f"expected a table, batches or a mapping of arrays, got {type(rows).__name__}")


def _empty(columns: object) -> _core.ArrowStream:
    """Returns an empty stream with the columns of an Arrow object or mapping."""
    if hasattr(columns, "__arrow_c_schema__"):
        return _core.ArrowStream.from_schema(columns.__arrow_c_schema__())
    if hasattr(columns, "schema"):
        return _empty(columns.schema)
    return _stream(columns)


def _as_column(name: str, array: npt.ArrayLike) -> Array:
    """Returns the values of a column as they are stored."""
    if (zone := getattr(getattr(array, "type", None), "tz", None)) is not None:
        raise UnsupportedError(
            f"column {name!r} has the time zone {zone}, which HDF5 has no place for; convert the column to times "
            "without a zone"
        )
    if np.ma.is_masked(array):
        raise UnsupportedError(
            f"column {name!r} has masked values, and HDF5 has no nulls; fill them, array.filled(), or store the "
            "validity in a column of its own"
        )
    values = np.asarray(array)
    if values.dtype.kind in "mM":
        missing = np.isnat(values)
        if missing.any():
            raise UnsupportedError(
                f"column {name!r} has NaT in row {int(np.argwhere(missing)[0][0])}: it would be null in Arrow, and "
                "HDF5 has no nulls; fill it, or store the validity in a column of its own"
            )
    return values.astype(_column_dtype(name, values.dtype), copy=False)


def _column_dtype(name: str, dtype: Dtype) -> Dtype:
    """Returns the dtype that is stored: little-endian, and times as opaque bytes, which Arrow shows as times."""
    if dtype.kind in "mM":
        unit = np.datetime_data(dtype)[0]
        if unit not in ("s", "ms", "us", "ns") or np.datetime_data(dtype)[1] != 1:
            raise UnsupportedError(
                f"column {name!r}: Arrow has no times of dtype {dtype}; convert it: array.astype('{dtype.kind}8[s]')"
            )
        return opaque_dtype(dtype.newbyteorder("<"))
    return dtype if dtype.names is not None else dtype.newbyteorder("<")


def _column_type(name: str, array: npt.ArrayLike | npt.DTypeLike) -> tuple[_core.Datatype, list[int]]:
    """Returns the datatype of a column's elements, and the extent of a cell."""
    if not isinstance(array, np.ndarray):
        array = np.empty(0, np.dtype(array)) if isinstance(array, str | type | np.dtype) else np.asarray(array)
    try:
        description = stored(_column_dtype(name, array.dtype))
    except TypeError as error:
        raise TypeError(f"column {name!r}: {error}") from None
    return _core.Datatype(description), [int(dim) for dim in array.shape[1:]]
