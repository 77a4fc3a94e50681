"""References: old ones to objects and regions, new ones to objects, regions and attributes, here and in other files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from cases import case
from hdf5 import LATEST, SELECT_NOTB, SELECT_OR, SELECT_SET, Arena, Hid, Library, both

OBJECT, REGION = 0, 1
NULL_OLD, NULL_NEW = bytes(8), bytes(64)


def targets(h: Library, file: Hid) -> None:
    """What references name: a group, datasets of some ranks, a datatype, attributes."""
    group = h.group(file, "group")
    cube = h.dataset(file, "cube", h.predefined("STD_I16LE"), (6, 7, 8), np.arange(336, dtype="<i2"))
    h.dataset(group, "line", h.predefined("STD_I16LE"), (50,), np.arange(50, dtype="<i2"), h.dcpl(chunk=(8,)))
    h.dataset(group, "scalar", h.predefined("STD_I16LE"), (), b"\1\0")
    for owner in (group, cube):
        h.attribute(owner, "attribute", h.predefined("STD_I8LE"), (2,), b"\1\2")
    h.H5Tcommit2(group, "type", h.string(7), 0, 0, 0)


def regions(h: Library) -> Iterator[tuple[str, str, Hid]]:
    """Selections of each kind."""
    cube, line = (6, 7, 8), (50,)
    yield "all", "cube", h.space(cube)
    yield "one block", "cube", h.slab(h.space(cube), (1, 2, 3), (2, 3, 4))
    yield "strides", "cube", h.slab(h.space(cube), (0, 1, 0), (3, 2, 2), (2, 3, 4), (1, 2, 3))
    yield "two blocks", "cube", h.slab(h.slab(h.space(cube), (0, 0, 0), (2, 2, 2)), (3, 1, 4), (3, 3, 3), how=SELECT_OR)
    yield "hole", "cube", h.slab(h.slab(h.space(cube), (0, 0, 0), (6, 7, 8)), (2, 2, 2), (2, 2, 2), how=SELECT_NOTB)
    points = h.space(cube)
    h.H5Sselect_elements(points, SELECT_SET, 4, np.array([(5, 6, 7), (0, 0, 0), (3, 1, 4), (0, 0, 0)], "<u8"))
    yield "points", "cube", points
    none = h.space(cube)
    h.H5Sselect_none(none)
    yield "none", "cube", none
    yield "line", "group/line", h.slab(h.space(line), (3,), (5,), (9,), (2,))
    many = h.space(line)
    for i in range(7):
        h.slab(many, (i * i,), (1 + i % 2,), how=SELECT_OR if i else SELECT_SET)
    yield "squares", "group/line", many
    yield "scalar", "group/scalar", h.space(())


def old(h: Library, file: Hid, name: str, kind: int = OBJECT, space: Hid = -1) -> bytes:
    """An old reference, as in memory."""
    buffer = np.zeros(8 if kind == OBJECT else 12, "u1")
    h.H5Rcreate(buffer, file, name, kind, space)
    return buffer.tobytes()


def new(h: Library, file: Hid, name: str, attribute: str | None = None, space: Hid | None = None) -> bytes:
    """A new reference, as in memory."""
    buffer = np.zeros(64, "u1")
    if attribute is not None:
        h.H5Rcreate_attr(file, name, attribute, 0, buffer)
    elif space is not None:
        h.H5Rcreate_region(file, name, space, 0, buffer)
    else:
        h.H5Rcreate_object(file, name, 0, buffer)
    return buffer.tobytes()


def release(h: Library, references: list[bytes]) -> None:
    """Lets go of new references, which keep their file open."""
    for reference in references:
        h.H5Rdestroy(np.frombuffer(bytearray(reference), "u1"))


def everywhere(h: Library, file: Hid, name: str, kind: Hid, references: list[bytes]) -> None:
    """References in datasets of each layout, in attributes, compounds, arrays and sequences."""
    data, count = b"".join(references), len(references)
    arena = Arena()
    group = h.group(file, name)
    dataset = h.dataset(group, "contiguous", kind, (count,), data)
    h.attribute(dataset, "attribute", kind, (count,), data)
    h.attribute(dataset, "scalar", kind, (), references[0])
    h.dataset(group, "compact", kind, (count,), data, h.dcpl(layout=0))
    h.dataset(group, "chunked", kind, (count,), data, h.dcpl(chunk=(3,), shuffle=(), deflate=6))
    h.dataset(group, "unwritten", kind, (3,), None, h.dcpl(chunk=(2,)))
    pair = h.packed(n=h.predefined("STD_I32BE"), r=kind)
    h.dataset(group, "compound", pair, (count,), b"".join(bytes([0, 0, 1, i]) + r for i, r in enumerate(references)))
    h.dataset(group, "array", h.array_of(kind, count), (1,), data)
    cells = b"".join(arena.sequence(n, data) for n in (1, 0, count))
    listed = h.dataset(group, "list", h.H5Tvlen_create(kind), (3,), cells)
    if kind != h.predefined("STD_REF_DSETREG"):  # h5py crashes on an attribute of lists of regions
        h.attribute(listed, "list", h.H5Tvlen_create(kind), (3,), cells)


@case()
def objects(h: Library, path: Path) -> None:
    """Old object references, null ones among them; behind a userblock too."""
    for low, target in both(path):
        with h.file(target, low, userblock=0 if low else 512) as file:
            targets(h, file)
            names = ["/", "group", "cube", "group/line", "group/type"]
            everywhere(
                h, file, "objects", h.predefined("STD_REF_OBJ"), [*(old(h, file, name) for name in names), NULL_OLD]
            )


@case(b"GCOL")
def old_regions(h: Library, path: Path) -> None:
    """Old region references: blocks, strides, unions, holes, points, all and nothing."""
    for low, target in both(path):
        with h.file(target, low) as file:
            targets(h, file)
            made = [old(h, file, name, REGION, space) for _, name, space in regions(h)]
            everywhere(h, file, "regions", h.predefined("STD_REF_DSETREG"), [*made, bytes(12)])


@case()
def new_objects(h: Library, path: Path) -> None:
    """New references to objects."""
    for low, target in both(path):
        with h.file(target, low) as file:
            targets(h, file)
            names = ["/", "group", "cube", "group/line", "group/type"]
            everywhere(h, file, "objects", h.predefined("STD_REF"), made := [new(h, file, name) for name in names])
            release(h, made)


@case()
def new_regions(h: Library, path: Path) -> None:
    """New references to regions: selections of versions 1 to 3."""
    for low in (0, 2, LATEST):
        target = path if low == LATEST else path.with_name(f"new_regions_{low}.h5")
        with h.file(target, low) as file:
            targets(h, file)
            made = [new(h, file, name, space=space) for _, name, space in regions(h)]
            everywhere(h, file, "regions", h.predefined("STD_REF"), made)
            release(h, made)


@case()
def new_attributes(h: Library, path: Path) -> None:
    """New references to attributes, mixed with others."""
    for low, target in both(path):
        with h.file(target, low) as file:
            targets(h, file)
            made = [new(h, file, "cube", "attribute"), new(h, file, "group", "attribute"), new(h, file, "group")]
            made.append(new(h, file, "cube", space=h.slab(h.space((6, 7, 8)), (0, 0, 0), (1, 1, 1))))
            everywhere(h, file, "mixed", h.predefined("STD_REF"), made)
            release(h, made)


@case()
def new_external(h: Library, path: Path) -> None:
    """New references into another file."""
    other = path.with_name("new_external_target.h5")
    with h.file(other, LATEST) as there, h.file(path, LATEST) as file:
        targets(h, there)
        made = [new(h, there, "group"), new(h, there, "cube", "attribute")]
        made.append(new(h, there, "cube", space=h.slab(h.space((6, 7, 8)), (1, 1, 1), (2, 2, 2))))
        data = b"".join(made)
        dataset = h.dataset(file, "references", h.predefined("STD_REF"), (3,), data)
        h.attribute(dataset, "references", h.predefined("STD_REF"), (3,), data)
        release(h, made)


@case()
def dangling(h: Library, path: Path) -> None:
    """References to objects that were deleted since, and to addresses that never held one."""
    with h.file(path, LATEST) as file:
        targets(h, file)
        data = old(h, file, "cube") + old(h, file, "group")
        h.dataset(file, "deleted", h.predefined("STD_REF_OBJ"), (2,), data)
        h.H5Ldelete(file, "cube", 0)
        wild = np.array([1, 48, 1 << 40, (1 << 64) - 1], "<u8")
        h.dataset(file, "wild", h.predefined("STD_REF_OBJ"), (4,), wild)
