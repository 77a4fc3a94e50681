"""What libhdf5 reads from a file, digested: one record a file, as `hyperchunk dump --digest` is compared with.

`rawsha` hashes the elements as stored, after the filter pipeline. `sha` hashes the canonical form: numbers
little-endian in full width, strings of fixed size padded with NUL, compounds packed, a sequence as u64 count and
elements, a string of variable length as u64 length and bytes, a reference as the u64 address of the object header that
it names."""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hdf5 import Hdf5Error, Hid, Library

INTEGER, FLOAT, TIME, STRING, BITFIELD, OPAQUE, COMPOUND, REFERENCE, ENUM, VLEN, ARRAY, COMPLEX = range(12)
LAYOUTS = {0: "compact", 1: "contiguous", 2: "chunked", 3: "virtual"}
BYTE_LIMIT = 300_000_000
DEPTH_LIMIT = 60
# IEEE formats: size, mantissa bits, largest and smallest exponent as NumPy's finfo has them.
WIDTHS = ((2, 10, 16, -14), (4, 23, 128, -126), (8, 52, 1024, -1022))


@dataclass
class Kind:
    """A datatype as in the file, with the memory type that its elements are read with."""

    name: str
    cls: int
    memory: Hid
    size: int  # in memory
    swap: bool = False  # stored big-endian, and read so
    members: list[tuple[int, Kind]] = field(default_factory=list)  # offset in memory, type; one for a base type
    count: int = 1  # elements of an array

    @property
    def plain(self) -> bool:
        """Whether the bytes in memory are canonical as they are."""
        here = self.cls not in (VLEN, REFERENCE) and self.name != "vstr" and not self.swap
        return here and all(member.plain for _, member in self.members)

    @property
    def fixed(self) -> bool:
        """Without variable-length or reference parts, so that the stored bytes say it all."""
        return not any(word in self.name for word in ("vl<", "vstr", "ref", "complex"))


class UnreadableError(Exception):
    """A datatype without a canonical form."""


class Reader:
    """Describes and digests datatypes and values of one file."""

    def __init__(self, h: Library) -> None:
        self.h = h
        self.access = h.with_properties(h.plist("FILE_ACCESS"), fclose_degree=3)

    # --- datatypes -----------------------------------------------------------------------------------------------

    def name(self, t: Hid) -> str:
        """The datatype's name in records."""
        h = self.h
        cls, bits = h.H5Tget_class(t), 8 * h.H5Tget_size(t)
        if cls in (INTEGER, FLOAT, BITFIELD):
            word = {INTEGER: "int", FLOAT: "float", BITFIELD: "bitfield"}[cls]
            sign = "" if cls != INTEGER else "i" if h.H5Tget_sign(t) else "u"
            return f"{word}{sign}{bits}{ {0: 'le', 1: 'be', 4: ''}.get(h.H5Tget_order(t), 'vax') }"
        if cls == STRING:
            if h.H5Tis_variable_str(t):
                return "vstr"
            return f"str{bits // 8}p{h.H5Tget_strpad(t)}c{h.H5Tget_cset(t)}"
        if cls == COMPOUND:
            return "{" + ",".join(f"{self.member_name(t, i)}:{self.name(m)}" for i, m in self.members(t)) + "}"
        if cls == ARRAY:
            return f"arr{self.dims(t)}{self.name(h.H5Tget_super(t))}"
        if cls in (ENUM, VLEN):
            return f"{'enum' if cls == ENUM else 'vl'}<{self.name(h.H5Tget_super(t))}>"
        if cls == REFERENCE:
            old = {"STD_REF_OBJ": "refobj", "STD_REF_DSETREG": "refreg"}
            return next((word for known, word in old.items() if h.H5Tequal(t, h.predefined(known))), "refnew")
        return {OPAQUE: f"opaque{bits // 8}", TIME: f"time{bits // 8}", COMPLEX: f"complex{bits}"}[cls]

    def member_name(self, t: Hid, i: int) -> str:
        """A member's name; bytes that are not UTF-8 become surrogates."""
        address = self.h.H5Tget_member_name(t, i)
        text = ctypes.string_at(address)
        self.h.H5free_memory(ctypes.c_void_p(address))
        return text.decode("utf-8", "surrogateescape")

    def members(self, t: Hid) -> Iterator[tuple[int, Hid]]:
        """The members of a compound."""
        for i in range(self.h.H5Tget_nmembers(t)):
            yield i, self.h.H5Tget_member_type(t, i)

    def dims(self, t: Hid) -> tuple[int, ...]:
        """The dimensions of an array datatype."""
        dims = (ctypes.c_uint64 * 32)()
        return tuple(dims[: self.h.H5Tget_array_dims2(t, dims)])

    def kind(self, t: Hid) -> Kind:
        """The datatype, to be read in canonical form."""
        h, cls, size, name = self.h, self.h.H5Tget_class(t), self.h.H5Tget_size(t), self.name(t)
        if cls in (INTEGER, BITFIELD):
            if size not in (1, 2, 4, 8):
                raise UnreadableError(f"an integer of {size} bytes")
            letter = "B" if cls == BITFIELD else "I" if h.H5Tget_sign(t) else "U"
            # Not turned round on the way: libhdf5 forgets odd precisions where it swaps bytes.
            swap = h.H5Tget_order(t) == 1
            return Kind(name, cls, h.predefined(f"STD_{letter}{8 * size}{'BE' if swap else 'LE'}"), size, swap)
        if cls == FLOAT:
            memory = self.float_memory(t)
            return Kind(name, cls, memory, h.H5Tget_size(memory))
        if cls == ENUM:
            return Kind(name, cls, t, size, swap=h.H5Tget_order(t) == 1)
        if cls == STRING:
            memory = h.H5Tcopy(t)
            h.H5Tset_strpad(memory, 0 if name == "vstr" else 1)
            return Kind(name, cls, memory, h.H5Tget_size(memory))
        if cls == COMPOUND:
            return self.compound(t, name)
        if cls in (ARRAY, VLEN, COMPLEX):
            base = self.kind(h.H5Tget_super(t))
            if cls == VLEN:
                return Kind(name, cls, h.H5Tvlen_create(base.memory), 16, members=[(0, base)])
            if cls == COMPLEX:
                return Kind(name, cls, h.H5Tcomplex_create(base.memory), 2 * base.size, members=[(0, base)], count=2)
            dims = self.dims(t)
            memory = h.array_of(base.memory, *dims)
            count = h.H5Tget_size(memory) // base.size
            return Kind(name, cls, memory, count * base.size, members=[(0, base)], count=count)
        if cls == REFERENCE:
            known = {"refobj": "STD_REF_OBJ", "refreg": "STD_REF_DSETREG", "refnew": "STD_REF"}[name]
            memory = h.predefined(known)
            return Kind(name, cls, memory, h.H5Tget_size(memory))
        if cls == OPAQUE:
            return Kind(name, cls, t, size)
        raise UnreadableError("time has no canonical form")

    def compound(self, t: Hid, name: str) -> Kind:
        """A compound, packed; members that need it make libhdf5 order all by offset."""
        h = self.h
        parts = [(h.H5Tget_member_offset(t, i), self.member_name(t, i), self.kind(m)) for i, m in self.members(t)]
        if any(word in name for word in ("vl<", "vstr", "ref")):
            parts.sort(key=lambda part: part[0])
        memory = h.H5Tcreate(COMPOUND, sum(kind.size for _, _, kind in parts))
        offset, members = 0, []
        for _, member, kind in parts:
            h.H5Tinsert(memory, member, offset, kind.memory)
            members.append((offset, kind))
            offset += kind.size
        return Kind(name, COMPOUND, memory, offset, members=members)

    def float_memory(self, t: Hid) -> Hid:
        """The smallest IEEE format that holds every value of the type; x87's 80 bits stay as they are."""
        h = self.h
        if h.H5Tget_order(t) not in (0, 1):
            raise UnreadableError("VAX order")
        fields = (ctypes.c_size_t * 5)()
        places = [ctypes.byref(fields, 8 * i) for i in range(5)]
        h.H5Tget_fields(t, *places)
        _, _, exponent, _, mantissa = fields
        bias, size = h.H5Tget_ebias(t), h.H5Tget_size(t)
        for width, bits, largest, smallest in WIDTHS:
            fits = mantissa <= bits and (1 << exponent) - bias - 1 <= largest and 1 - bias >= smallest
            if width >= size and fits:
                return h.predefined(f"IEEE_F{8 * width}LE")
        if h.H5Tequal(t, h.predefined("NATIVE_LDOUBLE")):
            return t
        raise UnreadableError("no IEEE format of memory holds it")

    # --- values --------------------------------------------------------------------------------------------------

    def canonical(self, kind: Kind, data: bytes, at: int, owner: Hid, out: list[bytes]) -> None:
        """Appends the canonical bytes of the element at `at`."""
        cls = kind.cls
        if cls == COMPOUND:
            for offset, member in kind.members:
                self.canonical(member, data, at + offset, owner, out)
        elif cls in (ARRAY, COMPLEX):
            base = kind.members[0][1]
            for i in range(kind.count):
                self.canonical(base, data, at + i * base.size, owner, out)
        elif cls == VLEN:
            length, pointer = struct.unpack_from("<QQ", data, at)
            base = kind.members[0][1]
            length = length if pointer else 0
            out.append(struct.pack("<Q", length))
            inner = ctypes.string_at(pointer, length * base.size) if length else b""
            for i in range(length):
                self.canonical(base, inner, i * base.size, owner, out)
        elif kind.name == "vstr":
            (pointer,) = struct.unpack_from("<Q", data, at)
            text = ctypes.string_at(pointer) if pointer else b""
            out.append(struct.pack("<Q", len(text)) + text)
        elif cls == REFERENCE:
            out.append(self.address(kind, data[at : at + kind.size], owner))
        else:
            value = data[at : at + kind.size]
            out.append(value[::-1] if kind.swap else value)

    def address(self, kind: Kind, reference: bytes, owner: Hid) -> bytes:
        """The address of the object header that a reference names."""
        h = self.h
        if not any(reference):
            return bytes(8)
        buffer = ctypes.create_string_buffer(reference, len(reference))
        try:
            if kind.name == "refnew":
                opened = h.H5Ropen_object(buffer, self.access, 0)
            else:
                opened = h.H5Rdereference2(owner, 0, 0 if kind.name == "refobj" else 1, buffer)
            token = object_token(h, opened)
            h.H5Oclose(opened)
        except Hdf5Error:
            return b"badref"
        return token

    def digest(self, owner: Hid, t: Hid, space: Hid, attribute: bool) -> dict[str, Any]:
        """The fields that datasets and attributes share."""
        h = self.h
        record: dict[str, Any] = {"type": self.name(t)}
        cls = h.H5Sget_simple_extent_type(space)
        record["space"] = ("scalar", "simple", "null")[cls]
        if cls == 2:
            return record | {"sha": "null"}
        dims = (ctypes.c_uint64 * 32)()
        rank = h.H5Sget_simple_extent_dims(space, dims, None)
        shape = list(dims[:rank])
        count = 1
        for length in shape:
            count *= length
        record |= {"shape": shape, "n": count}
        if count * h.H5Tget_size(t) > BYTE_LIMIT:
            return record | {"err": "too large for the oracle"}

        def read(memory: Hid) -> Any:
            buffer = ctypes.create_string_buffer(max(1, count * h.H5Tget_size(memory)))
            if count:
                h.H5Aread(owner, memory, buffer) if attribute else h.H5Dread(owner, memory, 0, 0, 0, buffer)
            return buffer

        as_stored = False
        try:
            kind = self.kind(t)
            as_stored = kind.plain and bool(h.H5Tequal(kind.memory, t))
            buffer = read(kind.memory)
            data, out = bytes(buffer), list[bytes]()
            if kind.plain:
                out.append(data[: count * kind.size])
            for i in range(0 if kind.plain else count):
                self.canonical(kind, data, i * kind.size, owner, out)
            record["sha"] = hashlib.sha256(b"".join(out)).hexdigest()
            if count and not kind.fixed:
                h.H5Treclaim(kind.memory, space, 0, buffer)
        except (Hdf5Error, UnreadableError) as error:
            record["err"] = str(error)[:300]
        if as_stored and "sha" in record and kind.fixed:
            record["rawsha"] = record["sha"]
        elif not any(word in record["type"] for word in ("vl<", "vstr", "ref", "complex")):
            try:
                stored = bytes(read(t))[: count * h.H5Tget_size(t)]
                record["rawsha"] = hashlib.sha256(stored).hexdigest()
            except Hdf5Error as error:
                record["rawerr"] = str(error)[:300]
        return record


def object_token(h: Library, opened: Hid) -> bytes:
    """The address of an open object's header, as 8 bytes."""
    info = ctypes.create_string_buffer(128)  # H5O_info2_t: fileno, token, ...
    h.H5Oget_info3(opened, info, 1)
    return info.raw[8:16]


class Walk:
    """Visits every object of a file once: depth first, links in name order."""

    def __init__(self, h: Library, file: Hid) -> None:
        self.h, self.reader = h, Reader(h)
        self.objects: dict[str, dict[str, Any]] = {}
        self.links: dict[str, str] = {}
        self._first: dict[bytes, str] = {}
        self._visit("/", file, "/", 0)

    def _visit(self, path: str, parent: Hid, name: str, depth: int) -> None:
        h = self.h
        try:
            opened = h.H5Oopen(parent, name, 0)
            token = object_token(h, opened)
        except Hdf5Error as error:
            self.objects[path] = {"kind": "?", "err": str(error)[:300]}
            return
        if token in self._first:
            self.links[path] = f"hard->{self._first[token]}"
            h.H5Oclose(opened)
            return
        self._first[token] = path
        word = {2: "group", 3: "type", 5: "dataset"}[h.H5Iget_type(opened)]
        record: dict[str, Any] = {"kind": word}
        self.objects[path] = record
        if word == "dataset":
            record |= self._dataset(opened)
        elif word == "type":
            record["type"] = self.reader.name(opened)
        record["attrs"] = self._attributes(opened)
        if word == "group" and depth < DEPTH_LIMIT:
            names: list[tuple[int, str]] = []
            try:
                names = self._names(opened)
            except Hdf5Error as error:
                record["err"] = f"iterate: {error}"[:300]
            for kind, inner in names:
                below = f"{'' if path == '/' else path}/{inner}"
                if kind == 0:
                    self._visit(below, opened, inner, depth + 1)
                else:
                    self.links[below] = {1: "soft", 64: "external"}.get(kind, f"user{kind}")
        h.H5Oclose(opened)

    def _dataset(self, opened: Hid) -> dict[str, Any]:
        h = self.h
        dcpl = h.H5Dget_create_plist(opened)
        layout = LAYOUTS[h.H5Pget_layout(dcpl)]
        record: dict[str, Any] = {"layout": layout, "filters": []}
        for i in range(h.H5Pget_nfilters(dcpl)):
            name, none = ctypes.create_string_buffer(256), ctypes.c_size_t(0)
            number = h.H5Pget_filter2(dcpl, i, None, ctypes.byref(none), None, 256, name, None)
            record["filters"].append([number, name.value.decode("utf-8", "replace")])
        if layout == "chunked":
            dims = (ctypes.c_uint64 * 33)()
            record["chunk"] = list(dims[: h.H5Pget_chunk(dcpl, 33, dims)])
        h.H5Pclose(dcpl)  # a virtual layout left in a list ends the process in a crash
        return record | self.reader.digest(opened, h.H5Dget_type(opened), h.H5Dget_space(opened), attribute=False)

    def _attributes(self, opened: Hid) -> dict[str, dict[str, Any]]:
        h, found = self.h, dict[str, dict[str, Any]]()
        for i in range(h.H5Aget_num_attrs(opened)):
            try:
                one = h.H5Aopen_by_idx(opened, ".", 0, 0, i, 0, 0)
            except Hdf5Error as error:
                found[f"!{i}"] = {"err": str(error)[:300]}
                continue
            text = ctypes.create_string_buffer(h.H5Aget_name(one, 0, None) + 1)
            h.H5Aget_name(one, len(text), text)
            record = self.reader.digest(one, h.H5Aget_type(one), h.H5Aget_space(one), attribute=True)
            found[text.value.decode("utf-8", "surrogateescape")] = record
            h.H5Aclose(one)
        return found

    def _names(self, group: Hid) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []

        def take(_group: int, name: bytes, info: int, _data: Any) -> int:
            kind = ctypes.cast(info, ctypes.POINTER(ctypes.c_int))[0]  # H5L_info2_t begins with the link's type
            found.append((kind, name.decode("utf-8", "surrogateescape")))
            return 0

        shape = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)
        self.h.H5Literate2(group, 0, 0, None, shape(take), None)
        return found


def record(h: Library, path: Path) -> dict[str, Any]:
    """The record of one file; the current folder must be the file's own."""
    made: dict[str, Any] = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    fapl = h.with_properties(h.plist("FILE_ACCESS"), fclose_degree=3)
    try:
        file = h.H5Fopen(str(path), 0, fapl)
    except Hdf5Error as error:
        return made | {"openerr": str(error)[:300], "objects": {}, "features": []}
    try:
        walk = Walk(h, file)
    finally:
        h.H5Fclose(file)
    return made | {"objects": walk.objects, "links": walk.links, "features": features(walk)}


def features(walk: Walk) -> list[str]:
    """Words for what the file holds."""
    found = {{"soft": "softlink", "external": "extlink"}.get(word, word[:4]) for word in walk.links.values()}
    for one in walk.objects.values():
        found |= {f"layout_{one['layout']}"} if "layout" in one else set()
        found |= {f"filter_{number}" for number, _ in one.get("filters", [])}
        for kind in [one, *one.get("attrs", {}).values()]:
            name = kind.get("type", "")
            found |= {word for word in ("vl<", "vstr", "ref", "complex", "vax", "bitfield", "time") if word in name}
    return sorted(found)


def records(h: Library, out: Path) -> Iterator[dict[str, Any]]:
    """The records of every HDF5 file below a folder, each read from within its own."""
    before = Path.cwd()
    try:
        for path in sorted(out.rglob("*.h5")):
            os.chdir(path.parent)
            yield {"path": path.relative_to(out).as_posix()} | record(h, path)
    finally:
        os.chdir(before)
