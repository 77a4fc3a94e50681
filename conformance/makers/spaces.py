"""Dataspaces and attributes: null, scalar, empty; attributes of every class, comments and times."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from cases import case
from hdf5 import LATEST, UNLIMITED, Arena, Library, both, sizes


@case()
def null_scalar_empty(h: Library, path: Path) -> None:
    """Null, scalar and empty spaces, of datasets and attributes, with every class."""
    arena = Arena()
    kinds = {
        "int": h.predefined("STD_I32BE"),
        "float": h.predefined("IEEE_F64LE"),
        "text": h.string(None),
        "string": h.string(9),
        "list": h.H5Tvlen_create(h.predefined("STD_I16LE")),
        "array": h.array_of(h.predefined("STD_I16LE"), 4),
        "reference": h.predefined("STD_REF_OBJ"),
        "compound": h.packed(a=h.predefined("STD_I8LE"), b=h.string(None)),
    }
    data = arena.text(b"some text") + arena.text(b"more") * 4
    for low, target in both(path):
        with h.file(target, low) as file:
            for name, kind in kinds.items():
                plain = name in {"int", "float", "string", "array"}
                null = h.dataset(file, f"null {name}", kind, None)
                h.dataset(file, f"scalar {name}", kind, (), data if plain else None)
                h.dataset(file, f"empty {name}", kind, (0,))
                h.dataset(
                    file, f"empty chunked {name}", kind, h.space((3, 0), (3, UNLIMITED)), None, h.dcpl(chunk=(2, 2))
                )
                h.attribute(null, "null", kind, None)
                h.attribute(null, "scalar", kind, (), data if plain else None)
                h.attribute(null, "empty", kind, (2, 0))
                h.attribute(null, "unwritten", kind, (2,))


@case()
def maxima(h: Library, path: Path) -> None:
    """Largest extents: equal, larger, unlimited in each place, for datasets and attributes."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for name, maximum in {
                "same": (2, 3),
                "more": (7, 8),
                "first": (UNLIMITED, 3),
                "both": (UNLIMITED, UNLIMITED),
            }.items():
                space = h.space((2, 3), maximum)
                dcpl = h.dcpl(chunk=(2, 2))
                dataset = h.dataset(file, name, h.predefined("STD_I16BE"), space, np.arange(6, dtype=">i2"), dcpl)
                h.attribute(dataset, "a", h.predefined("STD_I16BE"), space, np.arange(6, dtype=">i2"))


@case(b"GCOL")
def attributes(h: Library, path: Path) -> None:
    """Attributes with pointers: strings, lists, references, compounds of them; compact and dense."""
    arena = Arena()
    i16 = h.predefined("STD_I16BE")
    for low, target in both(path):
        with h.file(target, low) as file:
            for name, changes in (("compact", (64, 40)), ("dense", (0, 0))):
                gcpl = h.plist("GROUP_CREATE")
                h.H5Pset_attr_phase_change(gcpl, *changes)
                group = h.group(file, name, gcpl)
                reference = (ctypes_bytes := bytearray(8))
                h.H5Rcreate(buffer := np.frombuffer(ctypes_bytes, "u1"), file, name, 0, -1)
                kind = h.packed(r=h.predefined("STD_REF_OBJ"), t=h.string(None), n=i16)
                h.attribute(
                    group,
                    "reference",
                    h.predefined("STD_REF_OBJ"),
                    (3,),
                    bytes(reference) + bytes(8) + bytes(reference),
                )
                h.attribute(group, "text", h.string(None, utf8=True), (), arena.text("\u00fcnicode".encode()))
                h.attribute(
                    group, "lists", h.H5Tvlen_create(i16), (3,), arena.array(np.arange(4, dtype=">i2")) * 2 + bytes(16)
                )
                h.attribute(
                    group, "compound", kind, (2,), (buffer.tobytes() + arena.text(b"in compound") + b"\1\2") * 2
                )
                listed = h.H5Tvlen_create(h.predefined("STD_REF_OBJ"))
                h.attribute(
                    group, "list of references", listed, (2,), arena.sequence(2, buffer.tobytes() * 2) + bytes(16)
                )
                h.attribute(group, "enum", h.enum(i16, {"A": b"\0\1", "B": b"\1\0"}), (2, 2), b"\0\1\1\0\0\0\1\1")
                h.attribute(group, "array", h.array_of(h.string(None), 2), (2,), arena.text(b"four") * 4)
                h.H5Tcommit2(group, "type", committed := h.packed(a=i16, b=i16), 0, 0, 0)
                h.attribute(group, "committed", committed, (2,), bytes(range(8)))
                h.attribute(committed, "on a type", committed, (), bytes(range(4)))


@case()
def many_attributes(h: Library, path: Path) -> None:
    """So many attributes that a header has continuation blocks, some removed, some renamed, some replaced."""
    for low, target in both(path):
        with h.file(target, low) as file:
            gcpl = h.with_properties(h.plist("GROUP_CREATE"), attr_phase_change=(500, 400))
            group = h.group(file, "g", gcpl)
            for i in range(300):
                h.attribute(
                    group, f"attribute {i:03}", h.predefined("STD_I32LE"), (i % 9,), np.arange(9, dtype="<i4") + i
                )
            for i in range(0, 300, 3):
                h.H5Adelete(group, f"attribute {i:03}")
            for i in range(1, 300, 30):
                h.H5Arename(group, f"attribute {i:03}", f"renamed {'with a longer name ' * (i % 5)}{i:03}")
            for i in range(20):
                h.attribute(group, f"late {i}", h.string(i + 1), (), b"late " * 6)


@case()
def creation_order(h: Library, path: Path) -> None:
    """Attributes whose order of creation is tracked, or indexed too; compact and dense."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for name, flags in (("tracked", 1), ("indexed", 3)):
                for word, changes in (("compact", (8, 6)), ("dense", (0, 0))):
                    gcpl = h.with_properties(
                        h.plist("GROUP_CREATE"), attr_creation_order=flags, attr_phase_change=changes
                    )
                    group = h.group(file, f"{name} {word}", gcpl)
                    for letter in "qwertzu":
                        h.attribute(group, letter, h.string(1), (), letter.encode())


@case()
def comments_and_times(h: Library, path: Path) -> None:
    """Object comments, times tracked or not, headers without room for attributes."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for tracked in (0, 1):
                dcpl = h.dcpl(obj_track_times=tracked)
                dataset = h.dataset(file, f"times {tracked}", h.predefined("STD_I8LE"), (3,), b"abc", dcpl)
                h.H5Oset_comment(dataset, "a comment with \u00fcml\u00e4uts" * (1 + 5 * tracked))
            h.H5Oset_comment(h.group(file, "group"), "c")
            removed = h.group(file, "removed")
            h.H5Oset_comment(removed, "soon gone")
            h.H5Oset_comment(removed, None)
            small = h.dataset(
                file, "minimal header", h.predefined("STD_I8LE"), (3,), b"abc", h.dcpl(dset_no_attrs_hint=1)
            )
            h.attribute(small, "all the same", h.predefined("STD_I8LE"), (), b"x")


@case()
def reference_counts(h: Library, path: Path) -> None:
    """Objects with several hard links, in version 1 and 2 headers; one that lives without a link."""
    for low, target in both(path):
        with h.file(target, low) as file:
            dataset = h.dataset(file, "d", h.predefined("STD_I8LE"), (3,), b"abc")
            for i in range(5):
                h.H5Lcreate_hard(file, "d", file, f"again {i}", 0, 0)
            h.H5Ldelete(file, "again 2", 0)
            h.H5Oincr_refcount(h.group(file, "counted"))
            h.attribute(dataset, "a", h.predefined("STD_I8LE"), (), b"x")


@case()
def versions(h: Library, path: Path) -> None:
    """An attribute for each low bound: its message, dataspace and datatype versions."""
    for low in range(LATEST + 1):
        target = path if low == LATEST else path.with_name(f"versions_{low}.h5")
        with h.file(target, low) as file:
            dcpl = h.dcpl(chunk=(2,), deflate=6, fletcher32=())
            h.H5Pset_fill_value(dcpl, h.predefined("STD_I32LE"), struct.pack("<i", -1))
            dataset = h.dataset(
                file, "d", h.predefined("STD_I32LE"), h.space((5,), (9,)), np.arange(5, dtype="<i4"), dcpl
            )
            for name in ("a", "odd len", "eight by"):
                h.attribute(dataset, name, h.string(5, utf8=True), (3,), b"123451234512345")
            acpl = h.with_properties(h.plist("ATTRIBUTE_CREATE"), char_encoding=1)
            h.H5Acreate2(dataset, "\u00fctf", h.predefined("STD_I8LE"), h.space(()), acpl, 0)
            h.H5Dset_extent(dataset, sizes((4,)))


@case()
def rank_33(h: Library, path: Path) -> None:
    """One dimension more than HDF5 allows: the header of one dataset was altered."""
    with h.file(path) as file:
        h.dataset(file, "33 dimensions", h.predefined("STD_I8LE"), (1,) * 32, b"x")
        h.dataset(file, "beside", h.predefined("STD_I8LE"), (2,), b"xy")
    message = bytes([1, 32, 1]) + bytes(5) + (1).to_bytes(8, "little")  # version, rank, with largest extents
    content = path.read_bytes()
    if content.count(message) != 1:
        raise AssertionError("no dataspace message of rank 32")
    path.write_bytes(content.replace(message, bytes([1, 33]) + message[2:]))
