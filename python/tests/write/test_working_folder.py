"""Files that are open while the program changes its working folder: a relative path means what it meant before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pyarrow as pa
import pytest
from hyperchunk import store


def edit(move: Callable[[], None]) -> None:
    with hyperchunk.open("x.h5", "r+") as file:
        file["c"].attrs["text"] = "q" * 300
        move()
        file.attrs["text"] = "q" * 3000


def edit_without_locks(move: Callable[[], None]) -> None:
    with hyperchunk.open("x.h5", "r+", locking=False) as file:
        move()
        file["c"].attrs["text"] = "q" * 300
        file.attrs["text"] = "q" * 3000


def transaction(move: Callable[[], None]) -> None:
    with hyperchunk.open("x.h5", "r+", guard=True) as file, file.transaction():
        file["c"].attrs["text"] = "q" * 300
        move()
        file.attrs["text"] = "q" * 3000


def new(move: Callable[[], None]) -> None:
    with hyperchunk.open("x.h5", "w") as file:
        file.create_dataset("c", data=np.zeros(1000), chunks=(100,), compression="gzip").attrs["text"] = "q" * 300
        move()
        file.attrs["text"] = "q" * 3000


def sharded(move: Callable[[], None]) -> None:
    Path("x.h5").unlink()
    run = store.create("x.h5", {"/c": store.Dataset((4,), "f4")})
    with run.writer() as writer:
        writer["/c"][:2] = 1
        writer["/c"].attrs["text"] = "q" * 300
        move()
        writer["/c"][2:] = 1
        writer.attrs["text"] = "q" * 3000
    assert run.commit() is not None


@pytest.mark.parametrize("way", [edit, edit_without_locks, transaction, new, sharded])
def test_a_relative_path(
    way: Callable[[Callable[[], None]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the other folder there are files of the same names, which stay as they are."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        with h5py.File(folder / "x.h5", "w") as file:
            file["c"] = np.zeros(1000)
    other = b"not a journal"
    for suffix in ("redo", "journal"):
        (there / f"x.h5.{suffix}").write_bytes(other)
    before = {path: path.read_bytes() for path in there.iterdir()}
    monkeypatch.chdir(here)
    way(lambda: monkeypatch.chdir(there))
    assert {path: path.read_bytes() for path in there.iterdir()} == before
    assert sorted(path.name for path in here.iterdir() if path.is_file()) == ["x.h5"]
    with h5py.File(here / "x.h5") as file:
        assert (len(file.attrs["text"]), len(file["c"].attrs["text"])) == (3000, 300)


def test_arrow_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    with hyperchunk.create("x.h5", layout="arrow") as file:
        file.append({"a": [1.0, 2.0]})
        monkeypatch.chdir("there")
        file.append({"a": [3.0]})
    assert list(Path().iterdir()) == []
    with pa.ipc.open_file(tmp_path / "x.h5") as found:
        assert found.read_all()["a"].to_pylist() == [1, 2, 3]


def test_a_folder_that_was_renamed(tmp_path: Path) -> None:
    """The journal goes where the file is, and not into a new folder of the old name."""
    (tmp_path / "run").mkdir()
    with h5py.File(tmp_path / "run/x.h5", "w") as file:
        file["c"] = np.zeros(1000)
    with hyperchunk.open(tmp_path / "run/x.h5", "r+") as edited:
        edited["c"].attrs["text"] = "q" * 300
        (tmp_path / "run").rename(tmp_path / "old")
        (tmp_path / "run").mkdir()
        (tmp_path / "run/x.h5.redo").write_bytes(b"")
        edited.attrs["text"] = "q" * 3000
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["x.h5"]
    with h5py.File(tmp_path / "old/x.h5") as file:
        assert len(file.attrs["text"]) == 3000
