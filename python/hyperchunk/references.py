"""References: values that point to an object, or to a selection of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperchunk.likeness import class_of_h5py

if TYPE_CHECKING:
    from hyperchunk.selections import Selection

# Reference kinds of `_core`.
OBJECT1, REGION1, OBJECT2, REGION2, ATTRIBUTE = range(5)


class Reference:
    """An object reference: ``group[reference]`` opens the object. A null reference is false.

    It holds the bytes that the file stores, so it is only valid in that file.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"] = 1
        ...     file[file["x"].ref].name
        '/x'
    """

    __slots__ = ("_kind", "_raw", "_region")

    __class__ = class_of_h5py("Reference")

    #: 0 for objects, 1 for regions, 2 for attributes.
    typecode = 0

    def __init__(self, kind: int = OBJECT1, raw: bytes = b"", region: Selection | None = None) -> None:
        self._kind = kind
        self._raw = raw
        self._region = region

    def __bool__(self) -> bool:
        return any(self._raw)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Reference):
            mine, theirs = (self._kind, self._raw, self._region), (other._kind, other._raw, other._region)
            return mine == theirs
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self._kind, self._raw))

    def __reduce__(self) -> tuple[type[Reference], tuple[int, bytes]]:
        if self._region is not None:
            raise TypeError("a region reference that was not read from a file cannot be pickled")
        return type(self), (self._kind, self._raw)

    def __repr__(self) -> str:
        return f"<HDF5 object reference{'' if self else ' (null)'}>"


class RegionReference(Reference):
    """A region reference: ``dataset[reference]`` reads the selection, ``group[reference]`` opens the dataset.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"] = numpy.arange(10)
        ...     file["x"][file["x"].regionref[2:4]].tolist()
        [2, 3]
    """

    __slots__ = ()

    __class__ = class_of_h5py("RegionReference")

    typecode = 1

    def __init__(self, kind: int = REGION1, raw: bytes = b"", region: Selection | None = None) -> None:
        super().__init__(kind, raw, region)

    def __repr__(self) -> str:
        return f"<HDF5 region reference{'' if self else ' (null)'}>"


class AttributeReference(Reference):
    """An attribute reference: ``group[reference]`` opens the object that has the attribute."""

    __slots__ = ()

    typecode = 2

    def __init__(self, kind: int = ATTRIBUTE, raw: bytes = b"", region: Selection | None = None) -> None:
        super().__init__(kind, raw, region)

    def __repr__(self) -> str:
        return f"<HDF5 attribute reference{'' if self else ' (null)'}>"


def reference_class(kind: int) -> type[Reference]:
    """Returns the class of references of a stored kind."""
    if kind in (REGION1, REGION2):
        return RegionReference
    return AttributeReference if kind == ATTRIBUTE else Reference


def is_region_class(kind: type) -> bool:
    """Returns whether a class is :class:`RegionReference` or h5py's equivalent, which is unrelated to it."""
    return issubclass(kind, RegionReference) or kind.__name__ == "RegionReference"
