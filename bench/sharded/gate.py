"""A barrier whose waiting processes sleep: those of MPI spin, and would take the cores from who still works."""

from __future__ import annotations

import os
from pathlib import Path


class Gate:
    """Of `ranks` processes of one machine, through four FIFOs in a folder; `prepare` it before they start."""

    def __init__(self, folder: Path, rank: int, ranks: int) -> None:
        self.rank, self.ranks, self.turn = rank, ranks, 0
        # Read and write: so that neither opening nor reading sees an end.
        self.ends = [[os.open(folder / f"{way}{turn}", os.O_RDWR) for way in ("in", "out")] for turn in range(2)]

    @staticmethod
    def prepare(folder: Path) -> None:
        """Makes the FIFOs."""
        folder.mkdir()
        for turn in range(2):
            for way in ("in", "out"):
                os.mkfifo(folder / f"{way}{turn}")

    def wait(self) -> None:
        """Until all are here. Who is still in the gate before this one takes nothing of it: they take turns."""
        arrive, leave = self.ends[self.turn]
        self.turn ^= 1
        others = self.ranks - 1
        if self.rank:
            os.write(arrive, b"x")
            os.read(leave, 1)
        else:
            while others:
                others -= len(os.read(arrive, others))
            os.write(leave, b"x" * (self.ranks - 1))
