"""Random histories of stores (model_machine.py), and known differences from the model.

200 histories, always the same; ``HYPERCHUNK_MODEL_HISTORIES=20000`` makes others, and prints the one that fails.
``HYPERCHUNK_MODEL_OFF="compact w"`` leaves rules and operations out; with ``HYPERCHUNK_MODEL_RAW=1`` the history is
printed without shrinking.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from store.model_machine import Stores

HISTORIES = int(os.environ.get("HYPERCHUNK_MODEL_HISTORIES", "0"))


@pytest.fixture(scope="module")
def machine() -> Iterator[type[Stores]]:
    """The machine, with its programs started."""
    Stores.start()
    yield Stores
    Stores.stop()


@pytest.mark.slow
@pytest.mark.timeout(0 if HISTORIES else 600)
def test_histories_end_as_the_model_says(machine: type[Stores]) -> None:
    raw = bool(os.environ.get("HYPERCHUNK_MODEL_RAW"))
    how = settings(
        max_examples=HISTORIES or 200,
        stateful_step_count=20,
        deadline=None,
        derandomize=not HISTORIES,
        database=None,
        print_blob=True,
        phases=[Phase.generate] if raw else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=how)


def test_a_hard_link_to_a_committed_object_is_a_name_of_it(machine: type[Stores], tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {})
    with run.writer() as writer:
        writer.structure["s"] = "text"
    run.commit()
    session = machine.connector.session()
    session("open", str(path), "r+")
    session("do", ("hard", "/h", "/s"))
    session("close")
    session.end()
    run.commit()
    with h5py.File(path) as file:
        assert h5py.h5o.get_info(file["h"].id).addr == h5py.h5o.get_info(file["s"].id).addr


def test_a_writer_that_uses_two_names_of_one_object_leaves_one(machine: type[Stores], tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with store.create(path, {"d": store.Dataset((2,), "i4"), "g/inner": store.Dataset((2,), "i4")}).writer() as writer:
        writer["d"][:] = 1
    store.open(path).commit()
    session = machine.connector.session()
    session("open", str(path), "r+")
    session("do", ("hard", "/h", "/d"))
    session("do", ("hard", "/k", "/g"))
    session("close")
    session.end()
    store.open(path).commit()
    with store.open(path).writer() as writer:
        writer["h"].attrs["a"] = 1
        writer["d"].attrs["b"] = 2
        writer["d"][0], writer["h"][1] = 8, 9
        for name in ("k", "g"):
            writer.structure.create_group(f"{name}/of {name}")
            writer.structure[name].attrs[name] = 3
    made = store.open(path).commit()
    assert made is not None
    assert made.conflicts == []
    with hyperchunk.open(path) as file, h5py.File(path) as stock:
        for one in (file, stock):
            assert one["h"] == one["d"]
            assert dict(one["h"].attrs) == {"a": 1, "b": 2}
            np.testing.assert_array_equal(one["d"][...], [8, 9])
            assert one["k"] == one["g"]
            assert sorted(one["k"]) == ["inner", "of g", "of k"]
            assert dict(one["g"].attrs) == {"k": 3, "g": 3}


def test_a_resize_to_the_present_extent_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    store.create(path, {"d": store.Dataset((4,), "u1", chunks=(3,), maxshape=(8,), fillvalue=1)})
    with store.open(path).writer() as writer:
        writer["d"][:] = 2
    store.open(path).commit()
    slow, fast = store.open(path).writer(), store.open(path).writer()
    fast["d"].resize((0,))
    fast.close()
    store.open(path).commit()
    slow["d"].resize((4,))
    slow.close()
    store.open(path).commit()
    with hyperchunk.open(path) as file:
        np.testing.assert_array_equal(file["d"][...], [1, 1, 1, 1])


@pytest.mark.filterwarnings("ignore::hyperchunk.store.StoreWarning")
def test_writers_of_a_store_that_was_created_and_of_one_that_was_opened_before_the_first_epoch(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/d": store.Dataset((4,), "i4")})
    early = run.writer()
    early["/d"][:2] = 1
    with store.open(path).writer() as writer:
        writer["/d"][2:] = 2
    store.open(path).commit()
    early.close()
    store.open(path).commit()
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["d"][...], [1, 1, 2, 2])


def test_a_file_begun_anew_shows_nothing_of_the_one_before(machine: type[Stores], tmp_path: Path) -> None:
    """A file overwritten by a new one shows none of the old data, not even in a dataset with the same definition."""
    path = tmp_path / "a.h5"
    spec = {"dtype": "u1", "shape": (2,), "maxshape": (None,), "chunks": (3,), "compression": None, "fill": 1}
    run = store.create(path, {})
    with run.writer() as writer:
        writer.structure.attrs["a"] = 1
    run.commit()
    session = machine.connector.session()
    session("open", str(path), "r+")
    session("do", ("dataset", "/d", spec))
    session("close")
    session.end()
    store.open(path).commit()
    with store.open(path).writer() as writer:
        writer["/d"][1:2] = 22
    store.open(path).commit()
    session = machine.connector.session()
    session("open", str(path), "w")
    session("do", ("dataset", "/d", spec))
    assert session("contents")["/d"][1][-1] == bytes([1, 1])
    session("close")
    session.end()
    store.open(path).commit()
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["d"][...], [1, 1])
