"""Whole files: superblocks, sizes, userblocks, pages, free space, cache images, drivers, and files left open."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
from cases import case
from hdf5 import LATEST, RDWR, UNLIMITED, V110, Hid, Library

FSM_AGGR, PAGE, AGGR, NO_STRATEGY = range(4)


class ImageConfig(ctypes.Structure):
    """`H5AC_cache_image_config_t`."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("generate", ctypes.c_bool),
        ("resize", ctypes.c_bool),
        ("ageout", ctypes.c_int),
    ]


def content(h: Library, file: Hid, count: int = 5, largest: int = UNLIMITED) -> None:
    """Something of everything that has addresses and lengths."""
    i16 = h.predefined("STD_I16BE")
    for i in range(count):
        group = h.group(file, f"group {i}")
        h.dataset(group, "contiguous", i16, (4, 5), np.arange(20, dtype=">i2") + i)
        h.dataset(
            group,
            "chunked",
            i16,
            h.space((9, 5), (largest, 5)),
            np.arange(45, dtype=">i2"),
            h.dcpl(chunk=(2, 2), deflate=6),
        )
        h.dataset(
            group, "tree", i16, h.space((5, 5), (UNLIMITED,) * 2), np.arange(25, dtype=">i2"), h.dcpl(chunk=(2, 2))
        )
        h.dataset(group, "fixed", i16, (9, 5), np.arange(45, dtype=">i2"), h.dcpl(chunk=(2, 2), shuffle=()))
        text = h.dataset(group, "text", h.string(None), (2,), ctypes.pointer((ctypes.c_char_p * 2)(b"one", b"another")))
        for j in range(3 + 4 * i):
            h.attribute(text, f"attribute {j}", i16, (j,), np.arange(j, dtype=">i2"))
        h.H5Lcreate_soft("contiguous", group, "soft", 0, 0)


@case()
def sizes(h: Library, path: Path) -> None:
    """Addresses and lengths of 2 to 16 bytes, in old and new formats, as far as libhdf5 survives them."""
    for low in (0, V110, LATEST):
        for address in (2, 4, 8, 16) if low else (2, 4, 8):
            for length in (2, 4, 8):
                first = (low, address, length) == (V110, 4, 4)
                target = path if first else path.with_name(f"sizes_{low}_{address}_{length}.h5")
                with h.file(target, low, sizes=(address, length)) as file:
                    # libhdf5 does not know "unlimited" again when lengths are short, and misses the index's dimension.
                    content(h, file, 1, UNLIMITED if length == 8 else 60)


@case()
def userblocks(h: Library, path: Path) -> None:
    """Userblocks of 512 bytes to 32 KiB, filled, in old and new formats."""
    for low in (0, LATEST):
        for size in (512, 1024, 4096, 32768):
            target = path if (low, size) == (LATEST, 512) else path.with_name(f"userblocks_{low}_{size}.h5")
            with h.file(target, low, userblock=size) as file:
                content(h, file, 1)
            with target.open("r+b") as raw:
                raw.write(b"user data, and no signature " * (size // 28))


@case()
def shifted(h: Library, path: Path) -> None:
    """A file with bytes put before and after it: its base address is not where it stands."""
    for low in (0, LATEST):
        target = path if low else path.with_name("shifted_old.h5")
        with h.file(target, low) as file:
            content(h, file, 1)
        target.write_bytes(b"\x89HDF is no signature".ljust(1024, b".") + target.read_bytes() + b"behind the end")


@case()
def bounds(h: Library, path: Path) -> None:
    """Each pair of low and high bounds that the library has."""
    for low in range(LATEST + 1):
        for high in range(max(low, 1), LATEST + 1):
            target = path if (low, high) == (LATEST, LATEST) else path.with_name(f"bounds_{low}_{high}.h5")
            with h.file(target, low, high) as file:
                content(h, file, 1)


@case()
def trees(h: Library, path: Path) -> None:
    """Ranks of B-tree nodes other than usual, for groups and chunks, in versions 0 to 3 of the superblock."""
    for low in (0, 2, LATEST):
        target = path if low == 0 else path.with_name(f"trees_{low}.h5")
        with h.file(target, low, sym_k=(3, 2), istore_k=3) as file:
            content(h, file, 2)


@case()
def space_strategies(h: Library, path: Path) -> None:
    """Every way to manage free space, kept with the file or not, with space that was freed."""
    for strategy, word in ((FSM_AGGR, "fsm"), (PAGE, "page"), (AGGR, "aggr"), (NO_STRATEGY, "none")):
        for persist in (0, 1):
            if persist and strategy > PAGE:
                continue
            target = path if (word, persist) == ("page", 1) else path.with_name(f"space_strategies_{word}_{persist}.h5")
            more = {"file_space_page_size": 1024} if strategy == PAGE else {}
            with h.file(target, LATEST if persist else 0, file_space_strategy=(strategy, persist, 1), **more) as file:
                content(h, file, 2)
                h.H5Ldelete(file, "group 0", 0)
            with h.reopened(target) as file:
                h.H5Ldelete(file, "group 1/chunked", 0)
                content(h, h.group(file, "second"), 1)


@case(b"FSHD")
def free_space(h: Library, path: Path) -> None:
    """Much persistent free space, in many sections."""
    with h.file(path, LATEST, file_space_strategy=(FSM_AGGR, 1, 1)) as file:
        u8 = h.predefined("STD_U8LE")
        for i in range(100):
            h.dataset(file, f"d{i}", u8, (50 + i,), bytes(50 + i))
        for i in range(0, 100, 2):
            h.H5Ldelete(file, f"d{i}", 0)


@case(b"MDCI")
def cache_image(h: Library, path: Path) -> None:
    """The metadata cache's image: headers, heaps and trees exist only within it."""
    for word, count in (("", 0), ("_new", 1), ("_large", 5)):
        fapl = h.plist("FILE_ACCESS")
        h.H5Pset_mdc_image_config(fapl, ctypes.byref(ImageConfig(1, True, False, -1)))
        with h.file(path.with_name(f"cache_image{word}.h5"), V110, fapl=fapl) as file:
            content(h, file, count)
            for i in range(10):
                group = h.group(file, f"plain {i}")
                h.dataset(group, "d", h.predefined("STD_I32BE"), (5,), np.arange(5, dtype=">i4"))
                h.attribute(group, "a", h.string(5), (), b"text")


@case()
def aligned(h: Library, path: Path) -> None:
    """Objects at multiples of a block, with gaps between them."""
    fapl = h.with_properties(h.plist("FILE_ACCESS"), alignment=(100, 1024), meta_block_size=512, sieve_buf_size=0)
    with h.file(path, LATEST, fapl=fapl) as file:
        content(h, file, 2)


@case()
def left_open(h: Library, path: Path) -> None:
    """Copied while open: flags say that a writer is at work; libhdf5 refuses these."""
    for word, swmr in (("writing", False), ("swmr", True)):
        target = path if swmr else path.with_name(f"left_open_{word}.h5")
        work = target.with_suffix(".work")
        with h.file(work, LATEST) as file:
            content(h, file, 1)
        fapl = h.with_properties(h.plist("FILE_ACCESS"), libver_bounds=(LATEST, LATEST), fclose_degree=3)
        file = h.H5Fopen(str(work), RDWR, fapl)
        if swmr:
            h.H5Fclose(file)
            file = h.H5Fopen(str(work), RDWR | 0x20, fapl)  # H5F_ACC_SWMR_WRITE
        h.H5Fflush(file, 1)
        shutil.copyfile(work, target)
        h.H5Fclose(file)
        work.unlink()


@case()
def cut_short(h: Library, path: Path) -> None:
    """Files without their last bytes; libhdf5 refuses these."""
    for low in (0, LATEST):
        target = path if low else path.with_name("cut_short_old.h5")
        with h.file(target, low) as file:
            content(h, file, 1)
        target.write_bytes(target.read_bytes()[:-100])


@case()
def drivers(h: Library, path: Path) -> None:
    """The first members of a family and of a split file, which need their drivers."""
    family = h.plist("FILE_ACCESS")
    h.H5Pset_fapl_family(family, 4096, 0)
    with h.file(path.with_name("drivers_family_%05d.h5"), 0, fapl=family) as file:
        content(h, file, 2)
    split = h.plist("FILE_ACCESS")
    h.H5Pset_fapl_split(split, "-meta.h5", 0, "-raw.h5", 0)
    with h.file(path.with_name("drivers_split"), 0, fapl=split) as file:
        content(h, file, 2)
    with h.file(path, 0) as file:
        content(h, file, 1)


@case()
def empty(h: Library, path: Path) -> None:
    """Nothing but a root group, for each low bound."""
    for low in range(LATEST + 1):
        with h.file(path if low == LATEST else path.with_name(f"empty_{low}.h5"), low):
            pass


@case()
def root_properties(h: Library, path: Path) -> None:
    """Properties of the root group: order of creation, phases, and attributes in dense storage."""
    with h.file(
        path, LATEST, link_creation_order=3, attr_creation_order=3, link_phase_change=(0, 0), attr_phase_change=(0, 0)
    ) as file:
        for letter in "zyxabc":
            h.group(file, letter)
            h.attribute(file, letter, h.predefined("STD_I8LE"), (), letter.encode())
