"""Files that are closed, replaced or forked while they are written."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import ChangedError, HyperchunkError

ROWS = 400


def start(path: Path, mode: str) -> tuple[hyperchunk.File, hyperchunk.Dataset]:
    """Opens a file with a dataset."""
    if mode == "r+":
        with h5py.File(path, "w") as file:
            file.create_dataset("x", (ROWS, 100), "i4", chunks=(1, 100))
        file = hyperchunk.open(path, mode)
        return file, file["x"]
    file = hyperchunk.open(path, mode)
    return file, file.create_dataset("x", (ROWS, 100), "i4", chunks=(1, 100))


@pytest.mark.parametrize("flushes", [False, True])
def test_elements_that_were_written_while_another_thread_flushes_are_there(flushes: bool, tmp_path: Path) -> None:
    """Contiguous elements: their bytes wait for the commit."""
    path, names = tmp_path / "a.h5", "abcd"
    with h5py.File(path, "w") as file:
        for name in names:
            file[name] = np.zeros(8, "i8")
    last = dict.fromkeys(names, 0)
    wrong: list[tuple[str, int, int]] = []
    until = time.monotonic() + 3
    with hyperchunk.open(path, "r+", sync="never") as edited:

        def flush() -> None:
            while time.monotonic() < until:
                edited.flush()

        def write(name: str) -> None:
            data = edited[name]
            while time.monotonic() < until and not wrong:
                value = last[name] + 1
                data[value % 8] = value
                if flushes:
                    edited.flush()
                last[name] = value
                if (found := int(data[value % 8])) != value:
                    wrong.append((name, value, found))

        threads = [threading.Thread(target=flush), *(threading.Thread(target=write, args=(name,)) for name in names)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    expected = {}
    for name, value in last.items():
        expected[name] = [max(one for one in range(value - 7, value + 1) if one % 8 == place) for place in range(8)]
    with h5py.File(path) as written:
        assert {name: written[name][:].tolist() for name in names} == expected


def test_a_small_commit_does_not_pass_by_the_journal_of_another_editor(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["a"] = file.attrs["b"] = 0
    with hyperchunk.open(path, "r+", locking=False) as first:
        first.attrs["a"] = 1
        first.flush()
        program = f"import hyperchunk\nwith hyperchunk.open({str(path)!r}, 'r+') as file: file.attrs['b'] = 2"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "cannot create the journal: File exists" in done.stderr
        first.attrs["a"] = 3
    with h5py.File(path) as written:
        assert dict(written.attrs) == {"a": 3, "b": 0}


@pytest.mark.parametrize("mode", ["w", "r+"])
def test_rows_that_were_written_while_another_thread_closes_are_there(mode: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for trial in range(30):
        path = tmp_path / f"{trial}.h5"
        file, data = start(path, mode)
        done: list[int] = []

        def write(first: int, data: hyperchunk.Dataset = data, done: list[int] = done) -> None:
            for row in range(first, ROWS, 2):
                try:
                    data[row] = row + 1
                except (HyperchunkError, ValueError):
                    return
                done.append(row)

        threads = [threading.Thread(target=write, args=(first,)) for first in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(random.random() * 0.004)
        file.close()
        for thread in threads:
            thread.join()
        with h5py.File(path) as written:
            found = written["x"][...]
        assert [row for row in done if not (found[row] == row + 1).all()] == []


@pytest.mark.parametrize("mode", ["w", "r+"])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_was_replaced_or_deleted_is_not_committed(mode: str, replaced: bool, tmp_path: Path) -> None:
    file, data = start(tmp_path / "a.h5", mode)
    data[0] = 1
    file.flush()
    if replaced:
        with h5py.File(tmp_path / "b.h5", "w") as other:
            other["y"] = [1]
        (tmp_path / "b.h5").replace(tmp_path / "a.h5")
    else:
        (tmp_path / "a.h5").unlink()
    data[1] = 2
    for ends in (file.flush, file.close):
        with pytest.raises(ChangedError, match="another program replaced or deleted it"):
            ends()
    file._opened.discard()
    if replaced:
        with h5py.File(tmp_path / "a.h5") as other:
            assert list(other) == ["y"]


def refusals(file: hyperchunk.File, data: hyperchunk.Dataset, ends: str) -> int:
    """Returns how many of some uses are refused to a forked child."""
    uses = [lambda: data.__setitem__(slice(10, 50), 7), file.flush, lambda: file.create_group("g")]
    uses += {"close": [file.close], "discard": [file._opened.discard], "exit": []}[ends]
    count = 0
    for use in uses:
        try:
            use()
        except HyperchunkError as error:
            count += "forked" in str(error)
    return count


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("mode", ["w", "r+"])
@pytest.mark.parametrize("ends", ["close", "discard", "exit"])
def test_a_forked_child_does_not_write(mode: str, ends: str, tmp_path: Path) -> None:
    file, data = start(tmp_path / "a.h5", mode)
    data[:10] = 1
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = refusals(file, data, ends)
        finally:
            os._exit(code)
    data[50:100] = 2
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (4 if ends == "close" else 3)
    data[100] = 3
    file.close()
    with h5py.File(tmp_path / "a.h5") as written:
        found = written["x"][:, 0]
    assert (found[:10] == 1).all()
    assert (found[10:50] == 0).all()
    assert (found[50:100] == 2).all()
    assert found[100] == 3
