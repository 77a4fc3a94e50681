"""Base classes of objects and mappings."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, overload

import numpy as np

from hyperchunk import Empty, _core
from hyperchunk import HLObject as Native
from hyperchunk.h5py import h5i, h5t
from hyperchunk.h5py._objects import Location, phil, with_phil
from hyperchunk.h5py._types import in_file
from hyperchunk.h5py.h5f import is_hdf5
from hyperchunk.objects import ItemsViewHDF5, KeysViewHDF5, ValuesViewHDF5
from hyperchunk.write import elements

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperchunk import Dataset, File, Group
    from hyperchunk.h5py import h5a, h5d
    from hyperchunk.h5py._hl import attrs, dataset, files, group
    from hyperchunk.h5py._hl.datatype import Datatype
    from hyperchunk.objects import RegionProxy
    from hyperchunk.references import Reference
    from hyperchunk.typing import Array, Dtype, DtypeOrDatatype

T = TypeVar("T")
#: Dtype of a new dataset or attribute: NumPy's forms of it, or a datatype of either interface.
DtypeLike: TypeAlias = "DtypeOrDatatype | Datatype | h5t.TypeID"


class CommonStateObject:
    """Base class of everything that has an identifier."""


class HLObject(CommonStateObject):
    """Base class of groups, datasets and committed datatypes."""

    _id: Location

    def __init__(self, oid: Location) -> None:
        self._id = oid

    @property
    def id(self) -> Location:
        """Low-level identifier."""
        return self._id

    @property
    def _hc(self) -> Native:
        """Hyperchunk's object."""
        return self._id._hc

    @property
    def file(self) -> files.File:
        """File of the object."""
        from hyperchunk.h5py._hl import files

        return files.File(h5i.get_file_id(self._id))

    @property
    def name(self) -> str | None:
        """Path of the object, or None if it has none."""
        name = h5i.get_name(self._id)
        return None if name is None else name.decode("utf-8", "surrogateescape")

    @property
    def parent(self) -> group.Group:
        """Parent group, by the object's name."""
        name = self.name
        if name is None:
            raise ValueError("Parent of an anonymous object is undefined")
        found: group.Group = self.file[posixpath.dirname(name)]
        return found

    @property
    def ref(self) -> Reference:
        """Reference to the object."""
        return self._hc.ref

    @property
    def regionref(self) -> RegionProxy:
        """Region references: ``regionref[index]`` makes one."""
        return self._hc.regionref

    @property
    def attrs(self) -> attrs.AttributeManager:
        """Attributes."""
        from hyperchunk.h5py._hl import attrs

        return attrs.AttributeManager(self)

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, HLObject):
            return bool(self._id == other._id)
        return NotImplemented

    def __bool__(self) -> bool:
        return bool(self._id)

    def __getnewargs__(self) -> NoReturn:
        raise TypeError("h5py objects cannot be pickled")

    def __getstate__(self) -> NoReturn:
        raise TypeError("h5py objects cannot be pickled")


def wrap(oid: Location) -> group.Group | dataset.Dataset | Datatype:
    """Returns the high-level object of an identifier."""
    from hyperchunk.h5py import h5d, h5g
    from hyperchunk.h5py._hl import dataset, datatype, group

    if isinstance(oid, h5g.GroupID):
        return group.Group(oid)
    return dataset.Dataset(oid) if isinstance(oid, h5d.DatasetID) else datatype.Datatype(oid)


@overload
def native(value: files.File) -> File: ...
@overload
def native(value: group.Group) -> Group: ...
@overload
def native(value: dataset.Dataset) -> Dataset: ...
@overload
def native(value: HLObject) -> Native | Dtype: ...
@overload
def native(value: T) -> T: ...
def native(value: object) -> object:
    """Returns Hyperchunk's object for a high-level one, and any other value unchanged.

    Example:
        >>> native(h5py.File("a.h5")["x"]).arrow()  # doctest: +SKIP
    """
    if not isinstance(value, HLObject) or Native in type(value).__mro__:
        return value
    if isinstance(value._id, h5t.TypeID) and not value._id.committed():
        return value._id.dtype
    return value._hc


def datatype(value: DtypeLike | None) -> DtypeOrDatatype | None:
    """Returns a dtype, or one of Hyperchunk's datatypes, for an argument `dtype`."""
    oid = value._id if isinstance(value, HLObject) and isinstance(value._id, h5t.TypeID) else value
    if isinstance(oid, h5t.TypeID):
        return oid._hc if oid.committed() else _core.Datatype(in_file(oid._description))
    return native(value)


class MappingHDF5(Mapping[str, Any]):
    """A mapping of names to values."""

    _pairs: Callable[[bool], Iterator[tuple[str, Any]]]

    def keys(self) -> KeysViewHDF5:
        """Returns a view of the names."""
        return KeysViewHDF5(self)

    def values(self) -> ValuesViewHDF5[Any]:
        """Returns a view of the values."""
        return ValuesViewHDF5(self)

    def items(self) -> ItemsViewHDF5[Any]:
        """Returns a view of the names and values."""
        return ItemsViewHDF5(self)

    def __reversed__(self) -> Iterator[str]:
        return iter(list(self)[::-1])

    def _ipython_key_completions_(self) -> list[str]:
        return sorted(self.keys())


class MutableMappingHDF5(MappingHDF5, MutableMapping[str, Any]):
    """A mapping of names to values that can be changed."""

    def clear(self) -> None:
        """Removes all names."""
        for name in list(self):
            del self[name]


def product(numbers: Iterable[int]) -> int:
    """Returns the product of numbers."""
    return math.prod(int(number) for number in numbers)


def is_empty_dataspace(obj: h5a.AttrID | h5d.DatasetID) -> bool:
    """Returns whether an object of the low-level interface has a null dataspace."""
    return bool(obj.get_space()._dims is None)


def is_float16_dtype(dt: npt.DTypeLike | None) -> bool:
    """Returns whether a dtype is a half-precision float."""
    return dt is not None and np.dtype(dt) == np.dtype("e")


def array_for_new_object(data: object, specified_dtype: npt.DTypeLike | None = None) -> Array:
    """Returns the array whose values a new dataset or attribute gets."""
    return elements.as_new(data, None if specified_dtype is None else np.dtype(specified_dtype))


def find_item_type(data: object) -> type | None:
    """Returns the common type of the items of nested lists; None if there are several."""
    if isinstance(data, list):
        found = {find_item_type(item) for item in data}
        return found.pop() if len(found) == 1 else None
    if type(data) is np.ndarray:
        return find_item_type(data.tolist()) if data.dtype.kind == "O" else None
    return type(data)


def guess_dtype(data: object) -> Dtype | None:
    """Returns the dtype of strings and references, for which NumPy has no equivalent; else None."""
    from hyperchunk import Reference, RegionReference, ref_dtype, regionref_dtype, string_dtype

    if isinstance(data, RegionReference):
        return regionref_dtype
    if isinstance(data, Reference):
        return ref_dtype
    if type(data) is bytes:
        return string_dtype(encoding="ascii")
    return string_dtype() if type(data) is str else None


__all__ = [
    "CommonStateObject",
    "Empty",
    "HLObject",
    "ItemsViewHDF5",
    "KeysViewHDF5",
    "MappingHDF5",
    "MutableMappingHDF5",
    "ValuesViewHDF5",
    "array_for_new_object",
    "cached_property",
    "find_item_type",
    "guess_dtype",
    "is_empty_dataspace",
    "is_float16_dtype",
    "is_hdf5",
    "phil",
    "product",
    "with_phil",
]
