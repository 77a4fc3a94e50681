"""Reading of objects by their recognised format."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hyperchunk import _core
from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.exceptions import InvalidError, UnsupportedError
from hyperchunk.frames import attributes
from hyperchunk.frames.detect import kind as kind_of
from hyperchunk.frames.model import consistent

if TYPE_CHECKING:
    from hyperchunk.frames.frame import Frame
    from hyperchunk.frames.model import Source
    from hyperchunk.group import Group
    from hyperchunk.objects import HLObject
    from hyperchunk.typing import Rows


def read(
    found: HLObject,
    columns: Sequence[str] | None,
    rows: Rows | None,
    where: str | Sequence[str] | None,
    half: str | None,
) -> Any:
    """Implements :func:`hyperchunk.frames.read`."""
    found._opened.need()
    if not isinstance(found._object, _core.Object):
        raise UnsupportedError(
            f"cannot read a frame: expected a file opened for reading, got one being written (object {found.name})"
        )
    kind = kind_of(found)
    if kind is None:
        raise InvalidError(
            "cannot recognise the program that wrote the object: expected the attributes of pandas, PyTables, AnnData, "
            f"MATLAB, NWB, NeXus or Keras; read it with [...] or table() ({attributes.where(found)})"
        )
    source = find_source(found, kind)
    if source is not None:
        return read_frame(source, columns, rows, where, half)
    if any(given is not None for given in (columns, rows, where, half)):
        raise InvalidError(
            f"columns, rows and where are for frames, and this object is not one ({attributes.where(found)})"
        )
    with consistent(attributes.where(found)):
        return _value(found, kind)


def read_frame(
    source: Source,
    columns: Sequence[str] | None,
    rows: Rows | None,
    where: str | Sequence[str] | None = None,
    half: str | None = None,
) -> Frame:
    """Returns the frame of a source, with the wanted columns and rows."""
    import_optional("pyarrow")
    from hyperchunk.arrow.table import to_slice
    from hyperchunk.frames.frame import Frame

    if half not in (None, "float16", "float32"):
        raise InvalidError(f"expected half='float16' or 'float32', got {half!r}")
    made = Frame.of(source, half)
    if rows is not None:
        made = made[to_slice(rows, made.num_rows)]
    if columns is not None:
        made = made.select_with_index(columns)
    return made if where is None else made.where(where)


def find_source(found: HLObject, kind: str) -> Source | None:
    """Returns the columns of an object that is a frame; None for other objects."""
    where = attributes.where(found)
    with consistent(where):
        source = _source(found, kind)
    if source is not None:
        source.where = where
    return source


def _source(found: HLObject, kind: str) -> Source | None:
    from hyperchunk.dataset import Dataset
    from hyperchunk.group import Group

    if isinstance(found, Group):
        if kind == "pandas":
            from hyperchunk.frames import pandas_store

            return pandas_store.source(found)
        if kind == "anndata" and attributes.text(found, "encoding-type") == "dataframe":
            from hyperchunk.frames import anndata

            return anndata.FrameSource(found)
        if kind == "nwb" and "colnames" in found.attrs:
            from hyperchunk.frames import nwb

            return nwb.TableSource(found)
        if kind == "nexus":
            from hyperchunk.frames import nexus

            return nexus.source(found)
    if isinstance(found, Dataset) and kind == "pytables" and attributes.text(found, "CLASS") == "TABLE":
        from hyperchunk.frames import pytables

        return pytables.TableSource(found)
    return None


def _value(found: HLObject, kind: str) -> object:
    match kind:
        case "anndata":
            from hyperchunk.frames import anndata

            return anndata.read(found)
        case "matlab":
            from hyperchunk.frames import matlab

            return matlab.read(found)
        case "keras":
            from hyperchunk.frames import keras

            return keras.read(found)
        case "nwb":
            from hyperchunk.frames import nwb

            return nwb.read(found)
        case "pytables":
            from hyperchunk.frames import pytables

            return pytables.read(found)
    raise InvalidError(
        f"cannot read a {kind} object as a whole: expected a group with data; read its members "
        f"({attributes.where(found)})"
    )


def read_table(
    group: Group, columns: Sequence[str] | None, rows: Rows | None, half: str | None, batch_rows: int | None
) -> Frame | None:
    """Returns the frame of a group that is one of pandas, AnnData or NWB, for :meth:`hyperchunk.Group.table`; None for
    other groups, and if the frame lacks a requested column.
    """
    names = {"pandas_type", "encoding-type", "colnames"} & set(group.attrs)
    if not names or not isinstance(group._object, _core.Object) or "h5.table" in group.attrs:
        return None
    source = find_source(group, kind_of(group) or "")
    if source is None:
        return None
    if importlib.util.find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            "frames of other programs need pyarrow: pip install pyarrow, or table(frames=False) for the stored columns",
            name="pyarrow",
        )
    made = read_frame(source, None, rows, half=half)
    if columns is not None:
        if isinstance(columns, str):
            raise TypeError("columns must be a list of names")
        if not set(columns) <= set(made.column_names):
            return None
        made = made.select(columns)
    return made if batch_rows is None else made._replaced(batch_rows=batch_rows)
