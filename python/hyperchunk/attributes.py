"""Attributes of objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from hyperchunk import _core, dtypes, values
from hyperchunk._printable import printable
from hyperchunk.dtypes import Empty
from hyperchunk.exceptions import ObjectNotFoundError
from hyperchunk.likeness import class_of_h5py
from hyperchunk.objects import AnyFile, AnyObject, HLObject, MappingHDF5, encode, read_only
from hyperchunk.suggestions import few, suggestion
from hyperchunk.typing import AttributeValue, Shape

#: Datatype, shape (None for a null dataspace) and bytes of an attribute.
StoredAttribute: TypeAlias = tuple[_core.Datatype, Shape | None, bytes]


class AttributeManager(MappingHDF5[AttributeValue]):
    """Attributes of an object: a mapping of names to values.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file.attrs["units"] = "K"
        >>> with hyperchunk.open("a.h5") as file:
        ...     dict(file.attrs)
        {'units': 'K'}
    """

    __slots__ = ("_opened", "_owner")

    __class__ = class_of_h5py("AttributeManager")

    def __init__(self, parent: HLObject) -> None:
        self._opened = parent._opened
        self._owner = parent

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._owner,)

    @property
    def _object(self) -> AnyObject:
        """The `_core` object of the owner, as of its last refresh."""
        return self._owner._object

    def __getitem__(self, name: str | bytes) -> AttributeValue:
        core = self._opened.need()
        found = self._object.attribute(encode(name))
        if found is None:
            raise self._missing(name)
        return _value(core, found)

    def _missing(self, name: str | bytes) -> ObjectNotFoundError:
        count = self._object.attribute_count()
        names = self._object.attribute_names() if few(count) else []
        wanted = name if isinstance(name, str) else name.decode("utf-8", "replace")
        near = suggestion(wanted, count, names, "the object") if count else "; the object has none"
        return ObjectNotFoundError(f"no attribute of the name {name!r} (object {self._where()}){near}")

    def get_id(self, name: str | bytes) -> StoredAttribute:
        """Returns an attribute in its stored form: datatype, shape (None for a null dataspace), and bytes."""
        self._opened.need()
        found = self._object.attribute(encode(name))
        if found is None:
            raise self._missing(name)
        return found

    def get(self, name: str | bytes, default: object = None) -> AttributeValue:
        """Returns the value of an attribute, or `default`.

        Args:
            name: Name of the attribute.
            default: Result if there is no such attribute.
        """
        core = self._opened.need()
        found = self._object.attribute(encode(name))
        return default if found is None else _value(core, found)

    def _where(self) -> str:
        # In a file that is being written, the search for a path visits many objects; the name is known without it.
        name = self._owner._name or self._object.path or "?"
        return f"{printable(name)}, file {printable(self._opened.filename)}"

    def __iter__(self) -> Iterator[str]:
        self._opened.need()
        return iter(self._object.attribute_names())

    def __len__(self) -> int:
        self._opened.need()
        return self._object.attribute_count()

    def __contains__(self, name: object) -> bool:
        self._opened.need()
        return self._object.attribute(encode(name)) is not None  # type: ignore[arg-type]

    def _pairs(self, backwards: bool) -> Iterator[tuple[str, AttributeValue]]:
        core = self._opened.need()
        found = self._object.attributes()
        for name, attribute in reversed(found) if backwards else found:
            # For an unreadable attribute, this raises its error.
            yield name, self[name] if attribute is None else _value(core, attribute)

    def __repr__(self) -> str:
        if not self._opened.is_open:
            return "<Attributes of closed HDF5 object>"
        return f"<Attributes of HDF5 object at {id(self._object)}>"

    create = modify = read_only


def _value(core: AnyFile, attribute: StoredAttribute) -> AttributeValue:
    datatype, shape, stored = attribute
    description = datatype.description
    if shape is None:
        return Empty(dtypes.to_dtype(description))
    plan = values.make_plan(description)
    array = plan.decode(core, stored, shape)
    if description[0] == "vlen-string" or (
        description[0] == "array" and dtypes.check_vlen_dtype(array.dtype) in (str, bytes)
    ):
        text = [value.decode("utf-8", "surrogateescape") for value in array.flat]
        flat = np.empty(len(text), array.dtype)
        flat[:] = text
        array = flat.reshape(array.shape)
    return array if array.ndim else array[()]
