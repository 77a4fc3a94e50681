"""Groups: mappings of names to objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from hyperchunk import _core
from hyperchunk._printable import printable
from hyperchunk.dataset import Dataset
from hyperchunk.datatype import Datatype
from hyperchunk.exceptions import (
    ChangedError,
    HyperchunkError,
    ObjectNotFoundError,
    SourceNotFoundError,
    UnsupportedError,
    also,
)
from hyperchunk.likeness import class_of_h5py
from hyperchunk.links import ExternalLink, HardLink, SoftLink, UserLink
from hyperchunk.objects import AnyObject, HLObject, MappingHDF5, Opened, encode, read_only
from hyperchunk.progress import ProgressLike
from hyperchunk.references import Reference
from hyperchunk.suggestions import few, suggestion
from hyperchunk.typing import (
    Cells,
    Compounds,
    DatasetOptions,
    ElementIndex,
    Enums,
    Half,
    Index,
    Member,
    Rows,
    Strings,
    Values,
)

if TYPE_CHECKING:
    from hyperchunk.arrow.table import Table
    from hyperchunk.batches import Wanted
    from hyperchunk.dtypes import Description

R = TypeVar("R")

Link = HardLink | SoftLink | ExternalLink | UserLink

# Groups of up to this number of members prefetch them together.
_FEW = 1000

# Maximum number of attempts to open a file that is being written.
_ATTEMPTS = 100

# Link types of `_core`.
_HARD, _SOFT, _EXTERNAL = range(3)


class Group(HLObject, MappingHDF5[Member]):
    """A group: a mapping of names to objects. A name may be a path, relative or from the root."""

    __slots__ = ()

    __class__ = class_of_h5py("Group")

    @overload
    def __getitem__(self, name: str | bytes | Reference) -> Member: ...
    # A group takes no index of elements. Type checkers need the overload: in ``file["x"][0]``, they check the index
    # for each class that ``file["x"]`` may have.
    @overload
    def __getitem__(self, name: ElementIndex) -> NoReturn: ...
    def __getitem__(self, name: ElementIndex | str | bytes | Reference) -> Member:
        if isinstance(name, Reference):
            return self._referred(name)
        if not isinstance(name, str | bytes):
            raise TypeError(f"Accessing a group is done with bytes or str, not {type(name)}")
        try:
            return self._member(name)
        except ObjectNotFoundError as error:
            raise type(error)(f"{error}{self._near(encode(name))}") from None
        except HyperchunkError as error:
            # h5py raises KeyError for every reason why a name does not resolve.
            raise also(error, KeyError) from None

    def _near(self, path: bytes) -> str:
        """Suggests existing names similar to a path that was not found."""
        core = self._opened.need()
        at, here = self._object, self.name or "this group"
        if path.startswith(b"/"):
            at, here = core.root, "/"
        for part in (part for part in path.split(b"/") if part not in (b"", b".")):
            if at.kind != 0:
                return f"; {here!r} is not a group"
            if not at.has_link(part):
                count = at.link_count()
                names = at.link_names() if few(count) else []
                return suggestion(part.decode("utf-8", "replace"), count, names, repr(here))
            target = at.link(part)
            if target is not None and target[0] != _HARD:
                # A dangling link; the message names its target.
                return ""
            found = at.get(part)
            assert not isinstance(found, tuple)
            at, here = found, f"{here.rstrip('/')}/{part.decode('utf-8', 'replace')}"
        return ""

    def _member(self, name: str | bytes) -> Member:
        """Returns the object of a name."""
        return self._first_look(lambda: self._found_member(name))

    def _found_member(self, name: str | bytes) -> Member:
        path = encode(name)
        self._opened.need()
        if not path:
            raise ObjectNotFoundError(f"a name must not be empty (object {self.name})")
        found = self._find(path)
        if found.elsewhere:
            return wrap(self._opened.of(found), found, _name_in_its_file(found, self._name_elsewhere(path)))
        return wrap(
            self._opened, found, self._join(name if isinstance(name, str) else path.decode("utf-8", "surrogateescape"))
        )

    def _find(self, path: bytes) -> AnyObject:
        """Returns the `_core` object at a path."""
        found = self._object.get(path)
        assert not isinstance(found, tuple)
        return found

    def _first_look(self, look: Callable[[], R]) -> R:
        """Returns the result of a function, and reopens the file if that is needed.

        If another program was writing the file when it was opened, and has changed it before its first use, the file is
        reopened in its new state: no earlier result can contradict it.
        """
        attempts = _ATTEMPTS if self._opened.was_written and not self._opened.used else 1
        while True:
            try:
                return look()
            except ChangedError:
                attempts -= 1
                if not attempts:
                    raise
                self._opened.renew()

    def _referred(self, reference: Reference) -> Member:
        core = self._opened.need()
        if not reference:
            raise ValueError("Invalid HDF5 object reference")
        if reference._region is not None:
            return wrap(self._opened, core.object(int.from_bytes(reference._raw, "little")), None)
        try:
            found, _, _ = core.dereference(reference._kind, reference._raw)
        except HyperchunkError as error:
            raise _InvalidReferenceError(str(error)) from error
        return wrap(self._opened.of(found), found, None)

    def _name_elsewhere(self, path: bytes) -> str | None:
        """Returns the object's name in its own file, for a path through an external link."""
        assert isinstance(self._object, _core.Object)
        return _name_elsewhere(self._object, path)

    def _join(self, path: str) -> str | None:
        """Returns the absolute name of a path relative to this group."""
        if path.startswith("/"):
            here = ""
        elif self.name is None:
            return None
        else:
            here = self.name.rstrip("/")
        if "/" not in path and path != ".":
            return f"{here}/{path}"
        parts = [part for part in path.split("/") if part not in ("", ".")]
        return "/".join([here, *parts]) or "/"

    def dataset(self, name: str | bytes | Reference) -> Dataset:
        """Returns ``group[name]``, which must be a dataset: for type checkers, and for a clear error.

        Raises:
            KeyError: There is no object of that name.
            TypeError: The object is not a dataset.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = [1, 2]
            ...     file.dataset("x").shape
            (2,)
        """
        return cast("Dataset", self._of_kind(name, Dataset))

    def group(self, name: str | bytes | Reference) -> Group:
        """Returns ``group[name]``, which must be a group; otherwise like :meth:`dataset`.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["g/x"] = 1
            ...     len(file.group("g"))
            1
        """
        return cast("Group", self._of_kind(name, Group))

    def _of_kind(self, name: str | bytes | Reference, kind: type[HLObject]) -> HLObject:
        found = self[name]
        if not isinstance(found, kind):
            raise TypeError(
                f"cannot open {found.name or name!r} as a {kind.__name__}: it is a {type(found).__name__} "
                f"(file {self._opened.filename})"
            )
        return found

    @overload
    def get(self, name: str | bytes | Reference) -> Member | None: ...
    @overload
    def get(self, name: str | bytes | Reference, default: R) -> Member | R: ...
    @overload
    def get(
        self, name: str | bytes, default: object = None, getclass: Literal[False] = False, *, getlink: Literal[True]
    ) -> Link: ...
    @overload
    def get(
        self, name: str | bytes | Reference, default: object = None, getclass: bool = False, getlink: bool = False
    ) -> Any: ...
    def get(
        self, name: str | bytes | Reference, default: object = None, getclass: bool = False, getlink: bool = False
    ) -> Any:
        """Returns the object of a name, without an error if it does not exist.

        Args:
            name: Path, relative to this group or from the root; or a reference.
            default: Result if there is no object of that name.
            getclass: Return the class of the object, or of the link.
            getlink: Return the link: a :class:`HardLink`, :class:`SoftLink` or :class:`ExternalLink`.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = 1
            ...     file.get("x", getclass=True).__name__, file.get("y")
            ('Dataset', None)
        """
        if not getclass and not getlink:
            if not isinstance(name, str | bytes):
                return self[name]
            try:
                return self._member(name)
            except ObjectNotFoundError:
                return default
        if isinstance(name, Reference):
            raise TypeError("getclass and getlink are for names, not for references")
        if name not in self:
            return default
        if not getlink:
            return CLASSES[self._first_look(lambda: self._find(encode(name))).kind]
        link = self._link(encode(name))
        return type(link) if getclass else link

    def _link(self, path: bytes) -> Link:
        found = self._target(path)
        if found is None:
            return HardLink()
        return _to_link(found)

    def __len__(self) -> int:
        self._opened.need()
        return self._object.link_count()

    def __iter__(self) -> Iterator[str]:
        core = self._opened.need()
        names = self._object.link_names()
        if core.is_remote and len(names) <= _FEW:
            # A caller that lists names usually opens the members next.
            core.prefetch(self._object, attributes=False, depth=1)
        return iter(names)

    def _pairs(self, backwards: bool) -> Iterator[tuple[str, Member]]:
        core = self._opened.need()
        core.prefetch(self._object, attributes=True, depth=1)
        links = self._object.links()
        for name, target in reversed(links) if backwards else links:
            if target[0] == _HARD:
                path = self._join(name) if isinstance(name, str) and "/" not in name else None
                yield name, wrap(self._opened, core.object(target[1], path), path)
            else:
                yield name, cast("Member", self.get(name))

    def __contains__(self, name: object) -> bool:
        path = encode(name)  # type: ignore[arg-type]
        if not self._opened.is_open:
            return False
        return self._has_link(path)

    def _has_link(self, path: bytes) -> bool:
        return self._object.has_link(path)

    def _target(self, path: bytes) -> _core._Description | None:
        """Returns the target of the link at a path, as `_core` describes it."""
        return self._object.link(path)

    def prefetch(self, *, attributes: bool = True, depth: int | None = None) -> None:
        """Fetches the structure of all objects below this group, so that later access needs no requests. In a file
        over a network this takes one round trip per level; in other files it does nothing. All files of the process
        share the cache (:func:`hyperchunk.set_metadata_cache_bytes`).

        Args:
            attributes: Fetch the attributes, too.
            depth: Maximum number of levels; None for all.

        Example:
            >>> hyperchunk.open("s3://bucket/scene.h5").prefetch(depth=2)  # doctest: +SKIP
        """
        self._opened.need().prefetch(self._object, attributes=attributes, depth=depth)

    @overload
    def read_many(self, wanted: Mapping[str, Index], *, progress: ProgressLike = None) -> dict[str, Values]: ...
    @overload
    def read_many(self, wanted: Sequence[Wanted], *, progress: ProgressLike = None) -> list[Values]: ...
    def read_many(
        self, wanted: Mapping[str, Index] | Sequence[Wanted], *, progress: ProgressLike = None
    ) -> dict[str, Values] | list[Values]:
        """Reads from several datasets in one batch: their chunks are located, fetched and decoded together.

        Args:
            wanted: Indices by the paths of datasets from here; or a list of paths, datasets and pairs with indices.
            progress: Shows the bytes of the arrays: True, a function of the finished part and the total, or a tqdm
                object (:mod:`hyperchunk.progress`). The batch is then read in pieces of 64 MiB or more.

        Returns:
            Arrays by the same paths; or a list of them.

        Raises:
            KeyError: There is no such dataset.
            TypeError: A path leads to another object.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["lat"], file["lon"] = numpy.arange(3), numpy.arange(3)
            >>> with hyperchunk.open("a.h5") as file:
            ...     found = file.read_many({"lat": ..., "lon": numpy.s_[:2]})
            >>> found["lon"].tolist()
            [0, 1]
        """
        from hyperchunk.batches import read_many

        return read_many(self, wanted, progress)

    @overload
    def read_many_future(self, wanted: Mapping[str, Index]) -> Future[dict[str, Values]]: ...
    @overload
    def read_many_future(self, wanted: Sequence[Wanted]) -> Future[list[Values]]: ...
    def read_many_future(self, wanted: Mapping[str, Index] | Sequence[Wanted]) -> Future[Values]:
        """Does :meth:`read_many` in the background."""
        from hyperchunk.batches import submit

        return submit(lambda wanted: self.read_many(wanted), wanted)

    @overload
    async def read_many_async(self, wanted: Mapping[str, Index]) -> dict[str, Values]: ...
    @overload
    async def read_many_async(self, wanted: Sequence[Wanted]) -> list[Values]: ...
    async def read_many_async(self, wanted: Mapping[str, Index] | Sequence[Wanted]) -> dict[str, Values] | list[Values]:
        """Does :meth:`read_many` as a coroutine of asyncio."""
        from asyncio import wrap_future

        found: Future[Values] = self.read_many_future(wanted)
        return await wrap_future(found)

    def table(
        self,
        path: str = ".",
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
        frames: bool = True,
    ) -> Table:
        """Returns a table over the data of a group or a dataset for Apache Arrow; pyarrow, polars, pandas and DuckDB
        accept it directly. Nothing is read before values are requested.

        Columns are the group's datasets with at least one dimension, which must be of equal length (the first dimension
        counts rows), in creation order if it is tracked, else by name. An attribute ``h5.table`` of the group, a list
        of names, overrides that; so do the conventions of pandas, PyTables, vaex, AnnData and NeXus (``NXdata``). The
        columns of a compound dataset are its members.

        Args:
            path: Path of a group or a dataset; by default, this group.
            columns: Names of columns, or paths of datasets relative to the group; by default all.
            rows: A slice, a range, or the first row and the end (exclusive); by default all.
            cells: Multi-dimensional cells as ``"tensor"`` (``arrow.fixed_shape_tensor``, the default) or ``"list"``
                (lists of fixed size).
            strings: ``"text"`` (without padding), or ``"stored"`` bytes.
            half: 16-bit floats as they are, or as ``"float32"`` (DuckDB has no 16-bit floats).
            enums: ``"values"``, or a ``"dictionary"`` of names.
            compounds: ``"columns"``, or one ``"struct"``.
            mapped: Whether a local file may be mapped, so that nothing is copied; if another process truncates it, this
                process is killed.
            batch_rows: Maximum number of rows in a batch.
            frames: Decode frames of other programs. Without it, or with `cells`, `strings`, `enums` or `compounds`, the
                columns are as they are stored.

        Raises:
            KeyError: There is no object of that path.
            InvalidError: Columns have different lengths.
            UnsupportedError: The file is being written.

        Example:
            >>> with hyperchunk.open("particles.h5", "w") as file:
            ...     file["step/x"], file["step/px"] = numpy.arange(5.0), numpy.arange(5)
            >>> with hyperchunk.open("particles.h5") as file:
            ...     file.table("step", ["x"], rows=slice(1, 3))
            <hyperchunk.Table: 2 rows of (x: Float64)>
        """
        from hyperchunk.arrow import as_table

        found = self if path == "." else self[path]
        if frames and isinstance(found, Group) and (cells, strings, enums, compounds) == (None,) * 4:
            from hyperchunk.frames.reading import read_table

            decoded = read_table(found, columns, rows, half, batch_rows)
            if decoded is not None:
                return decoded
        return as_table(
            found,
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

    def visit(self, func: Callable[[str], R | None]) -> R | None:
        """Calls a function with the path of each object below this group, once for each. Does not follow soft and
        external links.

        Args:
            func: Called with the path from here. A result that is not None ends the visit.

        Returns:
            The result that ended the visit, or None.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["g/x"] = 1
            ...     file.visit(print)
            g
            g/x
        """
        return self._visit(lambda name, _: func(name))

    def visititems(self, func: Callable[[str, Member], R | None]) -> R | None:
        """Like :meth:`visit`, with the objects.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["g/x"] = [1, 2]
            ...     file.visititems(lambda name, found: getattr(found, "shape", None))
            (2,)
        """
        return self._visit(lambda name, address: func(name, self._below(name, address)))

    def _below(self, name: str, address: int) -> Member:
        path = self._join(name)
        return wrap(self._opened, self._opened.need().object(address, path), path)

    def _visit(self, func: Callable[[str, int], R | None]) -> R | None:
        seen = {self._object.address}
        for name, target, _ in self._walk(lambda target: target[1] not in seen):
            if target[0] == _HARD and target[1] not in seen:
                seen.add(target[1])
                if (result := func(name, target[1])) is not None:
                    return result
        return None

    def _walk(self, enter: Callable[[Description], bool]) -> Iterator[tuple[str, Description, bool]]:
        """Iterates over all links below this group, by name and in pre-order; `enter` decides whether to descend into
        a group.
        """
        core = self._opened.need()
        core.prefetch(self._object, attributes=True, depth=None)
        waiting = [("", iter(self._object.links(by_name=True)))]
        while waiting:
            prefix, links = waiting[-1]
            following = next(links, None)
            if following is None:
                waiting.pop()
                continue
            name, target = following
            path = f"{prefix}{name}"
            below = None
            if target[0] == _HARD and enter(target):
                found = core.object(target[1], self._join(path))
                below = found if found.kind == 0 else None
            yield path, target, below is not None
            if below is not None:
                waiting.append((f"{path}/", iter(below.links(by_name=True))))

    def visit_links(self, func: Callable[[str], R | None]) -> R | None:
        """Calls `func` with the path of each link below this group; stops at the first result that is not None, and
        returns it.
        """
        return self._visit_links(lambda name, _: func(name))

    def visititems_links(self, func: Callable[[str, Link], R | None]) -> R | None:
        """Like :meth:`visit_links`, with the links."""
        return self._visit_links(lambda name, target: func(name, _to_link(target)))

    def _visit_links(self, func: Callable[[str, Description], R | None]) -> R | None:
        entered = {self._object.address}

        def enter(target: Description) -> bool:
            new = target[1] not in entered
            entered.add(target[1])
            return new

        for name, target, _ in self._walk(enter):
            if (result := func(name, target)) is not None:
                return result
        return None

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 group>"
        name = "(anonymous)" if self.name is None else f'"{printable(self.name)}"'
        return f"<HDF5 group {name} ({len(self)} members)>"

    def copy(
        self,
        source: HLObject | str | bytes,
        dest: HLObject | str | bytes,
        name: str | bytes | None = None,
        shallow: bool = False,
        expand_soft: bool = False,
        expand_external: bool = False,
        expand_refs: Literal[False] = False,
        without_attrs: bool = False,
    ) -> None:
        """Copies an object and everything below it. Chunks are copied in their stored form. References become null in
        another file, and keep their targets in the same one.

        Args:
            source: An object, of any open file, or a path relative to this group.
            dest: A group of a file that is being written or, if this is one, a path relative to it.
            name: Name in the group `dest`; by default the name of the source.
            shallow: Copy a group with its members, but nothing below them.
            expand_soft, expand_external: Replace links by copies of their targets.
            expand_refs: h5py's; only False is supported.
            without_attrs: Omit attributes.

        Raises:
            SourceNotFoundError: There is no such object.
            NameExistsError: An object of the new name exists.
            ReadOnlyError: `dest` is not being written.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = [1, 2]
            >>> with hyperchunk.open("a.h5") as source, hyperchunk.open("b.h5", "w") as file:
            ...     source.copy("x", file, "y")
            ...     file["y"][:].tolist()
            [1, 2]
        """
        from hyperchunk.write.copying import copy

        if expand_refs:
            raise UnsupportedError("expand_refs is not supported: the targets of references are not copied with them")
        found: HLObject
        try:
            found = source if isinstance(source, HLObject) else self[source]
        except ObjectNotFoundError as error:
            raise SourceNotFoundError(str(error)) from None
        into: HLObject = self
        if isinstance(dest, HLObject):
            into, called = dest, name if name is not None else (found.name or "").rpartition("/")[2]
        else:
            called = dest
        links = (expand_soft, expand_external)
        copy(found, into, called, shallow=shallow, follow=links, attributes=not without_attrs)

    def require_group(self, name: str | bytes) -> Group:
        """Returns the group of a name, and creates it if it does not exist.

        Raises:
            TypeError: Another object has that name.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file.require_group("g") == file.require_group("g")
            True
        """
        if name not in self:
            made: Group = self.create_group(name)
            return made
        found = self[name]
        if not isinstance(found, Group):
            raise TypeError(f"Incompatible object ({type(found).__name__}) already exists")
        return found

    def require_dataset(
        self,
        name: str | bytes,
        shape: int | tuple[int, ...],
        dtype: npt.DTypeLike,
        exact: bool = False,
        **options: Unpack[DatasetOptions],
    ) -> Dataset:
        """Returns the dataset of a name, and creates it if it does not exist.

        Args:
            name: Path of the dataset.
            shape: Extent that it must have.
            dtype: Dtype of a new dataset; an existing one must have a dtype to which it can be cast safely.
            exact: Require the same dtype.
            options: As for ``create_dataset``.

        Raises:
            TypeError: Another object has that name, or the dataset has another shape or dtype.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file.require_dataset("x", (3,), "f4").shape
            (3,)
        """
        if name not in self:
            made: Dataset = self.create_dataset(name, shape, dtype, **options)
            return made
        extent = (shape,) if isinstance(shape, int) else tuple(shape)
        found = self[name]
        if not isinstance(found, Dataset):
            raise TypeError(f"Incompatible object ({type(found).__name__}) already exists")
        if extent != found.shape and ("maxshape" not in options or options["maxshape"] != found.maxshape):
            raise TypeError(f"Shapes do not match (existing {found.shape} vs new {extent})")
        wanted = np.dtype(dtype)
        if exact and wanted != found.dtype:
            raise TypeError(f"Datatypes do not exactly match (existing {found.dtype} vs new {wanted})")
        if not np.can_cast(wanted, found.dtype):
            raise TypeError(f"Datatypes cannot be safely cast (existing {found.dtype} vs new {wanted})")
        return found

    create_group = create_dataset = create_dataset_like = read_only
    create_virtual_dataset = build_virtual_dataset = move = read_only
    write_many = write_many_async = write_many_future = read_only


class _InvalidReferenceError(HyperchunkError, ValueError):
    """A dangling reference."""


CLASSES = (Group, Dataset, Datatype)


def wrap(opened: Opened, found: AnyObject, name: str | None) -> Member:
    """Wraps a `_core` object in its Python class."""
    return cast("Member", (opened.classes or CLASSES)[found.kind](opened, found, name))


def _to_link(target: Description) -> Link:
    if target[0] == _HARD:
        return HardLink()
    if target[0] == _SOFT:
        return SoftLink(target[1])
    if target[0] == _EXTERNAL:
        return ExternalLink(target[1], target[2])
    return UserLink(target[1], target[2])


def _name_in_its_file(found: AnyObject, name: str | None) -> str | None:
    """Returns an object's name in its own file: `name`, the path in the external link, or the first path found if
    further external links follow.
    """
    assert isinstance(found, _core.Object)
    if name is not None:
        try:
            there = found.file.root.get(encode(name))
        except KeyError:
            there = None
        if there is not None and not there.elsewhere and there.address == found.address:
            return name
    path = found.file.find_path(found.address)
    return None if path is None else path.decode("utf-8", "surrogateescape")


def _name_elsewhere(start: _core.Object, path: bytes) -> str | None:
    at, parts = start, [part for part in path.split(b"/") if part not in (b"", b".")]
    if path.startswith(b"/"):
        at = start.file.root
    for position, part in enumerate(parts):
        link = at.link(part)
        if link is not None and link[0] == _EXTERNAL:
            inside = link[2] if isinstance(link[2], bytes) else link[2].encode("utf-8", "surrogateescape")
            joined = [*inside.split(b"/"), *parts[position + 1 :]]
            return "/" + b"/".join(part for part in joined if part not in (b"", b".")).decode(
                "utf-8", "surrogateescape"
            )
        at = at.get(part)
    return None
