"""Collections of files, against what xarray reads from the files one by one with netCDF4."""

from __future__ import annotations

import io
import pickle
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from hyperchunk.collection import _shared
from hyperchunk.exceptions import ChangedError, CorruptError, HyperchunkError, InvalidError, NotFoundError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import netCDF4
    import xarray as xr


def granule(path: Path, start: int, steps: int, units: str = "hours since 2020-01-01", **changes: Any) -> Path:
    """A netCDF-4 file of one product: 3 variables, packed and compressed, and 3 coordinates."""
    numbers = np.random.default_rng(start)
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", None), ("y", 5), ("x", changes.get("width", 4))):
            file.createDimension(name, size)
        time = file.createVariable("time", "f8", ("time",))
        time.units, time.calendar = units, "standard"
        time[:] = np.arange(start, start + steps)
        for name, size in (("y", 5), ("x", changes.get("width", 4))):
            file.createVariable(name, "f4", (name,))[:] = np.linspace(0, changes.get("reach", 1), size)
        t = file.createVariable("t", "i2", ("time", "y", "x"), zlib=True, chunksizes=(2, 5, 4), fill_value=-999)
        t.scale_factor, t.add_offset, t.units = changes.get("scale", 0.01), 270.0, "K"
        t[:] = 270 + numbers.integers(-3000, 3000, (steps, 5, changes.get("width", 4))) / 100
        rain = file.createVariable("rain", changes.get("dtype", "f4"), ("y", "time", "x"))
        rain[:] = numbers.random((5, steps, changes.get("width", 4)))
        file.createVariable("mask", "i1", ("y", "x"))[:] = 1
        text = file.createVariable("station", str, ("time",))
        text[:] = np.array([f"s{start}-{number}" for number in range(steps)], object)
        file.title = "a product"
        if changes.get("more"):
            file.createVariable("extra", "f4", ("time",))[:] = 0
    return path


@pytest.fixture
def granules(tmp_path: Path) -> list[Path]:
    (tmp_path / "day").mkdir()
    lengths = [3, 1, 4, 2, 5]
    starts = np.cumsum([0, *lengths])
    return [
        granule(tmp_path / "day" / f"g{number}.nc", int(starts[number]), steps) for number, steps in enumerate(lengths)
    ]


def expected_of(paths: list[Path]) -> xr.Dataset:
    opened = [xr.open_dataset(path, engine="netcdf4") for path in paths]
    joined = xr.concat(opened, "time", data_vars="minimal", coords="minimal", compat="override", join="override")
    return joined.load()


def check_equal(found: xr.Dataset, expected: xr.Dataset) -> None:
    xr.testing.assert_identical(found.load(), expected)
    for name, variable in expected.variables.items():
        assert found[name].dtype == variable.dtype, name


def test_a_collection_is_what_xarray_joins(granules: list[Path]) -> None:
    with xr.open_dataset(hyperchunk.open_collection(granules), engine="hyperchunk") as found:
        check_equal(found, expected_of(granules))


@pytest.mark.parametrize("how", ["pattern", "folder", "saved", "appended", "pickled", "command"])
def test_ways_to_a_collection(
    granules: list[Path], tmp_path: Path, how: str, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    folder = granules[0].parent
    saved = tmp_path / "all.hcx"
    if how == "pattern":
        opened: Any = hyperchunk.open_collection(str(folder / "g?.nc"))
    elif how == "folder":
        opened = hyperchunk.open_collection(folder)
    elif how == "saved":
        hyperchunk.open_collection(folder).save(saved)
        opened = saved
    elif how == "appended":
        opened = hyperchunk.open_collection(granules[:2])
        assert opened.append(granules) == 3
        assert opened.append(granules) == 0
    elif how == "pickled":
        opened = pickle.loads(pickle.dumps(hyperchunk.open_collection(folder)))
    else:
        done = command("collect", *granules[:3], "-o", saved)
        assert done.returncode == 0, done.stderr
        done = command("collect", *granules, "-o", saved, "--append")
        assert done.returncode == 0, done.stderr
        assert "5 files, joined along time" in done.stdout
        opened = saved
    with xr.open_dataset(opened, engine="hyperchunk") as found:
        check_equal(found, expected_of(granules))


@pytest.mark.parametrize(
    "key",
    [
        np.s_[:],
        np.s_[4],
        np.s_[2:9:3],
        np.s_[-1],
        np.s_[[0, 3, 14]],
        np.s_[np.array([14, 2, 2, 7])],
        np.s_[5:5],
        np.s_[:, 2],
        np.s_[3:12, 1:4, [0, 2]],
        np.s_[..., 1],
        np.s_[np.arange(15) % 4 == 1],
    ],
)
def test_indices(granules: list[Path], key: Any) -> None:
    dataset = hyperchunk.open_collection(granules)["t"]
    parts = []
    for path in granules:
        with h5py.File(path) as file:
            parts.append(file["t"][:])
    np.testing.assert_array_equal(dataset[key], np.concatenate(parts)[key])


@pytest.mark.parametrize("key", [np.s_[:], np.s_[1, 4:9], np.s_[:, 7], np.s_[:, [9, 1]], np.s_[0, :, ::2]])
def test_indices_of_an_inner_axis(granules: list[Path], key: Any) -> None:
    dataset = hyperchunk.open_collection(granules)["rain"]
    assert dataset.axis == 1
    parts = []
    for path in granules:
        with h5py.File(path) as file:
            parts.append(file["rain"][:])
    np.testing.assert_array_equal(dataset[key], np.concatenate(parts, 1)[key])


def test_dask_reads_in_chunks(granules: list[Path]) -> None:
    with xr.open_dataset(hyperchunk.open_collection(granules), engine="hyperchunk", chunks={"time": 4}) as found:
        assert found["t"].chunks is not None
        check_equal(found.compute(), expected_of(granules))


def test_times_of_differing_units(tmp_path: Path) -> None:
    paths = [
        granule(tmp_path / "a.nc", 0, 3),
        granule(tmp_path / "b.nc", 0, 2, units="days since 2020-02-01"),
        granule(tmp_path / "c.nc", 0, 2, units="seconds since 2020-03-01"),
    ]
    collection = hyperchunk.open_collection(paths)
    with xr.open_dataset(collection, engine="hyperchunk") as found:
        np.testing.assert_array_equal(found["time"].values, expected_of(paths)["time"].values)
    with pytest.raises(InvalidError, match="cannot join /time: its units are 'hours since 2020-01-01'"):
        xr.open_dataset(collection, engine="hyperchunk", decode_times=False)


def test_values_of_differing_units_are_not_joined_in_silence(tmp_path: Path) -> None:
    days = "days since 2020-02-01"
    units = ["hours since 2020-01-01", "hours since 2020-01-01", days, days]
    paths = [granule(tmp_path / f"{number}.nc", 0, 2, units=unit) for number, unit in enumerate(units)]
    time = hyperchunk.open_collection(paths)["time"]
    stored = time.stored()
    assert stored.tolist() == np.concatenate([h5py.File(path)["time"][:] for path in paths]).tolist()
    for one in (slice(0, 4), slice(4, None), 5, [7, 4], np.arange(8) > 5, slice(0, 0)):
        np.testing.assert_array_equal(time[one], stored[one])
    for both in (slice(None), slice(None, None, -3), [0, 7], np.ones(8, bool)):
        with pytest.raises(InvalidError, match=r"/time: its units differ .*'days since .* in .*[23]\.nc"):
            time[both]
    collection = hyperchunk.open_collection(paths)
    assert len(collection.query("time", "value >= 0", box=[(4, 8)]).read()[1]) == 4
    with pytest.raises(InvalidError, match="its units differ"):
        collection.query("time", "value >= 0")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"width": 6}, r"its extent is \[.*6\], the first file's \[.*4\]"),
        ({"scale": 0.02}, r"its attribute scale_factor is 0.02, the first file's 0.01"),
        ({"dtype": "f8"}, "its datatype differs from the first file"),
        ({"more": True}, "this file has this dataset, the first file does not"),
        ({"reach": 2}, "its values differ from the first file"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    good = [granule(tmp_path / "a.nc", 0, 3), granule(tmp_path / "c.nc", 5, 2)]
    odd = granule(tmp_path / "b.nc", 3, 2, **changes)
    paths = [good[0], odd, good[1]]
    with pytest.raises(InvalidError, match=reason) as raised:
        hyperchunk.open_collection(paths)
    assert "b.nc" in str(raised.value)
    collection = hyperchunk.open_collection(paths, on_mismatch="skip")
    assert list(collection.skipped) == [str(odd)]
    with xr.open_dataset(collection, engine="hyperchunk") as found:
        check_equal(found, expected_of(good))


def test_damaged_and_missing_files(granules: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.nc"
    broken.write_bytes(granules[1].read_bytes()[:900])
    missing = tmp_path / "missing.nc"
    paths = [granules[0], broken, missing, granules[2]]
    with pytest.raises(HyperchunkError, match=r"broken\.nc|missing\.nc"):
        hyperchunk.open_collection(paths)
    collection = hyperchunk.open_collection(paths, on_mismatch="skip")
    assert collection.files == (str(granules[0]), str(granules[2]))
    assert set(collection.skipped) == {str(broken), str(missing)}
    with pytest.raises(NotFoundError, match="no file matches"):
        hyperchunk.open_collection(str(tmp_path / "none*.nc"))
    with pytest.raises(ValueError, match="on_mismatch must be 'error' or 'skip', not 'ignore'"):
        collection.append([broken], on_mismatch="ignore")  # type: ignore[arg-type]


def test_a_file_that_changed(granules: list[Path]) -> None:
    collection = hyperchunk.open_collection(granules)
    with h5py.File(granules[3], "r+") as file:
        file["t"][0] = 5
    with pytest.raises(ChangedError, match=r"g3\.nc"):
        collection["t"][:]
    # The others can be read.
    assert collection["t"][:3].shape == (3, 5, 4)


def test_damage_to_a_collection_is_an_error(granules: list[Path], tmp_path: Path) -> None:
    saved = tmp_path / "all.hcx"
    hyperchunk.open_collection(granules).save(saved)
    whole = saved.read_bytes()
    expected = hyperchunk.open_collection(saved)["t"][:]
    numbers = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[numbers.integers(len(whole))] ^= 1 << int(numbers.integers(8))
        saved.write_bytes(damaged)
        try:
            found = hyperchunk.open_collection(saved)["t"][:]
        except (HyperchunkError, OSError):
            continue
        np.testing.assert_array_equal(found, expected)
    saved.write_bytes(whole[:-1])
    with pytest.raises(HyperchunkError):
        hyperchunk.open_collection(saved)
    saved.write_bytes(b"no collection at all")
    with pytest.raises((CorruptError, InvalidError)):
        hyperchunk.open_collection(saved)


def test_outputs_are_not_replaced(granules: list[Path], tmp_path: Path) -> None:
    collection = hyperchunk.open_collection(granules)
    saved = tmp_path / "all.hcx"
    collection.save(saved)
    with pytest.raises(FileExistsError):
        collection.save(saved)
    collection.save(saved, overwrite=True)
    with pytest.raises(ValueError, match=r"ends with \.hcx"):
        collection.save(granules[0])


def test_plain_hdf5_along_the_first_axis(tmp_path: Path) -> None:
    paths = []
    for number, rows in enumerate((4, 0, 7)):
        paths.append(tmp_path / f"p{number}.h5")
        with h5py.File(paths[-1], "w") as file:
            file["heights/h"] = np.arange(rows) + 100.0 * number
            file["heights/xyz"] = np.full((rows, 3), number)
            file["track"] = np.arange(rows // 2)
            file["version"] = 3
    with pytest.raises(InvalidError, match="concat=0"):
        hyperchunk.open_collection(paths)
    collection = hyperchunk.open_collection(paths, concat=0)
    assert collection["heights/h"][:].tolist() == [0, 1, 2, 3, 100 + 100, *range(201, 207)]
    assert collection["heights/xyz"].shape == (11, 3)
    assert collection["track"].shape == (5,)
    assert collection["version"][()] == 3
    assert list(collection) == ["/heights/h", "/heights/xyz", "/track", "/version"]


Fill = Callable[[netCDF4.Dataset], None]


def product(folder: Path, *fills: Fill, name: str = "p{}.nc") -> list[Path]:
    """A file with an unlimited dimension `time` for each function, which adds to it."""
    paths = []
    for number, fill in enumerate(fills):
        paths.append(folder / name.format(number))
        with netCDF4.Dataset(paths[-1], "w") as file:
            file.createDimension("time", None)
            fill(file)
    return paths


def variable(file: netCDF4.Dataset, name: str, values: Any, dims: tuple[str, ...] = ("time",), **attrs: Any) -> None:
    made = file.createVariable(name, np.asarray(values).dtype, dims)
    made.setncatts(attrs)
    made[:] = values


@pytest.mark.parametrize("lengths", [((3, 2), (2, 3)), ((3, 2), (3, 3)), ((2, 0), (1, 1)), ((0, 2), (3, 0))])
def test_variables_shorter_than_their_dimension(tmp_path: Path, lengths: Any) -> None:
    def fill(rows: tuple[int, int], number: int) -> Fill:
        def make(file: netCDF4.Dataset) -> None:
            for name, length in zip("vw", rows, strict=True):
                variable(file, name, np.arange(length, dtype="i4") + 10 * number)
            file.createVariable("text", str, ("time",))[: rows[0]] = np.array(["t"] * rows[0], object)

        return make

    paths = product(tmp_path, *(fill(rows, number) for number, rows in enumerate(lengths)))
    with xr.open_dataset(hyperchunk.open_collection(paths), engine="hyperchunk") as found:
        expected = expected_of(paths)
        np.testing.assert_array_equal(found["v"], expected["v"])
        np.testing.assert_array_equal(found["w"], expected["w"])
        assert list(found["text"].values) == list(expected["text"].values)
        np.testing.assert_array_equal(found["w"][::-2], expected["w"][::-2])


def test_bounds_have_the_units_of_their_times(tmp_path: Path) -> None:
    def fill(day: int) -> Fill:
        def make(file: netCDF4.Dataset) -> None:
            file.createDimension("nv", 2)
            variable(file, "time", [0.0, 1.0], units=f"days since 2000-01-0{day}", bounds="time_bnds")
            variable(file, "time_bnds", [[0.0, 1.0], [1.0, 2.0]], ("time", "nv"))

        return make

    paths = product(tmp_path, fill(1), fill(5))
    with xr.open_dataset(hyperchunk.open_collection(paths), engine="hyperchunk") as found:
        expected = expected_of(paths)
        np.testing.assert_array_equal(found["time_bnds"].values, expected["time_bnds"].values)
        np.testing.assert_array_equal(found["time"].values, expected["time"].values)


def test_bounds_that_are_not_decoded_have_differing_units(tmp_path: Path) -> None:
    def fill(day: int) -> Fill:
        def make(file: netCDF4.Dataset) -> None:
            file.createDimension("nv", 2)
            # Before the times, whose error would come first.
            variable(file, "bounds", [[0.0, 1.0], [1.0, 2.0]], ("time", "nv"))
            variable(file, "time", [0.0, 1.0], units=f"days since 2000-01-0{day}", bounds="bounds")

        return make

    collection = hyperchunk.open_collection(product(tmp_path, fill(1), fill(5)))
    with pytest.raises(InvalidError, match=r"cannot join /bounds: .* differ in 1 of 2 files"):
        xr.open_dataset(collection, engine="hyperchunk", decode_times=False)


@pytest.mark.filterwarnings("ignore:Unable to decode time axis", "ignore:Usage of 'use_cftime'")
@pytest.mark.parametrize("options", [{}, {"use_cftime": True}, {"mask_and_scale": False}])
def test_dates_that_need_cftime(tmp_path: Path, options: dict[str, Any]) -> None:
    def fill(units: str) -> Fill:
        return lambda file: variable(file, "time", [0.0, 1.0, 2.0], units=units)

    paths = product(tmp_path, fill("days since 2000-02-27"), fill("days since 0001-01-01"))
    with xr.open_dataset(hyperchunk.open_collection(paths), engine="hyperchunk", **options) as found:
        dates = [str(value) for value in found["time"].values]
    assert dates[0] == "2000-02-27 00:00:00"
    assert dates[3] == "0001-01-01 00:00:00"


@pytest.mark.parametrize("name", ["flag_meanings", "valid_range", "valid_min", "coordinates", "positive"])
def test_attributes_that_change_the_meaning_are_compared(tmp_path: Path, name: str) -> None:
    def fill(value: Any) -> Fill:
        return lambda file: variable(file, "v", np.arange(2), **{name: value})

    values = ([0, 5], [0, 9]) if name == "valid_range" else (1, 2) if name == "valid_min" else ("a b", "b a")
    with pytest.raises(InvalidError, match=f"its attribute {name} is"):
        hyperchunk.open_collection(product(tmp_path, *(fill(value) for value in values)))


def test_a_dataset_with_the_dimension_twice(tmp_path: Path) -> None:
    def fill(file: netCDF4.Dataset) -> None:
        variable(file, "v", np.zeros((3, 3)), ("time", "time"))

    with pytest.raises(InvalidError, match="two axes"):
        hyperchunk.open_collection(product(tmp_path, fill, fill))


@pytest.mark.parametrize("key", [[0.5, 1.7], ["1", "2"], True, np.array([2**64 - 1], "u8"), None, [99], 99])
def test_indices_that_are_refused(granules: list[Path], key: Any) -> None:
    with pytest.raises((IndexError, InvalidError)):
        hyperchunk.open_collection(granules)["t"][key]


def test_other_spellings_of_a_file(granules: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(granules[0].parent)
    collection = hyperchunk.open_collection(["g0.nc"])
    assert collection.append(["./g0.nc", granules[0], "../day/g0.nc"]) == 0
    assert collection.append(["g1.nc", "g1.nc"]) == 1
    assert collection.files == tuple(str(path) for path in granules[:2])


def test_a_pickled_collection_is_the_same_or_an_error(granules: list[Path], tmp_path: Path) -> None:
    saved = tmp_path / "all.hcx"
    collection = hyperchunk.open_collection(granules[:1])
    collection.save(saved)
    first = pickle.dumps(collection)
    assert pickle.loads(first)["t"].shape == (3, 5, 4)
    collection.append(granules)
    assert pickle.loads(pickle.dumps(collection))["t"].shape == (15, 5, 4)
    collection.save(saved, overwrite=True)
    assert pickle.loads(pickle.dumps(collection))["t"].shape == (15, 5, 4)
    _shared.clear()  # as in a process that has not opened it
    with pytest.raises(ChangedError, match=r"all\.hcx"):
        pickle.loads(first)


def test_folders_are_moved_with_their_files(
    granules: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    collection = hyperchunk.open_collection("day/g?.nc")
    collection.save("day/all.hcx")
    expected = collection["t"][:]
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(collection["t"][:], expected)
    np.testing.assert_array_equal(hyperchunk.open_collection(tmp_path / "day/all.hcx")["t"][:], expected)
    # A renamed folder keeps the times of its files.
    (tmp_path / "day").rename(tmp_path / "days")
    moved = hyperchunk.open_collection(tmp_path / "days/all.hcx")
    assert moved.files[0] == str(tmp_path / "days/g0.nc")
    np.testing.assert_array_equal(moved["t"][:], expected)


def test_progress(granules: list[Path]) -> None:
    calls: list[tuple[int, int]] = []
    hyperchunk.open_collection(granules, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(number, 5) for number in range(1, 6)]
    tqdm = pytest.importorskip("tqdm")
    with tqdm.tqdm(disable=False, file=io.StringIO()) as bar:
        hyperchunk.open_collection(granules[:2], progress=bar).append(granules)
    assert (bar.n, bar.total) == (2, 2)

    def fail(_done: int, _total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        hyperchunk.open_collection(granules, progress=fail)


def test_virtual_datasets_for_h5py(granules: list[Path], tmp_path: Path) -> None:
    made = tmp_path / "all.h5"
    hyperchunk.open_collection(granules).to_virtual(made)
    expected = expected_of(granules)
    with h5py.File(made) as file:
        assert file["t"].is_virtual
        assert file["t"].dims[0][0].name == "/time"
        parts = []
        for path in granules:
            with h5py.File(path) as granule_file:
                parts.append(granule_file["t"][:])
        np.testing.assert_array_equal(file["t"][:], np.concatenate(parts))
        assert [name.decode() for name in file["station"][:]] == list(expected["station"].values)
        assert {Path(source.file_name).parts[0] for source in file["t"].virtual_sources()} == {"day"}
    with xr.open_dataset(made, engine="netcdf4") as found:
        xr.testing.assert_identical(found.load(), expected)
    with pytest.raises(FileExistsError):
        hyperchunk.open_collection(granules).to_virtual(made)


def test_a_variable_that_is_no_dataset_names_the_file(granules: list[Path]) -> None:
    dataset = hyperchunk.open_collection(granules)["rain"]
    # As a damaged collection could have it.
    dataset.name = "/"
    with pytest.raises(InvalidError, match=r"expected a dataset in .*g0\.nc, got a group"):
        dataset[:]


def test_virtual_datasets_replace_no_file_of_the_collection(granules: list[Path]) -> None:
    collection = hyperchunk.open_collection(granules)
    with pytest.raises(InvalidError, match="it is an input"):
        collection.to_virtual(granules[1], overwrite=True)
    assert collection["t"][:].shape == (15, 5, 4)


def test_virtual_datasets_of_odd_names_and_unnamed_axes(tmp_path: Path) -> None:
    def fill(number: int) -> Fill:
        def make(file: netCDF4.Dataset) -> None:
            file.createDimension("x", 2)
            variable(file, "time", [float(number)])
            variable(file, "v", [[number, number]], ("time", "x"))

        return make

    paths = [product(tmp_path, fill(number), name=name)[0] for number, name in enumerate(["a.nc", "b%%b.nc", "c%b.nc"])]
    made = tmp_path / "all.h5"
    hyperchunk.open_collection(paths).to_virtual(made)
    with h5py.File(made) as file:
        assert file["v"][:, 0].tolist() == [0, 1, 2]
    for engine in ("netcdf4", "h5netcdf", "hyperchunk"):
        with xr.open_dataset(made, engine=engine) as found:
            assert found["v"].dims == ("time", "x")
            assert found["v"].values.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_closed_collections_hold_no_file(tmp_path: Path) -> None:
    for number in range(3):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = [number]
    with hyperchunk.open_collection(str(tmp_path / "*.h5"), concat=0) as days:
        kept = days["/x"]
        assert kept[:].tolist() == [0, 1, 2]
    for number in range(3):
        with h5py.File(tmp_path / f"{number}.h5", "r+") as file:
            file["x"][0] = 9
    for read in (lambda: kept[:], lambda: days["/x"].shape, lambda: days.file(0)):
        with pytest.raises(hyperchunk.exceptions.ClosedError, match="the collection is closed"):
            read()


def test_files_whose_elements_are_all_elsewhere_are_not_collected(tmp_path: Path) -> None:
    made = []
    for number in range(2):
        path = tmp_path / f"virtual{number}.h5"
        with h5py.File(tmp_path / f"source{number}.h5", "w") as file:
            file["x"] = np.arange(3)
        with h5py.File(path, "w") as file:
            layout = h5py.VirtualLayout((3,), "i8")
            layout[:] = h5py.VirtualSource(f"source{number}.h5", "x", (3,))
            file.create_virtual_dataset("x", layout)
        run = store.create(tmp_path / f"store{number}.h5", {"/x": store.Dataset((3,), "i8")})
        with run.writer() as writer:
            writer["x"][...] = number
        run.commit()
        made.append(path)
    with pytest.raises(InvalidError, match=r"pack --embed.*virtual0"):
        hyperchunk.open_collection(made, concat=0)
    stores = [tmp_path / f"store{number}.h5" for number in range(2)]
    with pytest.raises(InvalidError, match=r"store pack.*store0"):
        hyperchunk.open_collection(stores, concat=0)
    # Files that have their elements can be joined with them left out.
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["x"] = np.arange(3)
    joined = hyperchunk.open_collection([tmp_path / "plain.h5", *made], concat=0, on_mismatch="skip")
    assert list(joined.skipped) == [str(path) for path in made]
    assert joined["x"][:].tolist() == [0, 1, 2]
