"""Odd datasets, attributes and links of collections as Zarr, by every route, against h5py."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import InvalidError, LeftOutWarning, ReadError

zarr = pytest.importorskip("zarr", minversion="3.1")
from hyperchunk.zarr import store  # noqa: E402 (skips without zarr)
from test_zarr import make_repository  # noqa: E402 (skips without zarr)

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")

ROUTES = ["store", "json", "parquet", "icechunk"]


def group_by(route: str, collection: hyperchunk.Collection, folder: Path, **options: Any) -> Any:
    """Opens a collection by a route, as a group of zarr-python."""
    if route == "store":
        return zarr.open_group(store(collection, **options), mode="r")
    if route == "icechunk":
        icechunk = pytest.importorskip("icechunk")
        repository = make_repository(icechunk, folder, Path(collection.files[0]).parent)
        collection.to_icechunk(repository, **options)
        return zarr.open_group(repository.readonly_session("main").store, mode="r")
    fsspec = pytest.importorskip("fastparquet" if route == "parquet" else "fsspec") and pytest.importorskip("fsspec")
    name = str(folder / ("refs.parquet" if route == "parquet" else "refs.json"))
    collection.to_kerchunk(name, **options)
    given = {"remote_protocol": "file", "remote_options": {"asynchronous": True}, "asynchronous": True}
    files = fsspec.filesystem("reference", fo=name, **given)
    return zarr.open_group(zarr.storage.FsspecStore(files, read_only=True, path=""), mode="r", zarr_format=2)


def one_file(folder: Path) -> Path:
    (folder / "files").mkdir()
    return folder / "files" / "a.h5"


def warned(told: Any) -> list[str]:
    return [str(one.message) for one in told if one.category is LeftOutWarning]


@pytest.mark.parametrize("route", ROUTES)
def test_fill_values_of_bytes(tmp_path: Path, route: str) -> None:
    path = one_file(tmp_path)
    with h5py.File(path, "w") as file:
        for length in (1, 2):
            for fill in (b"0", b"", b"z"):
                name = f"s{length}{fill.decode()}"
                made = file.create_dataset(name, (6,), f"S{length}", chunks=(2,), fillvalue=fill, maxshape=(None,))
                made[:2] = b"a"
        made = file.create_dataset("marked", (6,), "S2", chunks=(2,), fillvalue=b"z", maxshape=(None,))
        made.attrs["_FillValue"] = np.bytes_(b"z")
        for name, fill in {"opaque": b"abc", "zeros": b"\0\0\0"}.items():
            made = file.create_dataset(name, (6,), "V3", chunks=(2,), fillvalue=np.void(fill))
            made[:2] = np.void(b"xyz")
    group = group_by(route, hyperchunk.open_collection([path], concat=0), tmp_path)
    with h5py.File(path) as file:
        assert set(group) == set(file)
        for name in file:
            assert group[name][:].tolist() == file[name][:].tolist(), name


@pytest.mark.parametrize("route", ROUTES)
def test_fill_values_that_are_no_elements(tmp_path: Path, route: str) -> None:
    path = one_file(tmp_path)
    odd = {
        "empty": h5py.Empty("i8"),
        "none": np.zeros(0),
        "text": "none",
        "nan": np.nan,
        "empty_text": h5py.Empty("S3"),
    }
    with h5py.File(path, "w") as file:
        for name, value in odd.items():
            file[name] = [1, 2]
            file[name].attrs["_FillValue"] = value
    with pytest.warns(LeftOutWarning) as told:
        group = group_by(route, hyperchunk.open_collection([path], concat=0), tmp_path)
    for name in odd:
        assert group[name][:].tolist() == [1, 2]
        assert "_FillValue" not in group[name].attrs
        assert any(f"the attribute '_FillValue' of /{name} is left out" in text for text in warned(told))


@pytest.mark.parametrize("route", ROUTES)
def test_datasets_without_a_value_are_left_out(tmp_path: Path, route: str) -> None:
    path = one_file(tmp_path)
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2]
        file["null"] = h5py.Empty("f4")
    with pytest.warns(LeftOutWarning, match="/null is left out: its dataspace is null"):
        group = group_by(route, hyperchunk.open_collection([path], concat=0), tmp_path)
    assert list(group) == ["x"]


@pytest.mark.parametrize("route", ROUTES)
def test_strings_that_are_no_utf8(tmp_path: Path, route: str) -> None:
    path = one_file(tmp_path)
    data = np.array([b"\xff\xfe", b"", b"ok"], object)
    with h5py.File(path, "w") as file:
        file.create_dataset("s", data=data, dtype=h5py.string_dtype("ascii"))
    collection = hyperchunk.open_collection([path], concat=0)
    (tmp_path / "text").mkdir()
    with pytest.raises(InvalidError, match=r"cannot read /s as text.*strings='bytes'"):
        group_by(route, collection, tmp_path / "text")["s"][:]
    found = group_by(route, collection, tmp_path, strings="bytes")["s"][:]
    assert found.tolist() == data.tolist()


@pytest.mark.parametrize("route", ROUTES)
def test_compounds_in_compounds(tmp_path: Path, route: str) -> None:
    path = one_file(tmp_path)
    data = np.zeros(3, [("p", [("x", "<f4"), ("y", "<i2")]), ("q", "<i8")])
    data["p"]["x"] = data["q"] = [1, 2, 3]
    with h5py.File(path, "w") as file:
        file["nested"] = data
        file["x"] = [1, 2]
    collection = hyperchunk.open_collection([path], concat=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", LeftOutWarning)
        group = group_by(route, collection, tmp_path)
    if route in ("json", "parquet"):
        assert any("/nested is left out: references have no compounds in compounds" in text for text in warned(told))
        assert list(group) == ["x"]
    else:
        np.testing.assert_array_equal(group["nested"][:], data)


UNITS = [
    "hours since 2000-01-0{} 00:00:00",
    "hours since 2000-01-0{}",
    "hours since 2000-01-0{} 00:00",
    "hours since 2000-01-0{}T00:00:00Z",
    "Hours since 2000-01-0{}",
    "hour since 2000-01-0{}",
    "h since 2000-01-0{}",
    "days since 2000-01-0{} 12:00:00",
    "days since 2000-01-0{} 00:00:00.0",
    "d since 2000-01-0{}",
    "min since 2000-01-0{}",
    "seconds since 2000-1-{}",
    "seconds since 2000-01-0{} 00:00:00 UTC",
    "s since 2000-01-0{}",
    "ms since 2000-01-0{}",
]
DAY = {"h": 24, "d": 1, "s": 86400, "mi": 1440, "ms": 86400_000}


@pytest.mark.parametrize("dtype", ["f8", "i4", "i8"])
@pytest.mark.parametrize("units", UNITS)
def test_times_of_all_spellings_are_joined(tmp_path: Path, units: str, dtype: str) -> None:
    pytest.importorskip("xarray")
    paths = [tmp_path / f"{number}.h5" for number in (1, 2)]
    for number, path in enumerate(paths):
        with h5py.File(path, "w") as file:
            time = file.create_dataset("time", data=np.arange(3, dtype=dtype), maxshape=(None,))
            time.make_scale()
            time.attrs["units"] = units.format(number + 1)
    found = zarr.open_group(store(hyperchunk.open_collection(paths)), mode="r")["time"]
    day = next(length for name, length in DAY.items() if units.lower().startswith(name))
    assert found[:].tolist() == [0, 1, 2, day, day + 1, day + 2]
    assert found.dtype == dtype
    assert found.attrs["units"] == units.format(1)


def test_missing_times_are_joined(tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    paths = [tmp_path / f"{number}.h5" for number in (1, 2)]
    for number, path in enumerate(paths):
        with h5py.File(path, "w") as file:
            time = file.create_dataset("time", data=[0.0, np.nan, 2.0], maxshape=(None,))
            time.make_scale()
            time.attrs["units"] = f"hours since 2000-01-0{number + 1} 00:00"
    found = zarr.open_group(store(hyperchunk.open_collection(paths)), mode="r")["time"][:]
    np.testing.assert_array_equal(found, [0, np.nan, 2, 24, np.nan, 26])


def test_a_missing_file_is_an_error_of_the_store(tmp_path: Path) -> None:
    path = one_file(tmp_path)
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2]
    collection = hyperchunk.open_collection([path], concat=0)
    collection.save(tmp_path / "all.hcx")
    collection = hyperchunk.open_collection(tmp_path / "all.hcx")
    path.unlink()
    with pytest.raises(ReadError, match=r"cannot read zarr\.json"):
        zarr.open_group(store(collection), mode="r")


@pytest.mark.parametrize("kind", ["hard", "soft", "group"])
@pytest.mark.parametrize("route", [*ROUTES, "virtualizarr", "xarray", "virtual"])
def test_second_names_are_left_out(tmp_path: Path, route: str, kind: str) -> None:
    (tmp_path / "files").mkdir()
    paths = [tmp_path / "files" / f"{number}.h5" for number in range(2)]
    for number, path in enumerate(paths):
        with h5py.File(path, "w") as file:
            time = file.create_dataset("g/time", data=np.arange(3) + 3 * number, maxshape=(None,))
            time.make_scale()
            file["g/x"] = np.arange(3) + 3 * number
            file["g/x"].dims[0].attach_scale(time)
            if kind == "group":
                file["h"] = h5py.SoftLink("/g")
            else:
                file["g/y"] = h5py.SoftLink("/g/x") if kind == "soft" else file["g/x"]
    collection = hyperchunk.open_collection(paths, "/g/time")
    second = "/h/x" if kind == "group" else "/g/y"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", LeftOutWarning)
        found = links_by(route, collection, tmp_path, "h" if kind == "group" else "g")
    assert any(f"{second} is left out: it is a second name of /g/x" in text for text in warned(told))
    if kind != "group":
        assert "y" not in found
    if kind != "group" or route in ROUTES:
        assert np.asarray((found["g"] if route in ROUTES else found)["x"][:]).tolist() == list(range(6))


def links_by(route: str, collection: hyperchunk.Collection, folder: Path, group: str) -> Any:
    if route == "virtualizarr":
        pytest.importorskip("virtualizarr")
        made = collection.to_virtualizarr(group)
        # VirtualiZarr reads no values.
        return {name: np.arange(6) for name in made.variables}
    if route == "xarray":
        xarray = pytest.importorskip("xarray")
        return xarray.open_dataset(collection, engine="hyperchunk", group=group)
    if route == "virtual":
        collection.to_virtual(folder / "all.h5")
        with h5py.File(folder / "all.h5") as file:
            assert "g/y" not in file
            assert file["g/x"].dims[0][0] == file["g/time"]
            return {name: item[:] for name, item in file["g"].items()}
    return group_by(route, collection, folder)


def test_times_of_different_calendars_are_not_joined(tmp_path: Path) -> None:
    pytest.importorskip("cftime")
    pytest.importorskip("xarray")
    for number, calendar in enumerate(["standard", "noleap"]):
        with h5py.File(tmp_path / f"{number}.nc", "w") as file:
            time = file.create_dataset("time", data=np.arange(3) + 60, maxshape=(None,))
            time.make_scale("time")
            time.attrs["units"], time.attrs["calendar"] = "days since 2000-01-01", calendar
    collection = hyperchunk.open_collection([tmp_path / "0.nc", tmp_path / "1.nc"], concat="time")
    with pytest.raises(InvalidError, match=r"/time: its units or calendars differ .* \(calendar 'standard'\)"):
        zarr.open_group(store(collection), mode="r")["time"]
