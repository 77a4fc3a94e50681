"""Virtual datasets: of blocks, stripes and points, unlimited, with numbered sources, with gaps, of one another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cases import case
from hdf5 import LATEST, SELECT_NOTB, SELECT_OR, UNLIMITED, V110, Hid, Library

I32 = "STD_I32LE"


def source(
    h: Library, path: Path, shape: Sequence[int], first: int, name: str = "data", maximum: Sequence[int] | None = None
) -> str:
    """A file with one dataset of consecutive numbers; its name."""
    with h.file(path) as file:
        numbers(h, file, name, shape, first, maximum)
    return path.name


def numbers(
    h: Library, file: Hid, name: str, shape: Sequence[int], first: int, maximum: Sequence[int] | None = None
) -> None:
    """A dataset of consecutive numbers."""
    values = np.arange(first, first + int(np.prod(shape)), dtype="<i4")
    dcpl = h.dcpl(chunk=[4] * len(shape)) if maximum else h.dcpl()
    h.dataset(file, name, h.predefined(I32), h.space(shape, maximum), values, dcpl)


class Virtual:
    """A creation list that collects mappings."""

    def __init__(self, h: Library, fill: int | None = None) -> None:
        self.h, self.dcpl = h, h.dcpl()
        if fill is not None:
            h.H5Pset_fill_value(self.dcpl, h.predefined(I32), np.array(fill, "<i4"))

    def map(self, here: Hid, file: str, dataset: str, there: Hid) -> None:
        """Maps a selection here to one there."""
        self.h.H5Pset_virtual(self.dcpl, here, file, dataset, there)

    def make(
        self, file: Hid, name: str, shape: Sequence[int], maximum: Sequence[int] | None = None, kind: str = I32
    ) -> Hid:
        """The dataset."""
        h = self.h
        return h.dataset(file, name, h.predefined(kind), h.space(shape, maximum), None, self.dcpl)


@case()
def blocks(h: Library, path: Path) -> None:
    """Rows from several files, stripes that interleave, a selection of many blocks, ranks that differ."""
    files = [source(h, path.with_name(f"blocks_{i}.h5"), (4, 6), i * 100) for i in range(3)]
    for low in (V110, LATEST):
        target = path if low == LATEST else path.with_name("blocks_v110.h5")
        with h.file(target, low) as file:
            rows, stripes, flat, holes = (Virtual(h, -1) for _ in range(4))
            for i, name in enumerate(files):
                rows.map(h.slab(h.space((12, 6)), (4 * i, 0), (4, 6)), name, "data", h.space((4, 6)))
                stripes.map(h.slab(h.space((4, 18)), (0, i), (4, 6), (1, 3)), name, "data", h.space((4, 6)))
                flat.map(h.slab(h.space((80,)), (25 * i,), (24,)), name, "/data", h.space((4, 6)))
                there = h.slab(h.space((4, 6)), (0, 1), (2, 2), (2, 3), (1, 2))
                holes.map(h.slab(h.space((3, 20)), (i, 2), (1, 4), (1, 4), (1, 2)), name, "data", there)
            rows.make(file, "rows", (12, 6))
            stripes.make(file, "stripes", (4, 18))
            flat.make(file, "flat", (80,))
            holes.make(file, "holes", (3, 20))


@case()
def irregular(h: Library, path: Path) -> None:
    """Selections that are no regular hyperslab, on either side."""
    name = source(h, path.with_name("irregular_source.h5"), (10, 10), 1)
    for low in (V110, LATEST):
        target = path if low == LATEST else path.with_name("irregular_v110.h5")
        with h.file(target, low) as file:
            two = h.slab(h.slab(h.space((10, 10)), (0, 0), (3, 4)), (5, 6), (4, 3), how=SELECT_OR)
            ring = h.slab(h.slab(h.space((6, 6)), (0, 0), (6, 6)), (2, 2), (3, 4), how=SELECT_NOTB)
            steps = h.space((40,))
            for i in range(6):
                h.slab(steps, (i * i,), (4,), how=SELECT_OR if i else 0)
            virtual = Virtual(h, -7)
            virtual.map(ring, name, "data", two)
            virtual.make(file, "ring", (6, 6))
            virtual = Virtual(h, -7)
            count = int(h.H5Sget_select_npoints(steps))
            virtual.map(steps, name, "data", first(h, count))
            virtual.make(file, "steps", (40,))


def first(h: Library, count: int) -> Hid:
    """The first `count` elements, ten or more, of a square of ten."""
    space = h.slab(h.space((10, 10)), (0, 0), (count // 10, 10))
    return h.slab(space, (count // 10, 0), (1, count % 10), how=SELECT_OR) if count % 10 else space


@case()
def conversions(h: Library, path: Path) -> None:
    """The virtual type is not that of its sources; fill values likewise."""
    with h.file(path.with_name("conversions_source.h5")) as file:
        for name, kind in (("i16", "STD_I16BE"), ("f64", "IEEE_F64BE"), ("u8", "STD_U8LE")):
            h.dataset(file, name, h.predefined(kind), (5,), np.arange(5, dtype="<i4") * 50, memory=h.predefined(I32))
    with h.file(path, LATEST) as file:
        for kind in ("STD_I32BE", "IEEE_F32LE", "STD_I64LE"):
            virtual = Virtual(h, 9)
            for i, name in enumerate(("i16", "f64", "u8")):
                virtual.map(h.slab(h.space((20,)), (6 * i,), (5,)), "conversions_source.h5", name, h.space((5,)))
            virtual.make(file, kind, (20,), kind=kind)


@case()
def same_file(h: Library, path: Path) -> None:
    """Sources in the file itself, and virtual datasets of virtual datasets, through files too."""
    for low in (V110, LATEST):
        target = path if low == LATEST else path.with_name("same_file_v110.h5")
        with h.file(target, low) as file:
            numbers(h, h.group(file, "g"), "data", (6, 4), 10)
            inner = Virtual(h)
            inner.map(h.slab(h.space((4, 12)), (0, 0), (4, 6)), ".", "/g/data", h.space((6, 4)))
            inner.map(h.slab(h.space((4, 12)), (0, 6), (4, 6)), ".", "g/data", h.space((6, 4)))
            inner.make(file, "first", (4, 12))
            second = Virtual(h)
            second.map(h.slab(h.space((3, 8)), (0, 1), (2, 6)), ".", "first", h.slab(h.space((4, 12)), (1, 3), (2, 6)))
            second.make(file, "second", (3, 8))
        with h.file(target.with_name(f"{target.stem}_outer.h5"), low) as file:
            outer = Virtual(h)
            outer.map(h.space((3, 8)), target.name, "second", h.space((3, 8)))
            outer.make(file, "outer", (3, 8))


@case()
def missing(h: Library, path: Path) -> None:
    """Sources that do not exist (file, dataset) or are smaller or larger than mapped: the fill value fills in."""
    name = source(h, path.with_name("missing_source.h5"), (4, 4), 1)
    with h.file(path, LATEST) as file:
        virtual = Virtual(h, 42)
        for i, (where, what, shape) in enumerate(
            (("nowhere.h5", "data", (4, 4)), (name, "nothing", (4, 4)), (name, "data", (4, 4)))
        ):
            virtual.map(h.slab(h.space((16, 4)), (4 * i, 0), (4, 4)), where, what, h.space(shape))
        virtual.make(file, "some missing", (16, 4))
        for word, extent in (("larger", (6, 5)), ("smaller", (3, 2))):
            virtual = Virtual(h, 42)
            virtual.map(h.space(extent), name, "data", h.space(extent))
            virtual.make(file, word, extent)
        default = Virtual(h)
        default.map(h.slab(h.space((9,)), (2,), (4,)), "nowhere.h5", "data", h.space((4,)))
        default.make(file, "default fill", (9,))


@case()
def unlimited(h: Library, path: Path) -> None:
    """Mappings without end in the virtual and the source space: the extent follows the sources."""
    files = [
        source(h, path.with_name(f"unlimited_{i}.h5"), (rows, 4), 1_000 * i, maximum=(UNLIMITED, 4))
        for i, rows in enumerate((6, 9, 3))
    ]
    for low in (V110, LATEST):
        target = path if low == LATEST else path.with_name("unlimited_v110.h5")
        with h.file(target, low) as file:
            for word, extent in (("zero", (0, 12)), ("ten", (10, 12))):
                virtual = Virtual(h, -1)
                for i, name in enumerate(files):
                    space = h.space((max(extent[0], 10), 12), (UNLIMITED, 12))
                    there = h.slab(h.space((6, 4), (UNLIMITED, 4)), (0, 0), (1, 1), (1, 1), (UNLIMITED, 4))
                    virtual.map(h.slab(space, (0, 4 * i), (1, 1), (1, 1), (UNLIMITED, 4)), name, "data", there)
                virtual.make(file, word, extent, (UNLIMITED, 12))
            virtual = Virtual(h, -1)
            here = h.slab(h.space((4, 4), (UNLIMITED, 4)), (1, 0), (UNLIMITED, 1), (5, 1), (2, 4))
            there = h.slab(h.space((4, 4), (UNLIMITED, 4)), (0, 0), (UNLIMITED, 1), (2, 1), (2, 4))
            virtual.map(here, files[1], "data", there)
            virtual.make(file, "blocks", (4, 4), (UNLIMITED, 4))


@case()
def numbered(h: Library, path: Path) -> None:
    """Names with a block number, in files and datasets; some numbers are missing."""
    for i in (0, 1, 2, 4, 5):
        source(h, path.with_name(f"numbered_{i}.h5"), (3, 4), 100 * i)
    for low in (V110, LATEST):
        target = path if low == LATEST else path.with_name("numbered_v110.h5")
        with h.file(target, low) as file:
            group = h.group(file, "g")
            for i in (0, 1, 3):
                numbers(h, group, f"part {i} of 100%", (2, 4), 1_000 * i)
            for word, name, dataset, rows in (
                ("files", "numbered_%b.h5", "data", 3),
                ("datasets", ".", "/g/part %b of 100%%", 2),
            ):
                virtual = Virtual(h, -1)
                space = h.slab(h.space((rows, 4), (UNLIMITED, 4)), (0, 0), (UNLIMITED, 1), (rows + 1, 1), (rows, 4))
                virtual.map(space, name, dataset, h.space((rows, 4)))
                virtual.make(file, word, (rows, 4), (UNLIMITED, 4))
            fixed = Virtual(h, -1)
            fixed.map(h.space((3, 4)), "numbered_%%.h5", "data", h.space((3, 4)))
            fixed.make(file, "percent", (3, 4))
    source(h, path.with_name("numbered_%.h5"), (3, 4), 7_000)


@case()
def many(h: Library, path: Path) -> None:
    """More mappings than one heap block lists, with names that repeat."""
    names = [source(h, path.with_name(f"many_{i}.h5"), (60,), 100 * i) for i in range(2)]
    for low in (V110, LATEST):
        target = path if low == LATEST else path.with_name("many_v110.h5")
        with h.file(target, low) as file:
            virtual = Virtual(h, 5)
            for i in range(120):
                there = h.slab(h.space((60,)), (i // 2,), (1,))
                virtual.map(h.slab(h.space((250,)), (2 * i,), (1,)), names[i % 2], "data", there)
            virtual.make(file, "d", (250,))


@case()
def no_selection(h: Library, path: Path) -> None:
    """Empty mappings, mappings of everything, a scalar-like extent of one."""
    name = source(h, path.with_name("no_selection_source.h5"), (5,), 3)
    with h.file(path, LATEST) as file:
        everything = Virtual(h)
        everything.map(h.space((5,)), name, "data", h.space((5,)))
        everything.make(file, "all", (5,))
        one = Virtual(h)
        one.map(h.space((1, 1, 1)), name, "data", h.slab(h.space((5,)), (4,), (1,)))
        one.make(file, "one", (1, 1, 1))
