"""Integers, bitfields, enumerations, times and opaque data, with every precision, offset, order and padding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cases import case
from hdf5 import LATEST, PAD_ONE, PAD_ZERO, Hid, Library, both


def noise(count: int, seed: int = 1) -> bytes:
    """Bytes that repeat from run to run."""
    return np.random.default_rng(seed).integers(0, 256, count, dtype="u1").tobytes()


def odd(h: Library, base: str, precision: int, offset: int, low: int = PAD_ZERO, high: int = PAD_ZERO) -> Hid:
    """A predefined type with other significant bits."""
    made = h.H5Tcopy(h.predefined(base))
    h.H5Tset_precision(made, precision)
    h.H5Tset_offset(made, offset)
    h.H5Tset_pad(made, low, high)
    return int(made)


@case()
def precisions(h: Library, path: Path) -> None:
    """Some bits of 1, 2, 4 and 8 bytes; the bits around them are noise."""
    with h.file(path) as file:
        for size in (1, 2, 4, 8):
            bits = 8 * size
            for precision, offset in {
                (1, 0),
                (3, 2),
                (bits - 1, 0),
                (bits - 1, 1),
                (bits // 2 + 1, bits // 4),
                (1, bits - 1),
            }:
                if not bits <= 2 * (precision + offset) <= 2 * bits:
                    continue
                for sign in "IU":
                    for order in ("LE", "BE"):
                        kind = odd(h, f"STD_{sign}{bits}{order}", precision, offset)
                        h.dataset(file, f"{sign}{bits}{order} {precision} at {offset}", kind, (16,), noise(16 * size))


@case()
def unusual(h: Library, path: Path) -> None:
    """More than half of the bits unused: libhdf5 refuses these unless it is told to relax."""
    fapl = h.plist("FILE_ACCESS")
    h.H5Pset_relax_file_integrity_checks(fapl, 1)
    with h.file(path, fapl=fapl) as file:
        for bits in (16, 32, 64):
            kind = odd(h, f"STD_I{bits}LE", bits // 2 - 2, 1)
            h.dataset(file, f"{bits}", kind, (8,), noise(bits))
        h.dataset(file, "usual", h.predefined("STD_I16BE"), (8,), noise(16))


@case()
def pads(h: Library, path: Path) -> None:
    """Both kinds of padding that a file can name, below and above the significant bits."""
    values = np.array([0, 1, -1, 1000, -1000, 2047, -2048], dtype="<i4")
    names = {PAD_ZERO: "zero", PAD_ONE: "one"}
    with h.file(path) as file:
        for low in names:
            for high in names:
                for order in ("LE", "BE"):
                    kind = odd(h, f"STD_I32{order}", 12, 7, low, high)
                    name = f"{order} {names[low]} {names[high]}"
                    dataset = h.dataset(file, name, kind, (7,), values, memory=h.predefined("NATIVE_INT32"))
                    h.attribute(dataset, "same", kind, (7,), values, memory=h.predefined("NATIVE_INT32"))


@case()
def bitfields(h: Library, path: Path) -> None:
    """Bitfields of each size, order and some precisions."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for bits in (8, 16, 32, 64):
                for order in ("LE", "BE"):
                    whole = h.predefined(f"STD_B{bits}{order}")
                    dataset = h.dataset(file, f"{bits}{order}", whole, (9,), noise(9 * bits // 8))
                    part = odd(h, f"STD_B{bits}{order}", bits - 3, 2)
                    h.attribute(dataset, "part", part, (9,), noise(9 * bits // 8, 2))
                    h.dataset(file, f"part {bits}{order}", part, (9,), noise(9 * bits // 8, 3))


@case()
def enums(h: Library, path: Path) -> None:
    """Enumerations over every base; some values are no member."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for base in ("I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"):
                for order in ("LE", "BE"):
                    size = int(base[1:]) // 8
                    endian = ">" if order == "BE" else "<"
                    values = {
                        f"V{v}": np.array(v, dtype=f"{endian}{base[0].lower()}{size}").tobytes() for v in (5, 0, 100, 1)
                    }
                    kind = h.enum(h.predefined(f"STD_{base}{order}"), values)
                    data = np.array([0, 1, 5, 100, 77, 0], dtype=f"{endian}{base[0].lower()}{size}")
                    dataset = h.dataset(file, base + order, kind, (6,), data)
                    h.attribute(dataset, "a", kind, (2, 3), data)
                    h.attribute(dataset, "array", h.array_of(kind, 3), (2,), data)
            boolean = h.enum(h.predefined("STD_I8LE"), {"FALSE": b"\0", "TRUE": b"\1"})
            h.dataset(file, "boolean", boolean, (5,), b"\0\1\1\0\1")
            h.dataset(file, "no members", h.enum(h.predefined("STD_I16BE"), {"ONE": b"\0\1"}), (2,), b"\0\2\0\1")
            many = {f"a member with a longer name {i}": np.array(i * i, "<u2").tobytes() for i in range(200)}
            h.dataset(file, "many", h.enum(h.predefined("STD_U16LE"), many), (50,), np.arange(50, dtype="<u2") ** 2)


@case()
def times(h: Library, path: Path) -> None:
    """The time class, which libhdf5 stores but does not convert."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for name in ("UNIX_D32LE", "UNIX_D32BE", "UNIX_D64LE", "UNIX_D64BE"):
                kind = h.predefined(name)
                dataset = h.dataset(file, name, kind, (5,), noise(40))
                h.attribute(dataset, "a", kind, (), noise(8))
            pair = h.packed(when=h.predefined("UNIX_D32LE"), what=h.predefined("STD_I32BE"))
            h.dataset(file, "compound", pair, (3,), noise(24))


@case()
def opaques(h: Library, path: Path) -> None:
    """Opaque data with tags of several lengths, and without."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for size, tag in ((1, ""), (7, "a tag"), (8, "12345678"), (100, "t" * 255), (3, "\u00e9")):
                kind = h.H5Tcreate(5, size)
                h.H5Tset_tag(kind, tag)
                dataset = h.dataset(file, f"{size}", kind, (4,), noise(4 * size))
                h.attribute(dataset, "a", kind, (2, 2), noise(4 * size, 2))
            h.dataset(file, "array", h.array_of(kind, 2, 2), (3,), noise(36))


@case()
def odd_sizes(h: Library, path: Path) -> None:
    """Integers of 3, 5, 6, 7 and 16 bytes."""
    with h.file(path) as file:
        for size in (3, 5, 6, 7, 16):
            for order in ("LE", "BE"):
                kind = h.H5Tcopy(h.predefined(f"STD_U64{order}"))
                h.H5Tset_size(kind, size)
                h.H5Tset_precision(kind, 8 * size)
                dataset = h.dataset(file, f"{size}{order}", kind, (5,), noise(5 * size))
                h.attribute(dataset, "a", kind, (), noise(size))


@case()
def in_members(h: Library, path: Path) -> None:
    """Odd integers as members, elements of arrays and bases of sequences."""
    for low, target in both(path):
        with h.file(target, low) as file:
            i12 = odd(h, "STD_I16BE", 12, 3)
            b5 = odd(h, "STD_B8LE", 5, 1)
            u24 = odd(h, "STD_U32LE", 24, 8, PAD_ONE, PAD_ZERO)
            kind = h.compound(20, a=(1, i12), b=(4, b5), c=(6, u24), d=(11, h.array_of(i12, 2, 2)))
            dataset = h.dataset(file, "compound", kind, (6,), noise(120))
            h.attribute(dataset, "a", kind, (2,), noise(40))


@case()
def strings(h: Library, path: Path) -> None:
    """Fixed strings: each padding, full and short, with bytes after the end."""
    texts = [b"full!", b"ab\0cd", b"a   ", b"\0\0\0\0x", b"", b"ab\0  ", b"     "]
    raw = b"".join(text.ljust(5, b"\0") for text in texts)
    for low, target in both(path):
        with h.file(target, low) as file:
            for pad, word in enumerate(("term", "null", "space")):
                for utf8 in (False, True):
                    kind = h.string(5, pad, utf8)
                    dataset = h.dataset(file, f"{word} {utf8}", kind, (7,), raw)
                    h.attribute(dataset, "a", kind, (7,), raw)
                    h.attribute(dataset, "one byte", h.string(1, pad, utf8), (3,), b"a\0 ")
                    h.attribute(dataset, "array", h.array_of(kind, 7), (), raw)


@case()
def newest_versions(h: Library, path: Path) -> None:
    """The same types once for each low bound: datatype messages of versions 1 to 5."""
    for low in range(1, LATEST + 1):
        target = path if low == LATEST else path.with_name(f"newest_versions_{low}.h5")
        with h.file(target, low) as file:
            inner = h.compound(10, x=(1, h.predefined("STD_I16BE")), y=(4, h.array_of(h.predefined("IEEE_F32LE"), 1)))
            colours = h.enum(h.predefined("STD_I8LE"), {"RED": b"\1", "GREEN": b"\2"})
            kind = h.compound(40, i=(0, inner), e=(12, colours), o=(16, h.array_of(inner, 2)), s=(37, h.string(3)))
            dataset = h.dataset(file, "d", kind, (5,), noise(200))
            h.attribute(dataset, "a", kind, (2,), noise(80))
