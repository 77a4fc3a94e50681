"""`hyperchunk recover` changes only the file that the killed writer left, and nobody changes that before it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import _core

WRITER = """
import hyperchunk, numpy as np, os, sys
file = hyperchunk.open(sys.argv[1], "w")
file.create_dataset("early", data=np.arange(90), chunks=(10,))
file.attrs["note"] = 1
{flush}
file.create_dataset("late", data=np.arange(90), chunks=(10,))
os._exit(9)
"""


def kill_writer(path: Path, flush: str = "file.flush()") -> None:
    """Leaves a file, and what else a killed writer leaves."""
    program = WRITER.format(flush=flush)
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 9


def run(*words: object) -> int:
    return _core.run_command(["hyperchunk", *map(str, words)])


def put(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["precious"] = np.arange(1000.0)


def by_name(path: Path) -> None:
    put(path.with_name("b.h5"))
    path.with_name("b.h5").replace(path)


def by_copy(path: Path) -> None:
    put(path.with_name("b.h5"))
    shutil.copyfile(path.with_name("b.h5"), path)


def by_new_dataset(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["precious"] = np.arange(1000.0)


def by_attribute(path: Path) -> None:
    """Bytes are replaced in place: the size and the superblock stay."""
    with h5py.File(path, "r+") as file:
        file.attrs.modify("note", 2)


CHANGES = [by_name, by_copy, put, by_new_dataset, by_attribute]


@pytest.mark.parametrize("change", CHANGES)
def test_file_that_another_program_put_there_or_changed(
    tmp_path: Path, change: Callable[[Path], None], capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.h5"
    kill_writer(path)
    change(path)
    before = path.read_bytes()
    assert run("recover", path) == 1
    error = capfd.readouterr().err
    assert "replaced or changed since" in error
    assert f"{path}.journal" in error
    assert path.read_bytes() == before
    # As the message says.
    Path(f"{path}.journal").rename(tmp_path / "away")
    with hyperchunk.open(path, "r+") as file:
        file.attrs["mine"] = 1


def test_file_that_moved_away_and_back(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    kill_writer(path)
    shutil.copy2(path, tmp_path / "b.h5")
    (tmp_path / "b.h5").replace(path)
    assert run("recover", path) == 0
    with h5py.File(path) as file:
        assert sorted(file) == ["early", "late"]
        assert np.array_equal(file["late"][()], np.arange(90))


def test_unfinished_file_whose_place_is_taken(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.h5"
    kill_writer(path, flush="")
    put(path)
    assert run("recover", path) == 1
    assert "was created or changed since" in capfd.readouterr().err
    with h5py.File(path) as file:
        assert list(file) == ["precious"]
    path.rename(tmp_path / "precious.h5")
    assert run("recover", path) == 0
    with h5py.File(path) as file:
        assert sorted(file) == ["early", "late"]


EDITS: dict[str, Callable[[Path], Any]] = {
    "r+": lambda path: hyperchunk.open(path, "r+").close(),
    "a": lambda path: hyperchunk.open(path, "a").close(),
    "attr set": lambda path: run("attr", "set", path, "/", "mine", "1"),
    "pack in place": lambda path: run("pack", "--in-place", path),
}


@pytest.mark.parametrize("name", EDITS)
def test_edits_of_a_file_that_waits_for_recovery(tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """`recover` would make the file without the change."""
    path = tmp_path / "a.h5"
    kill_writer(path)
    before = path.read_bytes()
    try:
        assert EDITS[name](path) == 1
        message = capfd.readouterr().err
    except hyperchunk.HyperchunkError as error:
        message = str(error)
    assert f"hyperchunk recover {path}" in message
    assert path.read_bytes() == before
    assert run("recover", path) == 0
    assert not EDITS[name](path)


def test_file_that_has_the_name_of_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    put(path)
    (tmp_path / "a.h5.journal").write_text("Dear diary, today I measured nothing.")
    for name in EDITS:
        assert not EDITS[name](path)
    assert (tmp_path / "a.h5.journal").read_text().startswith("Dear diary")
