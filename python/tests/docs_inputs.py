"""Inputs that the pages name: each function makes one in a folder, by plain HDF5."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import netCDF4
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from flight_server import Server
from fresh import HYPERCHUNK
from people import Person

#: Makes an input in a folder. Returns what ends it, if it is a program that runs on.
Input = Callable[[Path], Callable[[], object] | None]
INPUTS: dict[str, Input] = {}


def provides(name: str) -> Callable[[Input], Input]:
    """Registers a function as the input of that name."""

    def register(function: Input) -> Input:
        INPUTS[name] = function
        return function

    return register


@provides("h5dump")
def h5dump(_: Path) -> None:
    if shutil.which("h5dump") is None:
        pytest.skip("h5dump is missing")


@provides("ziglang")
def ziglang(_: Path) -> None:
    pytest.importorskip("ziglang")


def library(name: str) -> Input:
    """Returns what skips a snippet whose library is missing."""

    def check(_: Path) -> None:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is missing")

    return check


for name in ("anndata", "fastparquet", "h5netcdf", "icechunk", "upath", "virtualizarr", "zarr"):
    provides(name)(library(name))


def values(*shape: int) -> np.ndarray:
    """Returns the same random numbers between 0 and 1 at every call."""
    return np.random.default_rng(7).random(shape, dtype="f4")


@provides("a signing key")
def signing_key(_: Path) -> None:
    subprocess.run([HYPERCHUNK, "key", "new"], check=True, capture_output=True)


@provides("scene.h5")
def scene(folder: Path) -> None:
    with h5py.File(folder / "scene.h5", "w") as file:
        for name in ("Red", "NIR"):
            file.create_dataset(name, data=values(300, 300), chunks=(100, 100), compression="gzip")
        red = file.create_dataset("bands/red", data=values(300, 300), chunks=(100, 100))
        red.attrs["units"] = "1"


@provides("scene.nc")
def netcdf(folder: Path) -> None:
    with netCDF4.Dataset(folder / "scene.nc", "w") as file:
        for name, size in zip(("time", "y", "x"), (12, 30, 40), strict=True):
            file.createDimension(name, size)
            file.createVariable(name, "f8", (name,))[:] = np.arange(size)
        variable = file.createVariable("t", "f4", ("time", "y", "x"), chunksizes=(4, 30, 40), zlib=True)
        variable.units = "K"
        variable[:] = values(12, 30, 40)
        file.createGroup("quality").createVariable("flag", "i4", ())[...] = 1


@provides("run.h5")
def run(folder: Path) -> None:
    with h5py.File(folder / "run.h5", "w") as file:
        file["t"] = values(200, 300)
        file["h"] = values(100, 64) * 15
        for group in ("particles", "events"):
            table = file.create_group(group)
            for name in ("x", "y", "px", "energy"):
                table[name] = values(10_000) * 40
            table["id"] = np.arange(10_000)
            table["run"] = np.arange(10_000) % 12


@provides("particles.h5")
def particles(folder: Path) -> None:
    with h5py.File(folder / "particles.h5", "w") as file:
        for name in ("x", "y", "px"):
            file[f"Timestep_0/{name}"] = values(10_000) * 40
        file["Timestep_0/id"] = np.arange(10_000)


@provides("prices.h5")
def prices(folder: Path) -> None:
    """A frame and a series, written by pandas in both of its formats."""
    pytest.importorskip("tables")
    import pandas as pd

    times = pd.date_range("2026-01-01", periods=1000, freq="h", tz="Europe/Berlin", name="when")
    frame = pd.DataFrame({"price": values(1000), "place": pd.Categorical(["Bern", "Chur"] * 500)}, index=times)
    frame.to_hdf(folder / "prices.h5", key="prices", format="table", data_columns=["price"])
    frame["price"].to_hdf(folder / "prices.h5", key="last")


@provides("cells.h5ad")
def cells(folder: Path) -> None:
    """A file in the form of AnnData."""
    with h5py.File(folder / "cells.h5ad", "w") as file:
        file.attrs["encoding-type"] = "anndata"
        obs = file.create_group("obs")
        obs.attrs.update({"encoding-type": "dataframe", "_index": "_index", "column-order": ["type", "genes"]})
        obs["_index"] = [f"cell{number}" for number in range(100)]
        obs["type/codes"], obs["type/categories"] = np.arange(100, dtype="i1") % 2, ["B cell", "T cell"]
        obs["type"].attrs.update({"encoding-type": "categorical", "ordered": False})
        obs["genes/values"], obs["genes/mask"] = np.arange(100), np.arange(100) % 10 == 0
        obs["genes"].attrs["encoding-type"] = "nullable-integer"
        matrix = file.create_group("X")
        matrix.attrs.update({"encoding-type": "csr_matrix", "shape": [100, 20]})
        matrix["data"], matrix["indices"], matrix["indptr"] = values(100), np.arange(100) % 20, np.arange(101)


@provides("trials.nwb")
def trials(folder: Path) -> None:
    """A table in the form of NWB."""
    with h5py.File(folder / "trials.nwb", "w") as file:
        file.attrs["nwb_version"] = "2.7.0"
        table = file.create_group("intervals/trials")
        table.attrs.update({"neurodata_type": "TimeIntervals", "colnames": ["start_time", "spikes"]})
        table["id"], table["start_time"] = np.arange(3), np.arange(3.0)
        table["spikes"], table["spikes_index"] = np.arange(5.0), np.array([2, 2, 5])


@provides("results.mat")
def results(folder: Path) -> None:
    """A file in the form of MATLAB (v7.3)."""
    with h5py.File(folder / "results.mat", "w", userblock_size=512) as file:
        file["matrix"] = np.arange(6.0).reshape(3, 2)
        file["matrix"].attrs["MATLAB_class"] = np.bytes_("double")
        file["name"] = np.frombuffer("sample".encode("utf-16-le"), "u2").reshape(-1, 1)
        file["name"].attrs["MATLAB_class"] = np.bytes_("char")


@provides("old.h5")
def old(folder: Path) -> None:
    with h5py.File(folder / "old.h5", "w") as file:
        file.create_dataset("images", data=(values(4, 512, 512) * 100).astype("u2"), chunks=True)
        file["table"] = values(1000, 4)


@provides("sites.h5")
def sites(folder: Path) -> None:
    kind = np.dtype([("serial_number", "i8"), ("location", "S20"), ("low", "f8"), ("high", "f8")])
    with h5py.File(folder / "sites.h5", "w") as file:
        rows = [(number, b"here", number, number + 2) for number in range(1000)]
        file["Sites"] = np.array(rows, kind)


@provides("west.h5, east.h5")
def halves(folder: Path) -> None:
    for name in ("west", "east"):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["height"] = values(30, 40)


@provides("series.h5")
def series(folder: Path) -> None:
    with h5py.File(folder / "series.h5", "w") as file:
        for name in ("Red", "NIR"):
            file.create_dataset(name, data=values(10, 30), maxshape=(None, 30), chunks=(10, 30))


@provides("image.h5")
def image(folder: Path) -> None:
    with h5py.File(folder / "image.h5", "w") as file:
        file["image"] = values(64, 64)


@provides("frames.h5")
def frames(folder: Path) -> None:
    with h5py.File(folder / "frames.h5", "w") as file:
        file.create_dataset("data", data=np.ones((8, 512, 512), "<u2"), chunks=(1, 512, 512), compression="gzip")


@provides("labels.lua")
def labels(folder: Path) -> None:
    lines = ["function dynamic_dataset()", 'local labels = lib.getData("Labels")']
    lines += ['for n = 1, lib.getDims("Labels")[1] do lib.setString(labels[n].value, "site " .. n) end', "end"]
    (folder / "labels.lua").write_text("\n".join(lines))


@provides("simple.py")
def simple(folder: Path) -> None:
    (folder / "simple.py").write_text('def dynamic_dataset():\n    lib.array("simple")[:] = 1\n')


@provides("table.parquet")
def parquet(folder: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"x": [1.0, 2.0], "name": ["a", "b"]}), folder / "table.parquet")


@provides("simulation.py")
def simulation(folder: Path) -> None:
    """An unmodified program of h5py: four processes write one file, with a quarter of the rows each."""
    lines = ["import sys, h5py", "rank = int(sys.argv[1])", "with h5py.File('run.h5', 'w') as file:"]
    lines += ["    x = file.create_dataset('x', (4000,), 'f4')", "    x[rank * 1000 : (rank + 1) * 1000] = rank"]
    (folder / "simulation.py").write_text("\n".join(lines))


@provides("crashed.h5")
def crashed(folder: Path) -> None:
    """A file whose superblock says that a program writes it."""
    lines = "import h5py, os; f = h5py.File('crashed.h5', 'w', libver='latest'); f['x'] = 1; f.flush(); os._exit(0)"
    subprocess.run([sys.executable, "-c", lines], cwd=folder, check=True)


@provides("cut.h5")
def cut(folder: Path) -> None:
    with h5py.File(folder / "cut.h5", "w") as file:
        file["x"] = values(10_000)
    data = (folder / "cut.h5").read_bytes()
    (folder / "cut.h5").write_bytes(data[:-1000])


@provides("new.h5 of a killed writer")
def killed(folder: Path) -> None:
    lines = ["import os, hyperchunk, numpy", "file = hyperchunk.open('new.h5', 'w')"]
    lines += ["x = file.create_dataset('x', (100, 100), 'f4', chunks=(10, 100))", "x[:50] = 1", "os._exit(9)"]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=folder, check=False)
    assert (folder / "new.h5.partial").exists()


@provides("ada.pub")
def ada(folder: Path) -> None:
    """The key of another user, who put a function into scene.h5."""
    other = Person(folder.parent / "ada", "Ada")
    (folder / "ndvi.lua").write_text("function dynamic_dataset() lib.getData('NDVI')[1] = 7 end")
    assert other("udf", "attach", folder / "scene.h5", folder / "ndvi.lua", "NDVI:1:double").returncode == 0
    assert other("key", "export", folder / "ada.pub").returncode == 0


@provides("a Flight server")
def flight(folder: Path) -> Callable[[], object]:
    try:
        return Server(folder / "run.h5", options=("--listen=grpc://127.0.0.1:8815",)).stop
    except RuntimeError as error:
        pytest.skip(f"port 8815 is taken: {error}")


def small_file(name: str) -> Input:
    """Returns what makes a file of one dataset."""

    def make(folder: Path) -> None:
        with h5py.File(folder / name, "w") as file:
            file[Path(name).stem] = values(10, 10)

    return make


for name in ("monday.h5", "tuesday.h5", "a.h5", "b.h5"):
    provides(name)(small_file(name))


SWMR_WRITER = """
import h5py, time

with h5py.File("run.h5", "w", libver="latest") as file:
    frames = file.create_dataset("frames", (0, 16, 16), "u2", maxshape=(None, 16, 16), chunks=(50, 16, 16))
    file.swmr_mode = True
    open("ready", "w").close()
    for number in range(20):
        frames.resize((number + 1) * 50, axis=0)
        frames[-50:] = number
        file.flush()
        time.sleep(0.02)
    time.sleep(60)
"""


@provides("run.h5 in SWMR mode")
def growing(folder: Path) -> Callable[[], object]:
    """A detector's program that writes a thousand frames."""
    writer = subprocess.Popen([sys.executable, "-c", SWMR_WRITER], cwd=folder)
    while not (folder / "ready").exists():
        time.sleep(0.01)
    return lambda: (writer.kill(), writer.wait())


@provides("s3://bucket/granule.h5")
def granule(folder: Path) -> None:
    with h5py.File(folder / "granule.h5", "w") as file:
        for track in ("gt1l", "gt1r"):
            for name in ("h_ph", "lat_ph", "lon_ph"):
                file.create_dataset(f"{track}/heights/{name}", data=values(20_000), chunks=(5000,), compression="gzip")
        file.create_dataset("cube", data=values(100, 30, 50), chunks=(10, 30, 50))


@provides("s3://bucket/scene.h5")
def scene_in_s3(folder: Path) -> None:
    scene(folder)
    hyperchunk.udf.attach(folder / "scene.h5", outputs="NDVI", expression="(NIR - Red) / (NIR + Red)", unsigned=True)


@provides("s3://bucket/cube.nc")
def cube(folder: Path) -> None:
    netcdf(folder)
    (folder / "scene.nc").rename(folder / "cube.nc")


@provides("s3://bucket/run.h5")
def run_in_s3(folder: Path) -> None:
    run(folder)


@provides("granules/*.nc")
def granules(folder: Path) -> None:
    (folder / "granules").mkdir()
    for number in range(3):
        with netCDF4.Dataset(folder / "granules" / f"day{number}.nc", "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 4)
            time = file.createVariable("time", "f8", ("time",))
            time.units = "hours since 2024-01-01"
            time[:] = np.arange(3) + 3 * number
            file.createVariable("x", "f4", ("x",))[:] = np.arange(4)
            file.createVariable("rain", "f4", ("time", "x"), zlib=True)[:] = values(3, 4)
