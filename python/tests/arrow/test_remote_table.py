"""Tables of Flight servers, through this package's client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pyarrow as pa
import pytest
from flight_server import Server
from hyperchunk.arrow import RemoteTable
from hyperchunk.exceptions import ChangedError

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
    """A file that replaced the served one is not used: a table is one version of its file."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(10)
    with Server(tmp_path) as server:
        table = RemoteTable(f"{server.url}/a.h5", "x")
        assert table.is_local
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["x"] = np.arange(10) * 2
        (tmp_path / "b.h5").rename(tmp_path / "a.h5")
        assert not table.is_local
        for old in (table, table[2:4], table.select(["x"])):
            with pytest.raises(pa.ArrowException, match="the file has changed: open it again"):
                pa.table(old)
            with pytest.raises(ChangedError, match="the file has changed: open it again"):
                old.to_pyarrow()
        again = RemoteTable(f"{server.url}/a.h5", "x")
        assert again.is_local
        (tmp_path / "a.h5").unlink()
        os.mkfifo(tmp_path / "a.h5")
        with pytest.raises(pa.ArrowException, match="it is a pipe"):
            again.to_pyarrow()


@pytest.mark.parametrize("where", [None, [["x", ">", 0]]])
def test_rows_of_two_versions_are_not_mixed(tmp_path: Path, where: Any) -> None:
    """Not with the row count of one and the values of the other either."""
    for number, rows in ((0, 10), (1, 7)):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = np.arange(1, rows + 1) + 100 * number
    with Server(tmp_path) as server:
        (tmp_path / "0.h5").rename(tmp_path / "a.h5")
        table = RemoteTable(f"{server.url}/a.h5", "x", where=where, storage_options=SENT)
        parts = [table[:4], table[4:]]
        assert parts[0].to_pyarrow()["x"].to_pylist() == [1, 2, 3, 4]
        (tmp_path / "1.h5").rename(tmp_path / "a.h5")
        with pytest.raises(ChangedError, match="the file has changed: open it again") as caught:
            parts[1].to_pyarrow()
        assert isinstance(caught.value, pa.ArrowException)
        again = RemoteTable(f"{server.url}/a.h5", "x", where=where, storage_options=SENT)
        assert again.to_pyarrow()["x"].to_pylist() == list(range(101, 108))


def test_rows_are_given_as_for_local_tables(folder: Path, server: Server) -> None:
    url, ids = f"{server.url}/a.h5", np.arange(ROWS)
    for rows in (slice(3, 8), slice(-5, None), slice(None, 4), slice(8, 3)):
        assert RemoteTable(url, "particles", ["id"], rows).to_pyarrow()["id"].to_pylist() == ids[rows].tolist()
    for rows in (range(2, 6), (2, 6), (np.int64(2), np.uint8(6))):
        assert RemoteTable(url, "particles", ["id"], rows).to_pyarrow()["id"].to_pylist() == [2, 3, 4, 5]
    with pytest.raises(ValueError, match="consecutive"):
        RemoteTable(url, "particles", rows=slice(0, 10, 2))


def test_values_of_filters(tmp_path: Path) -> None:
    values = np.array([0.1, 1e23, np.nan, np.inf, -np.inf, 5e-324, 2.0, 1.7976931348623157e308])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = values
    with Server(tmp_path) as server:

        def found(*condition: Any) -> list[float]:
            return RemoteTable(f"{server.url}/a.h5", "x", where=[list(condition)]).to_pyarrow()["x"].to_pylist()

        for value in (*values[~np.isnan(values)], 0.1, float("inf"), np.float32(2), np.int16(2)):
            assert found("x", "==", value) == [float(value)]
            assert found("x", "in", np.array([value])) == [float(value)]
        assert found("x", "in", {2.0, 0.1}) == [0.1, 2.0]
        assert found("x", "in", range(1, 4)) == [2.0]
        assert found("x", "in", (np.float64(2), 1e23)) == [1e23, 2.0]
        assert len(found("x", ">=", -np.inf)) == 7
        with pytest.raises(ValueError, match="cannot filter by NaN"):
            found("x", "==", np.nan)
        for wrong in (np.datetime64("2020-01-01"), b"x", 1j, object()):
            with pytest.raises(TypeError, match="cannot filter by"):
                found("x", "==", wrong)
