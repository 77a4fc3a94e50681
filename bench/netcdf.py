"""Writing of xarray's datasets as netCDF-4 files, beside the engines netcdf4 and h5netcdf, in the same run.

    .venv/bin/python bench/netcdf.py
    .venv/bin/python bench/netcdf.py --mebibytes 64 --rounds 1

A smooth field with noise, `float32`, as (time, y, x), in memory and as Dask's array of 8 blocks that is computed while
it is written. Every file is read back with netCDF4 and compared, outside the clock. Medians of the rounds, in which the
writers take turns; elapsed and processor seconds, of all threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperchunk.xarray_engine  # noqa: F401 -- registers ds.hyperchunk
import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import xarray as xr

SIDE = 512
ENCODINGS: dict[str, dict[str, Any]] = {
    "uncompressed": {},
    "zlib 1, shuffle": {"zlib": True, "complevel": 1},
    "zlib 4, shuffle": {"zlib": True, "complevel": 4},
    "packed int16, zlib 4": {"zlib": True, "dtype": "i2", "scale_factor": 0.01, "_FillValue": -32768},
    "zstd 3": {"compression": "zstd", "complevel": 3},
}


def field(mebibytes: int) -> xr.Dataset:
    """Makes a field of about this size."""
    times = max(8, mebibytes * 2**20 // (4 * SIDE * SIDE))
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE] / 40
    values = np.empty((times, SIDE, SIDE), "f4")
    for step in range(times):
        values[step] = np.round(20 + 10 * np.sin(x + step / 9) * np.cos(y) + rng.normal(0, 0.1, (SIDE, SIDE)), 2)
    return xr.Dataset({"t": (("time", "y", "x"), values, {"units": "degC"})})


def with_hyperchunk(ds: xr.Dataset, path: Path, encoding: dict[str, Any]) -> None:
    """Writes with Hyperchunk."""
    ds.hyperchunk.to_netcdf(path, encoding=encoding)


def with_engine(engine: str) -> Callable[[xr.Dataset, Path, dict[str, Any]], None]:
    """Returns a function that writes with an engine of xarray."""

    def write(ds: xr.Dataset, path: Path, encoding: dict[str, Any]) -> None:
        ds.to_netcdf(path, engine=engine, encoding=encoding)

    return write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    whole = field(options.mebibytes)
    blocks = -(-whole.sizes["time"] // 8)
    lazy = whole.chunk(time=blocks)
    writers = {"hyperchunk": with_hyperchunk, "netcdf4": with_engine("netcdf4"), "h5netcdf": with_engine("h5netcdf")}
    with tempfile.TemporaryDirectory() as folder:
        for kind, ds in (("in memory", whole), ("Dask", lazy)):
            for label, given in ENCODINGS.items():
                encoding = {"t": {"chunksizes": (1, SIDE, SIDE), **given}}
                elapsed: dict[str, list[float]] = {name: [] for name in writers}
                used: dict[str, list[float]] = {name: [] for name in writers}
                sizes = {}
                for _ in range(options.rounds):
                    for name, write in writers.items():
                        if name == "h5netcdf" and "compression" in given:
                            continue
                        path = Path(folder) / f"{name}.nc"
                        path.unlink(missing_ok=True)
                        start, cpu = time.perf_counter(), time.process_time()
                        write(ds, path, encoding)
                        elapsed[name].append(time.perf_counter() - start)
                        used[name].append(time.process_time() - cpu)
                        sizes[name] = path.stat().st_size
                for name in sizes:
                    with xr.open_dataset(Path(folder) / f"{name}.nc", engine="netcdf4") as found:
                        assert np.allclose(found["t"].values, whole["t"].values, atol=0.006), name
                    middle, busy = statistics.median(elapsed[name]), statistics.median(used[name])
                    theirs = statistics.median(elapsed["netcdf4"])
                    print(
                        f"{kind:10} {label:22} {name:11} {middle:7.2f} s  cpu {busy:7.2f} s  "
                        f"{sizes[name] / 2**20:7.1f} MiB  {theirs / middle:5.1f} x",
                        flush=True,
                    )
    print(f"{os.cpu_count()} processors, {whole.nbytes / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
