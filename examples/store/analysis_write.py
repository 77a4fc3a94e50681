"""Functions in Lua and Python analyse an ocean model while four processes write it.

    python examples/store/analysis_write.py [FILE]

Each process hands rows of every hour to its writer; a function in Lua finds the biggest wave in them and one in Python
the roughness of the sea, in the sandbox of live datasets. Their results are stored beside the data: a query for the
biggest wave reads a few kilobytes. This needs a key (`hyperchunk key new`), with which the functions are signed.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import hyperchunk
import numpy as np
import numpy.typing as npt
from hyperchunk import store

PROCESSES, HOURS, ROWS, COLUMNS = 4, 12, 512, 512
HERE = Path(__file__).parent


def surface(hour: int, first: int, last: int) -> npt.NDArray[np.float32]:
    """Returns the height of rows of the basin at an hour: two swells, and a place where they meet."""
    y, x = np.arange(first, last, dtype="f4")[:, None], np.arange(COLUMNS, dtype="f4")
    height = np.cos(x / 23 + hour) + 1.5 * np.cos((x + 2 * y) / 31 - hour / 3)
    height = height + 14 * np.exp(-((y - 377) ** 2 + (x - 130) ** 2) / 90 - (hour - 7) ** 2 / 2)
    return np.asarray(height, "f4")


def simulate(run: store.Store, rank: int) -> tuple[bytes, list[store.Report]]:
    """Runs one process: its strip of rows, hour after hour."""
    rows = ROWS // PROCESSES
    with run.writer() as writer:
        for hour in range(HOURS):
            writer["/ocean/h"][hour, rank * rows : (rank + 1) * rows] = surface(hour, rank * rows, (rank + 1) * rows)
        reports = writer.analyses
    return writer.close(), reports


def main() -> None:
    """Writes, commits, queries."""
    waves = store.Analysis(
        HERE / "waves.lua",
        ["/ocean/h"],
        failure="mark",
        merge={"max": "max", "where": "with max", "sum": "sum", "count": "sum"},
    )
    rough = store.Analysis(
        HERE / "roughness.py", ["/ocean/h"], merge={"significant": "max", "hour": "with significant", "still": "sum"}
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "ocean.h5"
        ocean = {"/ocean/h": store.Dataset((HOURS, ROWS, COLUMNS), "f4", attrs={"units": "m"})}
        run = store.create(path, ocean, analyses=[waves, rough], sync="never")
        start = time.perf_counter()
        with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
            done = pool.starmap(simulate, [(run, rank) for rank in range(PROCESSES)])
        run.commit([ticket for ticket, _ in done])
        print(f"{PROCESSES} processes wrote {HOURS} hours in {time.perf_counter() - start:.2f} s")
        for number, name in enumerate(("waves", "roughness")):
            calls = sum(reports[number].calls for _, reports in done)
            seconds = sum(reports[number].seconds for _, reports in done)
            print(f"  {name}: {calls} calls, {seconds / calls * 1000:.2f} ms each")
        total = HOURS * ROWS * COLUMNS * 4
        for found in run.results("/ocean/h"):
            print(f"{found.name}: {found.values}")
            print(f"  {len(found.boxes)} boxes; {found.bytes_scanned:,} of {total:,} bytes were read")
            if found.name == "waves" and found.values is not None:
                where = tuple(int(place) for place in found.values["where"])  # type: ignore[union-attr]
                with hyperchunk.open(path) as file:
                    assert file["/ocean/h"][where] == np.float32(found.values["max"])


if __name__ == "__main__":
    main()
