"""Write patterns: one-dimensional datasets, and for each rank a list of transfers.

| pattern | datasets | a rank's transfers |
|---|---|---|
| vpic | 8 of float32 | one per dataset: 2 Mi particles, between the neighbouring ranks' |
| contiguous | of bytes | a separate part of each dataset, 1 MiB per transfer |
| interleaved | of bytes | 1 MiB + 10 B per transfer, ranks alternate: nothing is aligned; as many bytes as vpic |
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
    """One write or read: elements of a dataset from `start`."""

    dataset: int
    start: int
    array: Array


@dataclass(frozen=True)
class Pattern:
    """The writes of all ranks together."""

    name: str
    ranks: int
    datasets: int
    transfers: int  # of one rank to one dataset
    count: int  # elements of a transfer

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of every dataset."""
        return np.dtype("<f4" if self.name == "vpic" else "u1")

    @property
    def length(self) -> int:
        """Number of elements in a dataset."""
        return self.ranks * self.transfers * self.count

    @property
    def total(self) -> int:
        """Total bytes."""
        return self.datasets * self.length * self.dtype.itemsize

    def start(self, rank: int, number: int) -> int:
        """Returns the start of a rank's transfer."""
        turn = number * self.ranks + rank if self.name == "interleaved" else rank * self.transfers + number
        return turn * self.count

    def of(self, rank: int) -> list[Transfer]:
        """Returns a rank's transfers; the values are the same each time."""
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
    """Returns a pattern of the table; 0 selects its usual number."""
    usual = {"vpic": (8, 1, 2 * MIB), "contiguous": (4, 6, MIB), "interleaved": (4, 16, MIB + 10)}[name]
    return Pattern(name, ranks, datasets or usual[0], transfers or usual[1], count or usual[2])
