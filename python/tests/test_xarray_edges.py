"""Files that xarray cannot represent completely, and dimensions as in netCDF-C."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hyperchunk import netcdf_encoding
from hyperchunk.exceptions import LeftOutWarning
from hyperchunk.xarray_engine import HyperchunkBackendEntrypoint as Engine


def _growing(path: Path, case: str) -> None:
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 2)
        if case in ("never written", "shorter", "below", "deep", "shadowed", "matrix"):
            time = file.createVariable("time", "f8", ("time",))
            if case != "never written":
                time[:] = [5.0, 6.0]
        if case in ("never written", "shorter"):
            file.createVariable("a", "i4", ("time",))[:] = [1, 2, 3]
        elif case == "two lengths":
            file.createVariable("a", "i4", ("time",))[:] = [1, 2, 3]
            file.createVariable("b", "i4", ("time",))[:] = [1, 2, 3, 4, 5]
        elif case == "twice":
            file.createVariable("a", "i4", ("time", "time"))[0:2, 0:3] = [[1, 2, 3], [4, 5, 6]]
        elif case == "matrix":
            file.createVariable("a", "f4", ("time", "x"))[:] = np.ones((4, 2))
            file.createVariable("b", "f4", ("time", "x"))[:] = np.ones((3, 2))
        elif case in ("below", "deep"):
            group = file.createGroup("g") if case == "below" else file.createGroup("g/h/i")
            group.createVariable("a", "i4", ("time", "x"))[:] = [[1, 2], [3, 4], [5, 6]]
        elif case == "shadowed":
            group = file.createGroup("g")
            group.createDimension("time", None)
            group.createVariable("a", "i4", ("time",))[:] = [1, 2, 3, 4]
        elif case == "fixed":
            file.createVariable("a", "i4", ("x",))[:] = [1, 2]
        elif case == "text":
            file.createVariable("a", str, ("time",))[:] = np.array(["a", "b", "c"], object)
            file.createVariable("b", "i2", ("time",))[:] = [1, 2]


CASES = ["never written", "shorter", "two lengths", "matrix", "below", "deep", "shadowed", "fixed", "text"]


@pytest.mark.parametrize("case", CASES)
def test_an_unlimited_dimension_is_as_long_as_its_longest_variable(tmp_path: Path, case: str) -> None:
    path = tmp_path / "u.nc"
    _growing(path, case)
    options: dict[str, Any] = {"decode_times": False}
    opened = xr.open_dataset
    with (
        opened(path, engine="netcdf4", **options) as theirs,
        opened(path, engine=Engine, **options) as ours,
    ):
        xr.testing.assert_identical(ours.load(), theirs.load())
    if case == "shadowed":
        return  # not representable as a tree in xarray: one dimension name with two lengths
    with xr.open_datatree(path, engine=Engine, **options) as tree, netCDF4.Dataset(path) as file:
        for group in tree.subtree:
            if group.path != "/":
                for variable in group.variables:
                    found = file[group.path].variables.get(variable)
                    assert found is None or found.shape == group[variable].shape


def test_a_dimension_twice_in_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "u.nc"
    _growing(path, "twice")
    with pytest.warns(UserWarning, match="Duplicate dimension names"):
        found = xr.open_dataset(path, engine=Engine)
    assert dict(found.sizes) == {"time": 3}
    assert found.a.values[:2].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_data_that_are_longer_than_their_scale(tmp_path: Path) -> None:
    path = tmp_path / "u.nc"
    with h5py.File(path, "w") as file:
        scale = file.create_dataset("time", (2,), "f8", maxshape=(None,), data=[5, 6])
        scale.make_scale("time")
        data = file.create_dataset("a", (3,), "i4", maxshape=(None,), data=[1, 2, 3])
        data.dims[0].attach_scale(scale)
    found = xr.open_dataset(path, engine=Engine)
    assert found.time.values.tolist() == [5, 6, 0]
    assert found.a.values.tolist() == [1, 2, 3]


@pytest.mark.parametrize("form", ["array", "one", "null", "vlen", "two"])
def test_dimension_lists_of_references(tmp_path: Path, form: str) -> None:
    path = tmp_path / "d.h5"
    with h5py.File(path, "w") as file:
        scale = file.create_dataset("x", data=np.arange(4.0))
        scale.make_scale("x")
        if form == "two":
            other = file.create_dataset("y", data=np.arange(3.0))
            other.make_scale("y")
            data = file.create_dataset("d", data=np.zeros((4, 3)))
            value: Any = np.array([scale.ref, other.ref], h5py.ref_dtype)
        else:
            data = file.create_dataset("d", data=np.arange(4))
            value = np.array([scale.ref], h5py.ref_dtype)
        if form == "one":
            data.attrs.create("DIMENSION_LIST", scale.ref, dtype=h5py.ref_dtype)
        elif form == "null":
            data.attrs.create("DIMENSION_LIST", np.array([h5py.Reference()], h5py.ref_dtype))
        elif form == "vlen":
            data.dims[0].attach_scale(scale)
        else:
            data.attrs.create("DIMENSION_LIST", value)
    names = {"null": ("phony_dim_0",), "two": ("x", "y")}.get(form, ("x",))
    assert xr.open_dataset(path, engine=Engine).d.dims == names
    dims = hyperchunk.open(path)["d"].dims
    assert [list(dims[axis].keys()) for axis in range(len(names))] == [
        [] if n.startswith("phony") else [n] for n in names
    ]


def _unsayable(path: Path, what: str) -> None:
    with h5py.File(path, "w") as file:
        group = file.create_group("g")
        group["y"] = file["y"] = np.arange(3)
        space = h5py.h5s.create_simple((3,))
        if what == "vlen":
            file.create_dataset("odd", (3,), h5py.vlen_dtype("i4"))[:] = [np.arange(n) for n in (2, 1, 0)]
        elif what == "vlen of one":
            file.create_dataset("odd", (3,), h5py.vlen_dtype("f8"))[:] = [np.arange(1.0)] * 3
        elif what == "time":
            h5py.h5d.create(file.id, b"odd", h5py.h5t.UNIX_D32LE, space)
        elif what == "time below":
            h5py.h5d.create(group.id, b"odd", h5py.h5t.UNIX_D64BE, space)
        elif what == "cycle":
            group["odd"] = file["/"]
        elif what == "own cycle":
            group["odd"] = group
        elif what == "long cycle":
            file["g/a/b/odd"] = file["g"]
        elif what == "user link":
            file["zzz"] = h5py.ExternalLink("nowhere.h5", "/x")
        elif what == "opaque fill":
            file["odd"] = np.arange(3.0)
            file["odd"].attrs["_FillValue"] = np.void(b"12345678")
        elif what == "opaque":
            file["odd"] = np.zeros(3, "V8")
            file["odd"].attrs["_FillValue"] = np.void(b"12345678")
        elif what == "time attribute":
            h5py.h5a.create(file["y"].id, b"odd", h5py.h5t.UNIX_D32LE, h5py.h5s.create(h5py.h5s.SCALAR))
    if what == "user link":
        # Turns the external link into a user-defined one of class 70.
        data = path.read_bytes()
        assert data.count(b"\x40\x03zzz") == 1
        path.write_bytes(data.replace(b"\x40\x03zzz", b"\x46\x03zzz"))


@pytest.mark.parametrize(
    "what",
    [
        "vlen",
        "vlen of one",
        "time",
        "time below",
        "cycle",
        "own cycle",
        "long cycle",
        "opaque fill",
        "opaque",
        "time attribute",
    ],
)
def test_what_cannot_be_said_is_left_out_by_name(tmp_path: Path, what: str) -> None:
    path = tmp_path / "odd.h5"
    _unsayable(path, what)
    with pytest.warns(LeftOutWarning, match="odd"):
        tree = xr.open_datatree(path, engine=Engine)
    assert tree["y"].values.tolist() == [0, 1, 2]
    assert tree["g/y"].values.tolist() == [0, 1, 2]
    assert ("odd" in tree) == (what in ("opaque fill", "opaque"))


def test_links_of_an_applications_own_class_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "odd.h5"
    _unsayable(path, "user link")
    with pytest.warns(LeftOutWarning, match="/zzz is left out"):
        found = xr.open_dataset(path, engine=Engine)
    assert set(found.variables) == {"y"}
    with pytest.warns(LeftOutWarning, match="/zzz is left out"):
        assert "y" in xr.open_datatree(path, engine=Engine)["g"]


NOWHERE = {
    "soft": h5py.SoftLink("/nowhere"),
    "through a dataset": h5py.SoftLink("/y/below"),
    "circle": h5py.SoftLink("/odd"),
    "no file": h5py.ExternalLink("nowhere.h5", "/x"),
    "no object": h5py.ExternalLink("other.h5", "/nowhere"),
}


@pytest.mark.parametrize("place", ["", "g/"])
@pytest.mark.parametrize("what", NOWHERE)
def test_links_that_lead_nowhere_are_left_out_by_name(tmp_path: Path, what: str, place: str) -> None:
    path = tmp_path / "odd.h5"
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    with h5py.File(path, "w") as file:
        file["y"] = file["g/y"] = np.arange(3)
        file[f"{place}odd"] = NOWHERE[what]
        file[f"{place}twin"] = h5py.SoftLink("/y")
    with pytest.warns(LeftOutWarning, match=f"^/{place}odd is left out: ") as warned:
        tree = xr.open_datatree(path, engine=Engine)
    assert len(warned) == 1
    assert tree["y"].values.tolist() == tree[f"{place}twin"].values.tolist() == [0, 1, 2]
    assert f"{place}odd" not in tree


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "s", "ms", "ns", "ps"])
@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_times_of_numpy(tmp_path: Path, kind: str, unit: str) -> None:
    """They are those that xarray makes of the array, and written again as it writes them."""
    path, again = tmp_path / "a.h5", tmp_path / "b.nc"
    missing = np.iinfo("i8").min
    values = np.array([[0, 5, missing], [-3, 1, 2]]).view(f"{kind}[{unit}]")
    with h5py.File(path, "w") as file:
        file["t"] = values.astype(h5py.opaque_dtype(values.dtype))
    control = xr.Dataset({"t": (("phony_dim_0", "phony_dim_1"), values)})
    with xr.open_dataset(path, engine=Engine) as found:
        assert found.t.dtype == control.t.dtype
        assert found.t[:, 1:].dtype == control.t.dtype
        xr.testing.assert_identical(found, control)
        found.hyperchunk.to_netcdf(again)
    control.to_netcdf(tmp_path / "theirs.nc", engine="netcdf4")
    with xr.open_dataset(again, engine=Engine) as ours, xr.open_dataset(tmp_path / "theirs.nc") as theirs:
        xr.testing.assert_identical(ours, theirs)


# By number: bzip2, Blosc, LZ4, bitshuffle, Zstandard.
COMPRESSIONS = ["gzip", "szip", "lzf", None, 307, 32001, 32004, 32008, 32015]


@pytest.mark.parametrize("name", COMPRESSIONS)
@pytest.mark.parametrize("writer", ["netcdf4", "h5netcdf", "hyperchunk"])
@pytest.mark.filterwarnings("ignore:the compression:hyperchunk.exceptions.LeftOutWarning")
def test_written_again_after_reading(tmp_path: Path, name: Any, writer: str) -> None:
    """The compression stays, as far as the writer has a name for it."""
    path, again = tmp_path / "a.nc", tmp_path / "b.nc"
    values = np.repeat(np.arange(300, dtype="f4"), 100)
    with hyperchunk.open(path, "w") as file:
        file.create_dataset("y", data=values, chunks=(10000,), fletcher32=True, compression=name)
        filters = file["y"].filter_ids
    with xr.open_dataset(path, engine=Engine) as found:
        if writer == "hyperchunk":
            found.hyperchunk.to_netcdf(again)
        else:
            found.to_netcdf(again, engine=writer)
    with xr.open_dataset(again, engine=Engine) as found:
        assert (found.y.values == values).all()
    written = hyperchunk.open(again)["y"].filter_ids
    if writer == "hyperchunk":
        assert written == filters
    elif name in ("gzip", "szip", 307, 32001, 32015):
        # h5py may lack a filter; gzip then replaces it.
        assert set(written) == set(filters) or (writer == "h5netcdf" and 1 in written)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd", "complevel": 5},
        {"compression": "bzip2", "complevel": 7},
        {"compression": "szip", "szip_coding": "ec", "szip_pixels_per_block": 16},
        {"compression": "blosc_lz4", "complevel": 3, "blosc_shuffle": 2},
        {"compression": "blosc_zstd", "complevel": 6, "blosc_shuffle": 1},
    ],
)
@pytest.mark.parametrize("engine", ["netcdf4", Engine])
def test_compressions_that_netcdf4_names_stay(tmp_path: Path, options: dict[str, Any], engine: Any) -> None:
    path, again = tmp_path / "a.nc", tmp_path / "b.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 1000)
        file.createVariable("y", "f8", ("x",), shuffle=False, **options)[:] = np.arange(1000) // 10
        expected = file["y"].filters()
    with xr.open_dataset(path, engine=engine) as found:
        moved = pickle.loads(pickle.dumps(found.load()))
    moved.hyperchunk.to_netcdf(again)
    with netCDF4.Dataset(again) as file:
        assert file["y"].filters() == expected
    if engine is Engine:
        moved.to_netcdf(again, engine="netcdf4")
        with netCDF4.Dataset(again) as file:
            assert file["y"].filters() == expected


def test_a_compression_that_h5py_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, again = tmp_path / "a.nc", tmp_path / "b.nc"
    with hyperchunk.open(path, "w") as file:
        file.create_dataset("y", data=np.zeros(100000), chunks=(1000,), compression=32015)
    found = xr.open_dataset(path, engine=Engine)
    monkeypatch.setattr(netcdf_encoding, "_can_write", lambda number, options: False)
    with pytest.warns(LeftOutWarning, match="'zstd' is left out"):
        found.to_netcdf(again, engine="h5netcdf")
    with h5py.File(again) as made:
        assert made["y"].compression == "gzip"


def test_a_filter_that_is_only_read(tmp_path: Path) -> None:
    found = xr.Dataset({"y": ("x", np.zeros(10))})
    found.y.encoding["hdf5_filters"] = ((32013, 1, 2),)
    with pytest.warns(LeftOutWarning, match="32013"):
        found.hyperchunk.to_netcdf(tmp_path / "a.nc")
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match="32013"):
        found.hyperchunk.to_netcdf(tmp_path / "b.nc", encoding={"y": {"hdf5_filters": ((32013, 1, 2),)}})


@pytest.mark.parametrize("growing", [False, True])
def test_a_variable_whose_scale_has_another_length(tmp_path: Path, growing: bool) -> None:
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(3.0), maxshape=(None,) if growing else None)
        file["x"].make_scale("x")
        for name, length in {"v": 3, "w": 5, "short": 2}.items():
            file[name] = np.arange(length)
            file[name].dims[0].attach_scale(file["x"])
            file[f"g/{name}"] = np.arange(length)
            file[f"g/{name}"].dims[0].attach_scale(file["x"])
    if growing:
        assert xr.open_dataset(path, engine=Engine).w.dims == ("x",)
        return
    with pytest.warns(LeftOutWarning) as notes:
        found = xr.open_dataset(path, engine=Engine)
    assert [str(note.message)[:62] for note in notes] == [
        "the dimension 'x' of /short is left out: its scale has 3 eleme",
        "the dimension 'x' of /w is left out: its scale has 3 elements,",
    ]
    assert found.v.dims == ("x",)
    assert {name: found[name].values.tolist() for name in ("v", "w", "short")} == {
        "v": [0, 1, 2],
        "w": [0, 1, 2, 3, 4],
        "short": [0, 1],
    }
    with pytest.warns(LeftOutWarning) as notes:
        tree = xr.open_datatree(path, engine=Engine)
    assert len(notes) == 4
    assert tree["g/w"].values.tolist() == [0, 1, 2, 3, 4]
    assert tree["g/v"].dims == ("x",)


def test_two_scales_of_an_axis(tmp_path: Path) -> None:
    """The last one counts, as for netCDF4 and h5netcdf."""
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        file["v"] = np.arange(3)
        for name in ("a", "b"):
            file[name] = np.arange(3.0)
            file[name].make_scale(name)
            file["v"].dims[0].attach_scale(file[name])
    assert {xr.open_dataset(path, engine=engine).v.dims for engine in ("netcdf4", "h5netcdf", Engine)} == {("b",)}
