"""The xarray engine, compared with h5netcdf on the same files."""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py
import hyperchunk
import netCDF4
import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import xarray as xr


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A file with all features of netCDF: groups, unlimited dimensions, packed values, times, text."""
    path = tmp_path / "scene.nc"
    rng = np.random.default_rng(3)
    with netCDF4.Dataset(path, "w") as f:
        f.title = "a scene"
        f.createDimension("time", None)
        f.createDimension("y", 20)
        f.createDimension("x", 30)
        f.createDimension("no variable", 4)
        time = f.createVariable("time", "f8", ("time",))
        time.units, time.calendar = "hours since 2020-01-01", "standard"
        time[:] = np.arange(5) * 6
        f.createVariable("y", "f4", ("y",))[:] = np.linspace(0, 1, 20)
        packed = f.createVariable("t", "i2", ("time", "y", "x"), zlib=True, chunksizes=(1, 10, 30), fill_value=-999)
        packed.scale_factor, packed.add_offset, packed.units = 0.01, 273.15, "K"
        packed.set_auto_maskandscale(False)
        packed[:] = rng.integers(-500, 500, (5, 20, 30))
        packed[0, 0, :3] = -999
        f.createVariable("name", str, ("no variable",))[:] = np.array(["a", "bé", "", "d"], dtype=object)
        f.createVariable("flags", "u1", ("y", "x"), shuffle=True, fletcher32=True)[:] = 7
        f.createVariable("number", "i4")[...] = 42
        # Shorter than `time`.
        f.createVariable("short", "f4", ("time",), fill_value=np.float32(-1))[:2] = [1, 2]
        inner = f.createGroup("sensors/left")
        inner.createDimension("z", 3)
        inner.createVariable("gain", "f8", ("z", "x"))[:] = rng.random((3, 30))
        inner.setncattr("serial", np.int32(7))
        inner.setncattr("list", np.array([1.5, 2.5]))
    return path


def check(path: Path, **options: object) -> xr.Dataset:
    """Checks that both engines agree: values, attributes, dimensions, types and encodings."""
    theirs = xr.open_dataset(path, engine="h5netcdf", phony_dims="access", **options)
    ours = xr.open_dataset(path, engine="hyperchunk", **options)
    assert ours.encoding["unlimited_dims"] == theirs.encoding["unlimited_dims"]
    for name, variable in ours.variables.items():
        assert variable.dtype == theirs[name].dtype
        for key in ("chunksizes", "contiguous", "fletcher32", "shuffle", "zlib", "original_shape", "scale_factor"):
            assert variable.encoding.get(key) == theirs[name].encoding.get(key), (name, key)
    loaded = ours.load()
    xr.testing.assert_identical(theirs.load(), loaded)
    theirs.close()
    ours.close()
    return loaded


def test_root_and_groups(scene: Path) -> None:
    found = check(scene)
    assert np.isnan(found["t"][0, 0, 0])
    assert found["time"].dtype.kind == "M"
    check(scene, group="sensors/left")
    check(scene, decode_cf=False)
    with pytest.raises(KeyError):
        xr.open_dataset(scene, engine="hyperchunk", group="absent")


def test_it_is_the_engine_of_the_package(scene: Path) -> None:
    assert xr.backends.list_engines()["hyperchunk"].guess_can_open(str(scene))


def test_lazy_and_indexed(scene: Path) -> None:
    with (
        xr.open_dataset(scene, engine="h5netcdf") as theirs,
        xr.open_dataset(scene, engine="hyperchunk") as ours,
    ):
        for key in (
            {"time": 1},
            {"time": slice(None, None, -1), "x": slice(2, 20, 3)},
            {"y": [5, 1, 1, 7], "x": [0, 3]},
            {"time": [0], "y": -1},
        ):
            xr.testing.assert_identical(theirs["t"].isel(key).load(), ours["t"].isel(key).load())
        points = {"y": xr.DataArray([1, 2, 3], dims="p"), "x": xr.DataArray([4, 5, 6], dims="p")}
        xr.testing.assert_identical(theirs["t"].isel(points).load(), ours["t"].isel(points).load())


def test_chunks_of_the_file(scene: Path) -> None:
    pytest.importorskip("dask")
    with xr.open_dataset(scene, engine="hyperchunk", chunks={}) as ours:
        assert ours["t"].chunks == ((1,) * 5, (10, 10), (30,))
        with xr.open_dataset(scene, engine="h5netcdf") as theirs:
            np.testing.assert_array_equal(ours["t"].mean("time").compute(), theirs["t"].mean("time"))


def test_tree(scene: Path) -> None:
    ours = xr.open_datatree(scene, engine="hyperchunk")
    theirs = xr.open_datatree(scene, engine="h5netcdf")
    assert ours.groups == theirs.groups
    xr.testing.assert_identical(ours, theirs)
    ours.close()
    theirs.close()


def test_plain_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as f:
        f["a"] = np.arange(12).reshape(3, 4)
        f["b"] = np.arange(4.0)
    check(path)
    with pytest.raises(ValueError, match="no dimension scale"):
        xr.open_dataset(path, engine="hyperchunk", phony_dims=None)
    assert hyperchunk.is_hdf5(path)
