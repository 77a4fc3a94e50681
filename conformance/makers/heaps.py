"""Fractal heaps: filtered, deep, with tiny and huge objects, and with holes."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
from cases import case
from hdf5 import FILTER_DEFLATE, FILTER_FLETCHER32, LATEST, Hid, Library, both

INTS = np.arange(64, dtype="<i4")
# Filters with their client values; those that ask for a dataset's type cannot serve a heap.
FILTERS = {"deflate": (FILTER_DEFLATE, 6), "fletcher32": (FILTER_FLETCHER32,)}


def filtered_group(h: Library, parent: Hid, name: str, *filters: str, **more: int) -> Hid:
    """A group whose fractal heaps pass through filters; everything in it is stored densely."""
    gcpl = h.plist("GROUP_CREATE")
    h.H5Pset_link_phase_change(gcpl, 0, 0)
    h.H5Pset_attr_phase_change(gcpl, 0, 0)
    for one in filters:
        number, *values = FILTERS[one]
        h.H5Pset_filter(gcpl, number, 0, len(values), (ctypes.c_uint * 1)(*values))
    if more:
        h.with_properties(gcpl, **more)
    return h.group(parent, name, gcpl)


def numbers(h: Library, parent: Hid, name: str, count: int, salt: int = 0) -> None:
    """An attribute of `count` 4-byte integers."""
    values = (np.arange(count, dtype="<i4") * 7919 + salt).astype("<i4")
    h.attribute(parent, name, h.predefined("STD_I32LE"), (count,), values)


def dense_attributes(h: Library, parent: Hid, name: str) -> Hid:
    """A dataset whose attributes are all stored densely."""
    dcpl = h.dcpl(attr_phase_change=(0, 0))
    return h.dataset(parent, name, h.predefined("STD_I32LE"), (4,), INTS, dcpl)


@case(b"FRHP", b"BTHD", b"FHIB")
def links_deflate(h: Library, path: Path) -> None:
    """Links in deflated direct blocks; the root is one direct block, then an indirect one."""
    with h.file(path, LATEST) as file:
        for count in (3, 60, 400):
            group = filtered_group(h, file, f"links{count}", "deflate")
            for i in range(count):
                if i % 3:
                    h.H5Lcreate_soft(f"/target/{i}" * (1 + i % 5), group, f"link number {i:05}", 0, 0)
                else:
                    h.group(group, f"group {i:05}")


@case(b"FHIB")
def attributes_beside_filter(h: Library, path: Path) -> None:
    """Attributes of a group with filters: its pipeline is for links, the attributes' heap has none."""
    with h.file(path, LATEST) as file:
        group = filtered_group(h, file, "g", "deflate")
        for i in range(150):
            numbers(h, group, f"a{i:03}", 10 + i % 20, i)


@case(b"FRHP")
def links_filters(h: Library, path: Path) -> None:
    """Heap blocks with other filters, alone and in a row."""
    with h.file(path, LATEST) as file:
        for filters in (("fletcher32",), ("deflate", "fletcher32"), ("fletcher32", "deflate"), ("deflate",) * 3):
            group = filtered_group(h, file, " ".join(filters), *filters)
            for i in range(90):
                h.H5Lcreate_soft(f"/target {i}" * 5, group, f"link {i:03}", 0, 0)


@case(b"FRHP", b"BTHD")
def huge_filtered(h: Library, path: Path) -> None:
    """Huge objects (over the heap's managed limit) of a filtered heap: their ids carry sizes and masks."""
    with h.file(path, LATEST) as file:
        group = filtered_group(h, file, "g", "deflate")
        for i, count in enumerate((10, 1_000, 1_100, 20_000, 40_000)):
            numbers(h, group, f"a{i}", count, i)
        for i in range(30):
            h.H5Lcreate_soft("x" * (3_000 + 300 * i), group, f"soft{i:02}" + "n" * (i * 20), 0, 0)


@case(b"FRHP", b"FHIB")
def huge(h: Library, path: Path) -> None:
    """Attributes on both sides of 64 KiB, and of the largest managed object."""
    with h.file(path, LATEST) as file:
        dataset = dense_attributes(h, file, "d")
        for count in (1, 1_000, 1_010, 1_020, 1_030, 16_370, 16_384, 16_400, 70_000):
            numbers(h, dataset, f"n{count}", count)
        h.attribute(dataset, "text", h.string(100_000), (), b"long text " * 10_000)


@case(b"FRHP")
def huge_indirect(h: Library, path: Path) -> None:
    """Links too long for their heap; addresses of 8 bytes do not fit a heap id, which names a B-tree record."""
    with h.file(path, LATEST) as file:
        group = filtered_group(h, file, "g")
        for i in range(12):
            h.H5Lcreate_soft("t" * (5_000 + i), group, f"long{i:02}", 0, 0)
            h.H5Lcreate_external("e" * 4_000 + f"{i}.h5", f"/inside/{i}", group, f"ext{i:02}", 0, 0)
        for i in range(12):
            h.group(group, f"{i:02}" + "group name " * 500)


@case(b"FRHP")
def huge_direct(h: Library, path: Path) -> None:
    """Small addresses and lengths: the heap id of a huge object is its place in the file."""
    for sizes in ((2, 4), (4, 4)):
        target = path if sizes == (2, 4) else path.with_name(f"huge_direct_{sizes[0]}_{sizes[1]}.h5")
        with h.file(target, LATEST, sizes=sizes) as file:
            group = filtered_group(h, file, "g")
            for i in range(4):
                h.H5Lcreate_soft("t" * (4_500 + i), group, f"long{i:02}", 0, 0)
                h.H5Lcreate_soft("t" * (4 + i), group, f"short{i:02}", 0, 0)
            dataset = dense_attributes(h, file, "d")
            numbers(h, dataset, "small", 10)
            numbers(h, dataset, "large", 2_000)


@case(b"FRHP", b"FHIB")
def deep(h: Library, path: Path) -> None:
    """A heap of several doubling rows, beyond the direct ones: indirect blocks below the root."""
    with h.file(path, LATEST) as file:
        dataset = dense_attributes(h, file, "d")
        for i in range(260):
            numbers(h, dataset, f"attribute {i:04}", 500 + i % 400, i)


@case(b"FRHP", b"FHIB")
def deep_links(h: Library, path: Path) -> None:
    """Thousands of links: a name index three levels deep, a heap of many rows."""
    with h.file(path, LATEST) as file:
        gcpl = h.plist("GROUP_CREATE")
        h.H5Pset_link_creation_order(gcpl, 3)
        group = h.group(file, "g", gcpl)
        for i in range(3_000):
            h.H5Lcreate_soft(f"/to/{i}", group, f"{i * 2654435761 % 100_003:06} {'pad' * (i % 9)}", 0, 0)


@case(b"FRHP")
def holes(h: Library, path: Path) -> None:
    """Links and attributes deleted from a dense group: free sections, merged index nodes, reused space."""
    with h.file(path, LATEST) as file:
        group = filtered_group(h, file, "g")
        for i in range(500):
            h.H5Lcreate_soft(f"/to/{i}" * 3, group, f"link{i:04}", 0, 0)
            if i < 100:
                numbers(h, group, f"a{i:03}", 30, i)
        for i in range(0, 500, 2):
            h.H5Ldelete(group, f"link{i:04}", 0)
        for i in range(0, 100, 3):
            h.H5Adelete(group, f"a{i:03}")
        for i in range(40):
            h.H5Lcreate_soft("again", group, f"new{i}", 0, 0)
            numbers(h, group, f"new{i}", 3, i)


@case(b"FRHP")
def emptied(h: Library, path: Path) -> None:
    """Dense storage whose every entry was deleted, and one that went back to compact storage."""
    with h.file(path, LATEST) as file:
        gcpl = h.plist("GROUP_CREATE")
        for name, (largest, smallest) in {"empty": (0, 0), "compact": (8, 6)}.items():
            h.H5Pset_link_phase_change(gcpl, largest, smallest)
            h.H5Pset_attr_phase_change(gcpl, largest, smallest)
            group = h.group(file, name, gcpl)
            for i in range(20):
                h.H5Lcreate_soft("x", group, f"l{i}", 0, 0)
                numbers(h, group, f"a{i}", 3, i)
            for i in range(20 if name == "empty" else 17):
                h.H5Ldelete(group, f"l{i}", 0)
                h.H5Adelete(group, f"a{i}")
        rest = filtered_group(h, file, "one left")
        for i in range(50):
            numbers(h, rest, f"a{i}", 100, i)
        for i in range(49):
            h.H5Adelete(rest, f"a{i}")


@case(b"FRHP", b"BTHD")
def creation_order(h: Library, path: Path) -> None:
    """Dense attributes and links with both indexes; the order of creation is not that of names."""
    with h.file(path, LATEST) as file:
        gcpl = h.plist("GROUP_CREATE")
        h.H5Pset_link_creation_order(gcpl, 3)
        h.H5Pset_attr_creation_order(gcpl, 3)
        h.H5Pset_link_phase_change(gcpl, 2, 1)
        h.H5Pset_attr_phase_change(gcpl, 2, 1)
        group = h.group(file, "g", gcpl)
        for i in range(120):
            name = f"{(i * 37) % 120:03}"
            h.group(group, f"z{name}")
            numbers(h, group, f"z{name}", 5, i)


@case()
def names_alike(h: Library, path: Path) -> None:
    """Names with odd bytes, in compact, dense and symbol-table groups."""
    names = [b" ", b".hidden", b"a b", "\u00e9t\u00e9".encode(), "\U0001f409".encode(), b"\xff\xfe raw", b"tab\there"]
    names += [b"q\"uote'", b"back\\slash", b"new\nline", b"\x1b[31mred", b"n" * 300]
    for low, target in both(path):
        with h.file(target, low) as file:
            for count in (len(names), 40):
                group = h.group(file, f"g{count}")
                for i in range(count):
                    name = names[i] if i < len(names) else f"n{i}".encode()
                    h.H5Lcreate_soft("x", group, name.decode("utf-8", "surrogateescape"), 0, 0)
                    h.attribute(group, name.decode("utf-8", "surrogateescape"), h.predefined("STD_I8LE"), (), b"\x05")
