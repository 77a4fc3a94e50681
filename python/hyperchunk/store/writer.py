"""Writers of stores, one for each process."""

from __future__ import annotations

import os
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

import numpy as np
import numpy.typing as npt

from hyperchunk import _core, dtypes, selections
from hyperchunk.store import schema, tables
from hyperchunk.store.analysis import Report
from hyperchunk.store.conversion import as_elements
from hyperchunk.typing import Array, DatasetOptions, Dtype, DtypeOrDatatype, Index, ShapeLike
from hyperchunk.write.file import WritableFile
from hyperchunk.write.group import WritableGroup

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from hyperchunk.store.handle import Store
    from hyperchunk.write.attributes import WritableAttributes
    from hyperchunk.write.dataset import WritableDataset

# Dtype that no array has: forces a conversion.
_UNMATCHED_DTYPE = np.dtype([("nobody's", "V1")])


class Writer:
    """Writer of a store; made by :meth:`Store.writer`. Thread-safe, but bound to its process: a forked child must
    make its own.

    ``writer[name]`` is a dataset; assignments to selections of it go to the log of this process. :attr:`structure` is
    an HDF5 file of the writer's own, for groups, attributes, links and small data; the commit merges the files of all
    writers.

    Example:
        >>> run = hyperchunk.store.create("run.h5", {"/energy": hyperchunk.store.Dataset((4,), "f4")})
        >>> with run.writer() as writer:
        ...     writer["/energy"][1:3] = [5, 6]
        >>> run.commit().number
        1
        >>> run.open()["energy"][:].tolist()
        [0.0, 5.0, 6.0, 0.0]
    """

    def __init__(self, store: Store, core: _core.StoreWriter, definitions: list[_core.StoreDefinition]) -> None:
        self._store = store
        self._core = core
        # No dataset objects: they refer to the writer, and the reference cycle would keep its log open until garbage
        # collection.
        self._datasets: dict[bytes, tuple[int, _core.StoreDefinition, Dtype]] = {}
        # Identities of the datasets, also of those that were moved since they were created.
        self._identities: set[str] = set()
        # Cache by name: the dataset's number, and the dtype of arrays that need no conversion.
        self._named: dict[str | bytes, tuple[int, Dtype]] = {}
        self._own = _Structure()
        self._ticket: bytes | None = None
        # Programs often end without `close()`. As files do, the writer then closes itself.
        self._finalizer = self._finalize()
        for definition in definitions:
            self._add(definition)

    def _finalize(self) -> weakref.finalize[[_core.StoreWriter, _Structure, int], Self]:
        return weakref.finalize(self, _close, self._core, self._own, os.getpid())

    def _add(self, definition: _core.StoreDefinition) -> StoredDataset:
        dtype = dtypes.to_dtype(definition.datatype.description)
        self._identities.add(definition.marker())
        self._datasets[definition.path] = (self._core.define(definition), definition, dtype)
        return self[definition.path]

    @property
    def id(self) -> str:
        """Id of the writer: 32 hexadecimal digits."""
        return self._core.id

    @property
    def structure(self) -> WritableFile:
        """The writer's own HDF5 file, with h5py's interface for groups, attributes, links, and datasets that a store
        cannot hold (scalars, strings).
        """
        if self._own.file is None:
            self._own.file = schema.empty()
            # The last finalizer runs first when the interpreter exits: before the one that closes the file.
            if self._finalizer.detach() is not None:
                self._finalizer = self._finalize()
        return self._own.file

    @property
    def attrs(self) -> WritableAttributes:
        """Attributes of the root group."""
        return self.structure.attrs

    def create_group(self, name: str) -> WritableGroup:
        """Creates a group, and the groups above it; an existing group is returned.

        Raises:
            ValueError: A dataset has its name, or that of a group above it.
        """
        if name.strip("/"):
            self._check_above(schema.absolute(name) + b"/")
        found = self.structure.require_group(name)
        assert isinstance(found, WritableGroup)
        return found

    def _check_above(self, path: bytes) -> None:
        """Refuses a path that leads through a dataset of the store."""
        parts = path.split(b"/")[1:-1]
        for length in range(1, len(parts) + 1):
            above = b"/" + b"/".join(parts[:length])
            if above in self._datasets:
                raise ValueError(
                    f"cannot create {path.rstrip(b'/').decode(errors='replace')}: "
                    f"{above.decode(errors='replace')} is a dataset of the store; choose another name"
                )

    def create_dataset(
        self,
        name: str | bytes,
        shape: ShapeLike | None = None,
        dtype: DtypeOrDatatype | None = None,
        data: npt.ArrayLike | None = None,
        **options: Unpack[DatasetOptions],
    ) -> StoredDataset | WritableDataset:
        """Creates a dataset, as h5py does. Writers that create it identically create one dataset, without
        communication; different definitions are a conflict, which the commit reports. Scalars and variable-length
        strings go to :attr:`structure`.

        Args:
            name: Path of the dataset.
            shape, dtype, data, options: As for :meth:`hyperchunk.write.group.WritableGroup.create_dataset`.

        Raises:
            ValueError: The dataset exists.

        Example:
            >>> run = hyperchunk.store.create("run.h5")
            >>> with run.writer() as writer:
            ...     writer.create_dataset("energy", (4,), "f4")[:] = 1
            >>> run.commit().number
            1
        """
        path = schema.absolute(name)
        if path in self._datasets:
            raise ValueError(f"Unable to create dataset (name already exists): {path.decode(errors='replace')}")
        self._check_above(path)
        description, _, element_dtype, array = self.structure._type(dtype, data)
        from hyperchunk.write import creation

        extent = creation.extent(shape, array, element_dtype)
        if not schema.is_diverted(description, extent):
            return self.structure.create_dataset(name, shape, dtype, data, **options)
        incarnation = 0
        definition = schema.define(self.structure, path, description, element_dtype, extent, options)
        # A dataset that was created here and moved away keeps its identity, and its data.
        while definition.marker() in self._identities:
            incarnation += 1
            definition = schema.define(self.structure, path, description, element_dtype, extent, options, incarnation)
        schema.show(self.structure, definition, bool(options.get("track_order")))
        made = self._add(definition)
        if array is not None:
            made[...] = array
        return made

    def __getitem__(self, name: str | bytes) -> StoredDataset:
        """Returns the dataset of that name.

        Raises:
            KeyError: This writer has no such dataset.
        """
        path = schema.absolute(name)
        try:
            return StoredDataset(self, *self._datasets[path])
        except KeyError:
            known = ", ".join(sorted(path.decode(errors="replace") for path in self._datasets)) or "none"
            raise KeyError(f"this writer has no dataset {path.decode(errors='replace')} (it has: {known})") from None

    def __contains__(self, name: str | bytes) -> bool:
        return schema.absolute(name) in self._datasets

    def write(self, name: str | bytes, start: int | tuple[int, ...], values: npt.ArrayLike) -> None:
        """Writes an array to a dataset, with its first element at the indices `start`."""
        # Large writes evict this code from the processor's cache, so it makes as few calls as possible.
        known = self._named.get(name)
        if known is not None and type(values) is np.ndarray and values.dtype == known[1] and values.flags.c_contiguous:
            first = (start,) if type(start) is int else start
            if type(first) is tuple:
                self._core.write_box(known[0], first, values.shape, values)
                return
        found = self[name]
        found.write(start, values)
        if known is None:
            dtype = found.dtype
            self._named[name] = (found._number, dtype if dtype.kind in "iuf" else _UNMATCHED_DTYPE)

    @property
    def fragments(self) -> list[str]:
        """Arrow files that it has written (``segments="arrow"``)."""
        return [str(path) for path in self._core.fragments]

    def write_batch(self, group: str, batch: tables.Columns, row: int) -> None:
        """Writes rows of the datasets of a group, from `row` on: a dictionary of columns, or an Arrow object (a
        batch, a table, a polars data frame).
        """
        columns = tables.table_columns(self, group, batch)
        for dataset, values in columns:
            dataset.write((row, *(0 for _ in dataset.shape[1:])), values)

    def append(self, group: str, batch: tables.Columns) -> None:
        """Appends rows to the datasets of a group; their position is assigned by the commit
        (:meth:`StoredDataset.append`).

        Raises:
            KeyError: The writer has no such dataset.
            ValueError: The columns have different lengths, or nulls.

        Example:
            >>> columns = {f"/t/{name}": hyperchunk.store.Dataset((0,), "f4", maxshape=(None,)) for name in "xy"}
            >>> run = hyperchunk.store.create("run.h5", columns)
            >>> with run.writer() as writer:
            ...     writer.append("t", {"x": [1, 2], "y": [3, 4]})
            >>> run.commit().number
            1
        """
        columns = tables.table_columns(self, group, batch)
        for dataset, values in columns:
            dataset.append(values)

    @property
    def analyses(self) -> list[Report]:
        """Execution statistics of the analyses that run on its data."""
        return [Report(*report) for report in self._core.analyses]

    def flush(self) -> bytes:
        """Writes all pending data; returns a ticket, with which everything written until now can be committed."""
        self._own.put(self._core)
        return self._core.flush()

    def close(self) -> bytes:
        """Writes all pending data and ends the log; returns the ticket."""
        if self._ticket is None:
            self._finalizer.detach()
            self._own.put(self._core)
            self._ticket = self._core.close()
        return self._ticket

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<writer {self.id} of {self._store.path!r}>"


class _Structure:
    """A writer's own HDF5 file, if it has one. Separate from the writer, which it may outlive."""

    __slots__ = ("file",)

    def __init__(self) -> None:
        self.file: WritableFile | None = None

    def put(self, core: _core.StoreWriter) -> None:
        """Writes the file into the writer's log."""
        if self.file is not None:
            self.file.flush()
            core.put_image(self.file.getbuffer())


def _close(core: _core.StoreWriter, own: _Structure, process: int) -> None:
    """Closes a writer that no longer exists. A forked child leaves its parent's writer alone."""
    if os.getpid() == process:
        own.put(core)
        core.close()


class StoredDataset:
    """A dataset of a store, for one of its writers.

    Example:
        >>> run = hyperchunk.store.create("run.h5", {"/e": hyperchunk.store.Dataset((0,), "f4", maxshape=(None,))})
        >>> with run.writer() as writer:
        ...     writer["/e"].append([1, 2])
        >>> run.commit().number
        1
        >>> run.open()["e"].shape
        (2,)
    """

    __slots__ = ("_core", "_definition", "_dtype", "_number", "_writer")

    def __init__(self, writer: Writer, number: int, definition: _core.StoreDefinition, dtype: Dtype) -> None:
        self._writer = writer
        self._core = writer._core
        self._number = number
        self._definition = definition
        self._dtype = dtype

    @property
    def name(self) -> str:
        """Path of the dataset."""
        return self._definition.path.decode("utf-8", "surrogateescape")

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent, as this writer sees it."""
        return tuple(self._core.shape(self._number))

    @property
    def maxshape(self) -> tuple[int | None, ...]:
        """Maximum extent; None in an unlimited dimension."""
        return tuple(self._definition.max_shape)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Extent of a chunk; None if the layout is contiguous."""
        chunks = self._definition.chunks
        return None if chunks is None else tuple(chunks)

    @property
    def dtype(self) -> Dtype:
        """Dtype of the elements."""
        return self._dtype

    @property
    def attrs(self) -> WritableAttributes:
        """Attributes set by this writer; the commit merges them."""
        structure = self._writer.structure
        path: object = self._definition.path
        if path not in structure:
            schema.show(structure, self._definition)
        found: WritableAttributes = structure[self._definition.path].attrs
        return found

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, args: Index, values: npt.ArrayLike) -> None:
        args = args if isinstance(args, tuple) else (args,)
        dims = self.shape
        array = as_elements(values, self._base)
        inner = self._dtype.subdtype[1] if self._dtype.subdtype is not None else ()
        outer = array.shape[: array.ndim - len(inner)]
        slab = selections.slab(dims, args)
        if slab is not None and slab[1] == outer:
            self._core.write_slab(self._number, slab[0], _flat(array))
            return
        whole = args == () or (len(args) == 1 and args[0] is Ellipsis)
        selection = selections.everything(dims) if whole else selections.select(dims, args, exact=True)
        if not selection.simple:
            array = selection.stored(array, inner)
            if array.size:
                self._core.write(self._number, selection.native, _flat(array))
            return
        wanted = int(np.prod(selection.shape, dtype=np.int64))
        shape = selections.broadcast_shape(outer, selection)
        if wanted == 0:
            return
        if int(np.prod(outer, dtype=np.int64)) != wanted:
            array = np.broadcast_to(array.reshape(shape + inner), selection.shape + inner)
        self._core.write(self._number, selection.native, _flat(array))

    @property
    def _base(self) -> Dtype:
        return self._dtype if self._dtype.subdtype is None else self._dtype.subdtype[0]

    def write(self, start: int | tuple[int, ...], values: npt.ArrayLike) -> None:
        """Writes an array with its first element at the indices `start`."""
        array = as_elements(values, self._base)
        inner = self._dtype.subdtype[1] if self._dtype.subdtype is not None else ()
        count = array.shape[: array.ndim - len(inner)]
        first = (start,) if isinstance(start, int | np.integer) else tuple(start)
        self._core.write_box(self._number, [int(at) for at in first], list(count), _flat(array))

    def append(self, rows: npt.ArrayLike) -> None:
        """Appends rows after the existing ones, at a position assigned by the commit: writers need not coordinate.
        Rows of one writer keep their order; in one commit, writers of one priority follow each other in the order in
        which they began. The first dimension must be unlimited.

        Raises:
            TypeError: The shape of the rows does not match the dataset's.
        """
        array = as_elements(rows, self._base)
        inner = self._dtype.subdtype[1] if self._dtype.subdtype is not None else ()
        outer = array.shape[: array.ndim - len(inner)]
        row = self.shape[1:]
        if outer[-len(row) :] != row if row else False:
            raise TypeError(f"expected rows of shape {row}, got an array of shape {array.shape}")
        self._core.append(self._number, _flat(array))

    def write_chunk(self, offset: tuple[int, ...], data: Buffer | Array, filter_mask: int = 0) -> None:
        """Writes a chunk in its stored form, encoded by the filters whose bits are clear in the mask (h5py's
        ``write_direct_chunk``).
        """
        self._core.write_chunk(self._number, [int(at) for at in offset], filter_mask, data)

    def resize(self, size: int | tuple[int, ...], axis: int | None = None) -> None:
        """Changes the extent. The commit takes, for each dimension, the largest extent that a writer set, or the
        smallest if none enlarged it.
        """
        dims = list(self.shape)
        if axis is not None:
            dims[axis] = int(size)  # type: ignore[arg-type]
        else:
            dims = [int(size)] if isinstance(size, int | np.integer) else [int(length) for length in size]
        self._core.resize(self._number, dims)

    def analyze(self, start: int | tuple[int, ...], values: npt.ArrayLike) -> None:
        """Runs the analyses on elements that were written earlier.

        Args:
            start: Index of the first element.
            values: The elements.

        Example:
            >>> writer["/energy"].analyze(0, values)  # doctest: +SKIP
        """
        array = as_elements(values, self._base)
        first = (start,) if isinstance(start, int | np.integer) else tuple(start)
        self._core.replay(self._number, [int(at) for at in first], list(array.shape), _flat(array))

    def _announce(self, record: bytes, *, runs: bool) -> None:
        """Attaches an analysis, or detaches it if `runs` is False."""
        self._core.announce(self._number, record, runs)

    def __repr__(self) -> str:
        return f"<dataset {self.name!r} of a writer: shape {self.shape}, type {self._dtype.str!r}>"


def _flat(array: Array) -> Array:
    """Returns the bytes of an array in C order."""
    return np.ascontiguousarray(array).reshape(-1).view("u1")
