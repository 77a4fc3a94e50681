"""Types within types: sequences of sequences, arrays of sequences, compounds with gaps, many members or dimensions."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from cases import case
from hdf5 import LATEST, Arena, Hid, Library, both


def both_places(h: Library, file: Hid, name: str, kind: Hid, data: bytes, shape: tuple[int, ...]) -> None:
    """The same values as a contiguous, a compact and a chunked dataset, and as an attribute."""
    dataset = h.dataset(file, name, kind, shape, data)
    h.attribute(dataset, "a", kind, shape, data)
    h.dataset(file, f"{name} compact", kind, shape, data, h.dcpl(layout=0))
    h.dataset(file, f"{name} chunked", kind, shape, data, h.dcpl(chunk=(2,) * len(shape), deflate=1))


@case(b"GCOL")
def sequences(h: Library, path: Path) -> None:
    """Sequences of every class, some empty, some null."""
    arena = Arena()
    bases = {
        "i16be": (h.predefined("STD_I16BE"), 2),
        "f64be": (h.predefined("IEEE_F64BE"), 8),
        "b32le": (h.predefined("STD_B32LE"), 4),
        "b32be": (h.predefined("STD_B32BE"), 4),
        "string": (h.string(3, 2), 3),
        "f16": (h.predefined("IEEE_F16BE"), 2),
        "enum": (h.enum(h.predefined("STD_I16BE"), {"A": b"\0\1", "B": b"\0\2"}), 2),
        "opaque": (h.H5Tcreate(5, 5), 5),
        "array": (h.array_of(h.predefined("STD_I16BE"), 2, 3), 12),
        "gaps": (h.compound(11, a=(1, h.predefined("STD_I16BE")), b=(5, h.predefined("IEEE_F32BE"))), 11),
        "bfloat16": (h.predefined("FLOAT_BFLOAT16BE"), 2),
    }
    raw = np.random.default_rng(1).integers(0, 128, 600, dtype="u1").tobytes()
    for low, target in both(path):
        with h.file(target, low) as file:
            for name, (base, size) in bases.items():
                cells = b"".join(arena.sequence(n, raw[: n * size]) for n in (1, 0, 5, 50, 2, 0))
                both_places(h, file, name, h.H5Tvlen_create(base), cells, (6,))


@case(b"GCOL")
def strings(h: Library, path: Path) -> None:
    """Strings of variable length: empty, null, long, of both character sets and every padding."""
    arena = Arena()
    texts = [b"one", b"", None, "\u00fcber \U0001f409".encode(), b"x" * 5_000, b"trailing  ", b"\xff\xfe", b"last"]
    cells = b"".join(arena.text(text) for text in texts)
    for low, target in both(path):
        with h.file(target, low) as file:
            for pad in (0, 1, 2):
                for utf8 in (False, True):
                    both_places(h, file, f"{pad} {utf8}", h.string(None, pad, utf8), cells, (2, 4))
            h.dataset(file, "scalar", h.string(None), (), arena.text(b"scalar"))
            h.dataset(file, "array", h.array_of(h.string(None), 4), (2,), cells)


@case(b"GCOL")
def deep(h: Library, path: Path) -> None:
    """Sequences of sequences of compounds with strings; arrays and sequences in turn."""
    arena = Arena()
    i32 = h.predefined("STD_I32LE")
    pair = h.compound(20, text=(0, h.string(None)), n=(8, i32), more=(12, h.array_of(i32, 2)))
    inner = h.H5Tvlen_create(pair)
    outer = h.H5Tvlen_create(inner)

    def pairs(count: int) -> bytes:
        cells = b"".join(
            arena.text(b"text %d" % i if i % 3 else None) + struct.pack("<3i", i, -i, i * i) for i in range(count)
        )
        return arena.sequence(count, cells)

    lists = b"".join(arena.sequence(n, b"".join(pairs(i) for i in range(n))) for n in (3, 0, 1, 6))
    in_array = h.array_of(h.H5Tvlen_create(i32), 2, 2)
    numbers = [arena.array(np.arange(n, dtype="<i4") * 3) for n in (0, 1, 2, 3, 4, 5, 6, 7)]
    levels = h.predefined("STD_U16BE")
    value = b"".join(struct.pack(">H", i) for i in range(4))
    cell = arena.sequence(4, value)
    for _ in range(8):
        levels = h.H5Tvlen_create(levels)
    for _ in range(7):
        cell = arena.sequence(2, cell * 2)
    for low, target in both(path):
        with h.file(target, low) as file:
            both_places(h, file, "lists of lists of pairs", outer, lists, (4,))
            both_places(h, file, "arrays of lists", in_array, b"".join(numbers), (2,))
            both_places(
                h,
                file,
                "lists of arrays of lists",
                h.H5Tvlen_create(in_array),
                arena.sequence(2, b"".join(numbers)) * 2,
                (2,),
            )
            both_places(h, file, "eight levels", levels, cell * 2, (2,))


@case()
def compounds(h: Library, path: Path) -> None:
    """Compounds with gaps, members out of order, odd names, nesting, and three hundred members."""
    i16, f64, u8 = h.predefined("STD_I16BE"), h.predefined("IEEE_F64LE"), h.predefined("STD_U8LE")
    raw = np.random.default_rng(2).integers(0, 128, 9_000, dtype="u1").tobytes()
    swapped = h.H5Tcreate(6, 40)
    for name, offset, kind in (("last", 30, i16), ("first", 3, f64), ("middle", 17, u8), ("between", 11, h.string(4))):
        h.H5Tinsert(swapped, name, offset, kind)
    names = {" ": u8, "a.b": i16, "a,b:c}": u8, "\u00e9": i16, "x" * 200: f64, "12345678": u8}
    within = h.compound(70, head=(2, u8), body=(9, swapped), tail=(55, h.array_of(i16, 3)))
    many = h.packed(**{f"m{i:03}": (i16, f64, u8)[i % 3] for i in range(300)})
    for low, target in both(path):
        with h.file(target, low) as file:
            both_places(h, file, "out of order", swapped, raw, (5,))
            both_places(h, file, "names", h.packed(**names), raw, (3,))
            both_places(h, file, "within", within, raw, (3,))
            both_places(h, file, "arrays", h.array_of(within, 2, 1, 2), raw, (4,))
            h.dataset(file, "many", many, (2,), raw)
            h.dataset(file, "one byte", h.packed(only=u8), (7,), raw)


@case(b"GCOL")
def compounds_with_strings(h: Library, path: Path) -> None:
    """Members of variable length out of order of their offsets, in nested compounds too."""
    arena = Arena()
    kind = h.H5Tcreate(6, 64)
    inner = h.H5Tcreate(6, 24)
    h.H5Tinsert(inner, "z", 12, h.string(None))
    h.H5Tinsert(inner, "a", 2, h.predefined("STD_I16LE"))
    for name, offset, member in (
        ("text", 40, h.string(None)),
        ("number", 50, h.predefined("STD_I32BE")),
        ("list", 0, h.H5Tvlen_create(h.predefined("STD_U8LE"))),
        ("inner", 16, inner),
    ):
        h.H5Tinsert(kind, name, offset, member)
    cells = b""
    for i in range(5):
        cell = bytearray(64)
        cell[0:16] = arena.sequence(i, b"abcdef"[:i])
        cell[18:20] = struct.pack("<h", -i)
        cell[28:36] = arena.text(b"inner %d" % i)
        cell[40:48] = arena.text(None if i == 3 else b"outer" * i)
        cell[50:54] = struct.pack(">i", i * 1000)
        cells += bytes(cell)
    for low, target in both(path):
        with h.file(target, low) as file:
            both_places(h, file, "d", kind, cells, (5,))


@case()
def arrays(h: Library, path: Path) -> None:
    """Arrays of 1 to 32 dimensions, of arrays, and with dimensions of one."""
    raw = np.arange(600, dtype="<i2")
    i16 = h.predefined("STD_I16LE")
    for low, target in both(path):
        with h.file(target, low) as file:
            h.dataset(file, "rank 32", h.array_of(i16, *([1] * 30), 2, 3), (2,), raw)
            h.dataset(file, "of arrays", h.array_of(h.array_of(h.array_of(i16, 2), 3), 4), (2,), raw)
            h.dataset(file, "large", h.array_of(i16, 5, 40), (3,), raw)
            dataset = h.dataset(file, "dataset of rank 32", i16, (*([1] * 30), 2, 3), raw)
            h.attribute(dataset, "rank 32", i16, (*([1] * 30), 2, 3), raw)
            chunk = h.dcpl(chunk=[1] * 32)
            h.dataset(file, "chunked of rank 32", i16, (*([1] * 30), 2, 3), raw, chunk)


@case(b"GCOL")
def large_heaps(h: Library, path: Path) -> None:
    """Global heaps with objects of many sizes, collections larger than usual, and replaced strings."""
    arena = Arena()
    lengths = [0, 1, 7, 8, 9, 100, 4_000, 4_096, 5_000, 65_000, 3] + [20] * 300
    with h.file(path) as file:
        cells = b"".join(arena.text(b"s" * length) for length in lengths)
        dataset = h.dataset(file, "d", h.string(None), (len(lengths),), cells)
        again = b"".join(arena.text(b"t" * (length // 2 + 1)) for length in lengths)
        h.H5Dwrite(dataset, h.string(None), 0, 0, 0, again)
        space, memory = h.space((len(lengths),)), h.space((1,))
        for i in range(0, 300, 7):
            h.slab(space, (i,), (1,))
            h.H5Dwrite(dataset, h.string(None), memory, space, 0, arena.text(b"u" * (i * 11 % 500)))


@case(b"GCOL")
def unwritten(h: Library, path: Path) -> None:
    """Sequences and strings that were never written, or partly, with and without a fill value."""
    arena = Arena()
    text = h.string(None)
    with h.file(path, LATEST) as file:
        for name, dcpl in {
            "contiguous": h.dcpl(),
            "chunked": h.dcpl(chunk=(3,)),
            "early": h.dcpl(chunk=(3,), alloc_time=1),
        }.items():
            h.dataset(file, name, text, (10,), None, dcpl)
            h.dataset(file, f"{name} numbers", h.H5Tvlen_create(h.predefined("STD_I32BE")), (10,), None, dcpl)
        filled = h.dcpl(chunk=(4,))
        h.H5Pset_fill_value(filled, text, arena.text(b"filled"))
        dataset = h.dataset(file, "filled", text, (10,), None, filled)
        h.H5Dwrite(dataset, text, h.space((1,)), h.slab(h.space((10,)), (5,), (1,)), 0, arena.text(b"written"))
