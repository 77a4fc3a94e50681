"""Datasets."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

import numpy as np

from hyperchunk import Dataset as Native
from hyperchunk.dataset import VDSmap
from hyperchunk.h5py import h5d
from hyperchunk.h5py._hl import base, filters
from hyperchunk.h5py._hl.base import HLObject
from hyperchunk.indexing import is_list
from hyperchunk.views import AbstractView, AsStrView, AsTypeView, FieldsView
from hyperchunk.views import ChunkIterator as NativeChunks

MPI = False
vds_support = True


def _checked(args: Any, shape: Any) -> Any:
    """Returns an index, unless h5py refuses it: programs rely on its errors.

    Raises:
        ValueError: A slice has a negative step.
        TypeError: A list is not increasing or has several dimensions, or there are several lists.
    """
    lists = []
    items = [arg for arg in (args if isinstance(args, tuple) else (args,)) if not isinstance(arg, str)]
    axis = 0
    for position, arg in enumerate(items):
        if arg is Ellipsis:
            axis = len(shape or ()) - (len(items) - position - 1)
            continue
        if isinstance(arg, slice) and isinstance(arg.step, int | np.integer) and arg.step < 0:
            raise ValueError(f"Step must be >= 1 (got {arg.step})")
        if is_list(arg):
            lists.append((np.asarray(arg), axis))
        axis += 1
    if all(each.dtype.kind == "b" for each, _ in lists) and len(lists) < 2:
        return args
    for each, axis in lists:
        if each.ndim > 1:
            raise TypeError(f"Selection can't process {each.tolist()!r}")
        if each.dtype.kind in "iu" and 0 <= axis < len(shape or ()):
            numbers = each.astype("i8")
            if (np.diff(np.where(numbers < 0, numbers + shape[axis], numbers)) <= 0).any():
                raise TypeError("Indexing elements must be in increasing order")
    if len(lists) > 1:
        raise TypeError("Only one indexing vector or array is currently allowed for fancy indexing")
    return args


class ChunkIterator(NativeChunks):
    """Iterator over the intersections of a selection with each chunk, as slices."""

    def __init__(self, dset: Any, source_sel: Any = None) -> None:
        super().__init__(tuple(dset.shape), dset.chunks, source_sel)


class _Reader:
    """Reader of indices, in the role of h5py's ``_selector.Reader``."""

    def __init__(self, dset: Dataset) -> None:
        self._dset = dset

    def read(self, args: Any) -> Any:
        """Returns the values of an index."""
        return self._dset._hc[_checked(args, self._dset.shape)]


class Dataset(HLObject):
    """A dataset: ``dataset[index]`` reads, ``dataset[index] = values`` writes."""

    def __init__(self, bind: Any, *, readonly: bool = False) -> None:
        if not isinstance(bind, h5d.DatasetID):
            raise ValueError(f"{bind} is not a DatasetID")
        super().__init__(bind)
        self._readonly = readonly

    # --- Properties ---

    @property
    def dims(self) -> Any:
        """Dimensions, with their labels and scales."""
        from hyperchunk.h5py._hl.dims import DimensionManager

        return DimensionManager(self)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self._hc.ndim)

    @property
    def shape(self) -> Any:
        """Extent; None for a null dataspace."""
        return self._hc.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self.resize(shape)

    @property
    def size(self) -> Any:
        """Number of elements; None for a null dataspace."""
        return self._hc.size

    @property
    def nbytes(self) -> int:
        """Size of the elements in memory, in bytes."""
        return int(self._hc.nbytes)

    @property
    def dtype(self) -> Any:
        """NumPy dtype."""
        return self._id.dtype

    @property
    def chunks(self) -> Any:
        """Extent of chunks; None if the layout is not chunked."""
        return self._hc.chunks

    @property
    def compression(self) -> Any:
        """Compression, or None."""
        return self._hc.compression

    @property
    def compression_opts(self) -> Any:
        """Options of the compression."""
        return self._hc.compression_opts

    @property
    def filter_ids(self) -> Any:
        """Numbers of the filters."""
        return self._hc.filter_ids

    @property
    def filter_names(self) -> Any:
        """Names of the filters."""
        return self._hc.filter_names

    @property
    def shuffle(self) -> bool:
        """True if bytes are shuffled."""
        return bool(self._hc.shuffle)

    @property
    def fletcher32(self) -> bool:
        """True if chunks have checksums."""
        return bool(self._hc.fletcher32)

    @property
    def scaleoffset(self) -> Any:
        """Setting of the scale-offset filter, or None."""
        return self._hc.scaleoffset

    @property
    def external(self) -> Any:
        """Name, offset and size of each external file; None without any."""
        return self._hc.external

    @property
    def maxshape(self) -> Any:
        """Maximum extent; None in an unlimited dimension."""
        return self._hc.maxshape

    @property
    def fillvalue(self) -> Any:
        """Fill value."""
        return self._hc.fillvalue

    @property
    def is_virtual(self) -> bool:
        """True if the layout is virtual."""
        return bool(self._hc.is_virtual)

    def virtual_sources(self) -> Any:
        """Returns the sources of a virtual dataset."""
        if not self.is_virtual:
            raise RuntimeError("Not a virtual dataset")
        plist = self._dcpl
        return [
            VDSmap(
                plist.get_virtual_vspace(index),
                plist.get_virtual_filename(index),
                plist.get_virtual_dsetname(index),
                plist.get_virtual_srcspace(index),
            )
            for index in range(plist.get_virtual_count())
        ]

    @property
    def is_scale(self) -> bool:
        """True if it is a dimension scale."""
        return bool(self._hc.is_scale)

    @property
    def _dcpl(self) -> Any:
        return self._id.get_create_plist()

    @property
    def _filters(self) -> dict[str, Any]:
        return filters.get_filters(self._dcpl)

    @property
    def _extent_type(self) -> int:
        return int(self._id.get_space().get_simple_extent_type())

    @property
    def _fast_reader(self) -> _Reader:
        return _Reader(self)

    @property
    def _is_empty(self) -> bool:
        return self._hc.shape is None

    # --- Reading ---

    def __len__(self) -> int:
        return self.len()

    def len(self) -> int:
        """Returns the length of the first dimension."""
        return int(self._hc.len())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._hc)

    def __getitem__(self, args: Any, new_dtype: Any = None) -> Any:
        hc = self._hc
        if new_dtype is not None:
            hc = hc.astype(new_dtype)
        return hc[_checked(args, hc.shape)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError(f"Dataset.__array__ received {copy=} but memory allocation cannot be avoided on read")
        return self._hc.__array__(dtype)

    def read_direct(self, dest: Any, source_sel: Any = None, dest_sel: Any = None) -> None:
        """Reads into an existing array."""
        self._hc.read_direct(dest, source_sel, dest_sel)

    def iter_chunks(self, sel: Any = None) -> ChunkIterator:
        """Iterates over the chunks, as slices."""
        return ChunkIterator(self, sel)

    def astype(self, dtype: Any) -> Any:
        """Returns a view whose values are converted on reading."""
        found = self._hc.astype(dtype)
        return self if Native in type(found).__mro__ else found

    def asstr(self, encoding: str | None = None, errors: str = "strict") -> Any:
        """Returns a view whose strings are decoded on reading."""
        return self._hc.asstr(encoding, errors)

    def fields(self, names: Any, *, _prior_dtype: Any = None) -> Any:
        """Returns a view of some members of a compound."""
        return self._hc.fields(names)

    # --- Writing ---

    def __setitem__(self, args: Any, val: Any) -> None:
        self._hc[_checked(args, self.shape)] = np.asarray(val) if isinstance(val, Dataset) else base.native(val)

    def write_direct(self, source: Any, source_sel: Any = None, dest_sel: Any = None) -> None:
        """Writes from an array."""
        self._hc.write_direct(source, source_sel, dest_sel)

    def resize(self, size: Any, axis: int | None = None) -> None:
        """Changes the extent; with `axis`, of that dimension only."""
        self._hc.resize(size, axis)

    def make_scale(self, name: str = "") -> None:
        """Makes it a dimension scale."""
        self._hc.make_scale(name)

    def refresh(self) -> None:
        """Loads the current extent and values."""
        self._id.refresh()

    def flush(self) -> None:
        """Commits the file."""
        self._id.flush()

    def __repr__(self) -> str:
        if not self._id:
            return "<Closed HDF5 dataset>"
        name = self.name
        shown = "(anonymous)" if name is None else f'"{posixpath.basename(name) or "/"}"'
        return f'<HDF5 dataset {shown}: shape {self.shape}, type "{self.dtype.str}">'


__all__ = [
    "AbstractView",
    "AsStrView",
    "AsTypeView",
    "ChunkIterator",
    "Dataset",
    "FieldsView",
]
