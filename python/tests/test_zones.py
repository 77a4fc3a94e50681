"""Queries on plain HDF5 files, with statistics made once beside them."""

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hypothesis import given, settings
from hypothesis import strategies as st
from store.test_query import PREDICATES, check


def run(*words: str | Path, status: int = 0) -> str:
    """Runs the command, checks its exit status, and returns its output."""
    command = [HYPERCHUNK, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_answers_are_those_of_numpy(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("plain") / "a.h5"
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    dtype = np.dtype(data.draw(st.sampled_from(["<f8", ">f4", "i2", ">u8", "u1"])))
    chunks = data.draw(st.sampled_from([None, tuple(2 for _ in shape), tuple(5 for _ in shape)]))
    special = [np.nan, np.inf, -np.inf, -0.0] if dtype.kind == "f" else []
    element = st.one_of(st.integers(0 if dtype.kind == "u" else -5, 40), *[st.just(value) for value in special])
    options: dict[str, Any] = {"fillvalue": data.draw(st.sampled_from([None, 7]))}
    if chunks:
        options |= {"chunks": chunks, "maxshape": tuple(None for _ in shape), "compression": "gzip"}
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", shape, dtype, **options)
        for _ in range(data.draw(st.integers(0, 2))):
            start = [data.draw(st.integers(0, length - 1)) for length in shape]
            box = tuple(slice(at, data.draw(st.integers(at + 1, n))) for at, n in zip(start, shape, strict=True))
            count = int(np.prod([one.stop - one.start for one in box]))
            values = np.array(data.draw(st.lists(element, min_size=count, max_size=count)), dtype)
            dataset[box] = values.reshape([one.stop - one.start for one in box])
    assert hyperchunk.analyze(path).datasets == {"/a": hyperchunk.analyze(path).datasets["/a"]}
    with hyperchunk.open(path) as file:
        box = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in shape)
        for predicate, holds in PREDICATES:
            check(file["a"], predicate, holds)
            check(file["a"], predicate, holds, box)
        whole = file["a"][...].astype("f8")
        for shard in file["a"].zones().top(1):
            assert whole[shard.index] == shard.value


def test_a_file_is_analysed_once_and_little_is_read_then(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    values = np.random.default_rng(1).random((300, 1000))
    values[123, 456] = 7
    with h5py.File(path, "w") as file:
        file["plain"] = values
        file.create_dataset("group/packed", data=values, chunks=(50, 100), compression="gzip")
        file["text"] = "not a number"
    analyzed = hyperchunk.analyze(path)
    assert analyzed.path == Path(f"{path}.hczones")
    assert set(analyzed.datasets) == {"/plain", "/group/packed"}
    assert "/text" in analyzed.left_out
    for name in ("plain", "group/packed"):
        query = hyperchunk.query(path, name, "value > 6")
        assert query.bytes_candidate < values.nbytes / 2
        assert query.read()[0].tolist() == [[123, 456]]
    packed = hyperchunk.open(path)["group/packed"]
    assert packed.query("value > 6").boxes == [(slice(100, 150), slice(400, 500))]
    top = packed.zones().top(1)
    assert (top[0].value, top[0].index) == (7, (123, 456))
    assert top.bytes_scanned < values.nbytes / 100


def test_statistics_of_another_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(100)
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match="hyperchunk analyze"):
        hyperchunk.query(path, "a", "value > 3")
    hyperchunk.analyze(path)
    assert len(hyperchunk.query(path, "a", "value == 3").read()[1]) == 1
    with h5py.File(path, "r+") as file:
        file["a"][5] = 3
    os.utime(path, ns=(1, 1))
    with pytest.raises(hyperchunk.exceptions.HyperchunkError, match="another version"):
        hyperchunk.query(path, "a", "value == 3")
    hyperchunk.analyze(path)
    assert len(hyperchunk.query(path, "a", "value == 3").read()[1]) == 2


def test_damaged_statistics_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.arange(10_000), chunks=(100,))
    place = hyperchunk.analyze(path).path
    whole = place.read_bytes()
    head = 56 + int.from_bytes(whole[12:16], "little")
    for at in range(0, len(whole), 7):
        place.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        # Zstandard has a few bits that change nothing of what is unpacked, whose checksum holds then.
        with contextlib.suppress(hyperchunk.exceptions.HyperchunkError):
            assert hyperchunk.query(path, "a", "value == 77").read()[0].tolist() == [[77]]
            assert at >= head
    for end in range(0, len(whole), 97):
        place.write_bytes(whole[:end])
        with pytest.raises(hyperchunk.exceptions.HyperchunkError):
            hyperchunk.query(path, "a", "value == 77")
    place.write_bytes(whole)
    assert hyperchunk.query(path, "a", "value == 77").read()[0].tolist() == [[77]]


def test_what_lies_elsewhere_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(4)
        layout = h5py.VirtualLayout((4,), "i8")
        layout[:] = h5py.VirtualSource(file["a"])
        file.create_virtual_dataset("v", layout)
    assert "/v" in hyperchunk.analyze(path).left_out
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match="other files"):
        hyperchunk.analyze(path, ["/v"])


def test_the_command_analyses_and_asks(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.arange(1000).reshape(10, 100), chunks=(5, 50))
    assert "4 zones of 1 datasets" in run("analyze", path)
    made = json.loads(run("analyze", path, "/a", "--json"))
    assert made["datasets"] == [{"path": "/a", "zones": 4}]
    assert made["bytes_scanned"] == 8000
    assert "5:10, 50:100" in run("store", "query", path, "/a", "value > 990")
    assert "999 at [9, 99]" in run("store", "query", path, "/a", "--top", "1")
    assert "4 zones" in run("store", "zones", path, "/a")
