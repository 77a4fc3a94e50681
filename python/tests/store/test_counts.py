"""What writers and commits cost, counted: no noise, and it holds on any file system."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hyperchunk import store

RANKS = 4
BEGIN, END = "/hyperchunk-mark-begin", "/hyperchunk-mark-end"
#: Calls of %file and %desc that a metadata server does not see.
FREE = {"read", "write", "pread64", "pwrite64", "readv", "writev", "close", "lseek", "mmap", "fadvise64", "ioctl", "dup"}

PROGRAM = f"""
import os, pickle, sys
import numpy as np
from hyperchunk import store
run = pickle.loads(bytes.fromhex(sys.argv[1]))
values = np.arange(1000, dtype="f4")
what = sys.argv[2]
if what == "write":
    names = sys.argv[4].split(",")
    rank = int(sys.argv[3])
    os.path.exists("{BEGIN[:9]}" + "{BEGIN[9:]}")
    writer = run.writer(sync="never")
    for name in names:
        writer[name][rank * 1000:(rank + 1) * 1000] = values
    ticket = writer.close()
    os.path.exists("{END[:9]}" + "{END[9:]}")
    print(ticket.hex())
else:
    tickets = [bytes.fromhex(ticket) for ticket in sys.argv[3:]]
    os.path.exists("{BEGIN[:9]}" + "{BEGIN[9:]}")
    run.commit(tickets, sync="never")
    os.path.exists("{END[:9]}" + "{END[9:]}")
"""


def traced(folder: Path, *words: str) -> tuple[list[str], str]:
    """The metadata calls of a process between its marks, on anything in the folder, and what it printed."""
    log = folder.parent / "calls"
    command = ["strace", "-f", "-y", "-s", "4096", "-e", "trace=%file,%desc", "-o", str(log), sys.executable, "-c", PROGRAM]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120, check=True)
    lines = log.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if BEGIN in line)
    last = next(number for number, line in enumerate(lines) if END in line)
    calls = []
    for line in lines[first + 1 : last]:
        found = re.match(r"(?:\d+ +)?(\w+)\(", line)
        if found and found[1] not in FREE and str(folder) in line:
            calls.append(line)
    return calls, done.stdout.strip()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
@pytest.mark.parametrize("datasets", [1, 10, 100])
def test_a_writer_asks_for_its_log_and_nothing_else(tmp_path: Path, datasets: int) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    path = folder / "run.h5"
    names = [f"/d{number}" for number in range(datasets)]
    run = store.create(path, {name: store.Dataset(RANKS * 1000, "f4") for name in names}, sync="never")
    handle = pickle.dumps(run).hex()
    tickets, total = [], 0
    for rank in range(RANKS):
        calls, ticket = traced(folder, handle, "write", str(rank), ",".join(names))
        # The first one makes the folder.
        assert len(calls) <= (3 if rank == 0 else 1), calls
        tickets.append(ticket)
        total += len(calls)
    calls, _ = traced(folder, handle, "commit", *tickets)
    total += len(calls)
    print(json.dumps({"datasets": datasets, "calls": total, "commit": calls}, indent=1))
    assert len(os.listdir(f"{path}.d")) == RANKS + 1, "writers + 2 files, with the skeleton"
    assert total <= 2 * RANKS + RANKS, "the commit's share does not grow with the number of datasets"


def test_the_index_of_a_million_interleaved_writes_is_small(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    count, ranks = 250_000, 4
    run = store.create(path, {"/a": store.Dataset(count * ranks * 2, "u1")}, checksum=False, sync="never")
    logs = 0
    for rank in range(ranks):
        writer = run.writer()
        core, number = writer._core, writer["a"]._number
        for step in range(count):
            core.write_box(number, [2 * (step * ranks + rank)], [2], b"ab")
        before = os.path.getsize(writer._core.log)
        writer.close()
        # What the last batch has, and the index.
        logs += os.path.getsize(writer._core.log) - before
    epoch = run.commit()
    assert epoch is not None
    assert epoch.conflicts == []
    manifest = os.path.getsize(f"{path}.d/epoch-0000000001.manifest")
    assert manifest < 100_000
    import hyperchunk

    with hyperchunk.open(path) as file:
        found = file["a"][1000:3000]
    np.testing.assert_array_equal(found, np.frombuffer(b"ab" * 1000, "u1"))
