"""Cost of queries over HDF5, with a Hyperchunk table and with h5py.

    python bench/arrow/query.py [--rows 8388608] [--rounds 9] [--file particles.h5] [--json results.json]

Eight columns of a group, contiguous, `float32` and `int32`, as particles of VPIC are; the queries are

    select count(*), avg(x) from t where px > 32
    select count(*), avg(x), max(pz) from t where px > 32 and id_1 between 1000000 and 7000000

Each way runs once per round, in turn, and the minimum of its CPU seconds (user and
system, all threads) counts; wall times are for information. The file is in the page cache. The ways:

- hyperchunk: `t = file.table(group)`, reopened each time: directly (DuckDB requests columns, and pushes
  filters down to it), and as `t.to_dataset()` (pyarrow has no equivalent of DuckDB's filters here)
- h5py, all columns: each read whole, `pyarrow.table(…)`, DuckDB
- h5py, needed columns: the same with the columns that the query needs
- DuckDB alone: the columns are already in memory as Arrow. No way with DuckDB can cost less.
- the same with polars: `hyperchunk.scan_hyperchunk(…)`, and h5py with the needed columns
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
QUERIES = (
    ("select count(*), avg(x) from t where px > 32", ("x", "px")),
    (
        "select count(*), avg(x), max(pz) from t where px > 32 and id_1 between 1000000 and 7000000",
        ("x", "px", "pz", "id_1"),
    ),
)
Way = Callable[[], Any]


def make(path: Path, rows: int) -> None:
    """Makes particles as VPIC-IO writes them: ramps, numbers, and random ones."""
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


def asked(sql: str, t: Any) -> Any:
    """Returns DuckDB's answer; it finds `t` by its name."""
    assert t is not None
    found = duckdb.sql(sql)
    assert found is not None
    return found.fetchall()[0]


def by_h5py(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Reads columns."""
    with h5py.File(path) as file:
        return {name: file[GROUP][name][()] for name in names}


def in_polars(lazy: pl.LazyFrame, names: tuple[str, ...]) -> Any:
    """Returns the same queries in polars."""
    chosen = pl.col("px") > 32
    if "id_1" in names:
        chosen &= pl.col("id_1").is_between(1_000_000, 7_000_000)
    wanted = [pl.len(), pl.col("x").mean()] + ([pl.col("pz").max()] if "pz" in names else [])
    return lazy.filter(chosen).select(wanted).collect().row(0)


def ways(path: Path, sql: str, names: tuple[str, ...]) -> dict[str, Way]:
    """Returns all ways to an answer."""
    held = pa.table(by_h5py(path, names))
    return {
        "hyperchunk table, DuckDB": lambda: asked(sql, hyperchunk.open(path).table(GROUP)),
        "hyperchunk table as dataset, DuckDB": lambda: asked(sql, hyperchunk.open(path).table(GROUP).to_dataset()),
        "h5py all columns, DuckDB": lambda: asked(sql, pa.table(by_h5py(path, NAMES))),
        "h5py needed columns, DuckDB": lambda: asked(sql, pa.table(by_h5py(path, names))),
        "DuckDB alone, columns in memory": lambda: asked(sql, held),
        "hyperchunk scan, polars": lambda: in_polars(hyperchunk.scan_hyperchunk(path, GROUP), names),
        "h5py needed columns, polars": lambda: in_polars(pl.DataFrame(by_h5py(path, names)).lazy(), names),
    }


def cpu() -> float:
    """Returns the CPU seconds of this process until now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Returns CPU and wall seconds of a call, and its result."""
    before, start = cpu(), time.perf_counter()
    found = work()
    return cpu() - before, time.perf_counter() - start, found


def opening(path: Path, rounds: int) -> dict[str, float]:
    """Returns the seconds until a newly opened file has a table with its schema."""

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


def compare(path: Path, sql: str, names: tuple[str, ...], rounds: int) -> dict[str, dict[str, float]]:
    """Measures all ways of a query, and prints a table."""
    all_ways = ways(path, sql, names)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in all_ways}
    # Warm-up: loads modules.
    answers = {name: way() for name, way in all_ways.items()}
    for _ in range(rounds):
        for name, way in all_ways.items():
            used, wall, answers[name] = measured(way)
            times[name].append((used, wall))
    first = next(iter(answers.values()))
    for answer in answers.values():
        assert answer[0] == first[0], answers
        assert all(abs(a - b) <= 1e-4 * abs(b) for a, b in zip(answer, first, strict=True)), answers
    results = {name: _summary(found) for name, found in times.items()}
    best = results["hyperchunk table, DuckDB"]["cpu_min"]
    print(f"\n`{sql}`: {first}; {rounds} rounds\n")
    print("| way | CPU s (min) | CPU s (median) | wall s (min) | times the CPU |\n|---|---|---|---|---|")
    for name, found in results.items():
        numbers = f"{found['cpu_min']:.4f} | {found['cpu_median']:.4f} | {found['wall_min']:.4f}"
        print(f"| {name} | {numbers} | {found['cpu_min'] / best:.2f} |")
    return results


def main() -> None:
    """Runs the command."""
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
        results: dict[str, Any] = {sql: compare(path, sql, names, given.rounds) for sql, names in QUERIES}
        results["open"] = found = opening(path, given.rounds)
    print(f"\nopening the table: {1e3 * found['wall_min']:.2f} ms (median {1e3 * found['wall_median']:.2f} ms)")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
