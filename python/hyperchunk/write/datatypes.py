"""Conversion of NumPy dtypes to HDF5 datatypes: the inverse of :mod:`hyperchunk.dtypes`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hyperchunk import dtypes
from hyperchunk.dtypes import Description
from hyperchunk.references import is_region_class
from hyperchunk.typing import Dtype
from hyperchunk.values import byte_order, float_description

# Size in bytes of the stored handle of a string or a sequence: its length, and its address and index in the heap.
HANDLE_BYTES = 16


@lru_cache(maxsize=1024)
def _plain(text: str) -> Description:
    """Returns the datatype of numbers, given the dtype's text."""
    dtype = np.dtype(text)
    size, order = dtype.itemsize, byte_order(dtype)
    match dtype.kind:
        case "i" | "u":
            return ("integer", size, order, dtype.kind == "i", 0, 8 * size)
        case "f":
            return float_description(size, order)
        case _:
            part = float_description(size // 2, order)
            return ("compound", size, ((b"r", 0, part), (b"i", size // 2, part)))


def stored(dtype: Dtype) -> Description:
    """Returns the datatype in which values of a dtype are stored: h5py's choice."""
    if dtype.subdtype is not None:
        base, dims = dtype.subdtype
        element = stored(base)
        return ("array", element[1] * int(np.prod(dims)), tuple(map(int, dims)), element)
    if dtype.names is not None:
        return _compound(dtype)
    if dtypes.check_opaque_dtype(dtype):
        return ("opaque", dtype.itemsize, b"NUMPY:" + dtype.str.encode("ascii"))
    if (values := dtypes.check_enum_dtype(dtype)) is not None:
        return enum(dtype, values)
    if (element := dtypes.check_vlen_dtype(dtype)) is not None:
        return _sequence(element)
    if (reference := dtypes.check_ref_dtype(dtype)) is not None:
        return ("reference", 12, 1) if is_region_class(reference) else ("reference", 8, 0)
    match dtype.kind:
        case "i" | "u" | "f" | "c":
            return _plain(dtype.str)
        case "b":
            return ("enum", 1, _plain("|i1"), ((b"FALSE", 0), (b"TRUE", 1)))
        case "S":
            info = dtypes.check_string_dtype(dtype)
            if dtype.itemsize == 0:
                raise ValueError("strings of length 0 cannot be stored: give the dtype a length")
            return ("string", dtype.itemsize, "null-padded", "ascii" if info is None else info.encoding)
        case "V":
            return ("opaque", dtype.itemsize, b"")
        case "O":
            raise TypeError(f"Object dtype {dtype!r} has no native HDF5 equivalent")
        case _:
            raise TypeError(f"No conversion path for dtype: {dtype!r}")


def _sequence(element: npt.DTypeLike) -> Description:
    if element is str:
        return ("vlen-string", HANDLE_BYTES, "null-terminated", "utf-8")
    if element is bytes:
        return ("vlen-string", HANDLE_BYTES, "null-terminated", "ascii")
    return ("vlen", HANDLE_BYTES, stored(np.dtype(element)))


def enum(dtype: Dtype, values: dict[str | bytes, int]) -> Description:
    """Returns the datatype of an enumeration."""
    members = tuple(
        (name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogateescape"), int(value))
        for name, value in values.items()
    )
    # In the order of their names, as in h5py.
    return ("enum", dtype.itemsize, _plain(np.dtype(dtype.str).str), tuple(sorted(members)))


def _compound(dtype: Dtype) -> Description:
    """Returns a compound with NumPy's offsets. Members that are larger for libhdf5 shift the following ones, in memory
    unless there is space for them, and in files.
    """
    assert dtype.names is not None
    assert dtype.fields is not None
    found, end, grown = {}, 0, 0
    for name in sorted(dtype.names, key=lambda name: dtype.fields[name][1]):  # type: ignore[index]
        member, offset = dtype.fields[name][:2]
        description = stored(member)
        in_memory: int = dtypes.in_memory(description)[1]
        offset = max(offset, end)
        found[name] = (name.encode("utf-8", "surrogateescape"), offset + grown, description)
        grown += description[1] - in_memory
        if end or in_memory > member.itemsize:
            end = offset + in_memory
    return ("compound", max(dtype.itemsize, end) + grown, tuple(found[name] for name in dtype.names))
