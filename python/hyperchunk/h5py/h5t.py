"""Datatypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, cast

import numpy as np

from hyperchunk import Datatype, _core, dtypes
from hyperchunk.dtypes import (
    Description,
    check_complex_dtype,
    check_dtype,
    check_enum_dtype,
    check_opaque_dtype,
    check_ref_dtype,
    check_string_dtype,
    check_vlen_dtype,
    complex_compat_dtype,
    enum_dtype,
    opaque_dtype,
    ref_dtype,
    regionref_dtype,
    special_dtype,
    string_dtype,
    vlen_dtype,
)
from hyperchunk.dtypes import StringInfo as string_info  # noqa: N813 - h5py's name
from hyperchunk.exceptions import NameExistsError, UnsupportedError, also
from hyperchunk.h5py._objects import Location, LocationID, missing
from hyperchunk.h5py._types import changed, from_dtype, in_file
from hyperchunk.typing import Dtype
from hyperchunk.values import float_description

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperchunk.h5py import h5p
    from hyperchunk.h5py._files import Handle
    from hyperchunk.h5py.h5g import GroupID

NO_CLASS, INTEGER, FLOAT, TIME, STRING, BITFIELD, OPAQUE = -1, 0, 1, 2, 3, 4, 5
COMPOUND, REFERENCE, ENUM, VLEN, ARRAY, COMPLEX = 6, 7, 8, 9, 10, 11
SGN_NONE, SGN_2 = 0, 1
ORDER_LE, ORDER_BE, ORDER_VAX, ORDER_NONE = 0, 1, 2, 4
ORDER_NATIVE = ORDER_LE if np.little_endian else ORDER_BE
DIR_DEFAULT, DIR_ASCEND, DIR_DESCEND = 0, 1, 2
STR_NULLTERM, STR_NULLPAD, STR_SPACEPAD = 0, 1, 2
NORM_IMPLIED, NORM_MSBSET, NORM_NONE = 0, 1, 2
CSET_ASCII, CSET_UTF8 = 0, 1
PAD_ZERO, PAD_ONE, PAD_BACKGROUND = 0, 1, 2
BKG_NO, BKG_TEMP, BKG_YES = 0, 1, 2
VARIABLE = 2**64 - 1

_CLASSES = {
    "integer": INTEGER,
    "float": FLOAT,
    "time": TIME,
    "string": STRING,
    "vlen-string": STRING,
    "bitfield": BITFIELD,
    "opaque": OPAQUE,
    "compound": COMPOUND,
    "reference": REFERENCE,
    "enum": ENUM,
    "vlen": VLEN,
    "array": ARRAY,
    "complex": COMPLEX,
}
_ORDERS = {"<": ORDER_LE, ">": ORDER_BE, "vax": ORDER_VAX}
_ORDER_NAMES = {number: name for name, number in _ORDERS.items()}
_PADS = {"null-terminated": STR_NULLTERM, "null-padded": STR_NULLPAD, "space-padded": STR_SPACEPAD}
_PAD_NAMES = {number: name for name, number in _PADS.items()}
_NORMS = {"implied": NORM_IMPLIED, "set": NORM_MSBSET, "msb-set": NORM_MSBSET, "none": NORM_NONE}
_ASCII, _UTF8 = "ascii", "utf-8"


class TypeID(LocationID[Datatype]):
    """A datatype, in memory or committed to a file."""

    def __init__(self, description: Description, found: Datatype | None = None, handle: Handle | None = None) -> None:
        super().__init__(found, handle)
        self._description = description
        self._is_locked = False

    @property
    def valid(self) -> int:
        """1 until it, or the file of a committed datatype, is closed, then 0."""
        return int(not self._closed and (self._opened_by is None or self._opened_by.is_open))

    @property
    def locked(self) -> bool:
        """True if it cannot be changed."""
        return self._is_locked

    @property
    def dtype(self) -> Dtype:
        """NumPy dtype."""
        return dtypes.from_description(self._description)

    py_dtype = dtype

    def _set(self, index: int, value: object) -> None:
        if self._is_locked or self._opened_by is not None:
            raise TypeError("Can't change a datatype (it is immutable)")
        self._description = changed(self._description, index, value)

    def __eq__(self, other: object) -> bool:
        return self.equal(other) if isinstance(other, TypeID) else NotImplemented

    def __hash__(self) -> int:
        if self._opened_by is None and not self._is_locked:
            raise TypeError("Objects of this kind are unhashable: neither locked nor committed")
        return hash(self._description)

    def equal(self, typeid: object) -> bool:
        """Returns whether another datatype is the same."""
        return isinstance(typeid, TypeID) and self._description == typeid._description

    def copy(self) -> TypeID:
        """Returns a copy that can be changed."""
        return typewrap(self._description)

    def lock(self) -> None:
        """Makes it immutable."""
        self._is_locked = True

    def committed(self) -> bool:
        """Returns whether it is committed to a file."""
        return self._opened_by is not None

    def commit(self, group: GroupID, name: bytes | None, lcpl: object = None, tcpl: object = None) -> None:
        """Commits it to a file."""
        parent = group._written
        if name is not None and name in group:
            message = f"Unable to synchronously commit datatype (name already exists: {name!r})"
            raise also(NameExistsError(message), KeyError)
        if name is None:
            raise UnsupportedError("h5t.TypeID.commit: a datatype without a name cannot be committed")
        with parent._new_link(name) as (node, last):
            node.commit_datatype(last, _core.Datatype(in_file(self._description)))
        self._found, self._opened_by = cast("Datatype", parent[name]), group._handle

    def get_class(self) -> int:
        """Returns the class: ``INTEGER``, ``FLOAT``, …"""
        return _CLASSES[self._description[0]]

    def detect_class(self, tclass: int) -> bool:
        """Returns whether a class occurs in it."""
        return _occurs(self._description, tclass)

    def get_size(self) -> int:
        """Returns the size of an element in bytes."""
        return int(self._description[1])

    def set_size(self, size: int) -> None:
        """Changes the size of an element."""
        kind = self._description[0]
        if kind in ("string", "vlen-string"):
            _, _, pad, charset = self._description
            made = ("vlen-string", 8, pad, charset) if size == VARIABLE else ("string", int(size), pad, charset)
            self._set(1, size)
            self._description = made
        else:
            self._set(1, int(size))

    def get_super(self) -> TypeID:
        """Returns the datatype of the elements of an array, a sequence, an enumeration or a complex number."""
        positions = {"enum": 2, "vlen": 2, "array": 3, "complex": 2}
        if self._description[0] not in positions:
            raise TypeError("Not a datatype with a base")
        return typewrap(self._description[positions[self._description[0]]])

    def get_create_plist(self) -> h5p.PropTCID:
        """Returns the creation properties of a committed datatype."""
        from hyperchunk.h5py import h5p

        return h5p.PropTCID()

    def encode(self) -> NoReturn:
        """Raises an error: datatypes cannot be encoded in memory."""
        raise UnsupportedError("h5t.TypeID.encode: datatypes cannot be encoded in memory")

    def __copy__(self) -> TypeID:
        return self.copy()


class TypeAtomicID(TypeID):
    """A number."""

    def _order(self) -> str:
        description = self._description
        order: str = description[2] if description[0] != "complex" else description[2][2]
        return order

    def get_order(self) -> int:
        """Returns the byte order."""
        return _ORDERS[self._order()]

    def set_order(self, order: int) -> None:
        """Changes the byte order."""
        self._set(2, _ORDER_NAMES[order])

    def get_precision(self) -> int:
        """Returns the number of significant bits."""
        return int(self._description[5] if self._description[0] == "integer" else self._description[4])

    def set_precision(self, precision: int) -> None:
        """Changes the number of significant bits."""
        self._set(5 if self._description[0] == "integer" else 4, int(precision))

    def get_offset(self) -> int:
        """Returns the position of the lowest significant bit."""
        return int(self._description[4] if self._description[0] == "integer" else self._description[3])

    def set_offset(self, offset: int) -> None:
        """Changes the position of the lowest significant bit."""
        self._set(4 if self._description[0] == "integer" else 3, int(offset))

    def get_pad(self) -> tuple[int, int]:
        """Returns the padding below and above the significant bits."""
        return (PAD_ZERO, PAD_ZERO)


class TypeIntegerID(TypeAtomicID):
    """An integer."""

    def get_sign(self) -> int:
        """Returns ``SGN_2`` for signed numbers, else ``SGN_NONE``."""
        return SGN_2 if self._description[3] else SGN_NONE

    def set_sign(self, sign: int) -> None:
        """Makes it signed or unsigned."""
        self._set(3, sign == SGN_2)


class TypeFloatID(TypeAtomicID):
    """A floating-point number."""

    def get_fields(self) -> tuple[int, int, int, int, int]:
        """Returns the position of the sign, and position and size of the exponent and of the mantissa, in bits."""
        _, _, _, _, _, sign, exponent, exponent_bits, _, mantissa, mantissa_bits, _ = self._description
        return sign, exponent, exponent_bits, mantissa, mantissa_bits

    def set_fields(self, spos: int, epos: int, esize: int, mpos: int, msize: int) -> None:
        """Changes the position of the sign, and position and size of the exponent and of the mantissa, in bits."""
        for index, value in ((5, spos), (6, epos), (7, esize), (9, mpos), (10, msize)):
            self._set(index, int(value))

    def get_ebias(self) -> int:
        """Returns the bias of the exponent."""
        return int(self._description[8])

    def set_ebias(self, ebias: int) -> None:
        """Changes the bias of the exponent."""
        self._set(8, int(ebias))

    def get_norm(self) -> int:
        """Returns the normalization of the mantissa."""
        return _NORMS[self._description[11]]

    def get_inpad(self) -> int:
        """Returns the padding of unused bits within a number."""
        return PAD_ZERO


class TypeStringID(TypeID):
    """A string."""

    def is_variable_str(self) -> bool:
        """Returns whether it has a variable length."""
        return bool(self._description[0] == "vlen-string")

    def get_cset(self) -> int:
        """Returns the character set."""
        return CSET_UTF8 if self._description[3] == _UTF8 else CSET_ASCII

    def set_cset(self, cset: int) -> None:
        """Changes the character set."""
        self._set(3, _UTF8 if cset == CSET_UTF8 else _ASCII)

    def get_strpad(self) -> int:
        """Returns the padding."""
        return _PADS[self._description[2]]

    def set_strpad(self, pad: int) -> None:
        """Changes the padding."""
        self._set(2, _PAD_NAMES[pad])


class TypeBitfieldID(TypeAtomicID):
    """A bit field."""


class TypeTimeID(TypeID):
    """A time, which HDF5 no longer supports."""


class TypeReferenceID(TypeID):
    """A reference."""


class TypeOpaqueID(TypeID):
    """Opaque bytes."""

    def get_tag(self) -> bytes:
        """Returns the tag."""
        tag: bytes = self._description[2]
        return tag

    def set_tag(self, tag: bytes) -> None:
        """Changes the tag."""
        self._set(2, bytes(tag))


class TypeComplexID(TypeAtomicID):
    """A complex number."""

    def get_precision(self) -> int:
        """Returns the number of significant bits of a part."""
        return int(self._description[2][4])


class TypeVlenID(TypeID):
    """A sequence of variable length."""


class TypeArrayID(TypeID):
    """An array."""

    def get_array_ndims(self) -> int:
        """Returns the number of dimensions."""
        return len(self._description[2])

    def get_array_dims(self) -> tuple[int, ...]:
        """Returns the extent."""
        dims: tuple[int, ...] = self._description[2]
        return dims


class TypeCompositeID(TypeID):
    """A datatype with members."""

    @property
    def _members(self) -> tuple[Description, ...]:
        members: tuple[Description, ...] = self._description[2 if self._description[0] == "compound" else 3]
        return members

    def get_nmembers(self) -> int:
        """Returns the number of members."""
        return len(self._members)

    def get_member_name(self, member: int) -> bytes:
        """Returns the name of a member."""
        if member < 0:
            raise ValueError("Member index must be non-negative")
        name: bytes = self._members[member][0]
        return name

    def get_member_index(self, name: bytes) -> int:
        """Returns the number of a member."""
        names = [member[0] for member in self._members]
        if name not in names:
            raise ValueError(f"Unable to get member index (no member {name!r})")
        return names.index(name)


class TypeCompoundID(TypeCompositeID):
    """A compound."""

    def get_member_class(self, member: int) -> int:
        """Returns the class of a member."""
        return _CLASSES[self._members[member][2][0]]

    def get_member_offset(self, member: int) -> int:
        """Returns the offset of a member in bytes."""
        return int(self._members[member][1])

    def get_member_type(self, member: int) -> TypeID:
        """Returns the datatype of a member."""
        if not 0 <= member < len(self._members):
            raise ValueError("Member index is out of range")
        return typewrap(self._members[member][2])

    def insert(self, name: bytes, offset: int, field: TypeID) -> None:
        """Adds a member."""
        if offset < 0 or offset + field.get_size() > self.get_size():
            raise ValueError("Unable to insert member (member extends past the end of the compound type)")
        if name in [member[0] for member in self._members]:
            raise ValueError("Unable to insert member (member name is not unique)")
        self._set(2, (*self._members, (name, int(offset), field._description)))

    def pack(self) -> None:
        """Removes the space between members."""
        at, members = 0, []
        for name, _, field in sorted(self._members, key=lambda member: int(member[1])):
            members.append((name, at, field))
            at += field[1]
        self._set(2, tuple(members))
        self._set(1, at)


class TypeEnumID(TypeCompositeID):
    """An enumeration."""

    def enum_insert(self, name: bytes, value: int) -> None:
        """Adds a member."""
        self._set(3, (*self._members, (name, int(value))))

    def enum_nameof(self, value: int) -> bytes:
        """Returns the name of a value."""
        for name, known in self._members:
            if known == value:
                return bytes(name)
        raise ValueError(f"Unable to get name of enum (no member with the value {value})")

    def enum_valueof(self, name: bytes) -> int:
        """Returns the value of a name."""
        for known, value in self._members:
            if known == name:
                return int(value)
        raise ValueError(f"Unable to get value of enum (no member {name!r})")

    def get_member_value(self, idx: int) -> int:
        """Returns the value of a member."""
        if idx < 0:
            raise ValueError("Index must be non-negative")
        return int(self._members[idx][1])


_WRAPPERS: dict[str, type[TypeID]] = {
    "integer": TypeIntegerID,
    "float": TypeFloatID,
    "time": TypeTimeID,
    "string": TypeStringID,
    "vlen-string": TypeStringID,
    "bitfield": TypeBitfieldID,
    "opaque": TypeOpaqueID,
    "compound": TypeCompoundID,
    "reference": TypeReferenceID,
    "enum": TypeEnumID,
    "vlen": TypeVlenID,
    "array": TypeArrayID,
    "complex": TypeComplexID,
}


def _occurs(description: Description, wanted: int) -> bool:
    if _CLASSES[description[0]] == wanted:
        return True
    match description[0]:
        case "compound":
            return any(_occurs(member, wanted) for _, _, member in description[2])
        case "vlen" | "enum":
            return _occurs(description[2], wanted)
        case "array":
            return _occurs(description[3], wanted)
        case _:
            return False


def typewrap(description: Description) -> TypeID:
    """Returns the datatype of a description."""
    return _WRAPPERS[description[0]](description)


def committed_type(found: Datatype, handle: Handle) -> TypeID:
    """Returns the identifier of a committed datatype."""
    description = dtypes.in_memory(found._object.datatype().description)
    return _WRAPPERS[description[0]](description, found, handle)


# --- Making datatypes ---


def create(classtype: int, size: int) -> TypeID:
    """Creates a datatype of a class: ``COMPOUND``, ``OPAQUE``, ``STRING`` or ``ENUM``."""
    match classtype:
        case 6:
            return typewrap(("compound", int(size), ()))
        case 5:
            return typewrap(("opaque", int(size), b""))
        case 3:
            made = typewrap(("string", 1, "null-terminated", _ASCII))
            made.set_size(size)
            return made
        case 8:
            return typewrap(("enum", int(size), _integer(int(size), ORDER_NATIVE, True), ()))
        case _:
            raise ValueError("Class must be COMPOUND, OPAQUE, STRING or ENUM.")


def open(group: Location, name: bytes, tapl: object = None) -> TypeID:
    """Opens a committed datatype."""
    from hyperchunk.h5py import h5o

    found = h5o.open(group, name)
    if not isinstance(found, TypeID):
        raise TypeError(f"Unable to open named datatype ({name!r} is not a committed datatype)")
    return found


def array_create(base: TypeID, dims_tpl: tuple[int, ...]) -> TypeID:
    """Creates an array datatype."""
    size = base.get_size()
    for length in dims_tpl:
        size *= int(length)
    return typewrap(("array", size, tuple(int(length) for length in dims_tpl), base._description))


def enum_create(base: TypeID) -> TypeID:
    """Creates an enumeration without members, based on an integer type."""
    return typewrap(("enum", base.get_size(), base._description, ()))


def vlen_create(base: TypeID) -> TypeID:
    """Creates a datatype of sequences of variable length."""
    return typewrap(("vlen", 16, base._description))


def py_create(dtype_in: npt.DTypeLike, logical: bool = False, aligned: bool = False) -> TypeID:
    """Returns the datatype of a dtype: as it is in memory or, with `logical`, as it is stored."""
    return typewrap(from_dtype(np.dtype(dtype_in), bool(logical)))


def find(src: TypeID, dst: TypeID) -> tuple[bool, ...] | None:
    """Returns whether there is a conversion between two datatypes, as a tuple; None without a conversion."""
    try:
        _core.Conversion(_core.Datatype(in_file(src._description)), _core.Datatype(in_file(dst._description)))
    except Exception:
        return None
    return (True,)


def _integer(size: int, order: int, signed: bool) -> Description:
    return ("integer", size, _ORDER_NAMES[order], signed, 0, 8 * size)


def _constant(description: Description) -> TypeID:
    made = typewrap(description)
    made.lock()
    return made


_LETTERS = {"LE": "<", "BE": ">"}


def _constants() -> dict[str, TypeID]:
    """Returns the predefined datatypes."""
    found: dict[str, Description] = {}
    native = "<" if np.little_endian else ">"
    for suffix, order in _LETTERS.items():
        for size in (1, 2, 4, 8):
            bits = 8 * size
            found[f"STD_I{bits}{suffix}"] = ("integer", size, order, True, 0, bits)
            found[f"STD_U{bits}{suffix}"] = ("integer", size, order, False, 0, bits)
            found[f"STD_B{bits}{suffix}"] = ("bitfield", size, order, 0, bits)
        for size in (2, 4, 8):
            found[f"IEEE_F{8 * size}{suffix}"] = float_description(size, order)
            found[f"COMPLEX_IEEE_F{8 * size}{suffix}"] = ("complex", 2 * size, float_description(size, order))
        found[f"LDOUBLE_{suffix}"] = float_description(16, order)
    for size in (1, 2, 4, 8):
        bits = 8 * size
        found[f"NATIVE_INT{bits}"] = ("integer", size, native, True, 0, bits)
        found[f"NATIVE_UINT{bits}"] = ("integer", size, native, False, 0, bits)
        found[f"NATIVE_B{bits}"] = ("bitfield", size, native, 0, bits)
    for name, size in (("FLOAT16", 2), ("FLOAT", 4), ("DOUBLE", 8), ("LDOUBLE", 16)):
        found[f"NATIVE_{name}"] = float_description(size, native)
    for name, size in (("FLOAT", 4), ("DOUBLE", 8), ("LDOUBLE", 16)):
        found[f"NATIVE_{name}_COMPLEX"] = ("complex", 2 * size, float_description(size, native))
    found["C_S1"] = ("string", 1, "null-terminated", _ASCII)
    found["FORTRAN_S1"] = ("string", 1, "space-padded", _ASCII)
    found["STD_REF_OBJ"], found["STD_REF_DSETREG"] = ("reference", 8, 0), ("reference", 12, 1)
    found["PYTHON_OBJECT"] = ("opaque", 8, b"PYTHON:OBJECT")
    return {name: _constant(description) for name, description in found.items()}


_PREDEFINED = _constants()
_missing = missing(__name__)


def __getattr__(name: str) -> TypeID:
    return _PREDEFINED[name] if name in _PREDEFINED else _missing(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PREDEFINED})


__all__ = [
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "complex_compat_dtype",
    "enum_dtype",
    "opaque_dtype",
    "ref_dtype",
    "regionref_dtype",
    "special_dtype",
    "string_dtype",
    "string_info",
    "vlen_dtype",
]
