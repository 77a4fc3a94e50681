"""Datasets of xarray written as netCDF-4 files, compared with what the engine "netcdf4" wrote of the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import hyperchunk.xarray_engine
import netCDF4
import numpy as np
import pandas as pd
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import xarray as xr
    from xarray.backends.common import AbstractWritableDataStore

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("HYPERCHUNK_CORPUS", ROOT.parent / "shared" / "corpus")) / "files"
ENGINES = ("netcdf4", "h5netcdf", "hyperchunk")

# Reasoned differences from netCDF-C. Default chunks have another size. netCDF-C marks some variables with the number of
# their first dimension, which readers need of scales only.
CHUNKS = {"chunksizes", "preferred_chunks", "source"}
ONLY_NETCDF = {"_NCProperties", "_Netcdf4Dimid", "REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Coordinates"}


def example() -> xr.Dataset:
    rng = np.random.default_rng(1)
    return xr.Dataset(
        {
            "t": (
                ("time", "y", "x"),
                rng.random((3, 4, 5), "f4"),
                {"units": "K", "uni": "é", "texts": ["a", "bé"], "n": 1, "numbers": [1.5, 2.5], "empty": ""},
            ),
            "no coordinate": ("q", np.arange(3, dtype="i2")),
            "scalar": ((), 7),
            "name": ("q", np.array(["a", "bé", ""], object)),
            "characters": ("q", np.array([b"ab", b"c", b""])),
            "flag": ("y", np.ones(4, bool)),
            "unsigned": (("time", "q"), rng.integers(0, 9, (3, 3)).astype("u8")),
            "gaps": ("x", np.array([1.0, np.nan, 3, 4, np.nan])),
            "wait": ("time", pd.to_timedelta([1, 2, 3], "h")),
            "big": ("x", np.arange(5, dtype=">i4")),
            "nothing": (("none", "x"), np.zeros((0, 5))),
        },
        coords={
            "time": pd.date_range("2020", periods=3, freq="6h"),
            "x": np.arange(5.0),
            "lat": (("y", "x"), rng.random((4, 5))),
            "label": ("y", list("abcd")),
        },
        attrs={"title": "hi", "empty": "", "number": np.int32(3), "bytes": np.array([1, 2], "u1")},
    )


ENCODINGS: list[dict[str, Any]] = [
    {},
    {"t": {"zlib": True, "complevel": 3, "_FillValue": -1.0}},
    {"t": {"zlib": True, "shuffle": False, "fletcher32": True, "chunksizes": (1, 2, 5)}},
    {"t": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 0.5, "_FillValue": -999}},
    {"t": {"compression": "zstd", "complevel": 3}},
    {"time": {"units": "seconds since 1970-01-01", "dtype": "f8"}, "gaps": {"_FillValue": None}},
    {"name": {"dtype": "S1"}, "t": {"contiguous": True}},
]


def files_in(folder: Path) -> list[str]:
    """The files of a folder: a temporary one has the name of the output in its own."""
    return [item.name for item in folder.iterdir() if ".nc" in item.name]


def structure(path: Path) -> dict[str, Any]:
    """Everything that HDF5 shows of a file, but for the reasoned differences."""
    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        attributes = {}
        for key in item.attrs:
            low = h5py.h5a.open(item.id, key.encode())
            kind = low.get_type()
            text = isinstance(kind, h5py.h5t.TypeStringID)
            value = None if key in ONLY_NETCDF else np.asarray(item.attrs[key]).tolist()
            form = (kind.get_size(), kind.get_cset(), kind.is_variable_str()) if text else kind.get_class()
            if key not in ONLY_NETCDF or (key == "_Netcdf4Dimid" and "CLASS" in item.attrs):
                attributes[key] = (low.shape, form, repr(value))
        if isinstance(item, h5py.Dataset):
            plist = item.id.get_create_plist()
            fill = repr(item.fillvalue)
            form = (item.shape, item.maxshape, item.dtype.str, fill, item.shuffle, item.compression, item.fletcher32)
            scales = [[scale.name for scale in dimension.values()] for dimension in item.dims]
            found[name] = (*form, scales, plist.get_attr_creation_order(), attributes)
        else:
            found[name] = attributes

    with h5py.File(path) as file:
        visit("/", file)
        file.visititems(visit)
    return found


def dumped(path: Path) -> str:
    """What netCDF-C's `ncdump` prints of a file, with all digits; nothing where it is not installed."""
    program = shutil.which("ncdump")
    if program is None:
        return ""
    command = [program, "-n", "name", "-p", "9,17", path]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def compare(ours: Path, theirs: Path, *, ignored: set[str] = CHUNKS, group: str | None = None) -> None:
    """Compares two files through all engines: values, dtypes, attributes and encodings."""
    for engine in ENGINES:
        for decode in (True, False):
            with (
                xr.open_dataset(ours, engine=engine, decode_cf=decode, group=group) as a,
                xr.open_dataset(theirs, engine=engine, decode_cf=decode, group=group) as b,
            ):
                xr.testing.assert_identical(a.load(), b.load())
                assert list(a.variables) == list(b.variables)
                assert a.encoding.get("unlimited_dims") == b.encoding.get("unlimited_dims")
                for name in a.variables:
                    assert a[name].dtype == b[name].dtype
                    mine, his = ({k: repr(v) for k, v in d[name].encoding.items()} for d in (a, b))
                    assert {k: v for k, v in mine.items() if k not in ignored} == {
                        k: v for k, v in his.items() if k not in ignored
                    }, name


@pytest.fixture(params=["encoded before", "encoded in pieces"])
def _pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encodes values before they are written, or, as if they were large, while they are."""
    if request.param == "encoded in pieces":
        monkeypatch.setattr(hyperchunk.xarray_writer, "_ENCODED_BYTES", 8)


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("unlimited", [None, ["time"]])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_file_is_that_of_netcdf4(
    tmp_path: Path, encoding: dict[str, Any], unlimited: list[str] | None, lazy: bool
) -> None:
    ds = example()
    if unlimited and encoding.get("t", {}).get("contiguous"):
        with pytest.raises(ValueError, match="contiguous"):
            ds.hyperchunk.to_netcdf(tmp_path / "ours.nc", encoding=encoding, unlimited_dims=unlimited)
        assert files_in(tmp_path) == []
        return
    ds.to_netcdf(tmp_path / "theirs.nc", engine="netcdf4", encoding=encoding, unlimited_dims=unlimited)
    if lazy:
        for name in ("t", "unsigned"):
            ds[name] = ds[name].chunk(time=2)
    ds.hyperchunk.to_netcdf(tmp_path / "ours.nc", encoding=encoding, unlimited_dims=unlimited)
    compare(tmp_path / "ours.nc", tmp_path / "theirs.nc")
    assert structure(tmp_path / "ours.nc") == structure(tmp_path / "theirs.nc")
    if encoding.get("t", {}).get("compression") != "zstd":  # The plugin is not a part of netCDF-C.
        assert dumped(tmp_path / "ours.nc") == dumped(tmp_path / "theirs.nc")


def test_the_order_of_dimensions_is_that_of_the_dataset(tmp_path: Path) -> None:
    program = (
        "import sys, numpy as np, xarray as xr, hyperchunk.xarray_engine, netCDF4\n"
        "names = ['one', 'two', 'three', 'four', 'five']\n"
        "ds = xr.Dataset({'v': (names, np.zeros((1, 2, 1, 2, 1)))})\n"
        "ds.encoding['unlimited_dims'] = {'four', 'two', 'one', 'five'}\n"
        "ds.hyperchunk.to_netcdf(sys.argv[1])\n"
        "ds.hyperchunk.to_netcdf(sys.argv[2], unlimited_dims=['four', 'two'])\n"
        "print(*(','.join(netCDF4.Dataset(path).dimensions) for path in sys.argv[1:]))\n"
    )
    for seed in "0123":
        paths = [str(tmp_path / f"{name}{seed}.nc") for name in "ab"]
        command = [sys.executable, "-c", program, *paths]
        found = subprocess.run(
            command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONHASHSEED": seed}
        )
        assert found.stdout.split() == ["one,two,four,five,three", "four,two,one,three,five"]


def corpus() -> list[Path]:
    if not CORPUS.exists():
        return []
    return sorted(path for path in CORPUS.rglob("*.nc*") if path.stat().st_size < 20 << 20)[:80]


def in_order(monkeypatch: pytest.MonkeyPatch, ds: xr.Dataset) -> None:
    """Makes xarray write the dimensions that grow in the order of a dataset: it has a set, whose order changes."""
    original: Any = AbstractWritableDataStore.set_dimensions

    def set_dimensions(store: Any, variables: Any, unlimited_dims: Any = None) -> None:
        original(store, variables, sorted(unlimited_dims or (), key=list(ds.sizes).index))

    monkeypatch.setattr(AbstractWritableDataStore, "set_dimensions", set_dimensions)


@pytest.mark.usefixtures("_pieces")
@pytest.mark.skipif(not corpus(), reason="needs the corpus")
@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.name)
def test_a_real_file_is_written_as_by_netcdf4(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings.simplefilter("ignore")
    try:
        ds = xr.open_dataset(path, engine="netcdf4").load()
        in_order(monkeypatch, ds)
        ds.to_netcdf(tmp_path / "theirs.nc", engine="netcdf4")
    except Exception as error:
        pytest.skip(f"netCDF4 does not open or write it: {error}")
    ds.hyperchunk.to_netcdf(tmp_path / "ours.nc")
    compare(tmp_path / "ours.nc", tmp_path / "theirs.nc")
    assert structure(tmp_path / "ours.nc") == structure(tmp_path / "theirs.nc")
    assert dumped(tmp_path / "ours.nc") == dumped(tmp_path / "theirs.nc")


@pytest.mark.parametrize("kind", ["f4", "f8", "i2", "u1", "i8"])
@pytest.mark.parametrize(
    "encoding",
    [
        {"dtype": "i2", "scale_factor": 0.01, "add_offset": 5.0, "_FillValue": -32768},
        {"dtype": "u1", "_FillValue": 255, "scale_factor": np.float32(0.5)},
        {"_FillValue": -1.0, "zlib": True},
        {"missing_value": 7, "_FillValue": 7},
        {"dtype": "f4", "chunksizes": (4, 3)},
        {"dtype": "i8", "scale_factor": 2},
        {"dtype": "i4", "_FillValue": -1},
    ],
)
def test_values_encoded_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, encoding: dict[str, Any]
) -> None:
    monkeypatch.setattr(hyperchunk.xarray_writer, "_ENCODED_BYTES", 16)
    values = np.random.default_rng(1).integers(0, 100, (37, 3)).astype(kind)
    if kind[0] == "f":
        values[::5, 1] = np.nan
    ds = xr.Dataset({"t": (("time", "x"), values, {"units": "m"}), "b": ("time", values[:, 0])})
    ds["b"].encoding = encoding if "chunksizes" not in encoding else {}
    counts: list[tuple[int, int]] = []
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            ds.to_netcdf(tmp_path / "theirs.nc", engine="netcdf4", encoding={"t": encoding})
        except (ValueError, TypeError, OverflowError) as error:
            with pytest.raises(type(error)):
                ds.hyperchunk.to_netcdf(tmp_path / "ours.nc", encoding={"t": encoding})
            assert files_in(tmp_path) in ([], ["theirs.nc"])
            return
        ds.hyperchunk.to_netcdf(
            tmp_path / "ours.nc", encoding={"t": encoding}, progress=lambda *step: counts.append(step)
        )
    compare(tmp_path / "ours.nc", tmp_path / "theirs.nc")
    assert structure(tmp_path / "ours.nc") == structure(tmp_path / "theirs.nc")
    assert counts[-1][0] == counts[-1][1]


def test_groups_and_appending(tmp_path: Path) -> None:
    ds, path, theirs = example(), tmp_path / "a.nc", tmp_path / "b.nc"
    ds.hyperchunk.to_netcdf(path, "a")
    ds.to_netcdf(theirs, engine="netcdf4")
    part = ds[["t", "no coordinate"]] + 1
    for mode, group in (("a", "inner/most"), ("a", None), ("a", "inner")):
        part.hyperchunk.to_netcdf(path, mode, group=group)
        part.to_netcdf(theirs, mode, group=group, engine="netcdf4")
    for group in (None, "inner", "inner/most"):
        compare(path, theirs, group=group)
    with netCDF4.Dataset(path, "a") as file:
        file["t"][0, 0, 0] = 5
        file.createVariable("more", "f4", ("x",))[:] = 1
    with xr.open_dataset(path, engine="hyperchunk") as again:
        assert float(again["t"][0, 0, 0]) == 5


def test_another_extent_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    example().hyperchunk.to_netcdf(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="dimension 'x' of length 4"):
        example().isel(x=slice(4)).hyperchunk.to_netcdf(path, "a")
    assert path.read_bytes() == before


def test_a_tree(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict(
        {
            "/": example()[["x", "scalar"]],
            "/deep": xr.Dataset({"v": (("x", "z"), np.ones((5, 2)))}),
            "/deep/er": xr.Dataset({"w": ("z", [1, 2])}, attrs={"a": 1}),
        }
    )
    encoding = {"/deep": {"v": {"zlib": True}}}
    tree.hyperchunk.to_netcdf(tmp_path / "ours.nc", encoding=encoding)
    tree.to_netcdf(tmp_path / "theirs.nc", engine="netcdf4", encoding=encoding)
    for engine in ENGINES:
        ours, theirs = (xr.open_datatree(tmp_path / name, engine=engine).load() for name in ("ours.nc", "theirs.nc"))
        xr.testing.assert_identical(ours, theirs)
    assert structure(tmp_path / "ours.nc") == structure(tmp_path / "theirs.nc")


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (xr.Dataset({"a": ("x", np.zeros(2, "c16"))}), {}, "'a'.*complex128"),
    (xr.Dataset({"a": ("x", np.zeros(2, "f2"))}), {}, "'a'.*float16"),
    (xr.Dataset({"a": ("x", [1])}, attrs={"b": {}}), {}, "attribute 'b'"),
    (xr.Dataset({"a": ("x", [1], {"b": None})}), {}, "attribute 'b' of a"),
    (xr.Dataset({"a/b": ("x", [1])}), {}, "'a/b'"),
    (xr.Dataset({"a": ("x", [1])}), {"encoding": {"a": {"zib": True}}}, "unexpected encoding 'zib'"),
    (xr.Dataset({"a": ("x", [1])}), {"encoding": {"b": {"zlib": True}}}, "no variable 'b'"),
    (xr.Dataset({"a": ("x", [1])}), {"encoding": {"a": {"zlib": True, "complevel": 11}}}, "complevel"),
    (xr.Dataset({"a": ("x", [1])}), {"encoding": {"a": {"chunksizes": (2,)}}}, "chunksizes"),
    (xr.Dataset({"a": ("x", [1])}), {"encoding": {"a": {"compression": "rar"}}}, "compression='rar'"),
    (xr.Dataset({"a": ("x", [1])}), {"encoding": {"a": {"least_significant_digit": 2}}}, "least_significant_digit"),
    (xr.Dataset({"a": ("x", [1])}), {"unlimited_dims": ["y"]}, "no dimension 'y'"),
    (xr.Dataset({"a": ("x", [1])}), {"mode": "r"}, "mode must be"),
]


@pytest.mark.parametrize(("ds", "options", "words"), BAD)
def test_what_cannot_be_written_is_an_error_before(
    tmp_path: Path, ds: xr.Dataset, options: dict[str, Any], words: str
) -> None:
    with pytest.raises((ValueError, TypeError, hyperchunk.HyperchunkError), match=words):
        ds.hyperchunk.to_netcdf(tmp_path / "a.nc", **options)
    assert files_in(tmp_path) == []


def test_a_failing_computation_leaves_the_old_file(tmp_path: Path) -> None:
    import dask.array

    path = tmp_path / "a.nc"
    xr.Dataset({"a": ("x", np.arange(4))}).hyperchunk.to_netcdf(path)
    before, shown = path.read_bytes(), structure(path)

    def fail(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        if block_info and block_info[0]["chunk-location"] == (3,):
            raise ArithmeticError("computed wrongly")
        return block

    bad = dask.array.ones(4000, chunks=1000).map_blocks(fail, dtype=float)
    for mode in ("w", "a"):
        with pytest.raises(ArithmeticError):
            xr.Dataset({"b": ("y", bad)}).hyperchunk.to_netcdf(path, mode)
        assert structure(path) == shown
        # An edit that is given up may leave unused bytes at the end.
        assert path.read_bytes() == before or mode == "a"
        assert files_in(tmp_path) == ["a.nc"]


@pytest.mark.parametrize("mode", [0o600, 0o640, None])
def test_an_unfinished_file_is_as_private_as_the_old_one(tmp_path: Path, mode: int | None) -> None:
    import dask.array

    path = tmp_path / "a.nc"
    if mode is not None:
        path.write_bytes(b"private")
        path.chmod(mode)
    seen = set()

    def look(block: np.ndarray) -> np.ndarray:
        seen.update(found.stat().st_mode & 0o777 for found in tmp_path.iterdir() if found.is_file())
        return block

    values = dask.array.ones(4000, chunks=1000).map_blocks(look, dtype=float)
    seen.clear()
    xr.Dataset({"a": ("x", values)}).hyperchunk.to_netcdf(path)
    usual = tmp_path / "usual"
    usual.touch()
    if mode is None:
        assert path.stat().st_mode == usual.stat().st_mode
    else:
        assert path.stat().st_mode & 0o777 == mode
        assert seen == {0o600, mode}
    assert files_in(tmp_path) == ["a.nc"]


@pytest.mark.parametrize("scheduler", ["threads", "synchronous", "processes"])
def test_dasks_blocks(tmp_path: Path, scheduler: str) -> None:
    import dask
    import dask.array

    array = dask.array.random.default_rng(1).random((40, 50, 60), chunks=(7, 50, 13)).astype("f4").persist()
    ds = xr.Dataset({"a": (("t", "y", "x"), array), "b": (("t", "y", "x"), array * 2)})
    encoding = {"a": {"zlib": True, "complevel": 1, "chunksizes": (10, 20, 30)}}
    with dask.config.set(scheduler=scheduler):
        work = ds.hyperchunk.to_netcdf(tmp_path / "a.nc", encoding=encoding, compute=False)
        assert files_in(tmp_path) == []
        work.compute(scheduler="synchronous" if scheduler == "processes" else scheduler)
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as found:
        xr.testing.assert_identical(found.load(), ds.compute())


def test_a_file_may_replace_its_source(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    example().hyperchunk.to_netcdf(path)
    with xr.open_dataset(path, engine="hyperchunk") as ds:
        (ds[["t", "gaps"]] + 1).hyperchunk.to_netcdf(path)
    with xr.open_dataset(path, engine="netcdf4") as again:
        assert np.allclose(again["t"], example()["t"] + 1)
