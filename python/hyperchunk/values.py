"""Conversion of stored elements to NumPy values.

A :class:`Part` describes the conversion of a datatype to a dtype. Numbers, fixed-length strings and compositions of
them need one step: `_core` converts them while it reads, directly into the array. Heap data (variable-length
sequences and strings) and references need a second step: the array read first holds their handles, which are then
resolved together in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hyperchunk import _core, dtypes
from hyperchunk.dtypes import Description
from hyperchunk.exceptions import ConversionError
from hyperchunk.references import reference_class
from hyperchunk.typing import Array, Dtype

#: A file opened for reading or writing.
AnyFile = _core.File | _core.Writer
Resolve = Callable[[AnyFile, Array], Array]

_LONG_DOUBLE_IS_X87 = np.finfo(np.longdouble).nmant == 63
_NATIVE = "<" if np.little_endian else ">"


class Part(NamedTuple):
    """Conversion of elements from a datatype to a dtype."""

    #: Final dtype.
    dtype: Dtype
    #: Dtype of the array that is read.
    wire: Dtype
    #: Datatype of the array that is read.
    memory: Description
    #: Converts `wire` to `dtype`; None if they are the same.
    resolve: Resolve | None


class Plan:
    """Plan for reading the elements of a datatype as a dtype."""

    __slots__ = ("clear", "conversion", "dtype", "resolve", "steps", "stored", "wire")

    def __init__(self, description: Description, part: Part) -> None:
        self.dtype = part.dtype
        self.wire = part.wire
        self.resolve = part.resolve
        #: Datatype of stored elements.
        self.stored = _core.Datatype(description)
        #: Conversion of stored elements to `wire`.
        self.steps = _core.Conversion(self.stored, _core.Datatype(part.memory))
        #: The same as `steps`; None if no conversion is needed.
        self.conversion = None if self.steps.is_copy else self.steps
        #: True if reading does not set every byte of an element: there may be gaps between members.
        self.clear = part.wire.names is not None

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Allocates an array to read into."""
        return np.zeros(shape, self.wire) if self.clear else np.empty(shape, self.wire)

    def finish(self, file: AnyFile, array: Array) -> Array:
        """Returns the final values of an array that was read."""
        return array if self.resolve is None else self.resolve(file, array)

    def decode(self, file: AnyFile, stored: bytes | bytearray, shape: tuple[int, ...]) -> Array:
        """Decodes stored elements that are in memory."""
        array = self.empty(shape)
        self.steps.run(stored, array)
        return self.finish(file, array)


@lru_cache(maxsize=1024)
def make_plan(description: Description) -> Plan:
    """Plans to read elements as h5py shows them."""
    return Plan(description, part(description, dtypes.to_dtype(description)))


def plan_as(description: Description, dtype: Dtype) -> Plan:
    """Plans to read elements as another dtype."""
    return Plan(description, part(description, dtype))


def over(before: Array, found: Array, description: Description) -> Array:
    """Returns the values of an array after a read: those that were read, and the ones that it had of members of
    records that `description` lacks.
    """
    while description[0] == "array":
        description = description[3]
    if before.dtype.names is None or description[0] != "compound":
        return found
    members = {name.decode("utf-8", "surrogateescape"): member for name, _, member in description[2]}
    found = np.broadcast_to(found, before.shape)
    for name in before.dtype.names:
        if name in members:
            before[name] = over(before[name], found[name], members[name])
    return before


def part(source: Description, dtype: Dtype) -> Part:
    """Describes the conversion of elements of `source` to `dtype`."""
    if dtype.subdtype is not None:
        return _array(source, dtype)
    if dtype.names is not None:
        return _compound(source, dtype)
    if source[0] == "vlen-string" and dtype.kind in "OST":
        return _strings(source, dtype)
    if source[0] == "string" and dtype.kind in "OT":
        return _fixed_strings(source, dtype)
    if source[0] == "vlen" and dtype.kind == "O":
        return _sequences(source, dtype)
    if source[0] == "reference" and dtype.kind == "O":
        return _references(source, dtype)
    return Part(dtype, dtype, memory_description(source, dtype), None)


def byte_order(dtype: Dtype) -> str:
    """Returns the byte order of a dtype."""
    return {"=": _NATIVE, "|": _NATIVE}.get(dtype.byteorder, dtype.byteorder)


def memory_description(source: Description, dtype: Dtype) -> Description:
    """Returns the datatype of a dtype without fields or subarrays."""
    size, order = dtype.itemsize, byte_order(dtype)
    # Bytes of a file must not become pointers to objects; and libhdf5 converts them to no numbers.
    is_opaque = dtype.kind in "VMm" or dtypes.check_opaque_dtype(dtype)
    if source[0] == "opaque" and size == source[1] and is_opaque and not dtype.hasobject:
        return source
    match dtype.kind:
        case "i" | "u":
            return ("integer", size, order, dtype.kind == "i", 0, 8 * size)
        case "b" if source[0] == "enum":
            return ("enum", 1, memory_description((None,), np.dtype("i1")), ((b"FALSE", 0), (b"TRUE", 1)))
        case "b":
            return ("integer", 1, order, True, 0, 8)
        case "f":
            return float_description(size, order)
        case "c":
            half = float_description(size // 2, order)
            # Complex numbers of HDF5 1.x: real and imaginary part.
            if source[0] == "compound" and dtypes.to_dtype(source).kind == "c":
                members = source[2]
                return ("compound", size, ((members[0][0], 0, half), (members[1][0], size // 2, half)))
            return ("complex", size, half)
        case "S":
            return ("string", size, "null-padded", source[3] if source[0] == "string" else "ascii")
        case "V":
            return ("opaque", size, b"")
        case "O" if dtype.metadata is None:
            raise TypeError(f"Object dtype {dtype!r} has no native HDF5 equivalent")
        case "O":
            raise ConversionError(f"no conversion path from the class {source[0]} to {dtype.metadata}")
        case _:
            raise TypeError(f"No conversion path for dtype: {dtype!r}")


def float_description(size: int, order: str) -> Description:
    """Describes an IEEE number, or the machine's long double."""
    bits = {2: 5, 4: 8, 8: 11}.get(size, 15)
    bias = (1 << (bits - 1)) - 1
    if size == 16 and _LONG_DOUBLE_IS_X87:
        return ("float", 16, order, 0, 80, 79, 64, 15, bias, 0, 64, "none")
    mantissa = 8 * size - 1 - bits
    return ("float", size, order, 0, 8 * size, 8 * size - 1, mantissa, bits, bias, 0, mantissa, "implied")


def _array(source: Description, dtype: Dtype) -> Part:
    assert dtype.subdtype is not None
    base, dims = dtype.subdtype
    # NumPy has no arrays of arrays: their dimensions form one list.
    nested, element = [], source
    while element[0] == "array":
        nested.append(element[2])
        element = element[3]
    if sum(nested, ()) != dims:
        nested = [dims]
    inner = part(element, base)
    memory, size = inner.memory, inner.wire.itemsize
    for level in reversed(nested):
        for dim in level:
            size *= dim
        memory = ("array", size, level, memory)
    return Part(dtype, np.dtype((inner.wire, dims)), memory, inner.resolve)


def _compound(source: Description, dtype: Dtype) -> Part:
    assert dtype.names is not None
    assert dtype.fields is not None
    stored = {}
    if source[0] == "compound":
        stored = {name.decode("utf-8", "surrogateescape"): member for name, _, member in source[2]}
    elif source[0] == "complex" and len(dtype.names) == 2:
        stored = dict.fromkeys(dtype.names, source[2])
    names = dtype.names
    # A member that is not stored stays zero; the conversion handles it.
    parts = [part(stored.get(name, (None,)), dtype[name]) for name in names]
    wire, resolve = dtype, None
    if any(member.resolve is not None for member in parts):
        wire = np.dtype([(name, member.wire) for name, member in zip(names, parts, strict=True)])
        resolve = _members(dtype, parts)
    assert wire.fields is not None
    members = tuple(
        (name.encode("utf-8", "surrogateescape"), wire.fields[name][1], member.memory)
        for name, member in zip(names, parts, strict=True)
    )
    return Part(dtype, wire, ("compound", wire.itemsize, members), resolve)


def _members(dtype: Dtype, parts: list[Part]) -> Resolve:
    names = dtype.names or ()

    def resolve(file: AnyFile, array: Array) -> Array:
        out = np.zeros(array.shape, dtype)
        for name, member in zip(names, parts, strict=True):
            values = array[name]
            out[name] = values if member.resolve is None else member.resolve(file, values)
        return out

    return resolve


def _handles(size: int) -> Dtype:
    return np.dtype(f"V{size}")


def _objects(values: Sequence[object], shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Makes an array of Python objects, which may themselves be sequences."""
    out = np.empty(len(values), dtype)
    for index, value in enumerate(values):
        out[index] = value
    return out.reshape(shape)


def _strings(source: Description, dtype: Dtype) -> Part:
    def resolve(file: AnyFile, array: Array) -> Array:
        found = file.strings(array.tobytes())
        if dtype.kind == "T":
            return np.array([_text(value) for value in found], dtype).reshape(array.shape)
        out = np.empty(len(found), dtype)
        out[:] = found
        return out.reshape(array.shape)

    return Part(dtype, _handles(source[1]), source, resolve)


def _fixed_strings(source: Description, dtype: Dtype) -> Part:
    wire = np.dtype(f"S{source[1]}")

    def resolve(_: AnyFile, array: Array) -> Array:
        if dtype.kind == "T":
            return np.array([_text(value) for value in array.flat], dtype).reshape(array.shape)
        return array.astype(dtype)

    return Part(dtype, wire, memory_description(source, wire), resolve)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _references(source: Description, dtype: Dtype) -> Part:
    size, kind = source[1], source[2]
    make = reference_class(kind)

    def resolve(_: AnyFile, array: Array) -> Array:
        raw = array.tobytes()
        found = [make(kind, raw[start : start + size]) for start in range(0, len(raw), size)]
        return _objects(found, array.shape, dtype)

    return Part(dtype, _handles(size), source, resolve)


def _element_dtype(dtype: Dtype) -> Dtype:
    """Returns the dtype of the arrays that represent sequences: as in h5py, native and without metadata for numbers
    and objects.
    """
    if dtype.subdtype is not None or dtype.kind not in "biufcmMO":
        return dtype
    return np.dtype("O") if dtype.kind == "O" else np.dtype(dtype.newbyteorder("=").str)


def _sequences(source: Description, dtype: Dtype) -> Part:
    element = source[2]
    wanted = dtypes.check_vlen_dtype(dtype)
    base = wanted if isinstance(wanted, np.dtype) else dtypes.to_dtype(element)
    inner = part(element, _element_dtype(base))
    plan = Plan(element, inner)

    def resolve(file: AnyFile, array: Array) -> Array:
        counts, data = file.sequences(array.tobytes(), plan.stored)
        values = plan.decode(file, data, (sum(counts),))
        found, start = [], 0
        for count in counts:
            # Each is a copy: keeping one must not keep the buffer of all.
            found.append(values[start : start + count].copy())
            start += count
        return _objects(found, array.shape, dtype)

    return Part(dtype, _handles(source[1]), source, resolve)


def default_fill(dtype: Dtype) -> Array:
    """Returns the default fill value as an array of one element: zeros, empty strings, or None for objects."""
    array = np.zeros((1,), dtype)
    if dtypes.check_string_dtype(dtype) is not None:
        array[:] = b""
    else:
        _clear_objects(array)
    return array


def _clear_objects(array: Array) -> None:
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _clear_objects(array[name])
    elif array.dtype.hasobject:
        array[...] = None
