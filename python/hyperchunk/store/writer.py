"""Writers of stores: one for each process."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from hyperchunk import _core, dtypes, selections
from hyperchunk.dtypes import Dtype
from hyperchunk.store import schema, tables
from hyperchunk.store.analysis import Report
from hyperchunk.write.file import WritableFile

if TYPE_CHECKING:
    from hyperchunk.attributes import AttributeManager
    from hyperchunk.store.handle import Store

# No array has it.
_OTHER = np.dtype([("nobody's", "V1")])


class Writer:
    """Writes to a store; made by :meth:`Store.writer`. It may be used from many threads, and belongs to its process: a
    process that is forked from it makes its own.

    ``writer[name]`` is a dataset; what is assigned to parts of it goes to the log of this process. :attr:`structure` is
    an HDF5 file of the writer's own, for groups, attributes, links and small data; those of all writers become one at
    the commit."""

    def __init__(self, store: Store, core: _core.StoreWriter, definitions: list[_core.StoreDefinition]) -> None:
        self._store = store
        self._core = core
        # No datasets, which hold their writer: its log would stay open until the next collection of cycles.
        self._datasets: dict[bytes, tuple[int, _core.StoreDefinition, Dtype]] = {}
        # By the names that were used: the number, and the dtype of arrays that are written as they are.
        self._named: dict[str | bytes, tuple[int, Dtype]] = {}
        self._structure: WritableFile | None = None
        self._ticket: bytes | None = None
        for definition in definitions:
            self._add(definition)

    def _add(self, definition: _core.StoreDefinition) -> StoredDataset:
        shown = dtypes.dtype_of(definition.datatype.description)
        self._datasets[definition.path] = (self._core.define(definition), definition, shown)
        return self[definition.path]

    @property
    def id(self) -> str:
        """Its name: 32 hexadecimal digits."""
        return self._core.id

    @property
    def structure(self) -> WritableFile:
        """This writer's own HDF5 file: h5py's way to make groups, attributes, links, and datasets that are not data of
        the store (scalars, strings)."""
        if self._structure is None:
            self._structure = schema.empty()
        return self._structure

    @property
    def attrs(self) -> AttributeManager:
        """The attributes of the root group."""
        return self.structure.attrs

    def create_group(self, name: str) -> Any:
        """Makes a group."""
        return self.structure.require_group(name)

    def create_dataset(
        self,
        name: str | bytes,
        shape: int | tuple[int, ...] | None = None,
        dtype: npt.DTypeLike | None = None,
        data: Any = None,
        **options: Any,
    ) -> Any:
        """Makes a dataset, as h5py does. All writers that make it alike make one dataset, without asking each other;
        those that make it differently have a conflict, which the commit names. Scalars and strings of any length go to
        :attr:`structure`."""
        path = schema.absolute(name)
        if path in self._datasets:
            raise ValueError(f"Unable to create dataset (name already exists): {path.decode(errors='replace')}")
        description, _, shown, array = self.structure._type(dtype, data)
        from hyperchunk.write import creation

        extent = creation.extent(shape, array, shown)
        if not schema.is_diverted(description, extent):
            return self.structure.create_dataset(name, shape, dtype, data, **options)
        definition = schema.define(self.structure, path, description, shown, extent, options)
        schema.show(self.structure, definition, bool(options.get("track_order")))
        made = self._add(definition)
        if array is not None:
            made[...] = array
        return made

    def __getitem__(self, name: str | bytes) -> StoredDataset:
        """The dataset of that name."""
        path = schema.absolute(name)
        try:
            return StoredDataset(self, *self._datasets[path])
        except KeyError:
            known = ", ".join(sorted(path.decode(errors="replace") for path in self._datasets)) or "none"
            raise KeyError(f"this writer has no dataset {path.decode(errors='replace')} (it has: {known})") from None

    def __contains__(self, name: str | bytes) -> bool:
        return schema.absolute(name) in self._datasets

    def write(self, name: str | bytes, start: int | tuple[int, ...], values: npt.ArrayLike) -> None:
        """Writes an array where it begins at `start`."""
        # Between large writes nothing of this is in the processor's cache: each call that is saved counts.
        known = self._named.get(name)
        if known is not None and type(values) is np.ndarray and values.dtype == known[1] and values.flags.c_contiguous:
            first = (start,) if type(start) is int else start
            if type(first) is tuple:
                self._core.write_box(known[0], first, values.shape, values)
                return
        found = self[name]
        found.write(start, values)
        if known is None:
            shown = found.dtype
            self._named[name] = (found._number, shown if shown.kind in "iuf" else _OTHER)

    @property
    def fragments(self) -> list[str]:
        """The Arrow files that it has written (``segments="arrow"``)."""
        return [str(path) for path in self._core.fragments]

    def write_batch(self, group: str, batch: Any, row: int) -> None:
        """Writes rows of the datasets of a group, from `row` on: columns with their names, in a dictionary or anything
        of Arrow's (a batch, a table, a data frame of polars)."""
        columns = tables.columns_of(self, group, batch)
        for dataset, values in columns:
            dataset.write((row, *(0 for _ in dataset.shape[1:])), values)

    def append(self, group: str, batch: Any) -> None:
        """Puts rows of the datasets of a group behind what is there when this is committed
        (:meth:`StoredDataset.append`)."""
        columns = tables.columns_of(self, group, batch)
        for dataset, values in columns:
            dataset.append(values)

    @property
    def analyses(self) -> list[Report]:
        """What became of the analyses that look at what it writes."""
        return [Report(*report) for report in self._core.analyses]

    def flush(self) -> bytes:
        """Writes out what waits; returns a ticket, with which what was written until now can be committed."""
        self._put_structure()
        return self._core.flush()

    def close(self) -> bytes:
        """Writes out what waits and ends the log; returns the ticket."""
        if self._ticket is None:
            self._put_structure()
            self._ticket = self._core.close()
        return self._ticket

    def _put_structure(self) -> None:
        if self._structure is not None:
            self._structure.flush()
            self._core.put_image(self._structure.getbuffer())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<writer {self.id} of {self._store.path!r}>"


class StoredDataset:
    """A dataset of a store, in one of its writers."""

    __slots__ = ("_core", "_definition", "_number", "_shown", "_writer")

    def __init__(self, writer: Writer, number: int, definition: _core.StoreDefinition, shown: Dtype) -> None:
        self._writer = writer
        self._core = writer._core
        self._number = number
        self._definition = definition
        self._shown = shown

    @property
    def name(self) -> str:
        """Its path."""
        return self._definition.path.decode("utf-8", "surrogateescape")

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extent, as this writer has it."""
        return tuple(self._core.shape(self._number))

    @property
    def maxshape(self) -> tuple[int | None, ...]:
        """How far each dimension may grow; None for any extent."""
        return tuple(self._definition.max_shape)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The extent of its chunks, if it has any."""
        chunks = self._definition.chunks
        return None if chunks is None else tuple(chunks)

    @property
    def dtype(self) -> Dtype:
        """The dtype of its elements."""
        return self._shown

    @property
    def attrs(self) -> AttributeManager:
        """Its attributes: what is set here is this writer's, and merged at the commit."""
        structure = self._writer.structure
        path: Any = self._definition.path
        if path not in structure:
            schema.show(structure, self._definition)
        found: AttributeManager = structure[path].attrs
        return found

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, args: Any, values: npt.ArrayLike) -> None:
        args = args if isinstance(args, tuple) else (args,)
        dims = self.shape
        array = np.asarray(values, self._base)
        inner = self._shown.subdtype[1] if self._shown.subdtype is not None else ()
        outer = array.shape[: array.ndim - len(inner)]
        slab = selections.slab(dims, args)
        if slab is not None and slab[1] == outer:
            self._core.write_slab(self._number, slab[0], _flat(array))
            return
        whole = args == () or (len(args) == 1 and args[0] is Ellipsis)
        selection = selections.everything(dims) if whole else selections.select(dims, args)
        wanted = int(np.prod(selection.shape, dtype=np.int64))
        shape = selections.broadcast_shape(outer, selection)
        if wanted == 0:
            return
        if int(np.prod(outer, dtype=np.int64)) != wanted:
            array = np.broadcast_to(array.reshape(shape + inner), selection.shape + inner)
        self._core.write(self._number, selection.choice, _flat(array))

    @property
    def _base(self) -> Dtype:
        return self._shown if self._shown.subdtype is None else self._shown.subdtype[0]

    def write(self, start: int | tuple[int, ...], values: npt.ArrayLike) -> None:
        """Writes an array where it begins at `start`."""
        array = np.asarray(values, self._base)
        inner = self._shown.subdtype[1] if self._shown.subdtype is not None else ()
        count = array.shape[: array.ndim - len(inner)]
        first = (start,) if isinstance(start, int | np.integer) else tuple(start)
        self._core.write_box(self._number, [int(at) for at in first], list(count), _flat(array))

    def append(self, rows: npt.ArrayLike) -> None:
        """Puts rows behind what is there when this is committed, wherever that ends: writers need not agree who writes
        where. Rows of one writer stay in their order; those of several follow each other, in the order of priority and
        id. The dataset must be without a bound along its first dimension."""
        array = np.asarray(rows, self._base)
        inner = self._shown.subdtype[1] if self._shown.subdtype is not None else ()
        outer = array.shape[: array.ndim - len(inner)]
        row = self.shape[1:]
        if outer[-len(row) :] != row if row else False:
            raise TypeError(f"rows of {row} cannot be made of an array of {array.shape}")
        self._core.append(self._number, _flat(array))

    def write_chunk(self, offset: tuple[int, ...], data: Any, filter_mask: int = 0) -> None:
        """Writes a chunk as it is to be stored, through the filters that the mask does not leave out (h5py's
        ``write_direct_chunk``)."""
        self._core.write_chunk(self._number, [int(at) for at in offset], filter_mask, data)

    def resize(self, size: int | tuple[int, ...], axis: int | None = None) -> None:
        """Gives it another extent. The committed extent is the largest that any writer gave it."""
        dims = list(self.shape)
        if axis is not None:
            dims[axis] = int(size)  # type: ignore[arg-type]
        else:
            dims = [int(size)] if isinstance(size, int | np.integer) else [int(length) for length in size]
        self._core.resize(self._number, dims)

    def look_at(self, start: int | tuple[int, ...], values: npt.ArrayLike) -> None:
        """Lets the analyses look at elements that were written earlier, where they begin at `start`."""
        array = np.asarray(values, self._base)
        first = (start,) if isinstance(start, int | np.integer) else tuple(start)
        self._core.look_at(self._number, [int(at) for at in first], list(array.shape), _flat(array))

    def _announce(self, record: bytes, *, runs: bool) -> None:
        self._core.announce(self._number, record, runs)

    def __repr__(self) -> str:
        return f"<dataset {self.name!r} of a writer: shape {self.shape}, type {self._shown.str!r}>"


def _flat(array: npt.NDArray[Any]) -> Any:
    """The bytes of an array, in C order."""
    return np.ascontiguousarray(array).reshape(-1).view("u1")
