"""Groups: old ones with other tree sizes and many names, new ones on their way between compact and dense."""

from __future__ import annotations

from pathlib import Path

from cases import case
from hdf5 import LATEST, Library, both


@case(b"TREE", b"SNOD", b"HEAP")
def symbol_tables(h: Library, path: Path) -> None:
    """Old groups from none to thousands of links, with several ranks of tree and leaf nodes."""
    for inner, leaf in ((16, 4), (1, 1), (2, 3), (32, 20)):
        target = path if inner == 16 else path.with_name(f"symbol_tables_{inner}_{leaf}.h5")
        with h.file(target, sym_k=(inner, leaf)) as file:
            for count in (0, 1, 2, 9, 300):
                group = h.group(file, f"g{count}")
                for i in range(count):
                    if i % 3:
                        h.H5Lcreate_soft(f"/g{i}", group, f"name {i * 7919 % 1009:04}", 0, 0)
                    else:
                        h.group(group, f"name {i * 7919 % 1009:04}")


@case(b"SNOD", b"HEAP")
def symbol_tables_changed(h: Library, path: Path) -> None:
    """Old groups after deletions and renames: free blocks in the name heap, merged nodes."""
    with h.file(path, sym_k=(2, 2)) as file:
        for word, step in (("half", 2), ("few left", 0), ("none left", 1)):
            group = h.group(file, word)
            for i in range(120):
                h.H5Lcreate_soft(f"/{i}" * (1 + i % 7), group, f"n{i:03}" + "x" * (i % 30), 0, 0)
            for i in range(120):
                if (step and i % step == 0) or (not step and i not in (0, 60, 119)):
                    h.H5Ldelete(group, f"n{i:03}" + "x" * (i % 30), 0)
            for i in range(10):
                h.H5Lcreate_soft("again", group, f"again {i}", 0, 0)
            h.H5Lmove(group, "again 3", file, f"moved from {word}", 0, 0)


@case(b"HEAP")
def local_heaps(h: Library, path: Path) -> None:
    """A hint for the size of the name heap, large and small; names that make it grow."""
    with h.file(path) as file:
        for hint in (0, 1, 8, 5_000):
            gcpl = h.with_properties(h.plist("GROUP_CREATE"), local_heap_size_hint=hint)
            group = h.group(file, f"hint {hint}", gcpl)
            for i in range(4):
                h.H5Lcreate_soft("t" * 50, group, f"name {i}" * 8, 0, 0)


@case(b"FRHP")
def phases(h: Library, path: Path) -> None:
    """Compact groups that became dense, dense ones that became compact again, and limits of zero."""
    with h.file(path, LATEST) as file:
        for largest, smallest in ((8, 6), (0, 0), (2, 1), (30, 30)):
            gcpl = h.with_properties(
                h.plist("GROUP_CREATE"), link_phase_change=(largest, smallest), est_link_info=(3, 100)
            )
            for made, left in sorted(
                {(1, 1), (largest, largest), (largest + 1, largest + 1), (40, 7), (40, smallest), (40, 0)}
            ):
                group = h.group(file, f"{largest} {smallest} {made} {left}", gcpl)
                for i in range(made):
                    h.H5Lcreate_soft("t", group, f"link {i:02}", 0, 0)
                for i in range(left, made):
                    h.H5Ldelete(group, f"link {i:02}", 0)


@case()
def converted(h: Library, path: Path) -> None:
    """Groups of one file in both forms, and objects copied between files of different forms."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for i in range(20):
                inner = h.group(h.group(file, f"g{i:02}"), "inner")
                h.dataset(inner, "d", h.predefined("STD_I16BE"), (3,), b"abcdef")
    with h.reopened(path, 0) as file:
        h.group(h.group(file, "made by an older format"), "g")
    with h.reopened(path.with_name("converted_old.h5"), LATEST) as file, h.reopened(path) as other:
        h.group(h.group(file, "made by a newer format"), "g")
        h.H5Ocopy(other, "g03", file, "copied", 0, 0)


@case()
def anonymous(h: Library, path: Path) -> None:
    """Groups made without a link, then linked; intermediate groups made on the way."""
    for low, target in both(path):
        with h.file(target, low) as file:
            group = h.H5Gcreate_anon(file, 0, 0)
            h.H5Olink(group, file, "linked later", 0, 0)
            lcpl = h.with_properties(h.plist("LINK_CREATE"), create_intermediate_group=1)
            h.H5Gcreate2(file, "some/groups/on/the/way", lcpl, 0, 0)
            h.H5Gcreate_anon(file, 0, 0)
