"""Datasets that are followed while another program extends them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from hyperchunk.exceptions import ChangedError, LockedError, NotFoundError, ObjectNotFoundError
from hyperchunk.following import Follower

# Rows of `number * 7 + column`; `sys.argv`: path, rows, pause, and what the program does between rows.
COMMON = """
    import sys, time, h5py, hyperchunk, numpy as np
    path, rows, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    def row(number, width=4):
        return number * 7 + np.arange(width)
    def ready():
        print("ready", flush=True)
"""
SWMR = """
    with h5py.File(path, "w", libver="latest") as file:
        made = {
            "array": dict(maxshape=(None, 4), chunks=(3, 4)),
            "one": dict(maxshape=(None, 4), chunks=(1, 4)),
            "gzip": dict(maxshape=(None, 4), chunks=(5, 4), compression="gzip", shuffle=True, fletcher32=True),
            "tree": dict(maxshape=(None, None), chunks=(4, 4)),
            "fixed": dict(maxshape=(rows, 4), chunks=(6, 4)),
        }
        data = {name: file.create_dataset(f"g/{name}", (0, 4), "i8", **how) for name, how in made.items()}
        file.swmr_mode = True
        ready()
        for number in range(rows):
            for one in data.values():
                one.resize(number + 1, 0)
                one[number] = row(number)
                one.flush()
            time.sleep(pause)
"""
FLUSHED = """
    with h5py.File(path, "w", locking=False, **eval(sys.argv[4])) as file:
        x = file.create_dataset("g/x", (0, 4), "i8", maxshape=(None, 4), chunks=(5, 4), **eval(sys.argv[5]))
        file.flush()
        ready()
        for number in range(rows):
            x.resize(number + 1, 0)
            x[number] = row(number)
            file.flush()
            time.sleep(pause)
"""
REOPENED = """
    opened = hyperchunk.open if sys.argv[4] == "ours" else h5py.File
    with opened(path, "w") as file:
        file.create_dataset("g/x", (0, 4), "i8", maxshape=(None, 4), chunks=(5, 4))
    ready()
    number = 0
    while number < rows:
        try:
            with opened(path, "r+") as file:
                x = file["g/x"]
                x.resize(number + 1, 0)
                x[number] = row(number)
        except OSError:
            time.sleep(0.001)
            continue
        number += 1
        time.sleep(pause)
"""
OURS = """
    with hyperchunk.open(path, "w") as file:
        x = file.create_dataset("g/x", (0, 4), "i8", maxshape=(None, 4), chunks=(5, 4))
        file.flush()
        ready()
        for number in range(rows):
            x.append(row(number)[None])
            file.flush()
            time.sleep(pause)
"""
REPLACED = """
    import os
    ready()
    for number in range(1, rows + 1):
        with h5py.File(path + ".new", "w") as file:
            file["g/x"] = np.arange(number)[:, None] * 7 + np.arange(4)
        os.replace(path + ".new", path)
        time.sleep(pause)
"""


def started(program: str, path: Path, rows: int, pause: float, *more: str) -> subprocess.Popen[str]:
    text = textwrap.dedent(COMMON) + textwrap.dedent(program)
    words = [sys.executable, "-c", text, str(path), str(rows), str(pause), *more]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    process.stdout.close()
    return process.wait(60)


def expected(start: int, stop: int) -> np.ndarray:
    return np.arange(start, stop)[:, None] * 7 + np.arange(4)


def checked(follower: Follower, last: int | None = None) -> int:
    """Checks blocks as they come, up to the row `last`; returns the number of rows."""
    start = follower.position
    for block in follower:
        assert len(block) > 0
        np.testing.assert_array_equal(block, expected(start, start + len(block)))
        start += len(block)
        if start == last:
            follower.stop()
    return start


@pytest.mark.parametrize("name", ["array", "one", "gzip", "tree", "fixed"])
def test_swmr_writer_until_it_closes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.h5"
    process = started(SWMR, path, 200, 0.002)
    with hyperchunk.open(path, swmr=True) as file:
        follower = file[f"g/{name}"].follow(start=0)
        assert checked(follower) == 200 == follower.position
        # The dataset itself is as it was opened.
        assert len(file[f"g/{name}"]) <= 200
    assert ended(process) == 0


def test_swmr_writer_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for wait in (0.05, 0.11, 0.2):
        path.unlink(missing_ok=True)
        process = started(SWMR, path, 100_000, 0.0)
        with hyperchunk.open(path, swmr=True) as file:
            threading.Timer(wait, process.kill).start()
            rows = checked(file["g/gzip"].follow(start=0, timeout=3))
            assert rows > 0
            assert ended(process) == -signal.SIGKILL
            # Everything in the file is seen.
            file.refresh()
            assert len(file["g/gzip"]) == rows
            # The writer goes from dataset to dataset: it may have ended before or after any of them.
            for name, most in (("array", rows + 1), ("one", rows + 1), ("tree", rows)):
                assert checked(file[f"g/{name}"].follow(start=0, timeout=0)) in (most - 1, most)


@pytest.mark.parametrize("filters", ["{}", "{'compression': 'gzip', 'shuffle': True}"])
@pytest.mark.parametrize("libver", ["{}", "{'libver': 'latest'}"])
def test_plain_file_with_flushes(tmp_path: Path, libver: str, filters: str) -> None:
    path = tmp_path / "a.h5"
    process = started(FLUSHED, path, 200, 0.004, libver, filters)
    with hyperchunk.open(path, locking=False, ignore_locks=True) as file:
        # With the latest format, the mark in the superblock shows that the writer has closed the file.
        last = None if "latest" in libver else 200
        assert checked(file["g/x"].follow(start=0, timeout=60), last) == 200
    assert ended(process) == 0


@pytest.mark.parametrize("whose", ["h5py", "ours"])
def test_file_that_is_opened_for_each_row(tmp_path: Path, whose: str) -> None:
    path = tmp_path / "a.h5"
    process = started(REOPENED, path, 60, 0.01, whose)
    while True:
        try:
            file = hyperchunk.open(path)
            break
        except LockedError:
            time.sleep(0.001)
    with file:
        assert checked(file["g/x"].follow(start=0, timeout=30), 60) == 60
    assert ended(process) == 0


def test_file_of_our_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for swmr in (False, True):
        path.unlink(missing_ok=True)
        process = started(OURS, path, 100, 0.005)
        with hyperchunk.open(path, swmr=swmr) as file:
            assert checked(file["g/x"].follow(start=0, timeout=20)) == 100
        assert ended(process) == 0


def test_file_that_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["g/x"] = expected(0, 1)
    with hyperchunk.open(path) as reader:
        follower = reader["g/x"].follow(timeout=30)
        process = started(REPLACED, path, 40, 0.02)
        assert checked(follower, 40) == 40
    assert ended(process) == 0


def test_locked_file_is_waited_for_and_then_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(3), maxshape=(None,), chunks=(2,))
    reader = hyperchunk.open(path)
    follower = reader["x"].follow(patience=0.3)
    impatient = reader["x"].follow(start=0, timeout=0.1)
    # The follower's file is not locked.
    with h5py.File(path, "r+") as file:
        with pytest.raises(LockedError, match=r"unable to lock file.*beyond row 3.*start=3"):
            next(follower)
        with pytest.raises(StopIteration):
            next(follower)
        with pytest.raises(LockedError, match="beyond row 0"):
            next(impatient)
        file["x"].resize((5,))
        file["x"][3:] = [3, 4]
    reader.refresh()
    assert [block.tolist() for block in reader["x"].follow(start=3, timeout=0.1)] == [[3, 4]]


def test_dataset_that_becomes_shorter_or_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"

    def make(rows: int | None) -> None:
        with h5py.File(path, "w") as file:
            file["y"] = 1
            if rows is not None:
                file["x"] = np.arange(rows)

    make(5)
    reader = hyperchunk.open(path)
    follower = reader["x"].follow(start=0, patience=0.2)
    assert next(follower).tolist() == [0, 1, 2, 3, 4]
    make(3)
    with pytest.raises(ChangedError, match=r"expected at least 5 rows, got 3.*a\.h5"):
        next(follower)
    make(5)
    reader.refresh()
    follower = reader["x"].follow(patience=0.2)
    make(None)
    with pytest.raises(ObjectNotFoundError, match="beyond row 5"):
        next(follower)
    make(5)
    reader.refresh()
    follower = reader["x"].follow(patience=0.2)
    path.unlink()
    with pytest.raises(NotFoundError, match=r"a\.h5.*beyond row 5"):
        next(follower)
    make(5)
    reader.refresh()
    follower = reader["x"].follow(patience=0.2)
    with h5py.File(path, "w") as file:
        file["x"] = 7
    with pytest.raises(ChangedError, match="another dataset"):
        next(follower)


def test_structure_that_stays_torn(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=np.arange(6), maxshape=(None,), chunks=(2,))
        address = h5py.h5o.get_info(file["x"].id).addr
    reader = hyperchunk.open(path)
    follower = reader["x"].follow(start=0, patience=0.2, max_rows=2)
    assert next(follower).tolist() == [0, 1]
    with path.open("r+b") as raw:
        raw.seek(address + 20)
        raw.write(b"\xff\xff")
    with pytest.raises(hyperchunk.exceptions.CorruptError, match=r"beyond row 2: expected a file that can be read"):
        list(follower)


def test_parts_of_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    values = np.arange(70).reshape(7, 10)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, maxshape=(None, None), chunks=(3, 4))
        file.create_dataset("text", data=["a", "bc", "d"], maxshape=(None,), dtype=h5py.string_dtype())
    with hyperchunk.open(path) as reader:
        x = reader["x"]
        assert list(x.follow(timeout=0.05)) == []
        blocks = list(x.follow(start=2, timeout=0.1, max_rows=2))
        np.testing.assert_array_equal(np.concatenate(blocks), values[2:])
        assert max(map(len, blocks)) == 2
        for axis in (1, -1):
            follower = x.follow(axis, start=3, timeout=0.1, max_rows=4)
            np.testing.assert_array_equal(np.concatenate(list(follower), axis=1), values[:, 3:])
            assert (follower.axis, follower.position, follower.name) == (1, 10, "/x")
        assert list(x.follow(start=100, timeout=0.05)) == []
        [text] = reader["text"].follow(start=1, timeout=0.1)
        assert text.tolist() == [b"bc", b"d"]


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"], file["scalar"], file["empty"] = np.arange(3), 1, h5py.Empty("f4")
    with hyperchunk.open(path, "r+") as file, pytest.raises(NotImplementedError, match="being written"):
        file["x"].follow()
    with hyperchunk.open(path) as file:
        x = file["x"]
        for axis in (1, -2):
            with pytest.raises(ValueError, match=f"axis {axis}"):
                x.follow(axis)
        for name in ("scalar", "empty"):
            with pytest.raises(ValueError, match=name):
                file[name].follow()
        for options in ({"start": -1}, {"timeout": -1}, {"poll": float("nan")}, {"max_rows": 0}, {"patience": -1}):
            with pytest.raises(ValueError, match=next(iter(options))):
                x.follow(**options)
    with pytest.raises(ValueError, match="closed"):
        x.follow()
    with pytest.raises(NotImplementedError, match="memory"):
        hyperchunk.File.from_bytes(path.read_bytes())["x"].follow()


def test_stop(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(4)
    x = hyperchunk.open(path)["x"]
    follower = x.follow(start=0)
    threading.Timer(0.1, follower.stop).start()
    assert [len(block) for block in follower] == [4]
    with x.follow(start=0, max_rows=1) as follower:
        assert next(follower) == [0]
    assert list(follower) == []


def test_coroutines(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    process = started(SWMR, path, 100, 0.002)
    names = ["array", "one", "gzip", "tree", "fixed"] * 10

    async def follow(file: hyperchunk.File, name: str) -> int:
        start = 0
        async for block in file[f"g/{name}"].follow(start=0, poll=0.01):
            np.testing.assert_array_equal(block, expected(start, start + len(block)))
            start += len(block)
        return start

    async def run() -> list[int]:
        with hyperchunk.open(path, swmr=True) as file:
            waiting = file["g/array"].follow(start=1000, timeout=60)
            asyncio.get_running_loop().call_later(0.3, waiting.stop)
            assert [block async for block in waiting] == []
            return await asyncio.gather(*(follow(file, name) for name in names))

    assert asyncio.run(run()) == [100] * len(names)
    assert ended(process) == 0


def test_external_link_to_a_file_in_swmr_mode(tmp_path: Path) -> None:
    """As areaDetector and Eiger files have it: a master file, and files with the frames."""
    path, master = tmp_path / "data.h5", tmp_path / "master.h5"
    with h5py.File(master, "w", libver="latest") as file:
        file["entry/data"] = h5py.ExternalLink("data.h5", "/g/one")
        file.swmr_mode = True
    process = started(SWMR, path, 100, 0.003)
    with hyperchunk.open(master, swmr=True) as file:
        assert checked(file["entry/data"].follow(start=0)) == 100
    assert ended(process) == 0


def test_virtual_dataset_grows_with_its_source(tmp_path: Path) -> None:
    path, whole = tmp_path / "data.h5", tmp_path / "whole.h5"
    layout = h5py.VirtualLayout((1, 4), "i8", maxshape=(None, 4))
    source = h5py.VirtualSource("data.h5", "g/one", (1, 4), maxshape=(None, 4))
    layout[: h5py.h5s.UNLIMITED, :] = source[: h5py.h5s.UNLIMITED, :]
    with h5py.File(whole, "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    process = started(SWMR, path, 100, 0.01)
    with hyperchunk.open(whole, swmr=True, ignore_locks=True) as file:
        assert checked(file["v"].follow(start=0, timeout=30), 100) == 100
    assert ended(process) == 0


def test_sharded_store(tmp_path: Path) -> None:
    """The rows of each commit; `Store.follow` finds values in what is flushed, before any commit."""
    path = tmp_path / "run.h5"
    run = store.create(path, {"/x": store.Dataset((0, 4), "i8", maxshape=(None, 4), chunks=(5, 4))})
    run.commit()

    def write() -> None:
        for number in range(20):
            with run.writer() as writer:
                writer["x"].resize(number + 1, axis=0)
                writer["x"][number : number + 1] = expected(number, number + 1)
                ticket = writer.close()
            run.commit([ticket])

    with hyperchunk.open(path) as file:
        thread = threading.Thread(target=write)
        thread.start()
        follower = file["x"].follow(timeout=30)
        for block in follower:
            np.testing.assert_array_equal(block, expected(follower.position - len(block), follower.position))
            if follower.position == 20:
                follower.stop()
        assert follower.position == 20
        thread.join()
        with pytest.raises(NotImplementedError, match="epoch 1"):
            hyperchunk.open(path, epoch=1)["x"].follow()
