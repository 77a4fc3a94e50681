"""Arrow Flight: writing by clients, and reading the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from flight_server import Server, ticket

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are stopped by signals")


@pytest.fixture
def writable(tmp_path: Path) -> Iterator[tuple[Path, fl.FlightClient, str]]:
    """A writable served folder, and a client for it."""
    folder = tmp_path / "written"
    (folder / "sub").mkdir(parents=True)
    with Server(folder, options=("--writable",)) as server, server.client() as client:
        yield folder, client, server.url


def put(client: fl.FlightClient, data: pa.Table, /, **command: Any) -> dict[str, Any]:
    """Writes a table; returns the result of the commit."""
    writer, results = client.do_put(fl.FlightDescriptor.for_command(json.dumps(command)), data.schema)
    with writer:
        writer.write_table(data, max_chunksize=1000)
        writer.done_writing()
        return dict(json.loads(results.read().to_pybytes()))


def rows_of(count: int, start: int = 0) -> pa.Table:
    """Returns a table of numbers."""
    numbers = np.arange(start, start + count)
    cells = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(numbers, 3).astype("i2")), 3)
    return pa.table({"id": numbers, "x": numbers.astype("f4") / 2, "cell": cells})


@pytest.mark.parametrize("kind", [None, "arrow", "hdf5", "store"])
@pytest.mark.parametrize("group", ["", "a/b"])
def test_new_files(writable: tuple[Path, fl.FlightClient, str], kind: str | None, group: str) -> None:
    """A written table becomes a file that h5py reads, and that is served at once."""
    folder, client, _ = writable
    table = rows_of(5000)
    more = {} if kind is None else {"as": kind}
    about = put(client, table, file="sub/new.h5", table=group, mode="create", **more)
    assert (about["rows"], about["as"]) == (5000, kind or "arrow")
    with h5py.File(folder / "sub" / "new.h5") as file:
        where = file[group] if group else file
        assert np.array_equal(where["id"][...], table["id"])
        assert np.array_equal(where["x"][...], table["x"])
        assert where["cell"].shape == (5000, 3)
        assert np.array_equal(where["cell"][:, 1], table["id"])
    names = table.column_names
    found = client.do_get(ticket("sub/new.h5", group, columns=names, cells="list", version=about["version"])).read_all()
    assert found.to_pydict() == table.to_pydict()
    if about["as"] == "arrow":
        assert pa.ipc.open_file(folder / "sub" / "new.h5").read_all()["id"].to_pylist() == table["id"].to_pylist()
    with pytest.raises(pa.ArrowException, match="exists already"):
        put(client, table, file="sub/new.h5", table=group, mode="create")
    if kind != "store":
        with pytest.raises(pa.ArrowException, match="expected a sharded store"):
            put(client, table, file="sub/new.h5", table=group)
        put(client, rows_of(3), file="sub/new.h5", table=group, mode="replace", **more)
        assert client.do_get(ticket("sub/new.h5", group)).read_all().num_rows == 3


def test_texts_and_no_rows(writable: tuple[Path, fl.FlightClient, str]) -> None:
    """Columns that Arrow and HDF5 cannot share in one file become plain HDF5."""
    folder, client, _ = writable
    about = put(client, pa.table({"text": ["a", "", "é"], "n": [1, 2, 3]}), file="texts.h5")
    assert about["as"] == "hdf5"
    with h5py.File(folder / "texts.h5") as file:
        assert file["text"].asstr()[...].tolist() == ["a", "", "é"]
    put(client, rows_of(0), file="none.h5", table="t")
    with h5py.File(folder / "none.h5") as file:
        assert file["t/id"].shape == (0,)
    with pytest.raises(pa.ArrowException, match="null"):
        put(client, pa.table({"n": [1, None]}), file="nulls.h5")
    assert sorted(path.name for path in folder.iterdir()) == ["none.h5", "sub", "texts.h5"]


def test_appending(writable: tuple[Path, fl.FlightClient, str]) -> None:
    """Rows are appended to a store, each put as a commit, while others follow it."""
    folder, client, _ = writable
    first = put(client, rows_of(100), file="run.h5", table="t", **{"as": "store"})
    assert first["epoch"] == 1
    command = json.dumps({"file": "run.h5", "table": "t", "columns": ["id"], "follow": {"every_ms": 20}})
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(command))
    found: list[int] = []
    for turn in range(1, 4):
        about = put(client, rows_of(50, 100 + 50 * (turn - 1)), file="run.h5", table="t", mode="append")
        assert (about["epoch"], about["rows"]) == (turn + 1, 50)
        while len(found) < 100 + 50 * turn:
            found += reader.read_chunk().data["id"].to_pylist()
    writer.close()
    assert found == list(range(250))
    for epoch, rows in ((1, 100), (3, 200)):
        assert client.do_get(ticket("run.h5", "t", epoch=epoch)).read_all().num_rows == rows
    for table in (
        rows_of(1).select(["id"]),
        pa.table({"id": [1], "x": [1.0], "cell": [1]}),
        rows_of(1).rename_columns(list("abc")),
    ):
        with pytest.raises(pa.ArrowException):
            put(client, table, file="run.h5", table="t", mode="append")
    with pytest.raises(pa.ArrowException, match="no file"):
        put(client, rows_of(1), file="other.h5", mode="append")
    with h5py.File(folder / "run.h5") as file:
        assert file["t/id"].shape == (250,)


def test_many_append(writable: tuple[Path, fl.FlightClient, str]) -> None:
    """Clients append without coordination: no row is lost, and columns stay consistent."""
    _, client, _ = writable
    put(client, rows_of(0), file="many.h5", **{"as": "store"})
    wrong: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(3):
                put(client, rows_of(10, number * 100 + turn * 10), file="many.h5", mode="append")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    found = client.do_get(ticket("many.h5", "", columns=["id", "x"])).read_all()
    assert sorted(found["id"].to_pylist()) == sorted(n * 100 + m for n in range(6) for m in range(30))
    assert np.array_equal(found["x"], found["id"].to_numpy() / 2)


def test_a_file_with_a_second_layout_is_no_store(writable: tuple[Path, fl.FlightClient, str]) -> None:
    folder, client, _ = writable
    table = rows_of(10)
    put(client, table, file="a.h5", **{"as": "hdf5"})
    hyperchunk.restructure(folder / "a.h5", "/cell", order="column")
    before = (folder / "a.h5").read_bytes()
    with pytest.raises(pa.ArrowException, match="expected a sharded store"):
        put(client, table, file="a.h5", mode="append")
    assert (folder / "a.h5").read_bytes() == before
    assert put(client, rows_of(3), file="a.h5", mode="replace", **{"as": "hdf5"})["rows"] == 3


def test_bad_puts(writable: tuple[Path, fl.FlightClient, str]) -> None:
    """An interrupted or invalid put leaves no files."""
    folder, client, url = writable
    table = rows_of(10)
    before = sorted(folder.rglob("*"))
    for command in (
        {"file": "../out.h5"},
        {"file": "/tmp/out.h5"},
        {"file": "none/out.h5"},
        {"file": "sub"},
        {"file": ""},
        {"file": "a.h5\0"},
        {"file": "a.h5", "mode": "x"},
        {"file": "a.h5", "as": "x"},
        {"file": "a.h5", "table": "a/../b"},
        {"file": "a.h5", "nope": 1},
        {"table": "x"},
        {"file": "a.h5", "mode": "append"},
    ):
        with pytest.raises(pa.ArrowException):
            put(client, table, **command)
    for names in (["a", "a", "b"], ["a/b", "c", "d"], ["", "c", "d"], [".", "c", "d"]):
        for kind in ("arrow", "hdf5", "store"):
            with pytest.raises(pa.ArrowException):
                put(client, table.rename_columns(names), file="a.h5", **{"as": kind})
    # Interrupted by the client.
    code = """
import json, os, sys
import pyarrow as pa, pyarrow.flight as fl
table = pa.table({"x": list(range(100000))})
command = json.dumps({"file": "cut.h5", "as": sys.argv[2]})
writer, _ = fl.FlightClient(sys.argv[1]).do_put(fl.FlightDescriptor.for_command(command), table.schema)
for _ in range(20):
    writer.write_table(table)
os._exit(0)
"""
    for kind in ("arrow", "hdf5", "store"):
        subprocess.run([sys.executable, "-c", code, url, kind], check=True)
    deadline = time.monotonic() + 60
    while sorted(folder.rglob("*")) != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sorted(folder.rglob("*")) == before
    assert put(client, table, file="good.h5")["rows"] == 10


def test_what_cannot_be_wanted_is_not_read(writable: tuple[Path, fl.FlightClient, str]) -> None:
    """Parts of a store without matching values are not read, so a damaged one causes no error."""
    folder, client, _ = writable
    for turn in range(3):
        put(client, rows_of(1000, turn * 1000), file="zones.h5", **{} if turn else {"as": "store"})
    logs = sorted((folder / "zones.h5.d").glob("*.log"))
    for log in logs:
        data = log.read_bytes()
        if (place := data.find(np.arange(1000, dtype="i8").tobytes())) >= 0:
            log.write_bytes(data[: place + 80] + b"\xff" * 8 + data[place + 88 :])
            break
    else:
        pytest.fail("no log has the first rows")
    wanted = ticket("zones.h5", "", columns=["id", "x"], where=[["id", ">=", 1500], ["x", "<", 1000]])
    assert client.do_get(wanted).read_all()["id"].to_pylist() == list(range(1500, 2000))
    assert client.do_get(ticket("zones.h5", "", columns=["id"], where=[["id", ">", 5000]])).read_all().num_rows == 0
    for where in ([["id", "<", 10]], [["x", ">=", 0]], [["id", "!=", 5]]):
        with pytest.raises(pa.ArrowException):
            client.do_get(ticket("zones.h5", "", columns=["id"], where=where)).read_all()
