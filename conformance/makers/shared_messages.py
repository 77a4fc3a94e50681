"""Object header messages kept once for the whole file: in lists and B-trees, of every class that may be shared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from cases import case
from hdf5 import LATEST, Hid, Library

SPACE, TYPE, FILL, PIPELINE, ATTRIBUTE = 1 << 1, 1 << 3, 1 << 5, 1 << 11, 1 << 12
EVERYTHING = SPACE | TYPE | FILL | PIPELINE | ATTRIBUTE


def shared(h: Library, *indexes: tuple[int, int], phases: tuple[int, int] = (50, 40), **more: Any) -> Hid:
    """The creation list of a file with one shared-message index for each (classes, smallest size)."""
    creation = h.with_properties(h.plist("FILE_CREATE"), shared_mesg_nindexes=len(indexes), **more)
    for number, (classes, smallest) in enumerate(indexes):
        h.H5Pset_shared_mesg_index(creation, number, classes, smallest)
    h.H5Pset_shared_mesg_phase_change(creation, *phases)
    return creation


def fill_up(h: Library, file: Hid, count: int, kinds: int) -> None:
    """Datasets whose messages repeat every `kinds`; some are in groups below."""
    numbers = np.arange(12, dtype="<i4")
    i32 = h.predefined("STD_I32LE")
    folder = h.group(file, "folder")
    for i in range(count):
        k = i % kinds
        members = {f"m{j}": i32 for j in range(2 + k)}
        compound = h.packed(**members)
        fill = np.arange(2 + k, dtype="<i4") + k
        dcpl = h.dcpl(chunk=(3, 2 + k % 3), shuffle=(), deflate=1 + k % 9)
        h.H5Pset_fill_value(dcpl, compound, fill)
        space = h.space((4, 2 + k % 3), (4 + k, 50))
        data = np.arange(4 * (2 + k % 3) * (2 + k), dtype="<i4") if i % 2 else None
        dataset = h.dataset(folder if i % 4 == 3 else file, f"d{i:03}", compound, space, data, dcpl)
        h.attribute(dataset, "same everywhere", i32, (12,), numbers)
        h.attribute(dataset, f"units {k}", h.string(20 + k), (3,), b"kelvin and more" * 10)
        h.attribute(dataset, f"own {i}", h.packed(**members), (), np.arange(2 + k, dtype="<i4") * i)


@case(b"SMTB", b"SMLI", b"FRHP")
def lists(h: Library, path: Path) -> None:
    """One index for every class, as a list."""
    with h.file(path, LATEST, fcpl=shared(h, (EVERYTHING, 10))) as file:
        fill_up(h, file, 12, 4)


@case(b"SMTB", b"BTHD")
def trees(h: Library, path: Path) -> None:
    """Indexes as B-trees from the first message on."""
    with h.file(path, LATEST, fcpl=shared(h, (EVERYTHING, 10), phases=(0, 0))) as file:
        fill_up(h, file, 60, 11)


@case(b"SMTB", b"BTHD")
def list_to_tree(h: Library, path: Path) -> None:
    """Lists that outgrow their limit, one index a class."""
    classes = tuple((one, 10) for one in (SPACE, TYPE, FILL, PIPELINE, ATTRIBUTE))
    with h.file(path, LATEST, fcpl=shared(h, *classes, phases=(5, 3))) as file:
        fill_up(h, file, 60, 11)


@case(b"SMTB", b"SMLI")
def old_headers(h: Library, path: Path) -> None:
    """Version 1 object headers with shared messages."""
    with h.file(path, 0, fcpl=shared(h, (EVERYTHING, 10))) as file:
        fill_up(h, file, 12, 4)


@case(b"SMTB")
def small_sizes(h: Library, path: Path) -> None:
    """Shared messages in files of 4-byte addresses and lengths, behind a userblock."""
    with h.file(
        path, LATEST, fcpl=shared(h, (TYPE | SPACE, 20), (ATTRIBUTE, 30), sizes=(4, 4), userblock=1024)
    ) as file:
        fill_up(h, file, 12, 4)


@case(b"SMTB", b"FRHP")
def dense_attributes(h: Library, path: Path) -> None:
    """Shared attributes in dense storage: the records point into the file's heap, not the object's."""
    with h.file(path, LATEST, fcpl=shared(h, (ATTRIBUTE, 20), (TYPE | SPACE, 10), phases=(4, 2))) as file:
        i32 = h.predefined("STD_I32LE")
        dcpl = h.dcpl(attr_phase_change=(0, 0), attr_creation_order=3)
        for i in range(5):
            dataset = h.dataset(file, f"d{i}", i32, (4,), np.arange(4, dtype="<i4"), dcpl)
            for j in range(25):
                h.attribute(dataset, f"a{j:02}", i32, (j + 1,), np.arange(j + 1, dtype="<i4") * (1 if j % 2 else i))
            h.attribute(dataset, "committed", h.string(None), (), None)


@case(b"SMTB")
def large(h: Library, path: Path) -> None:
    """Shared messages too large for the heap's direct blocks."""
    with h.file(path, LATEST, fcpl=shared(h, (EVERYTHING, 10))) as file:
        i32 = h.predefined("STD_I32LE")
        wide = h.packed(**{f"a member with a long name, number {i:04}": i32 for i in range(120)})
        for i in range(3):
            dataset = h.dataset(file, f"d{i}", wide, (2,), np.arange(240, dtype="<i4"))
            h.attribute(dataset, "wide", wide, (1,), np.arange(120, dtype="<i4"))
            h.attribute(dataset, "text", h.string(30_000), (), b"t" * 30_000)


@case(b"SMTB")
def deleted(h: Library, path: Path) -> None:
    """Messages whose last user is gone, and objects that were copied."""
    with h.file(path, LATEST, fcpl=shared(h, (EVERYTHING, 10), phases=(8, 4))) as file:
        fill_up(h, file, 40, 7)
        for i in range(0, 40, 2):
            if i % 4 != 3:
                h.H5Ldelete(file, f"d{i:03}", 0)
        h.H5Ocopy(file, "d001", file, "copy", 0, 0)


@case(b"SMTB")
def committed_and_shared(h: Library, path: Path) -> None:
    """Committed datatypes beside shared ones, in datasets and attributes."""
    with h.file(path, LATEST, fcpl=shared(h, (EVERYTHING, 1))) as file:
        i32 = h.predefined("STD_I32LE")
        kind = h.packed(a=i32, b=h.predefined("IEEE_F64BE"))
        h.H5Tcommit2(file, "type", kind, 0, 0, 0)
        h.attribute(kind, "of the type", i32, (2,), np.arange(2, dtype="<i4"))
        same = h.packed(a=i32, b=h.predefined("IEEE_F64BE"))
        for name, used in (("committed", kind), ("plain", same)):
            dataset = h.dataset(file, name, used, (2,), bytes(range(24)))
            h.attribute(dataset, "committed", kind, (), bytes(range(12)))
            h.attribute(dataset, "plain", same, (), bytes(range(12)))
