"""libhdf5 through ctypes: the whole C interface, for files that no Python package can write.

The library is the one that the netCDF4 wheel (HDF5 2.2.0) or the h5py wheel (2.0.0) carries. A function is called by
its name, `h.H5Fcreate(path, ...)`: integers pass as 64 bits, text as UTF-8, arrays by address, None as NULL. A
negative result is an `Hdf5Error` with the library's own messages."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

Hid = int
Data = Any

# Values of C enumerations, by their C names without the prefix that the place of use makes clear.
DEFAULT = ALL = 0
TRUNC, RDWR, RDONLY = 2, 1, 0
V18, V110, V112, V114, V200, LATEST = 1, 2, 3, 4, 5, 5
COMPACT, CONTIGUOUS, CHUNKED, VIRTUAL = 0, 1, 2, 3
ALLOC_EARLY, ALLOC_LATE, ALLOC_INCR = 1, 2, 3
FILL_ALLOC, FILL_NEVER, FILL_IFSET = 0, 1, 2
SELECT_SET, SELECT_OR, SELECT_XOR, SELECT_NOTB = 0, 1, 3, 4
SCALAR, SIMPLE, NULL = 0, 1, 2
ORDER_LE, ORDER_BE, ORDER_VAX = 0, 1, 2
PAD_ZERO, PAD_ONE, PAD_BACKGROUND = 0, 1, 2
NULLTERM, NULLPAD, SPACEPAD = 0, 1, 2
FILTER_DEFLATE, FILTER_SHUFFLE, FILTER_FLETCHER32, FILTER_SZIP, FILTER_NBIT, FILTER_SCALEOFFSET = 1, 2, 3, 4, 5, 6
UNLIMITED = 0xFFFF_FFFF_FFFF_FFFF
UNDEFINED = 0xFFFF_FFFF_FFFF_FFFF

# What does not return a C int: identifiers and sizes (64 bits, negative for failure), and plain unsigned sizes.
_HID = re.compile(
    r"H5(F(create|open|get_access_plist|get_create_plist)|G(create|open)[12]|G(create_anon)|D(create[12]|open[12]|create_anon)"
    r"|D(get_space|get_type|get_create_plist|get_access_plist)|A(create|open)\w*|A(get_space|get_type|get_create_plist)"
    r"|S(create|create_simple|copy|combine_select|modify_select|decode)|P(create|copy|get_class)"
    r"|T(create|copy|vlen_create|array_create[12]|enum_create|complex_create|open[12]|get_super|get_member_type|get_native_type|decode[12]?)"
    r"|O(open|open_by_addr|open_by_token|open_by_idx)|R(dereference[12]|get_region|open_object|open_attr|open_region)"
    r"|I(get_file_id|register)|E(create_stack|get_current_stack|register_class))$"
)
_WIDE = re.compile(
    r"H5(Aget_name|Lget_name_by_idx|Oget_comment|Fget_name|Rget_\w*name|Sget_select_npoints|Sget_simple_extent_npoints)$"
)
_UNSIGNED = re.compile(
    r"H5(Tget_size|Tget_precision|Tget_ebias|Tget_member_offset|Dget_offset|Dget_storage_size|Pget_virtual_(src)?\w*name)$"
)
_POINTER = re.compile(r"H5(Tget_member_name|Tget_tag)$")


class Hdf5Error(RuntimeError):
    """A call of libhdf5 failed; the message is its error stack, outermost first."""


def find_library(package: str) -> Path | None:
    """The libhdf5 that an installed wheel carries."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    for libraries in (folder.parent / f"{package.lower()}.libs", folder / ".libs", folder / ".dylibs"):
        found = [p for p in sorted(libraries.glob("libhdf5*")) if not p.name.startswith(("libhdf5_hl", "libhdf5_cpp"))]
        if found:
            return found[0]
    return None


class Library:
    """A loaded libhdf5, with some short words over its C functions."""

    def __init__(self, path: Path | None = None) -> None:
        path = path or find_library("netCDF4") or find_library("h5py")
        if path is None:
            raise Hdf5Error("neither netCDF4 nor h5py with a libhdf5 of its own is installed")
        self.path = path
        self._dll = ctypes.CDLL(str(path))
        self._dll.H5open()
        self.H5Eset_auto2(0, None, None)
        version = (ctypes.c_uint * 3)()
        self.H5get_libversion(ctypes.byref(version, 0), ctypes.byref(version, 4), ctypes.byref(version, 8))
        self.version: tuple[int, ...] = tuple(version)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("H5"):
            raise AttributeError(name)
        function = getattr(self._dll, name)
        unsigned = bool(_UNSIGNED.match(name) or _POINTER.match(name))
        if unsigned:
            function.restype = ctypes.c_void_p if _POINTER.match(name) else ctypes.c_uint64
        else:
            function.restype = ctypes.c_int64 if _HID.match(name) or _WIDE.match(name) else ctypes.c_int

        def call(*arguments: Any) -> Any:
            result = function(*map(_argument, arguments))
            if not unsigned and result < 0:
                raise Hdf5Error(f"{name}: {self._messages()}")
            return result

        setattr(self, name, call)
        return call

    def _messages(self) -> str:
        class Entry(ctypes.Structure):
            _fields_ = [
                ("cls", ctypes.c_int64), ("major", ctypes.c_int64), ("minor", ctypes.c_int64), ("line", ctypes.c_uint),
                ("function", ctypes.c_char_p), ("file", ctypes.c_char_p), ("text", ctypes.c_char_p),
            ]  # fmt: skip

        found: list[str] = []

        def take(_depth: int, entry: Any, _data: Any) -> int:
            found.append((entry[0].text or b"").decode("utf-8", "replace"))
            return 0

        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Entry), ctypes.c_void_p)
        self._dll.H5Ewalk2(ctypes.c_int64(0), 1, kind(take), None)
        return " <- ".join(found)

    # --- types and property lists --------------------------------------------------------------------------------

    def predefined(self, name: str) -> Hid:
        """A predefined datatype: `STD_I32BE`, `IEEE_F64LE`, `C_S1`, ..."""
        return ctypes.c_int64.in_dll(self._dll, f"H5T_{name}_g").value

    def has_type(self, name: str) -> bool:
        """Whether this library knows the predefined datatype."""
        return hasattr(self._dll, f"H5T_{name}_g")

    def plist(self, name: str) -> Hid:
        """A new property list of a class: `FILE_CREATE`, `DATASET_CREATE`, ..."""
        return int(self.H5Pcreate(ctypes.c_int64.in_dll(self._dll, f"H5P_CLS_{name}_ID_g").value))

    def dcpl(self, chunk: Sequence[int] | None = None, deflate: int | None = None, **properties: Any) -> Hid:
        """A dataset creation list; `shuffle=()` or `fill_time=1` calls the `H5Pset_` of that name."""
        plist = self.plist("DATASET_CREATE")
        if chunk is not None:
            self.H5Pset_chunk(plist, len(chunk), sizes(chunk))
        if deflate is not None:
            properties["deflate"] = deflate
        return self.with_properties(plist, **properties)

    def with_properties(self, plist: Hid, **properties: Any) -> Hid:
        """Calls `H5Pset_NAME(plist, value...)` for each property."""
        for name, value in properties.items():
            getattr(self, f"H5Pset_{name}")(plist, *(value if isinstance(value, tuple) else (value,)))
        return plist

    def compound(self, size: int, **members: tuple[int, Hid]) -> Hid:
        """A compound datatype from `name=(offset, type)`."""
        made = int(self.H5Tcreate(6, size))
        for name, (offset, member) in members.items():
            self.H5Tinsert(made, name, offset, member)
        return made

    def packed(self, **members: Hid) -> Hid:
        """A compound datatype without gaps."""
        placed, offset = {}, 0
        for name, member in members.items():
            placed[name] = (offset, member)
            offset += self.H5Tget_size(member)
        return self.compound(offset, **placed)

    def array_of(self, base: Hid, *dims: int) -> Hid:
        """An array datatype."""
        return int(self.H5Tarray_create2(base, len(dims), sizes(dims)))

    def string(self, size: int | None, pad: int = NULLTERM, utf8: bool = False) -> Hid:
        """A string datatype; without a size, one of variable length."""
        made = int(self.H5Tcopy(self.predefined("C_S1")))
        self.H5Tset_size(made, UNLIMITED if size is None else size)
        self.H5Tset_strpad(made, pad)
        self.H5Tset_cset(made, int(utf8))
        return made

    def enum(self, base: Hid, values: dict[str, bytes]) -> Hid:
        """An enumeration; the values are in the base's own layout."""
        made = int(self.H5Tenum_create(base))
        for name, value in values.items():
            self.H5Tenum_insert(made, name, value)
        return made

    # --- spaces, files and objects -------------------------------------------------------------------------------

    def space(self, shape: Sequence[int] | None, maximum: Sequence[int] | None = None) -> Hid:
        """A dataspace: of a shape, scalar for `()`, null for None."""
        if shape is None:
            return int(self.H5Screate(NULL))
        if not shape:
            return int(self.H5Screate(SCALAR))
        return int(self.H5Screate_simple(len(shape), sizes(shape), None if maximum is None else sizes(maximum)))

    def slab(self, space: Hid, start: Sequence[int], count: Sequence[int], stride: Sequence[int] | None = None,
             block: Sequence[int] | None = None, how: int = SELECT_SET) -> Hid:  # fmt: skip
        """Selects a hyperslab in `space`, which is returned."""
        parts = [None if part is None else sizes(part) for part in (start, stride, count, block)]
        self.H5Sselect_hyperslab(space, how, *parts)
        return space

    @contextmanager
    def file(self, path: Path, low: int = 0, high: int = LATEST, fapl: Hid | None = None, fcpl: Hid | None = None,
             **creation: Any) -> Iterator[Hid]:  # fmt: skip
        """A new file, closed with all that is in it; `sizes=(4, 4)` calls `H5Pset_sizes` on its creation list."""
        fcpl = self.with_properties(self.plist("FILE_CREATE") if fcpl is None else fcpl, **creation)
        fapl = self.plist("FILE_ACCESS") if fapl is None else fapl
        self.with_properties(fapl, libver_bounds=(low, high), fclose_degree=3)
        file = self.H5Fcreate(str(path), TRUNC, fcpl, fapl)
        try:
            yield file
        finally:
            self.H5Fclose(file)

    @contextmanager
    def reopened(self, path: Path, low: int = 0, high: int = LATEST, fapl: Hid | None = None) -> Iterator[Hid]:
        """An existing file, to be written to."""
        fapl = self.plist("FILE_ACCESS") if fapl is None else fapl
        self.with_properties(fapl, libver_bounds=(low, high), fclose_degree=3)
        file = self.H5Fopen(str(path), RDWR, fapl)
        try:
            yield file
        finally:
            self.H5Fclose(file)

    def group(self, parent: Hid, name: str, gcpl: Hid = DEFAULT) -> Hid:
        """A new group."""
        return int(self.H5Gcreate2(parent, name, 0, gcpl, 0))

    def dataset(self, parent: Hid, name: str, kind: Hid, space: Hid | Sequence[int] | None, data: Data = None,
                dcpl: Hid = DEFAULT, memory: Hid | None = None) -> Hid:  # fmt: skip
        """A new dataset; `data` is written from `memory` type (its own by default)."""
        space = space if isinstance(space, int) else self.space(space)
        made = self.H5Dcreate2(parent, name, kind, space, 0, dcpl, 0)
        if data is not None:
            self.H5Dwrite(made, kind if memory is None else memory, 0, 0, 0, data)
        return int(made)

    def attribute(self, parent: Hid, name: str, kind: Hid, space: Hid | Sequence[int] | None, data: Data = None,
                  memory: Hid | None = None) -> Hid:  # fmt: skip
        """A new attribute."""
        space = space if isinstance(space, int) else self.space(space)
        made = self.H5Acreate2(parent, name, kind, space, 0, 0)
        if data is not None:
            self.H5Awrite(made, kind if memory is None else memory, data)
        return int(made)


def sizes(values: Sequence[int]) -> Any:
    """An array of `hsize_t`."""
    return (ctypes.c_uint64 * max(1, len(values)))(*values)


class Arena:
    """Builds values with pointers in memory, and keeps what they point to."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def _keep(self, data: bytes) -> int:
        buffer = ctypes.create_string_buffer(data, len(data) + 1)
        self._kept.append(buffer)
        return ctypes.addressof(buffer)

    def sequence(self, count: int, data: bytes = b"") -> bytes:
        """An `hvl_t` over `count` elements."""
        return struct.pack("QQ", count, self._keep(data) if count else 0)

    def array(self, values: Any) -> bytes:
        """An `hvl_t` over the elements of a NumPy array."""
        values = np.ascontiguousarray(values)
        return self.sequence(len(values), values.tobytes())

    def text(self, value: bytes | None) -> bytes:
        """A `char *`."""
        return struct.pack("Q", 0 if value is None else self._keep(value))


def both(path: Path) -> Iterator[tuple[int, Path]]:
    """The file in the newest format, and beside it one in the oldest, with its low bound."""
    yield LATEST, path
    yield 0, path.with_name(f"{path.stem}_old.h5")


def _argument(value: Any) -> Any:
    """A Python value as a C argument."""
    if isinstance(value, (bool, int, np.integer)):
        number = int(value)
        return ctypes.c_int64(number - (1 << 64) if number >= 1 << 63 else number)
    if isinstance(value, str):
        return ctypes.c_char_p(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, (bytes, bytearray)):
        return ctypes.c_char_p(bytes(value))
    if isinstance(value, float):
        return ctypes.c_double(value)
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return value
