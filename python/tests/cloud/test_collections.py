"""Collections of objects in S3: round trips, changes, faults."""

from __future__ import annotations

import warnings
from pathlib import Path

import hyperchunk
import numpy as np
import pytest
import s3server
from hyperchunk.exceptions import ChangedError, HyperchunkError, NotFoundError, ReadError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import netCDF4
    import xarray as xr

FILES = 20


@pytest.fixture
def values(server: s3server.Server, tmp_path: Path) -> np.ndarray:
    """Twenty granules in the bucket: ``collected/gNN.nc``."""
    values = np.random.default_rng(3).normal(280, 9, (FILES * 2, 30, 40)).astype("f4")
    for number in range(FILES):
        path = tmp_path / f"g{number:02}.nc"
        with netCDF4.Dataset(path, "w") as file:
            for name, size in (("time", None), ("y", 30), ("x", 40)):
                file.createDimension(name, size)
            time = file.createVariable("time", "i8", ("time",))
            time.units = "hours since 2020-01-01"
            time[:] = [2 * number, 2 * number + 1]
            for name, size in (("y", 30), ("x", 40)):
                file.createVariable(name, "f8", (name,))[:] = np.arange(size)
            for name in range(8):
                variable = file.createVariable(f"t{name}", "f4", ("time", "y", "x"), zlib=True, chunksizes=(1, 30, 40))
                variable[:] = values[2 * number : 2 * number + 2] + name
        server.put("tests", f"collected/{path.name}", path)
    return values


def test_few_round_trips(values: np.ndarray, proxy: s3server.Proxy, tmp_path: Path) -> None:
    options = s3server.storage_options(proxy.endpoint)
    collection = hyperchunk.open_collection("s3://tests/collected/*.nc", storage_options=options)
    assert len(collection.files) == FILES
    collected = proxy.stats()
    # The first file costs what its structure forces; the others two requests each: the start, and what is predicted.
    assert collected["requests"] <= 2 * FILES + 12
    saved = tmp_path / "all.hcx"
    collection.save(saved)
    proxy.reset()
    with xr.open_dataset(saved, engine="hyperchunk", storage_options=options) as found:
        assert found["t3"].shape == values.shape
        np.testing.assert_array_equal(found["y"], np.arange(30))
        assert str(found["time"].values[-1]) == "2020-01-02T15:00:00.000000000"
        # Everything until here is in the collection.
        assert proxy.stats()["requests"] == 0
        np.testing.assert_array_equal(found["t3"][:, 4, 5], (values + 3)[:, 4, 5])
        # One request for the chunks of each file: they are stored side by side.
        assert proxy.stats()["requests"] <= 2 * FILES
        np.testing.assert_array_equal(found["t7"], values + 7)


def test_an_object_that_is_replaced(
    values: np.ndarray, server: s3server.Server, proxy: s3server.Proxy, tmp_path: Path
) -> None:
    options = s3server.storage_options(proxy.endpoint)
    collection = hyperchunk.open_collection("s3://tests/collected/g0[0-3].nc", storage_options=options)
    server.put("tests", "collected/g02.nc", tmp_path / "g03.nc")
    np.testing.assert_array_equal(collection["t0"][:4], values[:4])
    with pytest.raises((ChangedError, ReadError), match=r"g02\.nc"):
        collection["t0"][:]


def test_a_collection_in_the_bucket(
    values: np.ndarray, server: s3server.Server, proxy: s3server.Proxy, tmp_path: Path
) -> None:
    options = s3server.storage_options(proxy.endpoint)
    saved = tmp_path / "all.hcx"
    hyperchunk.open_collection("s3://tests/collected/", storage_options=options).save(saved)
    server.put("tests", "all.hcx", saved)
    proxy.reset()
    with xr.open_dataset("s3://tests/all.hcx", engine="hyperchunk", storage_options=options) as found:
        assert found.sizes["time"] == len(values)
        assert proxy.stats()["requests"] == 1
        np.testing.assert_array_equal(found["t1"][7], (values + 1)[7])


def test_a_large_collection_takes_one_request(
    values: np.ndarray, server: s3server.Server, proxy: s3server.Proxy, tmp_path: Path
) -> None:
    options = s3server.storage_options(proxy.endpoint)
    urls = [f"s3://tests/collected/g{number:02}.nc" for number in range(FILES)]
    saved = tmp_path / "large.hcx"
    hyperchunk.open_collection(urls * 15, storage_options=options).save(saved)
    assert saved.stat().st_size > 256 << 10
    server.put("tests", "large.hcx", saved)
    proxy.reset()
    opened = hyperchunk.open_collection("s3://tests/large.hcx", storage_options=options)
    assert opened["t0"].shape == (FILES * 2 * 15, 30, 40)
    assert proxy.stats()["requests"] == 1
    np.testing.assert_array_equal(opened["t5"][:, 3, 3], np.tile((values + 5)[:, 3, 3], 15))
    # The chunks of a file are side by side.
    assert proxy.stats()["requests"] == 1 + FILES * 15


def test_a_damaged_or_replaced_collection_in_the_bucket(
    values: np.ndarray, server: s3server.Server, proxy: s3server.Proxy, tmp_path: Path
) -> None:
    options = s3server.storage_options(proxy.endpoint)
    saved = tmp_path / "all.hcx"
    hyperchunk.open_collection("s3://tests/collected/", storage_options=options).save(saved)
    whole = saved.read_bytes()
    for content in (b"", whole[:40], whole[:-1], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], b"\x89HDF" * 99):
        saved.write_bytes(content)
        server.put("tests", "damaged.hcx", saved)
        with pytest.raises(HyperchunkError, match=r"damaged\.hcx"):
            hyperchunk.open_collection("s3://tests/damaged.hcx", storage_options=options)


def test_requests_of_all_files_are_in_flight_together(
    values: np.ndarray, proxy: s3server.Proxy, tmp_path: Path
) -> None:
    options = s3server.storage_options(proxy.endpoint)
    dataset = hyperchunk.open_collection("s3://tests/collected/*.nc", storage_options=options)["t0"]
    dataset[:2]
    proxy.set(latency="400ms")
    proxy.reset()
    np.testing.assert_array_equal(dataset[:, 4, 5], values[:, 4, 5])
    assert proxy.stats()["max_in_flight"] > FILES / 2


def test_objects_at_the_top_of_a_bucket(server: s3server.Server, proxy: s3server.Proxy, tmp_path: Path) -> None:
    options = s3server.storage_options(proxy.endpoint)
    for number in range(3):
        path = tmp_path / f"top{number}.h5"
        with hyperchunk.create(path) as file:
            file["x"] = [number]
        server.put("tests", path.name, path)
    opened = hyperchunk.open_collection("s3://tests/top*.h5", concat=0, storage_options=options)
    assert opened.files == tuple(f"s3://tests/top{number}.h5" for number in range(3))
    np.testing.assert_array_equal(opened["x"][:], [0, 1, 2])
    with pytest.raises(NotFoundError, match="no file matches"):
        hyperchunk.open_collection("s3://tests/nothing*.h5", concat=0, storage_options=options)


def test_statistics_save_requests(values: np.ndarray, proxy: s3server.Proxy, tmp_path: Path) -> None:
    options = s3server.storage_options(proxy.endpoint)
    collection = hyperchunk.open_collection("s3://tests/collected/*.nc", storage_options=options, statistics=["t0"])
    collection.save(tmp_path / "all.hcx")
    collection = hyperchunk.open_collection(tmp_path / "all.hcx", storage_options=options)
    proxy.reset()
    largest = float(values.max())
    indices, found = collection.query("t0", f"value >= {largest!r}").read()
    assert found.tolist() == [largest]
    assert indices.tolist() == np.argwhere(values == largest).tolist()
    # The two chunks of one granule are in one place.
    assert proxy.stats()["requests"] <= 2
    assert proxy.stats()["bytes"] < 30 * 40 * 4 * 2 + 20_000
    proxy.reset()
    assert len(collection.query("t0", f"value > {largest!r}").read()[1]) == 0
    assert proxy.stats()["requests"] == 0
    # Without statistics, all of them are read.
    assert len(collection.query("t1", f"value > {largest + 1!r}").read()[1]) == 0
    assert proxy.stats()["requests"] >= FILES


def test_tables_of_all_files(values: np.ndarray, proxy: s3server.Proxy) -> None:
    options = s3server.storage_options(proxy.endpoint)
    collection = hyperchunk.open_collection("s3://tests/collected/*.nc", storage_options=options)
    table = collection.table(columns=["time", "t0", "t5"])
    proxy.set(latency="30ms")
    proxy.reset()
    found = table.to_numpy()
    np.testing.assert_array_equal(found["time"], np.arange(2 * FILES))
    np.testing.assert_array_equal(found["t5"], values + 5)
    # Files are read side by side.
    assert proxy.stats()["max_in_flight"] > 4
    np.testing.assert_array_equal(table[7:9].to_numpy()["t0"], values[7:9])
