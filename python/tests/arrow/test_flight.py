"""Arrow Flight: tables and files over a network, for any client."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as fl
import pytest
from flight_server import Server, ticket
from fresh import HYPERCHUNK
from hyperchunk import store
from hyperchunk.exceptions import ChangedError, NotFoundError, NotHdf5Error
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redo_journals import interrupt

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are stopped by signals")

ROWS = 100_000
TOKEN = "s3cret-t0ken"


def make(path: Path) -> None:
    """Makes a file with many kinds of columns."""
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        group = file.create_group("particles")
        for name in ("x", "y", "px"):
            group[name] = random.random(ROWS, dtype="f4") * 100
        group["id"] = np.arange(ROWS, dtype="i4")
        file.create_dataset("image", data=random.random((100, 40)), chunks=(7, 13), compression="gzip")
        file.create_dataset("big_endian", data=np.arange(50, dtype=">i8"))
        file["names"] = ["one", "two", "three"]
        compound = np.zeros(20, dtype=[("a", "i2"), ("b", "f8"), ("c", "S5")])
        compound["a"], compound["b"], compound["c"] = np.arange(20), np.arange(20) / 2, b"text"
        file["compound"] = compound
        file["compound"].attrs["unit"] = "m"
        file["reference"] = file["particles"].ref
        file["empty"] = np.zeros((0, 3), dtype="u2")
        vlen = file.create_dataset("ragged", (3,), dtype=h5py.vlen_dtype("i4"))
        vlen[0], vlen[1], vlen[2] = [1], [2, 3], []
        file["enum"] = np.array([0, 1, 1], dtype=h5py.enum_dtype({"no": 0, "yes": 1}, basetype="u1"))
        file.attrs["title"] = "a file"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to serve, with a file outside it that must not be served."""
    base = tmp_path_factory.mktemp("flight")
    folder = base / "served"
    (folder / "sub").mkdir(parents=True)
    make(folder / "a.h5")
    with h5py.File(folder / "sub" / "b.h5", "w") as file:
        file["z"] = np.arange(10.0)
        file["elsewhere"] = h5py.ExternalLink("../../secret.h5", "/secret")
        file["absolute"] = h5py.ExternalLink(str(base / "secret.h5"), "/secret")
    with h5py.File(base / "secret.h5", "w") as file:
        file["secret"] = np.arange(3)
    (base / "secret.txt").write_text("secret")
    (folder / "out.h5").symlink_to(base / "secret.h5")
    (folder / "outside").symlink_to(base)
    (folder / "no.txt").write_text("not HDF5")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """A server without a token."""
    with Server(folder) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[fl.FlightClient]:
    """A client of the server."""
    with server.client() as client:
        yield client


def action(client: fl.FlightClient, kind: str, **body: Any) -> list[bytes]:
    """Returns the results of an action."""
    return [result.body.to_pybytes() for result in client.do_action(fl.Action(kind, json.dumps(body).encode()))]


# Listing.


def test_list(client: fl.FlightClient) -> None:
    """Lists all tables of all files, or the ones that match the criteria."""
    found = {"/".join(part.decode() for part in info.descriptor.path): info for info in client.list_flights()}
    assert found["a.h5/particles"].total_records == ROWS
    assert found["a.h5/particles"].schema.names == ["id", "px", "x", "y"]
    assert {"a.h5/image", "a.h5/compound", "sub/b.h5/z", "a.h5/names"} <= set(found)
    assert not any("secret" in name or "out" in name for name in found)
    for criteria, count in (
        ({"file": "sub/b.h5"}, 1),
        ({"prefix": "sub/"}, 1),
        ({"limit": 3}, 3),
        ({"prefix": "x"}, 0),
    ):
        assert len(list(client.list_flights(json.dumps(criteria).encode()))) >= min(count, 1)
        if "limit" in criteria:
            assert len(list(client.list_flights(json.dumps(criteria).encode()))) == count


def test_info_and_schema(client: fl.FlightClient, folder: Path) -> None:
    """Flight info by path equals flight info by command."""
    by_path = client.get_flight_info(fl.FlightDescriptor.for_path("a.h5", "particles"))
    by_command = client.get_flight_info(fl.FlightDescriptor.for_command(ticket().ticket))
    assert by_path.schema == by_command.schema == client.get_schema(by_path.descriptor).schema
    assert by_path.total_records == ROWS
    assert by_path.ordered
    about = json.loads(by_path.app_metadata)
    assert about["rows"] == ROWS
    # A client on the same machine may map the columns.
    place = about["local"]["columns"]["x"]
    stored = np.fromfile(about["local"]["path"], "<f4", ROWS, offset=place["offset"])
    with h5py.File(folder / "a.h5") as file:
        assert np.array_equal(stored, file["particles/x"][...])
    # The ticket contains the command.
    command = json.dumps({"file": "a.h5", "table": "particles", "columns": ["y"], "rows": [5, 9]})
    info = client.get_flight_info(fl.FlightDescriptor.for_command(command))
    assert info.schema.names == ["y"]
    assert info.total_records == 4
    assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 4


def test_all_tables_as_h5py_has_them(client: fl.FlightClient, folder: Path) -> None:
    """Tables with every kind of column equal h5py's values."""
    with h5py.File(folder / "a.h5") as file:
        table = client.do_get(ticket()).read_all()
        for name in table.column_names:
            assert np.array_equal(table[name].to_numpy(), file["particles"][name][...])
        image = client.do_get(ticket(table="image")).read_all()["image"].combine_chunks()
        assert np.array_equal(image.to_numpy_ndarray(), file["image"][...])
        rows = client.do_get(ticket(table="image", cells="list")).read_all()["image"].combine_chunks()
        assert np.array_equal(rows.flatten().to_numpy().reshape(100, 40), file["image"][...])
        assert client.do_get(ticket(table="names")).read_all()["names"].to_pylist() == ["one", "two", "three"]
        assert client.do_get(ticket(table="big_endian")).read_all()["big_endian"].to_pylist() == list(range(50))
        compound = client.do_get(ticket(table="compound")).read_all()
        assert compound.column_names == ["a", "b", "c"]
        assert np.array_equal(compound["b"].to_numpy(), file["compound"]["b"])
        assert compound["c"].to_pylist() == ["text"] * 20
        assert client.do_get(ticket(table="ragged")).read_all()["ragged"].to_pylist() == [[1], [2, 3], []]
        assert client.do_get(ticket(table="empty")).read_all().num_rows == 0
        names = client.do_get(ticket(table="enum", enums="dictionary")).read_all()["enum"]
        assert names.to_pylist() == ["no", "yes", "yes"]


def test_projection_and_rows(client: fl.FlightClient, folder: Path) -> None:
    """Only the requested columns and rows are returned, in the requested order."""
    table = client.do_get(ticket(columns=["y", "id"], rows=[10, 99_990])).read_all()
    assert table.column_names == ["y", "id"]
    assert np.array_equal(table["id"].to_numpy(), np.arange(10, 99_990))
    assert client.do_get(ticket(rows=[99_990, None])).read_all().num_rows == 10
    assert client.do_get(ticket(rows=[7, 7])).read_all().num_rows == 0
    batches = list(client.do_get(ticket(batch_rows=1000)))
    assert max(chunk.data.num_rows for chunk in batches) <= 1000
    assert sum(chunk.data.num_rows for chunk in batches) == ROWS


# Filters.


def columns() -> pa.Table:
    """Columns with values that are hard to compare."""
    floats = np.array([0.0, -0.0, 1.5, np.nan, np.inf, -np.inf, 0.1, 1e30, 16777217.0, 32.0], dtype="f8")
    with np.errstate(over="ignore"):
        narrow, half = floats.astype("f4"), floats.astype("f2")
    whole = np.array([0, 1, -1, 2**31, -(2**31), 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 32])
    positive = np.array([0, 1, 2, 2**31, 2**32, 2**53, 2**53 + 1, 2**63, 2**64 - 1, 32], dtype="u8")
    small = np.array([0, 1, -1, 127, -128, 5, 6, 7, 8, 32], dtype="i1")
    return pa.table({"f8": floats, "f4": narrow, "f2": half, "i8": whole, "u8": positive, "i1": small})


@pytest.fixture(scope="module")
def compared(folder: Path) -> pa.Table:
    """The same columns, served as `compared.h5`."""
    table = columns()
    with h5py.File(folder / "compared.h5", "w") as file:
        for name in table.column_names:
            file[f"t/{name}"] = table[name].to_numpy()
        file["t/text"] = [b"a", b"b", b"", b"ab", b"B", b"\xc3\xa9", b"z", b"a", b"aa", b"b"]
    return table.append_column("text", [["a", "b", "", "ab", "B", "é", "z", "a", "aa", "b"]])


NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 0.5, -0.5, 32, 32.0, 0.1, 1e30, 1e300, -1e300, 2**53, 2**53 + 1, 2**63 - 1, 2**64 - 1]),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
COMPARISONS = st.one_of(
    st.tuples(st.sampled_from(["f8", "f4", "f2", "i8", "u8", "i1"]), st.sampled_from(list(OPERATORS)), NUMBERS),
    st.tuples(st.sampled_from(["f8", "f4", "i8", "u8", "i1"]), st.just("in"), st.lists(NUMBERS, max_size=5)),
    st.tuples(st.just("text"), st.sampled_from(list(OPERATORS)), st.sampled_from(["a", "b", "", "é", "zz"])),
)
PREDICATES = st.recursive(
    COMPARISONS.map(list),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: {"and": parts}),
        st.lists(inner, max_size=3).map(lambda parts: {"or": parts}),
        inner.map(lambda part: {"not": part}),
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)


def holds(predicate: Any, row: dict[str, Any]) -> bool:
    """Evaluates a predicate in Python, which compares numbers of any type exactly."""
    if isinstance(predicate, dict):
        ((word, parts),) = predicate.items()
        if word == "not":
            return not holds(parts, row)
        return (all if word == "and" else any)(holds(part, row) for part in parts)
    if predicate and isinstance(predicate[0], str):
        name, operator, value = predicate
        if operator == "in":
            return any(row[name] == one for one in value)
        return OPERATORS[operator](row[name], value)
    return all(holds(part, row) for part in predicate)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=PREDICATES)
def test_predicates_are_exact(client: fl.FlightClient, compared: pa.Table, predicate: Any) -> None:
    """Numbers are compared by value, unlike with pyarrow's casts."""
    found = client.do_get(ticket("compared.h5", "t", where=predicate, columns=["i1"])).read_all()
    rows = compared.to_pylist()
    for row in rows:
        row["f4"], row["f2"] = float(row["f4"]), float(row["f2"])
    expected = [row["i1"] for row in rows if holds(predicate, row)]
    assert found["i1"].to_pylist() == expected
    assert found.column_names == ["i1"]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["x", "px", "id"]),
    operator=st.sampled_from(list(OPERATORS)),
    value=st.floats(-10, 110, width=32),
    rows=st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(sorted),
)
def test_predicates_as_pyarrow_has_them(
    client: fl.FlightClient, folder: Path, name: str, operator: str, value: float, rows: list[int]
) -> None:
    """Predicates over many rows, in slices of the table."""
    with h5py.File(folder / "a.h5") as file:
        table = pa.table({key: file["particles"][key][...] for key in ("id", "x", "px")}).slice(
            rows[0], rows[1] - rows[0]
        )
    functions = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    compare = getattr(pc, dict(zip(OPERATORS, functions, strict=True))[operator])
    column = table[name] if name != "id" else pc.cast(table[name], pa.float64())
    expected = table.filter(compare(column, value))
    found = client.do_get(ticket(columns=["id", "x", "px"], where=[[name, operator, value]], rows=rows)).read_all()
    assert found.equals(expected.cast(found.schema))


def test_where_makes_no_sense(client: fl.FlightClient, compared: pa.Table) -> None:
    """An invalid filter is an error with a reason."""
    for where, message in (
        ([["nope", ">", 1]], "nope"),
        ([["f8", "~", 1]], "operator"),
        ([["f8", ">", "text"]], "compared"),
        ([["text", ">", 1]], "compared"),
        ([["f8", ">", None]], "value"),
        ([["f8", ">"]], "operator, value"),
        ({"xor": []}, "and"),
        (5, "expected"),
        ([["f8", ">", [1]]], "value"),
    ):
        with pytest.raises(pa.ArrowException, match=message):
            client.do_get(ticket("compared.h5", "t", where=where)).read_all()


# Files.


def same(one: Any, other: Any) -> None:
    """Checks that two files have the same objects, values and attributes."""
    assert list(one) == list(other)
    assert dict(one.attrs) == dict(other.attrs)
    for name in other:
        if isinstance(other.get(name, getlink=True), h5py.ExternalLink):
            continue
        if isinstance(other[name], h5py.Group):
            same(one[name], other[name])
            continue
        assert one[name].shape == other[name].shape
        assert one[name].dtype == other[name].dtype
        if other[name].dtype != h5py.ref_dtype:
            for left, right in zip(np.ravel(one[name][()]), np.ravel(other[name][()]), strict=True):
                assert np.array_equal(left, right)
        assert dict(one[name].attrs) == dict(other[name].attrs)


def test_files_are_what_they_are(server: Server, folder: Path) -> None:
    """`hyperchunk.open` reads a served file completely."""
    with hyperchunk.open(f"{server.url}/a.h5") as file, h5py.File(folder / "a.h5") as expected:
        same(file, expected)
        assert file[file["reference"][()]].name == "/particles"
        assert np.array_equal(file["image"][3:50:7, ::3], expected["image"][3:50:7, ::3])
        assert file.stats().requests < 40
    with pytest.raises(NotFoundError):
        hyperchunk.open(f"{server.url}/none.h5")
    with pytest.raises(hyperchunk.HyperchunkError):
        hyperchunk.open(f"{server.url}/../secret.h5")
    with pytest.raises(NotHdf5Error):
        hyperchunk.open(f"{server.url}/no.txt")


def test_external_links_stay_within(server: Server, client: fl.FlightClient) -> None:
    """A served file cannot reach files that are not served."""
    with hyperchunk.open(f"{server.url}/sub/b.h5") as file:
        assert file["z"][3] == 3
        for name in ("elsewhere", "absolute"):
            with pytest.raises((KeyError, OSError, hyperchunk.HyperchunkError)):
                file[name]
    for name in ("elsewhere", "absolute"):
        with pytest.raises(pa.ArrowException):
            client.do_get(ticket("sub/b.h5", name)).read_all()


def test_command(server: Server) -> None:
    """`hyperchunk ls` and `get` accept Flight URLs."""
    done = subprocess.run([HYPERCHUNK, "ls", f"{server.url}/a.h5"], capture_output=True, text=True, check=True)
    assert "particles" in done.stdout


def test_bytes(client: fl.FlightClient, folder: Path) -> None:
    """`hyperchunk.read` returns the bytes of a file, `hyperchunk.stat` its size."""
    whole = (folder / "a.h5").read_bytes()
    stat, head = action(client, "hyperchunk.stat", file="a.h5", head=100)
    assert json.loads(stat)["size"] == len(whole)
    assert head == whole[:100]
    ranges = [[10, 20], [5, 5], [0, len(whole)], [len(whole) - 1, len(whole)]]
    found = action(client, "hyperchunk.read", file="a.h5", ranges=ranges, version=json.loads(stat)["version"])
    assert b"".join(found) == b"".join(whole[start:end] for start, end in ranges)
    for bad in ([[0, len(whole) + 1]], [[5, 4]], [[-1, 5]], [[0]], [0, 1], [[0, 2**70]], [[0.5, 1]], "x", None):
        with pytest.raises(pa.ArrowException):
            action(client, "hyperchunk.read", file="a.h5", ranges=bad)


def test_files_that_change(server: Server, client: fl.FlightClient, folder: Path) -> None:
    """Bytes of two versions are never mixed; a new request gets the current version."""
    path = folder / "changing.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros(100_000)
    with hyperchunk.open(f"{server.url}/changing.h5") as file:
        data = file["x"]
        with h5py.File(path, "w") as other:
            other["x"] = np.ones(100_001)
        with pytest.raises(ChangedError):
            data[...]
    assert client.do_get(ticket("changing.h5", "x")).read_all()["x"].to_pylist()[:2] == [1, 1]
    version = json.loads(action(client, "hyperchunk.refresh", file="changing.h5")[0])["version"]
    assert client.do_get(ticket("changing.h5", "x", version=version)).read_all().num_rows == 100_001
    with pytest.raises(pa.ArrowException, match="has changed"):
        client.do_get(ticket("changing.h5", "x", version="other")).read_all()


def test_stores(tmp_path: Path) -> None:
    """A sharded store can be read over the network by both methods."""
    path = tmp_path / "store.h5"
    with (made := store.create(path, {"/x": store.Dataset((1000,), "f8")})).writer() as writer:
        writer["/x"][...] = np.arange(1000.0)
    made.commit([writer.close()])
    with Server(path) as server, server.client() as client:
        with hyperchunk.open(f"{server.url}/store.h5") as file:
            assert np.array_equal(file["x"][...], np.arange(1000.0))
        assert client.do_get(ticket("store.h5", "x")).read_all()["x"].to_pylist() == list(range(1000))


# Access control.

METHODS: dict[str, Callable[[fl.FlightClient], Any]] = {
    "Handshake": lambda client: client.authenticate_basic_token(b"me", b"wrong"),
    "ListFlights": lambda client: list(client.list_flights()),
    "GetFlightInfo": lambda client: client.get_flight_info(fl.FlightDescriptor.for_path("a.h5", "particles")),
    "GetSchema": lambda client: client.get_schema(fl.FlightDescriptor.for_path("a.h5", "particles")),
    "DoGet": lambda client: client.do_get(ticket()).read_all(),
    "DoAction": lambda client: action(client, "hyperchunk.stat", file="a.h5"),
    "ListActions": lambda client: list(client.list_actions()),
    "DoPut": lambda client: _put(client),
    "DoExchange": lambda client: _exchange(client),
}


def _put(client: fl.FlightClient) -> None:
    table = pa.table({"x": [1.0]})
    writer, _ = client.do_put(fl.FlightDescriptor.for_path("new.h5", "t"), table.schema)
    writer.write_table(table)
    writer.close()


def _exchange(client: fl.FlightClient) -> Any:
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_path("a.h5", "particles"))
    try:
        return reader.read_chunk()
    finally:
        writer.close()


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Server]:
    """A server that requires a token."""
    with Server(folder, options=("--writable",), token=TOKEN) as running:
        yield running


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper()])
def test_nothing_without_the_token(guarded: Server, folder: Path, method: str, token: str | None) -> None:
    """No method answers without the token."""
    with guarded.client(token) as client, pytest.raises((pa.ArrowException, OSError)) as caught:
        METHODS[method](client)
    assert "token is missing or wrong" in str(caught.value)
    assert not (folder / "new.h5").exists()


def test_other_methods_and_paths_need_the_token(guarded: Server) -> None:
    """Unserved paths and unknown methods reveal nothing without the token."""
    for path in ("PollFlightInfo", "Nope", "../../etc/passwd"):
        with guarded.client() as client, pytest.raises(pa.ArrowException):
            client.do_action(fl.Action(path, b"")).__next__()


def test_with_the_token(guarded: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token can be sent by a header, a password, an option, or the environment."""
    with guarded.client(TOKEN) as client:
        assert client.do_get(ticket()).read_all().num_rows == ROWS
    with guarded.client() as client:
        header = client.authenticate_basic_token(b"anybody", TOKEN.encode())
        options = fl.FlightCallOptions(headers=[header])
        assert client.do_get(ticket(), options).read_all().num_rows == ROWS
    url = f"{guarded.url}/a.h5"
    with hyperchunk.open(url, storage_options={"token": TOKEN}) as file:
        assert file.attrs["title"] == "a file"
    with pytest.raises(hyperchunk.HyperchunkError, match="token"):
        hyperchunk.open(url)
    with pytest.raises(hyperchunk.HyperchunkError, match="token"):
        hyperchunk.open(url, storage_options={"token": "wrong"})
    monkeypatch.setenv("HYPERCHUNK_TOKEN", TOKEN)
    with hyperchunk.open(url) as file:
        assert file["names"].asstr()[0] == "one"


def test_tokens_are_needed(tmp_path: Path, folder: Path) -> None:
    """A server reachable from outside never starts without a token."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "empty").write_text("\n")
    for options, message in (
        (("--listen=grpc://0.0.0.0:0", "--no-token"), "without a token"),
        ((f"--token-file={tmp_path / 'empty'}",), "token"),
        ((f"--token-file={tmp_path / 'none'}",), "token"),
        (("--listen=http://127.0.0.1:0", "--no-token"), "grpc"),
        (("--listen=grpc+tls://127.0.0.1:0", "--no-token"), "certificate"),
    ):
        with pytest.raises(RuntimeError, match=message):
            Server(folder, options=options)
    with Server(folder, options=(f"--token-file={tmp_path / 'token'}",)) as server, server.client(TOKEN) as client:
        assert list(client.list_actions())
    environment = {name: value for name, value in os.environ.items() if name != "HYPERCHUNK_TOKEN"}
    done = subprocess.run(
        [HYPERCHUNK, "serve", "--flight", folder], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert "--token-file" in done.stderr


# Transports.


def test_unix_sockets(tmp_path: Path, folder: Path) -> None:
    """The server can listen on a Unix socket, which it removes at its end."""
    path = tmp_path / "a socket"
    with Server(folder, options=(f"--listen=grpc+unix://{path}",)) as server:
        assert path.stat().st_mode & 0o777 == 0o600
        with fl.FlightClient(f"grpc+unix://{path}".replace(" ", "%20")) as client:
            for _ in range(3):
                assert client.do_get(ticket()).read_all().num_rows == ROWS
        with hyperchunk.open(f"grpc+unix://{path}?file=a.h5".replace(" ", "%20")) as file:
            assert file["particles/id"][-1] == ROWS - 1
        with pytest.raises(RuntimeError, match="another process listens"):
            Server(folder, options=(f"--listen=grpc+unix://{path}",))
        assert server.stop() == 0
    assert not path.exists()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate for 127.0.0.1, `cert.pem` and `key.pem`."""
    folder = tmp_path_factory.mktemp("tls")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    made += ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "key.pem", "-out", "cert.pem"]
    try:
        subprocess.run(made, cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    return folder


def test_tls(folder: Path, certificate: Path) -> None:
    """TLS, with a certificate that the client trusts."""
    cert = certificate / "cert.pem"
    options = ("--listen=grpc+tls://127.0.0.1:0", f"--cert={cert}", f"--key={certificate / 'key.pem'}")
    with Server(folder, options=options, token=TOKEN) as server:
        with server.client(TOKEN, tls_root_certs=cert.read_bytes()) as client:
            assert client.do_get(ticket()).read_all().num_rows == ROWS
        with server.client(tls_root_certs=cert.read_bytes()) as client, pytest.raises(fl.FlightUnauthenticatedError):
            list(client.list_flights())
        settings_of = {"token": TOKEN, "ca": str(cert)}
        with hyperchunk.open(f"{server.url}/a.h5", storage_options=settings_of) as file:
            assert np.array_equal(file["particles/id"][...], np.arange(ROWS))
        with pytest.raises(hyperchunk.HyperchunkError):
            hyperchunk.open(f"{server.url}/a.h5", storage_options={"token": TOKEN}, network={"retries": 0})
        plain = server.url.replace("grpc+tls", "grpc")
        with pytest.raises(hyperchunk.HyperchunkError):
            hyperchunk.open(f"{plain}/a.h5", storage_options={"token": TOKEN}, network={"retries": 0})


def test_single_files(tmp_path: Path) -> None:
    """A file given on the command line is served by its name, and no other file of its folder."""
    make(tmp_path / "one.h5")
    make(tmp_path / "two.h5")
    with Server(tmp_path / "one.h5") as server, server.client() as client:
        assert client.do_get(ticket("one.h5")).read_all().num_rows == ROWS
        for name in ("two.h5", "one.h5/../two.h5", "one.h5.d/../two.h5", str(tmp_path / "one.h5")):
            with pytest.raises(pa.ArrowException):
                client.do_get(ticket(name)).read_all()
        assert json.loads(action(client, "hyperchunk.list")[0])["files"] == ["one.h5"]


# Failures.


def bad_requests(folder: Path) -> Iterator[tuple[str, Callable[[fl.FlightClient], Any]]]:
    """Yields a thousand invalid requests."""
    random = np.random.default_rng(3)

    def get(body: bytes) -> Callable[[fl.FlightClient], Any]:
        return lambda client: client.do_get(fl.Ticket(body)).read_all()

    def info(body: bytes) -> Callable[[fl.FlightClient], Any]:
        return lambda client: client.get_flight_info(fl.FlightDescriptor.for_command(body))

    def act(kind: str, body: bytes) -> Callable[[fl.FlightClient], Any]:
        return lambda client: list(client.do_action(fl.Action(kind, body)))

    names = ["../secret.h5", "/etc/passwd", "out.h5", "outside/secret.h5", "outside/secret.txt", "sub/../../secret.h5"]
    names += ["", ".", "..", "a.h5\0", "\0", "a.h5/", "//a.h5", "a.h5//x", "sub", "none.h5", "~/x", "a\\b"]
    names += ["%2e%2e/secret.h5", "file:///etc/passwd", "s3://bucket/key", "\u202e", "x" * 5000, str(folder / "a.h5")]
    for name in names:
        for table in ("", "particles", "../..", "/etc"):
            yield name, get(json.dumps({"file": name, "table": table}).encode())
            yield name, info(json.dumps({"file": name, "table": table}).encode())
        yield name, act("hyperchunk.stat", json.dumps({"file": name}).encode())
        yield name, act("hyperchunk.read", json.dumps({"file": name, "ranges": [[0, 1]]}).encode())
        yield name, act("hyperchunk.objects", json.dumps({"file": name}).encode())
        yield name, lambda client, name=name: client.get_flight_info(fl.FlightDescriptor.for_path(name, "x"))
        yield name, lambda client, name=name: client.get_schema(fl.FlightDescriptor.for_path(name))
    tables = ["nope", "particles/nope", "particles/x/y", "x" * 5000, "\0", "particles\0", "./..", "\ud7ff"]
    for table in tables:
        yield table[:10], get(json.dumps({"file": "a.h5", "table": table}).encode())
    wholes: list[Any] = [-1, 2**63, 2**64, 1e300, 0.5, "x", None, [], {}, True]
    for first in wholes:
        for second in wholes:
            if (first, second) != (None, None):
                yield "rows", get(json.dumps({"file": "a.h5", "table": "particles", "rows": [first, second]}).encode())
    for rows in ([0, ROWS + 1], [ROWS + 1, None], [2**64 - 1, None], [5, 4]):
        yield "rows", get(json.dumps({"file": "a.h5", "table": "particles", "rows": rows}).encode())
    for columns_ in (["nope"], ["x", "nope"], [1], "x", [None], [["x"]], {}, ["x" * 9999], ["x"] * 70_000):
        yield "columns", get(json.dumps({"file": "a.h5", "table": "particles", "columns": columns_}).encode())
    deep = "[" * 100_000 + "]" * 100_000
    for where in (
        deep,
        '{"not":' * 5000 + "1" + "}" * 5000,
        "[" * 60 + '["x",">",1]' + "]" * 60 + "]",
        '["x",">",NaN]',
    ):
        yield "deep", get(('{"file":"a.h5","table":"particles","where":' + where + "}").encode())
        yield "deep", info(('{"file":"a.h5","table":"particles","where":' + where + "}").encode())
    many = [["x", ">", number] for number in range(70_000)]
    yield "many", get(json.dumps({"file": "a.h5", "table": "particles", "where": many}).encode())
    yield "huge", get(b'{"file":"' + b"x" * (30 << 20) + b'"}')
    yield "huge", act("hyperchunk.stat", b'{"file":"' + b"x" * (30 << 20) + b'"}')
    yield "huge", act("x" * (3 << 20), b"")
    for kind in ("", "nope", "hyperchunk.", "HYPERCHUNK.STAT", "hyperchunk.read\0"):
        yield kind, act(kind, b"{}")
    for length in range(200):
        body = random.bytes(length)
        yield "garbage", get(body)
        yield "garbage", info(body)
        yield "garbage", act("hyperchunk.read", body)
    whole = ticket(where=[["x", ">", 5]], rows=[0, 5]).ticket
    for end in range(len(whole)):
        yield "cut", get(whole[:end])
    for place in range(len(whole)):
        yield "extra", get(whole[:place] + b"\xff" + whole[place + 1 :])
    yield "empty path", lambda client: client.get_flight_info(fl.FlightDescriptor.for_path())


def test_a_thousand_bad_requests(folder: Path) -> None:
    """Each invalid request is an error; the server's memory stays bounded, and it answers correctly afterwards."""
    with Server(folder) as server, server.client() as client:
        client.do_get(ticket()).read_all()
        before, count = server.resident(), 0
        for name, request in bad_requests(folder):
            with pytest.raises((pa.ArrowException, OSError, KeyError)) as caught:
                request(client)
            message = str(caught.value)
            assert str(folder) not in message, name
            assert "panic" not in message
            count += 1
        assert count >= 1000
        assert server.is_alive()
        assert server.resident() < before + (100 << 20)
        assert client.do_get(ticket()).read_all().num_rows == ROWS


def test_raw_bytes(folder: Path) -> None:
    """Bytes that are no valid HTTP/2, or break off, end only their own connection."""
    random = np.random.default_rng(4)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with Server(folder) as server, server.client() as client:
        host, port = server.url.removeprefix("grpc://").rsplit(":", 1)
        before = server.resident()
        waiting = []
        for turn in range(300):
            with socket.create_connection((host, int(port)), timeout=5) as raw:
                start = (b"", preface, b"GET / HTTP/1.1\r\n\r\n", preface + b"\0\0\0\4\0\0\0\0\0")[turn % 4]
                raw.sendall(start + random.bytes(turn * 7 % 5000))
                if turn % 20 == 0:
                    waiting.append(raw.dup())
        assert client.do_get(ticket()).read_all().num_rows == ROWS
        for raw in waiting:
            raw.close()
        assert server.is_alive()
        assert server.resident() < before + (100 << 20)


def test_clients_that_go(folder: Path) -> None:
    """A client that disconnects in the middle of a response leaves no resources in use."""
    with h5py.File(folder / "large.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((200_000, 40)), chunks=(1000, 40))
    with Server(folder, options=("--streams=4",)) as server:
        for turn in range(20):
            with server.client() as client:
                reader = client.do_get(ticket("large.h5", "x", batch_rows=100 if turn % 2 else None))
                reader.read_chunk()
                if turn % 3:
                    reader.cancel()
        with server.client() as client:
            assert client.do_get(ticket("large.h5", "x")).read_all().num_rows == 200_000
        assert server.resident() < 500 << 20


def test_many_clients(server: Server) -> None:
    """Many concurrent clients each get their own results."""
    wrong: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with server.client() as client:
                for turn in range(5):
                    start = (number * 991 + turn * 37) % 90_000
                    found = client.do_get(ticket(columns=["id"], rows=[start, start + 5000])).read_all()
                    assert found["id"].to_pylist() == list(range(start, start + 5000))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_stopping(folder: Path, how: signal.Signals) -> None:
    """A signal stops the server soon and cleanly, even during a read."""
    server = Server(folder)
    with server.client() as client:
        reader = client.do_get(ticket("a.h5", "particles", batch_rows=10))
        reader.read_chunk()
        started = time.monotonic()
        assert server.stop(how) == 0
        assert time.monotonic() - started < 12


# Following growing tables.


def test_following(server: Server, folder: Path) -> None:
    """A client gets the existing rows of a table, then new ones, until it stops."""
    path = folder / "growing.h5"

    def write(rows: int) -> None:
        with h5py.File(path, "a") as file:
            data = (
                file["x"]
                if "x" in file
                else file.create_dataset("x", (0,), maxshape=(None,), chunks=(100,), dtype="i8")
            )
            before = len(data)
            data.resize((rows,))
            data[before:] = np.arange(before, rows)

    write(50)
    command = json.dumps({"file": "growing.h5", "table": "x", "follow": {"every_ms": 20}})
    with server.client() as client:
        writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(command))
        found: list[int] = []
        for rows in (50, 130, 131, 500):
            write(rows)
            while len(found) < rows:
                chunk = reader.read_chunk()
                about = json.loads(chunk.app_metadata.to_pybytes())
                assert about["rows"][0] <= len(found)
                found += chunk.data["x"].to_pylist()
            assert found == list(range(rows))
        writer.done_writing()
        with pytest.raises(StopIteration):
            _ = [reader.read_chunk() for _ in range(100)]
        writer.close()
    command = json.dumps({"file": "growing.h5", "table": "x", "follow": {"until": 500}, "rows": [490, None]})
    with server.client() as client:
        writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(command))
        assert reader.read_all()["x"].to_pylist() == list(range(490, 500))
        writer.close()


def test_nothing_is_written_where_nothing_may_be(client: fl.FlightClient, folder: Path) -> None:
    """Without --writable, DoPut is refused."""
    with pytest.raises(pa.ArrowException, match="writable"):
        _put(client)
    assert not (folder / "new.h5").exists()


def test_an_interrupted_commit_is_completed_before_a_file_is_served(tmp_path: Path) -> None:
    """Raw ranges and tables are of the state after the commit."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["c"], file["d"] = np.zeros(1000), np.zeros(1000)
    before = path.read_bytes()
    with hyperchunk.open(path, "r+") as file:
        file["c"][:] = 1
        file["d"][:] = 1
    after = path.read_bytes()
    interrupt(path, before, after, 20)
    with Server(tmp_path) as server, server.client() as client:
        told = json.loads(action(client, "hyperchunk.stat", file="a.h5")[0])
        assert (
            b"".join(
                action(client, "hyperchunk.read", file="a.h5", ranges=[[0, told["size"]]], version=told["version"])
            )
            == after
        )
        assert path.read_bytes() == after
        assert not path.with_name("a.h5.redo").exists()
