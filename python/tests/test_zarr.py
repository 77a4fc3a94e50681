"""Files and collections as Zarr, by every route, against h5netcdf and h5py."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import ExistsError, InvalidError, LeftOutWarning, UnsupportedError
from test_collections import expected_of, granule

zarr = pytest.importorskip("zarr", minversion="3.1")
from hyperchunk.zarr import store  # noqa: E402 (skips without zarr)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import xarray as xr

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("HYPERCHUNK_CORPUS", ROOT.parent / "shared" / "corpus")) / "files"
# zarr-python warns about each codec of numcodecs, and each datatype without a specification.
pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")

ROUTES = ["store", "decoded", "json", "parquet", "virtualizarr", "icechunk"]


def by(route: str, paths: list[Path], folder: Path) -> xr.Dataset:
    """Opens the collection of some files by a route."""
    collection = hyperchunk.open_collection(paths)
    if route in ("store", "decoded"):
        opened: xr.Dataset = xr.open_zarr(store(collection, stored=route == "store"))
        return opened
    if route in ("icechunk", "virtualizarr"):
        icechunk = pytest.importorskip("icechunk")
        repository = make_repository(icechunk, folder, paths[0].parent)
        if route == "icechunk":
            collection.to_icechunk(repository)
        else:
            pytest.importorskip("virtualizarr")
            session = repository.writable_session("main")
            collection.to_virtualizarr().vz.to_icechunk(session.store)
            session.commit("all files")
        return xr.open_zarr(repository.readonly_session("main").store, consolidated=False)
    name = str(folder / ("refs.parquet" if route == "parquet" else "refs.json"))
    pytest.importorskip("fastparquet" if route == "parquet" else "fsspec")
    collection.to_kerchunk(name)
    options = {"fo": name, "remote_protocol": "file"}
    how = {"consolidated": False, "storage_options": options}
    return xr.open_dataset("reference://", engine="zarr", backend_kwargs=how)


def make_repository(icechunk: Any, folder: Path, files: Path) -> Any:
    config = icechunk.RepositoryConfig.default()
    prefix = f"{files.as_uri()}/"
    container = icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(files)))
    config.set_virtual_chunk_container(container)
    storage = icechunk.local_filesystem_storage(str(folder / "repository"))
    return icechunk.Repository.open_or_create(storage, config=config, authorize_virtual_chunk_access={prefix: None})


def check_equal(found: xr.Dataset, expected: xr.Dataset) -> None:
    assert set(found.variables) == set(expected.variables)
    assert found.attrs == expected.attrs
    for name, variable in expected.variables.items():
        got = found[name].variable
        assert got.dims == variable.dims
        if variable.dtype.kind not in "UTO":
            assert got.dtype == variable.dtype, name
        np.testing.assert_array_equal(got.values.astype(variable.dtype), variable.values, err_msg=str(name))


@pytest.mark.parametrize("lengths", [[2, 2, 4, 1], [2, 3, 1]], ids=["grid", "no grid"])
@pytest.mark.parametrize("route", ROUTES)
def test_routes_have_the_values_of_netcdf4(tmp_path: Path, route: str, lengths: list[int]) -> None:
    starts = np.cumsum([0, *lengths])
    (tmp_path / "files").mkdir()
    paths = [granule(tmp_path / "files" / f"{at}.nc", int(starts[at]), steps) for at, steps in enumerate(lengths)]
    check_equal(by(route, paths, tmp_path), expected_of(paths))


@pytest.mark.parametrize("route", ROUTES)
def test_routes_have_times_of_other_units(tmp_path: Path, route: str) -> None:
    (tmp_path / "files").mkdir()
    units = ["hours since 2020-01-01", "days since 2020-01-02", "minutes since 2020-02-01"]
    paths = [granule(tmp_path / "files" / f"{at}.nc", at, 2, unit) for at, unit in enumerate(units)]
    check_equal(by(route, paths, tmp_path), expected_of(paths))


@pytest.mark.parametrize("route", ROUTES)
def test_zeros_are_no_missing_values(tmp_path: Path, route: str) -> None:
    (tmp_path / "files").mkdir()
    paths = []
    for number in range(2):
        path = tmp_path / "files" / f"{number}.nc"
        paths.append(path)
        with h5py.File(path, "w") as file:
            file["time"] = [float(number), number + 0.5]
            file["time"].make_scale("time")
            file["x"] = np.arange(4)
            file["x"].make_scale("x")
            for name, options in {
                "zeros": {"data": np.zeros((2, 4)), "chunks": (1, 2), "compression": "gzip"},
                "never": {"shape": (2, 4), "dtype": "f4", "chunks": (1, 2)},
                "filled": {"shape": (2, 4), "dtype": "i4", "chunks": (1, 2), "fillvalue": 7},
                "marked": {"shape": (2, 4), "dtype": "f4", "chunks": (1, 2), "fillvalue": -1},
            }.items():
                made = file.create_dataset(name, maxshape=(None, 4), **options)
                made.dims[0].attach_scale(file["time"])
                made.dims[1].attach_scale(file["x"])
            file["marked"].attrs["_FillValue"] = np.float32(-1)
            file["marked"][0, 0] = 5
            file["filled"][0, :2] = 1
    collection = hyperchunk.open_collection(paths, "time")
    assert collection["filled"].axis == 0
    expected = xr.concat([xr.open_dataset(path, engine="h5netcdf") for path in paths], "time")
    found = by(route, paths, tmp_path)
    for name in expected.variables:
        np.testing.assert_array_equal(found[name].values, expected[name].values, err_msg=str(name))
        assert found[name].dtype == expected[name].dtype


def odd(path: Path) -> Path:
    """A file with one dataset of each kind that Zarr finds odd, and some that it does not."""
    numbers = np.random.default_rng(0)
    values = numbers.integers(0, 1000, (20, 6))
    with h5py.File(path, "w") as file:
        for dtype in ("i1", "<u2", ">i4", "i8", "f2", ">f4", "f8", "c8", "bool"):
            data = values.astype(dtype)
            file[f"plain/{dtype.strip('<>')}"] = data
            file.create_dataset(
                f"chunked/{dtype.strip('<>')}", data=data, chunks=(7, 4), compression="gzip", shuffle=True
            )
        for name, options in {
            "lzf": {"compression": "lzf"},
            "checked": {"fletcher32": True, "compression": "gzip"},
            "scaled": {"scaleoffset": 0},
        }.items():
            file.create_dataset(f"filters/{name}", data=values.astype("i4"), chunks=(6, 6), **options)
        skipping = file.create_dataset(
            "filters/skipping", (20, 6), "i4", chunks=(10, 6), compression="gzip", shuffle=True
        )
        skipping[:10] = values[:10]
        skipping.id.write_direct_chunk((10, 0), values[10:].astype("i4").tobytes(), filter_mask=3)
        file["text/variable"] = np.array(["", "ä", "long " * 30], object)
        file["text/one"] = "alone"
        file["text/fixed"] = np.array([b"ab", b"c", b""], "S3")
        file["compound"] = np.array([(1, 2.5), (3, 4.5)], [("a", "i2"), ("b", ">f8")])
        file["scalar"] = 5.5
        file.create_dataset("empty", (0, 3), "f4", maxshape=(None, 3), chunks=(4, 3))
        file.create_dataset("never", (5,), "f4", fillvalue=3)
        file["enum"] = np.array([0, 1], h5py.enum_dtype({"A": 0, "B": 1}, "u1"))
        file.create_dataset("vectors", (4,), np.dtype(("f4", (3,))))[:] = np.arange(12).reshape(4, 3)
        layout = h5py.VirtualLayout((20, 12), "i8")
        layout[:, :6] = h5py.VirtualSource(".", "plain/i8", (20, 6))
        layout[:, 6:] = h5py.VirtualSource(".", "chunked/i8", (20, 6))
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("outside", (4,), "i4", external=[(str(path.with_suffix(".raw")), 0, 16)])[:] = [1, 2, 3, 4]
    return path


@pytest.mark.parametrize("stored", [True, False])
def test_every_dataset_of_a_file_is_read(tmp_path: Path, stored: bool) -> None:
    path = odd(tmp_path / "odd.h5")
    group = zarr.open_group(store(path, stored=stored, external="anywhere"), mode="r")
    names: list[str] = []
    with h5py.File(path) as file:
        file.visititems(lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None)
        for name in names:
            check_same(group[name], file[name][()], name)
    assert len(names) == 33


def check_same(found: Any, expected: Any, name: str) -> None:
    values = np.asarray(found[...])
    wanted = np.asarray(expected)
    if wanted.dtype.kind == "O" or isinstance(expected, bytes):
        texts = [one.decode() for one in np.asarray(expected, object).flat]
        assert [str(one) for one in values.flat] == texts, name
        return
    if wanted.dtype.names is not None:
        # Zarr's compounds have no gaps, and no byte order.
        for member in wanted.dtype.names:
            np.testing.assert_array_equal(values[member], wanted[member], err_msg=name)
        return
    assert values.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("="), name
    np.testing.assert_array_equal(values, wanted, err_msg=name)


def test_a_live_dataset_is_computed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "live.h5", "w") as file:
        file["a"] = np.arange(12.0).reshape(3, 4)
    hyperchunk.udf.attach(tmp_path / "live.h5", outputs="twice", expression="a * 2")
    group = zarr.open_group(store(tmp_path / "live.h5"), mode="r")
    np.testing.assert_array_equal(group["twice"][:], np.arange(12.0).reshape(3, 4) * 2)


def test_what_zarr_lacks_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = [1, 2]
        file["ragged"] = np.array([np.arange(3), np.arange(2)], h5py.vlen_dtype("i4"))
        file["arrays"] = np.zeros(2, [("a", "i4", (2,))])
        file["wide"] = np.zeros(2, np.longdouble)
    with pytest.warns(LeftOutWarning) as told:
        group = zarr.open_group(store(tmp_path / "a.h5"), mode="r")
    assert list(group) == ["x"]
    assert any("/ragged" in str(one.message) for one in told)
    assert any("/wide" in str(one.message) for one in told)
    assert any("arrays in compounds" in str(one.message) for one in told)


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.array([b"\xff\xfe"], object), dtype=h5py.string_dtype("ascii"))
    with pytest.raises(InvalidError, match=r"cannot read /x as text.*strings='bytes'"):
        zarr.open_group(store(tmp_path / "a.h5"), mode="r")["x"][:]
    assert zarr.open_group(store(tmp_path / "a.h5", strings="bytes"), mode="r")["x"][0] == b"\xff\xfe"


def test_the_store_is_a_store(tmp_path: Path) -> None:
    import asyncio

    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("g/x", data=np.arange(10, dtype="u1"), chunks=(4,))
        file["s"] = np.uint8(7)
    made = store(tmp_path / "a.h5")

    async def ask() -> None:
        keys = [key async for key in made.list()]
        assert sorted(keys) == [
            "g/x/c/0",
            "g/x/c/1",
            "g/x/c/2",
            "g/x/zarr.json",
            "g/zarr.json",
            "s/c",
            "s/zarr.json",
            "zarr.json",
        ]
        assert [name async for name in made.list_dir("g/x/c")] == ["0", "1", "2"]
        assert [name async for name in made.list_dir("")] == ["g", "s", "zarr.json"]
        assert [key async for key in made.list_prefix("g/x/c/1")] == ["g/x/c/1"]
        assert await made.exists("g/x/c/2")
        for key in ("g/x/c/3", "g/x/0", "g/y/zarr.json", "g/x/c", "s/c/0", "nothing"):
            assert not await made.exists(key)
            assert await made.get(key, default_buffer_prototype()) is None
        for part, wanted in {
            None: [4, 5, 6, 7],
            RangeByteRequest(1, 3): [5, 6],
            OffsetByteRequest(3): [7],
            SuffixByteRequest(2): [6, 7],
        }.items():
            found = await made.get("g/x/c/1", default_buffer_prototype(), part)
            assert list(found.to_bytes()) == wanted
        with pytest.raises(UnsupportedError, match="read-only"):
            await made.set("g/x/c/0", found)
        with pytest.raises(UnsupportedError, match="read-only"):
            await made.delete("g/x/c/0")

    asyncio.run(ask())
    assert pickle.loads(pickle.dumps(made))._read("g/x/c/0") == bytes(range(4))


def test_files_with_other_filters_are_encoded_again(tmp_path: Path) -> None:
    data = np.arange(24.0).reshape(6, 4)
    for number, options in enumerate([{"compression": "gzip"}, {"compression": "lzf"}, {}, {"chunks": (1, 4)}]):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file.create_dataset("x", data=data + number, **{"chunks": (3, 2), **options})
    parts = hyperchunk.open_collection(str(tmp_path / "?.h5"), concat=0)
    made = store(parts)
    expected = np.concatenate([data + number for number in range(4)])
    array = made._tree.array("x")
    assert array is not None
    assert array.is_exact
    np.testing.assert_array_equal(zarr.open_group(made, mode="r")["x"][:], expected)


def test_references_do_not_grow_without_limit(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("big", data=np.zeros(10_000), chunks=(100,), compression="lzf")
        file["small"] = [1, 2]
    collection = hyperchunk.open_collection([tmp_path / "a.h5"], concat=0)
    with pytest.warns(LeftOutWarning, match="/big is left out: more than 1000 bytes"):
        collection.to_kerchunk(tmp_path / "a.json", inline=1000)
    text = (tmp_path / "a.json").read_text()
    assert "small/.zarray" in text
    assert "big" not in text
    with pytest.raises(ExistsError, match="overwrite"):
        collection.to_kerchunk(tmp_path / "a.json")
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "folder.parquet" / "mine").touch()
    with pytest.raises(ExistsError, match="expected a folder of references"):
        collection.to_kerchunk(tmp_path / "folder.parquet", overwrite=True)
    assert (tmp_path / "folder.parquet" / "mine").exists()


@pytest.mark.parametrize("lengths", [[2, 2, 4, 2], [2, 1, 3, 1]], ids=["grid", "no grid"])
def test_icechunk_gets_new_files_only(tmp_path: Path, lengths: list[int]) -> None:
    icechunk = pytest.importorskip("icechunk")
    (tmp_path / "files").mkdir()
    starts = np.cumsum([0, *lengths])
    paths = [granule(tmp_path / "files" / f"{at}.nc", int(starts[at]), steps) for at, steps in enumerate(lengths)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    collection = hyperchunk.open_collection(paths[:2])
    first = collection.to_icechunk(repository)
    collection.append(paths)
    second = collection.to_icechunk(repository)
    assert collection.to_icechunk(repository) == second != first
    assert [one.message for one in repository.ancestry(branch="main")][:2] == ["2 of 4 files", "2 of 2 files"]
    opened = xr.open_zarr(repository.readonly_session("main").store, consolidated=False)
    check_equal(opened, expected_of(paths))
    opened = xr.open_zarr(repository.readonly_session(snapshot_id=first).store, consolidated=False)
    check_equal(opened, expected_of(paths[:2]))
    with pytest.raises(InvalidError, match="expected an earlier state of this collection"):
        hyperchunk.open_collection(paths[1:]).to_icechunk(repository)


def corpus() -> list[Path]:
    files = sorted(CORPUS.rglob("*.nc*")) if CORPUS.is_dir() else []
    return [path for path in files if path.stat().st_size < 5e6 and hyperchunk.is_hdf5(path)]


@pytest.mark.skipif(not corpus(), reason="needs the corpus")
@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.name)
def test_files_of_the_corpus(path: Path) -> None:
    made = store(path)
    group = zarr.open_group(made, mode="r")
    with h5py.File(path) as file:
        for name, array in made._tree.arrays():
            found = group[name]
            stored = file[array.name]
            values = np.asarray(found[...])[tuple(map(slice, stored.shape))]
            check_same({...: values}, stored[()], name)
