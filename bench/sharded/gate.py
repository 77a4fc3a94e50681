"""A barrier whose waiting processes sleep: MPI's own spin, and would take cores from working processes."""

from __future__ import annotations

import os
from pathlib import Path


class Gate:
    """Barrier of `ranks` processes of one machine, through four FIFOs in a folder; call `prepare` before they start."""

    def __init__(self, folder: Path, rank: int, ranks: int) -> None:
        self.rank, self.ranks, self.turn = rank, ranks, 0
        # Opened for reading and writing, so that neither the open blocks nor a read sees an end of file.
        self.ends = [[os.open(folder / f"{way}{turn}", os.O_RDWR) for way in ("in", "out")] for turn in range(2)]

    @staticmethod
    def prepare(folder: Path) -> None:
        """Makes the FIFOs."""
        folder.mkdir()
        for turn in range(2):
            for way in ("in", "out"):
                os.mkfifo(folder / f"{way}{turn}")

    def wait(self) -> None:
        """Waits for all processes. Two pairs of FIFOs alternate, so that a process still in the previous barrier is
        not disturbed.
        """
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
