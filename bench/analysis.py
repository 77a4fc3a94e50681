"""What statistics cost while data are written: against a store without them and a plain file, in the same loop.

    .venv/bin/python bench/analysis.py        # the table
    .venv/bin/python bench/analysis.py -h     # sizes, rounds, where

Every round writes the same array each way, in turn: to a plain file (the floor: nothing can be faster), to a store with
checksums, and to one with statistics, too. The table has medians of the rounds' ratios. Then it asks for the largest
value, and reads everything for it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hyperchunk import store

Values = npt.NDArray[Any]


def make(mebibytes: int, dtype: str) -> Values:
    """What a model gives: smooth, with noise."""
    count = mebibytes * 2**20 // np.dtype(dtype).itemsize
    values = np.sin(np.arange(count) / 1e5) * 100 + np.random.default_rng(3).integers(0, 8, count)
    return values.astype(dtype).reshape(-1, 2**14)


def raw(folder: Path, values: Values, step: int) -> None:
    """A plain file."""
    with (folder / "raw").open("wb", buffering=0) as file:
        for row in range(0, len(values), step):
            file.write(values[row : row + step].data)


def ours(folder: Path, values: Values, step: int, keep: bool) -> store.Store:
    """A store, with statistics or without."""
    run = store.create(
        folder / "a.h5", {"/h": store.Dataset(values.shape, values.dtype)}, statistics=keep, sync="never"
    )
    with run.writer() as writer:
        for row in range(0, len(values), step):
            writer.write("/h", (row, 0), values[row : row + step])
    run.commit([writer.close()])
    return run


def timed(work: Callable[[], Any]) -> float:
    """How long something takes."""
    clock = time.perf_counter()
    work()
    return time.perf_counter() - clock


def round_of(values: Values, step: int, within: Path | None) -> dict[str, float]:
    """One round, as ratios."""
    folder = Path(tempfile.mkdtemp(dir=within))
    try:
        floor = timed(lambda: raw(folder, values, step))
        (folder / "raw").unlink()
        plain = timed(lambda: ours(folder, values, step, False))
        shutil.rmtree(folder / "a.h5.d")
        (folder / "a.h5").unlink()
        kept = timed(lambda: ours(folder, values, step, True))
        run = store.open(folder / "a.h5")
        asked = timed(lambda: run.shards("/h").top(1))
        read = timed(lambda: run.open()["/h"][...].max())
    finally:
        shutil.rmtree(folder)
    return {"checksum": plain / floor, "statistics": kept / floor, "cost": kept / plain, "asked": read / asked}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=256)
    parser.add_argument("--write", type=int, default=8, help="MiB of each write")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dtypes", default="f4,f8,i4,u2,>f4")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = []
    for dtype in given.dtypes.split(","):
        values = make(given.mebibytes, dtype)
        step = max(1, given.write * 2**20 // values[0].nbytes)
        ratios: dict[str, list[float]] = {"checksum": [], "statistics": [], "cost": [], "asked": []}
        for _ in range(given.rounds):
            for name, ratio in round_of(values, step, given.folder).items():
                ratios[name].append(ratio)
        found.append({"dtype": dtype, **{name: statistics.median(all_) for name, all_ in ratios.items()}})
    if given.json:
        print(json.dumps(found))
        return
    print(f"{given.mebibytes} MiB in writes of {given.write} MiB; times of the plain file, medians of {given.rounds}")
    print("dtype  checksums  statistics  with/without  read all/ask")
    for row in found:
        numbers = f"{row['checksum']:9.2f}  {row['statistics']:10.2f}  {row['cost']:12.2f}  {row['asked']:12.0f}"
        print(f"{row['dtype']:5}  {numbers}")


if __name__ == "__main__":
    main()
