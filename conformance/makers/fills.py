"""Fill values and allocation: each value, time and layout, where nothing or only something was written."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from cases import case
from hdf5 import (
    ALLOC_EARLY,
    ALLOC_INCR,
    ALLOC_LATE,
    CHUNKED,
    COMPACT,
    CONTIGUOUS,
    FILL_ALLOC,
    FILL_IFSET,
    FILL_NEVER,
    Library,
    both,
)

ALLOCATIONS = {"early": ALLOC_EARLY, "late": ALLOC_LATE, "incremental": ALLOC_INCR}
TIMES = {"alloc": FILL_ALLOC, "never": FILL_NEVER, "ifset": FILL_IFSET}
LAYOUTS = {"compact": COMPACT, "contiguous": CONTIGUOUS, "chunked": CHUNKED}


@case()
def combinations(h: Library, path: Path) -> None:
    """Value (undefined, default, given) by time by allocation by layout, never written and written in part."""
    i32 = h.predefined("STD_I32BE")
    for low, target in both(path):
        with h.file(target, low) as file:
            for layout_name, layout in LAYOUTS.items():
                for when, allocation in ALLOCATIONS.items():
                    for word, time in TIMES.items():
                        for value in ("undefined", "default", "given"):
                            if (layout == COMPACT and allocation != ALLOC_EARLY) or (
                                value == "undefined" and time == FILL_ALLOC
                            ):
                                continue
                            dcpl = h.dcpl(layout=layout, alloc_time=allocation, fill_time=time)
                            if layout == CHUNKED:
                                h.H5Pset_chunk(dcpl, 1, np.array([4], "<u8"))
                            if value == "undefined":
                                h.H5Pset_fill_value(dcpl, i32, None)
                            if value == "given":
                                h.H5Pset_fill_value(dcpl, i32, b"\0\1\2\3")
                            name = f"{layout_name} {when} {word} {value}"
                            if not (time == FILL_NEVER or value == "undefined") or allocation != ALLOC_EARLY:
                                h.dataset(file, name, i32, (10,), None, dcpl)
                            if layout == CHUNKED or value != "undefined":
                                whole = h.dataset(file, f"{name} written", i32, (8,), None, dcpl)
                                h.H5Dwrite(whole, i32, 0, 0, 0, np.arange(8, dtype=">i4"))


@case()
def kinds(h: Library, path: Path) -> None:
    """Fill values of every class, converted from another type of memory where one may."""
    compound = h.compound(20, a=(1, h.predefined("STD_I16BE")), b=(8, h.predefined("IEEE_F32BE")), c=(13, h.string(4)))
    values = {
        "i8": (h.predefined("STD_I8LE"), b"\x85"),
        "u64be": (h.predefined("STD_U64BE"), b"\x85\1\2\3\4\5\6\7"),
        "f16": (h.predefined("IEEE_F16BE"), b"\x3c\x01"),
        "nan": (h.predefined("IEEE_F64LE"), struct.pack("<d", float("nan"))),
        "string": (h.string(6), b"fill\0\0"),
        "space padded": (h.string(6, 2), b"fill  "),
        "compound": (compound, bytes(range(20))),
        "array": (h.array_of(h.predefined("STD_I16LE"), 3), b"\1\0\2\0\3\0"),
        "opaque": (h.H5Tcreate(5, 5), b"\0\1\2\3\4"),
        "enum": (h.enum(h.predefined("STD_I8LE"), {"A": b"\1", "B": b"\2"}), b"\2"),
        "bits": (h.predefined("STD_B16BE"), b"\x80\1"),
    }
    for low, target in both(path):
        with h.file(target, low) as file:
            for name, (kind, value) in values.items():
                for layout in ("contiguous", "chunked"):
                    dcpl = h.dcpl(chunk=(3,), deflate=6) if layout == "chunked" else h.dcpl()
                    h.H5Pset_fill_value(dcpl, kind, value)
                    h.dataset(file, f"{name} {layout}", kind, (7,), None, dcpl)
            dcpl = h.dcpl(chunk=(3,))
            h.H5Pset_fill_value(dcpl, h.predefined("NATIVE_DOUBLE"), struct.pack("=d", 7.0))
            h.dataset(file, "converted", h.predefined("STD_I16BE"), (5,), None, dcpl)


@case()
def large(h: Library, path: Path) -> None:
    """A fill value of many bytes, and declared extents far beyond the file, of which nothing is stored."""
    with h.file(path) as file:
        kind = h.array_of(h.predefined("STD_U8LE"), 20_000)
        dcpl = h.dcpl(chunk=(2,))
        h.H5Pset_fill_value(dcpl, kind, bytes(i % 251 for i in range(20_000)))
        h.dataset(file, "d", kind, (3,), None, dcpl)
        h.dataset(file, "huge", h.predefined("STD_U8LE"), (1 << 40, 1 << 20), None, h.dcpl(chunk=(1 << 10, 1 << 10)))
        h.dataset(file, "huge contiguous", h.predefined("STD_U8LE"), (1 << 45,), None)
