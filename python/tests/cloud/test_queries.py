"""Statistics of files in a real S3 server: made once, in the cache folder, and used instead of the data."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import polars as pl
import pyarrow.compute as pc
import pytest
import s3server
from fresh import HYPERCHUNK

Command = Callable[..., subprocess.CompletedProcess[str]]
URL = "s3://tests/waves.h5"
# Bytes that may arrive with the opening of a file.
OPENING_BYTES = 1 << 20


def write(path: Path, peak: float) -> np.ndarray:
    """Makes a file with a dataset of many chunks, a contiguous one, and a table."""
    values = np.random.default_rng(2).random((400, 500), "f4")
    values[321, 123] = peak
    with h5py.File(path, "w") as file:
        file.create_dataset("ocean/h", data=values, chunks=(20, 100), compression="gzip")
        file["ocean/plain"] = values
        for name, kind in (("x", "f8"), ("id", "i8")):
            file.create_dataset(f"t/{name}", data=np.arange(200_000).astype(kind), chunks=(5000,), compression="gzip")
    return values


@pytest.fixture
def values(server: s3server.Server, tmp_path: Path) -> np.ndarray:
    """A new version of the object."""
    found = write(tmp_path / "waves.h5", 7)
    server.put("tests", "waves.h5", tmp_path / "waves.h5")
    return found


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate cache folder."""
    monkeypatch.setenv("HYPERCHUNK_INDEX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run(proxy: s3server.Proxy, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command with the server's environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3server.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3server.SECRET)
    reach = ["--endpoint", proxy.endpoint, "--region", s3server.REGION]

    def start(*words: object) -> subprocess.CompletedProcess[str]:
        proxy.reset()
        command = [str(HYPERCHUNK), *map(str, words), *reach]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    return start


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """Parses the JSON output of a command."""
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_commands_analyse_and_ask(values: np.ndarray, run: Command, proxy: s3server.Proxy, cache: Path) -> None:
    assert "hyperchunk analyze" in run("store", "query", URL, "/ocean/h", "value > 6").stderr
    made = answer(run("analyze", URL, "--json"))
    assert made["bytes_scanned"] == 2 * values.nbytes + 2 * 1_600_000
    place = Path(str(made["zones"]))
    assert (place.parent, place.suffix) == (cache, ".hczones")
    whole = proxy.stats()["bytes"]
    proxy.set(latency="20ms")
    for path in ("/ocean/h", "/ocean/plain"):
        found = answer(run("store", "query", URL, path, "value > 6", "--values", "5", "--json"))
        assert (found["found"], found["values"]) == (1, [{"index": [321, 123], "value": 7.0}])
        assert found["total"] == values.nbytes
    found = answer(run("store", "query", URL, "/ocean/h", "value > 6", "--values", "5", "--json"))
    assert proxy.stats()["bytes"] < whole / 10 + OPENING_BYTES, "one chunk, and what leads to it"
    assert found["bytes_candidate"] == 20 * 100 * 4
    # No data are read at all.
    run("store", "query", URL, "/ocean/h", "value > 8", "--json")
    nothing = proxy.stats()["bytes"]
    top = answer(run("store", "query", URL, "/ocean/h", "--top", "1", "--json"))
    assert top["zones"][0]["index"] == [321, 123]  # type: ignore[index]
    assert proxy.stats()["bytes"] <= nothing + OPENING_BYTES
    assert "80 zones" not in run("store", "zones", URL, "/ocean/plain").stdout
    assert "100 zones" in run("store", "zones", URL, "/ocean/h").stdout


def test_statistics_of_another_object_are_refused(
    values: np.ndarray, run: Command, server: s3server.Server, tmp_path: Path
) -> None:
    assert run("analyze", URL, "/ocean/h").returncode == 0
    assert values[321, 123] == 7
    write(tmp_path / "waves.h5", 9)
    server.put("tests", "waves.h5", tmp_path / "waves.h5")
    done = run("store", "query", URL, "/ocean/h", "value > 6")
    assert done.returncode != 0
    assert "another version" in done.stderr
    assert run("analyze", URL, "/ocean/h").returncode == 0
    found = answer(run("store", "query", URL, "/ocean/h", "value > 8", "--values", "1", "--json"))
    assert found["values"] == [{"index": [321, 123], "value": 9.0}]


def test_python_asks_and_filters_tables(values: np.ndarray, proxy: s3server.Proxy) -> None:
    options = s3server.storage_options(proxy.endpoint)
    analyzed = hyperchunk.analyze(URL, storage_options=options)
    assert analyzed.datasets["/ocean/h"] == 100
    assert analyzed.path.exists()
    indices, found = hyperchunk.query(URL, "/ocean/h", "value > 6", storage_options=options).read()
    assert (indices.tolist(), found.tolist()) == ([[321, 123]], [7])
    assert hyperchunk.query(URL, "/ocean/h", "value > 8", storage_options=options).boxes == []
    with hyperchunk.open(URL, storage_options=options) as file:
        table = file["t"].table()
        proxy.reset()
        # Separate zones are read together.
        asked = pc.field("id").isin([7, 90_000, 199_999])
        assert table.to_dataset().to_table(filter=asked)["x"].to_pylist() == [7, 90_000, 199_999]
        assert table.scanned is not None
        assert table.scanned.bytes_candidate == 3 * 5000 * 16
        assert table.scanned.bytes_scanned < table.scanned.total / 10
        lazy = hyperchunk.scan_hyperchunk(table).filter(pl.col("x") > 199_998)
        assert lazy.collect()["id"].to_list() == [199_999]
        assert table.scanned.bytes_candidate == 5000 * 16
    assert values[321, 123] == 7
