"""Descriptions of datatypes: in memory and in files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk import dtypes
from hyperchunk.dtypes import Description
from hyperchunk.typing import Array, Dtype
from hyperchunk.write import datatypes

if TYPE_CHECKING:
    from hyperchunk.h5py.h5t import TypeID

# Sizes in a file: of the handle of a string or a sequence, and of a reference of each kind.
_HANDLE = 16
_REFERENCES = (8, 12, 64, 64, 64)
_PYTHON_OBJECT = ("opaque", 8, b"PYTHON:OBJECT")


def changed(description: Description, index: int, value: object) -> Description:
    """Returns a description with the item at an index replaced."""
    return (*description[:index], value, *description[index + 1 :])


def in_file(description: Description) -> Description:
    """Returns the description of elements as a file stores them: the inverse of :func:`hyperchunk.dtypes.in_memory`."""
    kind = description[0]
    if kind == "vlen-string":
        return (kind, _HANDLE, *description[2:])
    if kind == "vlen":
        return (kind, _HANDLE, in_file(description[2]))
    if kind == "reference" and description[2] < 2:
        return (kind, _REFERENCES[description[2]], description[2])
    if kind == "array":
        base = in_file(description[3])
        size = base[1]
        for dim in description[2]:
            size *= dim
        return (kind, size, description[2], base)
    if kind == "compound":
        members, grown = [], 0
        for name, offset, member in sorted(description[2], key=lambda member: int(member[1])):
            stored = in_file(member)
            members.append((name, offset + grown, stored))
            grown += stored[1] - member[1]
        return (kind, description[1] + grown, tuple(members))
    return description


def plain_memory(mtype: TypeID | None, arr: Array, shape: tuple[int, ...]) -> tuple[Description | None, Array]:
    """Returns the description of elements in memory that a datatype gives, and an array with them.

    Like libhdf5, takes the memory of a contiguous array as elements of the datatype, one after the other: if those of
    the array have another size, or are more, a view of its memory is returned, with the shape of the dataspace. The
    description is None without such a datatype, and for elements that Python or NumPy represent differently.

    Raises:
        ValueError: The memory of the array is too small.
    """
    if mtype is None or arr.dtype.hasobject:
        return None, arr
    description = mtype._description
    if dtypes._has_handle(description) or description == _PYTHON_OBJECT:
        return None, arr
    size = description[1]
    need = math.prod(shape) * size
    if size == arr.dtype.itemsize and arr.nbytes <= need:
        return description, arr
    if arr.nbytes < need:
        raise ValueError(f"expected {need} bytes of memory, {size} for each element, got {arr.nbytes}")
    return description, arr.reshape(-1).view(np.uint8)[:need].view(f"V{size}").reshape(shape)


def from_dtype(dtype: Dtype, logical: bool) -> Description:
    """Returns the description of a dtype, as it is in memory, or (`logical`) as it is stored."""
    if logical:
        return dtypes.in_memory(datatypes.stored(dtype))
    if dtype.subdtype is not None:
        base, dims = dtype.subdtype
        element = from_dtype(base, False)
        return ("array", dtype.itemsize, tuple(map(int, dims)), element)
    if dtype.names is not None:
        members = tuple(
            (name.encode("utf-8", "surrogateescape"), int(dtype.fields[name][1]), from_dtype(dtype[name], False))
            for name in dtype.names
            if dtype.fields is not None
        )
        return ("compound", dtype.itemsize, members)
    if dtype.kind == "O":
        special = dtypes.check_vlen_dtype(dtype) is not None or dtypes.check_ref_dtype(dtype) is not None
        if not special:
            raise TypeError(f"Object dtype {dtype!r} has no native HDF5 equivalent")
        return _PYTHON_OBJECT
    if dtypes.check_enum_dtype(dtype) is not None:
        return datatypes.stored(np.dtype(dtype.str))
    return datatypes.stored(dtype)
