"""What groups, datasets and committed datatypes have in common."""

from __future__ import annotations

import posixpath
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, NoReturn

from hyperchunk import _core
from hyperchunk.exceptions import ClosedError, InvalidError, UnsupportedError
from hyperchunk.references import OBJECT1, REGION1, Reference, RegionReference

if TYPE_CHECKING:
    from hyperchunk.attributes import AttributeManager
    from hyperchunk.file import File
    from hyperchunk.group import Group


class Opened:
    """An open file, shared by all objects that come from it."""

    __slots__ = ("core", "driver", "filename", "options")

    def __init__(self, core: _core.File, filename: str, driver: str, options: dict[str, Any]) -> None:
        #: None once it is closed.
        self.core: _core.File | None = core
        self.filename = filename
        self.driver = driver
        #: The options to open it with again.
        self.options = options

    def need(self) -> _core.File:
        """The file, or an error if it is closed."""
        if self.core is None:
            raise ClosedError(f"the file is closed (file {self.filename})")
        return self.core

    def of(self, found: _core.Object) -> Opened:
        """The file that an object lies in, to which a link of this file may have led."""
        if not found.elsewhere:
            return self
        other = found.file
        return Opened(other, str(other.path or self.filename), "sec2", self.options)


def encode(name: str | bytes) -> bytes:
    """A name as files have it."""
    if isinstance(name, bytes):
        return name
    if isinstance(name, str):
        return name.encode("utf-8", "surrogateescape")
    raise TypeError(f"A name should be string or bytes, not {type(name)}")


def read_only(*_: Any, **__: Any) -> NoReturn:
    """Stands for what changes a file."""
    raise UnsupportedError("hyperchunk opens files for reading only, for now: there is no write intent on the file")


class HLObject:
    """An object of a file."""

    __slots__ = ("__weakref__", "_name", "_object", "_opened")

    def __init__(self, opened: Opened, found: _core.Object, name: str | None) -> None:
        self._opened = opened
        self._object = found
        self._name = name

    @property
    def file(self) -> File:
        """The file that it lies in."""
        from hyperchunk.file import File

        self._opened.need()
        return File._of(self._opened)

    @property
    def name(self) -> str | None:
        """Its path; where it was reached by a reference, the first path that leads to it, or None without one."""
        if self._opened.core is None:
            return None
        if self._name is None:
            found = self._opened.core.find_path(self._object.address)
            self._name = None if found is None else found.decode("utf-8", "surrogateescape")
        return self._name

    @property
    def parent(self) -> Group:
        """The group that its name says it is in."""
        if self.name is None:
            raise ValueError("Parent of an anonymous object is undefined")
        found = self.file[posixpath.dirname(self.name)]
        from hyperchunk.group import Group

        assert isinstance(found, Group)
        return found

    @property
    def attrs(self) -> AttributeManager:
        """Its attributes."""
        from hyperchunk.attributes import AttributeManager

        self._opened.need()
        return AttributeManager(self)

    @property
    def ref(self) -> Reference:
        """A reference to it."""
        core = self._opened.need()
        return Reference(OBJECT1, self._object.address.to_bytes(core.address_size, "little"))

    @property
    def regionref(self) -> RegionProxy:
        """``regionref[index]`` makes a reference to a part of a dataset; ``regionref.shape(ref)`` and
        ``regionref.selection(ref)`` tell the shape of the dataset that a reference leads to, and of the part."""
        return RegionProxy(self)

    @property
    def track_order(self) -> bool:
        """Whether the order in which its attributes were made is tracked."""
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
        return self._opened.core is not None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._opened.driver != "sec2" or self.name is None:
            raise TypeError("only objects of files that were opened by their path can be pickled")
        return _reopen, (self._opened.filename, self._opened.options, self.name)


def _reopen(filename: str, options: dict[str, Any], name: str) -> Any:
    from hyperchunk.file import File

    return File(filename, **options)[name]


class RegionProxy:
    """Makes and explains references to parts of datasets."""

    def __init__(self, owner: HLObject) -> None:
        self._owner = owner

    def __getitem__(self, args: Any) -> RegionReference:
        from hyperchunk.dataset import Dataset
        from hyperchunk.selections import select

        if not isinstance(self._owner, Dataset):
            raise TypeError("Region references can only be made to datasets")
        selection = select(self._owner.shape or (), args if isinstance(args, tuple) else (args,))
        return RegionReference(REGION1, self._owner.ref._raw, selection)

    def shape(self, ref: RegionReference) -> tuple[int, ...]:
        """The shape of the dataset that the reference leads to."""
        shape: tuple[int, ...] = resolve_region(self._owner._opened, ref)[0].shape
        return shape

    def selection(self, ref: RegionReference) -> tuple[int, ...] | None:
        """The shape of what the reference selects."""
        shape: tuple[int, ...] | None = resolve_region(self._owner._opened, ref)[1].shape
        return shape


def resolve_region(opened: Opened, ref: RegionReference) -> tuple[Any, Any]:
    """The dataset that a reference leads to, and what it selects there."""
    from hyperchunk.dataset import Dataset
    from hyperchunk.selections import referred

    core = opened.need()
    if not isinstance(ref, RegionReference) or not ref:
        raise ValueError("not a region reference, or a null one")
    if ref._region is not None:
        return Dataset(opened, core.object(int.from_bytes(ref._raw, "little")), None), ref._region
    found, region, _ = core.dereference(ref._kind, ref._raw)
    if found.kind != 1 or region is None:
        raise InvalidError("the region reference does not lead to a dataset")
    dataset = Dataset(opened.of(found), found, None)
    return dataset, referred(dataset.shape or (), region)


class KeysViewHDF5(KeysView[str]):
    """The names."""

    _mapping: Any

    def __reversed__(self) -> Iterator[str]:
        return iter(reversed(self._mapping))

    def __repr__(self) -> str:
        return f"<KeysViewHDF5 {list(self)}>"

    __str__ = __repr__


class ValuesViewHDF5(ValuesView[Any]):
    """The values; looking for one opens them all."""

    _mapping: Any

    def __contains__(self, value: object) -> bool:
        return any(value == mine for mine in self)

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping._pairs(False))

    def __reversed__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping._pairs(True))


class ItemsViewHDF5(ItemsView[str, Any]):
    """The names with their values."""

    _mapping: Any

    def __contains__(self, item: object) -> bool:
        pair: Any = item
        name, value = pair
        return name in self._mapping and bool(value == self._mapping.get(name))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._mapping._pairs(False))

    def __reversed__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._mapping._pairs(True))


class MappingHDF5(Mapping[str, Any]):
    """Names with values: a group's members or an object's attributes."""

    __slots__ = ()

    def keys(self) -> KeysViewHDF5:
        """The names."""
        return KeysViewHDF5(self)

    def values(self) -> ValuesViewHDF5:
        """The values."""
        return ValuesViewHDF5(self)

    def items(self) -> ItemsViewHDF5:
        """The names with their values."""
        return ItemsViewHDF5(self)

    def __reversed__(self) -> Iterator[str]:
        return iter(list(self)[::-1])

    def _pairs(self, backwards: bool) -> Iterator[tuple[str, Any]]:
        for name in reversed(self) if backwards else iter(self):
            yield name, self.get(name)

    def _ipython_key_completions_(self) -> list[str]:
        return sorted(self.keys())

    __setitem__ = __delitem__ = read_only
    setdefault = pop = popitem = clear = update = read_only
