"""xarray and Dask over S3: lazily, with workers in separate processes."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import s3server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import distributed
    import netCDF4
    import xarray as xr


@pytest.fixture
def scene(server: s3server.Server, tmp_path: Path) -> np.ndarray:
    """Temperatures by day, in the bucket as ``scene.nc``."""
    values = np.random.default_rng(8).normal(280, 9, (24, 60, 80)).astype("f4")
    with netCDF4.Dataset(tmp_path / "scene.nc", "w") as file:
        for name, size in zip(("time", "y", "x"), values.shape, strict=True):
            file.createDimension(name, size)
        variable = file.createVariable("t", "f4", ("time", "y", "x"), zlib=True, chunksizes=(4, 30, 80))
        variable.units = "K"
        variable[:] = values
    server.put("tests", "scene.nc", tmp_path / "scene.nc")
    return values


def test_xarray_opens_a_url(scene: np.ndarray, proxy: s3server.Proxy) -> None:
    options = s3server.storage_options(proxy.endpoint)
    with xr.open_dataset("s3://tests/scene.nc", engine="hyperchunk", storage_options=options) as found:
        assert proxy.stats()["requests"] <= 2
        np.testing.assert_array_equal(found["t"].isel(time=5, y=slice(3, 9)), scene[5, 3:9])
        assert found["t"].units == "K"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # from Dask's own servers
def test_workers_that_are_processes(scene: np.ndarray, proxy: s3server.Proxy) -> None:
    options = s3server.storage_options(proxy.endpoint)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster),
        xr.open_dataset("s3://tests/scene.nc", engine="hyperchunk", storage_options=options, chunks={}) as found,
    ):
        assert found["t"].chunks == ((4,) * 6, (30, 30), (80,))
        proxy.reset()
        mean = found["t"].mean("time").compute()
        np.testing.assert_allclose(mean, scene.mean(0), rtol=1e-5)
        np.testing.assert_array_equal(found["t"].compute(), scene)
        # Each worker opens the file itself.
        assert proxy.stats()["connections"] >= 2
