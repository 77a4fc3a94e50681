"""Raw data in other files: several of them, with offsets, short, missing, or without end."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from cases import case
from hdf5 import UNLIMITED, Hid, Library, both


def data(path: Path, size: int, seed: int) -> str:
    """A file of noise beside the HDF5 file."""
    path.write_bytes(np.random.default_rng(seed).integers(0, 256, size, dtype="u1").tobytes())
    return path.name


def external(h: Library, *parts: tuple[str, int, int]) -> Hid:
    """A creation list with external files: name, offset, size."""
    dcpl = h.dcpl()
    for part in parts:
        h.H5Pset_external(dcpl, *part)
    return dcpl


@case()
def lists(h: Library, path: Path) -> None:
    """One file, several, the same one twice; elements that cross from one to the next."""
    one, two = data(path.with_suffix(".one"), 100, 1), data(path.with_suffix(".two"), 200, 2)
    i32 = h.predefined("STD_I32BE")
    for low, target in both(path):
        with h.file(target, low) as file:
            h.dataset(file, "one", i32, (25,), None, external(h, (one, 0, 100)))
            h.dataset(file, "offset", i32, (20,), None, external(h, (two, 17, 80)))
            h.dataset(file, "two", i32, (5, 10), None, external(h, (one, 3, 90), (two, 50, 110)))
            h.dataset(
                file, "crossing", i32, (10,), None, external(h, (one, 1, 7), (two, 2, 9), (one, 50, 5), (two, 100, 19))
            )
            h.dataset(
                file,
                "one byte each",
                h.predefined("STD_U8LE"),
                (20,),
                None,
                external(h, *((two, i * 3, 1) for i in range(20))),
            )
            h.dataset(file, "more than needed", i32, (5,), None, external(h, (one, 0, 100), (two, 0, 100)))
            kind = h.compound(12, a=(0, i32), b=(6, h.predefined("IEEE_F32LE")))
            h.dataset(file, "compound", kind, (10,), None, external(h, (two, 5, 50), (two, 100, 70)))


@case()
def endless(h: Library, path: Path) -> None:
    """The last file without a size, and a dataset that may grow into it."""
    one, two = data(path.with_suffix(".one"), 40, 3), data(path.with_suffix(".two"), 400, 4)
    i16 = h.predefined("STD_I16LE")
    for low, target in both(path):
        with h.file(target, low) as file:
            h.dataset(file, "endless", i16, (60,), None, external(h, (one, 0, 40), (two, 8, UNLIMITED)))
            space = h.space((10, 3), (UNLIMITED, 3))
            grown = h.dataset(file, "growing", i16, space, None, external(h, (one, 0, 40), (two, 8, UNLIMITED)))
            h.H5Dset_extent(grown, np.array((30, 3), "<u8"))


@case()
def short(h: Library, path: Path) -> None:
    """Files shorter than promised: what is missing reads as zero."""
    one = data(path.with_suffix(".one"), 30, 5)
    u8 = h.predefined("STD_U8LE")
    for low, target in both(path):
        with h.file(target, low) as file:
            dcpl = external(h, (one, 10, 50))
            h.H5Pset_fill_value(dcpl, u8, b"\x2a")
            h.dataset(file, "short", u8, (50,), None, dcpl)
            h.dataset(file, "beyond", u8, (50,), None, external(h, (one, 1_000, 50)))


@case()
def missing(h: Library, path: Path) -> None:
    """A file that is not there: an error, not zeros."""
    with h.file(path) as file:
        h.dataset(file, "missing", h.predefined("STD_U8LE"), (50,), None, external(h, ("nowhere.raw", 0, 50)))
        h.dataset(file, "beside", h.predefined("STD_U8LE"), (5,), b"12345")


@case()
def written(h: Library, path: Path) -> None:
    """Files that libhdf5 wrote itself, in a folder below."""
    (path.parent / "below").mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(path.parent)  # names in the list are taken from the current folder
    try:
        with h.file(path) as file:
            dcpl = external(h, ("below/written.raw", 11, 40), ("below/written2.raw", 0, UNLIMITED))
            h.dataset(file, "d", h.predefined("STD_I32LE"), (30,), np.arange(30, dtype="<i4"), dcpl)
    finally:
        os.chdir(before)
