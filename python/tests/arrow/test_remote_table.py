"""Tables of Flight servers, through this package's client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pyarrow as pa
import pytest
from flight_server import Server
from hyperchunk.arrow import RemoteTable

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are stopped by signals")

ROWS = 100_000
SENT = {"local": "no"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to serve."""
    folder = tmp_path_factory.mktemp("remote")
    random = np.random.default_rng(1)
    with h5py.File(folder / "a.h5", "w") as file:
        group = file.create_group("particles")
        for name in ("x", "y", "px"):
            group[name] = random.random(ROWS, dtype="f4") * 100
        group["id"] = np.arange(ROWS, dtype="i4")
        file.create_dataset("packed", data=np.arange(1000), chunks=(100,), compression="gzip")
        file["empty"] = np.zeros((0, 3), dtype="u2")
        file["names"] = ["one", "two"]
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """A server of the folder."""
    with Server(folder) as running:
        yield running


@pytest.mark.parametrize("options", [{}, SENT])
def test_remote_tables(server: Server, folder: Path, options: dict[str, str]) -> None:
    """The client requests only the needed columns and rows."""
    url = f"{server.url}/a.h5"
    table = RemoteTable(url, "/particles", storage_options=options)
    assert table.is_local is not bool(options)
    assert (len(table), table.column_names) == (ROWS, ["id", "px", "x", "y"])
    with h5py.File(folder / "a.h5") as file:
        found = table.to_pyarrow()
        assert all(np.array_equal(found[name], file["particles"][name][...]) for name in found.column_names)
        chosen = table[100:50_000][["y", "id"]]
        assert chosen.query == {
            "v": 1, "file": "a.h5", "table": "/particles", "columns": ["y", "id"], "rows": [100, 50_000],
        }  # fmt: skip
        assert chosen[5:7].to_pyarrow()["id"].to_pylist() == [105, 106]
        px = file["particles/px"][...]
        filtered = RemoteTable(url, "particles", ["id"], where=[["px", ">", 99]], rows=(10, None)).to_reader()
        assert filtered.schema.names == ["id"]
        assert np.array_equal(filtered.read_all()["id"], np.flatnonzero(px[10:] > 99) + 10)
    assert pa.table(RemoteTable(url, "empty")).num_rows == 0
    for wrong in (
        {"table": "nope"},
        {"table": "particles", "columns": ["nope"]},
        {"table": "", "where": [["x", ">", 1]]},
    ):
        with pytest.raises(hyperchunk.HyperchunkError):
            RemoteTable(url, **wrong)
    with pytest.raises(hyperchunk.HyperchunkError, match="no column"):
        table.select(["nope"])
    with pytest.raises(hyperchunk.HyperchunkError, match="does not answer"):
        RemoteTable("grpc://127.0.0.1:9/a.h5", network={"retries": 0})
    with pytest.raises(hyperchunk.HyperchunkError, match="must be yes or no"):
        RemoteTable(url, storage_options={"local": "perhaps"})


def test_what_lies_here_is_looked_at_here(folder: Path, tmp_path: Path) -> None:
    """Columns stored in Arrow's representation are mapped, not sent: they stay available after the server has ended."""
    with Server(folder) as server:
        table = RemoteTable(f"{server.url}/a.h5", "/particles", ["x", "id"], rows=(10, 20))
        assert [table.is_local, table[2:4].is_local, table["x"].is_local] == [True] * 3
        for name, options in (("packed", {}), ("particles", {"where": [["x", ">", 1]]})):
            assert not RemoteTable(f"{server.url}/a.h5", name, **options).is_local
        sent = RemoteTable(f"{server.url}/a.h5", "/particles", storage_options=SENT)
    assert table.to_pyarrow()["id"].to_pylist() == list(range(10, 20))
    with pytest.raises(pa.ArrowException, match="does not answer"):
        sent.to_pyarrow()


def test_another_file_is_not_taken_for_the_servers(tmp_path: Path) -> None:
    """A file that replaced the served one is not used: the server reports the change, or returns its own data."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(10)
    with Server(tmp_path) as server:
        table = RemoteTable(f"{server.url}/a.h5", "x")
        assert table.is_local
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["x"] = np.arange(10) * 2
        (tmp_path / "b.h5").rename(tmp_path / "a.h5")
        assert not table.is_local
        assert table.to_pyarrow()["x"].to_pylist() == list(range(0, 20, 2))
        again = RemoteTable(f"{server.url}/a.h5", "x")
        assert again.is_local
        (tmp_path / "a.h5").unlink()
        os.mkfifo(tmp_path / "a.h5")
        with pytest.raises(pa.ArrowException, match="it is a pipe"):
            again.to_pyarrow()
