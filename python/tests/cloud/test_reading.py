"""Reading from a real S3 server: the same values as from the local file, in few requests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server

Put = Callable[..., Path]
OpenS3 = Callable[..., hyperchunk.File]
Numbers = dict[str, np.ndarray]
CHUNKS = {"chunks": (20, 100), "compression": "gzip", "shuffle": True}


def test_rows_of_a_contiguous_dataset_that_do_not_start_at_0(put: Put, open_s3: OpenS3) -> None:
    # Here h5coro 1.0.7 returns zeros.
    put("rows.h5", x=np.arange(1000.0))
    dataset = open_s3("rows.h5")["x"]
    np.testing.assert_array_equal(dataset[500:510], np.arange(500.0, 510.0))
    np.testing.assert_array_equal(dataset[990:], np.arange(990.0, 1000.0))
    np.testing.assert_array_equal(dataset[3::200], np.arange(3.0, 1000.0, 200))


@pytest.mark.parametrize("options", [None, CHUNKS])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_as_from_the_local_file(
    options: dict[str, object] | None, libver: str, server: s3server.Server, tmp_path: Path, open_s3: OpenS3
) -> None:
    random = np.random.default_rng(6)
    path = tmp_path / "layout.h5"
    with h5py.File(path, "w", libver=libver) as file:
        for beam in ("a", "b/c"):
            for number in range(12):
                data = random.integers(0, 250, (60, 200)).astype(("<i4", ">i2", "u1")[number % 3])
                dataset = file.create_dataset(f"{beam}/data{number}", data=data, **(options or {}))
                for extra in range(10):
                    dataset.attrs[f"note {extra}"] = f"text {number * extra}"
        file["a"].attrs["list"] = np.arange(5)
    server.put("tests", "layout.h5", path)
    ours = open_s3("layout.h5")
    with h5py.File(path) as theirs:
        found: list[str] = []
        ours.visititems(lambda name, _: found.append(name))
        expected: list[str] = []
        theirs.visit(expected.append)
        assert sorted(found) == sorted(expected)
        datasets = [name for name in found if isinstance(theirs[name], h5py.Dataset)]
        for name in found:
            assert {k: str(v) for k, v in ours[name].attrs.items()} == {
                k: str(v) for k, v in theirs[name].attrs.items()
            }
        for name, values in ours.read_many(dict.fromkeys(datasets, np.s_[5:50, ::3])).items():
            np.testing.assert_array_equal(values, theirs[name][5:50, ::3])
        for name, values in zip(datasets, ours.read_many(datasets), strict=True):
            np.testing.assert_array_equal(values, theirs[name][...])


def test_what_was_asked_is_counted(put: Put, open_s3: OpenS3, proxy: s3server.Proxy, numbers: Numbers) -> None:
    put("counted.h5", CHUNKS, **numbers)
    file = open_s3("counted.h5")
    file.read_many(list(numbers))
    stats, seen = file.stats(), proxy.stats()
    assert stats is not None
    assert stats.requests == seen["requests"]
    assert stats.bytes == seen["bytes"]
    assert stats.retries == 0
    # On a busy machine, a request of a round may start after another one of it has ended.
    assert 0 < stats.rounds <= stats.requests
    assert 0 < seen["chain"] <= stats.requests


def test_many_slices_are_one_plan(put: Put, open_s3: OpenS3, proxy: s3server.Proxy) -> None:
    cube = np.random.default_rng(3).random((40, 64, 64), dtype="f4")
    put("cube.h5", {"chunks": (1, 32, 32)}, cube=cube)
    random = np.random.default_rng(5)
    places = [(int(a), slice(int(b), int(b) + 9), slice(3, 60)) for a, b in random.integers(0, 40, (100, 2))]
    # A read ahead would end after the counts are reset on a busy machine.
    dataset = open_s3("cube.h5", gap=0, read_ahead=0)["cube"]
    dataset[0, 0, 0]
    proxy.set(latency="25ms")
    proxy.reset()
    for place, values in zip(places, dataset.read_slices(places), strict=True):
        np.testing.assert_array_equal(values, cube[place])
    stats = proxy.stats()
    # No chunk is fetched twice, though slices share chunks.
    assert stats["bytes"] <= cube.nbytes
    assert stats["chain"] <= 12  # a hundred without batching


def test_eight_threads_wait_together(put: Put, open_s3: OpenS3, proxy: s3server.Proxy) -> None:
    random = np.random.default_rng(2)
    arrays = {f"d{number}": random.random(20_000) for number in range(8)}
    put("threads.h5", {"chunks": (5000,)}, **arrays)
    file = open_s3("threads.h5", read_ahead=0)
    proxy.set(latency="60ms")
    proxy.reset()

    def equal(name: str) -> bool:
        return np.array_equal(file[name][...], arrays[name])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(equal, arrays))
    stats = proxy.stats()
    assert stats["max_in_flight"] >= 4
    # A single thread would wait at least eight times.
    assert stats["chain"] <= 7


def test_a_bound_on_requests_at_once(put: Put, open_s3: OpenS3, proxy: s3server.Proxy, numbers: Numbers) -> None:
    put("bounded.h5", {"chunks": (2, 300)}, **numbers)
    small = {"gap": 0, "over_read": 0.0, "largest_request": 4096, "first_read": 4096, "block": 4096, "read_ahead": 0}
    file = open_s3("bounded.h5", concurrency=3, **small)
    proxy.set(latency="2ms")
    np.testing.assert_array_equal(file["chunked"][...], numbers["chunked"])
    stats = proxy.stats()
    assert stats["requests"] > 20
    assert stats["max_in_flight"] <= 3
