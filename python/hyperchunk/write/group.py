"""Groups of files that are being written."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from hyperchunk import _core, dtypes
from hyperchunk.dataset import Dataset
from hyperchunk.datatype import Datatype
from hyperchunk.dtypes import Description, Empty, as_empty
from hyperchunk.exceptions import (
    HyperchunkError,
    InvalidError,
    ObjectNotFoundError,
    SourceNotFoundError,
    UnsupportedError,
    also,
)
from hyperchunk.group import Group, wrap
from hyperchunk.links import ExternalLink, HardLink, SoftLink, from_h5py
from hyperchunk.objects import AnyObject, HLObject, Opened, encode
from hyperchunk.references import Reference
from hyperchunk.typing import (
    Array,
    DatasetOptions,
    Dtype,
    DtypeOrDatatype,
    ElementIndex,
    Index,
    Member,
    ShapeLike,
    WritableMember,
)
from hyperchunk.virtual import VirtualLayout
from hyperchunk.write import creation, datatypes, elements
from hyperchunk.write.dataset import WritableDataset
from hyperchunk.write.mapping import MutableNames
from hyperchunk.write.objects import WritableObject
from hyperchunk.write.opened import Writing


class LikeOptions(DatasetOptions, total=False):
    """Options of a dataset that is made like another one."""

    shape: ShapeLike
    dtype: DtypeOrDatatype | None


class WritableDatatype(WritableObject, Datatype):
    """A committed datatype of a file that is being written.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["kelvin"] = numpy.dtype("f4")
        ...     type(file["kelvin"]).__name__
        'WritableDatatype'
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __setitem__(self, index: Index, value: object) -> NoReturn: ...


class WritableGroup(MutableNames, WritableObject, Group):
    """A group of a file that is being written.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     group = file.create_group("day-1")
        ...     group["x"] = [1, 2, 3]
        ...     group.attrs["units"] = "K"
        ...     list(group)
        ['x']
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, name: str | bytes | Reference) -> WritableMember: ...
        @overload
        def __getitem__(self, name: ElementIndex) -> NoReturn: ...
        def __getitem__(self, name: ElementIndex | str | bytes | Reference) -> WritableMember: ...

    def dataset(self, name: str | bytes | Reference) -> WritableDataset:
        """Returns ``group[name]``, which must be a dataset: see :meth:`hyperchunk.Group.dataset`."""
        return cast("WritableDataset", super().dataset(name))

    def group(self, name: str | bytes | Reference) -> WritableGroup:
        """Returns ``group[name]``, which must be a group: see :meth:`hyperchunk.Group.dataset`."""
        return cast("WritableGroup", super().group(name))

    # --- Groups ---

    def create_group(
        self, name: str | bytes | None, track_order: bool | None = None, *, track_times: bool | None = None
    ) -> WritableGroup:
        """Creates a group, and the missing groups of its path. Without a name, it is anonymous: no link points to it
        yet. `track_order` stores the creation order of links and attributes, `track_times` the creation time of the
        group.

        Raises:
            NameExistsError: An object of that name exists.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file.create_group("days/1").name
            '/days/1'
        """
        with self._new_link(name) as (parent, last):
            made = parent.create_group(last, bool(track_order))
        if track_times:
            made.track_times()
        return WritableGroup(self._opened, made, self._made(name))

    # --- Datasets ---

    def create_dataset(
        self,
        name: str | bytes | None,
        shape: ShapeLike | None = None,
        dtype: DtypeOrDatatype | None = None,
        data: object = None,
        **options: Unpack[DatasetOptions],
    ) -> WritableDataset:
        """Creates a dataset.

        Args:
            name: Path, whose missing groups are created; None for an anonymous dataset, to which no link points yet.
            shape: Extent, by default the one of `data`.
            dtype: Dtype, or a committed datatype; by default the one of `data`.
            data: Values: an array, or anything that NumPy makes one of; or :class:`hyperchunk.Empty`.
            options: h5py's: ``chunks`` (an extent, or True for a guess), ``maxshape``, ``compression`` with
                ``compression_opts``, ``shuffle``, ``fletcher32``, ``scaleoffset``, ``fillvalue``, ``fill_time``,
                ``track_order``, ``track_times``, ``external``, ``allow_unknown_filter``; and two of our own.
                ``filters`` is a preset (``"deflate"``, ``"fast"``, ``"small"``, ``"snappy"``, ``"none"``), or a list
                of filters: names, numbers with their options, or objects of hdf5plugin. ``layout`` is ``"compact"``,
                ``"contiguous"`` or ``"chunked"``. h5py's ``rdcc_nslots``, ``rdcc_nbytes`` and ``rdcc_w0`` are checked,
                and have no effect.

        Raises:
            NameExistsError: An object of that name exists.
            TypeError: There is neither `shape` nor `data`, or an option does not exist.
            ValueError: An option has an invalid value, or `shape` does not match `data`.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     t = file.create_dataset("t", (1000, 10), "f4", chunks=(100, 10), filters="fast")
            ...     t[:, 0] = 1
            ...     t.chunks
            (100, 10)
        """
        if (empty := as_empty(data)) is not None:
            data = empty
            dtype, shape_of = empty.dtype if dtype is None else dtype, None
        else:
            shape_of = shape
        description, committed, shown, array = self._type(dtype, data)
        extent = creation.extent(shape_of, array, shown) if not isinstance(data, Empty) else None
        if extent is None and shape is not None and not isinstance(data, Empty):
            raise TypeError("One of data, shape or dtype must be specified")
        with self._new_link(name, of_dataset=True) as (parent, last):
            made = creation.create(self._writing.writer, parent, last, description, committed, shown, extent, options)
            dataset = WritableDataset(self._opened, made, self._made(name))
            if array is not None and array.size:
                try:
                    dataset._write_all(array)
                except Exception:
                    # A dataset without its values is removed.
                    if last:
                        with suppress(HyperchunkError):
                            parent.unlink(last)
                    raise
        return dataset

    def _type(
        self, dtype: DtypeOrDatatype | None, data: object
    ) -> tuple[Description, _core.Node | None, Dtype, Array | None]:
        """Returns the stored datatype, its committed object, the dtype for readers, and the array of `data`."""
        committed = None
        if isinstance(dtype, Datatype):
            node = dtype._object
            description: Description = node.datatype().description
            if isinstance(node, _core.Node) and dtype._opened is self._opened:
                committed = node
            wanted: Dtype | None = dtypes.to_dtype(description)
        elif isinstance(dtype, _core.Datatype):
            description = dtype.description
            wanted = dtypes.to_dtype(description)
        else:
            wanted = None if dtype is None else np.dtype(dtype)
            description = () if wanted is None else datatypes.stored(wanted)
        array = None
        if data is not None and not isinstance(data, Empty):
            array = elements.as_new(data, wanted)
        if wanted is None:
            wanted = np.dtype("=f4") if array is None else array.dtype
            description = datatypes.stored(wanted)
        return description, committed, wanted, array

    def create_virtual_dataset(
        self, name: str | bytes | None, layout: VirtualLayout, fillvalue: object = None
    ) -> WritableDataset:
        """Creates a virtual dataset from a :class:`VirtualLayout`. HDF5 before 1.10 cannot read it.

        Args:
            name: Path of the dataset.
            layout: The layout.
            fillvalue: Value of elements without a source.

        Raises:
            ValueError: The layout was made for another file.

        Example:
            >>> layout = hyperchunk.VirtualLayout((2, 4), "i8")
            >>> layout[0] = hyperchunk.VirtualSource("day-1.h5", "t", (4,))
            >>> with hyperchunk.open("days.h5", "w") as file:
            ...     file.create_virtual_dataset("t", layout, fillvalue=-1).is_virtual
            True
        """
        if not hasattr(layout, "_mappings"):
            message = (
                f"cannot create a virtual dataset: expected a hyperchunk.VirtualLayout, got {type(layout)!r}; make the "
                "layout and its sources with hyperchunk's classes"
            )
            raise also(also(InvalidError(message), TypeError), AttributeError)
        description, committed, shown, _ = self._type(layout.dtype, None)
        with self._new_link(name, of_dataset=True) as (parent, last):
            made = creation.virtual(
                parent,
                last,
                datatype=_core.Datatype(description),
                committed=committed,
                shape=list(layout.shape),
                max_shape=None if layout.maxshape is None else list(layout.maxshape),
                mappings=layout._mappings(self._opened.filename),
                fill=creation.fill(self._writing.writer, description, shown, fillvalue),
            )
        return WritableDataset(self._opened, made, self._made(name))

    @contextmanager
    def build_virtual_dataset(
        self,
        name: str | bytes,
        shape: int | tuple[int, ...],
        dtype: npt.DTypeLike,
        maxshape: int | tuple[int | None, ...] | None = None,
        fillvalue: object = None,
    ) -> Iterator[VirtualLayout]:
        """Creates a virtual dataset in a block ``with group.build_virtual_dataset(…) as layout``, from its layout.

        Example:
            >>> with hyperchunk.open("days.h5", "w") as file:
            ...     with file.build_virtual_dataset("t", (2, 4), "i8") as layout:
            ...         layout[0] = hyperchunk.VirtualSource("day-1.h5", "t", (4,))
        """
        layout = VirtualLayout(shape, dtype, maxshape, self._opened.filename)
        yield layout
        self.create_virtual_dataset(name, layout, fillvalue)

    def create_dataset_like(
        self, name: str | bytes | None, other: Dataset, **options: Unpack[LikeOptions]
    ) -> WritableDataset:
        """Creates a dataset with the type, shape, chunks and filters of another one, which may be in another file;
        `options` override them.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     first = file.create_dataset("first", (1000,), "f4", chunks=(100,))
            ...     file.create_dataset_like("second", first, dtype="f8").chunks
            (100,)
        """
        wanted = options.copy()
        shape, dtype = wanted.pop("shape", other.shape), wanted.pop("dtype", None)
        shown = other.dtype if dtype is None or isinstance(dtype, Datatype) else np.dtype(cast("npt.DTypeLike", dtype))
        given = creation.overridden(creation.like(other), cast("DatasetOptions", wanted), shown)
        if dtype is None and shape is not None:
            description = other._data.datatype.description
            shown = dtypes.to_dtype(description)
            extent = (shape,) if isinstance(shape, int) else tuple(shape)
            with self._new_link(name) as (parent, last):
                made = creation.create(self._writing.writer, parent, last, description, None, shown, extent, given)
            return WritableDataset(self._opened, made, self._made(name))
        if shape is None:
            return self.create_dataset(name, data=Empty(other.dtype), **given)
        return self.create_dataset(name, shape, dtype, **given)

    # --- Links ---

    @overload
    def __setitem__(self, name: str | bytes, value: object) -> None: ...
    # A group takes no index of elements; type checkers need the overload: see `Group.__getitem__`.
    @overload
    def __setitem__(self, name: ElementIndex, value: object) -> NoReturn: ...
    def __setitem__(self, name: ElementIndex | str | bytes, value: object) -> None:
        """Creates a link to an object of this file, a soft or external link, a committed datatype, or a dataset."""
        if not isinstance(name, str | bytes):
            raise TypeError(f"A name should be string or bytes, not {type(name)}")
        value = from_h5py(value)
        if isinstance(value, HLObject):
            if value._opened is not self._opened:
                raise ValueError("Unable to create link (the object is of another file)")
            assert isinstance(value._object, _core.Node)
            with self._new_link(name) as (parent, last):
                parent.link_hard(last, value._object)
        elif isinstance(value, SoftLink):
            with self._new_link(name) as (parent, last):
                parent.link_soft(last, encode(value.path))
        elif isinstance(value, ExternalLink):
            with self._new_link(name) as (parent, last):
                parent.link_external(last, encode(value.filename), encode(value.path))
        elif isinstance(value, HardLink):
            raise TypeError("assign the object itself to create a hard link")
        elif isinstance(value, np.dtype):
            with self._new_link(name) as (parent, last):
                parent.commit_datatype(last, _core.Datatype(datatypes.stored(value)))
        else:
            dataset = self.create_dataset(None, data=value)
            with self._new_link(name) as (parent, last):
                parent.link_hard(last, dataset._node)

    def __delitem__(self, name: str | bytes) -> None:
        """Removes a link; an object without links is deleted when the file is closed."""
        if name not in self:
            near = self._near(encode(name))
            raise ObjectNotFoundError(f"Couldn't delete link (no link of the name {name!r}){near}")
        parent, last = self._resolve_parent(name)
        parent.unlink(last)

    def move(self, source: str | bytes, dest: str | bytes) -> None:
        """Renames a link.

        Raises:
            SourceNotFoundError: There is no object of that name.
            InvalidError: The new place is inside of the moved group.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = 1
            ...     file.move("x", "y")
            ...     list(file)
            ['y']
        """
        link = self.get(source, getlink=True)
        if source not in self:
            near = self._near(encode(source))
            raise SourceNotFoundError(f"no link of the name {source!r} (object {self.name}){near}")
        if not encode(source).strip(b"/"):
            raise ValueError(f"cannot move the root group to {dest!r}: expected another object; copy its members")
        if not isinstance(link, HardLink):
            self[dest] = link
        else:
            target = self[source]
            self._check_outside(target, dest)
            self[dest] = target
        del self[source]

    def _check_outside(self, moved: HLObject, dest: str | bytes) -> None:
        """Raises an error for a new place inside of the moved group: libhdf5 accepts it, and loses the group."""
        names = posixpath.join(encode(self.name or b""), encode(dest)).split(b"/")
        parents = (b"/".join(names[:end]) for end in range(1, len(names)))
        if any(self.get(parent) == moved for parent in parents if parent):
            raise InvalidError(
                f"cannot move {moved.name!r} to {dest!r}: expected another place, got one inside of the group that is "
                f"moved (object {self.name}, file {self._opened.filename})"
            )

    # --- Batches ---

    def write_many(self, values: creation.ManyValues) -> None:
        """Writes to several datasets: a mapping of paths to values, or to pairs of an index and values.

        Raises:
            KeyError: There is no such dataset.
            TypeError: A path leads to another object.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"], file["y"] = numpy.zeros(3), numpy.zeros(3)
            ...     file.write_many({"x": 1, "y": (slice(0, 2), [5, 6])})
            ...     file["y"][:].tolist()
            [5.0, 6.0, 0.0]
        """
        creation.write_many(self, values)

    def write_many_future(self, values: creation.ManyValues) -> Future[None]:
        """Does :meth:`write_many` in the background."""
        from hyperchunk.batches import submit

        return submit(self.write_many, values)

    async def write_many_async(self, values: creation.ManyValues) -> None:
        """Does :meth:`write_many` as a coroutine of asyncio."""
        from asyncio import wrap_future

        await wrap_future(self.write_many_future(values))

    # --- Resolution of names ---

    @contextmanager
    def _new_link(self, name: str | bytes | None, *, of_dataset: bool = False) -> Iterator[tuple[_core.Node, bytes]]:
        """Yields the parent group of a path for a new link, and the last name. Creates missing groups; after an
        exception, they are removed unless they have members.
        """
        made: list[tuple[_core.Node, bytes]] = []
        try:
            yield self._resolve_parent(name, made, of_dataset=of_dataset)
        except BaseException:
            with suppress(HyperchunkError):
                for parent, part in reversed(made):
                    group = parent.get(part)
                    if not isinstance(group, _core.Node) or group.link_count():
                        break
                    parent.unlink(part)
            raise

    def _resolve_parent(
        self,
        name: str | bytes | None,
        made: list[tuple[_core.Node, bytes]] | None = None,
        *,
        of_dataset: bool = False,
    ) -> tuple[_core.Node, bytes]:
        """Returns the parent group of a path, and the last name. With `made`, creates missing groups, and adds the
        parent and the name of each.
        """
        node = self._node
        if name is None:
            return node, b""
        path = encode(name)
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        if not parts:
            raise ValueError(f"Unable to create link (name already exists): {name!r}")
        if path.startswith(b"/"):
            node = self._writing.writer.root
        for number, part in enumerate(parts[:-1]):
            if made is not None and not node.has_link(part):
                # As in libhdf5, they track creation order if their parent does; h5py makes a dataset's group itself.
                tracked = node.attribute_order_tracked and not (of_dataset and number == len(parts) - 2)
                above, node = node, node.create_group(part, tracked)
                made.append((above, part))
                continue
            found = node.get(part)
            if not isinstance(found, _core.Node):
                raise UnsupportedError(f"{name!r} is in another file, which is not open for writing")
            node = found
        if node.kind != 0:
            message = f"Unable to create link ({name!r}: its parent is not a group)"
            raise also(InvalidError(message), TypeError)
        return node, parts[-1]

    def _made(self, name: str | bytes | None) -> str | None:
        """Returns the full name of an object created here."""
        if name is None:
            return None
        return self._join(name if isinstance(name, str) else name.decode("utf-8", "surrogateescape"))

    def _find(self, path: bytes) -> AnyObject:
        found = self._node.get(path)
        if isinstance(found, _core.Node):
            return found
        return creation.elsewhere(self._writing, *found)

    def _group_elsewhere(self, path: bytes) -> tuple[_core.Object, bytes] | None:
        """Returns the group in another file with the last link of a path, and the link's name; None for this file."""
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        if len(parts) < 2:
            return None
        start = b"/" if path.startswith(b"/") else b""
        group = self._node.get(start + b"/".join(parts[:-1]))
        return None if isinstance(group, _core.Node) else (creation.elsewhere(self._writing, *group), parts[-1])

    def _has_link(self, path: bytes) -> bool:
        try:
            found = self._group_elsewhere(path)
            return super()._has_link(path) if found is None else found[0].has_link(found[1])
        except (ObjectNotFoundError, InvalidError):
            return False

    def _target(self, path: bytes) -> _core._Description | None:
        found = self._group_elsewhere(path)
        return super()._target(path) if found is None else found[0].link(found[1])

    def _name_elsewhere(self, path: bytes) -> str | None:
        found = self._node.get(path)
        if isinstance(found, _core.Node):
            return None
        return "/" + "/".join(part for part in found[1].split("/") if part not in ("", "."))

    def _member(self, name: str | bytes) -> Member:
        if name:
            found = self._find(encode(name))
            if isinstance(found, _core.Object):
                recipe = self._opened.recipe._replace(filename=str(found.file.path), driver="sec2")
                return wrap(Opened(found.file, recipe), found, self._name_elsewhere(encode(name)))
        return super()._member(name)


Writing.classes = (WritableGroup, WritableDataset, WritableDatatype)
