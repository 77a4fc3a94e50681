"""Datasets of xarray added to netCDF-4 files: the same calls with the engine "netcdf4", and what netCDF4 reads."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import hyperchunk.xarray_engine
import netCDF4
import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import xarray as xr
    from xarray.backends.common import AbstractWritableDataStore

BIG = 2_000_000_001


def shown(path: Path) -> dict[str, Any]:
    """Everything that netCDF4 reads of a file."""
    found: dict[str, Any] = {}

    def visit(group: Any) -> None:
        for name, dimension in group.dimensions.items():
            found[f"{group.path}:{name}"] = (len(dimension), dimension.isunlimited())
        for name in group.ncattrs():
            if name != "_NCProperties":
                found[f"{group.path}@{name}"] = repr(group.getncattr(name))
        for name, variable in group.variables.items():
            variable.set_auto_mask(False)
            variable.set_auto_scale(False)
            attributes = {key: repr(variable.getncattr(key)) for key in variable.ncattrs()}
            values = variable[...]
            found[f"{group.path}/{name}"] = (
                str(variable.dtype),
                variable.dimensions,
                attributes,
                repr(np.asarray(values).tolist()),
            )
        for below in group.groups.values():
            visit(below)

    with netCDF4.Dataset(path) as file:
        visit(file)
    return found


def linked(path: Path) -> dict[str, Any]:
    """The scales of each dataset, the users of each scale, and the numbers of the dimensions."""
    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        attributes = item.attrs
        users = sorted((file[used].name, int(axis)) for used, axis in attributes.get("REFERENCE_LIST", ()))
        scales = [[file[used].name for used in listed] for listed in attributes.get("DIMENSION_LIST", ())]
        number = attributes["_Netcdf4Dimid"] if "CLASS" in attributes else None
        found[name] = (scales, users, number, attributes.get("NAME"), item.maxshape, np.dtype(item.dtype).str)

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


def compare(ours: Path, theirs: Path, groups: tuple[str | None, ...] = (None,)) -> None:
    assert shown(ours) == shown(theirs)
    assert linked(ours) == linked(theirs)
    for engine in ("netcdf4", "h5netcdf", "hyperchunk"):
        for group in groups:
            with (
                xr.open_dataset(ours, engine=engine, group=group) as a,
                xr.open_dataset(theirs, engine=engine, group=group) as b,
            ):
                xr.testing.assert_identical(a.load(), b.load())
    if (program := shutil.which("ncdump")) is not None:
        command = [program, "-n", "name", "-p", "9,17"]
        a, b = (subprocess.check_output([*command, path], text=True) for path in (ours, theirs))
        assert a == b


V = xr.Dataset({"v": ("x", [1.0, 2.0])})
W = xr.Dataset({"w": ("x", [3, 4])}, coords={"x": [10, BIG]})
MANY = xr.Dataset({"v": (("x", "y"), np.ones((2, 3))), "u": (("y", "x"), np.zeros((3, 2))), "q": ("z", [1])})
PAIRS: list[tuple[xr.Dataset, dict[str, Any], xr.Dataset, dict[str, Any]]] = [
    (V, {}, W, {}),
    (V, {}, xr.Dataset(coords={"x": [1.5, 2.5]}, attrs={"title": "more"}), {}),
    (V, {}, xr.Dataset(coords={"x": ["a", "é"]}), {}),
    (V, {"unlimited_dims": ["x"]}, W, {}),
    (V, {}, W, {"encoding": {"x": {"zlib": True, "chunksizes": (1,), "_FillValue": -1}}}),
    (V, {}, xr.Dataset({"x": (("x", "y"), [[1, 2, 3], [4, 5, 6]])}), {}),
    (V, {}, xr.Dataset({"x": (("y", "x"), [[1, 2], [3, 4], [5, 6]])}), {}),
    (V, {}, xr.Dataset({"x": ("y", [1, 2, 3])}), {}),
    (V, {"group": "a/b"}, W, {"group": "a/b"}),
    (V, {"group": "a"}, W, {"group": "a/b"}),
    (MANY, {}, xr.Dataset({"w": ("x", [1, 2])}, coords={"x": [1, 2], "y": [7, 8, 9]}), {}),
    (MANY, {"unlimited_dims": ["y", "x"]}, xr.Dataset({"w": (("n", "y"), [[1, 2, 3]])}, coords={"y": [7, 8, 9]}), {}),
    (xr.Dataset({"x": (("x", "y"), [[1, 2], [3, 4]])}), {}, xr.Dataset({"w": ("x", [3, 4])}), {}),
    (xr.Dataset({"v": ("x", np.array([1, 2], "i4"))}), {}, V, {}),
    (V, {"encoding": {"v": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}}}, V, {}),
    (V, {"encoding": {"v": {"_FillValue": -5.0}}}, V + 1, {}),
    (W, {}, W + 1, {}),
]


@pytest.fixture
def _given_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes xarray write dimensions that grow in the order of `PAIRS`: it makes a set, whose order changes."""
    original: Any = AbstractWritableDataStore.set_dimensions

    def set_dimensions(store: Any, variables: Any, unlimited_dims: Any = None) -> None:
        original(store, variables, sorted(unlimited_dims or (), reverse=True))

    monkeypatch.setattr(AbstractWritableDataStore, "set_dimensions", set_dimensions)


@pytest.mark.usefixtures("_given_order")
@pytest.mark.parametrize("first", ["netcdf4", "hyperchunk"])
@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_adding_to_a_file_is_that_of_netcdf4(tmp_path: Path, number: int, first: str) -> None:
    one, options, two, more = PAIRS[number]
    ours, theirs = tmp_path / "ours.nc", tmp_path / "theirs.nc"
    one.to_netcdf(theirs, engine="netcdf4", **options)
    if first == "netcdf4":
        one.to_netcdf(ours, engine="netcdf4", **options)
    else:
        one.hyperchunk.to_netcdf(ours, **options)
    two.to_netcdf(theirs, "a", engine="netcdf4", **more)
    two.hyperchunk.to_netcdf(ours, "a", **more)
    compare(ours, theirs, (options.get("group"), more.get("group")))
    with netCDF4.Dataset(ours, "a") as file:
        group = file[more["group"]] if "group" in more else file
        group.createVariable("further", "f4", ("x",))[:] = 5
    assert shown(ours)


def test_a_coordinate_of_a_dimension_that_groups_below_use(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.nc", tmp_path / "theirs.nc"
    tree = xr.DataTree.from_dict({"/": V, "/a": xr.Dataset({"b": (("x", "t"), [[1], [2]])}), "/a/c": V + 1})
    tree.to_netcdf(theirs, engine="netcdf4")
    tree.hyperchunk.to_netcdf(ours)
    more = xr.DataTree.from_dict({"/": W, "/a": xr.Dataset({"k": ("x", [5, 6])}, coords={"t": [1.5]})})
    more.to_netcdf(theirs, "a", engine="netcdf4")
    more.hyperchunk.to_netcdf(ours, "a")
    compare(ours, theirs, (None, "a", "a/c"))


def test_a_variable_that_is_shorter_than_its_dimension_is_extended(tmp_path: Path) -> None:
    paths = tmp_path / "ours.nc", tmp_path / "theirs.nc"
    more = xr.Dataset({"v": ("x", [1.0, 2.0, 3.0])}, coords={"x": [7, 8, 9]})
    for path in paths:
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("x", None)
            file.createVariable("v", "f8", ("x",))[:] = [1]
            file.createVariable("u", "f8", ("x",))[:] = [1, 2, 3]
    more.hyperchunk.to_netcdf(paths[0], "a")
    more.to_netcdf(paths[1], "a", engine="netcdf4")
    compare(*paths)


def test_a_failed_addition_leaves_the_dimension(tmp_path: Path) -> None:
    import dask.array

    def fail(block: np.ndarray) -> np.ndarray:
        if block.size:
            raise ArithmeticError("computed wrongly")
        return block

    path = tmp_path / "a.nc"
    V.hyperchunk.to_netcdf(path)
    before = shown(path), linked(path)
    bad = dask.array.ones(2, chunks=1).map_blocks(fail, dtype=float)
    with pytest.raises(ArithmeticError):
        W.assign(bad=("x", bad)).hyperchunk.to_netcdf(path, "a")
    assert (shown(path), linked(path)) == before


def test_the_name_of_another_object_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    V.hyperchunk.to_netcdf(path, group="g")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"'g'.*rename"):
        xr.Dataset({"g": ("x", [1.0])}).hyperchunk.to_netcdf(path, "a")
    assert path.read_bytes() == before


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        np.array([b"abc", b"d"], "S3"),
        np.array([b"abc", b"d", b""], object),
        np.array([["é".encode(), b""]], "S3"),
        np.array(b"a"),
    ],
)
def test_byte_strings_with_the_dtype_str(tmp_path: Path, values: np.ndarray, lazy: bool) -> None:
    ds = xr.Dataset({"v": xr.Variable(("y", "x")[2 - values.ndim :], values, encoding={"dtype": str})})
    ds.to_netcdf(tmp_path / "theirs.nc", engine="netcdf4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # xarray loads objects of Dask
        (ds.chunk() if lazy else ds).hyperchunk.to_netcdf(tmp_path / "ours.nc")
    compare(tmp_path / "ours.nc", tmp_path / "theirs.nc")


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf", "hyperchunk"])
def test_rounded_values_of_a_file_keep_their_attribute(tmp_path: Path, engine: str) -> None:
    encoding = {"least_significant_digit": 1}
    V.to_netcdf(tmp_path / "a.nc", engine="netcdf4", encoding={"v": encoding})
    with xr.open_dataset(tmp_path / "a.nc", engine=engine) as ds:
        ds.hyperchunk.to_netcdf(tmp_path / "ours.nc")
    compare(tmp_path / "ours.nc", tmp_path / "a.nc")


@pytest.mark.parametrize("key", ["least_significant_digit", "significant_digits"])
def test_rounding_of_other_values_is_an_error(tmp_path: Path, key: str) -> None:
    ds = xr.Dataset({"v": xr.Variable("x", [1.2345678], encoding={key: 2})})
    for given, encoding in ((ds, None), (V, {"v": {key: 2}})):
        with pytest.raises(hyperchunk.exceptions.UnsupportedError, match=f"'v': {key} is not supported; round"):
            given.hyperchunk.to_netcdf(tmp_path / "a.nc", encoding=encoding)
    assert not (tmp_path / "a.nc").exists()


NAMES = ["-x", "x ", " x", "x y", "é", "a+b", "a\tb", "x" * 200, "x" * 257, ".a", "@", "0a", "a\x7fb", "é-", "_a"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["variable", "dimension", "attribute", "attribute of a variable", "group"])
def test_a_name_is_valid_if_netcdf_has_it(tmp_path: Path, name: str, kind: str) -> None:
    ds = {
        "variable": xr.Dataset({name: ("q", [1])}),
        "dimension": xr.Dataset({"q": (name, [1])}),
        "attribute": xr.Dataset(attrs={name: 1}),
        "attribute of a variable": xr.Dataset({"q": ("z", [1], {name: 1})}),
        "group": V,
    }[kind]
    group = name if kind == "group" else None
    try:
        ds.to_netcdf(tmp_path / "theirs.nc", engine="netcdf4", group=group)
    except (RuntimeError, AttributeError):
        with pytest.raises(ValueError, match=f"cannot write .*{kind.split()[0]}.* with the name .*; rename"):
            ds.hyperchunk.to_netcdf(tmp_path / "ours.nc", group=group)
        assert not (tmp_path / "ours.nc").exists()
        return
    ds.hyperchunk.to_netcdf(tmp_path / "ours.nc", group=group)
    compare(tmp_path / "ours.nc", tmp_path / "theirs.nc", (group,))


def test_a_variable_never_becomes_smaller(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", None)
        group = file.createGroup("g")
        group.createVariable("v", "i4", ("x",), chunksizes=(4,))[:] = np.arange(5)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="in the file, it has"):
        xr.Dataset({"v": ("x", np.arange(3, dtype="i4"))}).hyperchunk.to_netcdf(path, "a", group="g")
    assert path.read_bytes() == before
