"""Cost of opening and closing with 4 to 256 processes: 10 datasets, and almost no data.

    .venv/bin/python bench/sharded/open_close.py
    .venv/bin/python bench/sharded/open_close.py --processes 4,16 --rounds 3

Processes are forked and wait. The clock runs from the common start until the last one has closed and, if there
is something to commit, that is done; the preparation by one process before the others can start (a file, a schema) is
added. Each process writes 16 bytes to each dataset. Ways take turns in every round; round 0 is dropped; figures are
medians [least..most].
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import environment
import report

DATASETS, BYTES = 10, 16


class Way:
    """A way to open, write almost nothing, and close."""

    label: ClassVar[str]
    all: ClassVar[dict[str, type[Way]]] = {}

    def __init_subclass__(cls, key: str, label: str) -> None:
        cls.label = label
        Way.all[key] = cls

    def __init__(self, folder: Path, processes: int) -> None:
        from pattern import Pattern

        self.folder, self.processes = folder, processes
        self.pattern = Pattern("contiguous", processes, DATASETS, 1, BYTES)

    def peer(self, key: str, number: int) -> Any:
        """Returns a peer of write.py, in this process."""
        from peers import Case, Peer

        comm = SimpleNamespace(rank=number, size=self.processes)
        return Peer.all[key](Case(comm, self.pattern, self.folder, self.pattern.of(number)))

    def before(self) -> None:
        """Prepares shared files in one process."""

    def prepare(self, number: int) -> Callable[[], bytes]:
        """Prepares a process's work, and returns a function that does it and returns a report."""
        raise NotImplementedError

    def after(self, told: list[bytes]) -> None:
        """Runs after all have closed."""


class OneFile(Way, key="shared", label="one shared file, raw"):
    """Uses `open`, `pwrite`, `close`."""

    def before(self) -> None:
        (self.folder / "shared").touch()

    def prepare(self, number: int) -> Callable[[], bytes]:
        peer = self.peer("shared", number)
        return lambda: peer.write() or b""


class FileEach(Way, key="each", label="a raw file for each process and dataset"):
    """The simplest manual solution."""

    def prepare(self, number: int) -> Callable[[], bytes]:
        from peers import NEW, opened

        def work() -> bytes:
            for dataset in range(DATASETS):
                with opened(self.folder / f"{dataset}.{number}", NEW) as file:
                    os.write(file, b"x" * BYTES)
            return b""

        return work


class Paper(Way, key="paper", label="the paper's layout"):
    """A container for each dataset."""

    def prepare(self, number: int) -> Callable[[], bytes]:
        peer = self.peer("paper", number)
        return lambda: peer.write() or b""


class Lock(Way, key="h5py-lock", label="h5py, in turn under a lock"):
    """Opens for reading and writing, and closes."""

    def before(self) -> None:
        import h5py

        with h5py.File(self.folder / "s.h5", "w", libver="latest") as file:
            for name in range(DATASETS):
                file.create_dataset(f"v{name}", (self.pattern.length,), "u1")

    def prepare(self, number: int) -> Callable[[], bytes]:
        import h5py
        import numpy as np
        from peers import opened

        data = np.zeros(BYTES, "u1")

        def work() -> bytes:
            with opened(self.folder / "lock", os.O_CREAT | os.O_WRONLY) as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX)
                with h5py.File(self.folder / "s.h5", "r+", libver="latest") as file:
                    for dataset in range(DATASETS):
                        file[f"v{dataset}"][number * BYTES : (number + 1) * BYTES] = data
            return b""

        return work


class Store(Way, key="store", label="**Hyperchunk**"):
    """A writer for each process; the first one commits."""

    made: Any = None

    def before(self) -> None:
        from hyperchunk import store

        each = store.Dataset((self.pattern.length,), "u1")
        self.made = store.create(self.folder / "store.h5", {f"v{i}": each for i in range(DATASETS)})

    def prepare(self, number: int) -> Callable[[], bytes]:
        import numpy as np

        data, made = np.zeros(BYTES, "u1"), self.made

        def work() -> bytes:
            writer = made.writer()
            for dataset in range(DATASETS):
                writer.write(f"v{dataset}", number * BYTES, data)
            return bytes(writer.close())

        return work

    def after(self, told: list[bytes]) -> None:
        self.made.commit(told)


def child(way: Way, number: int, go: int, ready: int, told: socket.socket) -> None:
    """Runs a process: waits, works, reports."""
    try:
        work = way.prepare(number)
        os.write(ready, b"x")
        os.read(go, 1)
        told.send(b"+" + work())
    except BaseException:
        told.send(b"-" + traceback.format_exc().encode()[-2000:])
    os._exit(0)


def run(key: str, folder: Path, processes: int) -> tuple[float, int]:
    """Returns one time, and the number of created entries."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    way = Way.all[key](folder, processes)
    start = time.perf_counter()
    way.before()
    made = time.perf_counter() - start
    go, release = os.pipe()
    heard, ready = os.pipe()
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    children = []
    for number in range(processes):
        if not (pid := os.fork()):
            os.close(release)
            child(way, number, go, ready, theirs)
        children.append(pid)
    count = 0
    while count < processes:
        count += len(os.read(heard, processes))
    start = time.perf_counter()
    os.close(release)
    told = [mine.recv(1 << 16) for _ in range(processes)]
    if wrong := [text[1:].decode() for text in told if text[:1] != b"+"]:
        raise ChildProcessError(f"{key}: {wrong[0]}")
    way.after([text[1:] for text in told])
    seconds = time.perf_counter() - start + made
    for pid in children:
        os.waitpid(pid, 0)
    for descriptor in (go, heard, ready):
        os.close(descriptor)
    mine.close()
    theirs.close()
    return seconds, sum(1 for _ in folder.rglob("*"))


def table(rows: list[dict[str, Any]]) -> str:
    """Formats milliseconds, and ratios to the shared file of the same round."""
    processes = sorted({row["processes"] for row in rows})
    lines = [f"| way | {' | '.join(f'{n} processes' for n in processes)} | files and folders, {processes[-1]} |"]
    lines += ["|---" * (len(processes) + 2) + "|"]
    for key in {row["way"]: None for row in rows}:
        cells = []
        for number in processes:
            mine = {row["round"]: row for row in rows if row["way"] == key and row["processes"] == number}
            base = {row["round"]: row for row in rows if row["way"] == "shared" and row["processes"] == number}
            times = [row["seconds"] * 1e3 for row in mine.values()]
            cell = f"{statistics.median(times):.1f} ms [{min(times):.1f}..{max(times):.1f}]"
            if base and key != "shared":
                ratio = statistics.median(mine[turn]["seconds"] / base[turn]["seconds"] for turn in mine)
                cell += f", x{ratio:.2f}"
            cells.append(cell)
        entries = next(row["entries"] for row in rows if row["way"] == key and row["processes"] == processes[-1])
        lines.append(f"| {Way.all[key].label} | {' | '.join(cells)} | {entries} |")
    return "\n".join(lines)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="4,16,64,256")
    parser.add_argument("--ways", default=",".join(("shared", "store", "each", "paper", "h5py-lock")))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", default="/dev/shm", help="where to write (default: memory)")
    parser.add_argument("--out", type=Path, default=Path("sharded-open-close.jsonl"))
    parser.add_argument("--page", action="store_true", help="puts the table into docs/results/plfs.md")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        raise SystemExit(environment.run([environment.python(), *sys.argv, "--inside"]))
    # Imported before the forks, so that no process has it in its time.
    import h5py  # noqa: F401
    import peers  # noqa: F401

    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for number in range(options.rounds + 1):
            for processes in map(int, options.processes.split(",")):
                for key in options.ways.split(","):
                    seconds, entries = run(key, Path(folder) / "bench", processes)
                    if number:
                        row = {"way": key, "processes": processes, "round": number, "seconds": seconds}
                        rows.append(row | {"entries": entries})
                        with options.out.open("a") as file:
                            print(json.dumps(rows[-1]), file=file)
    print(table(rows))
    if options.page:
        report.put("open-close", table(rows))


if __name__ == "__main__":
    main()
