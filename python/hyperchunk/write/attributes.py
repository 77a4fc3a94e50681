"""Attributes of objects that are being written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hyperchunk import _core, dtypes
from hyperchunk.attributes import AttributeManager
from hyperchunk.datatype import Datatype
from hyperchunk.dtypes import as_empty
from hyperchunk.exceptions import InvalidError, also
from hyperchunk.objects import encode
from hyperchunk.typing import Dtype, DtypeOrDatatype, ShapeLike
from hyperchunk.write import datatypes, elements
from hyperchunk.write.mapping import MutableNames
from hyperchunk.write.opened import writing

if TYPE_CHECKING:
    from hyperchunk.write.objects import WritableObject


class WritableAttributes(MutableNames, AttributeManager):
    """Attributes of an object, writable: ``attrs[name] = value``."""

    __slots__ = ()

    def __init__(self, parent: WritableObject) -> None:
        super().__init__(parent)

    @property
    def _node(self) -> _core.Node:
        assert isinstance(self._object, _core.Node)
        return self._object

    def __setitem__(self, name: str | bytes, value: object) -> None:
        self.create(name, value)

    def __delitem__(self, name: str | bytes) -> None:
        self._opened.need()
        if name not in self:
            raise self._missing(name)
        self._node.delete_attribute(encode(name))

    def create(
        self,
        name: str | bytes,
        data: object,
        shape: ShapeLike | None = None,
        dtype: DtypeOrDatatype | None = None,
    ) -> None:
        """Sets an attribute; `shape` and `dtype` override the ones of `data`. An attribute of that name is replaced,
        and becomes the last in creation order, as with h5py; :meth:`modify` keeps its position.

        Args:
            name: Name of the attribute.
            data: The value; :class:`hyperchunk.Empty` for a null dataspace.
            shape: Extent, by default the one of `data`.
            dtype: Dtype, or a committed datatype; by default the one of `data`.

        Raises:
            ValueError: `shape` does not match `data`.
            TypeError: HDF5 has no datatype for the dtype.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file.attrs.create("gain", 2, dtype="f4")
            ...     float(file.attrs["gain"])
            2.0
        """
        writer = writing(self._opened).writer
        committed = None
        if isinstance(dtype, Datatype):
            node = dtype._object
            committed = node if isinstance(node, _core.Node) and dtype._opened is self._opened else None
            description = node.datatype().description
            wanted: Dtype | None = dtypes.to_dtype(description)
        elif isinstance(dtype, _core.Datatype):
            description = dtype.description
            wanted = dtypes.to_dtype(description)
        else:
            description = None
            wanted = None if dtype is None else np.dtype(dtype)
        raw, as_utf8 = encode(name), not encode(name).isascii()
        if (nothing := as_empty(data)) is not None:
            if (wanted or nothing.dtype).subdtype is not None:
                raise TypeError(
                    f"cannot create attribute {name!r}: expected a dtype without a shape for an empty value, got "
                    f"{wanted or nothing.dtype}"
                )
            description = description or datatypes.stored(wanted or nothing.dtype)
            empty = _core.Datatype(description)
            self._node.set_attribute(raw, empty, None, b"", utf8=as_utf8, committed=committed, last=True)
            return
        array = elements.as_new(data, wanted)
        if wanted is not None and array.dtype != wanted and _converts(array.dtype, wanted):
            # As in h5py: NumPy converts the values of attributes that are created, HDF5 those that are modified.
            array = array.astype(wanted)
        if description is None:
            description = datatypes.stored(array.dtype if wanted is None else wanted)
        found = elements.ready(writer, description, array)
        extent = found.shape
        if shape is not None:
            extent = (shape,) if isinstance(shape, int) else tuple(shape)
            if int(np.prod(extent, dtype=np.int64)) != int(np.prod(found.shape, dtype=np.int64)):
                raise ValueError("Shape of new attribute conflicts with shape of data")
        stored = elements.stored_bytes(found, description)
        self._node.set_attribute(
            raw, _core.Datatype(description), list(extent), stored, utf8=as_utf8, committed=committed, last=True
        )

    def modify(self, name: str | bytes, value: object) -> None:
        """Changes the value of an attribute, which keeps its type and shape; creates it if it does not exist.

        Members of a compound that `value` lacks keep their values.
        """
        found = self._object.attribute(encode(name))
        if found is None:
            self.create(name, value)
            return
        datatype, shape, before = found
        if shape is None:
            raise also(InvalidError("Empty attributes can't be modified"), OSError)
        writer = writing(self._opened).writer
        description = datatype.description
        shown = dtypes.to_dtype(description)
        array = elements.as_array(value, shown)
        if dtypes.check_vlen_dtype(shown) in (str, bytes) and (
            array.dtype.kind not in "OSUT"
            or (array.dtype.kind == "O" and not all(isinstance(item, str | bytes) for item in array.flat))
        ):
            raise TypeError(f"cannot change attribute {name!r}: expected strings, got {value!r:.100}")
        made = elements.ready(writer, description, array)
        if made.shape != tuple(shape) and not (int(np.prod(made.shape)) == int(np.prod(shape)) == 1):
            raise TypeError(f"Shape of data is incompatible with existing attribute (new {made.shape}, old {shape})")
        stored = elements.stored_bytes(made, description, before)
        raw = encode(name)
        self._node.set_attribute(raw, datatype, list(shape), stored, utf8=not raw.isascii())


def _converts(dtype: Dtype, wanted: Dtype) -> bool:
    """Returns whether NumPy converts the values of a new attribute."""
    numbers, times = "biuf", "mM"
    if dtype.kind in times or wanted.kind in times:
        return wanted.kind in numbers or dtype.kind in numbers or dtype.kind == wanted.kind
    return elements.converts(dtype, wanted)
