"""Data of pandas, PyTables, AnnData, MATLAB, NWB, NeXus and Keras, as these programs show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hyperchunk.frames.detect import kind

if TYPE_CHECKING:
    from hyperchunk.frames.frame import Frame
    from hyperchunk.objects import HLObject
    from hyperchunk.typing import Rows

__all__ = ["Frame", "kind", "read"]


if not TYPE_CHECKING:  # with this function, type checkers would accept any name

    def __getattr__(name: str) -> object:
        if name == "Frame":
            from hyperchunk.frames.frame import Frame

            return Frame
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def read(
    found: HLObject,
    columns: Sequence[str] | None = None,
    rows: Rows | None = None,
    where: str | Sequence[str] | None = None,
    *,
    half: str | None = None,
) -> Any:
    """Returns an object as the program that wrote it shows it.

    Args:
        found: A file, a group or a dataset.
        columns: Names of the columns of a frame; by default all, with the index.
        rows: Rows of a frame: a slice, a range, or the first row and the end (exclusive).
        where: A condition on the rows of a frame, as for :func:`pandas.read_hdf`: ``"index > 5 & name == 'x'"``, or a
            list of conditions that must all hold. It may name any column. Its columns are read first, and the others
            only where a row is chosen.
        half: ``"float32"`` turns 16-bit floats of a frame into 32-bit ones, which DuckDB has.

    Returns:
        A :class:`Frame` for frames and series of pandas, data frames of AnnData, `DynamicTable` of NWB, tables of
        PyTables and `NXdata` of NeXus. For other objects, arrays, texts, dictionaries or sparse matrices.

    Raises:
        InvalidError: No format is recognised, or columns, rows or a condition are given for an object that is no frame.
        UnsupportedError: The object has an unsupported part; the message names it.
        ModuleNotFoundError: A frame needs pyarrow.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     group = file.create_group("plot")
        ...     group.attrs["NX_class"], group.attrs["signal"], group.attrs["axes"] = "NXdata", "counts", ["energy"]
        ...     group["energy"], group["counts"] = [1.0, 2.0], [7, 8]
        >>> hyperchunk.frames.read(hyperchunk.open("a.h5")["plot"]).to_pandas()["counts"].tolist()
        [7, 8]
    """
    from hyperchunk.frames.reading import read as read_object

    return read_object(found, columns, rows, where, half)
