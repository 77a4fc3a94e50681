"""Stores created by the ranks of a communicator together."""

import pickle
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hyperchunk import store

RANKS = 4


class Comm:
    """The used subset of mpi4py's communicators, between threads."""

    def __init__(self, rank: int, boxes: list["queue.Queue[bytes]"]) -> None:
        self.rank, self.size, self.boxes = rank, len(boxes), boxes

    def isend(self, value: Any, dest: int, tag: int) -> "Comm":
        """Sends without blocking."""
        assert tag
        self.boxes[dest].put(pickle.dumps(value))
        return self

    def wait(self) -> None:
        """Returns at once; the communicator is its own request."""

    def iprobe(self, source: int, tag: int) -> bool:
        """Returns whether there is a message."""
        assert (source, bool(tag)) == (0, True)
        return not self.boxes[self.rank].empty()

    def recv(self, source: int, tag: int) -> Any:
        """Returns the next message."""
        assert (source, bool(tag)) == (0, True)
        return pickle.loads(self.boxes[self.rank].get_nowait())


def on_all(work: Callable[[Comm], Any]) -> list[Any]:
    """Returns the result or exception of each rank."""
    boxes: list[queue.Queue[bytes]] = [queue.Queue() for _ in range(RANKS)]
    found: list[Any] = [None] * RANKS

    def run(rank: int) -> None:
        try:
            found[rank] = work(Comm(rank, boxes))
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def write(path: Path, value: int, **options: Any) -> list[Any]:
    """Writes each rank's part of a store; rank 0 commits."""
    datasets = {"a": store.Dataset((RANKS * 10,), "i4"), "b": store.Dataset((3,), "f8")}
    made: list[store.Store] = []

    def work(comm: Comm) -> bytes:
        run = store.create_all(comm, path, datasets, **options)
        if comm.rank == 0:
            made.append(run)
        with run.writer() as writer:
            writer.write("a", comm.rank * 10, np.arange(10) + value + 100 * comm.rank)
        return writer.close()

    found = on_all(work)
    if made:
        epoch = made[0].commit(found)
        assert epoch is not None
        assert len(epoch.writers) == RANKS
        assert not epoch.uncommitted
        assert not epoch.conflicts
    return found


def check(path: Path, value: int) -> None:
    """Checks that plain HDF5 reads the data of all ranks."""
    with h5py.File(path) as file:
        expected = np.concatenate([np.arange(10) + value + 100 * rank for rank in range(RANKS)])
        np.testing.assert_array_equal(file["a"][...], expected)
        assert file["b"].shape == (3,)


def test_all_ranks_write_to_one_store(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    write(path, 1)
    check(path, 1)
    assert len(list((tmp_path / "run.h5.d").iterdir())) == RANKS + 1


def test_what_is_there_is_an_error_on_all_ranks(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    write(path, 1)
    assert all(isinstance(error, OSError) for error in write(path, 2))
    check(path, 1)
    assert len(list((tmp_path / "run.h5.d").glob("*.log"))) == RANKS
    write(path, 2, overwrite=True)
    check(path, 2)


def test_attributes_and_groups_are_there(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    write(path, 3, attrs={"title": "a run"}, groups={"about": {"version": 3}})
    check(path, 3)
    with h5py.File(path) as file:
        assert file.attrs["title"] == "a run"
        assert file["about"].attrs["version"] == 3


def test_a_store_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "run.h5"
    path.parent.mkdir()
    # A folder cannot be replaced.
    path.mkdir()
    datasets = {"a": store.Dataset(3, "i4")}
    found = on_all(lambda comm: store.create_all(comm, path, datasets))
    assert all(isinstance(error, OSError) for error in found)
    with pytest.raises(OSError, match=r"run\.h5"):
        store.create(path, datasets, overwrite=True)
    assert list(path.parent.iterdir()) == [path]
