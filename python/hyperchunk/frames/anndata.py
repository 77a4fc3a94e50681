"""AnnData: data frames with categories and missing values, sparse matrices, mappings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk import dtypes
from hyperchunk._printable import printable
from hyperchunk.exceptions import CorruptError, UnsupportedError
from hyperchunk.frames import attributes
from hyperchunk.frames.model import Field, Source, Unique, Values, decode_texts
from hyperchunk.frames.sparse import Sparse
from hyperchunk.typing import Array

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.frames.to_pandas import PandasArray
    from hyperchunk.group import Group
    from hyperchunk.objects import HLObject

_NULLABLE = ("nullable-integer", "nullable-boolean", "nullable-string-array")


class FrameSource(Source):
    """A data frame: `obs`, `var`, and any other."""

    format = "anndata"

    def __init__(self, group: Group) -> None:
        self.group = group
        index = attributes.text(group, "_index")
        if index is None:
            raise CorruptError(f"expected an attribute '_index', got none ({attributes.where(group)})")
        order = attributes.texts(group, "column-order")
        order = [name for name in group if name not in (index, "__categories")] if order is None else order
        self.columns = [_Column(group, index), *(_Column(group, name) for name in order)]
        counts = {column.count for column in self.columns}
        if len(counts) > 1:
            raise CorruptError(f"expected columns of equal length, got {sorted(counts)} ({attributes.where(group)})")
        self.num_rows = counts.pop()
        chunked = [column.stored.chunks for column in self.columns]
        self.chunk_rows = max((chunks[0] for chunks in chunked if chunks), default=1)
        unique = Unique()
        names = [unique.name(name, name) for name in order]
        unnamed = index in ("_index", "index")
        in_arrow = unique.name("index" if unnamed and "index" not in unique.taken else index, index)
        self.fields = [
            Field(in_arrow, None if unnamed else index, True),
            *(Field(name, label) for name, label in zip(names, order, strict=True)),
        ]

    def read(self, numbers: Sequence[int], start: int, stop: int) -> list[Values]:
        return [self.columns[number].read(start, stop) for number in numbers]


class _Column:
    """A column: a dataset, or a group of several datasets."""

    def __init__(self, group: Group, name: str) -> None:
        from hyperchunk.dataset import Dataset
        from hyperchunk.group import Group

        found = group.get(name)
        if not isinstance(found, Dataset | Group):
            raise CorruptError(f"expected a column {printable(repr(name))}, got none ({attributes.where(group)})")
        self.found = found
        self.kind = attributes.text(found, "encoding-type") or ""
        self.mask: Dataset | None = None
        self.categories: Values | None = None
        self.ordered = False
        if isinstance(found, Group):
            part = {"categorical": "codes"} | dict.fromkeys(_NULLABLE, "values")
            if self.kind not in part:
                raise UnsupportedError(
                    f"cannot read the column {printable(repr(name))} of encoding {printable(repr(self.kind))} "
                    f"({attributes.where(found)})"
                )
            self.stored = _dataset(found, part[self.kind])
            if self.kind == "categorical":
                self.categories = whole(_dataset(found, "categories"))
                self.ordered = bool(found.attrs.get("ordered", False))
            else:
                self.mask = _dataset(found, "mask")
        else:
            self.stored = found
            self._old_categories(group, found)
        if not self.stored.shape:
            raise CorruptError(f"expected a column with rows ({attributes.where(self.stored)})")
        self.count = self.stored.shape[0]

    def _old_categories(self, group: Group, found: Dataset) -> None:
        """Reads categories as anndata before 0.8 stored them: by a reference to a dataset in `__categories`."""
        reference = found.attrs.get("categories")
        if reference is None:
            return
        categories = group.file.dataset(reference)
        self.categories = whole(categories)
        self.kind = "categorical"
        self.ordered = bool(categories.attrs.get("ordered", False))

    def read(self, start: int, stop: int) -> Values:
        data = np.asarray(self.stored[start:stop])
        if self.categories is not None:
            return Values(data, "category", categories=self.categories, ordered=self.ordered)
        if self.mask is not None:
            mask = np.asarray(self.mask[start:stop]).astype(bool)
            if self.kind == "nullable-string-array":
                na = attributes.text(self.found, "na-value") or "NA"
                text = _texts(data)
                text[mask] = None
                return Values(text, "text", dtype="string" if na == "NA" else "str")
            if self.kind == "nullable-boolean":
                data = data.astype(bool)
            return Values(data, "nullable", mask=mask)
        return read_values(data)


def read_values(data: Array) -> Values:
    """Returns an array as values: texts become `str`."""
    if data.dtype.kind in "SO" and data.ndim == 1:
        return Values(_texts(data), "text")
    return Values(data)


def whole(dataset: Dataset) -> Values:
    """Returns all values of a dataset."""
    return read_values(np.asarray(dataset[()]))


def _texts(data: Array) -> Array:
    return decode_texts(data, "utf-8", "surrogateescape")


def _dataset(group: Group, name: str) -> Dataset:
    from hyperchunk.dataset import Dataset

    found = group.get(name)
    if not isinstance(found, Dataset):
        raise CorruptError(f"expected a dataset {printable(repr(name))}, got none ({attributes.where(group)})")
    return found


def read(found: HLObject) -> object:
    """Returns an object of AnnData: frames as :class:`hyperchunk.frames.Frame`, matrices that are stored dense as
    :class:`hyperchunk.Dataset`, sparse ones as :class:`hyperchunk.frames.sparse.Sparse`, mappings as dictionaries.
    """
    from hyperchunk.dataset import Dataset
    from hyperchunk.frames.reading import read_frame
    from hyperchunk.group import Group

    kind = attributes.text(found, "encoding-type") or ""
    if isinstance(found, Dataset):
        return _from_dataset(found, kind)
    assert isinstance(found, Group)
    if kind == "dataframe":
        return read_frame(FrameSource(found), None, None)
    if kind in ("csr_matrix", "csc_matrix"):
        return Sparse.from_group(found, kind[:3])
    if kind == "categorical" or kind in _NULLABLE:
        column = _Column(found.parent, (found.name or "").rpartition("/")[2])
        return _array(column.read(0, column.count))
    if kind in ("dict", "anndata", "raw", ""):
        return {name: read(member) for name, member in found.items()}
    raise UnsupportedError(f"cannot read the encoding {printable(repr(kind))} of AnnData ({attributes.where(found)})")


def _from_dataset(found: Dataset, kind: str) -> object:
    if kind == "null":
        return None
    if kind in ("string", "numeric-scalar") or found.shape == ():
        value = found[()]
        return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    if kind == "string-array":
        return _texts(np.asarray(found[()]))
    if kind == "rec-array":
        return _records(np.asarray(found[()]))
    return found


def _records(stored: Array) -> Array:
    """Returns records with their texts as `str`, except those of variable length in ASCII: anndata's rule."""
    columns: dict[str, Array] = {}
    for name in stored.dtype.names or ():
        column = stored[name]
        text = dtypes.check_string_dtype(column.dtype)
        if column.dtype.kind == "S":
            column = _texts(column).astype(f"U{max(column.dtype.itemsize, 1)}")
        elif text is not None and text.encoding == "utf-8":
            column = _texts(column)
        columns[name] = column
    # The shape of a cell is a part of the column's shape.
    depth = stored.ndim
    found = np.empty(stored.shape, [(name, made.dtype, made.shape[depth:]) for name, made in columns.items()])
    for name, made in columns.items():
        found[name] = made
    return found


def _array(values: Values) -> PandasArray | Values:
    """Returns a column as an array of pandas, or unchanged, as Values, if pandas is not installed."""
    try:
        from hyperchunk.frames.to_pandas import to_pandas
    except ModuleNotFoundError:
        return values
    return to_pandas(values)
