"""Finds the biggest wave: four processes write an ocean model, and the query reads a thousandth of its bytes.

Each process simulates a strip of a basin in which waves from distant storms meet, and writes its part of every time
step to one file: height of the surface, hour by hour, as `/ocean/h`. During the writing, the maximum and minimum height
of each megabyte are recorded. Afterwards the largest wave can be found without reading the file:

    python examples/store/ocean.py [ocean.h5]
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hyperchunk import store

PROCESSES, HOURS, ROWS, COLUMNS = 4, 24, 1024, 512
Heights = npt.NDArray[np.float32]


def surface(hour: int, first: int, last: int) -> Heights:
    """Returns the height of rows of the basin at an hour: swells from three storms, and one place where they meet."""
    y, x = np.arange(first, last, dtype="f4")[:, None], np.arange(COLUMNS, dtype="f4")
    height: Any = np.zeros((last - first, COLUMNS), "f4")
    for storm, (row, column, length) in enumerate([(-200.0, 100.0, 23.0), (700.0, -80.0, 31.0), (300.0, 900.0, 41.0)]):
        distance = np.hypot(y - row, x - column)
        height += 1.5 * np.cos(distance / length * 2 * np.pi - hour * (1 + storm / 3)) * np.exp(-distance / 2000)
    # For a few hours a focus of the swells passes through the basin.
    height += 14 * np.exp(-((y - 377) ** 2 + (x - 130) ** 2) / 90 - (hour - 17) ** 2 / 2)
    return height.astype("f4")


def simulate(run: store.Store, rank: int) -> bytes:
    """Runs one process: its strip of rows, hour after hour."""
    rows = ROWS // PROCESSES
    first, last = rank * rows, (rank + 1) * rows
    with run.writer() as writer:
        for hour in range(HOURS):
            writer["/ocean/h"][hour, first:last] = surface(hour, first, last)
    return writer.close()


def write(path: Path) -> store.Store:
    """Runs all processes, and one commit."""
    run = store.create(
        path,
        {"/ocean/h": store.Dataset((HOURS, ROWS, COLUMNS), "f4", attrs={"units": "m"})},
        statistics=True,
        sync="never",
    )
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        tickets = pool.starmap(simulate, [(run, rank) for rank in range(PROCESSES)])
    run.commit(tickets)
    return run


def main() -> None:
    """Writes the model and queries its waves."""
    with tempfile.TemporaryDirectory() as folder:
        run = write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "ocean.h5")
        top = run.zones("/ocean/h").top(1)
        wave = top[0]
        print(f"the biggest wave: {wave.value:.2f} m at (hour, row, column) {wave.index}")
        print(f"written by {wave.writer}; found by looking at {top.bytes_scanned:,} of {top.total:,} bytes", end=" ")
        print(f"({top.bytes_scanned / top.total:.4%})")
        waves = run.query("/ocean/h", "value > 12")
        indices, heights = waves.read()
        print(f"waves of more than 12 m: {len(heights)}, in {len(waves.boxes)} boxes", end=" ")
        print(f"({waves.bytes_candidate / waves.total:.2%} of the data were read)")
        for hour in np.unique(indices[:, 0]):
            there = heights[indices[:, 0] == hour]
            print(f"  hour {hour}: {len(there)} points, up to {there.max():.2f} m")


if __name__ == "__main__":
    main()
