"""Standing queries, on data as writers flush them."""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store

from store.test_query import run_command


def write_slowly(run: store.Store, rank: int) -> None:
    with run.writer() as writer:
        for step in range(3):
            writer["a"][rank * 100 + step * 10 : rank * 100 + step * 10 + 10] = np.arange(10) + 10 * step
            writer.flush()
            time.sleep(0.05)


def test_what_writers_flush_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/a": store.Dataset(400, "i4")}, statistics=True, sync="never")
    with run.writer() as writer:
        writer["a"][0:10] = 99
    run.commit()
    processes = [multiprocessing.get_context("fork").Process(target=write_slowly, args=(run, rank)) for rank in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = sorted(
        (int(index[0]), int(value))
        for seen in run.follow("/a", "max > 25", interval=0.01, timeout=20, until_done=True)
        for index, value in zip(seen.indices, seen.values, strict=True)
    )
    assert found == [(100 * rank + at, at) for rank in (1, 2) for at in range(26, 30)]
    assert list(run.follow("/a", "value > 1000", until_done=True, timeout=10)) == []
    with pytest.raises(KeyError, match="no dataset"):
        run.follow("/b", "value > 1")


def test_a_committed_store_has_no_writers_to_wait_for(tmp_path: Path) -> None:
    run = store.create(tmp_path / "run.h5", {"/a": store.Dataset(400, "i4")}, statistics=True, sync="never")
    # No writer has started: the query waits.
    began = time.monotonic()
    assert list(run.follow("/a", "value > 1", interval=0.01, until_done=True, timeout=0.5)) == []
    assert time.monotonic() - began >= 0.5
    with run.writer() as writer:
        writer["a"][0:10] = 99
    run.commit()
    began = time.monotonic()
    assert list(run.follow("/a", "value > 1", interval=0.01, until_done=True, timeout=60)) == []
    assert time.monotonic() - began < 30
    # A writer that has started is waited for.
    with run.writer() as writer:
        standing = run.follow("/a", "value > 1", interval=0.01, until_done=True, timeout=60)
        writer["a"][10:20] = 7
        writer.flush()
        assert next(standing).values.tolist() == [7] * 10
    assert list(standing) == []


def write_and_die(run: store.Store) -> None:
    """Flushes one write, makes another, and is killed."""
    writer = run.writer()
    writer["a"][0:10] = 99
    writer.flush()
    writer["a"][10:20] = 99
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_writers_are_not_waited_for(tmp_path: Path) -> None:
    run = store.create(tmp_path / "run.h5", {"/a": store.Dataset(400, "i4")}, statistics=True, sync="never")
    process = multiprocessing.get_context("fork").Process(target=write_and_die, args=(run,))
    process.start()
    process.join()
    (log,) = json.loads(run_command("status", str(run.path), "--json"))["logs"]
    assert (log["state"], log["runs"]) == ("stopped", False)
    assert "1 writer is stopped without closing its log" in run_command("status", str(run.path))
    with pytest.warns(store.StoreWarning, match=f"writer {log['writer']} ended without closing its log"):
        found = list(run.follow("/a", "value > 1", interval=0.01, until_done=True))
    assert [seen.indices[:, 0].tolist() for seen in found] == [list(range(10))]
    command = [str(HYPERCHUNK), "store", "follow", str(run.path), "a", "value > 1", "--until-done"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert told.stdout.splitlines()[-1].endswith("(done)")
    assert told.stderr.startswith(f"hyperchunk: warning: the process of writer {log['writer']} ended")
    run.commit(salvage=True)
    (log,) = json.loads(run_command("status", str(run.path), "--json"))["logs"]
    assert log["state"] == "committed"
    assert list(run.follow("/a", "value > 1", interval=0.01, until_done=True)) == []


def test_the_dataset_may_be_in_the_predicate(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    names = ["/ocean/h", "/ocean/deep/t", "/air/t"]
    run = store.create(path, {name: store.Dataset(100, "f4") for name in names}, statistics=True, sync="never")
    standing = run.follow("max(h) > 12", until_done=True, timeout=20)
    with run.writer() as writer:
        writer["ocean/h"][...] = np.arange(100)
        writer["air/t"][...] = np.arange(100)
    found = [index for seen in standing for index in seen.indices[:, 0].tolist()]
    assert found == list(range(13, 100))
    assert run.follow("0 <= value(/ocean/deep/t) < 1", timeout=0) is not None
    for wrong, message in [
        ("max(t) > 1", "ambiguous name"),
        ("max(x) > 1", "no dataset"),
        ("max(/h) > 1", "no dataset"),
    ]:
        with pytest.raises(KeyError, match=message):
            run.follow(wrong)
    for wrong in ("max > 12", "max(a) > 1 or min(b) < 1", "max(h) > "):
        with pytest.raises(hyperchunk.exceptions.InvalidError):
            run.follow(wrong)


def write_and_wait(run: store.Store, path: Path) -> None:
    """Writes with occasional flushes, until it is told to stop."""
    with run.writer() as writer:
        for step in range(1000):
            writer["ocean/h"][step] = np.arange(10) + 10 * (step % 5)
            writer.flush()
            time.sleep(0.02)
            if path.exists():
                break


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[store.Store]:
    """A store to which a process is writing."""
    run = store.create(
        tmp_path / "run.h5", {"/ocean/h": store.Dataset((1000, 10), "f4")}, statistics=True, sync="never"
    )
    enough = tmp_path / "enough"
    process = multiprocessing.get_context("fork").Process(target=write_and_wait, args=(run, enough))
    process.start()
    yield run
    enough.touch()
    process.join(60)
    assert process.exitcode == 0


def test_the_command_follows_a_writer_at_work(busy: store.Store) -> None:
    path = str(busy.path)
    lines = run_command("follow", path, "max(h) > 48.5", "--once", "--json", "--timeout", "60").splitlines()
    first, last = json.loads(lines[0]), json.loads(lines[-1])
    assert first["values"][0]["value"] == 49
    assert first["values"][0]["index"][0] % 5 == 4
    assert last["ended"] == "found"
    assert last["found"] >= 1
    # No value is ever so large.
    shown = run_command("follow", path, "/ocean/h", "value > 1000", "--timeout", "0.3")
    # Data ruled out by statistics are not read.
    assert "0 values, 0 B read (timeout)" in shown


def test_the_command_ends_with_ctrl_c(busy: store.Store) -> None:
    command = [str(HYPERCHUNK), "store", "follow", str(busy.path), "min(/ocean/h) < 0.5", "--json", "--values", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["values"] == [{"index": [first["values"][0]["index"][0], 0], "value": 0.0}]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert json.loads(rest.splitlines()[-1])["ended"] == "interrupted"


def test_the_command_ends_when_writers_are_done(busy: store.Store, tmp_path: Path) -> None:
    command = [str(HYPERCHUNK), "store", "follow", str(busy.path), "ocean/h", "value == 49", "--until-done"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(0.5)
        (tmp_path / "enough").touch()
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.search(r"^\[\d*[49], 9\]  49, writer [0-9a-f]{32}$", shown, re.MULTILINE)
    assert shown.splitlines()[-1].endswith("(done)")
    wrong = subprocess.run([*command[:4], "max > 3"], capture_output=True, text=True, check=False)
    assert "expected the name of a dataset" in wrong.stderr
    wrong = subprocess.run([*command[:4], "/ocean/x", "value > 3"], capture_output=True, text=True, check=False)
    assert "dataset /ocean/x not found" in wrong.stderr
