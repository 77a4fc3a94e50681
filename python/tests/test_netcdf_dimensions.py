"""A live variable of a netCDF file has its inputs' dimensions, and the given attributes."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import netCDF4
import numpy as np
import pytest
import xarray
from fresh import environment
from hyperchunk.exceptions import UdfSyntaxError

DIMENSIONS = ("time", "lat", "lon")
U = np.arange(24, dtype="f4").reshape(2, 3, 4)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two variables with coordinates, along an unlimited dimension."""
    path = tmp_path / "n.nc"
    with netCDF4.Dataset(path, "w") as made:
        for name, length in zip(DIMENSIONS, (None, 3, 4), strict=True):
            made.createDimension(name, length)
            made.createVariable(name, "f8", (name,))[:] = np.arange(length or 2) * 10
        made["time"].units = "days since 2000-01-01"
        made["lat"].units, made["lon"].units = "degrees_north", "degrees_east"
        for name in "uv":
            made.createVariable(name, "f4", DIMENSIONS)[:] = U
    return path


def users(file: Path, scale: str) -> list[tuple[str, int]]:
    """Returns the entries of a dimension scale's REFERENCE_LIST."""
    with h5py.File(file) as opened:
        if "REFERENCE_LIST" not in opened[scale].attrs:
            return []
        return sorted((opened[r].name, int(n)) for r, n in opened[scale].attrs["REFERENCE_LIST"])


def test_a_live_variable_has_its_inputs_dimensions(file: Path) -> None:
    attrs = {"units": "m s-1", "standard_name": "wind_speed", "level": 10, "scale": 0.5}
    hyperchunk.udf.attach(file, outputs="speed", expression="sqrt(u * u + v * v)", attrs=attrs)
    with netCDF4.Dataset(file) as opened:
        speed = opened["speed"]
        assert speed.dimensions == DIMENSIONS
        assert {name: speed.getncattr(name) for name in speed.ncattrs()} == attrs
        np.testing.assert_allclose(speed[...], U * np.sqrt(2), rtol=1e-6)
    with xarray.open_dataset(file, engine="netcdf4") as opened:
        assert opened["speed"].dims == DIMENSIONS
        np.testing.assert_allclose(opened["speed"].sel(lat=10, lon=30), U[:, 1, 3] * np.sqrt(2), rtol=1e-6)
    with xarray.open_dataset(file, engine="hyperchunk") as opened:
        assert opened["speed"].dims == DIMENSIONS
    with h5py.File(file) as opened:
        assert [d[0].name for d in opened["speed"].dims] == ["/time", "/lat", "/lon"]
    assert users(file, "lat") == [("/speed", 1), ("/u", 1), ("/v", 1)]


def test_removed_and_replaced_variables_are_forgotten(file: Path) -> None:
    before = users(file, "lat")
    for _ in range(2):
        hyperchunk.udf.attach(file, outputs="speed", expression="u + v", overwrite=True)
    assert users(file, "lat") == [("/speed", 1), *before]
    hyperchunk.udf.rm(file, "speed")
    assert users(file, "lat") == before
    with netCDF4.Dataset(file, "a") as opened:
        assert opened["u"].dimensions == DIMENSIONS
        opened.createVariable("w", "f4", DIMENSIONS)[:] = U


def test_of_a_coordinate(file: Path) -> None:
    hyperchunk.udf.attach(file, outputs="radians", expression="lat * pi / 180", attrs={"units": "radian"})
    with netCDF4.Dataset(file) as opened:
        assert opened["radians"].dimensions == ("lat",)
    with xarray.open_dataset(file) as opened:
        assert opened["radians"].dims == ("lat",)


def test_other_shapes_and_files_have_none(file: Path, scene: Any, attach: Any) -> None:
    attach(file, "py", 'def dynamic_dataset():\n    lib.getData("m")[0:12] = lib.getData("u")[0:12]\n', "m:3x4:float")
    plain = scene(a=U)
    hyperchunk.udf.attach(plain, outputs="b", expression="a * 2")
    for path, name in ((file, "m"), (plain, "b")):
        with h5py.File(path) as opened:
            assert dict(opened[name].attrs) == {}


def test_attributes_by_the_command(file: Path, command: Any) -> None:
    words = ["--attr", "units=m s-1", "--attr", "n=5", "--attr", 'code="5"', "--attr", "x=1e-3", "--attr", "ort=Köln"]
    done = command("udf", "attach", file, "speed", "--expression", "u + v", *words)
    assert done.returncode == 0, done.stderr
    with h5py.File(file) as opened:
        attrs = {name: opened["speed"].attrs[name] for name in ("units", "n", "code", "x", "ort")}
        text = {name: value.decode() if isinstance(value, bytes) else value for name, value in attrs.items()}
        assert text == {"units": "m s-1", "n": 5, "code": "5", "x": 1e-3, "ort": "Köln"}
    assert command("udf", "attach", file, "s", "--expression", "u + v", "--attr", "units").returncode == 1
    for name in ("DIMENSION_LIST", "hyperchunk_udf"):
        with pytest.raises(UdfSyntaxError, match="is reserved"):
            hyperchunk.udf.attach(file, outputs="s", expression="u + v", attrs={name: "x"})


def test_cdo_knows_the_time_steps(file: Path) -> None:
    if not shutil.which("cdo"):
        pytest.skip("cdo is not installed")
    hyperchunk.udf.attach(file, outputs="speed", expression="u + v")
    mean = file.with_name("mean.nc")
    words = ["cdo", "-s", "-O", "timmean", "-selname,speed", str(file), str(mean)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with netCDF4.Dataset(mean) as opened:
        assert opened["speed"].dimensions == DIMENSIONS
        np.testing.assert_allclose(opened["speed"][0], (U * 2).mean(axis=0))
