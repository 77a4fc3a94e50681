"""Conversion of NumPy values to stored elements: the inverse of :mod:`hyperchunk.values`.

Numbers, fixed-length strings and compositions of them are passed in their memory layout: `_core` converts them while
it writes. Variable-length strings and sequences are stored first, and replaced by the handles that point to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from hyperchunk import _core, dtypes, values
from hyperchunk.dtypes import Description, Empty
from hyperchunk.exceptions import ConversionError, InvalidError, also
from hyperchunk.references import Reference, RegionReference
from hyperchunk.typing import Array, Dtype
from hyperchunk.write import datatypes

Lower = Callable[["_core.Writer", Array], Array]


class Part(NamedTuple):
    """Conversion of elements from a dtype to a datatype."""

    #: Dtype of the array passed to `_core`.
    wire: Dtype
    #: Datatype of that array.
    memory: Description
    #: Function that makes that array; None if it is the input itself.
    lower: Lower | None


# --- Values without a dtype ---


def _item_type(value: object) -> type | None:
    """Returns the type of all items of nested lists; None if there are several."""
    if isinstance(value, list | tuple):
        kinds = {_item_type(item) for item in value}
        return kinds.pop() if len(kinds) == 1 else None
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "U":
            return str
        if value.dtype.kind == "O" and dtypes.check_dtype(vlen=value.dtype) is None:
            kinds = {type(item) for item in value.flat}
            return kinds.pop() if len(kinds) == 1 else None
    return str if isinstance(value, str) else type(value)


def guess(value: object) -> Dtype | None:
    """Returns the dtype of values for which NumPy has none."""
    if isinstance(value, RegionReference):
        return dtypes.regionref_dtype
    if isinstance(value, Reference):
        return dtypes.ref_dtype
    kind = _item_type(value)
    if kind is str:
        return dtypes.string_dtype()
    if kind is bytes:
        return dtypes.string_dtype("ascii")
    if kind is not None and issubclass(kind, Reference):
        return dtypes.regionref_dtype if issubclass(kind, RegionReference) else dtypes.ref_dtype
    return None


def as_new(value: object, dtype: Dtype | None) -> Array:
    """Returns the array for a new dataset or attribute; `dtype` is the requested one."""
    if isinstance(value, np.ndarray) and dtype is not None and dtype.kind == "f" and dtype.itemsize == 2:
        # As in h5py: NumPy converts arrays for new objects of half precision, HDF5 those for other types.
        return value.astype(dtype) if converts(value.dtype, dtype) else value
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OU":
        return value
    if dtype is not None and dtype.kind in "biufc" and not isinstance(value, np.ndarray):
        # A requested type is not guessed. Arrays of other libraries are converted if nothing is lost.
        if isinstance(value, np.generic) or not (hasattr(value, "dtype") or hasattr(value, "__array__")):
            return as_array(value, dtype)
        array = np.asarray(value)
        return array.astype(dtype) if converts(array.dtype, dtype) else array
    if dtype is not None and dtype.metadata is not None and dtype.kind == "O":
        return as_array(value, dtype)
    guessed = guess(value)
    if guessed is not None:
        return objects(value, guessed) if guessed.kind == "O" else np.asarray(value)
    if isinstance(value, np.ndarray):
        return value
    is_number = isinstance(value, np.generic) and dtype is not None and dtype.kind == "S"
    if dtype is not None and (is_number or not (hasattr(value, "dtype") or hasattr(value, "__array__"))):
        return as_array(value, dtype)
    return np.asarray(value)


def objects(value: object, dtype: Dtype) -> Array:
    """Returns an array of Python objects, each of which is a value."""
    if isinstance(value, str | bytes | Reference):
        array = np.empty((), dtype)
        array[()] = value
        return array
    return np.asarray(value, dtype=object).astype(dtype)


def as_array(value: object, dtype: Dtype) -> Array:
    """Converts values to an array for elements whose dtype is `dtype`."""
    if isinstance(value, Empty):
        raise TypeError("an Empty has no values")
    base = dtype if dtype.subdtype is None else dtype.subdtype[0]
    element = dtypes.check_vlen_dtype(base)
    if element in (str, bytes):
        if isinstance(value, np.ndarray) and value.dtype.kind in "OSUT":
            return value
        return objects(value, dtypes.string_dtype())
    if element is not None:
        return _to_sequence_array(value, base, np.dtype(element))
    if dtypes.check_ref_dtype(base) is not None:
        return value if isinstance(value, np.ndarray) and value.dtype.kind == "O" else objects(value, base)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "U":
        array = np.asarray(value)
        if isinstance(value, np.bytes_) and base.kind == "S":
            # The conversion of one length to another, as HDF5 has it, ends at a zero byte.
            return np.asarray(value, base)
        if isinstance(value, np.generic) and converts(value.dtype, base):
            # As in h5py: NumPy converts scalars, HDF5 arrays.
            return np.asarray(value, base)
        # NumPy's scalars become text, as Python's numbers do; arrays of numbers do not.
        if isinstance(value, np.ndarray) or base.kind != "S" or array.dtype.kind in "SV":
            return array
    if base.kind == "S":
        return _fixed(value, base)
    if base.kind == "T":
        return np.asarray(value, dtype=object)
    if base.hasobject and (isinstance(value, str | bytes) or not hasattr(value, "__len__")):
        # NumPy would give each member the value, also text and sequences.
        raise TypeError(f"expected a tuple of {len(base.names or ())} values, got {type(value).__name__}")
    return np.asarray(value, dtype=base)


def converts(dtype: Dtype, wanted: Dtype) -> bool:
    """Returns whether NumPy converts values to another dtype without leaving out a part of them."""
    if wanted.kind not in "biufc" or dtype.kind not in "biufcS":
        return False
    return dtype.kind != "c" or wanted.kind == "c"


def _fixed(value: object, dtype: Dtype, encoding: str | None = None) -> Array:
    """Encodes fixed-length strings; text that is not ASCII is an error where ASCII is stored, as in h5py."""
    array = np.asarray(value)
    if array.dtype.kind in "UOT":
        described = dtypes.check_string_dtype(dtype)
        encoding = encoding or ("utf-8" if described is None else described.encoding)
        encoded = [item if isinstance(item, bytes) else str(item).encode(encoding) for item in array.flat]
        return np.array(encoded, dtype=dtype).reshape(array.shape)
    return np.asarray(array, dtype=dtype)


def to_object_array(value: object, dtype: Dtype) -> Array:
    """Returns a zero-dimensional array of one Python object."""
    array: Array = np.empty((), dtype)
    array[()] = value
    return array


def _depth(value: object) -> int:
    """Returns how deep sequences are nested in a value."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.ndim
    if isinstance(value, list | tuple | np.ndarray):
        return 1 + max((_depth(item) for item in value), default=0)
    return 0


def _levels(dtype: Dtype) -> int:
    """Returns how deep sequences are nested in a dtype."""
    if dtype.subdtype is not None:
        return len(dtype.subdtype[1]) + _levels(dtype.subdtype[0])
    element = dtypes.check_vlen_dtype(dtype)
    return 0 if element in (None, str, bytes) else 1 + _levels(np.dtype(element))


def _is_one_sequence(value: object, element: Dtype) -> bool:
    """Returns whether a value is one element of sequences of `element`, and not an array of such elements."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "O" or value.ndim != 1 or any(item is None for item in value):
            # None is an element that was never set.
            return False
    elif not isinstance(value, list | tuple):
        return False
    return _depth(value) <= 1 + _levels(element)


def _in_order(array: Array, dtype: Dtype) -> Array:
    """Returns records with the members in the order of a dtype, if they have the same names: NumPy assigns them in
    order.
    """
    names = dtype.names
    if names is None or array.dtype.names == names or set(array.dtype.names or ()) != set(names):
        return array
    return array[list(names)]


def _to_sequence_array(value: object, dtype: Dtype, element: Dtype) -> Array:
    """Returns an array of sequences: rows of a numeric array, or items of nested lists."""
    if element.kind == "O" and _is_one_sequence(value, element):
        whole: Array = np.empty(len(value), object)  # type: ignore[arg-type]
        for index, item in enumerate(cast("Iterable[object]", value)):
            whole[index] = item
        return to_object_array(whole, dtype)
    if not (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        try:
            plain = _in_order(np.asarray(value), element) if isinstance(value, np.ndarray) else value
            plain = np.asarray(plain, dtype=element)
        except (ValueError, TypeError):
            plain = None
        if plain is not None and element.kind != "O":
            if plain.ndim == 0:
                raise TypeError("expected a sequence for a variable-length element")
            rows: Array = np.empty(plain.shape[:-1], dtype)
            for position in np.ndindex(rows.shape):
                rows[position] = plain[position]
            return rows
        value = list(cast("Iterable[object]", value))
        rows = np.empty(len(value), dtype)
        for index, item in enumerate(value):
            rows[index] = item
        return rows
    return value


# --- Elements ---


def part(target: Description, dtype: Dtype) -> Part:
    """Describes the conversion of elements of `dtype` to `target`; the caller handles arrays of arrays."""
    kind = target[0]
    if dtype.subdtype is not None:
        base, dims = dtype.subdtype
        inner = part(element_type(target), base)
        memory = array_type(array_dims(target) or (dims,), inner.memory)
        return Part(np.dtype((inner.wire, dims)), memory, inner.lower)
    if kind == "compound" and dtype.names is not None:
        return _compound(target, dtype)
    if kind == "compound" and dtype.kind == "c":
        half = values.float_description(dtype.itemsize // 2, values.byte_order(dtype))
        names = [name for name, _, _ in target[2]]
        if len(names) == 2 and all(member[0] == "float" for _, _, member in target[2]):
            members = ((names[0], 0, half), (names[1], dtype.itemsize // 2, half))
            return Part(dtype, ("compound", dtype.itemsize, members), None)
    if kind == "vlen-string" and dtype.kind in "OSUT":
        return Part(_bytes(target[1]), target, _ascii_strings if target[3] == "ascii" else _strings)
    if kind == "string" and dtype.kind in "OUT":
        wire = np.dtype(f"S{target[1]}")
        return Part(wire, values.memory_description(target, wire), lambda _, array: _fixed(array, wire, target[3]))
    if kind == "vlen" and dtype.kind == "O":
        return Part(_bytes(target[1]), target, lambda writer, array: _sequences(writer, array, target[2]))
    if kind == "reference" and dtype.kind == "O":
        return Part(_bytes(target[1]), target, lambda writer, array: _references(writer, array, target))
    if kind == "enum" and dtype.kind in "iub":
        return _enum(target, dtype)
    if kind == "bitfield" and dtype.kind in "iu" and dtype.itemsize == target[1]:
        return Part(dtype, (kind, target[1], values.byte_order(dtype), *target[3:]), None)
    if kind == "opaque" and not dtype.hasobject:
        shown = dtypes.to_dtype(target)
        if shown.kind in "mM":
            return _time(target, shown, dtype)
        if dtype.itemsize == target[1]:
            return Part(_bytes(dtype.itemsize), target, None)
    if dtype.kind == "c" and kind != "complex":
        message = "cannot write complex numbers: expected values without an imaginary part; take .real or .imag"
        raise also(also(InvalidError(message), TypeError), OSError)
    return Part(dtype, values.memory_description(target, dtype), None)


def element_type(target: Description) -> Description:
    """Returns the innermost element of arrays."""
    while target[0] == "array":
        target = target[3]
    return target


def array_dims(target: Description) -> tuple[tuple[int, ...], ...]:
    """Returns the dimensions of each array of arrays, outermost first."""
    found = []
    while target[0] == "array":
        found.append(target[2])
        target = target[3]
    return tuple(found)


def array_type(nested: Iterable[tuple[int, ...]], memory: Description) -> Description:
    """Returns the datatype of arrays of arrays of an element."""
    for level in reversed(list(nested)):
        size = memory[1]
        for dim in level:
            size *= dim
        memory = ("array", size, tuple(level), memory)
    return memory


def _bytes(size: int) -> Dtype:
    return np.dtype(f"V{size}")


def _enum(target: Description, dtype: Dtype) -> Part:
    """Describes the conversion of integers and booleans to an enumeration: as integers, so that values without a name
    are kept.
    """
    memory = ("integer", dtype.itemsize, values.byte_order(dtype), dtype.kind != "u", 0, 8 * dtype.itemsize)
    return Part(dtype, target if memory == target[2] else memory, None)


def _time(target: Description, shown: Dtype, dtype: Dtype) -> Part:
    """Describes the conversion of times, or of differences of times, to those in another unit."""
    if dtype.kind != shown.kind:
        message = f"cannot convert values of type {dtype.str} to {shown.str}: convert them with NumPy's astype() first"
        raise ConversionError(message)
    wire = _bytes(shown.itemsize)
    return Part(wire, target, lambda _, array: array.astype(shown).view(wire))


def _compound(target: Description, dtype: Dtype) -> Part:
    assert dtype.names is not None
    assert dtype.fields is not None
    members = {name.decode("utf-8", "surrogateescape"): member for name, _, member in target[2]}
    for name in dtype.names:
        if name not in members:
            raise ValueError(f"Field {name} does not appear in this type.")
    names = dtype.names
    parts = [part(members[name], dtype[name]) for name in names]
    wire, lower = dtype, None
    if any(member.lower is not None for member in parts):
        wire = np.dtype([(name, member.wire) for name, member in zip(names, parts, strict=True)])

        def lower(writer: _core.Writer, array: Array) -> Array:
            out = np.zeros(array.shape, wire)
            for name, member in zip(names, parts, strict=True):
                column = array[name]
                out[name] = column if member.lower is None else member.lower(writer, column)
            return out

    assert wire.fields is not None
    described = tuple(
        (name.encode("utf-8", "surrogateescape"), wire.fields[name][1], member.memory)
        for name, member in zip(names, parts, strict=True)
    )
    return Part(wire, ("compound", wire.itemsize, described), lower)


def _strings(writer: _core.Writer, array: Array) -> Array:
    encoded = [_text(value) for value in array.flat]
    handles = writer.store([len(text) for text in encoded], 1, b"".join(encoded), False)
    return _handles(handles, array.shape)


def _ascii_strings(writer: _core.Writer, array: Array) -> Array:
    for value in array.flat:
        if isinstance(value, str):
            value.encode("ascii")  # raises an error, as h5py does, for text that is not ASCII
    return _strings(writer, array)


def _text(value: object) -> bytes:
    if not isinstance(value, str | bytes):
        advice = "use '' for an empty text" if value is None else "convert it with str()"
        raise TypeError(f"cannot write text: expected str or bytes, got {type(value).__name__}; {advice}")
    text: bytes = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    if b"\0" in text:
        raise ValueError("VLEN strings do not support embedded NULLs")
    return text


def _handles(handles: bytes, shape: tuple[int, ...]) -> Array:
    return np.frombuffer(handles, _bytes(datatypes.HANDLE_BYTES)).reshape(shape)


def _sequences(writer: _core.Writer, array: Array, element: Description) -> Array:
    shown = dtypes.to_dtype(element)
    rows = []
    for value in array.flat:
        # An unset element of an array of objects is an empty sequence.
        rows.append(np.empty(0, _base(shown)) if value is None else as_array(value, shown))
    counts = [len(row) if row.ndim else 0 for row in rows]
    if any(row.ndim == 0 for row in rows):
        raise TypeError("expected a sequence for a variable-length element")
    plain = [row for row in rows if len(row)]
    joined = _joined(plain, shown)
    data = to_stored(writer, element, joined)
    # An empty sequence in memory is a null sequence for HDF5.
    return _handles(writer.store(counts, element[1], data, True), array.shape)


def _base(shown: Dtype) -> Dtype:
    return shown if shown.subdtype is None else shown.subdtype[0]


def _joined(rows: list[Array], shown: Dtype) -> Array:
    if not rows:
        return np.empty((0, *(shown.subdtype[1] if shown.subdtype is not None else ())), _base(shown))
    if len({row.dtype for row in rows}) > 1:
        rows = [_in_order(row, _base(shown)).astype(_base(shown)) for row in rows]
    return np.concatenate(rows)


def _references(writer: _core.Writer, array: Array, target: Description) -> Array:
    size = target[1]
    raw = bytearray()
    for value in array.flat:
        if value is None:
            raw += bytes(size)
            continue
        if not isinstance(value, Reference):
            raise TypeError(f"expected a reference, got {type(value).__name__}")
        stored = value._raw or bytes(size)
        if value._region is not None:
            stored = _region(writer, value)
        if len(stored) != size:
            raise TypeError(f"cannot convert {value!r}: it is of another kind than the references stored here")
        raw += stored
    return np.frombuffer(bytes(raw), _bytes(size)).reshape(array.shape)


def _region(writer: _core.Writer, value: Reference) -> bytes:
    """Stores a selection of a dataset in the same file, and returns its region reference."""
    assert value._region is not None
    address = int.from_bytes(value._raw, "little")
    extent = writer.object(address).dataset().shape or ()
    return writer.store_region(address, extent, value._region.native)


@lru_cache(maxsize=256)
def datatype(description: Description) -> _core.Datatype:
    """Returns a datatype for `_core`."""
    return _core.Datatype(description)


class Ready(NamedTuple):
    """Elements in memory, ready to be written."""

    #: Contiguous array.
    array: Array
    #: Shape of the elements: without the inner dimensions of array elements.
    shape: tuple[int, ...]
    #: Datatype in memory; None if it is the stored one.
    memory: Description | None

    @property
    def memory_type(self) -> _core.Datatype | None:
        """Datatype in memory, for `_core`."""
        return None if self.memory is None else datatype(self.memory)


def ready(writer: _core.Writer, target: Description, array: Array) -> Ready:
    """Converts the elements of an array to a form that `_core` converts to `target`."""
    nested = array_dims(target)
    dims = sum(nested, ())
    shape = array.shape
    if dims:
        if array.shape[len(array.shape) - len(dims) :] != dims or len(array.shape) < len(dims):
            message = f"Can't write an array of shape {array.shape} to elements of shape {dims}"
            raise also(InvalidError(message), TypeError)
        shape = array.shape[: len(array.shape) - len(dims)]
    how = part(element_type(target), array.dtype)
    if how.lower is not None:
        array = how.lower(writer, array)
    memory = array_type(nested, how.memory)
    return Ready(array, shape, None if memory == target else memory)


def to_stored(writer: _core.Writer, target: Description, array: Array) -> bytes:
    """Returns the elements of an array in their stored form."""
    return stored_bytes(ready(writer, target, array), target)


def stored_bytes(found: Ready, target: Description, before: bytes | None = None) -> bytes:
    """Returns elements in memory in their stored form. `before` is the stored form of elements to change: members of
    compounds that `found` lacks stay as they are.
    """
    data = flat(found.array)
    if found.memory is None:
        return data.tobytes()
    count = int(np.prod(found.shape, dtype=np.int64))
    out = np.zeros(count * target[1], np.uint8) if before is None else np.frombuffer(bytearray(before), np.uint8)
    if count:
        _core.Conversion(_core.Datatype(found.memory), _core.Datatype(target)).run(data, out)
    return out.tobytes()


def flat(array: Array) -> Array:
    """Returns the bytes of an array as a contiguous array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
