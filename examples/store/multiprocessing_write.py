"""Four processes fill one HDF5 file, and none waits for another: multiprocessing, no MPI, no lock.

    python examples/store/multiprocessing_write.py [FILE]

Each process takes bands of a picture from a queue and writes them in place: in any order, of any height. When
it closes, a writer returns a ticket of a few bytes; the process with all tickets commits, and the file is complete.
It is then read by Hyperchunk, and by plain h5py without Hyperchunk.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import numpy.typing as npt
from hyperchunk import store

PROCESSES = 4
HEIGHT, WIDTH = 1201, 1600
BANDS = [(first, min(first + 37, HEIGHT)) for first in range(0, HEIGHT, 37)]


def escape(first: int, end: int) -> npt.NDArray[np.uint16]:
    """Returns rows of the Mandelbrot set: the number of steps until a point escapes."""
    y = np.linspace(-1.2, 1.2, HEIGHT)[first:end, np.newaxis]
    x = np.linspace(-2.3, 0.9, WIDTH)
    c = x + 1j * y
    z = np.zeros_like(c)
    steps = np.zeros(c.shape, np.uint16)
    for _ in range(80):
        inside = np.abs(z) <= 2
        z[inside] = z[inside] ** 2 + c[inside]
        steps += inside
    return steps


def work(whole: store.Store, number: int, bands: Any, tickets: Any) -> None:
    """Runs one process: a writer of its own, opened once."""
    with whole.writer() as writer:
        for first, end in iter(bands.get, None):
            writer["steps"][first:end] = escape(first, end)
            writer["who"][first:end] = number
        writer.structure.require_group("writers").attrs[f"pid of {number}"] = os.getpid()
    tickets.put(writer.close())


def main() -> None:
    """Writes, commits, reads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "mandelbrot.h5"
        start = time.perf_counter()
        whole = store.create(
            path,
            {
                "steps": store.Dataset((HEIGHT, WIDTH), "u2", attrs={"at most": 80}),
                "who": store.Dataset((HEIGHT,), "u1"),
            },
            statistics=True,
        )
        context = multiprocessing.get_context("spawn")
        bands, tickets = context.Queue(), context.Queue()
        for band in BANDS + [None] * PROCESSES:
            bands.put(band)
        processes = [context.Process(target=work, args=(whole, number, bands, tickets)) for number in range(PROCESSES)]
        for process in processes:
            process.start()
        whole.commit([tickets.get() for _ in processes])
        for process in processes:
            process.join()
        print(f"{PROCESSES} processes wrote {len(BANDS)} bands in {time.perf_counter() - start:.2f} s")

        with hyperchunk.open(path) as file:
            steps = file["steps"][...]
            shares = np.bincount(file["who"][...], minlength=PROCESSES)
        print(f"rows by process: {shares.tolist()}; {np.mean(steps == 80):.1%} of the points stay")
        assert np.array_equal(steps[600], escape(600, 601)[0])

        # Its datasets point into the logs, so nothing was copied. `hyperchunk store pack` would make one file.
        with h5py.File(path) as file:
            assert np.array_equal(file["steps"][...], steps)
            print(f"plain h5py reads the same; {dict(file['writers'].attrs)}")


if __name__ == "__main__":
    main()
