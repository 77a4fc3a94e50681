"""Part of the demo with SQL: DuckDB queries an HDF5 file that plain h5py wrote, and nothing is converted.

The same query goes, in turn, to columns read by h5py (all of the group, or only the needed ones), and to the group as
a table, whose columns are used in place in the file. CPU seconds of all threads: the minimum of the rounds. Then one
file is written that is HDF5 and Arrow at once, and h5py, pyarrow and DuckDB read the same values.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import h5py
import hyperchunk
import numpy as np
import numpy.typing as npt
import pyarrow as pa

TILES, ROUNDS = (12, 6), 7
QUESTION = "select count(*), avg((NIR - Red) / (NIR + Red)) from pixels where NIR > 0.3 and Red < 0.05"
NEEDED = ("NIR", "Red")
Bands = dict[str, npt.NDArray[Any]]
Answer = tuple[int, float]


def ask(pixels: Any) -> Answer:
    """Returns DuckDB's answer; it finds the table by the name of the argument."""
    ((count, mean),) = duckdb.sql(QUESTION).fetchall()
    return int(count), float(mean)


def all_columns(path: Path) -> Answer:
    with h5py.File(path) as file:
        return ask(pa.table({name: data[...] for name, data in file["pixels"].items()}))


def needed_columns(path: Path) -> Answer:
    with h5py.File(path) as file:
        return ask(pa.table({name: file["pixels"][name][...] for name in NEEDED}))


def in_place(path: Path) -> Answer:
    with hyperchunk.open(path) as file:
        return ask(file["pixels"].table())


WAYS: dict[str, Callable[[Path], Answer]] = {
    "Hyperchunk: the group is a table": in_place,
    "h5py, the two columns it needs": needed_columns,
    "h5py, the group": all_columns,
}


def both(bands: Bands, folder: Path) -> list[str]:
    """Writes a file that is HDF5 and Arrow at once; returns the readers with wrong values."""
    path = folder / "pixels.arrow.h5"
    with hyperchunk.create(path, layout="arrow") as file:
        file.append(bands)
    wrong = []
    with h5py.File(path) as file:
        if not all(np.array_equal(file[name], values) for name, values in bands.items()):
            wrong.append("h5py")
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
        if not all(np.array_equal(table[name].to_numpy(), values) for name, values in bands.items()):
            wrong.append("pyarrow")
        if ask(table) != ask(pa.table(bands)):
            wrong.append("DuckDB")
    return wrong


def act(scene: Bands) -> tuple[dict[str, float], int, list[str]]:
    """Returns for each way its CPU seconds, the size of the table in bytes, and the failures."""
    bands = {name: np.ascontiguousarray(np.tile(values, TILES), "f4").reshape(-1) for name, values in scene.items()}
    size = sum(values.nbytes for values in bands.values())
    least: dict[str, float] = {}
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "pixels.h5"
        with h5py.File(path, "w") as file:
            for band, values in bands.items():
                file[f"pixels/{band}"] = values
        red, nir = bands["Red"].astype("f8"), bands["NIR"].astype("f8")
        chosen = (bands["NIR"] > 0.3) & (bands["Red"] < 0.05)
        expected = int(chosen.sum()), float(((nir - red) / (nir + red))[chosen].mean())
        for number in range(ROUNDS + 1):
            for label, way in WAYS.items():
                start = time.process_time()
                answer = way(path)
                taken = time.process_time() - start
                if number:
                    least[label] = min(taken, least.get(label, taken))
                elif answer[0] != expected[0] or not np.isclose(answer[1], expected[1], rtol=1e-5):
                    wrong.append(f"{label}: {answer}, not {expected}")
        wrong += [
            f"{reader} reads other values of the file that is HDF5 and Arrow" for reader in both(bands, Path(name))
        ]
    best = next(iter(least.values()))
    for label, taken in least.items():
        print(f"  {label:34} {taken * 1e3:6.1f} ms of CPU, {taken / best:4.1f} times")
    print(f"  the answer: {expected[0]:,} pixels, mean NDVI {expected[1]:.4f}")
    return least, size, wrong
