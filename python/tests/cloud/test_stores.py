"""Sharded stores in a bucket: writers in many processes, epochs by put-if-absent, faults: correct, or an error."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server
from hyperchunk import exceptions as errors
from hyperchunk import store

MIB = 1 << 20
ROWS, COLUMNS = 24, MIB // 8
Reach = Callable[..., dict[str, Any]]


@pytest.fixture
def bucket(server: s3server.Server) -> Path:
    """A new bucket, as its folder."""
    folder = server.folder / f"stores-{len(list(server.folder.iterdir()))}"
    folder.mkdir()
    return folder


@pytest.fixture
def reach(proxy: s3server.Proxy) -> Reach:
    """Returns the options for reaching stores through the proxy: ``reach(timeout=1)``."""

    def options(**network: Any) -> dict[str, Any]:
        return {"storage_options": s3server.storage_options(proxy.endpoint), "network": network}

    return options


def value(rows: range, seed: int = 0) -> np.ndarray:
    """Returns the expected rows of a dataset."""
    return np.arange(rows.start * COLUMNS, rows.stop * COLUMNS, dtype="f8").reshape(-1, COLUMNS) + seed * 1e9


def create(bucket: Path, reach: dict[str, Any], **options: Any) -> store.Store:
    datasets = {"/rows": store.Dataset((ROWS, COLUMNS), "f8", fillvalue=-1.0)}
    return store.create(f"s3://{bucket.name}/run.h5", datasets, attrs={"made": "here"}, **reach, **options)


def write(run: store.Store, rows: range, seed: int = 0, **options: Any) -> bytes:
    with run.writer(**options) as writer:
        for row in rows:
            writer.write("/rows", (row, 0), value(range(row, row + 1), seed))
        return writer.close()


def in_processes(work: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """Runs calls in separate processes, all at once."""
    with multiprocessing.get_context("spawn").Pool(len(arguments)) as pool:
        return [call.get(120) for call in [pool.apply_async(work, each) for each in arguments]]


def read(run: store.Store, epoch: int | None = None) -> np.ndarray:
    with run.open(epoch=epoch) as file:
        found: np.ndarray = file["rows"][...]
        return found


def sent(bucket: Path) -> list[Path]:
    """Returns the parts of unfinished uploads."""
    return [path for path in bucket.rglob("*") if path.is_file() and ".sgwtmp" in path.parts]


def names(bucket: Path) -> list[str]:
    return sorted(path.name for path in (bucket / "run.h5.d").iterdir() if path.is_file())


def test_processes_write_and_one_commits(bucket: Path, reach: Reach, tmp_path: Path) -> None:
    run = create(bucket, reach())
    with pytest.raises(errors.ObjectNotFoundError, match="not committed"):
        read(run)
    tickets = in_processes(write, [(run, range(at, at + 6)) for at in range(0, ROWS, 6)])
    assert not any("manifest" in name for name in names(bucket))
    epoch = run.commit(tickets)
    assert epoch is not None
    assert (epoch.number, len(epoch.writers), epoch.conflicts) == (1, 4, [])
    assert epoch.linked == []
    assert "object store" in epoch.unlinked["/rows"]
    np.testing.assert_array_equal(read(run), value(range(ROWS)))
    with run.open() as file:
        assert file.attrs["made"] == "here"
    assert sent(bucket) == []
    # Plain HDF5 fails instead of returning made-up data.
    with h5py.File(bucket / "run.h5") as plain, pytest.raises(OSError, match=r"hyperchunk-store|external|open"):
        plain["rows"][...]
    # A second epoch, committed through the URL alone; a reader of the first one keeps it.
    other = store.open(f"s3://{bucket.name}/run.h5", **reach())
    with run.open() as pinned:
        write(other, range(3, 5), seed=7)
        second = other.commit()
        assert second is not None
        assert second.number == 2
        np.testing.assert_array_equal(pinned["rows"][...], value(range(ROWS)))
    expected = value(range(ROWS))
    expected[3:5] = value(range(3, 5), 7)
    np.testing.assert_array_equal(read(run), expected)
    np.testing.assert_array_equal(read(run, 1), value(range(ROWS)))
    assert other.commit() is None
    # The contents of the bucket form a store of files, too.
    with hyperchunk.open(bucket / "run.h5") as local:
        np.testing.assert_array_equal(local["rows"][...], expected)
    with pytest.raises(errors.ReadError, match="overwrite"):
        create(bucket, reach())
    assert pickle.loads(pickle.dumps(run)).path == run.path


def test_rows_are_appended(bucket: Path, reach: Reach) -> None:
    datasets = {"/log": store.Dataset((0, 4), "i4", maxshape=(None, 4), chunks=(100, 4))}
    run = store.create(f"s3://{bucket.name}/run.h5", datasets, **reach())
    for number in range(3):
        with run.writer() as writer:
            writer["/log"].append(np.full((10 + number, 4), number, "i4"))
            writer["/log"].attrs[f"by {number}"] = number
        assert run.commit() is not None
    with run.open() as file:
        found = file["log"][...]
        assert dict(file["log"].attrs) == {f"by {number}": number for number in range(3)}
    np.testing.assert_array_equal(found[:, 0], np.repeat([0, 1, 2], [10, 11, 12]))


def test_a_flush_ends_an_object(bucket: Path, reach: Reach, proxy: s3server.Proxy) -> None:
    run = create(bucket, reach(part=5 * MIB))
    writer = run.writer(statistics=True)
    assert names(bucket) == ["put-if-absent"]
    for step in range(3):
        rows = range(step * 8, step * 8 + 8)
        writer.write("/rows", (rows.start, 0), value(rows))
        writer["/rows"].attrs["step"] = step
        ticket = writer.flush()
        logs = [name for name in names(bucket) if name.endswith(".log")]
        assert len(logs) == step + 1
        if step < 2:
            epoch = run.commit([ticket])
            assert epoch is not None
            assert epoch.number == step + 1
            expected = np.full((ROWS, COLUMNS), -1.0)
            expected[: rows.stop] = value(range(rows.stop))
            np.testing.assert_array_equal(read(run), expected)
    writer.close()
    assert run.commit() is not None
    np.testing.assert_array_equal(read(run), value(range(ROWS)))
    np.testing.assert_array_equal(read(run, 1)[:8], value(range(8)))
    proxy.reset()
    with run.open() as file:
        assert file["rows"].attrs["step"] == 2
        (found,) = file["rows"][7:9, 5:6].T
        np.testing.assert_array_equal(found, value(range(7, 9))[:, 5])
        assert file["rows"].query("value > 1e6").boxes is not None
    # After a copy to this machine, the objects form the log as before.
    with hyperchunk.open(bucket / "run.h5") as local:
        np.testing.assert_array_equal(local["rows"][...], value(range(ROWS)))
    assert sent(bucket) == []


def test_conflicts_are_named(bucket: Path, reach: Reach) -> None:
    run = create(bucket, reach())
    tickets = [write(run, range(2, 4), seed) for seed in (1, 2)]
    with pytest.raises(errors.HyperchunkError, match="nothing was committed"):
        run.commit(tickets)
    with pytest.warns(hyperchunk.store.StoreWarning, match="/rows"):
        epoch = run.commit(tickets, on_conflict="warn")
    assert epoch is not None
    (conflict,) = epoch.conflicts
    assert (conflict.path, conflict.start, conflict.count) == ("/rows", (2, 0), (2, COLUMNS))
    kept = [ticket[:16].hex() for ticket in tickets].index(conflict.kept)
    np.testing.assert_array_equal(read(run)[2:4], value(range(2, 4), kept + 1))
    # A higher priority avoids the conflict.
    tickets = [write(run, range(6, 7), 1, priority=1), write(run, range(6, 7), 2)]
    epoch = run.commit(tickets)
    assert epoch is not None
    assert epoch.conflicts == []
    np.testing.assert_array_equal(read(run)[6:7], value(range(6, 7), 1))


def _write_and_commit(run: store.Store, rows: range, wait: float) -> int | None:
    ticket = write(run, rows)
    time.sleep(max(0.0, wait - time.time()))
    epoch = run.commit([ticket])
    return None if epoch is None else epoch.number


@pytest.mark.parametrize("latency", ["0", "20ms"])
def test_who_commits_at_once_loses_nothing(latency: str, bucket: Path, reach: Reach, proxy: s3server.Proxy) -> None:
    run = create(bucket, reach())
    proxy.set(latency=latency)
    begin = time.time() + 6
    found = in_processes(_write_and_commit, [(run, range(at, at + 4), begin) for at in range(0, ROWS, 4)])
    proxy.set(latency=0)
    np.testing.assert_array_equal(read(run), value(range(ROWS)))
    made = [number for number in found if number is not None]
    assert len(set(made)) == len(made) == len([name for name in names(bucket) if name.endswith(".manifest")])
    # The newest epoch is visible.
    with run.open() as file:
        np.testing.assert_array_equal(file["rows"][...], value(range(ROWS)))
    assert run.commit() is None


def test_32_commits_at_once(bucket: Path, reach: Reach, proxy: s3server.Proxy) -> None:
    """The file is replaced while others read it; they read it again."""
    datasets = {"/x": store.Dataset((64,), "i4", fillvalue=-1)}
    run = store.create(f"s3://{bucket.name}/run.h5", datasets, attrs={"text": "x" * 50_000}, **reach())
    begin = threading.Barrier(32)

    def work(rank: int) -> list[int | None]:
        made = []
        for row in (rank, rank + 32):
            with run.writer() as writer:
                writer["/x"][row] = row
            begin.wait(60)
            epoch = run.commit([writer.close()])
            made.append(None if epoch is None else epoch.number)
        return made

    proxy.set(latency="5ms")
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        found = list(pool.map(work, range(32)))
    proxy.set(latency=0)
    with run.open() as file:
        np.testing.assert_array_equal(file["x"][...], np.arange(64))
    made = [number for numbers in found for number in numbers if number is not None]
    assert len(set(made)) == len(made) == len([name for name in names(bucket) if name.endswith(".manifest")])
    assert run.commit() is None


def _write_until_killed(run: store.Store) -> None:
    writer = run.writer()
    for row in range(ROWS):
        writer.write("/rows", (row, 0), value(range(row, row + 1), 5))
    print("written", flush=True)
    time.sleep(60)


def test_a_killed_writer(bucket: Path, reach: Reach, proxy: s3server.Proxy, command: Any) -> None:
    run = create(bucket, reach(part=5 * MIB))
    child = multiprocessing.get_context("spawn").Process(target=_write_until_killed, args=(run,))
    child.start()
    deadline = time.monotonic() + 60
    while not sent(bucket):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    write(run, range(ROWS))
    epoch = run.commit(salvage=True)
    assert epoch is not None
    assert len(epoch.writers) == 1
    np.testing.assert_array_equal(read(run), value(range(ROWS)))
    given = s3server.storage_options(proxy.endpoint)
    options = ["--endpoint", given["endpoint"], "--region", given["region"], "--option", f"key={given['key']}"]
    options += ["--option", f"secret={given['secret']}", "--option", "allow_http=true"]
    status = json.loads(command("store", "status", run.path, "--json", *options).stdout)
    assert len(status["uploads"]) == 1
    assert [log["state"] for log in status["logs"]] == ["committed"]
    assert "uploads are incomplete" in command("store", "recover", run.path, *options).stdout
    assert "uploads are incomplete" in command("store", "vacuum", run.path, *options).stdout
    assert sent(bucket) != []
    done = command("store", "vacuum", run.path, "--uploads", "0", *options)
    assert done.returncode == 0
    assert sent(bucket) == []
    status = json.loads(command("store", "status", run.path, "--json", *options).stdout)
    assert status["uploads"] == []
    np.testing.assert_array_equal(read(run), value(range(ROWS)))


def test_the_command(bucket: Path, reach: Reach, proxy: s3server.Proxy, command: Any, tmp_path: Path) -> None:
    run = create(bucket, reach())
    write(run, range(10))
    given = s3server.storage_options(proxy.endpoint)
    options = ["--endpoint", given["endpoint"], "--region", given["region"], "--option", f"key={given['key']}"]
    options += ["--option", f"secret={given['secret']}", "--option", "allow_http=true"]
    status = command("store", "status", run.path, *options)
    assert "done, but not committed" in status.stdout
    made = json.loads(command("store", "commit", run.path, "--json", *options).stdout)
    assert made["epoch"] == 1
    listed = json.loads(command("store", "ls", run.path, "--json", *options).stdout)
    assert [dataset["path"] for dataset in listed] == ["/rows"]
    assert command("store", "verify", run.path, *options).returncode == 0
    one = tmp_path / "one.h5"
    packed = command("store", "pack", run.path, one, *options)
    assert packed.returncode == 0, packed.stderr
    expected = np.full((ROWS, COLUMNS), -1.0)
    expected[:10] = value(range(10))
    with h5py.File(one) as file:
        np.testing.assert_array_equal(file["rows"][...], expected)
        assert file.attrs["made"] == "here"
    # Overwritten, and the old data removed.
    again = create(bucket, reach(), overwrite=True)
    write(again, range(4), 3)
    assert again.commit() is not None
    expected[:] = -1.0
    expected[:4] = value(range(4), 3)
    np.testing.assert_array_equal(read(again), expected)
    before = names(bucket)
    vacuumed = command("store", "vacuum", run.path, "--grace", "0", *options)
    assert vacuumed.returncode == 0, vacuumed.stderr
    assert len(names(bucket)) < len(before)
    np.testing.assert_array_equal(read(again), expected)
    for refused in (["link"], ["compact"]):
        done = command("store", *refused, run.path)
        assert done.returncode != 0
        assert "object store" in done.stderr
    missing = command("store", "status", f"s3://{bucket.name}/nothing.h5", *options)
    assert missing.returncode != 0


def test_a_store_that_failed_to_begin_is_no_obstacle(bucket: Path, reach: Reach) -> None:
    run = create(bucket, reach())
    write(run, range(4), 9)
    # Nothing was committed: a store in its place has none of those data.
    again = create(bucket, reach(), overwrite=True)
    write(again, range(4, 6))
    assert again.commit() is not None
    expected = np.full((ROWS, COLUMNS), -1.0)
    expected[4:6] = value(range(4, 6))
    np.testing.assert_array_equal(read(again), expected)


@pytest.mark.parametrize("fault", ["500", "503", "429", "reset-head", "garbage"])
def test_passing_faults_change_nothing(fault: str, bucket: Path, reach: Reach, proxy: s3server.Proxy) -> None:
    patient = reach(timeout=2, retries=40, part=5 * MIB)
    run = create(bucket, patient)
    proxy.set(faults=f"{fault}:0.25", seed=5)
    for number in range(3):
        rows = range(number * 8, number * 8 + 8)
        with run.writer() as writer:
            writer.write("/rows", (rows.start, 0), value(rows))
        epoch = run.commit()
        assert epoch is not None
        assert epoch.number == number + 1
    assert proxy.stats()["faulty"] > 0
    proxy.set(faults="")
    np.testing.assert_array_equal(read(run), value(range(ROWS)))
    assert len([name for name in names(bucket) if name.endswith(".manifest")]) == 3


@pytest.mark.parametrize("fault", ["500", "denied", "expired", "reset-head", "garbage", "gone"])
def test_faults_during_a_commit(fault: str, bucket: Path, reach: Reach, proxy: s3server.Proxy) -> None:
    """A fault at each request of a commit: the commit is correct, or an error, and then the next one is correct."""
    hasty = reach(timeout=1, retries=0, retry_timeout=1)
    run = create(bucket, hasty)
    write(run, range(2))
    assert run.commit() is not None
    last = 1
    for at in range(12):
        ticket = write(run, range(2 + at, 3 + at))
        proxy.set(script=",".join(["ok"] * at + [fault]))
        with contextlib.suppress(errors.HyperchunkError):
            run.commit([ticket])
        proxy.set(script="")
        run.commit([ticket])
        np.testing.assert_array_equal(read(run)[: 3 + at], value(range(3 + at)))
        epochs = [int(name[6:16]) for name in names(bucket) if name.endswith(".manifest")]
        assert max(epochs) > last
        last = max(epochs)
        for epoch in epochs:
            read(run, epoch)


def test_a_fault_while_a_log_is_sent_is_an_error(bucket: Path, reach: Reach, proxy: s3server.Proxy) -> None:
    run = create(bucket, reach(timeout=1, retries=1, retry_timeout=1, part=5 * MIB))
    writer = run.writer()
    proxy.set(faults="denied")

    def go_on(writer: Any) -> None:
        for row in range(ROWS):
            writer.write("/rows", (row, 0), value(range(row, row + 1)))
        writer.close()

    with pytest.raises(errors.HyperchunkError):
        go_on(writer)
    proxy.set(faults="")
    with pytest.raises(errors.HyperchunkError):
        writer.close()
    del writer
    assert run.commit() is None
    assert not any(name.endswith(".log") for name in names(bucket))


def test_refusals(bucket: Path, reach: Reach, proxy: s3server.Proxy, tmp_path: Path) -> None:
    run = create(bucket, reach())
    for options in ({"segments": "arrow"}, {"memory": MIB}, {"sync": "record"}):
        with pytest.raises(errors.UnsupportedError, match="not supported in an object store"):
            run.writer(**options)
    with run.writer() as writer:
        writer.write("/rows", (0, 0), value(range(1)))
    with pytest.raises(errors.HyperchunkError, match="overwrite"):
        create(bucket, reach())
    with pytest.raises(errors.NotFoundError):
        store.open(f"s3://{bucket.name}/nothing.h5", **reach())
    with pytest.raises(errors.NotFoundError):
        store.create("s3://nowhere-at-all/a.h5", {"/a": store.Dataset((1,), "i4")}, **reach())
    with pytest.raises(errors.UnsupportedError, match="a web server"):
        store.create(f"{proxy.endpoint}/{bucket.name}/a.h5", {"/a": store.Dataset((1,), "i4")})
    with pytest.raises(TypeError, match="over a network"):
        store.create(tmp_path / "a.h5", {"/a": store.Dataset((1,), "i4")}, **reach())
    for what in (lambda: list(run.follow("/rows", "value > 1", timeout=0)), run.fragments):
        with pytest.raises(errors.UnsupportedError, match="object store"):
            what()


class _Careless(BaseHTTPRequestHandler):
    """An object store that ignores conditions and always writes."""

    objects: dict[str, bytes]

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, b"")

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        elif self.path in self.objects:
            self._answer(200, self.objects[self.path])
        else:
            self._answer(404, b"")

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Suppresses logging."""


@pytest.fixture
def careless() -> Iterator[str]:
    """Address of such a store."""
    handler = type("Handler", (_Careless,), {"objects": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_a_store_without_conditions_is_found_out(careless: str) -> None:
    options = {"storage_options": s3server.storage_options(careless), "network": {"retries": 0, "timeout": 2}}
    with pytest.raises(errors.UnsupportedError, match="If-None-Match"):
        store.create("s3://bucket/run.h5", {"/a": store.Dataset((1,), "i4")}, **options)


def test_dask(bucket: Path, reach: Reach) -> None:
    array = pytest.importorskip("dask.array")
    data = np.arange(10_000.0).reshape(100, 100)
    url = f"s3://{bucket.name}/run.h5"
    made = store.to_hyperchunk(array.from_array(data, chunks=(30, 40)), url, name="/a", **reach())
    assert made.number == 1
    with hyperchunk.open(url, **reach()) as file:
        np.testing.assert_array_equal(file["a"][...], data)
