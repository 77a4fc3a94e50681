"""Every index of chunks, whole, paged, filtered, sparse, shrunk and regrown; edges that are left unfiltered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cases import case
from hdf5 import ALLOC_EARLY, LATEST, UNLIMITED, V110, Hid, Library

# H5D_chunk_index_t
BTREE1, SINGLE, IMPLICIT, FIXED, EXTENSIBLE, BTREE2 = range(6)
FILTERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deflate": {"deflate": 6},
    "shuffled": {"shuffle": (), "deflate": 1, "fletcher32": ()},
}
TWO_FILTERS: dict[str, dict[str, Any]] = {"plain": {}, "deflate": {"deflate": 1}}
PARTIAL = 2  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS


def numbers(shape: Sequence[int], kind: str = "<i2") -> Any:
    """Values that differ from place to place but compress."""
    return (np.indices(shape).sum(axis=0) * 3 % 1_000).astype(kind)


def made(
    h: Library,
    file: Hid,
    name: str,
    index: int,
    shape: Sequence[int],
    chunk: Sequence[int],
    maximum: Sequence[int] | None = None,
    fill: bool = True,
    **properties: Any,
) -> Hid:
    """A dataset of 2-byte integers whose chunks must be found through `index`."""
    dcpl = h.dcpl(chunk=chunk, **properties)
    i16 = h.predefined("STD_I16LE")
    h.H5Pset_fill_value(dcpl, i16, b"\x2a\0")
    dataset = h.dataset(file, name, i16, h.space(shape, maximum), numbers(shape) if fill else None, dcpl)
    check_index(h, dataset, index)
    return dataset


def check_index(h: Library, dataset: Hid, index: int) -> None:
    """Fails when libhdf5 chose another index."""
    found = np.zeros(1, "i4")
    h.H5Dget_chunk_index_type(dataset, found)
    if found[0] != index:
        raise AssertionError(f"chunk index {found[0]}, not {index}")


def scattered(h: Library, dataset: Hid, shape: Sequence[int], block: Sequence[int], step: int) -> None:
    """Writes every `step`-th block, so that most chunks stay missing."""
    counts = [max(1, length // size) for length, size in zip(shape, block, strict=True)]
    for position in range(0, int(np.prod(counts)), step):
        start = [int(i) * size for i, size in zip(np.unravel_index(position, counts), block, strict=True)]
        extent = [min(size, length - at) for at, size, length in zip(start, block, shape, strict=True)]
        values = np.full(extent, position % 1_000, "<i2")
        h.H5Dwrite(
            dataset, h.predefined("STD_I16LE"), h.space(extent), h.slab(h.space(shape), start, extent), 0, values
        )


@case(b"FAHD", b"FADB", b"EAHD", b"EAIB", b"BTHD")
def each(h: Library, path: Path) -> None:
    """Each index in layouts 4 and 5, with and without filters; edges fall within chunks."""
    for low in (V110, LATEST):
        target = path if low == LATEST else path.with_name("each_v4.h5")
        with h.file(target, low) as file:
            for word, filters in FILTERS.items():
                made(h, file, f"single {word}", SINGLE, (5, 7), (5, 7), **filters)
                made(h, file, f"fixed {word}", FIXED, (11, 9), (4, 4), **filters)
                made(h, file, f"fixed limit {word}", FIXED, (11, 9), (4, 4), (40, 9), **filters)
                made(h, file, f"extensible {word}", EXTENSIBLE, (11, 9), (4, 4), (UNLIMITED, 9), **filters)
                made(h, file, f"extensible second {word}", EXTENSIBLE, (11, 9), (4, 4), (20, UNLIMITED), **filters)
                made(h, file, f"extensible 3d {word}", EXTENSIBLE, (5, 6, 7), (2, 4, 3), (9, UNLIMITED, 8), **filters)
                made(h, file, f"tree {word}", BTREE2, (11, 9), (4, 4), (UNLIMITED, UNLIMITED), **filters)
            made(h, file, "implicit", IMPLICIT, (11, 9), (4, 4), alloc_time=ALLOC_EARLY)
            made(h, file, "implicit limit", IMPLICIT, (11, 9), (4, 4), (20, 30), alloc_time=ALLOC_EARLY)


@case(b"TREE")
def old_trees(h: Library, path: Path) -> None:
    """Version 1 B-trees: filtered, several levels deep, with other node sizes."""
    with h.file(path, istore_k=2) as file:
        for word, filters in FILTERS.items():
            made(h, file, f"tree {word}", BTREE1, (30, 41), (2, 3), (UNLIMITED, UNLIMITED), **filters)
            sparse = made(h, file, f"sparse {word}", BTREE1, (300, 410), (2, 3), fill=False, **filters)
            scattered(h, sparse, (300, 410), (2, 3), 401)


@case(b"FAHD", b"EAHD", b"BTHD")
def empty(h: Library, path: Path) -> None:
    """No chunk written: indexes that do not exist yet, extents of zero, allocation at once."""
    with h.file(path, LATEST) as file:
        for word, filters in FILTERS.items():
            for name, time in (("late", 2), ("early", 1), ("incremental", 3)):
                more = filters | {"alloc_time": time, "fill": False}
                single = SINGLE
                made(h, file, f"single {word} {name}", single, (4,), (4,), **more)
                made(h, file, f"extensible {word} {name}", EXTENSIBLE, (9,), (4,), (UNLIMITED,), **more)
                made(h, file, f"zero {word} {name}", EXTENSIBLE, (0,), (4,), (UNLIMITED,), **more)
                made(h, file, f"tree {word} {name}", BTREE2, (9, 9), (4, 4), (UNLIMITED, UNLIMITED), **more)
                made(h, file, f"zero tree {word} {name}", BTREE2, (0, 9), (4, 4), (UNLIMITED, UNLIMITED), **more)
                if word != "plain" or name != "early":
                    made(h, file, f"fixed {word} {name}", FIXED, (9,), (4,), **more)


@case(b"FADB")
def fixed_pages(h: Library, path: Path) -> None:
    """Fixed arrays of more than 1,024 chunks: pages, some never written, the last one short."""
    with h.file(path, LATEST) as file:
        for word, filters in TWO_FILTERS.items():
            made(h, file, f"whole {word}", FIXED, (2_500,), (1,), **filters)
            sparse = made(h, file, f"sparse {word}", FIXED, (9_000,), (2,), fill=False, **filters)
            scattered(h, sparse, (9_000,), (2,), 1_700)
            flat = made(h, file, f"two dimensions {word}", FIXED, (70, 50), (1, 2), fill=False, **filters)
            scattered(h, flat, (70, 50), (1, 2), 331)


@case(b"EASB", b"EADB")
def extensible_pages(h: Library, path: Path) -> None:
    """Extensible arrays with super blocks and data blocks of more than 1,024 elements, which have pages."""
    with h.file(path, LATEST) as file:
        for word, filters in TWO_FILTERS.items():
            made(h, file, f"whole {word}", EXTENSIBLE, (4_000,), (1,), (UNLIMITED,), **filters)
            sparse = made(h, file, f"sparse {word}", EXTENSIBLE, (135_000,), (1,), (UNLIMITED,), fill=False, **filters)
            for at in (0, 3, 4, 19, 20, 500, 3_000, 30_001, 131_059, 134_999):
                value = np.full(1, at % 1_000, "<i2")
                place = h.slab(h.space((135_000,)), (at,), (1,))
                h.H5Dwrite(sparse, h.predefined("STD_I16LE"), h.space((1,)), place, 0, value)


@case(b"EAHD")
def extensible_swizzled(h: Library, path: Path) -> None:
    """The unlimited dimension is not the first: elements are ordered as if it were."""
    with h.file(path, LATEST) as file:
        for word, filters in FILTERS.items():
            for place in range(3):
                shape, maximum = [4, 5, 3], [6, 9, 5]
                shape[place], maximum[place] = 40, UNLIMITED
                made(h, file, f"{word} {place}", EXTENSIBLE, shape, (2, 2, 2), maximum, **filters)
                dataset = made(
                    h, file, f"{word} {place} sparse", EXTENSIBLE, shape, (2, 2, 2), maximum, fill=False, **filters
                )
                scattered(h, dataset, shape, (2, 2, 2), 11)


@case(b"BTHD", b"BTIN", b"BTLF")
def deep_trees(h: Library, path: Path) -> None:
    """Version 2 B-trees of two levels and more."""
    with h.file(path, LATEST) as file:
        for word, filters in TWO_FILTERS.items():
            made(h, file, f"whole {word}", BTREE2, (75, 75), (1, 1), (UNLIMITED, UNLIMITED), **filters)
            sparse = made(
                h, file, f"sparse {word}", BTREE2, (700, 700), (7, 9), (UNLIMITED, UNLIMITED), fill=False, **filters
            )
            scattered(h, sparse, (700, 700), (7, 9), 37)


@case()
def unfiltered_edges(h: Library, path: Path) -> None:
    """Partial chunks at the edges are stored without filters, whole ones with."""
    with h.file(path, LATEST) as file:
        for word, filters in FILTERS.items():
            more = {**filters, "chunk_opts": PARTIAL}
            made(h, file, f"single {word}", SINGLE, (5, 7), (5, 7), **more)
            made(h, file, f"fixed {word}", FIXED, (11, 9), (4, 4), **more)
            made(h, file, f"extensible {word}", EXTENSIBLE, (11, 9), (4, 4), (UNLIMITED, 9), **more)
            made(h, file, f"tree {word}", BTREE2, (11, 9), (4, 4), (UNLIMITED, UNLIMITED), **more)
            grown = made(h, file, f"grown {word}", EXTENSIBLE, (10, 9), (4, 4), (UNLIMITED, 20), **more)
            h.H5Dset_extent(grown, (14).to_bytes(8, "little") + (13).to_bytes(8, "little"))
            shrunk = made(h, file, f"shrunk {word}", BTREE2, (12, 12), (4, 4), (UNLIMITED, UNLIMITED), **more)
            h.H5Dset_extent(shrunk, (7).to_bytes(8, "little") + (10).to_bytes(8, "little"))


@case()
def resized(h: Library, path: Path) -> None:
    """Shrunk, regrown, and shrunk to nothing: what was cut off comes back as the fill value."""
    steps = {
        "shrunk": [(7, 5)],
        "regrown": [(7, 5), (15, 13)],
        "emptied": [(0, 0), (9, 9)],
        "thin": [(11, 1), (1, 9), (12, 12)],
    }
    for low in (0, LATEST):
        target = path if low else path.with_name("resized_old.h5")
        with h.file(target, low) as file:
            for word, filters in FILTERS.items():
                for name, extents in steps.items():
                    indexes = {(UNLIMITED, UNLIMITED): BTREE2, (UNLIMITED, 20): EXTENSIBLE, (20, 30): FIXED}
                    for maximum, index in indexes.items():
                        index = index if low else BTREE1
                        dataset = made(
                            h, file, f"{name} {word} {index} {maximum[1]}", index, (11, 9), (4, 4), maximum, **filters
                        )
                        for extent in extents:
                            h.H5Dset_extent(dataset, np.array(extent, "<u8"))


@case()
def chunks_beyond_extent(h: Library, path: Path) -> None:
    """Chunks larger than the dataset, chunks of one element, chunks as long as a row."""
    for low in (0, LATEST):
        target = path if low else path.with_name("chunks_beyond_extent_old.h5")
        with h.file(target, low) as file:
            for word, filters in FILTERS.items():
                for name, chunk in {"larger": (100, 20), "one": (1, 1), "row": (1, 9), "column": (11, 1)}.items():
                    dcpl = h.dcpl(chunk=chunk, **filters)
                    i16 = h.predefined("STD_I16BE")
                    h.dataset(
                        file, f"{name} {word}", i16, h.space((11, 9), (UNLIMITED, 40)), numbers((11, 9), ">i2"), dcpl
                    )
