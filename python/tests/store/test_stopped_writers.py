"""Writers whose processes ended without closing: a commit names them, and salvage includes what their logs have."""

import multiprocessing
import os
import warnings
from pathlib import Path

import hyperchunk
import numpy as np
import pytest
from hyperchunk import store


def killed(path: Path, rank: int, *, flush: bool) -> None:
    """Writes a million elements, then a small write, and ends without closing."""
    writer = store.open(path).writer()
    first = rank * 1_000_001
    writer["/x"][first : first + 1_000_000] = np.full(1_000_000, rank)
    writer["/x"][first + 1_000_000] = rank
    if flush:
        writer.flush()
    os._exit(0)


@pytest.mark.parametrize("flush", [True, False])
def test_commit_names_the_writers_that_ended_without_closing(flush: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/x": store.Dataset((3_000_003,), "i4", fillvalue=-1)})
    process = multiprocessing.get_context("spawn").Process(target=killed, args=(path, 1), kwargs={"flush": flush})
    process.start()
    process.join()
    assert process.exitcode == 0
    active = run.writer()
    active["/x"][2_000_002:] = 2
    with run.writer() as writer:
        writer["/x"][:1_000_001] = 0
    with pytest.warns(store.StoreWarning, match="ended processes that had not closed theirs") as caught:
        epoch = run.commit()
    # Not the one that may still write.
    assert epoch is not None
    assert len(caught) == 1
    assert active.id not in str(caught[0].message)
    assert all(name in str(caught[0].message) for name in set(epoch.uncommitted) - {active.id})
    active.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run.commit(salvage=True) is not None
    with hyperchunk.open(path) as file:
        values = file["x"][...]
    assert (values[1_000_001:2_000_001] == 1).all()
    # A small write that waited in memory is lost, unless the writer flushed.
    assert values[2_000_001] == (1 if flush else -1)
    assert (values[:1_000_001] == 0).all()
    assert (values[2_000_002:] == 2).all()


def test_commit_that_finds_nothing_new_names_writers_that_ended_without_closing(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/x": store.Dataset((3_000_003,), "i4", fillvalue=-1)})
    process = multiprocessing.get_context("spawn").Process(target=killed, args=(path, 1), kwargs={"flush": False})
    process.start()
    process.join()
    with pytest.warns(store.StoreWarning, match="nothing was committed, although there are data of [0-9a-f]{32}: "):
        assert run.commit() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run.commit(salvage=True) is not None
        # What a killed writer left unfinished is not named again.
        assert run.commit() is None
