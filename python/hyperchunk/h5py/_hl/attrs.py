"""Attributes of objects."""

from __future__ import annotations

from collections.abc import Iterator

from hyperchunk.attributes import AttributeManager as Attributes
from hyperchunk.exceptions import InvalidError, also
from hyperchunk.h5py import h5a
from hyperchunk.h5py._hl import base
from hyperchunk.objects import encode
from hyperchunk.typing import AttributeValue, ShapeLike


class AttributeManager(base.MutableMappingHDF5, base.CommonStateObject):
    """Attributes of an object: a mapping of names to values."""

    def __init__(self, parent: base.HLObject) -> None:
        self._id = parent.id

    @property
    def _attributes(self) -> Attributes:
        return self._id._hc.attrs

    def __getitem__(self, name: str | bytes) -> AttributeValue:
        return self._attributes[name]

    def get(self, name: str | bytes, default: object = None) -> AttributeValue:
        """Returns the value of an attribute, or `default`, also if the file is closed."""
        if not self._id:
            return default
        return self._attributes.get(name, default)

    def get_id(self, name: str | bytes) -> h5a.AttrID:
        """Returns the low-level identifier of an attribute."""
        return h5a.open(self._id, encode(name))

    def __setitem__(self, name: str | bytes, value: object) -> None:
        self._attributes[_named(name)] = base.native(value)

    def __delitem__(self, name: str | bytes) -> None:
        del self._attributes[name]

    def create(
        self, name: str | bytes, data: object, shape: ShapeLike | None = None, dtype: base.DtypeLike | None = None
    ) -> None:
        """Sets an attribute, replacing an existing one; `shape` and `dtype` override the ones of `data`."""
        self._attributes.create(_named(name), base.native(data), shape, base.datatype(dtype))

    def modify(self, name: str | bytes, value: object) -> None:
        """Changes the value of an attribute, which keeps its type and shape; creates it if it does not exist."""
        self._attributes.modify(_named(name), base.native(value))

    def __len__(self) -> int:
        return len(self._attributes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def _pairs(self, backwards: bool) -> Iterator[tuple[str, AttributeValue]]:
        return self._attributes._pairs(backwards)

    def __repr__(self) -> str:
        if not self._id:
            return "<Attributes of closed HDF5 object>"
        return f"<Attributes of HDF5 object at {id(self._id)}>"


def _named(name: str | bytes) -> str | bytes:
    """Returns the name of a new attribute, which must not be empty."""
    if name in ("", b""):
        raise also(InvalidError("Unable to create attribute (expected a name, got none)"), RuntimeError)
    return name
