"""Tables of a store: groups whose datasets are columns, and the Arrow files with their rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperchunk import _core
from hyperchunk.file import is_url
from hyperchunk.typing import Array, ArrowData

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

    from hyperchunk.store.writer import StoredDataset, Writer


#: Rows of a table: arrays by the names of columns, or Arrow data.
Columns: TypeAlias = "Mapping[str, npt.ArrayLike] | ArrowData"


@dataclass(frozen=True)
class Fragments:
    """Arrow IPC files that contain exactly the rows of a table of a store. Made by :func:`fragments`."""

    #: Group of the columns, and their names.
    group: str
    columns: list[str]
    #: Number of rows.
    rows: int
    #: Number of the epoch.
    epoch: int
    #: Files, ordered by their first row. The rows of a file need not be consecutive.
    files: list[str]
    #: Batches, ordered by rows: first row, number of rows, number of the file, number of the batch in the file.
    batches: list[tuple[int, int, int, int]]

    def dataset(self) -> pyarrow.dataset.Dataset:
        """Returns the files as a ``pyarrow.dataset.Dataset``. Its rows are in the order of the files."""
        import pyarrow.dataset

        return pyarrow.dataset.dataset(self.files, format="ipc")

    def to_pyarrow(self) -> pa.Table:
        """Returns the table with its rows in order, mapped: nothing is copied."""
        import pyarrow as pa

        readers = [pa.ipc.open_file(pa.memory_map(file)) for file in self.files]
        batches = [readers[file].get_batch(number) for _, _, file, number in self.batches]
        if not batches:
            raise ValueError(f"cannot make a table of {self.group}: it has no rows")
        return pa.Table.from_batches([batch.select(self.columns) for batch in batches])


def fragments(path: str | os.PathLike[str], table: str = "/", epoch: int | None = None) -> Fragments:
    """Returns the Arrow IPC files that form the table of a group, in an epoch of the store of a file, by default the
    newest. If a group has datasets of different numbers of rows, `table` is ``"/group@ROWS"``.

    The files hold exactly the committed rows.

    Raises:
        ValueError: Files alone do not form the table: some rows were overwritten later, are not committed, are in a
            log, or were never written. ``hyperchunk.open`` reads the table in any case.

    >>> polars.scan_ipc(fragments("run.h5", "/particles").files)  # doctest: +SKIP
    """
    name = os.fspath(path)
    name = name if is_url(name) else str(Path(name).absolute())
    number, group, columns, rows, found = _core.store_fragments(name, table, epoch)
    batches = [
        (row, count, file, number_in_file)
        for file, (_, parts) in enumerate(found)
        for number_in_file, (row, count, _, _, _) in enumerate(parts)
    ]
    return Fragments(group, columns, rows, number, [str(name) for name, _ in found], sorted(batches))


def table_columns(writer: Writer, group: str, batch: Columns) -> list[tuple[StoredDataset, Array]]:
    """Returns the columns of a batch as arrays, each with its dataset."""
    prefix = "/" + group.strip("/") + "/" if group.strip("/") else "/"
    if isinstance(batch, Mapping):
        named = {str(name): np.asarray(values) for name, values in batch.items()}
    else:
        import pyarrow as pa

        table = batch if isinstance(batch, pa.Table) else pa.table(batch)
        named = {name: _array(name, table.column(name)) for name in table.column_names}
    if len({len(values) for values in named.values()}) > 1:
        lengths = {name: len(values) for name, values in named.items()}
        raise ValueError(f"columns must have equal lengths, got {lengths}")
    return [(writer[prefix + name], values) for name, values in named.items()]


def _array(name: str, column: pa.ChunkedArray) -> Array:
    """Converts an Arrow column to a NumPy array."""
    if column.null_count:
        raise ValueError(f"cannot write column {name}: it has nulls, which HDF5 cannot represent")
    parts = [_part(chunk) for chunk in column.chunks]
    if not parts:
        return np.empty(0)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _part(chunk: pa.Array) -> Array:
    import pyarrow as pa

    if isinstance(chunk, pa.FixedShapeTensorArray):
        values: Array = chunk.to_numpy_ndarray()
        return values
    if isinstance(chunk, pa.ExtensionArray):
        return _part(chunk.storage)
    if pa.types.is_fixed_size_list(chunk.type):
        inner = _part(chunk.flatten())
        return inner.reshape((len(chunk), chunk.type.list_size, *inner.shape[1:]))
    if pa.types.is_fixed_size_binary(chunk.type):
        width = chunk.type.byte_width
        data = np.frombuffer(chunk.buffers()[1], f"V{width}", len(chunk), chunk.offset * width)
        return data.view(f"S{width}")
    return np.asarray(chunk.to_numpy(zero_copy_only=False))
