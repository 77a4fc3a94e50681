"""Collections in a store as Zarr: requests, and references that s3fs follows."""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server

pytest.importorskip("zarr", minversion="3.1")
from hyperchunk.zarr import store

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import xarray as xr

# About codecs that Zarr does not specify, and by libraries below s3fs.
pytestmark = pytest.mark.filterwarnings("ignore")
FILES = 12


@pytest.fixture(scope="module")
def values(server: s3server.Server, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """Granules in the bucket, two steps each; returns what they hold."""
    folder = tmp_path_factory.mktemp("granules")
    values = np.random.default_rng(0).random((2 * FILES, 30, 40)).astype("f4")
    for number in range(FILES):
        path = folder / f"z{number:02}.nc"
        with h5py.File(path, "w") as file:
            file.create_dataset("time", data=np.array([2.0 * number, 2 * number + 1]), maxshape=(None,))
            file["time"].make_scale("time")
            part = values[2 * number : 2 * number + 2]
            made = file.create_dataset("t", data=part, chunks=(1, 30, 40), compression="gzip", maxshape=(None, 30, 40))
            made.dims[0].attach_scale(file["time"])
        server.put("tests", f"zarr/{path.name}", path)
    return values


def test_a_store_reads_the_chunks_that_are_asked_for(values: np.ndarray, proxy: s3server.Proxy) -> None:
    options = s3server.storage_options(proxy.endpoint)
    collection = hyperchunk.open_collection("s3://tests/zarr/*.nc", storage_options=options)
    proxy.reset()
    ds = xr.open_zarr(store(collection))
    np.testing.assert_array_equal(ds["time"], np.arange(2.0 * FILES))
    # Metadata and coordinates come from the collection.
    assert proxy.stats()["requests"] == 0
    np.testing.assert_array_equal(ds["t"][5], values[5])
    assert proxy.stats()["requests"] == 1
    np.testing.assert_array_equal(ds["t"], values)


def test_s3fs_follows_references(values: np.ndarray, proxy: s3server.Proxy, tmp_path: Path) -> None:
    options = s3server.storage_options(proxy.endpoint)
    collection = hyperchunk.open_collection("s3://tests/zarr/*.nc", storage_options=options)
    collection.to_kerchunk(tmp_path / "all.json")
    client = {"endpoint_url": proxy.endpoint, "region_name": options["region"]}
    remote = {"asynchronous": True, "key": options["key"], "secret": options["secret"], "client_kwargs": client}
    how = {"fo": str(tmp_path / "all.json"), "remote_protocol": "s3", "remote_options": remote}
    with xr.open_dataset(
        "reference://", engine="zarr", backend_kwargs={"consolidated": False, "storage_options": how}
    ) as ds:
        np.testing.assert_array_equal(ds["time"], np.arange(2.0 * FILES))
        np.testing.assert_array_equal(ds["t"], values)


def test_icechunk_refuses_an_object_with_another_etag(
    values: np.ndarray, server: s3server.Server, proxy: s3server.Proxy, tmp_path: Path
) -> None:
    icechunk = pytest.importorskip("icechunk")
    for number in range(2):
        server.put("tests", f"changing/{number}.nc", Path(server.folder) / "tests" / "zarr" / f"z{number:02}.nc")
    options = s3server.storage_options(proxy.endpoint)
    collection = hyperchunk.open_collection("s3://tests/changing/*.nc", storage_options=options)
    prefix = "s3://tests/changing/"
    client = {"endpoint_url": proxy.endpoint, "region": options["region"], "allow_http": True}
    config = icechunk.RepositoryConfig.default()
    files = icechunk.s3_store(**client, s3_compatible=True, force_path_style=True)
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, files))
    keys = icechunk.s3_credentials(access_key_id=options["key"], secret_access_key=options["secret"])
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repository"))
    repository = icechunk.Repository.create(
        storage, config, authorize_virtual_chunk_access=icechunk.containers_credentials({prefix: keys})
    )
    collection.to_icechunk(repository)

    def read() -> np.ndarray:
        opened = xr.open_zarr(repository.readonly_session("main").store, consolidated=False)
        return np.asarray(opened["t"])

    np.testing.assert_array_equal(read(), values[:4])
    # Within the same second, of the same size.
    server.put("tests", "changing/1.nc", Path(server.folder) / "tests" / "zarr" / "z02.nc")
    with pytest.raises(icechunk.IcechunkError, match="has changed"):
        read()
