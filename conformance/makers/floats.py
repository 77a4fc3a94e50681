"""Floating point beyond IEEE single and double: small formats, odd fields, normalisations, VAX, complex numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cases import case
from hdf5 import LATEST, ORDER_BE, ORDER_LE, ORDER_VAX, PAD_ONE, PAD_ZERO, Arena, Hid, Library, both

IMPLIED, MSB_SET, NO_NORM = 0, 1, 2
SMALL = ("BFLOAT16LE", "BFLOAT16BE", "F8E4M3", "F8E5M2", "F6E2M3", "F6E3M2", "F4E2M1")


def odd_float(
    h: Library,
    size: int,
    sign: int,
    exponent: tuple[int, int],
    mantissa: tuple[int, int],
    bias: int,
    norm: int = IMPLIED,
    order: int = ORDER_LE,
    precision: int | None = None,
    offset: int = 0,
    pad: int = PAD_ZERO,
) -> Hid:
    """A floating-point type: positions and sizes of its fields count from the lowest bit."""
    made = h.H5Tcopy(h.predefined("IEEE_F64LE"))
    if size > 8:
        h.H5Tset_size(made, size)
        h.H5Tset_precision(made, 8 * size)
    h.H5Tset_fields(made, sign, *exponent, *mantissa)
    h.H5Tset_offset(made, offset)
    h.H5Tset_precision(made, 8 * size if precision is None else precision)
    h.H5Tset_size(made, size)
    h.H5Tset_ebias(made, bias)
    h.H5Tset_norm(made, norm)
    h.H5Tset_inpad(made, pad)
    h.H5Tset_order(made, order)
    return int(made)


@case()
def small(h: Library, path: Path) -> None:
    """Formats of machine learning: every bit pattern of one byte, many of bfloat16."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for name in SMALL:
                if not h.has_type(f"FLOAT_{name}"):
                    continue
                kind = h.predefined(f"FLOAT_{name}")
                wide = name.startswith("BF")
                data = np.arange(0, 65536, 37, dtype="<u2") if wide else np.arange(256, dtype="u1")
                dataset = h.dataset(file, name, kind, (len(data),), data)
                h.attribute(dataset, "scalar", kind, (), b"\x3f\x40")
                h.attribute(dataset, "array", h.array_of(kind, 2, 3), (4,), data)
                pair = h.packed(i=h.predefined("STD_I8LE"), x=kind)
                h.dataset(file, f"{name} in compound", pair, (30,), data)
                chunked = h.dcpl(chunk=(50,), shuffle=(), deflate=6)
                h.dataset(file, f"{name} chunked", kind, (256,), data, chunked)


@case()
def half(h: Library, path: Path) -> None:
    """IEEE half precision in both orders: zeros, subnormals, infinities and NaN."""
    with h.file(path) as file:
        for order in ("LE", "BE"):
            h.dataset(file, order, h.predefined(f"IEEE_F16{order}"), (2048,), np.arange(0, 65536, 32, dtype="<u2"))


@case()
def fields(h: Library, path: Path) -> None:
    """Sign, exponent and mantissa of other sizes and places than IEEE's."""
    rng = np.random.default_rng(7)
    with h.file(path) as file:
        kinds = {
            "24 bits": odd_float(h, 4, 23, (16, 7), (0, 16), 63, precision=24),
            "24 bits up": odd_float(h, 4, 31, (24, 7), (8, 16), 63, precision=24, offset=8),
            "20 bits": odd_float(h, 4, 26, (20, 6), (7, 13), 31, precision=20, offset=7),
            "sign last": odd_float(h, 4, 0, (1, 8), (9, 23), 127),
            "mantissa first": odd_float(h, 4, 31, (0, 8), (8, 23), 127),
            "bias 10": odd_float(h, 4, 31, (23, 8), (0, 23), 10),
            "short in 8": odd_float(h, 8, 63, (58, 5), (6, 52), 15),
            "most exponent": odd_float(h, 2, 15, (8, 7), (0, 8), 63),
            "pad one": odd_float(h, 4, 31, (26, 5), (4, 20), 15, pad=PAD_ONE),
        }
        for name, kind in kinds.items():
            size = h.H5Tget_size(kind)
            data = rng.integers(0, 256, 40 * size, dtype="u1")
            for word, order in (("LE", ORDER_LE), ("BE", ORDER_BE)):
                copy = h.H5Tcopy(kind)
                h.H5Tset_order(copy, order)
                h.dataset(file, f"{name} {word}", copy, (40,), data)
                values = np.array([0.0, 1.0, -1.5, 3.25, 0.001, -100.0], dtype="<f8")
                made = h.dataset(file, f"{name} {word} values", copy, (6,), values, memory=h.predefined("IEEE_F64LE"))
                h.attribute(made, "a", copy, (6,), values, memory=h.predefined("IEEE_F64LE"))


@case()
def normalisations(h: Library, path: Path) -> None:
    """The leading bit of the mantissa implied, stored, or not normalised."""
    values = np.array([0.0, 1.0, -1.5, 3.25, 0.25, -100.0], dtype="<f8")
    with h.file(path) as file:
        for name, norm in (("implied", IMPLIED), ("msb", MSB_SET), ("none", NO_NORM)):
            kind = odd_float(h, 4, 31, (24, 7), (0, 24), 63, norm)
            h.dataset(file, name, kind, (6,), values, memory=h.predefined("IEEE_F64LE"))
            raw = np.random.default_rng(3).integers(0, 256, 160, dtype="u1")
            h.dataset(file, f"{name} raw", kind, (40,), raw)


@case()
def vax(h: Library, path: Path) -> None:
    """VAX F and G numbers, and a home-made one of another size."""
    raw = np.random.default_rng(5).integers(0, 256, 320, dtype="u1")
    for low, target in both(path):
        with h.file(target, low) as file:
            for name in ("VAX_F32", "VAX_F64"):
                kind = h.predefined(name)
                h.dataset(file, name, kind, (40,), raw)
                values = np.array([0.0, 1.0, -1.5, 3.25, 0.001, -100.0], dtype="<f8")
                dataset = h.dataset(file, f"{name} values", kind, (6,), values, memory=h.predefined("IEEE_F64LE"))
                h.attribute(dataset, "a", kind, (6,), values, memory=h.predefined("IEEE_F64LE"))
            half = h.H5Tcopy(h.predefined("IEEE_F16LE"))
            h.H5Tset_order(half, ORDER_VAX)
            h.dataset(file, "half", half, (40,), raw)


@case()
def long_double(h: Library, path: Path) -> None:
    """x87's 80 bits in 16 bytes, and IEEE's 128 bits in both orders."""
    with h.file(path) as file:
        values = np.array([0.0, 1.0, -1.5, 1e300, 3.25e-5], dtype="<f8")
        memory = h.predefined("IEEE_F64LE")
        x87 = odd_float(h, 16, 79, (64, 15), (0, 64), 16383, NO_NORM, precision=80)
        h.dataset(file, "x87", x87, (5,), values, memory=memory)
        for name, order in (("LE", ORDER_LE), ("BE", ORDER_BE)):
            quad = odd_float(h, 16, 127, (112, 15), (0, 112), 16383, order=order)
            dataset = h.dataset(file, f"quad {name}", quad, (5,), values, memory=memory)
            h.attribute(dataset, "a", quad, (5,), values, memory=memory)


@case()
def complex_numbers(h: Library, path: Path) -> None:
    """The complex class over several bases, alone and inside other types."""
    rng = np.random.default_rng(11)
    with h.file(path, LATEST) as file:
        for base in (
            "IEEE_F16LE",
            "IEEE_F16BE",
            "IEEE_F32LE",
            "IEEE_F32BE",
            "IEEE_F64LE",
            "IEEE_F64BE",
            "FLOAT_BFLOAT16LE",
        ):
            number = h.predefined(base)
            kind = h.H5Tcomplex_create(number)
            size = h.H5Tget_size(kind)
            values = rng.standard_normal(40).astype("<f8")
            data = bytes(convert(h, values, number))
            dataset = h.dataset(file, base, kind, (4, 5), data)
            h.attribute(dataset, "scalar", kind, (), data)
            h.attribute(dataset, "array", h.array_of(kind, 2, 2), (3,), data)
            pair = h.compound(size + 3, n=(1, h.predefined("STD_I8LE")), z=(2, kind))
            h.dataset(file, f"{base} in compound", pair, (6,), data)
            h.dataset(file, f"{base} in array", h.array_of(kind, 5), (4,), data)
            arena = Arena()
            cells = b"".join(arena.sequence(n, data[: n * size]) for n in (0, 1, 7))
            h.dataset(file, f"{base} in sequence", h.H5Tvlen_create(kind), (3,), cells)
            filtered = h.dcpl(chunk=(3, 2), shuffle=(), deflate=6, fletcher32=())
            h.H5Pset_fill_value(filtered, kind, data)
            h.dataset(file, f"{base} chunked", kind, (4, 5), data, filtered)
            h.dataset(file, f"{base} only fill", kind, (4, 5), None, filtered)
        h.H5Tcommit2(file, "committed", kind, 0, 0, 0)
        h.dataset(file, "of committed", kind, (2,), data)


def convert(h: Library, values: np.ndarray, kind: Hid) -> bytearray:
    """Doubles as elements of another floating-point type."""
    buffer = np.concatenate([values, np.zeros(len(values))])
    h.H5Tconvert(h.predefined("IEEE_F64LE"), kind, len(values), buffer, None, 0)
    return bytearray(buffer.tobytes()[: len(values) * h.H5Tget_size(kind)])
