"""NumPy dtypes for HDF5 datatypes; features that NumPy lacks are in their metadata, as in h5py.

A *description* is `_core`'s form of a datatype: nested tuples, the first item of which is the class.
"""

from __future__ import annotations

import codecs
import contextlib
from functools import lru_cache
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from hyperchunk.exceptions import HyperchunkError, UnsupportedError, also
from hyperchunk.likeness import class_of_h5py
from hyperchunk.references import Reference, RegionReference, reference_class
from hyperchunk.typing import Dtype

Description = tuple[Any, ...]

POINTER = np.dtype("O").itemsize


class StringInfo(NamedTuple):
    """Result of :func:`check_string_dtype`."""

    #: ``"utf-8"`` or ``"ascii"``.
    encoding: str
    #: Length in bytes; None for variable-length strings.
    length: int | None


# h5py's name, which programs print.
StringInfo.__name__ = "string_info"


class Empty:
    """The value of a null dataspace: a type, but neither shape nor data.

    Args:
        dtype: The type.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["nothing"] = hyperchunk.Empty("f4")
        ...     file["nothing"][()].dtype.name
        'float32'
    """

    __class__ = class_of_h5py("Empty")

    shape = None
    size = None

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)

    def __eq__(self, other: object) -> bool:
        # h5py has an equivalent class.
        if type(other).__name__ == "Empty" and isinstance(getattr(other, "dtype", None), np.dtype):
            return bool(self.dtype == other.dtype)  # type: ignore[attr-defined]
        return False

    def __hash__(self) -> int:
        return hash(("Empty", self.dtype))

    def __reduce__(self) -> tuple[type[Empty], tuple[Dtype]]:
        return Empty, (self.dtype,)

    def __repr__(self) -> str:
        return f"Empty(dtype={self.dtype!r})"


def as_empty(value: object) -> Empty | None:
    """Returns the value of a null dataspace, of h5py's class too, as one of this class; None for other values."""
    if isinstance(value, Empty):
        return value
    dtype = getattr(value, "dtype", None)
    return Empty(dtype) if type(value).__name__ == "Empty" and isinstance(dtype, np.dtype) else None


class SpecialTypes(TypedDict, total=False):
    """Argument of :func:`special_dtype`: one of these."""

    vlen: npt.DTypeLike
    enum: tuple[npt.DTypeLike, dict[str, int]]
    ref: type[Reference]


class CheckedTypes(TypedDict, total=False):
    """Argument of :func:`check_dtype`: one of these."""

    vlen: Dtype
    enum: Dtype
    ref: Dtype


# --- Dtypes with HDF5 metadata ---


def vlen_dtype(basetype: npt.DTypeLike) -> Dtype:
    """Returns the dtype of variable-length sequences; for strings, use :func:`string_dtype`.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     rows = file.create_dataset("rows", (2,), hyperchunk.vlen_dtype("i4"))
        ...     rows[0] = [1, 2, 3]
        ...     rows[0].tolist()
        [1, 2, 3]
    """
    return np.dtype("O", metadata={"vlen": basetype})


def string_dtype(encoding: str = "utf-8", length: int | None = None) -> Dtype:
    """Returns the dtype of strings of `length` bytes, or variable. `encoding` is ``"utf-8"`` or ``"ascii"``.

    Raises:
        ValueError: Another encoding.
        TypeError: `length` is neither an integer nor None.

    Example:
        >>> hyperchunk.string_dtype("ascii", 10)
        dtype('S10')
    """
    with contextlib.suppress(LookupError):
        encoding = codecs.lookup(encoding).name
    if encoding not in ("ascii", "utf-8"):
        raise ValueError(f"Invalid encoding ({encoding!r}); 'utf-8' or 'ascii' allowed")
    if isinstance(length, int):
        return np.dtype(f"|S{length}", metadata={"h5py_encoding": encoding})
    if length is None:
        return np.dtype("O", metadata={"vlen": str if encoding == "utf-8" else bytes})
    raise TypeError(f"length must be integer or None (got {length!r})")


def enum_dtype(values_dict: dict[Any, int], basetype: npt.DTypeLike = np.uint8) -> Dtype:
    """Returns the dtype of an enumeration: `values_dict` maps names to values, `basetype` is an integer type.

    Raises:
        TypeError: `basetype` is not an integer type.

    Example:
        >>> hyperchunk.check_enum_dtype(hyperchunk.enum_dtype({"OFF": 0, "ON": 1}))
        {'OFF': 0, 'ON': 1}
    """
    dtype = np.dtype(basetype)
    if not np.issubdtype(dtype, np.integer):
        raise TypeError("Only integer types can be used as enums")
    return np.dtype(dtype, metadata={"enum": values_dict})


def opaque_dtype(np_dtype: npt.DTypeLike) -> Dtype:
    """Marks a dtype for storage as opaque bytes, with its name as their tag.

    Raises:
        TypeError: The dtype has objects, members or a shape.

    Example:
        >>> times = numpy.array(["2026-01-01"], "M8[D]")
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["times"] = times.astype(hyperchunk.opaque_dtype(times.dtype))
        ...     file["times"][0]
        np.datetime64('2026-01-01')
    """
    dtype = np.dtype(np_dtype)
    reasons = {
        "object arrays": dtype.hasobject,
        "structured arrays": dtype.names is not None,
        "sub-array dtype": dtype.subdtype is not None,
    }
    for what, applies in reasons.items():
        if applies:
            raise TypeError(f"Cannot store numpy {what} as opaque data")
    if dtype.itemsize == 0:
        raise TypeError("dtype for opaque data must have explicit size")
    return np.dtype(dtype, metadata={"h5py_opaque": True})


#: Dtype of object references.
ref_dtype = np.dtype("O", metadata={"ref": Reference})
#: Dtype of region references.
regionref_dtype = np.dtype("O", metadata={"ref": RegionReference})


def complex_compat_dtype(complex_dtype: npt.DTypeLike, names: tuple[str, str] = ("r", "i")) -> Dtype:
    """Returns the structured dtype that represents complex numbers in files that HDF5 1.x must read.

    Raises:
        TypeError: `complex_dtype` is not complex.

    Example:
        >>> hyperchunk.complex_compat_dtype("c16")
        dtype([('r', '<f8'), ('i', '<f8')])
    """
    dtype = np.dtype(complex_dtype)
    if dtype.kind != "c":
        raise TypeError(f"{dtype!r} is not a complex dtype")
    part = f"{dtype.byteorder}f{dtype.itemsize // 2}"
    return np.dtype({"names": list(names), "formats": [part, part]})


def special_dtype(**kwds: Unpack[SpecialTypes]) -> Dtype:
    """Returns a dtype by one keyword: ``vlen=base``, ``enum=(base, values)`` or ``ref=class``.

    Example:
        >>> hyperchunk.special_dtype(vlen=str) == hyperchunk.string_dtype()
        True
    """
    name, value = _one_keyword({**kwds})
    if name == "vlen":
        return vlen_dtype(value)
    if name == "enum":
        try:
            base, values = value
        except TypeError:
            raise TypeError("Enums must be created from a 2-tuple (basetype, values_dict)") from None
        return enum_dtype(values, base)
    if name == "ref":
        if value is Reference:
            return ref_dtype
        if value is RegionReference:
            return regionref_dtype
        raise ValueError("Ref class must be Reference or RegionReference")
    raise TypeError(f'Unknown special type "{name}"')


def _one_keyword(kwds: dict[str, Any]) -> tuple[str, Any]:
    if len(kwds) != 1:
        raise TypeError("Exactly one keyword may be provided")
    return kwds.popitem()


def _hint(dtype: Dtype, name: str) -> Any:
    # Programs pass objects that are not dtypes, too.
    metadata = getattr(dtype, "metadata", None)
    return None if metadata is None else metadata.get(name)


def check_vlen_dtype(dt: Dtype) -> Any:
    """Returns the element type of a variable-length dtype; None for other dtypes.

    Example:
        >>> hyperchunk.check_vlen_dtype(hyperchunk.vlen_dtype(numpy.dtype("i4")))
        dtype('int32')
    """
    return str if getattr(dt, "kind", None) == "T" else _hint(dt, "vlen")


def check_string_dtype(dt: Dtype) -> StringInfo | None:
    """Returns encoding and length of a string dtype; None for other dtypes.

    Example:
        >>> hyperchunk.check_string_dtype(numpy.dtype("S8"))
        string_info(encoding='ascii', length=8)
    """
    element = check_vlen_dtype(dt)
    if element is str:
        return StringInfo("utf-8", None)
    if element is bytes:
        return StringInfo("ascii", None)
    if getattr(dt, "kind", None) == "S":
        return StringInfo(_hint(dt, "h5py_encoding") or "ascii", dt.itemsize)
    return None


def check_enum_dtype(dt: Dtype) -> dict[Any, int] | None:
    """Returns the names and values of an enumeration dtype; None for other dtypes.

    Example:
        >>> hyperchunk.check_enum_dtype(numpy.dtype("i4")) is None
        True
    """
    found: dict[Any, int] | None = _hint(dt, "enum")
    return found


def check_opaque_dtype(dt: Dtype) -> bool:
    """Returns whether values are stored as opaque bytes.

    Example:
        >>> hyperchunk.check_opaque_dtype(hyperchunk.opaque_dtype("M8[s]"))
        True
    """
    return bool(_hint(dt, "h5py_opaque"))


def check_ref_dtype(dt: Dtype) -> type[Reference] | None:
    """Returns the class of a reference dtype; None for other dtypes.

    Example:
        >>> hyperchunk.check_ref_dtype(hyperchunk.ref_dtype).__name__
        'Reference'
    """
    found: type[Reference] | None = _hint(dt, "ref")
    return found


def check_complex_dtype(dt: Dtype, names: tuple[str, str] | None = ("r", "i")) -> Dtype | None:
    """Returns the complex dtype of a complex dtype or of a pair `names` (None: any) that represents one; else None.

    Example:
        >>> hyperchunk.check_complex_dtype(numpy.dtype([("r", "f8"), ("i", "f8")]))
        dtype('complex128')
    """
    if dt.kind == "c":
        return dt
    if dt.names is None or len(dt.names) != 2 or (names is not None and dt.names != names):
        return None
    real, imaginary = dt[0], dt[1]
    if real != imaginary or real.kind != "f" or real.itemsize * 2 != dt.itemsize:
        return None
    return np.dtype(f"{real.byteorder}c{dt.itemsize}")


def check_dtype(**kwds: Unpack[CheckedTypes]) -> Any:
    """Returns a dtype's metadata by one keyword: ``vlen=dtype``, ``enum=dtype`` or ``ref=dtype``; None without it.

    Example:
        >>> hyperchunk.check_dtype(vlen=hyperchunk.string_dtype())
        <class 'str'>
    """
    name, dtype = _one_keyword({**kwds})
    if name not in ("vlen", "enum", "ref"):
        raise TypeError(f'Unknown special type "{name}"')
    return check_vlen_dtype(dtype) if name == "vlen" else _hint(dtype, name)


# --- From descriptions to dtypes ---


def _no_equivalent(what: str) -> HyperchunkError:
    return also(UnsupportedError(f"No NumPy equivalent for {what} exists"), TypeError)


def _float_types() -> list[tuple[Dtype, int, int, int]]:
    """Returns each floating-point dtype with its mantissa bits and its largest and smallest exponent."""
    found = []
    for code in "efdg":
        dtype = np.dtype(code)
        info = np.finfo(dtype)
        # The 80-bit format stores the leading bit of the mantissa explicitly.
        explicit = info.nmant == 63 and info.iexp == 15
        found.append((dtype, int(info.nmant) + explicit, int(info.maxexp), int(info.minexp)))
    return found


_FLOATS = _float_types()


def _order(order: str) -> str:
    """Maps a byte order to NumPy's; numbers in VAX order, which NumPy lacks, are converted."""
    return "<" if order == "vax" else order


def _integer(description: Description, code: str) -> Dtype:
    size, order = description[1], description[2]
    width = next((width for width in (1, 2, 4, 8) if width >= size), None)
    if width is None:
        raise _no_equivalent(f"an integer of {size} bytes")
    return np.dtype(f"{_order(order)}{code}{width}")


def _float(description: Description) -> Dtype:
    size, order = description[1], description[2]
    bits, bias, mantissa = description[7], description[8], description[10]
    for dtype, most, largest, smallest in _FLOATS:
        fits = mantissa <= most and (1 << bits) - bias - 1 <= largest and 1 - bias >= smallest
        if fits and dtype.itemsize >= size:
            return dtype.newbyteorder("<" if _order(order) == "<" else ">")
    raise ValueError(f"Insufficient precision in available types to represent a float of {size} bytes")


def _compound(description: Description) -> Dtype:
    size, members = description[1], description[2]
    dtypes = [from_description(member) for _, _, member in members]
    if [name for name, _, _ in members] == [b"r", b"i"] and dtypes[0] == dtypes[1]:
        part = dtypes[0]
        if part.kind == "f" and part.itemsize in (4, 8, 16):
            return np.dtype(f"{part.str[0]}c{2 * part.itemsize}")
    # Names that are not UTF-8 keep their bytes as lone surrogates.
    names = [name.decode("utf-8", "surrogateescape") for name, _, _ in members]
    offsets = [offset for _, offset, _ in members]
    return np.dtype({"names": names, "formats": dtypes, "offsets": offsets, "itemsize": size})


def _enum(description: Description) -> Dtype:
    base, members = description[2], description[3]
    if dict(members) == {b"FALSE": 0, b"TRUE": 1}:
        return np.dtype("bool")
    values: dict[str | bytes, int] = {}
    for name, value in members:
        try:
            values[name.decode("utf-8")] = value
        except UnicodeDecodeError:
            values[name] = value
    return enum_dtype(values, from_description(base))


def _opaque(description: Description) -> Dtype:
    size, tag = description[1], description[2]
    if tag.startswith(b"NUMPY:"):
        tagged: Dtype = np.dtype(tag[6:].decode("ascii", "replace"), metadata={"h5py_opaque": True})
        return tagged
    return np.dtype(f"|V{size}")


def _complex(description: Description) -> Dtype:
    part = description[2]
    # NumPy has no complex number of two half-precision parts.
    return np.dtype(f"{_order(part[2])}c{max(2 * _float(part).itemsize, 8)}")


def from_description(description: Description) -> Dtype:
    """Returns the dtype of elements that are in memory as `description` says."""
    match description[0]:
        case "integer":
            return _integer(description, "i" if description[3] else "u")
        case "float":
            return _float(description)
        case "string":
            return string_dtype(description[3], description[1])
        case "vlen-string":
            return string_dtype(description[3])
        case "bitfield":
            return _integer(description, "u")
        case "opaque":
            return _opaque(description)
        case "compound":
            return _compound(description)
        case "reference":
            return np.dtype("O", metadata={"ref": reference_class(description[2])})
        case "enum":
            return _enum(description)
        case "vlen":
            return vlen_dtype(from_description(description[2]))
        case "array":
            array: Dtype = np.dtype((from_description(description[3]), description[2]))
            return array
        case "complex":
            return _complex(description)
        case other:
            raise _no_equivalent(f"the class {other}")


# --- Memory layout of libhdf5 ---

# Sizes in bytes of a string, a sequence and a reference of each kind.
_STRING, _SEQUENCE = 8, 16
_REFERENCES = (8, 12, 64, 64, 64)


def in_memory(description: Description) -> Description:
    """Returns the description of elements in libhdf5's memory layout, in which heap-allocated parts have other sizes
    than in the file. Dtypes have these sizes and offsets, as h5py's do.
    """
    kind = description[0]
    if kind == "vlen-string":
        return (kind, _STRING, *description[2:])
    if kind == "vlen":
        return (kind, _SEQUENCE, in_memory(description[2]))
    if kind == "reference":
        return (kind, _REFERENCES[description[2]], description[2])
    if kind == "array":
        dims, base = description[2], in_memory(description[3])
        size = base[1]
        for dim in dims:
            size *= dim
        return (kind, size, dims, base)
    if kind != "compound" or not _has_handle(description):
        return description
    members, grown = [], 0
    # Sorted by offset, as libhdf5 does before it moves the members.
    for name, offset, member in sorted(description[2], key=lambda member: member[1]):
        moved = in_memory(member)
        members.append((name, offset + grown, moved))
        grown += moved[1] - member[1]
    return (kind, description[1] + grown, tuple(members))


def _has_handle(description: Description) -> bool:
    match description[0]:
        case "vlen" | "vlen-string" | "reference":
            return True
        case "compound":
            return any(_has_handle(member) for _, _, member in description[2])
        case "array":
            return _has_handle(description[3])
        case _:
            return False


def has_sequences(description: Description) -> bool:
    """Returns whether a datatype has strings or sequences of any length."""
    match description[0]:
        case "vlen" | "vlen-string":
            return True
        case "compound":
            return any(has_sequences(member) for _, _, member in description[2])
        case "array":
            return has_sequences(description[3])
        case _:
            return False


@lru_cache(maxsize=1024)
def to_dtype(description: Description) -> Dtype:
    """Returns the dtype of a dataset or attribute with this datatype."""
    return from_description(in_memory(description))
