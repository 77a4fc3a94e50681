"""Definitions of the datasets of a store."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import numpy.typing as npt

from hyperchunk import _core, dtypes
from hyperchunk.dtypes import Description
from hyperchunk.suggestions import unexpected_keyword
from hyperchunk.typing import Attributes, DatasetOptions, Dtype, ShapeLike
from hyperchunk.write import creation
from hyperchunk.write.file import WritableFile

#: A store: its id, its newest epoch, and the inode, size in bytes and modification time in ns of its file.
Known = tuple[str, int, tuple[int, int, int] | None]


class Dataset:
    """Definition of a dataset, for :func:`hyperchunk.store.create`.

    `shape` and `dtype` are NumPy's; `options` are as for ``create_dataset`` (``maxshape``, ``chunks``,
    ``compression``, ``filters``, ``fillvalue``, ...); `attrs` are its attributes. Variable-length strings, sequences
    and references cannot be stored as datasets of a store: write them with :attr:`Writer.structure`.

    >>> Dataset((100, 20), "f8", maxshape=(None, 20), chunks=(10, 20), attrs={"units": "K"})
    Dataset((100, 20), 'float64')
    """

    def __init__(
        self,
        shape: ShapeLike,
        dtype: npt.DTypeLike = "f4",
        *,
        attrs: Attributes | None = None,
        **options: Unpack[DatasetOptions],
    ) -> None:
        if unknown := set(options) - DatasetOptions.__optional_keys__:
            raise unexpected_keyword("Dataset", unknown, DatasetOptions.__optional_keys__)
        self.shape = creation.parse_shape(shape)
        self.dtype = np.dtype(dtype)
        self.attrs = dict(attrs or {})
        self.options = options

    def __repr__(self) -> str:
        return f"Dataset({self.shape}, {str(self.dtype)!r})"


def absolute(name: str | bytes) -> bytes:
    """Returns the absolute path of a name."""
    text = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    parts = [part for part in text.split(b"/") if part not in (b"", b".")]
    if not parts:
        raise ValueError("a dataset needs a name")
    return b"/" + b"/".join(parts)


def is_diverted(description: Description, shape: tuple[int, ...] | None) -> bool:
    """True if elements of a dataset go to the log; otherwise they go to the writer's own file."""
    return bool(shape) and not dtypes._has_handle(description)


def define(
    structure: WritableFile,
    path: bytes,
    description: Description,
    shown: Dtype,
    shape: tuple[int, ...],
    options: DatasetOptions,
    incarnation: int = 0,
) -> _core.StoreDefinition:
    """Makes the definition of a dataset."""
    keywords = creation.keywords(structure._writing.writer, description, None, shown, shape, options)
    if keywords["layout"] not in ("contiguous", "chunked"):
        raise ValueError(f"a dataset of a store is contiguous or chunked, not {keywords['layout']}")
    return _core.StoreDefinition(path, incarnation, **keywords)


def show(structure: WritableFile, definition: _core.StoreDefinition, track_order: bool = False) -> _core.Node:
    """Makes a dataset in a writer's own file that represents one of the store."""
    with structure._new_link(definition.path) as (parent, last):
        return parent.create_dataset(
            last,
            datatype=definition.datatype,
            committed=None,
            shape=[max(length, 1) for length in definition.shape],
            max_shape=None,
            layout="external",
            chunks=[],
            external=[(definition.marker().encode(), 0, None)],
            preset=None,
            filters=[],
            fill=None,
            fill_time="never",
            track_order=track_order,
        )


def empty() -> WritableFile:
    """Creates a writer's own file, in memory until it goes to the log."""
    return WritableFile("structure.h5", "w", driver="core", journal=False, sync="never")
