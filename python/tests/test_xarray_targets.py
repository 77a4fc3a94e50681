"""Targets of ``to_netcdf`` that are no paths, arrays of xarray, and files opened from their bytes."""

from __future__ import annotations

import io
import pickle
import warnings
from pathlib import Path

import hyperchunk
import hyperchunk.exceptions
import hyperchunk.xarray_engine
import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import xarray as xr

DATA = xr.Dataset({"t": (("time", "x"), np.arange(6.0).reshape(2, 3))}, {"time": [3, 4]}, {"title": "hi"})
NAMES = [None, "t", "time", "x"]


def test_without_a_path_the_bytes_are_returned() -> None:
    image = DATA.hyperchunk.to_netcdf()
    assert isinstance(image, memoryview)
    for engine in ("hyperchunk", "h5netcdf"):
        xr.testing.assert_identical(xr.load_dataset(bytes(image), engine=engine), DATA)
    xr.testing.assert_identical(xr.load_dataset(image, engine="hyperchunk"), DATA)
    tree = xr.DataTree.from_dict({"/": DATA, "/below": DATA + 1})
    with xr.open_datatree(tree.hyperchunk.to_netcdf(), engine="hyperchunk") as found:
        xr.testing.assert_identical(found.load(), tree)


def test_bytes_of_other_writers_are_opened() -> None:
    image = DATA.to_netcdf(engine="h5netcdf")
    xr.testing.assert_identical(xr.load_dataset(image, engine="hyperchunk"), DATA)
    lazy = xr.open_dataset(io.BytesIO(image), engine="hyperchunk")
    xr.testing.assert_identical(pickle.loads(pickle.dumps(lazy)).load(), DATA)
    guess = hyperchunk.xarray_engine.HyperchunkBackendEntrypoint().guess_can_open
    middle = io.BytesIO(image)
    middle.seek(5)
    assert [guess(one) for one in (bytes(image), image, middle)] == [True, True, True]
    assert middle.tell() == 5
    assert [guess(one) for one in (b"CDF\1", io.BytesIO(b""))] == [False, False]
    with pytest.raises(hyperchunk.exceptions.NotHdf5Error):
        xr.open_dataset(b"CDF\1", engine="hyperchunk")


def test_file_objects(tmp_path: Path) -> None:
    memory = io.BytesIO(b"x" * 100_000)
    DATA.hyperchunk.to_netcdf(memory)
    xr.testing.assert_identical(xr.load_dataset(memory.getvalue(), engine="h5netcdf"), DATA)
    with (tmp_path / "a.nc").open("wb") as file:
        DATA.hyperchunk.to_netcdf(file, encoding={"t": {"zlib": True}})
    xr.testing.assert_identical(xr.load_dataset(tmp_path / "a.nc", engine="netcdf4"), DATA)
    with pytest.raises(ValueError, match="cannot add to a file-like object"):
        DATA.hyperchunk.to_netcdf(memory, "a")
    with pytest.raises(ValueError, match="compute=False"):
        DATA.hyperchunk.to_netcdf(compute=False)
    with pytest.raises(TypeError, match="cannot write to 3: expected a path, a URL or"):
        DATA.hyperchunk.to_netcdf(3)


def test_a_failed_write_leaves_a_file_object_as_it_was() -> None:
    import dask.array

    def fail(block: np.ndarray) -> np.ndarray:
        raise ArithmeticError("no value")

    bad = dask.array.ones(4000, chunks=1000).map_blocks(fail, dtype=float)
    memory = io.BytesIO(b"before")
    with pytest.raises(ArithmeticError):
        xr.Dataset({"b": ("y", bad)}).hyperchunk.to_netcdf(memory)
    assert memory.getvalue() == b"before"


@pytest.mark.parametrize("name", NAMES)
def test_arrays(tmp_path: Path, name: str | None) -> None:
    array = DATA["t"].rename(name)
    variable = name if name == "t" else "__xarray_dataarray_variable__"
    array.hyperchunk.to_netcdf(tmp_path / "a.nc", encoding={variable: {"zlib": True}})
    array.to_netcdf(tmp_path / "b.nc", engine="netcdf4")
    for path in ("a.nc", "b.nc"):
        for engine in ("hyperchunk", "netcdf4"):
            found = xr.load_dataarray(tmp_path / path, engine=engine)
            xr.testing.assert_identical(found, array)
    xr.testing.assert_identical(xr.load_dataarray(array.hyperchunk.to_netcdf(), engine="hyperchunk"), array)
    assert "xarray_dataarray" not in str(array.attrs)
