"""Part of the demo with many processes: four write one file at once, and plain h5py reads it.

The same parts go, in turn, to a raw file for each process (the floor: nothing can be faster), to a sharded store, and
to one HDF5 file protected by a lock, the usual solution. Opening, closing and the commit are part of the time.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import h5py
import numpy as np
import numpy.typing as npt
from hyperchunk import store

PROCESSES, ROUNDS = 4, 5
TILES = (12, 6)
FORK = multiprocessing.get_context("fork")
Bands = dict[str, npt.NDArray[Any]]

READ = """
import sys, h5py, numpy
with h5py.File(sys.argv[1]) as file:
    for name in sorted(file):
        numpy.save(f"{sys.argv[2]}/{name}.npy", file[name][...])
"""


class Way(NamedTuple):
    """A way to write the parts."""

    label: str
    #: Runs before the clock starts; returns the writers' shared state.
    prepare: Callable[[Path, Bands], Any]
    #: Writes one process's part: rows from the first to the second.
    write: Callable[[Path, Any, Bands, int, int, int], Any]
    #: Runs after all have written.
    finish: Callable[[Path, Any, list[Any]], None]


def _raw(folder: Path, _: Any, bands: Bands, rank: int, first: int, end: int) -> None:
    with (folder / f"raw{rank}").open("wb", buffering=0) as file:
        for values in bands.values():
            file.write(values[first:end].data)


def _store(folder: Path, bands: Bands) -> store.Store:
    datasets = {name: store.Dataset(values.shape, values.dtype) for name, values in bands.items()}
    return store.create(folder / "scene.h5", datasets, sync="never")


def _to_store(_: Path, run: store.Store, bands: Bands, rank: int, first: int, end: int) -> bytes:
    with run.writer() as writer:
        for name, values in bands.items():
            writer.write(name, (first, 0), values[first:end])
    return writer.close()


def _commit(_: Path, run: store.Store, tickets: list[bytes]) -> None:
    run.commit(tickets)


def _one_file(folder: Path, bands: Bands) -> None:
    with h5py.File(folder / "locked.h5", "w") as file:
        for name, values in bands.items():
            file.create_dataset(name, values.shape, values.dtype)


def _under_lock(folder: Path, _: Any, bands: Bands, rank: int, first: int, end: int) -> None:
    with (folder / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        with h5py.File(folder / "locked.h5", "r+") as file:
            for name, values in bands.items():
                file[name][first:end] = values[first:end]


def _nothing(*_: Any) -> None:
    pass


WAYS = [
    Way("a raw file for each process", _nothing, _raw, _nothing),
    Way("one file, with Hyperchunk", _store, _to_store, _commit),
    Way("one file, with h5py and a lock", _one_file, _under_lock, _nothing),
]


def timed(way: Way, folder: Path, bands: Bands) -> float:
    """Returns the seconds from the common start until everything is written and committed."""
    rows = next(iter(bands.values())).shape[0]
    edges = [rows * rank // PROCESSES for rank in range(PROCESSES + 1)]
    shared = way.prepare(folder, bands)
    barrier, results = FORK.Barrier(PROCESSES + 1), FORK.SimpleQueue()

    def work(rank: int) -> None:
        barrier.wait()
        results.put(way.write(folder, shared, bands, rank, edges[rank], edges[rank + 1]))

    processes = [FORK.Process(target=work, args=(rank,)) for rank in range(PROCESSES)]
    for process in processes:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    way.finish(folder, shared, [results.get() for _ in processes])
    seconds = time.perf_counter() - start
    for process in processes:
        process.join()
    return seconds


def act(scene: Bands) -> tuple[dict[str, list[float]], bool, int, int]:
    """Returns each way's times relative to the floor in the same round, whether plain h5py read the scene, its size
    in bytes, and the number of files.
    """
    bands = {name: np.ascontiguousarray(np.tile(values, TILES), "f4") for name, values in sorted(scene.items())}
    size = sum(values.nbytes for values in bands.values())
    ratios: dict[str, list[float]] = {way.label: [] for way in WAYS}
    shared = Path("/dev/shm")
    room = shared.is_dir() and shutil.disk_usage(shared).free > 6 * size
    for number in range(ROUNDS + 1):
        with tempfile.TemporaryDirectory(dir=shared if room else None) as name:
            folder = Path(name)
            seconds = {way.label: timed(way, folder, bands) for way in WAYS}
            if number:
                for label, taken in seconds.items():
                    ratios[label].append(taken / seconds[WAYS[0].label])
            if number == ROUNDS:
                files = 1 + len(list((folder / "scene.h5.d").iterdir()))
                out = folder / "out"
                out.mkdir()
                command = [sys.executable, "-c", READ, str(folder / "scene.h5"), str(out)]
                subprocess.run(command, env={"PATH": os.environ["PATH"]}, check=True)
                right = all(np.array_equal(np.load(out / f"{band}.npy"), values) for band, values in bands.items())
    for label, taken in ratios.items():
        print(f"  {label:32} {median(taken):5.2f} of the floor  [{min(taken):.2f} to {max(taken):.2f}]")
    return ratios, right, size, files
