"""Hyperchunk's ways to write, beside those of peers.py: from Python, and through the VOL from unmodified h5py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import hyperchunk
from hyperchunk import plugins
from pattern import Transfer
from peers import Case, Done, Peer, read_h5

HERE = Path(__file__).resolve().parent


def gathered(comm: Any, value: Any) -> list[Any]:
    """Returns the values of all ranks in the first one, which sleeps while it waits; the others continue at once.
    MPI's own calls spin: if ranks share cores, a waiting rank would slow the working ones.
    """
    if comm.rank:
        comm.send(value, 0)
        return []
    found = [value]
    while len(found) < comm.size:
        if comm.iprobe():
            found.append(comm.recv())
        else:
            time.sleep(5e-5)
    return found


class Store(Peer, key="store", label="**Hyperchunk**, checksums"):
    """A writer in each process. The first rank makes the file, without blocking the others, gets the tickets, and
    commits.
    """

    checksum: ClassVar[bool] = True
    statistics: ClassVar[bool] = False

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.case.folder / "store.h5"

    def write(self) -> None:
        from hyperchunk import store

        case = self.case
        how = {"checksum": self.checksum, "statistics": self.statistics}
        each = store.Dataset((case.pattern.length,), case.pattern.dtype)
        made = store.create_all(case.comm, self.path, dict.fromkeys(case.names(), each), **how)
        writer = made.writer(**how)
        for transfer in case.transfers:
            writer.write(f"v{transfer.dataset}", transfer.start, transfer.array)
        if tickets := gathered(case.comm, writer.close()):
            made.commit(tickets)

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        with hyperchunk.open(self.path) as file:
            read_h5(file, transfers, self.case.scratch, done)


class StorePlain(Store, key="store-plain", label="**Hyperchunk**, no checksums"):
    """The same without checksums."""

    checksum = False


class StoreStatistics(Store, key="store-statistics", label="**Hyperchunk**, checksums and statistics"):
    """The same with count, minimum, maximum, their indices and the sum of each record."""

    statistics = True


class Vol(Peer, key="vol", label="**Hyperchunk**, h5py through the VOL"):
    """A separate process for each rank, so that HDF5 is loaded with the connector; it waits between rounds."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        pattern = case.pattern
        numbers = [case.rank, pattern.ranks, pattern.datasets, pattern.transfers, pattern.count]
        command = [sys.executable, HERE / "vol_program.py", pattern.name, *numbers]
        # A rank itself would derive the session from its parent, the launcher.
        session = {"HYPERCHUNK_SESSION": str(case.folder)}
        self.process = subprocess.Popen(
            list(map(str, command)),
            env=os.environ | plugins.environment(store=True) | session,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.answer()

    def answer(self) -> Any:
        """Returns the program's answer."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise ChildProcessError(f"vol_program.py ended with {self.process.wait()}")
        return json.loads(line)

    def write(self) -> tuple[float, float]:
        assert self.process.stdin
        print(self.case.folder / "vol.h5", file=self.process.stdin)
        start, end = self.answer()
        return start, end

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        with hyperchunk.open(self.case.folder / "vol.h5") as file:
            read_h5(file, transfers, self.case.scratch, done)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
