"""Isolation of a Flight server: files around the served ones, clients without a token, slow clients."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from flight_server import Server

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are stopped by signals")

TOKEN = "s3cret-t0ken"
LEADS = {"raw": "inside.bin", "hidden": ".hidden/key", "up": "../outside.bin"}


def leading(path: Path) -> None:
    """Makes a file that refers to others in every way."""
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(4)
        for name, target in {**LEADS, "absolute": str(path.parent / "inside.bin")}.items():
            create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            create.set_external(target.encode(), 0, 16)
            space = h5py.h5s.create_simple((16,))
            h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_U8LE, space, create)
        for name, target in (("other", "other.h5"), ("dotted", ".other.h5")):
            file[f"link_{name}"] = h5py.ExternalLink(target, "/x")
            layout = h5py.VirtualLayout((4,), "f8")
            layout[:] = h5py.VirtualSource(target, "x", (4,))
            file.create_virtual_dataset(f"virtual_{name}", layout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files that refer to each other and to hidden ones."""
    folder = tmp_path / "home"
    (folder / ".hidden").mkdir(parents=True)
    for path in (folder / "inside.bin", folder / ".hidden" / "key", tmp_path / "outside.bin"):
        path.write_bytes(b"sixteen letters.")
    for path in (folder / "other.h5", folder / ".other.h5"):
        with h5py.File(path, "w") as file:
            file["x"] = np.array([42.0, 43, 44, 45])
    leading(folder / "a.h5")
    return folder


def get(client: fl.FlightClient, table: str, file: str = "a.h5") -> pa.Table:
    """Reads a table."""
    return client.do_get(fl.Ticket(json.dumps({"file": file, "table": table}))).read_all()


def test_a_file_by_itself_leads_nowhere(folder: Path) -> None:
    """A file served alone cannot reach others, not even its neighbours; opened locally, it can."""
    file = hyperchunk.open(folder / "a.h5")
    for name in LEADS:
        assert bytes(file[name][...]) == b"sixteen letters.", name
    assert file["link_other"][0] == file["virtual_dotted"][0] == 42
    with Server(folder / "a.h5") as server, server.client() as client:
        assert get(client, "good")["good"].to_pylist() == [0, 1, 2, 3]
        for name in (*LEADS, "absolute", "link_other", "link_dotted", "virtual_other", "virtual_dotted"):
            with pytest.raises((pa.ArrowInvalid, pa.ArrowKeyError)):
                get(client, name)


def test_a_folder_leads_to_what_it_serves(folder: Path) -> None:
    """Files of a served folder can reach each other, and no unlisted file."""
    with Server(folder) as server, server.client() as client:
        assert bytes(get(client, "raw")["raw"].to_pylist()) == b"sixteen letters."
        assert get(client, "link_other")["link_other"].to_pylist() == [42, 43, 44, 45]
        assert get(client, "virtual_other")["virtual_other"].to_pylist() == [42, 43, 44, 45]
        for name in ("hidden", "up", "link_dotted", "virtual_dotted"):
            with pytest.raises((pa.ArrowInvalid, pa.ArrowKeyError)):
                get(client, name)
        for name in (".other.h5", ".hidden/key"):
            with pytest.raises(pa.ArrowKeyError, match="no file of the name"):
                get(client, "x", name)
            body = json.dumps({"file": name}).encode()
            with pytest.raises(pa.ArrowKeyError, match="no file of the name"):
                list(client.do_action(fl.Action("hyperchunk.stat", body)))


def test_functions_learn_the_name_that_is_served(folder: Path) -> None:
    """Functions see the served name, not the file's path on the server."""
    source = (
        "function dynamic_dataset() local o, p = lib.getData('out'), lib.getFilePath() "
        "for i = 1, 64 do o[i] = p:byte(i) or 0 end end"
    )
    (folder / "path.lua").write_text(source)
    path = folder / "path.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
    hyperchunk.udf.attach(path, folder / "path.lua", outputs="out:64:uint8")
    assert bytes(hyperchunk.open(path)["out"][...]).rstrip(b"\0").startswith(str(path).encode()[:64])
    for served in (folder, path):
        with Server(served) as server, server.client() as client:
            assert bytes(get(client, "out", "path.h5")["out"].to_pylist()).rstrip(b"\0") == b"path.h5"


def asked(server: Server) -> int:
    """Reads a table with the token; returns the number of rows."""
    with server.client(TOKEN) as client:
        return get(client, "good").num_rows


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"], ids=["silent", "http2"])
def test_who_shows_no_token_locks_nobody_out(folder: Path, start: bytes) -> None:
    """A connection without a token does not block others, and is closed after a while, whatever it sends."""
    with Server(folder, token=TOKEN) as server, contextlib.ExitStack() as stack:
        address = server.url.removeprefix("grpc://").rsplit(":", 1)
        idle = []
        for _ in range(600):
            connection = stack.enter_context(socket.create_connection((address[0], int(address[1])), timeout=20))
            connection.sendall(start)
            idle.append(connection)
        assert asked(server) == 4
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while idle[-1].recv(4096):
                pass
        assert time.monotonic() - began < 15
        assert asked(server) == 4


@pytest.mark.timeout(300)
def test_slow_clients_take_little_memory(folder: Path) -> None:
    """A client that does not read occupies only a few megabytes."""
    with h5py.File(folder / "big.h5", "w") as file:
        values = np.random.default_rng(1).random(1 << 23)
        file.create_dataset("big", data=values, chunks=(1 << 16,), compression="gzip", compression_opts=1)
    clients = 24
    with Server(folder) as server, contextlib.ExitStack() as stack:
        with server.client() as client:
            assert get(client, "good").num_rows == 4
        before = server.resident()
        readers = []
        for _ in range(clients):
            client = stack.enter_context(server.client())
            reader = client.do_get(fl.Ticket(json.dumps({"file": "big.h5", "table": "big"})))
            reader.read_chunk()
            readers.append(reader)
        time.sleep(4)
        each = (server.resident() - before) / clients
        for reader in readers:
            reader.cancel()
    assert each < 40 << 20, f"{each / 2**20:.0f} MiB a client"


def processor_seconds(server: Server) -> float:
    """Returns the processor time of a server and its descendants."""
    ticks, family = 0, {server.process.pid}
    for folder in sorted((one for one in Path("/proc").iterdir() if one.name.isdigit()), key=lambda one: int(one.name)):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(folder.name) in family or int(fields[1]) in family:
                family.add(int(folder.name))
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", ["all", "where", "live"])
def test_a_request_that_is_given_up_ends(folder: Path, what: str) -> None:
    """A cancelled request soon stops its reads and computations."""
    with h5py.File(folder / "huge.h5", "w") as file:
        file.create_dataset("huge", (1 << 40,), "f8", chunks=(1 << 20,), compression="gzip")
    (folder / "long.lua").write_text("function dynamic_dataset() local n = 0 while true do n = n + 1 end end")
    hyperchunk.udf.attach(folder / "huge.h5", folder / "long.lua", outputs="live:10:double")
    request: dict[str, object] = {"file": "huge.h5", "table": "live" if what == "live" else "huge"}
    if what == "where":
        request["where"] = [["huge", ">", 1.0]]
    with Server(folder) as server:
        with server.client() as client:

            def read() -> None:
                with contextlib.suppress(pa.ArrowException, fl.FlightError):
                    options = fl.FlightCallOptions(timeout=2)
                    for _ in client.do_get(fl.Ticket(json.dumps(request)), options):
                        pass

            reading = threading.Thread(target=read)
            reading.start()
            reading.join(30)
        time.sleep(2)
        before = processor_seconds(server)
        time.sleep(3)
        assert processor_seconds(server) - before < 1.5
