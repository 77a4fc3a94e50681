"""Open files, the common base of their objects, pickling, region references, and views of mappings."""

from __future__ import annotations

import posixpath
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar, cast
from weakref import WeakValueDictionary

from hyperchunk import _core, observing
from hyperchunk.exceptions import ClosedError, InvalidError, ReadOnlyError
from hyperchunk.likeness import ObjectID, class_of_h5py
from hyperchunk.references import OBJECT1, REGION1, Reference, RegionReference
from hyperchunk.typing import Index

if TYPE_CHECKING:
    from hyperchunk.attributes import AttributeManager
    from hyperchunk.dataset import Dataset
    from hyperchunk.file import File
    from hyperchunk.group import Group
    from hyperchunk.selections import Selection


V = TypeVar("V", covariant=True)


class Recipe(NamedTuple):
    """Description of an open file, from which this or another process can open it again."""

    #: Path or URL, or a name for messages.
    filename: str
    #: Access method: ``"sec2"`` for a path, ``"network"`` for a URL, ``"core"`` for bytes, ``"fileobj"``.
    driver: str
    #: Options for `_core`.
    options: dict[str, object]
    #: Source object, for a file that is neither a path nor a URL.
    source: object = None
    #: Working directory at opening, for a relative path.
    folder: str = ""


#: The `_core` object of a file, opened for reading or writing.
AnyFile = _core.File | _core.Writer
#: The `_core` object of a group, dataset or committed datatype.
AnyObject = _core.Object | _core.Node

#: `kind` of a dataset's `_core` object.
_DATASET = 1


class Opened:
    """An open file, shared by all its objects. After unpickling in another process, it opens on first use."""

    __slots__ = ("__weakref__", "_closed", "_core", "recipe", "refresh_count", "used", "was_written")

    #: Classes of groups, datasets and committed datatypes used instead of the read-only ones; None for those.
    classes: tuple[type[HLObject], ...] | None = None

    def __init__(self, core: AnyFile | None, recipe: Recipe) -> None:
        self._core = core
        self._closed = False
        self.recipe = recipe
        self.refresh_count = 0
        #: True once an object of the file was used.
        self.used = False
        #: True if a program was writing the file when it was opened, without a lock that keeps readers out.
        self.was_written = recipe.driver == "sec2" and isinstance(core, _core.File) and core.is_written

    @property
    def core(self) -> AnyFile | None:
        """The `_core` object; None once the file is closed."""
        if self._core is None and not self._closed:
            from hyperchunk.file import open_core

            self._core = open_core(self.recipe)
        return self._core

    @property
    def filename(self) -> str:
        """Path or URL."""
        return self.recipe.filename

    @property
    def driver(self) -> str:
        """Access method."""
        return self.recipe.driver

    @property
    def is_open(self) -> bool:
        """True until the file is closed."""
        return not self._closed

    def close(self) -> None:
        """Closes the file."""
        core = self._core
        self._core, self._closed = None, True
        if isinstance(core, _core.File):
            # Objects of the file may keep `core` alive, so its locks are released here.
            core.release_locks()
            if self.recipe.driver != "sec2":
                observing.closed(self.recipe, core)

    def need(self) -> AnyFile:
        """Returns the `_core` object, or raises an error if the file is closed."""
        core = self._core
        if core is None:
            core = self.core
        if core is None:
            raise ClosedError(f"the file is closed (file {self.filename})")
        return core

    def renew(self) -> None:
        """Reopens the file in its current state. Existing groups follow; existing datasets keep their state until they
        are refreshed.
        """
        self.need()
        if self.driver == "core":
            return  # the bytes of a file in memory never change
        from hyperchunk.file import open_core

        recipe = self.portable()
        if recipe.source is not None:
            # A source caches the size and version of its first use; a copy has an empty cache.
            recipe = recipe._replace(source=copy(recipe.source))
        if recipe.options.get("swmr"):
            # As in libhdf5, only the first opening takes the lock; later, flags in the superblock show active writers.
            recipe = recipe._replace(options={**recipe.options, "locking": "never"})
        before, self._core = self._core, open_core(recipe, observing.DEBUG)
        if isinstance(before, _core.File):
            before.release_locks()

    def refresh(self) -> None:
        """Reopens the file, and refreshes existing objects too."""
        self.renew()
        self.refresh_count += 1

    def of(self, found: AnyObject) -> Opened:
        """Returns the file of an object, which an external link may have opened."""
        if not found.elsewhere or isinstance(found, _core.Node):
            return self
        other = found.file
        options = self.recipe.options
        if options.get("index") not in (None, "auto", "beside", "never"):
            # An index path names this file's index, so the other file uses its own.
            options = {**options, "index": "auto"}
        return Opened(other, self.recipe._replace(filename=other.path or self.filename, options=options))

    def portable(self) -> Recipe:
        """Returns a recipe with which another process can open the file."""
        if self.driver == "core":
            raise TypeError("cannot pickle a file in memory")
        if not self.recipe.folder:
            return self.recipe
        filename = str(Path(self.recipe.folder) / self.filename)
        return self.recipe._replace(filename=filename, folder="")


# Open files of unpickled objects, which share one file for each recipe.
_shared: WeakValueDictionary[str, Opened] = WeakValueDictionary()


def share(recipe: Recipe) -> Opened:
    """Returns the file of a recipe, opened on first use."""
    key = repr(recipe)
    found = _shared.get(key)
    if found is None or not found.is_open:
        found = _shared[key] = Opened(None, recipe)
    return found


def encode(name: str | bytes) -> bytes:
    """Returns a link name, an attribute name or a path as the file stores it."""
    if isinstance(name, bytes):
        return name
    if isinstance(name, str):
        return name.encode("utf-8", "surrogateescape")
    raise TypeError(f"A name should be string or bytes, not {type(name)}")


def refusal() -> ReadOnlyError:
    """Returns the error for an attempt to change a file that is open for reading."""
    return ReadOnlyError(
        'the file is open for reading: there is no write intent on it. Open it with mode "r+" to edit it; '
        'mode "w" or "x" creates a new file'
    )


def _refuse(*_: object, **__: object) -> NoReturn:
    raise refusal()


#: Placeholder for methods that change a file.
read_only: Any = _refuse


class HLObject:
    """Base class of objects of a file."""

    __slots__ = ("__weakref__", "_found", "_name", "_opened", "_source")

    __class__ = class_of_h5py("HLObject")

    @property
    def id(self) -> ObjectID:
        """Low-level handle, with the part of h5py's low-level interface that has an equivalent here."""
        return ObjectID(self)

    def __init__(self, opened: Opened, found: AnyObject | None, name: str | None) -> None:
        self._opened = opened
        self._found: AnyObject | None = found
        self._name = name
        #: The `_core` file in which the object was found.
        self._source = opened._core

    @property
    def _object(self) -> AnyObject:
        """The `_core` object; found again by name on first use after unpickling or a refresh."""
        found = self._found
        self._opened.used = True
        if found is None or self._is_outdated():
            found = self._find_again()
        return found

    def _is_outdated(self) -> bool:
        """True if the file was reopened since the object was found."""
        core = self._opened._core
        return core is not None and core is not self._source

    def _find_again(self) -> AnyObject:
        core = self._opened.need()
        if self._name is None and self._found is not None:
            found: AnyObject | tuple[str, str] = core.object(self._found.address)
        else:
            found = core.root if self._name in (None, "/") else core.root.get(encode(self._name or "/"))
        assert not isinstance(found, tuple)
        self._found, self._source = found, core
        return self._found

    @property
    def file(self) -> File:
        """File of the object."""
        from hyperchunk.file import File

        self._opened.need()
        return File._of(self._opened)

    @property
    def name(self) -> str | None:
        """Path, or None if there is none or the file is closed. For an object reached by a reference: the first path
        found.
        """
        if not self._opened.is_open:
            return None
        if self._name is None:
            found = self._opened.need().find_path(self._object.address)
            self._name = None if found is None else found.decode("utf-8", "surrogateescape")
        return self._name

    @property
    def parent(self) -> Group:
        """Parent group, by the object's name."""
        if self.name is None:
            raise ValueError("Parent of an anonymous object is undefined")
        found = self.file[posixpath.dirname(self.name)]
        from hyperchunk.group import Group

        assert isinstance(found, Group)
        return found

    @property
    def attrs(self) -> AttributeManager:
        """Attributes of the object."""
        from hyperchunk.attributes import AttributeManager

        self._opened.need()
        return AttributeManager(self)

    @property
    def ref(self) -> Reference:
        """Reference to the object."""
        core = self._opened.need()
        return Reference(OBJECT1, self._object.address.to_bytes(core.address_size, "little"))

    @property
    def regionref(self) -> RegionProxy:
        """Region references: ``regionref[index]`` makes one to a selection of a dataset; ``regionref.shape(ref)`` and
        ``regionref.selection(ref)`` return the shape of the target dataset and of the selection.
        """
        return RegionProxy(self)

    @property
    def track_order(self) -> bool:
        """True if the creation order of attributes is tracked."""
        return self._object.attribute_order_tracked

    def _identity(self) -> tuple[str, int]:
        return self._opened.filename, self._object.address

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, HLObject):
            return self._identity() == other._identity()
        return NotImplemented

    def __bool__(self) -> bool:
        return self._opened.is_open

    def _repr_html_(self) -> str:
        """Returns the object for a notebook: a tree of its members, its extent, chunks, filters and attributes."""
        from hyperchunk.notebook import render

        return render(self)

    def __reduce__(self) -> tuple[object, ...]:
        recipe = self._opened.portable()
        if self.name is None:
            raise TypeError("cannot pickle an object without a name")
        return _reopen, (type(self), recipe, self.name)


def _reopen(kind: type[HLObject], recipe: Recipe, name: str) -> HLObject:
    return kind(share(recipe), None, name)


class RegionProxy:
    """Makes and resolves region references."""

    def __init__(self, owner: HLObject) -> None:
        self._owner = owner

    def __getitem__(self, args: Index) -> RegionReference:
        from hyperchunk.dataset import Dataset
        from hyperchunk.selections import select_in_order

        if not isinstance(self._owner, Dataset):
            raise TypeError("Region references can only be made to datasets")
        selection = select_in_order(self._owner.shape or (), args if isinstance(args, tuple) else (args,))
        return RegionReference(REGION1, self._owner.ref._raw, selection)

    def shape(self, ref: RegionReference) -> tuple[int, ...] | None:
        """Returns the shape of the dataset that the reference points to."""
        return resolve_region(self._owner._opened, ref)[0].shape

    def selection(self, ref: RegionReference) -> tuple[int, ...] | None:
        """Returns the shape of the reference's selection."""
        return resolve_region(self._owner._opened, ref)[1].shape


def resolve_region(opened: Opened, ref: RegionReference) -> tuple[Dataset, Selection]:
    """Returns the dataset that a reference points to, and the selection in it."""
    from hyperchunk.dataset import Dataset
    from hyperchunk.selections import as_region, referred

    core = opened.need()
    if not isinstance(ref, RegionReference) or not ref:
        raise ValueError("expected a region reference that is not null")
    if ref._region is not None:
        dataset = Dataset(opened, core.object(int.from_bytes(ref._raw, "little")), None)
        return dataset, as_region(ref._region)
    found, region, _ = core.dereference(ref._kind, ref._raw)
    if found.kind != _DATASET or region is None:
        raise InvalidError("the region reference does not lead to a dataset")
    dataset = Dataset(opened.of(found), found, None)
    return dataset, referred(dataset.shape or (), region)


class KeysViewHDF5(KeysView[str]):
    """View of the names."""

    _mapping: MappingHDF5[object]

    def __reversed__(self) -> Iterator[str]:
        return iter(reversed(self._mapping))

    def __repr__(self) -> str:
        return f"<KeysViewHDF5 {list(self)}>"

    __str__ = __repr__


class ValuesViewHDF5(ValuesView[V]):
    """View of the values; a membership test opens them all."""

    _mapping: MappingHDF5[V]

    def __contains__(self, value: object) -> bool:
        return any(value == mine for mine in self)

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in self._mapping._pairs(False))

    def __reversed__(self) -> Iterator[V]:
        return (value for _, value in self._mapping._pairs(True))


class ItemsViewHDF5(ItemsView[str, V]):
    """View of the names and values."""

    _mapping: MappingHDF5[V]

    def __contains__(self, item: object) -> bool:
        name, value = cast("tuple[str, object]", item)
        return name in self._mapping and bool(value == self._mapping.get(name))

    def __iter__(self) -> Iterator[tuple[str, V]]:
        return iter(self._mapping._pairs(False))

    def __reversed__(self) -> Iterator[tuple[str, V]]:
        return iter(self._mapping._pairs(True))


class MappingHDF5(Mapping[str, V]):
    """Mapping of names to values: a group's members or an object's attributes."""

    __slots__ = ()

    def keys(self) -> KeysViewHDF5:
        """Returns a view of the names."""
        return KeysViewHDF5(self)

    def values(self) -> ValuesViewHDF5[V]:
        """Returns a view of the values."""
        return ValuesViewHDF5(self)

    def items(self) -> ItemsViewHDF5[V]:
        """Returns a view of the names and values."""
        return ItemsViewHDF5(self)

    def __reversed__(self) -> Iterator[str]:
        return iter(list(self)[::-1])

    def _pairs(self, backwards: bool) -> Iterator[tuple[str, V]]:
        for name in reversed(self) if backwards else iter(self):
            yield name, self.get(name)  # type: ignore[misc]

    def _ipython_key_completions_(self) -> list[str]:
        return sorted(self.keys())

    __setitem__ = __delitem__ = read_only
    setdefault = pop = popitem = clear = update = read_only
