"""Each misuse raises h5py's exception class or a subclass, so that existing handlers still catch it."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import _core

Case = Callable[[Any, Any], Any]


def opening(**options: Any) -> Callable[[str, str], Case]:
    return lambda name, mode: lambda module, folder: module.File(str(folder / name), mode, **options)


def _sources(folder: Path) -> None:
    """Makes the files for the misuses."""
    (folder / "folder").mkdir()
    (folder / "text.h5").write_text("this is not HDF5, but long enough to look like a file\n" * 40)
    (folder / "empty.h5").touch()
    (folder / "folder" / "loop").symlink_to("loop")
    with h5py.File(folder / "read.h5", "w") as file:
        file["numbers"] = np.arange(12.0).reshape(3, 4)
        file.create_dataset("chunked", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
        file.create_dataset("sparse", (4, 4), "i4", chunks=(2, 2))
        file["scalar"] = 3
        file["empty"] = h5py.Empty("f4")
        file["pairs"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        file["text"] = "text"
        file["type"] = np.dtype("i2")
        group = file.create_group("group")
        group["inner"] = [1, 2]
        file["soft"] = h5py.SoftLink("/nowhere")
        file["around"] = h5py.SoftLink("/around")
        file["outside"] = h5py.ExternalLink("absent.h5", "/x")
        file["outside_text"] = h5py.ExternalLink("text.h5", "/x")
        file["numbers"].attrs["unit"] = "m"
        file["numbers"].attrs["none"] = h5py.Empty("f4")
    with h5py.File(folder / "cut.h5", "w") as file:
        file["numbers"] = np.arange(10000)
    os.truncate(folder / "cut.h5", 4000)


OPENING: dict[str, Case] = {
    "no file": opening()("absent.h5", "r"),
    "no file, to be changed": opening()("absent.h5", "r+"),
    "no folder": opening()("absent/x.h5", "r"),
    "no folder for a new file": opening()("absent/x.h5", "w"),
    "no folder for a new file, exclusively": opening()("absent/x.h5", "x"),
    "a folder": opening()("folder", "r"),
    "a folder to be written": opening()("folder", "w"),
    "a folder to be made": opening()("folder", "x"),
    "a folder's folder is a file": opening()("text.h5/x.h5", "r"),
    "a new file in a file": opening()("text.h5/x.h5", "w"),
    "a link to itself": opening()("folder/loop", "r"),
    "a long name": opening()("x" * 300 + ".h5", "r"),
    "a long name for a new file": opening()("x" * 300 + ".h5", "w"),
    "a file that exists": opening()("read.h5", "x"),
    "a file that exists, by the other name": opening()("read.h5", "w-"),
    "no HDF5": opening()("text.h5", "r"),
    "no bytes": opening()("empty.h5", "r"),
    "cut": opening()("cut.h5", "r"),
    "a mode that is none": opening()("read.h5", "z"),
    "a mode of a number": lambda m, d: m.File(str(d / "read.h5"), 3),
    "a driver that is none": opening(driver="zzz")("read.h5", "r"),
    "a driver that is none, to write": opening(driver="zzz")("new.h5", "w"),
    "a version that is none": opening(libver="zzz")("new.h5", "w"),
    "a strategy that is none": opening(fs_strategy="zzz")("new.h5", "w"),
    "a strategy where none can be": opening(fs_strategy="page")("read.h5", "r"),
    "an option that is none": opening(zzz=1)("read.h5", "r"),
    "an option that is none, to write": opening(zzz=1)("new.h5", "w"),
    "a user block of 100": opening(userblock_size=100)("new.h5", "w"),
    "a user block of 256": opening(userblock_size=256)("new.h5", "w"),
    "another user block": opening(userblock_size=512)("read.h5", "r"),
    "a locking that is none": opening(locking="zzz")("read.h5", "r"),
    "swmr and a mode that is none": opening(swmr=True)("absent.h5", "r"),
    "a name of a number": lambda m, d: m.File(3.5, "r"),
    "a name of nothing": lambda m, d: m.File(None, "r"),
    "a path with a null": lambda m, d: m.File(str(d / "a\0b"), "r"),
    "a new path with a null": lambda m, d: m.File(str(d / "a\0b"), "w"),
    "an empty name": lambda m, d: m.File("", "r"),
    "an empty name, to write": lambda m, d: m.File("", "w"),
}


def reading(use: Callable[[Any, Any], Any]) -> Case:
    def case(module: Any, folder: Path) -> Any:
        with module.File(folder / "read.h5", "r") as file:
            return use(module, file)

    return case


def closed(use: Callable[[Any, Any], Any], module: Any, folder: Path) -> Any:
    file = module.File(folder / "read.h5", "r")
    found = file["numbers"], file["group"], file["numbers"].attrs
    file.close()
    return use(file, found)


READING: dict[str, Case] = {
    name: reading(use)
    for name, use in {
        "no object": lambda m, f: f["absent"],
        "no object below": lambda m, f: f["group/absent"],
        "no group on the way": lambda m, f: f["absent/absent"],
        "a dataset on the way": lambda m, f: f["numbers/absent"],
        "an object of no name": lambda m, f: f[""],
        "an object of a number": lambda m, f: f[3],
        "an object of nothing": lambda m, f: f[None],
        "an object of a pair": lambda m, f: f["a", "b"],
        "an object of a slice": lambda m, f: f[:],
        "a name with a null": lambda m, f: f["a\0b"],
        "a soft link to nowhere": lambda m, f: f["soft"],
        "a soft link to itself": lambda m, f: f["around"],
        "an external link to nowhere": lambda m, f: f["outside"],
        "an external link to text": lambda m, f: f["outside_text"],
        "a null reference": lambda m, f: f[m.Reference()],
        "links of nothing": lambda m, f: f.get("absent", getlink=True)["x"],
        "membership of a number": lambda m, f: 3 in f,
        "get of a number": lambda m, f: f.get(3),
        "visit with no function": lambda m, f: f.visit(3),
        "no attribute": lambda m, f: f["numbers"].attrs["absent"],
        "an attribute of a number": lambda m, f: f["numbers"].attrs[3],
        "an attribute of nothing": lambda m, f: f["numbers"].attrs[None],
        "membership of an attribute of a number": lambda m, f: 3 in f["numbers"].attrs,
        "get_id of no attribute": lambda m, f: f["numbers"].attrs.get_id("absent"),
        "an attribute to be set": lambda m, f: f["numbers"].attrs.__setitem__("x", 3),
        "an attribute to be created": lambda m, f: f["numbers"].attrs.create("x", 3),
        "an attribute to be modified": lambda m, f: f["numbers"].attrs.modify("unit", "s"),
        "an attribute to be deleted": lambda m, f: f["numbers"].attrs.__delitem__("unit"),
        "no attribute to be deleted": lambda m, f: f["numbers"].attrs.__delitem__("absent"),
        "a group to be made": lambda m, f: f.create_group("new"),
        "a group to be made where one is": lambda m, f: f.create_group("group"),
        "a group to be required": lambda m, f: f.require_group("new"),
        "a group to be required where data are": lambda m, f: f.require_group("numbers"),
        "a dataset to be made": lambda m, f: f.create_dataset("new", data=[1]),
        "a dataset to be required": lambda m, f: f.require_dataset("new", (3,), "i4"),
        "a dataset of another shape to be required": lambda m, f: f.require_dataset("numbers", (9,), "f8"),
        "a dataset to be set": lambda m, f: f.__setitem__("new", [1]),
        "a link to be made": lambda m, f: f.__setitem__("new", m.SoftLink("/numbers")),
        "an object to be deleted": lambda m, f: f.__delitem__("numbers"),
        "no object to be deleted": lambda m, f: f.__delitem__("absent"),
        "an object to be moved": lambda m, f: f.move("numbers", "new"),
        "no object to be moved": lambda m, f: f.move("absent", "new"),
        "an object to be copied": lambda m, f: f.copy("numbers", "new"),
        "no object to be copied": lambda m, f: f.copy("absent", "new"),
        "elements to be written": lambda m, f: f["numbers"].__setitem__(0, 1),
        "elements to be written directly": lambda m, f: f["numbers"].write_direct(np.zeros((3, 4))),
        "a shape to be changed": lambda m, f: f["chunked"].resize((9, 9)),
        "a shape to be changed, of what has no chunks": lambda m, f: f["numbers"].resize((9, 9)),
        "a scale to be made": lambda m, f: f["numbers"].make_scale("x"),
        "a label to be set": lambda m, f: setattr(f["numbers"].dims[0], "label", "x"),
        "no dimension": lambda m, f: f["numbers"].dims[9],
        "no scale": lambda m, f: f["numbers"].dims[0][0],
        "no scale of the name": lambda m, f: f["numbers"].dims[0]["x"],
        "an index too far": lambda m, f: f["numbers"][9],
        "an index too far back": lambda m, f: f["numbers"][-9],
        "too many indices": lambda m, f: f["numbers"][0, 0, 0],
        "two ellipses": lambda m, f: f["numbers"][..., ...],
        "a step of nothing": lambda m, f: f["numbers"][::0],
        "an index of a float": lambda m, f: f["numbers"][1.5],
        "an index of nothing": lambda m, f: f["numbers"][None],
        "an index of text": lambda m, f: f["numbers"]["x"],
        "an index of a dict": lambda m, f: f["numbers"][{}],
        "a list too far": lambda m, f: f["numbers"][[0, 9]],
        "a list of floats": lambda m, f: f["numbers"][[0.5, 1.5]],
        "a mask of another shape": lambda m, f: f["numbers"][np.ones((2, 2), bool)],
        "a mask of another length": lambda m, f: f["numbers"][np.ones(9, bool)],
        "a scalar by an index": lambda m, f: f["scalar"][0],
        "a scalar by a slice": lambda m, f: f["scalar"][:],
        "a scalar's length": lambda m, f: len(f["scalar"]),
        "a scalar's elements": lambda m, f: list(f["scalar"]),
        "an empty one by an index": lambda m, f: f["empty"][0],
        "an empty one's length": lambda m, f: len(f["empty"]),
        "an empty one as an array": lambda m, f: np.asarray(f["empty"]),
        "no field": lambda m, f: f["pairs"]["zzz"],
        "no field of two": lambda m, f: f["pairs"]["a", "zzz"],
        "no field of a view": lambda m, f: f["pairs"].fields("zzz")[0],
        "text of numbers": lambda m, f: f["numbers"].asstr(),
        "text in an encoding that is none": lambda m, f: f["text"].asstr("zzz")[()],
        "a type that is none": lambda m, f: f["numbers"].astype("zzz"),
        "numbers as dates": lambda m, f: f["text"].astype("f8")[()],
        "an array of another shape": lambda m, f: f["numbers"].read_direct(np.zeros((9, 9))),
        "an array of integers by columns": lambda m, f: f["numbers"].read_direct(np.zeros((3, 4), order="F")),
        "a list as an array": lambda m, f: f["numbers"].read_direct([0] * 12),
        "chunks of what has none": lambda m, f: list(f["numbers"].iter_chunks()),
        "chunks of a wrong selection": lambda m, f: list(f["chunked"].iter_chunks(np.s_[0:99, 0, 0])),
        "a chunk that was never written": lambda m, f: f["sparse"].id.read_direct_chunk((0, 0)),
        "a chunk between chunks": lambda m, f: f["chunked"].id.read_direct_chunk((1, 1)),
        "sources of what has none": lambda m, f: f["numbers"].virtual_sources(),
        "a truth of many": lambda m, f: bool(np.asarray(f["numbers"])),
        "a dataset's member": lambda m, f: f["numbers"].create_group("x"),
        "an attribute of Python": lambda m, f: f["numbers"].zzz,
        "a group's attribute of Python": lambda m, f: f["group"].zzz,
        "a group's elements": lambda m, f: f["group"][0],
        "a group's elements by ()": lambda m, f: f["group"][()],
        "a datatype's elements": lambda m, f: f["type"][0],
        "a datatype's length": lambda m, f: len(f["type"]),
    }.items()
}
CLOSED: dict[str, Case] = {
    name: partial(closed, use)
    for name, use in {
        "an object of a closed file": lambda f, o: f["numbers"],
        "a closed dataset": lambda f, o: o[0][0],
        "a closed dataset's shape": lambda f, o: o[0].shape,
        "a closed group": lambda f, o: o[1]["inner"],
        "a closed group's members": lambda f, o: list(o[1]),
        "a closed group's length": lambda f, o: len(o[1]),
        "a closed file's name": lambda f, o: f.filename,
        "a closed file's mode": lambda f, o: f.mode,
        "a closed dataset's attribute": lambda f, o: o[2]["unit"],
        "a closed dataset's attributes": lambda f, o: list(o[2]),
        "a closed file's flush": lambda f, o: f.flush(),
    }.items()
}


def writing(use: Callable[[Any, Any], Any]) -> Case:
    def case(module: Any, folder: Path) -> Any:
        with module.File(folder / "new.h5", "w") as file:
            file["numbers"] = np.arange(12.0).reshape(3, 4)
            file.create_dataset("chunked", data=np.arange(12).reshape(3, 4), chunks=(2, 2), maxshape=(6, 4))
            file["scalar"] = 3
            file["empty"] = module.Empty("f4")
            file["pairs"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
            file.create_group("group")
            file["numbers"].attrs["unit"] = "m"
            file["numbers"].attrs["none"] = module.Empty("f4")
            return use(module, file)

    return case


WRITING: dict[str, Case] = {
    name: writing(use)
    for name, use in {
        "a group where one is": lambda m, f: f.create_group("group"),
        "a group below data": lambda m, f: f.create_group("numbers/x"),
        "a group of no name": lambda m, f: f.create_group(""),
        "a group of a number": lambda m, f: f.create_group(3),
        "the root": lambda m, f: f.create_group("/"),
        "a group required where data are": lambda m, f: f.require_group("numbers"),
        "a group with a null in its name": lambda m, f: f.create_group("a\0b"),
        "a dataset where one is": lambda m, f: f.create_dataset("numbers", data=[1]),
        "a dataset of nothing": lambda m, f: f.create_dataset("x"),
        "a dataset below data": lambda m, f: f.create_dataset("numbers/x", data=[1]),
        "a dataset set where one is": lambda m, f: f.__setitem__("numbers", [1]),
        "data of another size": lambda m, f: f.create_dataset("x", (9,), data=[1, 2]),
        "a dtype that is none": lambda m, f: f.create_dataset("x", (9,), "zzz"),
        "a dtype of objects": lambda m, f: f.create_dataset("x", (9,), object),
        "data of objects": lambda m, f: f.create_dataset("x", data=[object()]),
        "data of a dict": lambda m, f: f.create_dataset("x", data={"a": 1}),
        "data of Unicode arrays": lambda m, f: f.create_dataset("x", data=np.array(["a", "b"])),
        "a length below zero": lambda m, f: f.create_dataset("x", (-3,), "i4"),
        "a shape of text": lambda m, f: f.create_dataset("x", "zzz", "i4"),
        "a shape of floats": lambda m, f: f.create_dataset("x", (1.5,), "i4"),
        "chunks of another rank": lambda m, f: f.create_dataset("x", (9, 9), "i4", chunks=(3,)),
        "chunks of nothing": lambda m, f: f.create_dataset("x", (9,), "i4", chunks=(0,)),
        "chunks longer than the data": lambda m, f: f.create_dataset("x", (9,), "i4", chunks=(99,)),
        "chunks of a scalar": lambda m, f: f.create_dataset("x", (), "i4", chunks=True),
        "chunks of text": lambda m, f: f.create_dataset("x", (9,), "i4", chunks="zzz"),
        "no chunks, but compression": lambda m, f: f.create_dataset("x", (9,), "i4", chunks=False, compression="gzip"),
        "no chunks, but maxshape": lambda m, f: f.create_dataset("x", (9,), "i4", chunks=False, maxshape=(None,)),
        "a maxshape that is too small": lambda m, f: f.create_dataset("x", (9,), "i4", maxshape=(3,)),
        "a maxshape of another rank": lambda m, f: f.create_dataset("x", (9,), "i4", maxshape=(9, 9)),
        "a compression that is none": lambda m, f: f.create_dataset("x", (9,), "i4", compression="zzz"),
        "a compression of no filter": lambda m, f: f.create_dataset("x", (9,), "i4", compression=31999),
        "a level that is none": lambda m, f: f.create_dataset("x", (9,), "i4", compression="gzip", compression_opts=99),
        "a level of nothing": lambda m, f: f.create_dataset("x", (9,), "i4", compression_opts=3),
        "two levels": lambda m, f: f.create_dataset("x", (9,), "i4", compression=3, compression_opts=3),
        "settings of lzf": lambda m, f: f.create_dataset("x", (9,), "i4", compression="lzf", compression_opts=3),
        "settings of szip": lambda m, f: f.create_dataset(
            "x", (9,), "i4", compression="szip", compression_opts=("a", 3)
        ),
        "a scalar, compressed": lambda m, f: f.create_dataset("x", (), "i4", compression="gzip"),
        "a scalar with checksums": lambda m, f: f.create_dataset("x", (), "i4", fletcher32=True),
        "a scalar that is shuffled": lambda m, f: f.create_dataset("x", (), "i4", shuffle=True),
        "scale-offset of floats": lambda m, f: f.create_dataset("x", (9,), "f4", scaleoffset=True),
        "scale-offset of text": lambda m, f: f.create_dataset("x", (9,), "S4", scaleoffset=2),
        "scale-offset below zero": lambda m, f: f.create_dataset("x", (9,), "i4", scaleoffset=-2),
        "scale-offset with checksums": lambda m, f: f.create_dataset("x", (9,), "f4", scaleoffset=2, fletcher32=True),
        "lossy with checksums": lambda m, f: f.create_dataset("x", (9,), "i4", scaleoffset=2, fletcher32=True),
        "a fill of text": lambda m, f: f.create_dataset("x", (9,), "i4", fillvalue="zzz"),
        "a fill of many": lambda m, f: f.create_dataset("x", (9,), "i4", fillvalue=[1, 2, 3]),
        "a fill time that is none": lambda m, f: f.create_dataset("x", (9,), "i4", fill_time="zzz"),
        "an option that is none": lambda m, f: f.create_dataset("x", (9,), "i4", zzz=3),
        "a small chunk cache": lambda m, f: f.create_dataset("x", (9,), "i4", chunks=(3,), rdcc_w0=9.0),
        "an empty one with chunks": lambda m, f: f.create_dataset("x", data=m.Empty("i4"), chunks=True),
        "external data in chunks": lambda m, f: f.create_dataset("x", (9,), "i4", chunks=(3,), external="e.bin"),
        "external data that are too short": lambda m, f: f.create_dataset("x", (9,), "i4", external=[("e.bin", 0, 3)]),
        "external data of a number": lambda m, f: f.create_dataset("x", (9,), "i4", external=3),
        "required of another shape": lambda m, f: f.require_dataset("numbers", (9,), "f8"),
        "required of another type": lambda m, f: f.require_dataset("numbers", (3, 4), "S3"),
        "required exactly": lambda m, f: f.require_dataset("numbers", (3, 4), "f4", exact=True),
        "required where a group is": lambda m, f: f.require_dataset("group", (3, 4), "f4"),
        "a link where one is": lambda m, f: f.__setitem__("numbers", f["group"]),
        "a soft link where one is": lambda m, f: f.__setitem__("numbers", m.SoftLink("/group")),
        "a link of a number": lambda m, f: f.__setitem__(3, f["group"]),
        "a link of no name": lambda m, f: f.__setitem__("", f["group"]),
        "no object deleted": lambda m, f: f.__delitem__("absent"),
        "a number deleted": lambda m, f: f.__delitem__(3),
        "no object moved": lambda m, f: f.move("absent", "x"),
        "moved to what is there": lambda m, f: f.move("numbers", "group"),
        "no object copied": lambda m, f: f.copy("absent", "x"),
        "copied to what is there": lambda m, f: f.copy("numbers", "group"),
        "a number copied": lambda m, f: f.copy(3, "x"),
        "more elements": lambda m, f: f["numbers"].__setitem__(..., np.zeros((9, 9))),
        "elements of text": lambda m, f: f["numbers"].__setitem__(..., "zzz"),
        "elements of objects": lambda m, f: f["numbers"].__setitem__(0, [object()] * 4),
        "an element too far": lambda m, f: f["numbers"].__setitem__(9, 1),
        "too many indices": lambda m, f: f["numbers"].__setitem__((0, 0, 0), 1),
        "an index of nothing": lambda m, f: f["numbers"].__setitem__(None, 1),
        "an index of a float": lambda m, f: f["numbers"].__setitem__(1.5, 1),
        "no field": lambda m, f: f["pairs"].__setitem__("zzz", 1),
        "fields of numbers": lambda m, f: f["numbers"].__setitem__("a", 1),
        "elements of an empty one": lambda m, f: f["empty"].__setitem__(0, 1),
        "written from another shape": lambda m, f: f["numbers"].write_direct(np.zeros((9, 9))),
        "written from a list": lambda m, f: f["numbers"].write_direct([1, 2]),
        "a chunk between chunks": lambda m, f: f["chunked"].id.write_direct_chunk((1, 1), b"x"),
        "longer than it may be": lambda m, f: f["chunked"].resize((9, 4)),
        "of another rank": lambda m, f: f["chunked"].resize((9, 4, 4)),
        "shorter than nothing": lambda m, f: f["chunked"].resize((-1, 4)),
        "no chunks, resized": lambda m, f: f["numbers"].resize((9, 9)),
        "a scalar, resized": lambda m, f: f["scalar"].resize((9,)),
        "no axis": lambda m, f: f["chunked"].resize(3, axis=9),
        "text as a length": lambda m, f: f["chunked"].resize("zzz"),
        "no attribute deleted": lambda m, f: f["numbers"].attrs.__delitem__("absent"),
        "an attribute of a number": lambda m, f: f["numbers"].attrs.__setitem__(3, 3),
        "an attribute of objects": lambda m, f: f["numbers"].attrs.__setitem__("x", object()),
        "an attribute of a dict": lambda m, f: f["numbers"].attrs.__setitem__("x", {}),
        "an attribute of Unicode arrays": lambda m, f: f["numbers"].attrs.__setitem__("x", np.array(["a"])),
        "an attribute of another size": lambda m, f: f["numbers"].attrs.create("x", [1, 2], shape=(3,)),
        "an attribute of a dtype that is none": lambda m, f: f["numbers"].attrs.create("x", [1], dtype="zzz"),
        "an attribute modified to another size": lambda m, f: f["numbers"].attrs.modify("unit", [1, 2]),
        "an empty attribute modified": lambda m, f: f["numbers"].attrs.modify("none", 1),
        "an attribute that is too large": lambda m, f: f["numbers"].attrs.__setitem__("x", np.zeros(10**5)),
        "a reference to nothing": lambda m, f: f[m.Reference()],
        "a region of nothing": lambda m, f: f["numbers"].regionref[9],
        "a scale that is none": lambda m, f: f["numbers"].dims[0].attach_scale(f["group"]),
        "no scale of the number": lambda m, f: f["numbers"].dims[0][3],
        "no dimension": lambda m, f: f["numbers"].dims[9],
        "a virtual layout of text": lambda m, f: f.create_virtual_dataset("x", "zzz"),
        "a virtual source of another shape": lambda m, f: m.VirtualLayout((3,), "i4").__setitem__(
            slice(None), m.VirtualSource("a.h5", "a", (9,), "i4")
        ),
        "create_dataset_like of nothing": lambda m, f: f.create_dataset_like("x", None),
    }.items()
}


def outcome(use: Case, module: Any, folder: Path) -> tuple[BaseException | None, Any]:
    try:
        return None, use(module, folder)
    except BaseException as error:
        return error, None


#: Accepted differences, with the reasons.
DIFFERENT: dict[str, str] = {
    "a version that is none": "h5py fails with a KeyError of the first letter: ours is a ValueError",
    "a path with a null": "libhdf5 takes what is before the null for the name: ours is Python's ValueError",
    "a new path with a null": "libhdf5 takes what is before the null for the name: ours is Python's ValueError",
    "a group with a null in its name": "libhdf5 takes what is before the null for the name: ours is an InvalidError",
    "no scale of the name": "h5py fails with RuntimeError where no scale is attached, else with KeyError, as ours",
    "a chunk that was never written": "h5py fails with a MemoryError: ours is a KeyError",
    "data of Unicode arrays": "stored as strings",
    "an attribute of Unicode arrays": "stored as strings",
    "an attribute that is too large": "stored as HDF5 1.8 and later have it",
    "a fill of many": "h5py takes the first without a word: ours is a ValueError",
}


def compare(name: str, use: Case, folder: Path) -> None:
    """Runs a case with both libraries, each in its own folder."""
    (folder / "theirs").mkdir()
    (folder / "ours").mkdir()
    for inside in ("theirs", "ours"):
        _sources(folder / inside)
    theirs, _ = outcome(use, h5py, folder / "theirs")
    ours, found = outcome(use, hyperchunk, folder / "ours")
    if name in DIFFERENT:
        same = isinstance(ours, type(theirs)) if theirs is not None else ours is None
        assert not same, f"{name}: it is not different any more"
        return
    if theirs is None:
        assert ours is None, f"{name}: h5py does it; {type(ours).__name__}: {ours}"
        return
    assert ours is not None, f"{name}: h5py says {type(theirs).__name__}: {theirs}; ours gives {found!r}"
    assert isinstance(ours, type(theirs)), f"{name}: {theirs!r} != {ours!r}"
    if isinstance(theirs, OSError) and isinstance(theirs.errno, int):
        assert ours.errno == theirs.errno, (theirs, ours)
    assert str(ours)


@pytest.mark.parametrize("name", OPENING)
def test_opening(name: str, tmp_path: Path) -> None:
    compare(name, OPENING[name], tmp_path)


@pytest.mark.parametrize("name", READING | CLOSED)
def test_reading(name: str, tmp_path: Path) -> None:
    compare(name, (READING | CLOSED)[name], tmp_path)


@pytest.mark.parametrize("name", WRITING)
def test_writing(name: str, tmp_path: Path) -> None:
    compare(name, WRITING[name], tmp_path)


def test_errors_of_the_system_have_number_and_name(tmp_path: Path) -> None:
    missing = tmp_path / "missing.h5"
    with pytest.raises(FileNotFoundError) as error:
        hyperchunk.open(missing)
    assert error.value.errno == errno.ENOENT
    assert error.value.filename == str(missing)
    copied = pickle.loads(pickle.dumps(error.value))
    assert type(copied) is type(error.value)
    assert (copied.errno, copied.filename, str(copied)) == (errno.ENOENT, str(missing), str(error.value))
    there = tmp_path / "there.h5"
    there.touch()
    with pytest.raises(FileExistsError) as exists:
        hyperchunk.open(there, "x")
    assert (exists.value.errno, exists.value.filename) == (errno.EEXIST, str(there))
    assert isinstance(exists.value, hyperchunk.exceptions.ReadError)
    with pytest.raises(IsADirectoryError):
        hyperchunk.open(tmp_path, "w")


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """Yields a folder that others may reach, while the process runs without root's rights."""

    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    (folder / "closed.h5").touch(0o600 if os.geteuid() == 0 else 0)
    (folder / "folder").mkdir(0o555)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(before)
    shutil.rmtree(folder)


def test_what_may_not_be_read_or_written(unprivileged: Path) -> None:
    for name, mode in (("closed.h5", "r"), ("folder/new.h5", "w"), ("folder/new.h5", "x")):
        with pytest.raises(PermissionError) as error:
            hyperchunk.open(unprivileged / name, mode)
        assert (error.value.errno, error.value.filename) == (errno.EACCES, str(unprivileged / name))


REPLACEMENTS = {
    "w": lambda: hyperchunk.open("raw.h5", "w"),
    "w without a journal": lambda: hyperchunk.open("raw.h5", "w", journal=False),
    "index()": lambda: hyperchunk.index("a.h5", output="raw.hcindex", overwrite=True),
    "get": lambda: _core.run_command(["hyperchunk", "get", "a.h5", "/x", "-o", "raw.npy", "--overwrite"]),
    "pack": lambda: _core.run_command(["hyperchunk", "pack", "a.h5", "raw.h5", "--overwrite"]),
    "pack in place": lambda: _core.run_command(["hyperchunk", "pack", "--in-place", "raw.h5"]),
}


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Runs a block without root's rights."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_files_that_may_not_be_written_are_not_replaced(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Although their folder would allow it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        monkeypatch.chdir(folder)
        with as_nobody():
            with h5py.File("a.h5", "w") as file:
                file["x"] = np.arange(5)
            for suffix in ("h5", "npy", "hcindex"):
                shutil.copyfile("a.h5", f"raw.{suffix}")
                Path(f"raw.{suffix}").chmod(0o444)
            raised = None
            try:
                status = REPLACEMENTS[name]()
            except PermissionError as error:
                raised = error
        message = str(raised) if raised else capfd.readouterr().err
        assert raised or status == 1
        assert raised is None or (raised.errno == errno.EACCES and raised.filename.startswith("raw."))
        assert "expected one that you may write to" in message
        before = Path("a.h5").read_bytes()
        assert all(Path(f"raw.{suffix}").read_bytes() == before for suffix in ("h5", "npy", "hcindex"))
        assert sorted(path.name for path in Path().iterdir()) == ["a.h5", "raw.h5", "raw.hcindex", "raw.npy"]
        monkeypatch.undo()


def test_a_missing_name_says_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "names.h5"
    with hyperchunk.open(path, "w") as file:
        file["bands/temperature"] = [1]
        file["bands/pressure"] = [1]
        file["bands/temperature"].attrs["unit"] = "K"
        for number in range(3000):
            file.create_group(f"many/g{number}")
        file.create_group("nothing")
        with pytest.raises(KeyError, match="did you mean 'temperature'"):
            file["bands/Temprature"]
    with hyperchunk.open(path) as file:
        with pytest.raises(KeyError, match=r"did you mean 'temperature'\? '/bands' has 'pressure', 'temperature'"):
            file["bands/temprature"]
        with pytest.raises(KeyError, match="'/' has 'bands', 'many', 'nothing'"):
            file["xyz/abc"]
        with pytest.raises(KeyError, match="'/many' has 3000 others"):
            file["many/h1"]
        with pytest.raises(KeyError, match="'/nothing' is empty"):
            file["nothing/x"]
        with pytest.raises(KeyError, match="'/bands/pressure' is not a group"):
            file["bands/pressure/x"]
        with pytest.raises(KeyError, match="the object has 'unit'"):
            file["bands/temperature"].attrs["length"]
        assert file.get("bands/temprature") is None
        assert file["bands/temperature"].attrs.get("length", 7) == 7


def test_the_file_of_a_killed_writer_leads_to_recover(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    program = f"""
import os, signal
import hyperchunk
file = hyperchunk.open({str(path)!r}, "w")
file["x"] = [1, 2, 3]
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(FileNotFoundError, match=f"hyperchunk recover {path}"):
        hyperchunk.open(path)
    with pytest.raises(OSError, match=f"hyperchunk recover {path}"):
        hyperchunk.open(f"{path}.partial")
    with pytest.raises(OSError, match=f"hyperchunk recover {path}"):
        hyperchunk.open(path, "w")
    subprocess.run([Path(sys.executable).with_name("hyperchunk"), "recover", path], check=True, capture_output=True)
    with hyperchunk.open(path) as file:
        assert list(file["x"]) == [1, 2, 3]
