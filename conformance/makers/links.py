"""Links: soft chains and circles, hard circles, external and user-defined ones, long and many."""

from __future__ import annotations

import ctypes
from pathlib import Path

from cases import case
from hdf5 import LATEST, Hid, Library, both


class LinkClass(ctypes.Structure):
    """`H5L_class_t`: only the traversal must exist for a link to be made."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("id", ctypes.c_int),
        ("comment", ctypes.c_char_p),
        ("create", ctypes.c_void_p),
        ("move", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("traverse", ctypes.c_void_p),
        ("delete", ctypes.c_void_p),
        ("query", ctypes.c_void_p),
    ]


TRAVERSAL = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64
)


def nowhere(*_: object) -> int:
    """Follows a user-defined link to nothing."""
    return -1


NOWHERE = TRAVERSAL(nowhere)


def leaf(h: Library, parent: Hid, name: str, value: int) -> None:
    """A small dataset."""
    h.dataset(parent, name, h.predefined("STD_I8LE"), (3,), bytes([value] * 3))


@case()
def soft(h: Library, path: Path) -> None:
    """Absolute, relative, dangling, odd and circular soft links, and a long chain."""
    for low, target in both(path):
        with h.file(target, low) as file:
            group = h.group(h.group(file, "a"), "b")
            leaf(h, group, "c", 1)
            for name, value in {
                "absolute": "/a/b/c",
                "relative": "a/b/c",
                "group": "a",
                "dots": "./a/./b/c",
                "slashes": "//a///b/c/",
                "root": "/",
                "dangling": "/not/there",
                "through": "group/b/c",
                "itself": "itself",
                "left": "right",
                "right": "left",
                "dot": ".",
                "parent": "a/../a",
            }.items():
                h.H5Lcreate_soft(value, file, name, 0, 0)
            h.H5Lcreate_soft("c", group, "sibling", 0, 0)
            h.H5Lcreate_soft("a/b/c", group, "not from here", 0, 0)
            for i in range(40):
                h.H5Lcreate_soft(f"chain{i + 1:02}" if i < 39 else "a/b/c", file, f"chain{i:02}", 0, 0)
            h.H5Lcreate_soft("/a/" + "x/" * 5_000 + "y", file, "long", 0, 0)


@case()
def hard(h: Library, path: Path) -> None:
    """Circles of hard links: to the root, to itself, between groups; objects with many names."""
    for low, target in both(path):
        with h.file(target, low) as file:
            first = h.group(file, "first")
            second = h.group(first, "second")
            leaf(h, second, "leaf", 2)
            h.H5Lcreate_hard(file, "/", first, "root", 0, 0)
            h.H5Lcreate_hard(file, "first", first, "itself", 0, 0)
            h.H5Lcreate_hard(file, "first", second, "back", 0, 0)
            h.H5Lcreate_hard(file, "first/second/leaf", file, "a leaf", 0, 0)
            h.H5Lcreate_hard(file, "first/second/leaf", file, "z leaf", 0, 0)
            h.H5Lcreate_hard(file, "first/second", file, "before first", 0, 0)
            h.H5Tcommit2(second, "type", h.string(4), 0, 0, 0)
            h.H5Lcreate_hard(file, "first/second/type", file, "type", 0, 0)


@case()
def external(h: Library, path: Path) -> None:
    """Links into other files, absent files and absent objects, with flags."""
    with h.file(path.with_name("external_target.h5")) as file:
        leaf(h, h.group(file, "g"), "there", 3)
        h.H5Lcreate_soft("/g/there", file, "soft", 0, 0)
        h.H5Lcreate_external("external.h5", "/here", file, "back", 0, 0)
    for low, target in both(path):
        with h.file(target, low) as file:
            leaf(h, file, "here", 4)
            for name, (where, what) in {
                "object": ("external_target.h5", "/g/there"),
                "group": ("external_target.h5", "g"),
                "soft": ("external_target.h5", "soft"),
                "no file": ("nowhere.h5", "/g"),
                "no object": ("external_target.h5", "/nothing"),
                "root": ("./external_target.h5", "/"),
                "circle": ("external_target.h5", "/back"),
                "\u00fcnicode": ("\u00fc.h5", "/\u00e4"),
                "long": ("f" * 3_000, "/o" * 2_000),
            }.items():
                h.H5Lcreate_external(where, what, file, name, 0, 0)


@case()
def user_defined(h: Library, path: Path) -> None:
    """Link classes that no reader knows: they are listed, and not followed."""
    for low, target in both(path):
        with h.file(target, low) as file:
            for number in (65, 187, 255):
                made = LinkClass(
                    1, number, b"test", None, None, None, ctypes.cast(NOWHERE, ctypes.c_void_p), None, None
                )
                h.H5Lregister(ctypes.byref(made))
                for size in (0, 1, 500):
                    data = bytes(i % 256 for i in range(size)) or None
                    h.H5Lcreate_ud(file, f"user {number} {size}", number, data, size, 0, 0)
                h.H5Lunregister(number)
            leaf(h, file, "leaf", 5)


@case()
def named(h: Library, path: Path) -> None:
    """Names from one byte to thousands, of both character sets, in compact and dense groups."""
    for low, target in both(path):
        with h.file(target, low) as file:
            lcpl = h.with_properties(h.plist("LINK_CREATE"), char_encoding=1)
            for count in (5, 30):
                group = h.group(file, f"g{count}")
                for i in range(count):
                    length = (
                        (1, 255, 256, 300, 4_000, 66_000)[i % 6] if low else (1, 255, 256, 300, 4_000, 5_000)[i % 6]
                    )
                    name = f"{i:02}" + "n" * (length - 2) if length > 1 else chr(97 + i)
                    h.H5Lcreate_soft("x", group, name, lcpl if i % 2 else 0, 0)


@case()
def tracked(h: Library, path: Path) -> None:
    """Creation order tracked or indexed, in compact and dense groups; some links deleted and made again."""
    with h.file(path, LATEST) as file:
        for word, flags in (("tracked", 1), ("indexed", 3)):
            for count in (6, 40):
                gcpl = h.with_properties(h.plist("GROUP_CREATE"), link_creation_order=flags)
                group = h.group(file, f"{word} {count}", gcpl)
                for i in range(count):
                    leaf(h, group, f"{(i * 17) % count:02}", i)
                for i in range(0, count, 5):
                    h.H5Ldelete(group, f"{i:02}", 0)
                leaf(h, group, "00", 99)


@case()
def nested_deep(h: Library, path: Path) -> None:
    """A hundred groups within one another."""
    for low, target in both(path):
        with h.file(target, low) as file:
            group = file
            for i in range(58):
                group = h.group(group, f"{i}")
            leaf(h, group, "leaf", 6)
