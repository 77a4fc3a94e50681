"""Pools of shared memory: several processes, killed and forked ones, quotas, files."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars
import pyarrow as pa
import pytest
from fresh import HYPERCHUNK
from hyperchunk import pool
from hyperchunk.exceptions import LimitError, ObjectNotFoundError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pools are on Linux only")


#: Processes of the current test, which also end when it fails.
STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture
def name() -> Iterator[str]:
    """Name of a pool for this test."""
    made = f"pytest-{os.getpid()}-{time.monotonic_ns()}"
    yield made
    while STARTED:
        with STARTED.pop() as process:
            process.kill()
    if made in pool.pools():
        pool.remove(made)


IMPORTS = """
import os, sys, time
import numpy as np
from hyperchunk import pool
from hyperchunk.exceptions import HyperchunkError
"""


def start(code: str, *words: object) -> subprocess.Popen[str]:
    """Starts a program in a separate process."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [
        sys.executable,
        "-c",
        f"{IMPORTS}\n{code}",
    ]
    STARTED.append(subprocess.Popen([*command, *map(str, words)], stdout=subprocess.PIPE, text=True, env=env))
    return STARTED[-1]


def line(process: subprocess.Popen[str]) -> str:
    """Returns the next line of its output."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: subprocess.Popen[str]) -> str:
    """Kills it; returns its output."""
    process.send_signal(signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, said
    return said


def test_bytes_arrays_and_tables_in_other_processes(name: str) -> None:
    made = pool.create(name, quota=64 << 20)
    values = np.random.default_rng(1).random(100_000)
    made.put("array", values)
    table = pa.table(
        {"x": values, "s": [str(n) for n in range(len(values))], "d": pa.array(["a", "b"] * 50_000).dictionary_encode()}
    )
    made.put("table", table)
    made.put("frame", polars.DataFrame({"x": [1, 2, 3]}))
    made.put("empty", b"")
    assert [(entry.name, entry.spilled) for entry in made.list()] == [
        (n, False) for n in ("array", "empty", "frame", "table")
    ]
    assert "table" in made
    assert "x" not in made
    assert len(made) == 4
    code = """
made = pool.open(sys.argv[1])
found = np.frombuffer(made.get("array"))
print(found.sum(), found.flags.writeable, made.table("table").num_rows, end=" ")
print(made.table("frame")["x"].to_pylist(), len(made.get("empty")))
"""
    told, _ = start(code, name).communicate()
    assert told.strip() == f"{values.sum()} False 100000 [1, 2, 3] 0"
    assert made.table("table").equals(table)
    # Nothing is copied.
    before = pa.total_allocated_bytes()
    mapped = made.table("table")
    assert pa.total_allocated_bytes() - before < 10_000
    assert made.delete("table")
    assert not made.delete("table")
    with pytest.raises(ObjectNotFoundError, match="table"):
        made.get("table")
    assert mapped.equals(table)
    assert pickle.loads(pickle.dumps(made)).stats() == made.stats()
    with pytest.raises(OSError, match="delete it first"):
        made.put("array", b"")
    with pytest.raises(FileNotFoundError):
        pool.open(name + "-none")
    with pytest.raises(OSError, match="cannot"):
        pool.create(name)


def test_open_that_cannot_create_names_what_it_cannot_make(name: str, tmp_path: Path) -> None:
    spill = tmp_path / "file" / "spill"
    spill.parent.write_bytes(b"no folder")
    with pytest.raises(OSError, match=r"cannot make the folder .*spill.*Not a directory"):
        pool.open(name, quota=1 << 20, spill=spill)
    with pytest.raises(OSError, match=r"cannot create the pool's folder .*missing/run.*No such file"):
        pool.open(str(tmp_path / "missing" / "run"), quota=1 << 20)
    assert name not in pool.pools()


def test_objects_are_built_in_place(name: str) -> None:
    made = pool.create(name, quota=16 << 20)
    building = made.begin("a", 8000)
    array = np.frombuffer(building, "f8")
    array[:] = np.arange(1000)
    with pytest.raises(BufferError, match="in use"):
        building.seal()
    del array
    assert made.list() == []
    building.seal()
    np.testing.assert_array_equal(np.frombuffer(made.get("a")), np.arange(1000))
    with pytest.raises(ValueError, match="sealed"):
        building.seal()
    with pytest.raises(BufferError):
        memoryview(building)
    with pytest.raises(ValueError, match=r"readonly|read-only|not writable"):
        np.frombuffer(made.get("a"), "u1")[0] = 1
    given_up = made.begin("b", 10)
    given_up.abort()
    assert made.stats().unsealed == 0


def test_killed_writers_leave_nothing_and_killed_readers_hold_nothing(name: str) -> None:
    made = pool.create(name, quota=32 << 20)
    made.put("read", bytes(100_000))
    writer = start(
        """
made = pool.open(sys.argv[1])
b = made.begin('w', 1000000)
np.frombuffer(b, 'u1')[:] = 7
print('ready', flush=True)
time.sleep(100)
""",
        name,
    )
    reader = start("found = pool.open(sys.argv[1]).get('read')\nprint('ready', flush=True)\ntime.sleep(100)", name)
    assert (line(writer), line(reader)) == ("ready", "ready")
    made.delete("read")
    stats = made.stats()
    assert (stats.unsealed, stats.deleted, stats.objects) == (1, 1, 0)
    kill(writer)
    kill(reader)
    stats = made.stats()
    assert (stats.unsealed, stats.deleted) == (0, 0)
    assert stats.free == stats.memory
    with pytest.raises(ObjectNotFoundError):
        made.get("w")
    # The memory is reused.
    made.put("w", bytes(900_000))
    assert made.stats().memory == stats.memory


def test_a_child_after_a_fork_keeps_what_it_reads(name: str) -> None:
    made = pool.create(name, quota=32 << 20)
    made.put("a", b"\x01" * 60_000)
    code = """
import warnings; warnings.simplefilter("ignore")
made = pool.open(sys.argv[1])
found = made.get("a")
building = made.begin("b", 100)
ready, go = os.pipe(), os.pipe()
if os.fork() == 0:
    os.read(go[0], 1)
    assert bytes(memoryview(found)) == b"\\x01" * 60_000
    try:
        building.seal()
    except ValueError as error:
        print("child", "forked" in str(error), flush=True)
    os._exit(0)
del found, building
print("parent", flush=True)
sys.stdin.readline()
made.put("over", b"\\x02" * 60_000)
os.write(go[1], b"x")
os.wait()
print(made.stats().deleted, made.stats().unsealed, flush=True)
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys, os\nfrom hyperchunk import pool\n{code}", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    assert line(process) == "parent"
    made.delete("a")
    assert made.stats().deleted == 1
    out, _ = process.communicate("\n", timeout=60)
    assert out.split("\n")[:2] == ["child True", "0 0"]


def test_quota_and_files(name: str, tmp_path: Path) -> None:
    made = pool.create(name, quota=1 << 20)
    with pytest.raises(LimitError, match="larger quota"):
        made.put("a", bytes(2 << 20))
    made.put("a", bytes(1 << 20))
    with pytest.raises(LimitError, match="delete objects"):
        made.put("b", b"x")
    pool.remove(name)
    made = pool.open(name, quota=1 << 20, spill=tmp_path / "files")
    for number in range(10):
        made.put(f"o{number}", np.full(200_000, number, "u1"))
    stats = made.stats()
    assert stats.memory <= 1 << 20
    assert stats.spilled + stats.objects == 10
    assert stats.spilled >= 6
    for number in range(10):
        found = np.frombuffer(made.get(f"o{number}"), "u1")
        assert len(found) == 200_000
        assert (found == number).all()
    assert made.delete("o0")
    assert len(made) == 9

    def command(*words: str) -> str:
        return subprocess.run([HYPERCHUNK, "pool", *words], check=True, capture_output=True, text=True).stdout

    assert "o1\t200000 bytes\tspilled" in command("ls", name)
    assert name in command("ls")
    assert "quota     1048576 bytes" in command("stats", name)
    command("rm", name, "o1")
    assert "o1" not in made
    command("rm", name)
    assert name not in pool.pools()


#: Creates, reads and deletes objects until it is killed; ends if one has wrong contents.
BUSY = """
made = pool.open(sys.argv[1])
random = np.random.default_rng(int(sys.argv[2]))
print("ready", flush=True)
while True:
    name = f"o{random.integers(10)}"
    what = random.integers(4)
    try:
        if what == 0:
            size = int(random.integers(1, 300_000))
            b = made.begin(name, size)
            view = memoryview(b)
            view[:] = bytes([int(random.integers(256))]) * size
            view.release()
            b.seal()
        elif what == 1:
            made.delete(name)
        else:
            found = np.frombuffer(made.get(name), "u1")
            if len(found) and (found != found[0]).any():
                print("WRONG", flush=True)
                sys.exit(1)
            del found
    except (HyperchunkError, OSError, ValueError):
        pass
"""


def test_many_processes_are_killed_at_random(name: str, tmp_path: Path) -> None:
    made = pool.create(name, quota=4 << 20, spill=tmp_path / "files")
    random = np.random.default_rng(7)
    for _ in range(3):
        processes = [start(BUSY, name, int(random.integers(1 << 30))) for _ in range(5)]
        assert [line(process) for process in processes] == ["ready"] * 5
        for process in processes:
            time.sleep(random.random() * 0.2)
            assert kill(process) == ""
        stats = made.stats()
        assert (stats.unsealed, stats.deleted) == (0, 0)
        assert stats.memory <= 5 << 20
        for entry in made.list():
            found = np.frombuffer(made.get(entry.name), "u1")
            assert len(found) == entry.length
            assert (found == found[0]).all()
            del found
    pool.remove(name)
