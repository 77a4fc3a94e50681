"""A query over HDF5: what it costs with a table of Hyperchunk, and what with h5py.

    python bench/arrow/query.py [--rows 8388608] [--rounds 9] [--file particles.h5] [--json results.json]

Eight columns of a group, contiguous, `float32` and `int32`, as particles of VPIC are; the query is

    select count(*), avg(x) from t where px > 32

Each way is done once a round, the rounds go through all ways in turn, and the smallest number of CPU seconds (user and
system, all threads) counts; wall times are for information. The file is in the page cache. What is compared:

- hyperchunk: `t = file.table(group)`, which is opened anew each time; as it is, and as `t.to_dataset()`
- hyperchunk and polars: `scan_hyperchunk(…)`
- h5py, all columns: each read whole, `pyarrow.table(…)`, DuckDB
- h5py, the columns that the query needs: the same with two columns
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import h5py
import hyperchunk
import numpy as np
import polars as pl
import pyarrow as pa

NAMES = ("x", "y", "z", "px", "py", "pz", "id_1", "id_2")
GROUP = "Timestep_0"
SQL = "select count(*), avg(x) from t where px > 32"
Way = Callable[[Path], Any]


def make(path: Path, rows: int) -> None:
    """Particles as VPIC-IO writes them: ramps, numbers, and random ones."""
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        group = file.create_group(GROUP)
        for name in NAMES:
            if name == "id_1":
                group[name] = np.arange(rows, dtype="i4")
            elif name in ("z", "pz"):
                group[name] = np.arange(rows, dtype="f4") / rows
            else:
                group[name] = random.random(rows, dtype="f4") * 64


def table_as_it_is(path: Path) -> Any:
    t = hyperchunk.open(path).table(GROUP)  # noqa: F841 -- DuckDB finds it
    return duckdb.sql(SQL).fetchall()[0]


def table_as_dataset(path: Path) -> Any:
    t = hyperchunk.open(path).table(GROUP).to_dataset()  # noqa: F841 -- DuckDB finds it
    return duckdb.sql(SQL).fetchall()[0]


def polars_scan(path: Path) -> Any:
    lazy = hyperchunk.scan_hyperchunk(path, GROUP)
    return lazy.filter(pl.col("px") > 32).select(pl.len(), pl.col("x").mean()).collect().row(0)


def h5py_columns(path: Path, names: tuple[str, ...]) -> Any:
    with h5py.File(path) as file:
        t = pa.table({name: file[GROUP][name][()] for name in names})  # noqa: F841 -- DuckDB finds it
    return duckdb.sql(SQL).fetchall()[0]


WAYS: dict[str, Way] = {
    "hyperchunk table, DuckDB": table_as_it_is,
    "hyperchunk table as dataset, DuckDB": table_as_dataset,
    "hyperchunk scan, polars": polars_scan,
    "h5py all columns, DuckDB": lambda path: h5py_columns(path, NAMES),
    "h5py needed columns, DuckDB": lambda path: h5py_columns(path, ("x", "px")),
}


def cpu() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU and wall seconds of something, and its result."""
    before, start = cpu(), time.perf_counter()
    found = work()
    return cpu() - before, time.perf_counter() - start, found


def opening(path: Path, rounds: int) -> dict[str, float]:
    """Seconds until there is a table and its schema, of a file that is opened for it."""

    def once() -> Any:
        return hyperchunk.open(path).table(GROUP).column_names

    return _summary([measured(once)[:2] for _ in range(10 * rounds)])


def _summary(times: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "cpu_min": min(cpu for cpu, _ in times),
        "cpu_median": statistics.median(cpu for cpu, _ in times),
        "wall_min": min(wall for _, wall in times),
        "wall_median": statistics.median(wall for _, wall in times),
    }


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8 << 20, help="rows of each column")
    parser.add_argument("--rounds", type=int, default=9, help="how often each way is gone")
    parser.add_argument("--file", type=Path, help="where the particles are, or are to be; else a temporary file")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.file or Path(folder) / "particles.h5"
        if not path.exists():
            make(path, given.rows)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
        answers: dict[str, Any] = {}
        for way in WAYS.values():
            way(path)  # what is loaded once is loaded
        for _ in range(given.rounds):
            for name, way in WAYS.items():
                used, wall, answers[name] = measured(lambda way=way: way(path))  # type: ignore[misc]
                times[name].append((used, wall))
        results = {name: _summary(found) for name, found in times.items()}
        results["open"] = opening(path, given.rounds)
    counts = {answer[0] for answer in answers.values()}
    assert len(counts) == 1, answers
    means = [answer[1] for answer in answers.values()]
    assert max(means) - min(means) < 1e-4 * abs(means[0]), answers
    print(f"{answers[next(iter(answers))]}; {given.rounds} rounds\n")
    best = results["hyperchunk table, DuckDB"]["cpu_min"]
    print("| way | CPU s (min) | CPU s (median) | wall s (min) | times the CPU |\n|---|---|---|---|---|")
    for name in WAYS:
        found = results[name]
        numbers = f"{found['cpu_min']:.4f} | {found['cpu_median']:.4f} | {found['wall_min']:.4f}"
        print(f"| {name} | {numbers} | {found['cpu_min'] / best:.2f} |")
    found = results["open"]
    print(f"\nopening the table: {1e3 * found['wall_min']:.2f} ms (median {1e3 * found['wall_median']:.2f} ms)")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
