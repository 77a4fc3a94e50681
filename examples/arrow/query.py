"""Queries an HDF5 file with SQL, polars and pyarrow, without converting anything.

    python examples/arrow/query.py [particles.h5]

Without a file, one is made with h5py: eight columns of a million particles, as the simulation VPIC writes them.
Needs h5py, duckdb, polars and pyarrow."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb
import h5py
import hyperchunk
import numpy as np
import polars as pl
import pyarrow.compute as pc


def make(path: Path, rows: int = 1_000_000) -> None:
    """Makes particles of one time step: each dataset is a column."""
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        step = file.create_group("Timestep_0", track_order=True)
        for name in ("x", "y", "z", "px", "py", "pz"):
            step[name] = random.normal(scale=16, size=rows).astype("f4")
        step["id_1"] = np.arange(rows, dtype="i4")
        step.create_dataset(
            "charge", data=random.integers(-1, 2, rows, dtype="i1"), chunks=(100_000,), compression="gzip"
        )


def main() -> None:
    """Runs the queries."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "particles.h5"
        if not path.exists():
            make(path)

        t = hyperchunk.open(path).table("/Timestep_0")
        print(t)
        print("copied, of", t.num_rows, "rows:", {name: rows for name, rows in t.copied_rows.items() if rows})

        # DuckDB finds the table by the name of the variable.
        print(duckdb.sql("select count(*) as count, avg(x) as mean from t where px > 32"))

        # The same as a dataset: only the needed columns and rows are read and decoded.
        particles = t.to_dataset()
        print(
            duckdb.sql("select charge, count(*) as count from particles where id_1 < 1000 group by charge order by 1")
        )
        print(particles.to_table(columns=["x", "px"], filter=pc.field("px") > 70).num_rows, "fast ones")

        lazy = hyperchunk.scan_hyperchunk(path, "/Timestep_0")
        print(lazy.filter(pl.col("px") > 32).select(pl.len(), pl.col("x").mean()).collect())

        # A dataset can be used as an array in place, in the mapped file.
        x = np.asarray(hyperchunk.open(path)["Timestep_0/x"])
        print("a view of the file:", not x.flags.owndata, x[:3])


if __name__ == "__main__":
    main()
