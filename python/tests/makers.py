"""Every command and function that creates a file or a folder: its call, and its input."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import hyperchunk
import hyperchunk.h5py as emulated
import numpy as np
from hyperchunk import _core, store
from hyperchunk.arrow.dual import DualFile


def run(*arguments: str) -> int:
    """Runs a command in this process; returns its exit status."""
    return _core.run_command(["hyperchunk", *arguments])


class RefusedError(Exception):
    """A command ended with an error."""


def command(*arguments: str) -> None:
    """Runs a command that should succeed."""
    if run(*arguments) != 0:
        raise RefusedError(arguments)


@dataclass(frozen=True)
class Maker:
    """A way to create a file: `make(out, overwrite)`."""

    make: Callable[[str, bool], None]
    suffix: str
    # The input file or folder.
    reads: str = "a.h5"
    # True if it can replace an existing output.
    replaces: bool = True
    is_folder: bool = False
    # True if the output is too small to fail midway.
    tiny: bool = False
    # File extensions that it refuses.
    wrong: tuple[str, ...] = field(default=("csv", "json", "txt"))


def cli(*arguments: str, **more: object) -> Maker:
    """Returns a maker for a command; `OUT` stands for its output."""

    def make(out: str, overwrite: bool) -> None:
        command(*(out if word == "OUT" else word for word in arguments), *["--overwrite"] * overwrite)

    return Maker(make, **more)  # type: ignore[arg-type]


def _index(keyword: str) -> Callable[[str, bool], None]:
    def make(out: str, overwrite: bool) -> None:
        hyperchunk.index("a.h5", overwrite=overwrite, **{keyword: out})  # type: ignore[arg-type]

    return make


def _dual(out: str, overwrite: bool) -> None:
    with DualFile(out, "w" if overwrite else "x", columns={"v": np.dtype("f8")}) as dual:
        dual.append({"v": np.arange(20_000.0)})


def _open(out: str, overwrite: bool) -> None:
    with hyperchunk.open(out, "w" if overwrite else "x") as file:
        file["v"] = np.arange(20_000.0)


def _create(out: str, overwrite: bool) -> None:
    store.create(out, {"/v": store.Dataset((100,), "f8")}, attrs={"a": np.arange(2000.0)}, overwrite=overwrite)


def _restructure(out: str, overwrite: bool) -> None:
    assert not overwrite
    hyperchunk.restructure("a.h5", "/a", order="column", output=out)


def _joined() -> hyperchunk.Collection:
    return hyperchunk.open_collection(["a.h5"], concat=0)


def _save(out: str, overwrite: bool) -> None:
    _joined().save(out, overwrite=overwrite)


def _to_kerchunk(out: str, overwrite: bool) -> None:
    _joined().to_kerchunk(out, overwrite=overwrite)


def _to_virtual(out: str, overwrite: bool) -> None:
    _joined().to_virtual(out, overwrite=overwrite)


def _collect(out: str, overwrite: bool) -> None:
    hyperchunk.open_collection(["a.h5"], concat=0, output=out, overwrite=overwrite)


def _core_driver(out: str, overwrite: bool) -> None:
    with emulated.File(out, "w" if overwrite else "x", driver="core", backing_store=True) as file:
        file["v"] = np.arange(20_000.0)


MAKERS = {
    "get npy": cli("get", "a.h5", "/a", "-o", "OUT", suffix="npy"),
    "get h5": cli("get", "a.h5", "/a", "-o", "OUT", suffix="h5"),
    "index": cli("index", "a.h5", "-o", "OUT", suffix="hcindex", wrong=("csv", "h5", "json")),
    "kerchunk": cli("index", "a.h5", "--kerchunk", "OUT", suffix="json", wrong=("csv", "h5", "npy")),
    "virtualizarr": cli("index", "a.h5", "--virtualizarr", "OUT", suffix="json", wrong=("csv", "h5", "npy")),
    "pack": cli("pack", "a.h5", "OUT", suffix="h5"),
    "restructure": cli(
        "restructure", "a.h5", "/a", "--order", "column", "--output", "OUT", suffix="h5", replaces=False
    ),
    "arrow export": cli("arrow", "export", "a.h5:/a", "OUT", suffix="arrow", wrong=("csv", "h5", "xlsx", "")),
    "arrow export stream": cli("arrow", "export", "a.h5:/a", "OUT", suffix="arrows", wrong=("csv",)),
    "arrow export parquet": cli("arrow", "export", "a.h5:/v", "OUT", suffix="parquet", wrong=("csv",)),
    "arrow export columns": cli("arrow", "export", "a.h5:/columns", "OUT", suffix="arrow", wrong=("csv",)),
    "arrow export folder": cli("arrow", "export", "a.h5", "OUT", suffix="", is_folder=True, wrong=("csv", "h5")),
    "arrow import": cli("arrow", "import", "t.arrow", "OUT", suffix="h5", reads="t.arrow"),
    "arrow import folder": cli("arrow", "import", "exported", "OUT", suffix="h5", reads="exported/hyperchunk.json"),
    "arrow fix": cli("arrow", "fix", "a.h5", "-o", "OUT", "--group", "/columns", suffix="h5"),
    "store pack": cli("store", "pack", "s.h5", "OUT", suffix="h5", reads="s.h5"),
    "store export": cli(
        "store", "export", "a.h5", "--tree", "OUT", suffix="", is_folder=True, replaces=False, wrong=()
    ),
    "store import": cli("store", "import", "tree", "OUT", suffix="h5", reads="tree/~.json"),
    "link": cli("link", "s3://bucket/a.h5", "OUT", suffix="h5", reads="", tiny=True),
    "collect": cli("collect", "a.h5", "--concat", "0", "-o", "OUT", suffix="hcx", wrong=("csv", "h5", "json")),
    "salvage": cli("salvage", "a.h5", "-o", "OUT", suffix="h5"),
    "key export": cli("key", "export", "OUT", suffix="pub", reads="", replaces=False, tiny=True, wrong=()),
    "index()": Maker(_index("output"), "hcindex", wrong=("csv", "h5")),
    "index(kerchunk)": Maker(_index("kerchunk"), "json", wrong=("csv", "h5")),
    "index(virtualizarr)": Maker(_index("virtualizarr"), "json", wrong=("csv", "h5")),
    "restructure()": Maker(_restructure, "h5", replaces=False, wrong=()),
    "store.create()": Maker(_create, "h5", reads="", wrong=()),
    "open()": Maker(_open, "h5", reads="", wrong=()),
    "DualFile()": Maker(_dual, "h5", reads="", wrong=()),
    "open_collection()": Maker(_collect, "hcx", wrong=("csv", "h5", "json")),
    "Collection.save()": Maker(_save, "hcx", wrong=("csv", "h5", "json")),
    "Collection.to_kerchunk(json)": Maker(_to_kerchunk, "json", wrong=()),
    "Collection.to_kerchunk(parquet)": Maker(_to_kerchunk, "parquet", is_folder=True, wrong=()),
    "Collection.to_virtual()": Maker(_to_virtual, "h5", wrong=()),
    "h5py core": Maker(_core_driver, "h5", reads="", wrong=()),
}


def world() -> None:
    """Creates the inputs in the working folder."""
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("a", data=np.arange(20_000.0).reshape(200, 100), chunks=(20, 100))
        file["v"] = np.arange(20_000.0)
        for number in range(40):
            file[f"columns/c{number:02}"] = np.arange(500.0) + number
    command("arrow", "export", "a.h5:/v", "t.arrow")
    command("arrow", "export", "a.h5:/columns", "exported", "--format", "folder")
    command("store", "export", "a.h5", "--tree", "tree")
    made = store.create("s.h5", {"/v": store.Dataset((20_000,), "f8")})
    with made.writer() as writer:
        writer["v"][...] = np.arange(20_000.0)
    made.commit()
    os.environ.setdefault("HOME", str(Path.cwd()))
    run("key", "new", "--name", "tester")
