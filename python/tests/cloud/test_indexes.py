"""Indexes and commands on files in a real S3 server: correct data, and the number of requests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import s3server
from fresh import HYPERCHUNK

Command = Callable[..., subprocess.CompletedProcess[str]]
URL = "s3://tests/indexed.h5"


def write(path: Path, seed: int) -> np.ndarray:
    """Makes a file with a dataset of many chunks, deep in groups, followed by a contiguous one."""
    random = np.random.default_rng(seed)
    data = random.integers(0, 1000, (400, 100), dtype="<i4")
    with h5py.File(path, "w") as file:
        for number in range(6):
            file.create_dataset(f"before/n{number}", data=random.random(20_000))
        file.create_dataset("some/where/data", data=data, chunks=(5, 50), compression="gzip")
        file.create_dataset("rows", data=np.arange(200_000.0))
        for number in range(40):
            file["rows"].attrs[f"note {number}"] = f"text {number}"
    return data


@pytest.fixture
def indexed(server: s3server.Server, tmp_path: Path) -> np.ndarray:
    """A new version of the object."""
    data = write(tmp_path / "indexed.h5", 1)
    server.put("tests", "indexed.h5", tmp_path / "indexed.h5")
    return data


@pytest.fixture
def run(proxy: s3server.Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command with the server's environment, in its own folder."""
    monkeypatch.setenv("HYPERCHUNK_INDEX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3server.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3server.SECRET)
    monkeypatch.chdir(tmp_path)
    reach = ["--endpoint", proxy.endpoint, "--region", s3server.REGION]

    def start(*words: object) -> subprocess.CompletedProcess[str]:
        proxy.reset()
        command = [str(HYPERCHUNK), *map(str, words), *reach]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return start


def requests(proxy: s3server.Proxy) -> int:
    return proxy.stats()["requests"]


def test_one_round_trip(indexed: np.ndarray, run: Command, proxy: s3server.Proxy) -> None:
    """With an explicit index, only data are requested; with one in the cache, one request more."""
    assert run("index", URL, "-o", "own.hcindex").returncode == 0
    assert run("index", URL).returncode == 0
    proxy.set(latency="20ms")
    for option, more in ((("--index", "own.hcindex"), 0), ((), 1)):
        done = run("get", URL, "some/where/data", "-o", "part.npy", "--overwrite", "--slice", "100:110", *option)
        assert (done.returncode, done.stderr) == (0, "")
        np.testing.assert_array_equal(np.load("part.npy"), indexed[100:110])
        # The data may come with the opening.
        assert proxy.stats()["chain"] in (1, 1 + more)
        done = run("get", URL, "rows", "-o", "rows.npy", "--overwrite", "--slice", "5000:5100", *option)
        np.testing.assert_array_equal(np.load("rows.npy"), np.arange(5000.0, 5100.0))
        assert requests(proxy) in (1, 1 + more)
        assert run("ls", "-rl", URL, *option).returncode == 0
        assert requests(proxy) == more


def test_index_beside_the_object(
    indexed: np.ndarray, run: Command, proxy: s3server.Proxy, server: s3server.Server
) -> None:
    assert run("index", URL, "-o", "own.hcindex").returncode == 0
    server.put("tests", "indexed.h5.hcindex", Path("own.hcindex"))
    done = run("get", URL, "some/where/data", "-o", "all.npy", "--index", "beside")
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(np.load("all.npy"), indexed)


def test_the_object_changes(
    indexed: np.ndarray, run: Command, proxy: s3server.Proxy, server: s3server.Server, tmp_path: Path
) -> None:
    """After the object changes, an automatic index is ignored, and an explicit one is an error. Data never mix."""
    assert run("index", URL).returncode == 0
    assert run("index", URL, "-o", "own.hcindex").returncode == 0
    other = write(tmp_path / "other.h5", 2)
    server.put("tests", "indexed.h5", tmp_path / "other.h5")
    done = run("get", URL, "some/where/data", "-o", "found.npy")
    assert (done.returncode, "the index is not used" in done.stderr) == (0, True)
    np.testing.assert_array_equal(np.load("found.npy"), other)
    assert not np.array_equal(other, indexed)
    done = run("get", URL, "some/where/data", "-o", "named.npy", "--index", "own.hcindex")
    assert (done.returncode, Path("named.npy").exists()) == (1, False)
    assert "make the index again" in done.stderr


def test_references_and_check(indexed: np.ndarray, run: Command) -> None:
    assert run("index", URL, "--kerchunk", "refs.json").returncode == 0
    refs = json.loads(Path("refs.json").read_text())["refs"]
    assert refs["some/where/data/0.0"][0] == URL
    assert run("index", URL, "--from-kerchunk", "refs.json", "-o", "taken.hcindex").returncode == 0
    done = run("get", URL, "some/where/data", "-o", "all.npy", "--index", "taken.hcindex")
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(np.load("all.npy"), indexed)
    report = json.loads(run("check", URL, "--json").stdout)
    assert report["datasets"]["/some/where/data"]["chunks"] == 160
    assert run("check", "s3://tests/nothing.h5").returncode == 1
