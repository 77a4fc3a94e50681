"""Lists of rows and shuffled batches, against h5py in the same run.

    .venv/bin/python bench/indexing.py
    .venv/bin/python bench/indexing.py --rows 100000 --rounds 1

The file has rows of 64 numbers in chunks of 1,000 rows, as `gzip` at level 1 and uncompressed. Of h5py, the fastest
usual way is measured: a sorted list as it is; an unsorted or repeated one through `numpy.unique`; batches of a
permutation of all rows, each sorted, since h5py reads no others. Results are compared outside the clock; medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np

COLUMNS = 64


def elapsed(work: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Returns the median time of some work, and its last result."""
    times, result = [], None
    for _ in range(rounds):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def unsorted(dataset: h5py.Dataset, rows: np.ndarray) -> np.ndarray:
    """Reads rows in any order with h5py."""
    order, inverse = np.unique(rows, return_inverse=True)
    return dataset[order][inverse]


def epoch_of_h5py(dataset: h5py.Dataset, size: int, most: int) -> int:
    """Reads the first batches of a shuffled epoch with h5py, as usual loaders do."""
    order = np.random.default_rng(1).permutation(len(dataset))
    return sum(len(dataset[np.sort(order[at : at + size])]) for at in range(0, min(most * size, len(dataset)), size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--listed", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    data = random.integers(0, 1000, (options.rows, COLUMNS)).astype("f4")
    rows = random.integers(0, options.rows, options.listed)
    points = random.integers(0, COLUMNS, options.listed)
    once = np.unique(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("gzip", data=data, chunks=(1000, COLUMNS), compression="gzip", compression_opts=1)
            file.create_dataset("chunked", data=data, chunks=(1000, COLUMNS))
            file["contiguous"] = data
        with h5py.File(path) as theirs, hyperchunk.open(path) as ours:
            for name in theirs:
                compare(name, theirs[name], ours[name], data, (once, rows, points), options.rounds)


def compare(name: str, a: h5py.Dataset, b: Any, data: np.ndarray, lists: tuple[np.ndarray, ...], rounds: int) -> None:
    """Measures one dataset."""
    once, rows, points = lists
    for what, his, mine in (
        (f"sorted list of {len(once):,} rows", lambda: a[once], lambda: b[once]),
        (f"unsorted list of {len(rows):,} rows", lambda: unsorted(a, rows), lambda: b[rows]),
        (f"{len(rows):,} points", None, lambda: b[rows, points]),
    ):
        mine_time, found = elapsed(mine, rounds)
        if his is None:
            assert np.array_equal(found, data[rows, points])
            print(f"{name:11} {what:32} hyperchunk {mine_time:7.3f} s   h5py refuses")
            continue
        his_time, wanted = elapsed(his, 1)
        assert np.array_equal(found, wanted)
        print(
            f"{name:11} {what:32} hyperchunk {mine_time:7.3f} s   h5py {his_time:7.3f} s   "
            f"{his_time / mine_time:5.1f} x"
        )
    batches = b.batches(256, shuffle=1)
    mine_time, total = elapsed(lambda: sum(len(batch) for batch in batches), rounds)
    assert total == len(data)
    his_time, some = elapsed(lambda: epoch_of_h5py(a, 256, 20), 1)
    mine_rate, his_rate = total / mine_time, some / his_time
    print(
        f"{name:11} {'shuffled batches of 256 rows':32} hyperchunk {mine_rate:,.0f} rows/s   h5py "
        f"{his_rate:,.0f} rows/s   {mine_rate / his_rate:5.1f} x"
    )


if __name__ == "__main__":
    main()
