"""Hyperchunk's objects in other libraries: paths of universal_pathlib and fsspec, Dask, VirtualiZarr, and h5netcdf with
the module of h5py's names.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask.array
import fsspec
import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import FileThereError, LeftOutWarning, UnsupportedError


def places(folder: Path) -> dict[str, Any]:
    """Returns names of new files, by what they are."""
    memory, local = fsspec.filesystem("memory"), fsspec.filesystem("file")
    memory.store.clear()
    found = {
        "fsspec pair": (memory, "/pair.h5"),
        "fsspec OpenFile": fsspec.open("memory://open.h5", "wb"),
        "local fsspec pair": (local, str(folder / "pair.h5")),
        "local OpenFile": fsspec.open(f"file://{folder}/open.h5", "wb"),
    }
    try:
        from upath import UPath

        found["UPath"] = UPath("memory://upath.h5")
        found["local UPath"] = UPath(folder / "upath.h5")
        found["UPath of a URL"] = UPath(f"file://{folder}/url.h5")
    except ImportError:
        pass
    try:
        import obstore

        found["obstore pair"] = (obstore.store.MemoryStore(), "pair.h5")
    except ImportError:
        pass
    return found


def test_new_files_in_file_systems(tmp_path: Path) -> None:
    for way, place in places(tmp_path).items():
        with hyperchunk.open(place, "w") as file:
            file["x"] = np.arange(1000.0)
            file.flush()
            file["y"] = ["a", "b"]
        with hyperchunk.open(place) as file:
            assert list(file) == ["x", "y"], way
            assert file["x"][500] == 500, way
        # An existing file is replaced by mode "w" alone.
        with pytest.raises(FileThereError, match=r"h5"):
            hyperchunk.open(place, "x")
        with hyperchunk.open(place, "w") as file:
            file["z"] = 1
        with hyperchunk.open(place) as file:
            assert list(file) == ["z"], way


def fail(place: Any) -> None:
    """Stops in the middle of a new file."""
    with hyperchunk.open(place, "w") as file:
        file["x"] = 1
        raise RuntimeError("stop")


def test_failed_writers_leave_no_object(tmp_path: Path) -> None:
    for way, place in places(tmp_path).items():
        if "local" in way or "URL" in way:
            continue
        with pytest.raises(RuntimeError, match="stop"):
            fail(place)
        with pytest.raises(FileNotFoundError):
            hyperchunk.open(place)
        with pytest.raises(TypeError, match="storage_options"):
            hyperchunk.open(place, "w", storage_options={"anonymous": True})


def test_local_paths_are_edited_and_others_refused(tmp_path: Path) -> None:
    for way, place in places(tmp_path).items():
        with hyperchunk.open(place, "w") as file:
            file["x"] = 1
        if "local" in way or "URL" in way:
            with hyperchunk.open(place, "a") as file:
                file["y"] = 2
            with hyperchunk.open(place) as file:
                assert sorted(file) == ["x", "y"], way
        else:
            with pytest.raises(UnsupportedError, match="expected a local file"):
                hyperchunk.open(place, "a")


def test_local_upath_is_read_as_a_path(tmp_path: Path) -> None:
    upath = pytest.importorskip("upath")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = [1, 2]
    for place in (upath.UPath(tmp_path / "a.h5"), upath.UPath(f"file://{tmp_path}/a.h5")):
        with hyperchunk.open(place) as file:
            assert file.driver == "sec2"
            assert file["x"][1] == 2


def test_paths_with_the_names_of_h5py(tmp_path: Path) -> None:
    from hyperchunk.h5py import File

    for way, place in places(tmp_path).items():
        with File(place, "w") as file:
            file["x"] = [1, 2]
        with File(place) as file:
            assert file["x"][1] == 2, way


def test_dask_reads_and_writes(tmp_path: Path) -> None:
    values = np.random.default_rng(1).random((200, 300))
    with hyperchunk.open(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(50, 60), compression="gzip")
    with hyperchunk.open(tmp_path / "a.h5") as file:
        array = dask.array.from_array(file["x"], chunks=file["x"].chunks)
        assert array.chunks == ((50,) * 4, (60,) * 5)
        assert np.array_equal(array.compute(), values)
        assert np.array_equal(dask.array.from_array(file["x"])[3:70, ::7].compute(), values[3:70, ::7])
        with hyperchunk.open(tmp_path / "b.h5", "w") as new:
            target = new.create_dataset("x", array.shape, array.dtype, chunks=(50, 60), compression="gzip")
            dask.array.store(array * 2, target, lock=False)
    with h5py.File(tmp_path / "b.h5") as file:
        assert np.array_equal(file["x"][:], values * 2)


PROGRAM = """
import sys
import warnings

warnings.simplefilter("ignore")
import hyperchunk.h5py

if sys.argv[1] == "hyperchunk":
    hyperchunk.h5py.install()
import dask.array
import h5netcdf
import h5py
import numpy as np
import xarray as xr

ds = xr.Dataset(
    {"t": (("time", "x"), np.arange(6.0).reshape(2, 3), {"units": "K"}), "name": ("x", ["a", "bé", ""])},
    coords={"x": [1, 2, 3], "time": np.array(["2020-01-01", "2020-01-02"], "M8[ns]")},
    attrs={"title": "hé"},
)
encoding = {"t": {"zlib": True, "chunksizes": (1, 3), "dtype": "f4", "_FillValue": -1.0}}
ds.to_netcdf("a.nc", engine="h5netcdf", encoding=encoding, unlimited_dims=["time"])
ds.to_netcdf("a.nc", "a", engine="h5netcdf", group="inner/most")
xr.DataTree.from_dict({"/": ds, "/below": ds}).to_netcdf("tree.nc", engine="h5netcdf")
dask.array.arange(1000, chunks=100).to_hdf5("dask.h5", "/group/x", compression="gzip")
with h5netcdf.File("b.nc", "w") as file:
    file.dimensions = {"x": 3}
    color = file.create_enumtype("u1", "color", {"red": 0, "blue": 1})
    file.create_variable("c", ("x",), color, fillvalue=0)[:] = [0, 1, 0]
    file.create_variable("deep/v", ("x",), "i4")[:] = 7
opened = {name: xr.load_dataset(name, engine="h5netcdf", group=group) for name, group in (("a.nc", None),)}
print(repr(opened), list(xr.open_datatree("tree.nc", engine="h5netcdf").children))
print(h5py.File("dask.h5")["group/x"][::99], h5py.__name__, h5py.version.info.splitlines()[0])
"""


def test_h5netcdf_xarray_and_dask_write_with_the_module(tmp_path: Path) -> None:
    """Files written with the module are the same to netCDF-C as those written with h5py."""
    pytest.importorskip("h5netcdf")
    import netCDF4

    told, trees = [], []
    for who in ("h5py", "hyperchunk"):
        folder = tmp_path / who
        folder.mkdir()
        command = [sys.executable, "-c", PROGRAM, who]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.splitlines())
        trees.append({})
        for name in ("a.nc", "tree.nc", "b.nc"):
            with netCDF4.Dataset(folder / name) as file:
                trees[-1][name] = tree(file)
        with h5py.File(folder / "dask.h5") as file:
            assert file["group/x"].compression == "gzip"
            assert file["group/x"][:].sum() == 499500
    assert told[0][:-1] == told[1][:-1]
    assert told[1][-1].endswith("h5py Hyperchunk's module with h5py's names")
    assert trees[0] == trees[1]


def tree(group: Any) -> dict[str, Any]:
    """Returns the contents of a group of netCDF4."""
    found: dict[str, Any] = {"sizes": {name: (d.size, d.isunlimited()) for name, d in group.dimensions.items()}}
    found["attributes"] = {name: str(group.getncattr(name)) for name in group.ncattrs() if name != "_NCProperties"}
    for name, variable in group.variables.items():
        attributes = {key: str(variable.getncattr(key)) for key in variable.ncattrs()}
        shown = (variable.dimensions, str(variable.datatype), variable.chunking(), str(variable.filters()), attributes)
        found[name] = (*map(str, shown), np.asarray(variable[...]).tolist())
    found["groups"] = {name: tree(inner) for name, inner in group.groups.items()}
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


# --- VirtualiZarr ---


def made(folder: Path) -> Path:
    """A file of what Zarr can represent."""
    path, rng = folder / "made.h5", np.random.default_rng(5)
    with h5py.File(path, "w") as file:
        file.attrs.update({"title": "hé", "numbers": [1, 2], "one": np.float32(0.5), "names": ["a", "b"]})
        file["x"] = np.arange(30.0)
        file["x"].make_scale("x")
        for name, options in {
            "plain": {},
            "gzip": {"compression": "gzip", "shuffle": True, "chunks": (7, 11)},
            "checked": {"fletcher32": True, "chunks": (10, 10)},
        }.items():
            file.create_dataset(name, data=rng.random((20, 30)), **options).dims[1].attach_scale(file["x"])
        file.create_dataset("sparse", (40, 40), "f4", chunks=(10, 10))[11:15, 12] = 3
        file.create_dataset("filled", (40, 40), "i2", chunks=(10, 10), fillvalue=7)[30:, 30:] = 1
        file.create_dataset("never", (5,), "f8")
        file["big"] = np.arange(4, dtype=">f4")
        file["scalar"] = 3.5
        file["text"] = np.array([b"ab", b"c"])
        file["flags"] = np.array([True, False])
        file["none"] = np.zeros((0, 3))
        file["group/deep/y"] = np.arange(5)
        file["group/deep"].attrs["units"] = "K"
        file["group/same"] = file["group"]
        file["group/z"], file["group/w"] = np.arange(40), np.arange(5)
        file["after"] = np.arange(3)
        missing = file.create_dataset("missing", data=np.array([1.0, -9, 3]))
        missing.attrs["_FillValue"] = np.float64(-9)
    return path


@pytest.mark.filterwarnings("ignore")
def test_virtualizarr_parser(tmp_path: Path) -> None:
    pytest.importorskip("virtualizarr")
    import xarray as xr
    from hyperchunk.virtualizarr import HyperchunkParser
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore, MemoryStore
    from virtualizarr import open_virtual_dataset, open_virtual_datatree
    from virtualizarr.parsers.typing import Parser

    path = made(tmp_path)
    memory = MemoryStore()
    memory.put("folder/made.h5", path.read_bytes())
    registry = ObjectStoreRegistry({"file://": LocalStore(), "memory://bucket": memory})
    assert isinstance(HyperchunkParser(), Parser)
    for url in (f"file://{path}", "memory://bucket/folder/made.h5"):
        store = HyperchunkParser()(url, registry)
        with h5py.File(path) as file:
            for group in ("", "group", "group/deep"):
                zarr = {"engine": "zarr", "consolidated": False, "zarr_format": 3, "mask_and_scale": False}
                ds = xr.open_dataset(store, group=group or None, **zarr).load()
                members = file[group or "/"]
                wanted = {name for name in members if isinstance(members[name], h5py.Dataset)}
                assert set(ds.variables) == wanted
                for name in wanted:
                    assert np.array_equal(ds[name].values, members[name][()]), (url, group, name)
        ds = xr.open_dataset(store, engine="zarr", consolidated=False, zarr_format=3)
        assert ds.attrs == {"title": "hé", "numbers": [1, 2], "one": 0.5, "names": ["a", "b"]}
        assert ds["gzip"].dims == ("phony_dim_2", "x")
        assert np.isnan(ds["missing"].values[1])
        virtual = open_virtual_dataset(url, registry, parser=HyperchunkParser(), loadable_variables=["x"])
        assert virtual["gzip"].data.manifest.shape_chunk_grid == (3, 3)
    tree = open_virtual_datatree(f"file://{path}", registry, parser=HyperchunkParser(), loadable_variables=[])
    assert set(tree.groups) == {"/", "/group", "/group/deep"}
    inner = HyperchunkParser(group="/group", drop_variables=["w"])(f"file://{path}", registry)
    assert set(inner._group.arrays) == {"z"}


@pytest.mark.filterwarnings("ignore")
def test_virtualizarr_parser_equals_virtualizarrs_own(tmp_path: Path) -> None:
    """netCDF files give the same virtual datasets as with the parser that uses h5py."""
    pytest.importorskip("virtualizarr")
    import netCDF4
    import xarray as xr
    from hyperchunk.virtualizarr import HyperchunkParser
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import HDFParser

    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in {"time": None, "y": 4, "bare": 6}.items():
            file.createDimension(name, size)
        file.createVariable("time", "i4", ("time",))[:] = range(5)
        file["time"].units = "days since 2020-01-01"
        file.createVariable("y", "f8", ("y",))[:] = range(4)
        t = file.createVariable("t", "i2", ("time", "y", "bare"), zlib=True, fill_value=-9, chunksizes=(2, 4, 6))
        t.scale_factor, t.add_offset, t.title = 0.5, 10.0, "hé"
        t[:] = np.arange(120).reshape(5, 4, 6) / 2 + 10
    registry, url = ObjectStoreRegistry({"file://": LocalStore()}), f"file://{tmp_path}/a.nc"
    found = []
    for parser in (HDFParser(), HyperchunkParser()):
        store = parser(url, registry)
        found.append(xr.open_dataset(store, engine="zarr", consolidated=False, zarr_format=3).load())
    xr.testing.assert_identical(*found)
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as ds:
        xr.testing.assert_equal(found[1], ds.load())


@pytest.mark.filterwarnings("ignore")
def test_virtualizarr_parser_of_numpys_datetimes(tmp_path: Path) -> None:
    pytest.importorskip("virtualizarr")
    import xarray as xr
    from hyperchunk.virtualizarr import HyperchunkParser
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore

    times = {"ns": ["2020-01-01", "NaT"], "D": ["2020-01-01", "NaT"]}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for unit, texts in times.items():
            file[f"t{unit}"] = np.array(texts, f"M8[{unit}]").astype(h5py.opaque_dtype(f"M8[{unit}]"))
        file["d"] = np.array([1, 2], "m8[s]").astype(h5py.opaque_dtype("m8[s]"))
        file["opaque"] = np.array([b"ab", b"cd"], "V2")
    store = HyperchunkParser()(f"file://{tmp_path}/a.h5", ObjectStoreRegistry({"file://": LocalStore()}))
    found = xr.open_dataset(store, engine="zarr", consolidated=False, zarr_format=3).load()
    for unit, texts in times.items():
        assert np.array_equal(found[f"t{unit}"].values, np.array(texts, "M8[s]"), equal_nan=True)
    assert found.d.values.tolist() == np.array([1, 2], "m8[s]").tolist()
    assert found.opaque.values.tolist() == [b"ab", b"cd"]


def test_virtualizarr_parser_names_what_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("virtualizarr")
    from hyperchunk.virtualizarr import HyperchunkParser
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["names"] = [1, 2], ["a", "bc"]
    registry, url = ObjectStoreRegistry({"file://": LocalStore()}), f"file://{tmp_path}/a.h5"
    with pytest.warns(LeftOutWarning, match="left out /names: .*strings"):
        HyperchunkParser()(url, registry)
    # A variable that the caller drops is none that is missing.
    assert set(HyperchunkParser(drop_variables=["names"])(url, registry)._group) == {"x"}
    with pytest.raises(KeyError):
        HyperchunkParser(group="nowhere")(url, registry)
    with pytest.raises(ValueError, match="expected a group"):
        HyperchunkParser(group="x")(url, registry)
