"""Datasets."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from hyperchunk import _core, dimensions, dtypes, observing, selections, values
from hyperchunk._printable import printable
from hyperchunk.dimensions import DimensionManager
from hyperchunk.dtypes import Empty, check_string_dtype
from hyperchunk.exceptions import ChangedError, InvalidError, ObjectNotFoundError, also
from hyperchunk.indexing import Indexer
from hyperchunk.likeness import FILTERS, DatasetID, FilterSetting, class_of_h5py, filter_setting
from hyperchunk.objects import AnyObject, HLObject, Opened, read_only, refusal, resolve_region
from hyperchunk.observing import DEBUG, is_logged
from hyperchunk.progress import ProgressLike
from hyperchunk.queries import BoxLike, Query, Zones
from hyperchunk.references import RegionReference
from hyperchunk.selections import Args, Selection, Space
from hyperchunk.typing import Array, Cells, Compounds, DlpackOptions, Dtype, Enums, Half, Index, Rows, Strings, Values
from hyperchunk.values import Plan
from hyperchunk.views import AsStrView, AsTypeView, ChunkIterator, FieldsView

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from hyperchunk.arrow.table import Table
    from hyperchunk.cuda import CudaArray
    from hyperchunk.following import Follower
    from hyperchunk.training import Batches

_COMPRESSIONS = ("gzip", "lzf", "szip")

#: The `_core` object of a dataset, opened for reading or writing.
AnyDataset = _core.Dataset | _core.DatasetWriter


class VDSmap(NamedTuple):
    """A source of a virtual dataset."""

    #: Selection in the virtual dataset.
    vspace: Space
    #: Name of the file, as stored; ``"."`` for the same file.
    file_name: str
    #: Name of the source dataset.
    dset_name: str
    #: Selection in the source dataset.
    src_space: Space


class Dataset(HLObject):
    """A dataset. ``dataset[index]`` reads into a new NumPy array, with h5py's rules for the index.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"] = numpy.arange(12.0).reshape(3, 4)
        >>> with hyperchunk.open("a.h5") as file:
        ...     file["x"].shape, file["x"][1:, 0].tolist()
        ((3, 4), [4.0, 8.0])
    """

    __slots__ = ("_core_data", "_dims", "_mapped", "_plan", "_state")

    __class__ = class_of_h5py("Dataset")

    @property
    def id(self) -> DatasetID:
        """Low-level handle, as in libhdf5's interface: the chunks and their stored form."""
        return DatasetID(self)

    def __init__(self, opened: Opened, found: AnyObject | None, name: str | None) -> None:
        super().__init__(opened, found, name)
        self._core_data: AnyDataset | None = None
        self._dims: tuple[int, ...] | None = None
        self._plan: Plan | None = None
        self._mapped: _core.MappedDataset | None = None
        self._state = opened.refresh_count

    @property
    def _data(self) -> AnyDataset:
        """The `_core` object, parsed on first use."""
        opened = self._opened
        opened.need()
        if self._core_data is None or self._state != opened.refresh_count:
            core_data = self._object.dataset()
            self._plan = self._mapped = None
            self._core_data, self._dims, self._state = core_data, core_data.shape, opened.refresh_count
        return self._core_data

    def _is_outdated(self) -> bool:
        """True if the whole file was refreshed since; as in h5py, refreshing another dataset does not count."""
        return self._state != self._opened.refresh_count

    @property
    def _readable(self) -> _core.Dataset:
        """The `_core` object for batched reads."""
        data = self._data
        return data if isinstance(data, _core.Dataset) else data.snapshot()

    # --- Properties ---

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Extent; None for a null dataspace."""
        opened = self._opened
        if self._core_data is None or not opened.is_open or self._state != opened.refresh_count:
            return self._data.shape
        return self._dims

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape or ())

    @property
    def size(self) -> int | None:
        """Number of elements; None for a null dataspace."""
        return None if self.shape is None else math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of the elements in memory, in bytes."""
        return (self.size or 0) * self.dtype.itemsize

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype of the elements."""
        data = self._data
        return dtypes.to_dtype(data.datatype.description) if self._plan is None else self._plan.dtype

    @property
    def maxshape(self) -> tuple[int | None, ...] | None:
        """Maximum extent; None in an unlimited dimension."""
        return self._data.max_shape

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of a chunk; None if the layout is not chunked."""
        return self._data.chunks

    @property
    def _pipeline(self) -> dict[str, FilterSetting]:
        """Filters by name, with their settings as h5py shows them."""
        found: dict[str, FilterSetting] = {}
        for number, _, parameters in self._data.filters:
            found[FILTERS.get(number, str(number))] = filter_setting(number, parameters)
        return found

    @property
    def compression(self) -> str | None:
        """Compression: ``"gzip"``, ``"lzf"``, ``"szip"``, ``"unknown"`` for a filter unknown to h5py, or None."""
        pipeline = self._pipeline
        for name in _COMPRESSIONS:
            if name in pipeline:
                return name
        return "unknown" if any(name not in FILTERS.values() for name in pipeline) else None

    @property
    def compression_opts(self) -> FilterSetting:
        """Level of gzip, or the two settings of szip; for other filters their parameters, None without any."""
        return self._pipeline.get(self.compression or "")

    @property
    def filter_ids(self) -> tuple[int, ...]:
        """Numbers of the filters."""
        return tuple(number for number, _, _ in self._data.filters)

    @property
    def filter_names(self) -> tuple[str, ...]:
        """Names of the filters, as stored."""
        return tuple(name for _, name, _ in self._data.filters)

    @property
    def shuffle(self) -> bool:
        """True if the shuffle filter is used."""
        return 2 in self.filter_ids

    @property
    def fletcher32(self) -> bool:
        """True if chunks have Fletcher-32 checksums."""
        return 3 in self.filter_ids

    @property
    def scaleoffset(self) -> int | None:
        """Setting of the scale-offset filter; None without it."""
        setting = self._pipeline.get("scaleoffset")
        return int(setting[1]) if isinstance(setting, tuple) else None

    @property
    def external(self) -> list[tuple[str, int, int]] | None:
        """Name, offset and size of each external file with the data; None if the data are in this file."""
        return self._data.external or None

    @property
    def fillvalue(self) -> Values:
        """Fill value of elements that were never written."""
        plan = self._reading()
        fill = self._data.fill
        if fill is None:
            return values.default_fill(plan.dtype)[0]
        return plan.decode(self._opened.need(), fill, (1,))[0]

    @property
    def is_virtual(self) -> bool:
        """True if the layout is virtual."""
        return self._data.layout == "virtual"

    def virtual_sources(self) -> list[VDSmap]:
        """Returns the sources of a virtual dataset.

        Raises:
            RuntimeError: The layout is not virtual.
        """
        if not self.is_virtual:
            raise RuntimeError("Not a virtual dataset")
        dims = self.shape or ()
        return [
            VDSmap(
                Space(dims, selections.merged(selection)), file, dataset, selections.bounded(selections.merged(source))
            )
            for file, dataset, selection, source in self._data.mappings()
        ]

    @property
    def dims(self) -> DimensionManager:
        """Dimensions, with their labels and scales."""
        self._opened.need()
        return DimensionManager(self)

    @property
    def is_scale(self) -> bool:
        """True if the dataset is a dimension scale."""
        return dimensions.is_scale(self)

    def __len__(self) -> int:
        return self.len()

    def len(self) -> int:
        """Returns the length of the first dimension."""
        shape = self.shape
        if shape is None:
            raise TypeError("an empty dataset has no length")
        if not shape:
            raise TypeError("Attempt to take len() of scalar dataset")
        return shape[0]

    # --- Reading ---

    def _reading(self) -> Plan:
        """Returns the plan for reading the elements."""
        data = self._data
        if self._plan is None:
            self._plan = values.make_plan(data.datatype.description)
        return self._plan

    def __getitem__(self, args: Index) -> Values:
        plan = self._plan if self._state == self._opened.refresh_count else None
        given = args if type(args) is tuple else (args,)
        # The same check as in `_read`, which is not called: a read of one element takes only 4 µs.
        if observing.tracer is None and not is_logged(DEBUG):
            return self._read_plain(given, plan)
        return self._read(given, plan)

    def _read(self, args: Args, plan: Plan | None) -> Values:
        """Reads an index with a plan; logs and traces the read if that is switched on."""
        if observing.tracer is not None or is_logged(DEBUG):
            from hyperchunk.batches import watched_read

            return watched_read(self, args, plan)
        return self._read_plain(args, plan)

    def _read_plain(self, args: Args, plan: Plan | None) -> Values:
        data, dims = self._data, self._dims
        found = None if dims is None else selections.slab(dims, args)
        if found is None:
            return self._read_any(data, args, plan)
        if plan is None:
            plan = self._reading()
        plain, shape = found
        out = plan.empty(shape)
        data.read_slab(plain, plan.conversion, out)
        if plan.resolve is not None:
            out = plan.resolve(self._opened.need(), out)
        return out if out.ndim else out[()]

    def read(self, index: Index = ..., *, progress: ProgressLike = None) -> Values:
        """Returns ``dataset[index]``, and shows how far the read is.

        Args:
            index: An index as in ``dataset[…]``; by default everything.
            progress: Shows the bytes of the array: True, a function of the finished part and the total, or a tqdm
                object (:mod:`hyperchunk.progress`). A box is read in pieces of whole chunks, of about 64 MiB; an index
                with lists, masks or names is one piece.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = numpy.arange(4)
            ...     file["x"].read(numpy.s_[:2], progress=print).tolist()
            16 16
            [0, 1]
        """
        from hyperchunk.batches import read

        return read(self, index, progress)

    @property
    def oindex(self) -> Indexer:
        """Reads by several lists, each for its own dimension: ``oindex[[5, 1], :, [0, 2]]`` has every combination.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = numpy.arange(12).reshape(3, 4)
            ...     file["x"].oindex[[2, 0], [3, 3, 1]].tolist()
            [[11, 11, 9], [3, 3, 1]]
        """
        return Indexer(self, "oindex")

    @property
    def vindex(self) -> Indexer:
        """Reads by several lists, element by element: ``vindex[[5, 1], :, [0, 2]]`` has the points (5, 0) and (1, 2).
        The lists' dimensions come first.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = numpy.arange(12).reshape(3, 4)
            ...     file["x"].vindex[[2, 0], [3, 1]].tolist()
            [11, 1]
        """
        return Indexer(self, "vindex")

    def _read_by(self, args: Args, way: str) -> Values:
        """Reads by an index of `oindex` or `vindex`, as `way` says."""
        if any(arg is None or isinstance(arg, str | RegionReference) for arg in args):
            raise TypeError(f"{way} takes integers, slices, lists and masks")
        data, dims = self._data, self._dims
        if not dims:
            return self[args]
        out = self._read_into_new(data, selections.select(dims, args, way), self._reading())
        return out if out.ndim else out[()]

    def _write_at(self, args: Args, values: npt.ArrayLike, mode: str) -> None:
        """Writes by an index of `oindex` or `vindex`, as `mode` says."""
        read_only()

    def _read_any(self, data: AnyDataset, args: Args, plan: Plan | None) -> Values:
        """Reads by an index that has more than slices and integers."""
        if any(arg is None for arg in args):
            raise TypeError("Indexing with None (or np.newaxis) is not supported")
        whole = args == () or (len(args) == 1 and args[0] is Ellipsis)
        if self._dims is None:
            if whole:
                return Empty(self.dtype)
            raise ValueError("Empty datasets cannot be sliced")
        names = [arg for arg in args if isinstance(arg, str)]
        if names:
            rest = tuple(arg for arg in args if not isinstance(arg, str))
            prior = self.dtype if plan is None else plan.dtype
            return FieldsView(self, prior, names[0] if len(names) == 1 else names)[rest]
        if plan is None:
            plan = self._reading()
        if len(args) == 1 and isinstance(args[0], RegionReference):
            return self._read_region(data, args[0], plan)
        if self._dims == () and not whole:
            raise ValueError("Illegal slicing argument for scalar dataspace")
        selection = selections.everything(self._dims) if whole else selections.select(self._dims, args)
        out = self._read_into_new(data, selection, plan)
        # `[...]` keeps a zero-dimensional array.
        return out if out.ndim or (whole and args != ()) else out[()]

    def _read_into_new(self, data: AnyDataset, selection: Selection, plan: Plan) -> Array:
        out = plan.empty(selection.read_shape)
        if out.size:
            data.read(selection.native, plan.conversion, out)
        found = plan.finish(self._opened.need(), out)
        return found if selection.after is None else selection.after.apply(found)

    def _read_region(self, data: AnyDataset, reference: RegionReference, plan: Plan) -> Array | Empty:
        dataset, selection = resolve_region(self._opened, reference)
        if dataset != self:
            raise ValueError("Region reference must point to this dataset")
        if selection.is_null:
            return Empty(plan.dtype)
        return self._read_into_new(data, selection, plan)

    def _selection(self, args: Index | None) -> Selection:
        """Returns the selection for an argument of `read_direct`."""
        assert self._dims is not None
        if args is None:
            return selections.everything(self._dims)
        args = args if isinstance(args, tuple) else (args,)
        if len(args) == 1 and isinstance(args[0], RegionReference):
            _, selection = resolve_region(self._opened, args[0])
            return selection
        return selections.select(self._dims, args)

    def read_direct(self, dest: Array, source_sel: Index | None = None, dest_sel: Index | None = None) -> None:
        """Reads into an existing array, with conversion to its dtype. Members of records that the dataset lacks keep
        their values.

        Args:
            dest: A C-contiguous, writable array.
            source_sel: Selection in the dataset, made by ``numpy.s_[…]``, or a region reference; by default everything.
            dest_sel: Selection in `dest`, made by ``numpy.s_[…]``; by default everything.

        Raises:
            TypeError: `dest` is not C-contiguous or not writable, or the dataset has a null dataspace.

        Example:
            >>> dataset.read_direct(out, numpy.s_[:100], numpy.s_[100:200])  # doctest: +SKIP
        """
        data = self._data
        if self._dims is None:
            raise TypeError("Empty datasets have no numpy representation")
        if not dest.flags.c_contiguous or not dest.flags.writeable:
            raise TypeError("Array must be C-contiguous and writable")
        source = self._selection(source_sel)
        plan = values.plan_as(data.datatype.description, dest.dtype)
        if dest_sel is not None and not isinstance(dest_sel, tuple):
            dest_sel = (dest_sel,)
        target = selections.everything(dest.shape) if dest_sel is None else selections.select(dest.shape, dest_sel)
        shape = selections.broadcast_shape(source.array_shape, target)
        if (
            dest_sel is None
            and plan.resolve is None
            and source.after is None
            and math.prod(source.array_shape) == dest.size
        ):
            data.read(source.native, plan.conversion, dest)
            return
        found = self._read_into_new(data, source, plan)
        if target.simple:
            # NumPy drops dimensions that are indexed by an integer.
            found = found.reshape([length for length, gone in zip(shape, target.scalar, strict=True) if not gone])
        index = ... if dest_sel is None else selections.numpy_index(dest_sel, dest.shape)
        if dest.dtype.names is not None:
            found = values.over(np.array(dest[index]), found, data.datatype.description)
        dest[index] = found

    def read_chunk(self, offset: Sequence[int]) -> tuple[int, bytes]:
        """Returns the stored form of the chunk whose first element has the indices `offset`: the mask of skipped
        filters (one bit for each, 0 for none), and the bytes.

        Raises:
            InvalidError: No chunk begins at these indices.
            ObjectNotFoundError: The chunk was never written.
        """
        try:
            found = self._data.read_chunk(list(offset))
        except InvalidError as error:
            raise also(error, OSError) from None
        if found is None:
            raise ObjectNotFoundError(f"the chunk at {tuple(offset)} was never written (object {self.name})")
        return found[1], found[0]

    def read_slices(self, indices: Iterable[Index]) -> list[Values]:
        """Reads by several indices in one batch: ``[dataset[index] for index in indices]``, but fetched and decoded
        together.

        Args:
            indices: Indices as in ``dataset[…]``.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = numpy.arange(10)
            >>> with hyperchunk.open("a.h5") as file:
            ...     [part.tolist() for part in file["x"].read_slices([numpy.s_[:2], numpy.s_[8:]])]
            [[0, 1], [8, 9]]
        """
        from hyperchunk.batches import read_slices

        return read_slices(self, indices)

    def batches(
        self,
        size: int,
        *,
        shuffle: int | None = None,
        axis: int = 0,
        drop_last: bool = False,
        window: int | None = None,
    ) -> Batches:
        """Returns the rows in batches, for training. Each iteration is an epoch, which has each row once and reads each
        chunk once; while you use a batch, the next rows are read in the background.

        The shuffling is approximate, so that no chunk is read twice: chunks come in a random order, and rows are
        shuffled within a window of some chunks. Any chunk may be anywhere, but rows of one chunk stay within one window
        of each other. A `window` as long as the dataset shuffles perfectly. Rows that are sorted by class in the file
        need a window that covers several classes.

        Args:
            size: Number of rows in a batch.
            shuffle: Seed; None keeps the file's order. The order depends on the seed and on the number of the epoch.
            axis: Dimension of the rows.
            drop_last: Leaves out a last batch of fewer rows.
            window: Number of rows to shuffle together, rounded up to whole chunks; by default, 64 MiB of them. Two or
                three windows are in memory at a time.

        Raises:
            TypeError: The dataset has no dimensions.
            ValueError: `size`, `axis` or `window` is out of range.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = numpy.arange(5)
            ...     [batch.tolist() for batch in file["x"].batches(2)]
            [[0, 1], [2, 3], [4]]
        """
        from hyperchunk.training import Batches

        return Batches(self, size, shuffle, axis, drop_last=drop_last, window=window)

    def read_future(self, index: Index = ...) -> Future[Values]:
        """Reads ``dataset[index]`` in the background.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = numpy.arange(10)
            >>> with hyperchunk.open("a.h5") as file:
            ...     file["x"].read_future(numpy.s_[:2]).result().tolist()
            [0, 1]
        """
        from hyperchunk.batches import submit

        return submit(self.__getitem__, index)

    async def read_async(self, index: Index = ...) -> Values:
        """Reads ``dataset[index]`` as a coroutine of asyncio."""
        from asyncio import wrap_future

        return await wrap_future(self.read_future(index))

    def __iter__(self) -> Iterator[Values]:
        if not self.shape:
            raise TypeError("Can't iterate over a scalar dataset")
        return (self[index] for index in range(self.shape[0]))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"Dataset.__array__ received {copy=} but memory allocation cannot be avoided on read")
        data = self._data
        if self._dims is None:
            raise TypeError("Empty datasets have no numpy representation")
        plan = self._reading() if dtype is None else values.plan_as(data.datatype.description, np.dtype(dtype))
        return self._read_into_new(data, selections.everything(self._dims), plan)

    def cuda(self, selection: Index = ..., *, device: int = 0) -> CudaArray:
        """Reads ``dataset[selection]`` into the memory of a GPU, for PyTorch, CuPy, JAX and others: see
        :class:`hyperchunk.cuda.CudaArray`.

        Args:
            selection: An index as in ``dataset[…]``; by default everything.
            device: Device number of the GPU.

        Example:
            >>> torch.from_dlpack(file["images"].cuda(numpy.s_[:100]))  # doctest: +SKIP
        """
        from hyperchunk import cuda

        return cuda.read(self, selection, device)

    # --- Access without reading ---

    def arrow(
        self,
        columns: Sequence[str] | None = None,
        rows: Rows | None = None,
        *,
        cells: Cells | None = None,
        strings: Strings | None = None,
        half: Half | None = None,
        enums: Enums | None = None,
        compounds: Compounds | None = None,
        mapped: bool = True,
        batch_rows: int | None = None,
    ) -> Table:
        """Returns a table for Apache Arrow: the members of a compound dataset are its columns; any other dataset is
        one column, and its first dimension counts rows. Arguments as for :meth:`Group.table`.
        """
        from hyperchunk.arrow import as_table

        return as_table(
            self,
            columns,
            rows,
            mapped=mapped,
            batch_rows=batch_rows,
            cells=cells,
            strings=strings,
            half=half,
            enums=enums,
            compounds=compounds,
        )

    @property
    def __array_interface__(self) -> dict[str, object]:
        """NumPy's array interface to the elements in place: contiguous in a local file, in NumPy's representation,
        and not compounds. The file is mapped, so later changes are visible.
        """
        mapped, plan = self._in_memory()
        if mapped is None:
            # NumPy then reads the dataset through `__array__`.
            raise AttributeError("__array_interface__")
        return {
            "shape": self.shape or (),
            "typestr": plan.dtype.str,
            "data": (mapped.address, True),
            "version": 3,
        }

    def _in_memory(self) -> tuple[_core.MappedDataset | None, Plan]:
        """Maps the elements in place; None if that is impossible, or the file changed: then a read raises the error."""
        data, plan = self._data, self._reading()
        # NumPy's array interface cannot describe members' offsets, nor elements that are arrays.
        simple = plan.dtype.names is None and plan.dtype.subdtype is None and plan.dtype == plan.wire
        plain = simple and plan.conversion is None and plan.resolve is None
        if self._mapped is None and plain and self.size and isinstance(data, _core.Dataset):
            mapped = _core.MappedDataset.map_dataset(data)
            if mapped is not None and mapped.nbytes == self.nbytes:
                self._mapped = mapped
        if self._mapped is not None:
            assert self._dims is not None
            first = selections.select(self._dims, (0,) * len(self._dims) or (...,))
            try:
                # A read, unlike the mapping, checks that the file has not changed.
                self._read_into_new(data, first, plan)
            except ChangedError:
                return None, plan
        return self._mapped, plan

    def __dlpack__(self, **options: Unpack[DlpackOptions]) -> CapsuleType:
        """Exports the elements through DLPack: in place if they can be mapped and the consumer supports read-only
        memory and requests no copy; otherwise they are read.
        """
        wants, version = options.get("copy"), options.get("max_version")
        mapped, _ = self._in_memory()
        if mapped is not None and not wants and version is not None and version >= (1, 0):
            return np.asarray(self).__dlpack__(**options)
        if wants is False:
            raise BufferError(f"the elements can only be read into new memory (object {self.name})")
        options["copy"] = None
        return np.asarray(self[()]).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the device: host memory."""
        return (1, 0)

    # --- Views ---

    def astype(self, dtype: npt.DTypeLike) -> AsTypeView | Dataset:
        """Returns a view whose values are converted to `dtype` on reading.

        Example:
            >>> dataset.astype("f8")[:100]  # doctest: +SKIP
        """
        wanted = np.dtype(dtype)
        description = self._data.datatype.description
        if wanted.kind == "T":
            if description[0] not in ("string", "vlen-string"):
                raise TypeError(f"dset.astype({wanted}) can only be used on datasets with an HDF5 string datatype")
        elif wanted == self.dtype:
            return self
        return AsTypeView(self, values.plan_as(description, wanted))

    def asstr(self, encoding: str | None = None, errors: str = "strict") -> AsStrView:
        """Returns a view whose strings are decoded on reading, with the stored encoding or another.

        Raises:
            TypeError: The dataset has no strings.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["names"] = ["Zürich", "Bern"]
            ...     file["names"].asstr()[0]
            'Zürich'
        """
        info = check_string_dtype(self.dtype)
        if info is None:
            raise TypeError("dset.asstr() can only be used on datasets with an HDF5 string datatype")
        return AsStrView(self, encoding or info.encoding, errors)

    def fields(self, names: str | list[str] | tuple[str, ...]) -> FieldsView:
        """Returns a view of some members of a compound; a single name selects the member itself.

        Example:
            >>> dataset.fields(["x", "y"])[:100]  # doctest: +SKIP
        """
        return FieldsView(self, self.dtype, names)

    def iter_chunks(self, sel: slice | int | tuple[slice | int, ...] | None = None) -> ChunkIterator:
        """Iterates over the chunks: the intersection of each with `sel` (by default all), as slices.

        Raises:
            TypeError: The layout is not chunked.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     list(file.create_dataset("x", (5,), "f4", chunks=(3,)).iter_chunks())
            [(slice(0, 3, 1),), (slice(3, 5, 1),)]
        """
        return ChunkIterator(self.shape or (), self.chunks, sel)

    def query(self, predicate: str, box: BoxLike = None) -> Query:
        """Finds the values that satisfy `predicate`, such as ``"value > 12"`` (:func:`hyperchunk.query`).

        Args:
            predicate: A condition on the values.
            box: A part of the dataset: a slice without a step for each dimension; by default all.

        Raises:
            UnsupportedError: There are no statistics of the dataset.
        """
        return Query(self, predicate, box)

    def zones(self, box: BoxLike = None) -> Zones:
        """Returns the zones with their statistics, if there are any (:func:`hyperchunk.query`)."""
        return Zones(self, box)

    def refresh(self) -> None:
        """Reloads the dataset with its current extent and values. Objects that you open in the file after that are
        current, too; other datasets that are already open keep their state until they are refreshed themselves.
        """
        name = self.name
        self._opened.renew()
        self._name = name
        self._find_again()
        self._core_data = self._plan = self._dims = self._mapped = None

    def follow(
        self,
        axis: int = 0,
        *,
        start: int | None = None,
        timeout: float | None = None,
        poll: float | None = None,
        patience: float = 10.0,
        max_rows: int | None = None,
    ) -> Follower:
        """Yields new rows as another program writes them, in arrays of one row or more: ``for block in …``, or
        ``async for block in …``. Works for files in SWMR mode (``swmr=True``), other local files, objects in stores
        that are replaced, and sharded stores. It ends when the writer has closed the file, as far as the file shows
        that; after `timeout`; or by ``stop()``.

        The dataset itself keeps its state, and its file gives up its lock, so that others may write it.

        Args:
            axis: Axis along which the dataset grows; its indices are called rows here.
            start: Index of the first row to yield; by default the rows after the dataset's current extent.
            timeout: End after this number of seconds without new rows; by default never.
            poll: Seconds between checks of the file; by default 0.001 in SWMR mode, 0.02 for other local files, and 1
                over a network.
            patience: Number of seconds for which the file may be locked, missing, or in a state that cannot be read,
                before an error is raised.
            max_rows: Maximum number of rows in a block; by default about 64 MiB.

        Raises:
            ChangedError: The dataset became shorter.
            LockedError, CorruptError and others: The file could not be read for `patience` seconds, or when `timeout`
                was over.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = numpy.arange(6).reshape(3, 2)
            >>> with hyperchunk.open("a.h5") as file:
            ...     for block in file["x"].follow(start=1, timeout=0.1):
            ...         print(block.tolist())
            [[2, 3], [4, 5]]
        """
        from hyperchunk.following import Follower

        return Follower(self, axis, start=start, timeout=timeout, poll=poll, patience=patience, max_rows=max_rows)

    def flush(self) -> None:
        """Does nothing: a file opened for reading has nothing to write."""

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 dataset>"
        name = "(anonymous)" if self.name is None else f'"{printable(posixpath.basename(self.name))}"'
        return f'<HDF5 dataset {name}: shape {self.shape}, type "{self.dtype.str}">'

    def resize(self, size: int | tuple[int, ...], axis: int | None = None) -> None:
        """Changes the extent, in a file that is being written."""
        raise refusal() if self.chunks is not None else also(refusal(), TypeError)

    __setitem__ = write_direct = make_scale = append = write_chunk = write_chunks = read_only
    write_async = write_future = write_chunk_future = read_only
