"""Datasets."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from hyperchunk import Dataset as Native
from hyperchunk.dataset import VDSmap
from hyperchunk.h5py import h5d
from hyperchunk.h5py._hl import base, filters
from hyperchunk.h5py._hl.base import HLObject
from hyperchunk.indexing import is_list
from hyperchunk.views import AbstractView, AsStrView, AsTypeView, FieldsView
from hyperchunk.views import ChunkIterator as NativeChunks

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperchunk.h5py._hl.dims import DimensionManager
    from hyperchunk.h5py.h5p import PropDCID
    from hyperchunk.likeness import FilterSetting
    from hyperchunk.typing import Array, Dtype, Index, Shape, Values

#: Selection whose chunks are iterated over.
ChunkSelection: TypeAlias = slice | int | tuple[slice | int, ...]

MPI = False
vds_support = True


def _checked(args: Index, shape: Shape | None) -> Index:
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
            if (np.diff(np.where(numbers < 0, numbers + (shape or ())[axis], numbers)) <= 0).any():
                raise TypeError("Indexing elements must be in increasing order")
    if len(lists) > 1:
        raise TypeError("Only one indexing vector or array is currently allowed for fancy indexing")
    return args


class ChunkIterator(NativeChunks):
    """Iterator over the intersections of a selection with each chunk, as slices."""

    def __init__(self, dset: Dataset, source_sel: ChunkSelection | None = None) -> None:
        super().__init__(tuple(cast("Shape", dset.shape)), dset.chunks, source_sel)


class _Reader:
    """Reader of indices, in the role of h5py's ``_selector.Reader``."""

    def __init__(self, dset: Dataset) -> None:
        self._dset = dset

    def read(self, args: Index) -> Values:
        """Returns the values of an index."""
        return self._dset._hc[_checked(args, self._dset.shape)]


class Dataset(HLObject):
    """A dataset: ``dataset[index]`` reads, ``dataset[index] = values`` writes."""

    _id: h5d.DatasetID

    if TYPE_CHECKING:

        @property
        def id(self) -> h5d.DatasetID: ...
        @property
        def _hc(self) -> Native: ...

    def __init__(self, bind: object, *, readonly: bool = False) -> None:
        if not isinstance(bind, h5d.DatasetID):
            raise ValueError(f"{bind} is not a DatasetID")
        super().__init__(bind)
        self._readonly = readonly

    # --- Properties ---

    @property
    def dims(self) -> DimensionManager:
        """Dimensions, with their labels and scales."""
        from hyperchunk.h5py._hl.dims import DimensionManager

        return DimensionManager(self)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self._hc.ndim)

    @property
    def shape(self) -> Shape | None:
        """Extent; None for a null dataspace."""
        return self._hc.shape

    @shape.setter
    def shape(self, shape: Shape) -> None:
        self.resize(shape)

    @property
    def size(self) -> int | None:
        """Number of elements; None for a null dataspace."""
        return self._hc.size

    @property
    def nbytes(self) -> int:
        """Size of the elements in memory, in bytes."""
        return int(self._hc.nbytes)

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype."""
        return self._id.dtype

    @property
    def chunks(self) -> Shape | None:
        """Extent of chunks; None if the layout is not chunked."""
        return self._hc.chunks

    @property
    def compression(self) -> str | None:
        """Compression, or None."""
        return self._hc.compression

    @property
    def compression_opts(self) -> FilterSetting:
        """Options of the compression."""
        return self._hc.compression_opts

    @property
    def filter_ids(self) -> tuple[int, ...]:
        """Numbers of the filters."""
        return self._hc.filter_ids

    @property
    def filter_names(self) -> tuple[str, ...]:
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
    def scaleoffset(self) -> int | None:
        """Setting of the scale-offset filter, or None."""
        return self._hc.scaleoffset

    @property
    def external(self) -> list[tuple[str, int, int]] | None:
        """Name, offset and size of each external file; None without any."""
        return self._hc.external

    @property
    def maxshape(self) -> tuple[int | None, ...] | None:
        """Maximum extent; None in an unlimited dimension."""
        return self._hc.maxshape

    @property
    def fillvalue(self) -> Values:
        """Fill value."""
        return self._hc.fillvalue

    @property
    def is_virtual(self) -> bool:
        """True if the layout is virtual."""
        return bool(self._hc.is_virtual)

    def virtual_sources(self) -> list[VDSmap]:
        """Returns the sources of a virtual dataset."""
        if not self.is_virtual:
            raise RuntimeError("Not a virtual dataset")
        plist = self._dcpl
        return [
            VDSmap._make(
                (
                    plist.get_virtual_vspace(index),
                    plist.get_virtual_filename(index),
                    plist.get_virtual_dsetname(index),
                    plist.get_virtual_srcspace(index),
                )
            )
            for index in range(plist.get_virtual_count())
        ]

    @property
    def is_scale(self) -> bool:
        """True if it is a dimension scale."""
        return bool(self._hc.is_scale)

    @property
    def _dcpl(self) -> PropDCID:
        return self._id.get_create_plist()

    @property
    def _filters(self) -> dict[str, FilterSetting]:
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

    def __iter__(self) -> Iterator[Values]:
        return iter(self._hc)

    def __getitem__(self, args: Index, new_dtype: npt.DTypeLike | None = None) -> Values:
        hc = self._hc if new_dtype is None else self._hc.astype(new_dtype)
        return hc[_checked(args, hc.shape)]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"Dataset.__array__ received {copy=} but memory allocation cannot be avoided on read")
        return self._hc.__array__(dtype)

    def read_direct(self, dest: Array, source_sel: Index | None = None, dest_sel: Index | None = None) -> None:
        """Reads into an existing array."""
        self._hc.read_direct(dest, source_sel, dest_sel)

    def iter_chunks(self, sel: ChunkSelection | None = None) -> ChunkIterator:
        """Iterates over the chunks, as slices."""
        return ChunkIterator(self, sel)

    def astype(self, dtype: npt.DTypeLike) -> AsTypeView | Dataset:
        """Returns a view whose values are converted on reading."""
        found = self._hc.astype(dtype)
        return self if isinstance(found, Native) else found

    def asstr(self, encoding: str | None = None, errors: str = "strict") -> AsStrView:
        """Returns a view whose strings are decoded on reading."""
        return self._hc.asstr(encoding, errors)

    def fields(self, names: str | list[str] | tuple[str, ...], *, _prior_dtype: object = None) -> FieldsView:
        """Returns a view of some members of a compound."""
        return self._hc.fields(names)

    # --- Writing ---

    def __setitem__(self, args: Index, val: object) -> None:
        self._hc[_checked(args, self.shape)] = np.asarray(val) if isinstance(val, Dataset) else base.native(val)

    def write_direct(self, source: Array, source_sel: Index | None = None, dest_sel: Index | None = None) -> None:
        """Writes from an array."""
        self._hc.write_direct(source, source_sel, dest_sel)

    def resize(self, size: int | tuple[int, ...], axis: int | None = None) -> None:
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
