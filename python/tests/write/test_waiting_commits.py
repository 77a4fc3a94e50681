"""Complete journals beside files that their reader may not write: the file is read as it is after the commit."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store
from hyperchunk.exceptions import HyperchunkError
from redo_journals import interrupt

NOBODY = 65534


def contents(path: Path, opened: Any = h5py.File) -> list[Any]:
    with opened(path, "r") as file:
        read = {name: file[name][()].tolist() for name in file if name != "strings"}
        return [read, file.attrs["state"], sorted(file), file["strings"].asstr()[()].tolist()]


def read_as_other(path: Path) -> Any:
    """Reads a file in a child process, of a user who may not write it."""
    # Whatever the child imports must be there: its user may not see this one's Python.
    with tempfile.TemporaryDirectory() as other:
        warm = Path(other, "warm.h5")
        shutil.copyfile(path, warm)
        with contextlib.suppress(OSError, KeyError):
            contents(warm, hyperchunk.open)
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            found: Any = contents(path, hyperchunk.open)
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        os.write(start, json.dumps(found).encode())
        os._exit(0)
    os.close(start)
    with os.fdopen(end) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that every user may read."""
    made = tmp_path_factory.mktemp("waiting")
    closed = [path for path in [made, *made.parents] if path.stat().st_mode & 0o005 != 0o005]
    modes = [path.stat().st_mode for path in closed]
    for path in closed:
        path.chmod(0o755)
    yield made
    made.chmod(0o755)
    for path, mode in zip(closed, modes, strict=True):
        path.chmod(mode)


def commit(folder: Path, libver: str) -> tuple[Path, bytes, bytes]:
    """Returns a file before and after a commit of an edit."""
    path = folder / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["contiguous"] = np.arange(1000.0)
        file.create_dataset("chunked", data=np.arange(100), chunks=(10,), maxshape=(None,), compression="gzip")
        file.create_dataset("strings", data=["a", "b"], dtype=h5py.string_dtype(), maxshape=(None,), chunks=(4,))
        file.attrs["state"] = "old"
    before = path.read_bytes()
    with hyperchunk.open(path, "r+") as file:
        file.attrs["state"] = "new"
        file["contiguous"][::7] = -1
        file["chunked"].resize(120, axis=0)
        file["chunked"][100:] = 5
        file["strings"].resize(3, axis=0)
        file["strings"][2] = "c"
        file["made"] = [1, 2]
    return path, before, path.read_bytes()


def close(folder: Path) -> None:
    """Takes the right to write from everyone."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)


@pytest.mark.parametrize("applied", [0, 2])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_file_that_cannot_be_written_is_read_as_after_the_commit(libver: str, applied: int, folder: Path) -> None:
    path, before, after = commit(folder, libver)
    expected = contents(path)
    interrupt(path, before, after, applied)
    state = {item.name: item.read_bytes() for item in folder.iterdir()}
    close(folder)
    assert read_as_other(path) == expected
    assert {item.name: item.read_bytes() for item in folder.iterdir()} == state
    # Whoever may write completes it.
    folder.chmod(0o755)
    for item in folder.iterdir():
        item.chmod(0o644)
    with hyperchunk.open(path) as file:
        assert file.attrs["state"] == "new"
    assert path.read_bytes() == after
    assert not path.with_name("a.h5.redo").exists()


def test_an_incomplete_journal_is_ignored(folder: Path) -> None:
    path, before, after = commit(folder, "latest")
    expected = contents(path)
    interrupt(path, before, after)
    journal = path.with_name("a.h5.redo")
    journal.write_bytes(journal.read_bytes()[:-1])
    close(folder)
    found = read_as_other(path)
    assert found != expected
    assert found[1] == "old"


def test_a_file_that_changed_since_is_refused(folder: Path) -> None:
    path, before, after = commit(folder, "latest")
    interrupt(path, before, after)
    with path.open("r+b") as file:
        file.seek(next(at for at in range(len(before)) if before[at] != after[at]))
        file.write(b"\x99")
    close(folder)
    assert "another program changed the file since" in read_as_other(path)


def test_a_journal_that_cannot_be_read_is_an_error(folder: Path) -> None:
    path, before, after = commit(folder, "latest")
    interrupt(path, before, after)
    close(folder)
    path.with_name("a.h5.redo").chmod(0)
    assert "hyperchunk recover" in read_as_other(path)


@pytest.mark.parametrize("applied", [0, 2])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_salvage_gives_the_state_after_the_commit(libver: str, applied: int, folder: Path) -> None:
    path, before, after = commit(folder, libver)
    expected = contents(path)
    interrupt(path, before, after, applied)
    state = {item.name: item.read_bytes() for item in folder.iterdir()}
    report = hyperchunk.salvage(path, folder / "new.h5")
    assert report.whole, report
    assert contents(folder / "new.h5") == expected
    (folder / "new.h5").unlink()
    assert {item.name: item.read_bytes() for item in folder.iterdir()} == state


def test_salvage_tells_of_a_journal_that_it_cannot_use(folder: Path) -> None:
    path, before, after = commit(folder, "latest")
    interrupt(path, before, after)
    journal = path.with_name("a.h5.redo")
    complete = journal.read_bytes()
    journal.write_bytes(complete[:-1])
    report = hyperchunk.salvage(path, folder / "part.h5")
    assert "a.h5.redo" in str(report.damage)
    assert not report.whole
    with h5py.File(folder / "part.h5") as file:
        assert file.attrs["state"] == "old"
    journal.write_bytes(complete)
    with path.open("r+b") as file:
        file.seek(max(at for at in range(len(before)) if before[at] != after[at]))
        file.write(b"\x99")
    report = hyperchunk.salvage(path, folder / "other.h5")
    assert "another program changed the file since" in str(report.damage)
    assert journal.read_bytes() == complete


def test_a_store_is_not_created_beside_the_journal_of_a_file_that_is_gone(folder: Path) -> None:
    path, before, after = commit(folder, "latest")
    interrupt(path, before, after)
    path.unlink()
    for overwrite in (False, True):
        with pytest.raises(HyperchunkError, match="move it beside that file"):
            store.create(path, {"/x": store.Dataset(4, "i4")}, overwrite=overwrite)
    assert [item.name for item in folder.iterdir()] == ["a.h5.redo"]
    # The journal of the file that the store replaces is not applied to the store.
    path.with_name("a.h5.redo").unlink()
    interrupt(path, before, after)
    run = store.create(path, {"/x": store.Dataset(4, "i4")}, overwrite=True)
    assert not path.with_name("a.h5.redo").exists()
    with run.writer() as writer:
        writer["x"][...] = 3
    run.commit()
    with hyperchunk.open(path) as file:
        assert file["x"][:].tolist() == [3] * 4


def test_recover_names_the_journal_of_a_file_that_is_gone(folder: Path) -> None:
    path, before, after = commit(folder, "latest")
    interrupt(path, before, after)
    path.unlink()
    done = subprocess.run([HYPERCHUNK, "recover", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "a.h5.redo" in done.stderr
    assert "move the journal beside its file" in done.stderr


def test_an_index_of_the_file_is_not_used_for_the_commit(folder: Path) -> None:
    path, before, after = commit(folder, "latest")
    expected = contents(path)
    path.write_bytes(before)
    hyperchunk.open(path).close()
    subprocess.run([Path(sys.executable).with_name("hyperchunk"), "index", path], check=True, capture_output=True)
    index = [item for item in folder.iterdir() if item != path]
    assert index
    stat = path.stat()
    # The same file, with the same times: only the journal is new.
    copy = folder / "copy.h5"
    interrupt(copy, before, after)
    journal = shutil.move(copy.with_name("copy.h5.redo"), path.with_name("a.h5.redo"))
    with path.open("ab") as file:
        file.write(copy.read_bytes()[len(before) :])
    copy.unlink()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert Path(journal).exists()
    close(folder)
    assert read_as_other(path) == expected


def test_readers_of_a_file_may_read_its_journal(folder: Path) -> None:
    path, _, _ = commit(folder, "latest")
    for mode, expected in [(0o644, 0o644), (0o640, 0o640), (0o600, 0o600), (0o666, 0o644)]:
        path.chmod(mode)
        with hyperchunk.open(path, "r+") as file:
            file["contiguous"][...] = mode  # more than a sector
            file.flush()
            assert path.with_name("a.h5.redo").stat().st_mode & 0o777 == expected


def test_a_journal_that_the_reader_cannot_delete_stays(folder: Path) -> None:
    """A file that others may write, in a folder where they may not: the commit is read, and applied by nobody twice."""
    path, before, after = commit(folder, "latest")
    expected = contents(path)
    interrupt(path, before, after)
    state = {item.name: item.read_bytes() for item in folder.iterdir()}
    path.chmod(0o666)
    assert read_as_other(path) == expected
    assert {item.name: item.read_bytes() for item in folder.iterdir()} == state


@pytest.mark.parametrize("how", ["w", "pack"])
def test_a_new_file_does_not_get_the_journal_of_the_one_before(how: str, tmp_path: Path) -> None:
    path, before, after = commit(tmp_path, "latest")
    interrupt(path, before, after)
    if how == "w":
        with hyperchunk.open(path, "w") as file:
            file["contiguous"] = np.arange(1000.0)
    else:
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["contiguous"] = np.arange(1000.0)
        done = subprocess.run([HYPERCHUNK, "pack", tmp_path / "b.h5", path, "--overwrite"], check=False)
        assert done.returncode == 0
    assert not path.with_name("a.h5.redo").exists()
    for library in (h5py, hyperchunk):
        with library.File(path) as file:
            assert list(file) == ["contiguous"]
            np.testing.assert_array_equal(file["contiguous"][...], np.arange(1000.0))


def test_the_journal_of_a_file_that_is_gone(tmp_path: Path) -> None:
    path, before, after = commit(tmp_path, "latest")
    interrupt(path, before, after)
    moved, journal = path.rename(tmp_path / "moved.h5"), path.with_name("a.h5.redo")
    kept = journal.read_bytes()
    with pytest.raises(FileExistsError, match="of a file that is no longer there; move it"):
        hyperchunk.open(path, "w")
    assert not path.exists()
    assert journal.read_bytes() == kept
    journal.rename(tmp_path / "moved.h5.redo")
    with hyperchunk.open(path, "w") as file, hyperchunk.open(moved) as completed:
        file["x"] = 1
        assert completed.attrs["state"] == "new"
