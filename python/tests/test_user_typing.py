"""Types in users' programs: ``mypy --strict`` accepts good ones, and finds misspelt names in bad ones."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from pathlib import Path

import hyperchunk
import pytest
from hyperchunk.typing import AnyModeOptions
from hyperchunk.write.file import WritableFile

GOOD = """
import hyperchunk
import hyperchunk.h5py as h5py
import numpy as np
from hyperchunk import Dataset, File, Group
from hyperchunk.write.file import WritableFile

with hyperchunk.open("a.h5", "w", track_order=True) as new:
    reveal_type(new)
    reveal_type(new.create_dataset("x", (3,), "f4", compression="gzip"))
    new["g/y"] = np.arange(3)
    new["x"][:] = 1
    new["x"].attrs["units"] = "K"
    new.dataset("x").append([4.0])

with hyperchunk.open("a.h5", threads=1) as file:
    reveal_type(file)
    reveal_type(file["x"])
    part = file["x"][1:3], file["x"][..., 0], file["x"][np.array([True, False, True])]
    units = file["x"].attrs["units"]
    member = file["g"]
    if isinstance(member, Group):
        reveal_type(member)
    elif isinstance(member, Dataset):
        reveal_type(member.shape)
    reveal_type(file.dataset("x"))
    reveal_type(file.group("g"))
    reveal_type(file.get("x"))
    for name, found in file.items():
        print(name, found.name)
    frame = file.table().select(["x"]).to_pandas(use_threads=False)
    waves = file.dataset("x").query("value > 1")
    print(waves.boxes, waves.bytes_scanned)

mode = "r" if part else "w"
reveal_type(hyperchunk.open("a.h5", mode, journal=False))
reveal_type(File("a.h5"))
reveal_type(File("a.h5", mode))
with File("b.h5", "w", track_order=True) as made:
    reveal_type(made)
    made["x"] = [1]


class Run(File):
    pass


reveal_type(Run("a.h5"))
with h5py.File("c.h5", "a", driver="core", locking=False) as taken:
    reveal_type(taken)
    reveal_type(taken.require_group("g").create_dataset("x", data=[1, 2], compression="gzip"))
    taken["g/x"][0] = taken["g/x"].attrs.get("n", 3)


def whole(dataset: Dataset) -> tuple[int, ...]:
    return dataset.shape or ()


whole(file.dataset("x"))
store = hyperchunk.store.create("run.h5", {"/x": hyperchunk.store.Dataset((4,), "f4", chunks=(2,))})
with store.writer(statistics=True) as writer:
    writer["/x"][:] = 1
epoch = store.commit()
print(epoch.number if epoch else 0)
"""
REVEALED = [
    "WritableFile",
    "WritableDataset",
    "File",
    "Group | Dataset | Datatype",
    "Group",
    "tuple[int, ...] | None",
    "Dataset",
    "Group",
    "Group | Dataset | Datatype | None",
    "File",
    "File",
    "File",
    "WritableFile",
    "Run",
    "File",
    "Dataset",
]

#: Statements, and a part of the error that each must have.
BAD = {
    'hyperchunk.opne("a.h5")': 'Module has no attribute "opne"',
    'hyperchunk.open("a.h5", thread=1)': '"open"',
    'hyperchunk.open("a.h5", "w", jornal=True)': '"open"',
    'hyperchunk.open("a.h5", network={"timout": 1.0})': '"open"',
    'hyperchunk.create("a.h5", track_oder=True)': '"create"',
    'hyperchunk.File("a.h5", thread=1)': '"File"',
    'hyperchunk.File("a.h5", "w", jornal=True)': '"File"',
    'file.copy("x", new, expand_refs=True)': '"expand_refs"',
    'h5py.File("a.h5", libver=7)': "incompatible type",
    'h5py.File("a.h5").create_dataset("x", (3,), "f4", suffle=True)': '"create_dataset"',
    'h5py.File("a.h5").copy("x", "y", expand_refs=True)': '"expand_refs"',
    "file.atrs": 'has no attribute "atrs"',
    "file.closed": 'has no attribute "closed"',
    'file["x"].shpae': 'has no attribute "shpae"',
    'file["x"].atrs': 'has no attribute "atrs"',
    'file.dataset("x").chunk': 'has no attribute "chunk"',
    'file.dataset("x").read_slice([0])': 'has no attribute "read_slice"',
    'file.dataset("x").batches(size=2, shufle=1)': '"batches"',
    "file.table().colum_names": 'has no attribute "colum_names"',
    "file.table().to_pandas(use_thread=False)": '"to_pandas"',
    'file.table(cells="tensors")': "incompatible type \"Literal['tensors']\"",
    'new.create_dataset("x", (3,), "f4", suffle=True)': '"create_dataset"',
    'new.dataset("x").apend([1])': 'has no attribute "apend"',
    'hyperchunk.query("a.h5", "x", "value > 1", thread=1)': '"query"',
    'hyperchunk.restructure("a.h5", "/x", ordr="column")': '"restructure"',
    'hyperchunk.store.Dataset((3,), "f4", chunk=(2,))': '"Dataset"',
    'store.commit(on_conflict="warning")': "incompatible type",
    "store.comit()": 'has no attribute "comit"',
    "store.writer(statistic=True)": '"writer"',
}
HEAD = """import hyperchunk
import hyperchunk.h5py as h5py

file = hyperchunk.open("a.h5")
new = hyperchunk.open("b.h5", "w")
store = hyperchunk.store.open("c.h5")
"""


def check(program: str, folder: Path) -> tuple[int, list[str]]:
    """Runs mypy as a user does; returns its status and its lines."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    words = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-pretty",
        "--config-file=",
        "--cache-dir=cache",
        "program.py",
    ]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for both programs, so that mypy reads the package once."""
    pytest.importorskip("mypy")
    return tmp_path_factory.mktemp("typing")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mypy_knows_what_a_good_program_gets(folder: Path) -> None:
    status, lines = check(GOOD, folder)
    errors = [line for line in lines if ": error:" in line]
    assert not errors, "\n".join(errors)
    assert status == 0
    revealed = [line.split('"')[1] for line in lines if "Revealed type" in line]
    shown = [
        " | ".join(part.rsplit(".", 1)[-1] if "[" not in part else part for part in text.split(" | "))
        for text in revealed
    ]
    assert [text.replace("builtins.", "") for text in shown] == REVEALED


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mypy_finds_misspelt_attributes_and_options(folder: Path) -> None:
    status, lines = check(HEAD + "\n".join(BAD) + "\n", folder)
    assert status == 1
    first = HEAD.count("\n") + 1
    for number, (statement, message) in enumerate(BAD.items(), first):
        errors = [line for line in lines if line.startswith(f"program.py:{number}: error:")]
        assert any(message in line for line in errors), f"{statement}: {errors or 'no error'}"
    wrong = [line for line in lines if ": error:" in line and int(line.split(":")[1]) < first]
    assert not wrong


def test_open_has_the_options_of_the_classes() -> None:
    """The signatures of `open`, `File` and `OpenOptions` say the same."""
    opened, file = (inspect.signature(one).parameters for one in (hyperchunk.open, hyperchunk.File))
    named = {name for name, parameter in opened.items() if parameter.kind is not parameter.VAR_KEYWORD}
    assert named == {name for name, parameter in file.items() if parameter.kind is not parameter.VAR_KEYWORD}
    for name in named:
        assert opened[name].default == file[name].default, name
        assert opened[name].annotation == file[name].annotation, name
    assert named - {"name", "mode"} <= set(AnyModeOptions.__optional_keys__)
    hints = typing.get_type_hints(AnyModeOptions)
    writable = inspect.signature(WritableFile).parameters
    assert set(hints) >= named - {"name", "mode"}
    assert {"journal", "alignment", "page_size"} <= set(writable) & set(hints)
