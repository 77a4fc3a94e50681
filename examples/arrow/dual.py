"""A simulation writes with plain h5py, and DuckDB and polars query the same bytes while it does.

    python examples/arrow/dual.py [FILE]

The file is created once, as HDF5 and Arrow at once. From then on the simulation needs only h5py: it moves its
particles in place. A process that has the file mapped as Arrow sees each step; nothing is copied or converted."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import hyperchunk
import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import ipc

PARTICLES = 1_000_000

SIMULATION = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r+") as file:
    for step in range(1, 6):
        file["x"][...] = file["x"][...] + 0.1 * file["velocity"][...]
        file.flush()
        print(step, flush=True)
        sys.stdin.readline()
"""


def main() -> None:
    given = sys.argv[1] if len(sys.argv) > 1 else None
    path = Path(given) if given else Path(tempfile.mkdtemp()) / "particles.h5"
    rng = np.random.default_rng(0)
    with hyperchunk.create(path, layout="arrow") as file:
        file.append({"x": rng.random(PARTICLES), "velocity": rng.normal(size=PARTICLES), "id": np.arange(PARTICLES)})

    # DuckDB finds it by the variable's name.
    particles = ipc.open_file(pa.memory_map(str(path))).read_all()  # noqa: F841
    simulation = subprocess.Popen(
        [sys.executable, "-c", SIMULATION, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert simulation.stdin is not None
    assert simulation.stdout is not None
    for step in simulation.stdout:
        # The table was mapped before the simulation began.
        outside, mean = duckdb.sql("select count(*) filter (x < 0 or x > 1), avg(x) from particles").fetchall()[0]
        again = pl.scan_ipc(path).select(pl.col("x").mean()).collect().item()
        print(f"step {step.strip()}: {outside} particles outside, mean x {mean:.4f} (DuckDB), {again:.4f} (polars)")
        simulation.stdin.write("\n")
        simulation.stdin.flush()
    simulation.wait()


if __name__ == "__main__":
    main()
