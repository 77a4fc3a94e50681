"""What the ranks write: one-dimensional datasets, and for each rank a list of transfers.

| pattern | datasets | a rank's transfers |
|---|---|---|
| vpic | 8 of float32 | one a dataset: 2 Mi particles, next to those of the ranks before and after |
| contiguous | of bytes | a part of its own of each dataset, 1 MiB a transfer |
| interleaved | of bytes | 1 MiB + 10 B a transfer, ranks taking turns: nothing is aligned; as much as vpic |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MIB = 1 << 20


@dataclass(frozen=True)
class Transfer:
    """One write, or read: elements of a dataset from `start`."""

    dataset: int
    start: int
    array: Array


@dataclass(frozen=True)
class Pattern:
    """What all the ranks write together."""

    name: str
    ranks: int
    datasets: int
    transfers: int  # of one rank to one dataset
    count: int  # elements of a transfer

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of every dataset."""
        return np.dtype("<f4" if self.name == "vpic" else "u1")

    @property
    def length(self) -> int:
        """Elements of a dataset."""
        return self.ranks * self.transfers * self.count

    @property
    def total(self) -> int:
        """Bytes of everything."""
        return self.datasets * self.length * self.dtype.itemsize

    def start(self, rank: int, number: int) -> int:
        """Where a rank's transfer starts."""
        turn = number * self.ranks + rank if self.name == "interleaved" else rank * self.transfers + number
        return turn * self.count

    def of(self, rank: int) -> list[Transfer]:
        """A rank's transfers; the values are the same each time."""
        draw = np.random.default_rng([7, rank])
        shape = (self.datasets, self.transfers, self.count)
        values: Array
        if self.name == "vpic":
            values = draw.standard_normal(shape, np.float32)
        else:
            values = np.frombuffer(bytearray(draw.bytes(int(np.prod(shape)))), np.uint8).reshape(shape)
        return [
            Transfer(dataset, self.start(rank, number), values[dataset, number])
            for dataset in range(self.datasets)
            for number in range(self.transfers)
        ]


def pattern(name: str, ranks: int, datasets: int = 0, transfers: int = 0, count: int = 0) -> Pattern:
    """A pattern of the table; 0 is its usual number."""
    usual = {"vpic": (8, 1, 2 * MIB), "contiguous": (4, 6, MIB), "interleaved": (4, 16, MIB + 10)}[name]
    return Pattern(name, ranks, datasets or usual[0], transfers or usual[1], count or usual[2])
