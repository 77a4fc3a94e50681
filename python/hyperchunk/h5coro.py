"""H5Coro's read interface, for programs that migrate: one dataset, a column of it, rows from a start row on.

======================================  =============================================================
H5Coro                                  here
======================================  =============================================================
``H5Coro::read(asset, resource, name,   ``read(url, name, column, start_row, row_count)``, or
valtype, col, startrow, numrows, …)``   ``hyperchunk.open(url)[name][start_row : start_row + row_count]``
``H5Coro::readp(…)``, a promise         ``readp(…)``, a :class:`concurrent.futures.Future`, or
                                        ``Dataset.read_future``
``_meta_only = true``                   ``metadata_only=True``: `data` is None
``valtype``                             ``Dataset.astype``; without it, the file's own type
``H5Coro::traverse``                    ``Group.visititems``
``context`` (the cache of a file)       the file itself: keep it open, or pass it instead of the URL
``ALL_ROWS``, ``ALL_COLS``              the same
``h5coro.H5Coro(…).readDatasets([…])``  ``File.read_many([…])``
======================================  =============================================================

Differences from H5Coro: rows of contiguous datasets are correct for every start row, missing rows and columns are an
error, and the arrays keep their dimensions.

Source: SlideRule's public interface of H5Coro, and *H5Coro* (SlideRule, 2021).
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import NamedTuple, Unpack

import numpy as np

from hyperchunk.batches import submit
from hyperchunk.dataset import Dataset
from hyperchunk.exceptions import InvalidError
from hyperchunk.file import File
from hyperchunk.typing import Array, Dtype, FileName, OpenOptions

ALL_ROWS = -1
ALL_COLS = -1


class Info(NamedTuple):
    """Result of a read."""

    #: Number of elements read, or to be read.
    elements: int
    #: Size of an element in bytes.
    typesize: int
    #: Size of all elements in bytes.
    datasize: int
    #: The elements; None if only metadata were requested.
    data: Array | None
    #: Dtype of the elements.
    datatype: Dtype
    #: Number of rows: the length of the dataset's first dimension.
    numrows: int
    #: Number of columns: the length of the second dimension, or 1.
    numcols: int


def read(
    resource: FileName | File,
    dataset: str,
    column: int = ALL_COLS,
    start_row: int = 0,
    row_count: int = ALL_ROWS,
    *,
    metadata_only: bool = False,
    **options: Unpack[OpenOptions],
) -> Info:
    """Reads rows of a dataset, all columns or one.

    Args:
        resource: A URL, a path or an open file.
        dataset: Path of the dataset.
        column: Number of the column, or `ALL_COLS`.
        start_row: First row.
        row_count: Number of rows, or `ALL_ROWS`.
        metadata_only: Read no elements.
        options: As for :func:`hyperchunk.open`.

    Raises:
        InvalidError: Rows or columns do not exist.
        NotFoundError: There is no such file.
        KeyError: There is no such dataset.

    Example:
        >>> with hyperchunk.open("granule.h5", "w") as file:
        ...     file["gt1l/heights/h_ph"] = numpy.arange(200.0)
        >>> found = hyperchunk.h5coro.read("granule.h5", "gt1l/heights/h_ph", start_row=100, row_count=2)
        >>> found.data.tolist(), found.numrows
        ([100.0, 101.0], 200)
    """
    if isinstance(resource, File):
        return _read(resource, dataset, column, start_row, row_count, metadata_only)
    with File(resource, **options) as file:
        return _read(file, dataset, column, start_row, row_count, metadata_only)


def readp(
    resource: FileName | File,
    dataset: str,
    column: int = ALL_COLS,
    start_row: int = 0,
    row_count: int = ALL_ROWS,
    *,
    metadata_only: bool = False,
    **options: Unpack[OpenOptions],
) -> Future[Info]:
    """Does :func:`read` in the background.

    Example:
        >>> with hyperchunk.open("granule.h5", "w") as file:
        ...     file["h_ph"] = numpy.arange(10.0)
        >>> hyperchunk.h5coro.readp("granule.h5", "h_ph", row_count=2).result().data.tolist()
        [0.0, 1.0]
    """

    def work(name: str) -> Info:
        return read(resource, name, column, start_row, row_count, metadata_only=metadata_only, **options)

    return submit(work, dataset)


def _read(file: File, name: str, column: int, start: int, count: int, metadata_only: bool) -> Info:
    found = file[name]
    if not isinstance(found, Dataset) or not found.shape:
        raise InvalidError(f"expected a dataset with at least one dimension (object {name}, file {file.filename})")
    rows, columns = found.shape[0], found.shape[1] if found.ndim > 1 else 1
    end = rows if count == ALL_ROWS else start + count
    if not (0 <= start <= end <= rows and count >= ALL_ROWS):
        message = f"expected rows from 0 to {rows}, got {start} to {end} (object {name}, file {file.filename})"
        raise InvalidError(message)
    if column != ALL_COLS and not (0 <= column < columns and found.ndim > 1):
        raise InvalidError(f"column {column} does not exist: {columns} columns (object {name}, file {file.filename})")
    index: tuple[slice | int, ...] = (slice(start, end),) if column == ALL_COLS else (slice(start, end), column)
    elements = (end - start) * int(np.prod(found.shape[len(index) :], dtype=np.int64))
    data = None if metadata_only else np.asarray(found[(*index, ...) if found.ndim > len(index) else index])
    size = found.dtype.itemsize
    return Info(elements, size, elements * size, data, found.dtype, rows, columns)


__all__ = ["ALL_COLS", "ALL_ROWS", "Info", "read", "readp"]
