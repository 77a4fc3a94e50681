"""Attributes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hyperchunk import _core, dtypes, values
from hyperchunk.h5py import h5, h5t
from hyperchunk.h5py._objects import Location, ObjectID, R, missing
from hyperchunk.h5py._types import in_file, plain_memory
from hyperchunk.h5py.h5s import SpaceID
from hyperchunk.typing import Array, Dtype
from hyperchunk.write import elements

if TYPE_CHECKING:
    from hyperchunk.attributes import StoredAttribute
    from hyperchunk.objects import HLObject


class AttrInfo(NamedTuple):
    """Description of an attribute."""

    corder_valid: bool
    corder: int
    cset: int
    data_size: int


class AttrID(ObjectID):
    """An attribute of an object."""

    def __init__(self, owner: Location, name: bytes) -> None:
        super().__init__()
        self._owner = owner
        self._name = name
        self._handle = owner._handle

    @property
    def valid(self) -> int:
        """1 until it, or its file, is closed, then 0."""
        return int(not self._closed and self._handle.is_open)

    @property
    def _stored(self) -> StoredAttribute:
        found = self._owner._hc._object.attribute(self._name)
        if found is None:
            raise KeyError(f"Can't open attribute (no attribute {self._name!r})")
        return found

    @property
    def _hc(self) -> HLObject:
        return self._owner._hc

    @property
    def name(self) -> bytes:
        """Name."""
        return self._name

    def get_name(self) -> bytes:
        """Returns the name."""
        return self._name

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Extent; None for a null dataspace."""
        found = self._stored[1]
        return None if found is None else tuple(found)

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype."""
        return dtypes.to_dtype(self._stored[0].description)

    def get_space(self) -> SpaceID:
        """Returns the dataspace."""
        shape = self._stored[1]
        return SpaceID(None if shape is None else tuple(shape))

    def get_type(self) -> h5t.TypeID:
        """Returns the datatype."""
        return h5t.typewrap(dtypes.in_memory(self._stored[0].description))

    def get_storage_size(self) -> int:
        """Returns the size of the elements in the file, in bytes."""
        return len(self._stored[2])

    def read(self, arr: Array, mtype: h5t.TypeID | None = None) -> None:
        """Reads into an array, with conversion to its dtype."""
        datatype, shape, stored = self._stored
        if shape is None:
            raise OSError("Unable to read attribute (null dataspace)")
        memory, arr = plain_memory(mtype, arr, tuple(shape))
        if memory is not None:
            out = elements.flat(arr).copy()  # members that the attribute lacks keep their values
            _core.Conversion(datatype, _core.Datatype(memory)).run(stored, out)
            arr[...] = out.view(arr.dtype).reshape(arr.shape)
            return
        plan = values.plan_as(datatype.description, arr.dtype if mtype is None else mtype.dtype)
        arr[...] = plan.decode(self._owner._hc._opened.need(), stored, tuple(shape)).reshape(arr.shape)

    def write(self, arr: Array, mtype: h5t.TypeID | None = None) -> None:
        """Writes the elements of an array, with conversion from its dtype."""
        datatype, shape, before = self._stored
        hc = self._owner._written
        given = np.ascontiguousarray(arr)
        memory, given = plain_memory(mtype, given, tuple(shape or ()))
        if memory is None:
            found = elements.ready(hc._writing.writer, datatype.description, given.reshape(np.shape(arr)))
        else:
            found = elements.Ready(given, tuple(shape or ()), None if memory == datatype.description else memory)
        if math.prod(found.shape) != math.prod(shape or ()):
            raise ValueError(f"expected elements of shape {shape}, got {np.shape(arr)}")
        made = elements.stored_bytes(found, datatype.description, before)
        hc._node.set_attribute(self._name, datatype, shape, made, utf8=not self._name.isascii())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AttrID):
            return NotImplemented
        return self is other

    def __hash__(self) -> int:
        return id(self)


def _target(loc: Location, obj_name: bytes) -> Location:
    if obj_name in (b".", "."):
        return loc
    from hyperchunk.h5py import h5o

    return h5o.open(loc, obj_name)


def _names(loc: Location, index_type: int, order: int) -> list[bytes]:
    """Returns the names of attributes in the order of an index. ITER_NATIVE, and the order of creation if it is not
    tracked, are the order in the file.
    """
    if index_type not in (h5.INDEX_NAME, h5.INDEX_CRT_ORDER):
        raise ValueError("invalid index type specified")
    if order not in (h5.ITER_INC, h5.ITER_DEC, h5.ITER_NATIVE):
        raise ValueError("invalid iteration order specified")
    names = [name.encode("utf-8", "surrogateescape") for name in loc._hc._object.attribute_names()]
    if index_type == h5.INDEX_NAME and order != h5.ITER_NATIVE:
        names.sort()
    return names[::-1] if order == h5.ITER_DEC else names


def _name_at(
    loc: Location, name: bytes | None, index: int, index_type: int, order: int, error: type[Exception], verb: str
) -> bytes:
    """Returns the given name, or the one at an index; raises `error` if it does not exist."""
    if (name is None) == (index < 0):
        raise TypeError("Exactly one of name or index must be specified")
    if name is not None:
        return name
    try:
        names = _names(loc, index_type, order)
    except ValueError as why:
        raise error(f"Unable to {verb} ({why})") from None
    if index >= len(names):
        raise error(f"Unable to {verb} (invalid index specified: {index} of {len(names)})")
    return names[index]


def create(
    loc: Location, name: bytes, tid: h5t.TypeID, space: SpaceID, *, obj_name: bytes = b".", lapl: object = None
) -> AttrID:
    """Creates an attribute, whose elements are zero."""
    loc = _target(loc, obj_name)
    if exists(loc, name):
        raise RuntimeError(f"Unable to create attribute (attribute {name!r} already exists)")
    description = in_file(tid._description)
    shape = space._dims
    size = 0 if shape is None else int(np.prod(shape, dtype=np.int64)) * description[1]
    loc._written._node.set_attribute(
        name, _core.Datatype(description), None if shape is None else list(shape), bytes(size), utf8=not name.isascii()
    )
    return AttrID(loc, name)


def open(
    loc: Location,
    name: bytes | None = None,
    index: int = -1,
    *,
    obj_name: bytes = b".",
    lapl: object = None,
    index_type: int = h5.INDEX_NAME,
    order: int = h5.ITER_INC,
) -> AttrID:
    """Opens an attribute by its name, or by its number in an order."""
    loc = _target(loc, obj_name)
    found = AttrID(loc, _name_at(loc, name, index, index_type, order, OSError, "open attribute"))
    found._stored  # noqa: B018 - raises an error if it does not exist
    return found


def exists(loc: Location, name: bytes, *, obj_name: bytes = b".", lapl: object = None) -> bool:
    """Returns whether an attribute exists."""
    return _target(loc, obj_name)._hc._object.attribute(name) is not None


def rename(loc: Location, name: bytes, new_name: bytes, *, obj_name: bytes = b".", lapl: object = None) -> None:
    """Renames an attribute."""
    loc = _target(loc, obj_name)
    if name == new_name:
        return
    if not exists(loc, name):
        raise RuntimeError(f"Can't rename attribute (can't locate attribute: {name!r})")
    if exists(loc, new_name):
        raise RuntimeError(f"Can't rename attribute (attribute {new_name!r} already exists)")
    loc._written._node.rename_attribute(name, new_name)


def delete(
    loc: Location,
    name: bytes | None = None,
    index: int = -1,
    *,
    obj_name: bytes = b".",
    lapl: object = None,
    index_type: int = h5.INDEX_NAME,
    order: int = h5.ITER_INC,
) -> None:
    """Removes an attribute, given by its name, or by its number in an order."""
    loc = _target(loc, obj_name)
    name = _name_at(loc, name, index, index_type, order, KeyError, "delete attribute")
    if not exists(loc, name):
        raise KeyError(f"Unable to delete attribute (no attribute {name!r})")
    loc._written._node.delete_attribute(name)


def get_num_attrs(loc: Location) -> int:
    """Returns the number of attributes."""
    return int(loc._hc._object.attribute_count())


def get_info(
    loc: Location | AttrID,
    name: bytes | None = None,
    index: int = -1,
    *,
    obj_name: bytes = b".",
    lapl: object = None,
    index_type: int = h5.INDEX_NAME,
    order: int = h5.ITER_INC,
) -> AttrInfo:
    """Returns the description of an attribute, given by itself, by its name, or by its number in an order."""
    if isinstance(loc, AttrID):
        name, loc, index = loc._name, loc._owner, -1
    else:
        loc = _target(loc, obj_name)
    name = _name_at(loc, name, index, index_type, order, RuntimeError, "get attribute info")
    if not exists(loc, name):
        raise RuntimeError(f"Unable to get attribute info (can't locate attribute: {name!r})")
    stored = AttrID(loc, name)._stored
    tracked = loc._hc._object.attribute_order_tracked
    order = loc._hc._object.attribute_names().index(name.decode("utf-8", "surrogateescape")) if tracked else 0
    return AttrInfo(tracked, order, int(not name.isascii()), len(stored[2]))


def iterate(
    loc: Location,
    func: Callable[..., R | None],
    index: int = 0,
    *,
    index_type: int = h5.INDEX_NAME,
    order: int = h5.ITER_INC,
    info: bool = False,
) -> R | None:
    """Calls a function with the name of each attribute (and its description, with ``info=True``) until it returns a
    value. `index` is the number of the first one in the order.
    """
    if index < 0:
        raise ValueError("Starting index must be a non-negative integer.")
    try:
        names = _names(loc, index_type, order)
    except ValueError as why:
        raise RuntimeError(f"Error iterating over attributes ({why})") from None
    if index and index >= len(names):
        raise RuntimeError(f"Error iterating over attributes (invalid index specified: {index} of {len(names)})")
    for raw in names[index:]:
        found = func(raw, get_info(loc, raw)) if info else func(raw)
        if found is not None:
            return found
    return None


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
