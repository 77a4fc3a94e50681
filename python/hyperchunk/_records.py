"""Strings and compounds for Python functions: sequences of elements over the memory of a dataset.

An element of a compound has its members as attributes, under HDF5-UDF's names and their own. A string is a ``bytes``
object that remembers its location, so that it can be set. NumPy gets the same memory as a structured array.
"""

from __future__ import annotations

import operator
import struct

# Importing `typing` would take longer than the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, SupportsIndex, TypeAlias

    #: Python value of an element: a number, a String, an Elements of an array, a Record, or what is assigned to one.
    Value: TypeAlias = Any
    #: Description of an element type, from the worker.
    Description: TypeAlias = tuple[Any, ...]
    #: Argument of `numpy.dtype`.
    DtypeSpec: TypeAlias = Any
    #: Memory of a dataset, from the worker.
    Buffer: TypeAlias = Any
    #: Index of elements: an integer, a slice, or another index of NumPy.
    Index: TypeAlias = Any

READ_ONLY = "this dataset is an input and cannot be written"


class Layout:
    """Memory layout of an element type."""

    size: int

    def __init__(self, size: int) -> None:
        self.size = size

    def get(self, memory: Memory, at: int) -> Value:
        """Returns the element at byte ``at``."""
        raise NotImplementedError

    def put(self, memory: Memory, at: int, value: Value) -> None:
        """Stores an element at byte ``at``."""
        raise NotImplementedError

    def dtype(self) -> DtypeSpec:
        """Returns the NumPy dtype, or ``None`` if there are strings of variable length."""
        raise NotImplementedError

    def plain(self, memory: Memory, at: int) -> Value:
        """Returns the element as a plain Python object."""
        return self.get(memory, at)

    def object_dtype(self) -> DtypeSpec:
        """Returns the NumPy dtype with objects for strings of variable length."""
        return self.dtype()


class Memory:
    """Bytes of a dataset, and the buffer that resolves pointers to strings."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.view = memoryview(buffer)

    def check(self) -> None:
        """Raises ValueError if the dataset is an input."""
        if self.view.readonly:
            raise ValueError(READ_ONLY)


class Number(Layout):
    """A number, returned as a Python number."""

    def __init__(self, size: int, code: str) -> None:
        super().__init__(size)
        self.code = code

    def get(self, memory: Memory, at: int) -> Value:
        return struct.unpack_from("=" + self.code, memory.view, at)[0]

    def put(self, memory: Memory, at: int, value: Value) -> None:
        memory.check()
        if self.code not in "fd":
            try:
                value = operator.index(value)
            except TypeError:
                raise TypeError("this member takes integers; write int(…)") from None
        try:
            struct.pack_into("=" + self.code, memory.view, at, value)
        except struct.error as error:
            if isinstance(value, int):
                raise OverflowError(f"{value} does not fit into {self.size} bytes") from None
            raise TypeError(str(error)) from None

    def dtype(self) -> DtypeSpec:
        return {"b": "i1", "B": "u1", "f": "f4", "d": "f8"}.get(self.code) or f"{'ui'[self.code.islower()]}{self.size}"


class String(bytes):
    """Bytes of a string up to its first zero, which compare equal to the same text and remember their location."""

    memory: Memory
    at: int
    #: Size in bytes of the string's space; 0 if it cannot be set.
    room: int

    def __new__(cls, text: bytes, memory: Memory, at: int, room: int) -> String:
        made = super().__new__(cls, text)
        made.memory, made.at, made.room = memory, at, room
        return made

    def __eq__(self, other: object) -> bool:
        return bytes(self) == (other.encode() if isinstance(other, str) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return bytes.__hash__(self)

    def __str__(self) -> str:
        return self.decode()

    @property
    def value(self) -> String:
        """The string itself: HDF5-UDF gives elements of string datasets this member."""
        return self

    @value.setter
    def value(self, text: str | bytes) -> None:
        write(self.memory, self.at, self.room, encoded(text))


def encoded(text: object) -> bytes:
    """Encodes text as UTF-8; returns bytes unchanged."""
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise TypeError(f"a string takes bytes or str, not {type(text).__name__}")


def write(memory: Memory, at: int, room: int, text: bytes) -> None:
    """Stores a string that must fit, and clears the rest of its space."""
    memory.check()
    if room == 0:
        raise ValueError(READ_ONLY)
    if len(text) > room:
        raise ValueError(f"{len(text)} bytes do not fit into a string of {room}; lib.setString truncates them")
    memory.view[at : at + room] = text.ljust(room, b"\0")


class FixedString(Layout):
    """A string of a fixed number of bytes."""

    def get(self, memory: Memory, at: int) -> String:
        text = bytes(memory.view[at : at + self.size]).split(b"\0", 1)[0]
        return String(text, memory, at, self.size)

    def put(self, memory: Memory, at: int, value: Value) -> None:
        write(memory, at, self.size, encoded(value))

    def plain(self, memory: Memory, at: int) -> bytes:
        return bytes(self.get(memory, at))

    def dtype(self) -> DtypeSpec:
        return f"S{self.size}"


class VariableString(Layout):
    """Pointer to a string; occurs only in inputs."""

    def get(self, memory: Memory, at: int) -> String:
        return String(memory.buffer.text_at(at), memory, at, 0)

    def put(self, memory: Memory, at: int, value: Value) -> None:
        raise ValueError(READ_ONLY)

    def plain(self, memory: Memory, at: int) -> bytes:
        return bytes(self.get(memory, at))

    def dtype(self) -> DtypeSpec:
        return None

    def object_dtype(self) -> DtypeSpec:
        return "O"


class Array(Layout):
    """An array element, returned as a flat sequence."""

    def __init__(self, size: int, base: Layout, dims: tuple[int, ...]) -> None:
        super().__init__(size)
        self.base, self.dims = base, dims
        self.count = size // base.size

    def get(self, memory: Memory, at: int) -> Elements:
        return Elements(memory, at, self.base, self.count)

    def put(self, memory: Memory, at: int, value: Value) -> None:
        self.get(memory, at)[:] = value

    def plain(self, memory: Memory, at: int) -> Value:
        import numpy as np

        flat = np.empty(self.count, self.base.object_dtype())
        flat[:] = [self.base.plain(memory, at + n * self.base.size) for n in range(self.count)]
        return flat.reshape(self.dims)

    def dtype(self) -> DtypeSpec:
        base = self.base.dtype()
        return None if base is None else (base, self.dims)

    def object_dtype(self) -> DtypeSpec:
        return (self.base.object_dtype(), self.dims)


class Compound(Layout):
    """A compound with named members."""

    def __init__(self, size: int, members: list[tuple[str, list[str], int, Layout]]) -> None:
        super().__init__(size)
        self.members = members
        self.by_name: dict[str, tuple[int, Layout]] = {}
        for name, identifiers, offset, layout in members:
            self.by_name.update(dict.fromkeys(identifiers, (offset, layout)))
            self.by_name[name] = (offset, layout)

    def get(self, memory: Memory, at: int) -> Record:
        return Record(memory, at, self)

    def put(self, memory: Memory, at: int, value: Value) -> None:
        memory.check()
        if isinstance(value, dict):
            for name, part in value.items():
                offset, layout = self.member(name)
                layout.put(memory, at + offset, part)
            return
        parts = tuple(value)
        if len(parts) != len(self.members):
            raise ValueError(f"expected {len(self.members)} values, one for each member, got {len(parts)}")
        for (_, _, offset, layout), part in zip(self.members, parts, strict=True):
            layout.put(memory, at + offset, part)

    def member(self, name: str) -> tuple[int, Layout]:
        """Returns the offset and layout of a member."""
        found = self.by_name.get(name)
        if found is None:
            raise AttributeError(f"no member {name!r}; there are {', '.join(m[1][0] for m in self.members)}")
        return found

    def plain(self, memory: Memory, at: int) -> tuple[Value, ...]:
        return tuple(layout.plain(memory, at + offset) for _, _, offset, layout in self.members)

    def dtype(self) -> DtypeSpec:
        formats = [layout.dtype() for *_, layout in self.members]
        if any(f is None for f in formats):
            return None
        names, offsets = [m[0] for m in self.members], [m[2] for m in self.members]
        return {"names": names, "formats": formats, "offsets": offsets, "itemsize": self.size}

    def object_dtype(self) -> DtypeSpec:
        return [(m[0], m[3].object_dtype()) for m in self.members]


class Record:
    """An element of a compound, with its members as attributes."""

    __slots__ = ("_at", "_layout", "_memory")

    def __init__(self, memory: Memory, at: int, layout: Compound) -> None:
        object.__setattr__(self, "_memory", memory)
        object.__setattr__(self, "_at", at)
        object.__setattr__(self, "_layout", layout)

    def __getattr__(self, name: str) -> Value:
        offset, layout = self._layout.member(name)
        return layout.get(self._memory, self._at + offset)

    def __setattr__(self, name: str, value: Value) -> None:
        offset, layout = self._layout.member(name)
        layout.put(self._memory, self._at + offset, value)

    __getitem__ = __getattr__
    __setitem__ = __setattr__

    def __iter__(self) -> Iterator[Value]:
        return iter([self[name] for name, *_ in self._layout.members])

    def __eq__(self, other: object) -> bool:
        mine = self._layout.plain(self._memory, self._at)
        return bool(mine == (tuple(other) if isinstance(other, (Record, list)) else other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._layout.plain(self._memory, self._at))


class Elements:
    """Sequence of elements stored contiguously."""

    def __init__(self, memory: Memory, at: int, layout: Layout, count: int) -> None:
        self._memory, self._at, self._layout, self._count = memory, at, layout, count

    def __len__(self) -> int:
        return self._count

    @property
    def shape(self) -> tuple[int]:
        """One-tuple with the number of elements."""
        return (self._count,)

    def _offset(self, index: SupportsIndex) -> int:
        n = operator.index(index)
        position = n + self._count if n < 0 else n
        if not 0 <= position < self._count:
            raise IndexError(f"index {n} is outside the dataset's {self._count} elements")
        return self._at + position * self._layout.size

    def __getitem__(self, index: Index) -> Value:
        if hasattr(index, "__index__"):
            return self._layout.get(self._memory, self._offset(index))
        return self.__array__()[index]

    def __setitem__(self, index: Index, value: Value) -> None:
        self._memory.check()
        if hasattr(index, "__index__"):
            self._layout.put(self._memory, self._offset(index), value)
            return
        if not isinstance(index, slice):
            self.__array__()[index] = value
            return
        positions = range(*index.indices(self._count))
        one = isinstance(value, (str, bytes, dict, int, float)) or not hasattr(value, "__len__")
        if not one and len(value) != len(positions):
            raise ValueError(f"expected {len(positions)} values for the slice, got {len(value)}")
        for position, part in zip(positions, [value] * len(positions) if one else value, strict=True):
            self._layout.put(self._memory, self._offset(position), part)

    def __iter__(self) -> Iterator[Value]:
        return (self[n] for n in range(self._count))

    def __array__(self, dtype: DtypeSpec = None, copy: bool | None = None) -> Value:
        import numpy as np

        kind = self._layout.dtype()
        if kind is None:
            array = np.empty(self._count, self._layout.object_dtype())
            size = self._layout.size
            for n in range(self._count):
                array[n] = self._layout.plain(self._memory, self._at + n * size)
        else:
            end = self._at + self._count * self._layout.size
            array = np.frombuffer(self._memory.view[self._at : end], np.dtype(kind))
            if copy:
                array = array.copy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"<{self._count} elements>"


class Dataset(Elements):
    """Result of ``lib.getData`` for strings and compounds."""

    def __init__(self, buffer: Buffer, kind: str, layout: Layout) -> None:
        memory = Memory(buffer)
        super().__init__(memory, 0, layout, len(memory.view) // layout.size)
        self.dims = buffer.dims
        self.datatype = kind


def build_layout(description: Description) -> Layout:
    """Builds a layout from the worker's description."""
    kind, size, *rest = description
    if kind == "number":
        return Number(size, rest[0])
    if kind == "text":
        return FixedString(size)
    if kind == "pointer":
        return VariableString(size)
    if kind == "array":
        return Array(size, build_layout(rest[0]), tuple(rest[1]))
    return Compound(size, [(name, names, offset, build_layout(part)) for name, names, offset, part in rest[0]])


def dataset(buffer: Buffer, kind: str, layout: Description) -> Dataset:
    """Returns a dataset of strings or compounds over the bytes of ``buffer``."""
    return Dataset(buffer, kind, build_layout(layout))


def raw(data: Buffer) -> memoryview:
    """Returns the bytes of a dataset."""
    return data._memory.view if isinstance(data, Dataset) else memoryview(data).cast("B")


def string(member: object) -> str:
    """Decodes a string."""
    if isinstance(member, str):
        return member
    if not isinstance(member, bytes):
        raise TypeError(f"lib.string takes a string of a dataset, not {type(member).__name__}")
    return bytes(member).split(b"\0", 1)[0].decode()


def set_string(member: object, text: object) -> None:
    """Sets a string of an output, truncated to its space."""
    if not isinstance(member, String):
        raise TypeError("lib.setString needs a string of an output: an element of a string dataset, or a member")
    write(member.memory, member.at, member.room, encoded(text)[: member.room])
