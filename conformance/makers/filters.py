"""The library's own filters on every kind of datatype, masks that skip some, and pipelines that fail or are unknown."""

from __future__ import annotations

import ctypes
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from cases import case
from hdf5 import (
    FILTER_DEFLATE,
    FILTER_FLETCHER32,
    LATEST,
    UNLIMITED,
    Hid,
    Library,
    both,
    sizes,
)

from makers.floats import odd_float
from makers.integers import noise, odd

ENTROPY_CODED, NEAREST = 4, 32
INTEGERS = [f"STD_{sign}{bits}{order}" for sign in "IU" for bits in (8, 16, 32, 64) for order in ("LE", "BE")]


def smooth(count: int, seed: int = 0) -> np.ndarray:
    """Numbers that change slowly, some below zero."""
    steps = np.random.default_rng(seed).integers(-9, 10, count)
    return np.cumsum(steps).astype("<i8")


def write_numbers(h: Library, dataset: Hid, values: np.ndarray) -> None:
    """Writes integers or doubles with conversion."""
    memory = "STD_I64LE" if values.dtype.kind == "i" else "IEEE_F64LE"
    h.H5Dwrite(dataset, h.predefined(memory), 0, 0, 0, np.ascontiguousarray(values))


@case()
def szip(h: Library, path: Path) -> None:
    """Both codings of szip, with several block sizes, element sizes and short last blocks."""
    with h.file(path) as file:
        for word, mask in (("ec", ENTROPY_CODED), ("nn", NEAREST)):
            for block in (2, 8, 16, 32):
                for name in (*INTEGERS, "IEEE_F32LE", "IEEE_F64BE", "STD_B16LE"):
                    kind = h.predefined(name)
                    shape, chunk = ((7, 67), (5, 40)) if block == 16 else ((130,), (97,))
                    if block > chunk[-1]:
                        continue
                    dcpl = h.dcpl(chunk=chunk, szip=(mask, block))
                    if name.startswith("STD_B"):
                        h.dataset(file, f"{word} {block} {name}", kind, shape, noise(260), dcpl)
                        continue
                    dataset = h.dataset(file, f"{word} {block} {name}", kind, shape, None, dcpl)
                    values = np.abs(smooth(int(np.prod(shape)), block)) % 120
                    write_numbers(h, dataset, values if "STD" in name else values / 7)
            for name, values in {"zeros": np.zeros(300, "<i8"), "noise": np.frombuffer(noise(2_400), "<i8")}.items():
                dataset = h.dataset(
                    file,
                    f"{word} {name}",
                    h.predefined("STD_I32BE"),
                    (300,),
                    None,
                    h.dcpl(chunk=(100,), szip=(mask, 16)),
                )
                write_numbers(h, dataset, values >> 33)


@case()
def nbit(h: Library, path: Path) -> None:
    """N-bit on integers and floats of odd precision, arrays and compounds; opaque parts pass through."""
    with h.file(path) as file:
        atoms = {
            "i12": odd(h, "STD_I16LE", 12, 2),
            "u12be": odd(h, "STD_U16BE", 12, 4),
            "i31": odd(h, "STD_I32BE", 31, 0),
            "u1": odd(h, "STD_U8LE", 1, 3),
            "i7": odd(h, "STD_I8LE", 7, 1),
            "i40": odd(h, "STD_I64LE", 40, 11),
            "i33be": odd(h, "STD_I64BE", 33, 31),
            "f20": odd_float(h, 4, 26, (20, 6), (7, 13), 31, precision=20, offset=7),
            "f20be": odd_float(h, 4, 26, (20, 6), (7, 13), 31, precision=20, offset=7, order=1),
            "i32": h.predefined("STD_I32LE"),
            "f64": h.predefined("IEEE_F64BE"),
            "f16": h.predefined("IEEE_F16LE"),
        }
        for name, kind in atoms.items():
            size = h.H5Tget_size(kind)
            dcpl = h.dcpl(chunk=(4, 7), nbit=())
            values = smooth(90, size)
            fractional = "f" in name
            dataset = h.dataset(file, name, kind, (9, 10), None, dcpl)
            write_numbers(h, dataset, values / 8 if fractional else values)
            array = h.array_of(kind, 3)
            made = h.dataset(file, f"array {name}", array, (30,), None, h.dcpl(chunk=(8,), nbit=()))
            memory = h.array_of(h.predefined("IEEE_F64LE" if fractional else "STD_I64LE"), 3)
            h.H5Dwrite(made, memory, 0, 0, 0, values / 8 if fractional else values)
        inner = h.compound(9, a=(1, atoms["i12"]), b=(5, atoms["i31"]))
        kind = h.compound(
            48,
            x=(0, atoms["f20"]),
            in_=(6, inner),
            o=(16, h.H5Tcreate(5, 3)),
            s=(20, h.string(5)),
            many=(28, h.array_of(inner, 2)),
        )
        # The noise goes through a packed memory type, so that bits outside of the precision are those of libhdf5.
        h.dataset(file, "compound", kind, (20,), noise(960), h.dcpl(chunk=(6,), nbit=()))
        h.dataset(file, "compound and deflate", kind, (20,), noise(960), h.dcpl(chunk=(6,), nbit=(), deflate=6))
        enum = h.enum(h.predefined("STD_I16LE"), {"A": b"\1\0", "B": b"\2\0"})
        h.dataset(file, "enum", enum, (20,), noise(40), h.dcpl(chunk=(6,), nbit=()))


@case()
def scaleoffset_integers(h: Library, path: Path) -> None:
    """Scale-offset on every integer, with and without a fill value, with the bits given or found."""
    with h.file(path) as file:
        for name in INTEGERS:
            kind = h.predefined(name)
            values = np.clip(np.abs(smooth(60)), 0, 100)
            for bits in (0, 7):
                for fill in (None, 99):
                    dcpl = h.dcpl(chunk=(8,), scaleoffset=(2, bits))
                    if fill is not None:
                        h.H5Pset_fill_value(dcpl, h.predefined("NATIVE_INT32"), struct.pack("=i", fill))
                    dataset = h.dataset(file, f"{name} {bits} {fill}", kind, (60,), None, dcpl)
                    data = values.copy()
                    data[::5] = 99
                    write_numbers(h, dataset, data)
        limits = {"same": np.full(40, -7), "full": np.array([-(2**31), 2**31 - 1] * 20), "one bit": np.arange(40) % 2}
        for name, data in limits.items():
            dataset = h.dataset(
                file, name, h.predefined("STD_I32LE"), (40,), None, h.dcpl(chunk=(16,), scaleoffset=(2, 0))
            )
            write_numbers(h, dataset, data.astype("<i8"))
        part = h.dataset(
            file, "missing chunks", h.predefined("STD_I32LE"), (40,), None, h.dcpl(chunk=(8,), scaleoffset=(2, 0))
        )
        place = h.slab(h.space((40,)), (17,), (5,))
        h.H5Dwrite(part, h.predefined("STD_I64LE"), h.space((5,)), place, 0, np.arange(5, dtype="<i8"))


@case()
def scaleoffset_floats(h: Library, path: Path) -> None:
    """Scale-offset on floats: values rounded to decimal places."""
    with h.file(path) as file:
        for name in ("IEEE_F32LE", "IEEE_F32BE", "IEEE_F64LE", "IEEE_F64BE"):
            for places in (0, 1, 3, 6):
                for fill in (None, 12.5):
                    dcpl = h.dcpl(chunk=(8,), scaleoffset=(0, places))
                    if fill is not None:
                        h.H5Pset_fill_value(dcpl, h.predefined("NATIVE_DOUBLE"), struct.pack("=d", fill))
                    dataset = h.dataset(file, f"{name} {places} {fill}", h.predefined(name), (60,), None, dcpl)
                    data = smooth(60) / 8
                    data[::7] = 12.5
                    write_numbers(h, dataset, data)
            dataset = h.dataset(
                file, f"{name} same", h.predefined(name), (20,), None, h.dcpl(chunk=(8,), scaleoffset=(0, 2))
            )
            write_numbers(h, dataset, np.full(20, -3.25))


@case()
def fletcher(h: Library, path: Path) -> None:
    """Checksums over chunks of even and odd lengths, in every place of a pipeline."""
    with h.file(path) as file:
        for count in (1, 2, 3, 7, 360, 361, 1_000):
            pipelines: dict[str, dict[str, Any]] = {
                "alone": {"fletcher32": ()},
                "first": {"fletcher32": (), "deflate": 6},
                "last": {"deflate": 6, "fletcher32": ()},
                "before shuffle": {"fletcher32": (), "shuffle": ()},
            }
            for name, filters in pipelines.items():
                plist = h.plist("DATASET_CREATE")
                h.H5Pset_chunk(plist, 1, sizes((count,)))
                h.with_properties(plist, **filters)
                h.dataset(file, f"{name} {count}", h.predefined("STD_U8LE"), (count,), noise(count), plist)


@case()
def shuffles(h: Library, path: Path) -> None:
    """Shuffle with elements of many sizes; bytes left over stay at the end."""
    with h.file(path) as file:
        for size in (1, 2, 3, 5, 8, 16, 31, 200):
            kind = h.H5Tcreate(5, size)
            h.dataset(file, f"{size}", kind, (11, 3), noise(33 * size), h.dcpl(chunk=(4, 3), shuffle=()))
            h.dataset(
                file, f"{size} deflate", kind, (11, 3), noise(33 * size), h.dcpl(chunk=(4, 3), shuffle=(), deflate=9)
            )
        # A pipeline in which the checksum's four bytes go through shuffle.
        plist = h.with_properties(h.dcpl(chunk=(5,)), fletcher32=(), shuffle=())
        h.dataset(file, "after checksum", h.predefined("STD_I64LE"), (10,), noise(80), plist)


@case()
def masks(h: Library, path: Path) -> None:
    """Chunks written past the pipeline: each mask of skipped filters, under every index."""
    raw = np.arange(6, dtype="<i4") * 1_000
    shuffled = raw.view("u1").reshape(6, 4).T.tobytes()
    written = {0: zlib.compress(shuffled), 1: zlib.compress(raw.tobytes()), 2: shuffled, 3: raw.tobytes()}
    for low, target in both(path):
        with h.file(target, low) as file:
            for name, maximum in {"fixed": (30,), "extensible": (UNLIMITED,)}.items():
                dcpl = h.dcpl(chunk=(6,), shuffle=(), deflate=6)
                dataset = h.dataset(file, name, h.predefined("STD_I32LE"), h.space((27,), maximum), None, dcpl)
                for mask, stored in written.items():
                    h.H5Dwrite_chunk(dataset, 0, mask, sizes((6 * mask,)), len(stored), stored)
            dcpl = h.dcpl(chunk=(6, 1), shuffle=(), deflate=6)
            tree = h.dataset(file, "tree", h.predefined("STD_I32LE"), h.space((6, 9), (UNLIMITED,) * 2), None, dcpl)
            single = h.dataset(
                file, "single", h.predefined("STD_I32LE"), (6,), None, h.dcpl(chunk=(6,), shuffle=(), deflate=6)
            )
            for mask, stored in written.items():
                h.H5Dwrite_chunk(tree, 0, mask, sizes((0, 2 * mask)), len(stored), stored)
            h.H5Dwrite_chunk(single, 0, 3, sizes((0,)), 24, raw)
            # High bits stand for filters that do not exist.
            h.H5Dwrite_chunk(tree, 0, 0xFFFF_FFFC, sizes((0, 1)), len(written[0]), written[0])


@case()
def optional_failures(h: Library, path: Path) -> None:
    """Optional filters that could not shrink a chunk, so that libhdf5 set its mask itself."""
    with h.file(path, LATEST) as file:
        pipelines: dict[str, list[tuple[int, tuple[int, ...]]]] = {
            "deflate": [(FILTER_DEFLATE, (6,))],
            "szip": [],
            "both": [(FILTER_DEFLATE, (6,)), (FILTER_FLETCHER32, ())],
        }
        for name, filters in pipelines.items():
            dcpl = h.dcpl(chunk=(64,))
            for number, values in filters:
                h.H5Pset_filter(dcpl, number, 1, len(values), (ctypes.c_uint * 1)(*values))
            if name == "szip":
                h.H5Pset_szip(dcpl, NEAREST, 8)
            data = np.concatenate(
                [np.frombuffer(noise(256), "<u4"), np.zeros(64, "<u4"), np.frombuffer(noise(64, 9), "<u4")]
            )
            h.dataset(file, name, h.predefined("STD_U32LE"), (len(data),), data, dcpl)


@case()
def unknown(h: Library, path: Path) -> None:
    """Filters that nobody has: an error where chunks need them, none where masks skip them or nothing is stored."""
    raw = np.arange(6, dtype="<i4")
    for low, target in both(path):
        with h.file(target, low) as file:
            for name, flags in (("optional", 1), ("mandatory", 0)):
                dcpl = h.dcpl(chunk=(6,), shuffle=())
                try:
                    h.H5Pset_filter(dcpl, 511, flags, 3, (ctypes.c_uint * 3)(1, 2, 3))
                    dataset = h.dataset(file, name, h.predefined("STD_I32LE"), h.space((18,), (UNLIMITED,)), None, dcpl)
                except RuntimeError:  # libhdf5 refuses to make a dataset with an unknown mandatory filter
                    continue
                h.H5Dwrite_chunk(dataset, 0, 3, sizes((0,)), 24, raw)
                needed = h.dataset(file, f"{name} needed", h.predefined("STD_I32LE"), (6,), None, dcpl)
                h.H5Dwrite_chunk(needed, 0, 1, sizes((0,)), 24, raw)
                h.dataset(file, f"{name} empty", h.predefined("STD_I32LE"), h.space((18,), (UNLIMITED,)), None, dcpl)


@case()
def many_filters(h: Library, path: Path) -> None:
    """A pipeline as long as the format allows: 32 filters."""
    for low, target in both(path):
        with h.file(target, low) as file:
            dcpl = h.dcpl(chunk=(30,))
            for i in range(32):
                number, values = [(FILTER_DEFLATE, (1 + i % 9,)), (FILTER_FLETCHER32, ())][i % 2]
                h.H5Pset_filter(dcpl, number, 0, len(values), (ctypes.c_uint * 1)(*values))
            h.dataset(file, "d", h.predefined("STD_I32LE"), (100,), np.arange(100, dtype="<i4"), dcpl)


@case()
def compact_and_contiguous_beside(h: Library, path: Path) -> None:
    """A pipeline that no chunk ever passes: a virtual, a contiguous and a compact layout beside it."""
    with h.file(path, LATEST) as file:
        for name, layout in (("compact", 0), ("contiguous", 1)):
            h.dataset(file, name, h.predefined("STD_I32BE"), (10,), noise(40), h.dcpl(layout=layout))
        h.dataset(
            file, "empty", h.predefined("STD_I32BE"), h.space((0, 4), (0, 4)), None, h.dcpl(chunk=(1, 4), deflate=6)
        )
        h.dataset(file, "scalar", h.predefined("STD_I32BE"), (), noise(4))
