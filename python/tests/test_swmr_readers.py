"""Readers that follow a file while another program writes it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest

ROUNDS = 1000

WRITER = textwrap.dedent("""
    import sys, h5py, numpy as np
    path, rounds, filters = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    options = {"compression": "gzip", "shuffle": True} if filters == "gzip" else {}
    with h5py.File(path, "w", libver="latest") as file:
        x = file.create_dataset("g/x", (0, 4), "i8", maxshape=(None, 4), chunks=(3, 4), **options)
        y = file.create_dataset("y", (0, 0), "i4", maxshape=(None, None), chunks=(8, 8))
        total = file.create_dataset("total", (1,), "i8")
        file.swmr_mode = True
        print("ready", flush=True)
        for number in range(rounds):
            x.resize((number + 1, 4))
            x[number] = np.arange(4) + 10 * number + 1
            x.flush()
            if number % 10 == 0:
                side = number // 10 + 1
                y.resize((side, side))
                y[...] = side
                y.flush()
            total[0] = number + 1
            total.flush()
        print("done", flush=True)
        sys.stdin.readline()
""")


def expected(rows: int) -> np.ndarray:
    return np.arange(4)[None, :] + 10 * np.arange(rows)[:, None] + 1


@pytest.mark.parametrize("filters", ["none", "gzip"])
def test_reader_follows_a_writer(tmp_path: Path, filters: str) -> None:
    path = tmp_path / "a.h5"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(ROUNDS), filters],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with pytest.raises(hyperchunk.exceptions.LockedError, match="swmr=True"):
        hyperchunk.open(path)
    file = hyperchunk.open(path, swmr=True)
    assert file.swmr_mode
    data, side, total = file["g/x"], file["y"], file["total"]
    seen, rounds, sizes = 0, 0, set()
    end = time.time() + 60
    while seen < ROUNDS:
        assert time.time() < end
        rounds += 1
        data.refresh()
        rows = len(data)
        assert rows >= seen
        seen = rows
        sizes.add(rows)
        values = data[:]
        # A row is visible once its extent was flushed.
        assert np.array_equal(values, expected(rows)), rows
        total.refresh()
        side.refresh()
        if side.shape[0]:
            assert side.shape[0] == side.shape[1]
            # Its values are overwritten in place.
            assert side[:].min() >= side.shape[0]
        if rounds % 50 == 0:
            file.refresh()
            # Objects opened after that include the data written meanwhile, too.
            assert len(data) <= len(file["g/x"])
    assert len(sizes) > 10
    process.stdin.write("\n")
    process.stdin.close()
    assert process.wait() == 0
    process.stdout.close()
    file.refresh()
    assert total[0] == ROUNDS
    assert np.array_equal(file["g/x"][:], expected(ROUNDS))
    assert np.array_equal(h5py.File(path)["g/x"][:], expected(ROUNDS))


def test_case_of_one_process(tmp_path: Path) -> None:
    path = tmp_path / "swmr.h5"
    writer = h5py.File(path, "w", libver="latest")
    data = writer.create_dataset("x", (1, 4), "i4", maxshape=(None, 4), chunks=(1, 4))
    # Not yet in SWMR mode: the file is locked.
    with pytest.raises(BlockingIOError):
        hyperchunk.open(path, swmr=True)
    writer.swmr_mode = True
    data.flush()
    reader = hyperchunk.open(path, swmr=True)
    x = reader["x"]
    data.resize((3, 4))
    data[1:] = 7
    data.flush()
    assert x.shape == (1, 4)
    x.refresh()
    assert x.shape == (3, 4) == reader["x"].shape
    assert x[-1].tolist() == [7] * 4
    stock = h5py.File(path, "r", swmr=True)["x"]
    data.resize((5, 4))
    data.flush()
    stock.refresh()
    x.refresh()
    assert stock.shape == (5, 4) == x.shape
    assert np.array_equal(stock[:], x[:])
    writer.close()
    x.refresh()
    assert np.array_equal(stock[:], x[:])


@pytest.mark.parametrize("swmr", [False, True])
def test_writer_of_ours_is_followed(tmp_path: Path, swmr: bool) -> None:
    path = tmp_path / "live.h5"
    writer = hyperchunk.open(path, "w")
    data = writer.create_dataset("g/x", (0, 4), "i4", maxshape=(None, 4), chunks=(1, 4))
    reader = None
    for number in range(50):
        data.append(np.full((1, 4), number, "i4"))
        writer.flush()
        if reader is None:
            reader = hyperchunk.open(path, swmr=swmr)
            x, group = reader["g/x"], reader["g"]
        else:
            assert len(x) == number
            with pytest.raises(hyperchunk.exceptions.ChangedError, match="refresh"):
                x[:]
            (x if number % 2 else reader).refresh()
        assert np.array_equal(x[:, 0], np.arange(number + 1))
        assert np.array_equal(group["x"][:, 0], np.arange(number + 1))
    writer.close()


def test_refresh_of_what_is_not_there_any_more(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = 1, 2
    file = hyperchunk.open(path)
    x, y = file["x"], file["y"]
    with h5py.File(path, "r+", locking=False) as other:
        del other["x"]
    with pytest.raises(KeyError, match="x"):
        x.refresh()
    y.refresh()
    assert y[()] == 2
    file.refresh()
    assert list(file) == ["y"]
    path.unlink()
    with pytest.raises(FileNotFoundError):
        file.refresh()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.refresh()


def test_refresh_of_other_sources(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
    with path.open("rb") as raw:
        file = hyperchunk.open(raw)
        x = file["x"]
        assert x.shape == (3,)
        with h5py.File(path, "r+") as other:
            del other["x"]
            other["x"] = np.arange(5000)
        file.refresh()
        assert np.array_equal(x[:], np.arange(5000))
    memory = hyperchunk.File.from_bytes(path.read_bytes())
    memory.refresh()
    memory["x"].refresh()
    assert memory["x"][7] == 7
    with hyperchunk.open(tmp_path / "new.h5", "w") as writer:
        writer["x"] = 5
        writer.refresh()
        writer["x"].refresh()
        assert writer["x"][()] == 5


def test_structure_that_stays_torn_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", (10,), "i4", maxshape=(None,), chunks=(2,))[:] = 5
        address = h5py.h5o.get_info(file["x"].id).addr
        file.swmr_mode = True
        file.flush()
        copy = path.with_name("b.h5")
        copy.write_bytes(path.read_bytes())
    reader = hyperchunk.open(copy, swmr=True)
    x = reader["x"]
    with copy.open("r+b") as raw:
        raw.seek(address + 20)
        raw.write(b"\xff\xff")
    with pytest.raises(hyperchunk.exceptions.CorruptError, match="read 100 times"):
        x.refresh()
