"""Ranks of an MPI program write one HDF5 file, with the h5py from `pip install`: no MPI build of it is needed.

    mpiexec -n 4 python examples/store/mpi4py_write.py [FILE]

Heat spreads over a plate that is cut into bands, one per rank. After every tenth step each rank writes its band,
whenever it is ready: no write call is collective, and at the end one gather collects the tickets, a few bytes per rank.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import numpy.typing as npt
from hyperchunk import store
from mpi4py import MPI

ROWS, COLUMNS, STEPS, EVERY = 203, 300, 600, 30
Plate = npt.NDArray[np.float64]


def bounds(rank: int, size: int) -> tuple[int, int]:
    """Returns a rank's rows; ranks may have different numbers of rows."""
    return ROWS * rank // size, ROWS * (rank + 1) // size


def start_plate(first: int, end: int) -> Plate:
    """Returns a cold plate with a hot disc, with one more row above and below for the neighbours' values."""
    row, column = np.ogrid[first - 1 : end + 1, 0:COLUMNS]
    return np.where((row - ROWS / 2) ** 2 + (column - COLUMNS / 3) ** 2 < 12**2, 100.0, 0.0)


def step(plate: Plate, comm: MPI.Comm) -> None:
    """Exchanges edge rows with the neighbours, then lets heat flow."""
    above = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    comm.Sendrecv(plate[1], above, recvbuf=plate[-1], source=below)
    comm.Sendrecv(plate[-2], below, recvbuf=plate[0], source=above)
    middle = plate[1:-1, 1:-1]
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    plate[1:-1, 1:-1] = middle + 0.2 * (around - 4 * middle)


def simulate(path: Path, comm: MPI.Comm) -> None:
    """Runs on every rank."""
    first, end = bounds(comm.rank, comm.size)
    shape = (STEPS // EVERY, ROWS, COLUMNS)
    datasets = {"heat": store.Dataset(shape, "f4"), "hottest": store.Dataset(shape[:1], "f8")}
    # The first rank creates the store; the others get it by message, without looking or waiting for a file.
    whole = store.create_all(comm, path, datasets)
    writer = whole.writer()
    plate = start_plate(first, end)
    for number in range(STEPS):
        step(plate, comm)
        if number % EVERY == EVERY - 1:
            writer["heat"][number // EVERY, first:end] = plate[1:-1].astype("f4")
            hottest = comm.reduce(plate[1:-1].max(), MPI.MAX)
            if comm.rank == 0:
                writer["hottest"][number // EVERY] = hottest
    store.commit_all(whole, comm, writer.close())


def main() -> None:
    """Simulates; then one rank reads."""
    comm = MPI.COMM_WORLD
    folder = tempfile.TemporaryDirectory() if comm.rank == 0 else None
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    path = comm.bcast((chosen or Path(folder.name) / "heat.h5") if folder else None)
    simulate(path, comm)
    if folder:
        with hyperchunk.open(path) as file:
            heat, hottest = file["heat"][...], file["hottest"][...]
        assert np.allclose(hottest, heat.max(axis=(1, 2)), rtol=1e-6)
        with h5py.File(path) as file:
            assert np.array_equal(file["heat"][...], heat)
        logs = sum(1 for _ in Path(f"{path}.d").glob("*.log"))
        print(f"{comm.size} ranks, {logs} logs, {len(heat)} states of {ROWS} x {COLUMNS}")
        print(f"the hottest place cools from {hottest[0]:.1f} to {hottest[-1]:.1f}; plain h5py reads the same")
        folder.cleanup()


if __name__ == "__main__":
    main()
