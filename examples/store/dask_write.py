"""Writes a Dask array to one HDF5 file, each task its own block; then rewrites a part of it.

    python examples/store/dask_write.py [FILE]

With h5py all tasks would have to wait for one lock, and processes could not write at all. Here a block is written by
the process that has it, the task's result is a ticket of a few bytes, and one commit makes all of them visible at
once. A commit is an epoch: a reader that opened the file earlier continues to see the previous one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import dask
import dask.array as da
import hyperchunk
import numpy as np
from hyperchunk import store

DAYS, ROWS, COLUMNS = 60, 180, 360


def temperature(block: np.ndarray, block_info: dict | None = None) -> np.ndarray:
    """Returns a warm band that moves with the season, and reproducible noise."""
    assert block_info is not None
    places = block_info[None]["array-location"]
    day, row, _ = (np.arange(first, end) for first, end in places)
    season = 12 * np.sin(2 * np.pi * day / DAYS)[:, np.newaxis, np.newaxis]
    latitude = (row - ROWS / 2)[np.newaxis, :, np.newaxis] / ROWS * 180
    noise = np.random.default_rng([first for first, _ in places]).normal(0, 1.5, block.shape)
    return (28 - 0.006 * (latitude - season) ** 2 + noise).astype("f4")


@dask.delayed
def correct(whole: store.Store, day: int, values: np.ndarray) -> bytes:
    """Rewrites some days; the task's result is the writer's ticket."""
    with whole.writer() as writer:
        writer.write("temperature", (day, 0, 0), values + np.float32(1))
    return writer.close()


def main() -> None:
    """Writes, reads, rewrites a part, reads both."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "temperature.h5"
        empty = da.zeros((DAYS, ROWS, COLUMNS), chunks=(7, 70, 90), dtype="f4")
        field = empty.map_blocks(temperature, dtype="f4")

        with dask.config.set(scheduler="processes", num_workers=4):
            start = time.perf_counter()
            store.to_hyperchunk(field, path, name="temperature", statistics=True)
            seconds = time.perf_counter() - start
        logs = sum(1 for _ in Path(f"{path}.d").glob("*.log"))
        print(f"{field.npartitions} blocks, {field.nbytes / 1e6:.1f} MB, from {logs} writers in {seconds:.2f} s")

        first = hyperchunk.open(path)
        whole = first["temperature"][...]
        assert np.array_equal(whole, field.compute(scheduler="synchronous"))
        print(f"the warmest place has {whole.max():.1f} degrees")

        # Separate tasks correct twelve days. Their parts need not match the earlier blocks.
        again = store.open(path)
        tasks = [correct(again, day, field[day : day + 3]) for day in range(20, 30, 3)]
        with dask.config.set(scheduler="processes", num_workers=4):
            again.commit(dask.compute(*tasks))
        with hyperchunk.open(path) as second:
            now = second["temperature"][...]
        assert np.array_equal(now[20:32], whole[20:32] + np.float32(1))
        assert np.array_equal(now[:20], whole[:20])
        # The file that was opened before still shows the old epoch.
        assert np.array_equal(first["temperature"][...], whole)
        first.close()
        print("twelve days corrected; who had opened the file before still sees the old ones")


if __name__ == "__main__":
    main()
