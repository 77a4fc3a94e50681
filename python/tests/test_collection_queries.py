"""Queries of collections, against NumPy's answers on what h5py reads from the files one by one."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import netCDF4
import numpy as np
import pytest
from hyperchunk.exceptions import ChangedError, UnsupportedError

LENGTHS = (3, 0, 40, 1, 6)


def make(folder: Path, name: str, rows: list[Any], **options: Any) -> list[Path]:
    """A file for each array."""
    paths = []
    for number, values in enumerate(rows):
        paths.append(folder / f"q{number}.h5")
        with h5py.File(paths[-1], "w") as file:
            file.create_dataset(name, data=values, **options)
    return paths


def joined(paths: list[Path], name: str, axis: int = 0) -> Any:
    found = []
    for path in paths:
        with h5py.File(path) as file:
            found.append(file[name][()])
    return np.concatenate(found, axis)


def check(query: Any, values: Any, mask: Any, offset: tuple[int, ...] | None = None) -> None:
    """Checks indices and values of an answer, in any order within a file."""
    indices, found = query.read()
    expected = np.argwhere(mask) + (0 if offset is None else np.asarray(offset))
    assert indices.dtype == np.uint64
    order = np.lexsort(indices.T[::-1]) if len(indices) else slice(None)
    np.testing.assert_array_equal(indices[order], expected)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found[order], values[mask])


TYPES = ["i1", "u1", ">i2", "<u2", "<i4", ">u4", "<i8", ">i8", "<u8", ">u8", "<f4", ">f4", "<f8", ">f8"]


def random_values(numbers: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """Values of a type, its extremes among them."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        values = (numbers.normal(size=shape) * 4).round(1).astype(kind)
        odd = numbers.random(shape)
        values[odd < 0.05] = np.nan
        values[(odd > 0.05) & (odd < 0.08)] = np.inf
        values[(odd > 0.08) & (odd < 0.11)] = -np.inf
        return values
    limits = np.iinfo(kind)
    values = numbers.integers(-5 if limits.min else 0, 6, shape).astype(kind)
    odd = numbers.random(shape)
    values[odd < 0.05] = limits.max
    values[(odd > 0.05) & (odd < 0.1)] = limits.min
    values[(odd > 0.1) & (odd < 0.15)] = limits.max - 1
    return values


PREDICATES = {
    "value > 3": lambda v: v > 3,
    "value <= -2": lambda v: v <= -2,
    "0 <= value < 2": lambda v: (v >= 0) & (v < 2),
    "value == 9223372036854775806": lambda v: v == 9223372036854775806,
    "value > 9223372036854775806": lambda v: v > 9223372036854775806,
    "value != 1 and not value < 4": lambda v: (v != 1) & ~(v < 4),
    "isnan(value)": lambda v: v != v,
    "isinf(value) or value == 2": lambda v: (np.abs(v.astype("f8")) == np.inf) | (v == 2),
}


def truth(predicate: str, values: Any) -> Any:
    """NumPy's answer, which compares integers with Python's exactly."""
    with np.errstate(invalid="ignore"):
        return PREDICATES[predicate](values.astype(values.dtype.newbyteorder("=")))


@pytest.mark.parametrize("dtype", TYPES)
def test_answers_are_those_of_numpy(tmp_path: Path, dtype: str) -> None:
    numbers = np.random.default_rng(TYPES.index(dtype))
    paths = make(tmp_path, "g/h", [random_values(numbers, dtype, (rows, 4)) for rows in LENGTHS])
    collection = hyperchunk.open_collection(paths, concat=0)
    values = joined(paths, "g/h")
    for predicate in PREDICATES:
        check(collection.query("g/h", predicate), values, truth(predicate, values))


@pytest.mark.parametrize(
    "box", [np.s_[2:44], np.s_[5:5], np.s_[-3:, 1:3], [(10, 44), slice(2, 3)], 3, [slice(2, 9), 1]]
)
def test_boxes(tmp_path: Path, box: Any) -> None:
    numbers = np.random.default_rng(1)
    paths = make(tmp_path, "h", [numbers.normal(size=(rows, 4)) for rows in LENGTHS])
    query = hyperchunk.open_collection(paths, concat=0).query("h", "value > 0", box)
    values = joined(paths, "h")
    given = tuple(
        slice(*one) if isinstance(one, tuple) else one for one in (box if isinstance(box, list | tuple) else [box])
    )
    given = tuple(slice(one, one + 1) if isinstance(one, int) else one for one in given)
    inside = np.zeros(values.shape, bool)
    inside[given] = True
    check(query, values, (values > 0) & inside)
    assert query.total == int(inside.sum()) * 8
    assert query.bytes_scanned == query.total


def test_an_inner_axis_and_names_of_files(tmp_path: Path) -> None:
    paths, values = [], []
    for number, steps in enumerate((3, 1, 4)):
        paths.append(tmp_path / f"t{number}.nc")
        with netCDF4.Dataset(paths[-1], "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 5)
            values.append(np.random.default_rng(number).random((5, steps)).astype("f4"))
            file.createVariable("time", "f8", ("time",))[:] = np.arange(steps)
            file.createVariable("v", "f4", ("x", "time"))[:] = values[-1]
            file.createVariable("mask", "i4", ("x",))[:] = np.arange(5)
    collection = hyperchunk.open_collection(paths)
    query = collection.query("v", "value > 0.8")
    check(query, np.concatenate(values, 1), np.concatenate(values, 1) > 0.8)
    for found in query:
        own = values[found.number]
        assert found.file == str(paths[found.number])
        np.testing.assert_array_equal(own[tuple(found.indices.T.astype(int))], found.values)
        assert len(found.values) == int((own > 0.8).sum())
    # The first file's dataset stands for all.
    check(collection.query("mask", "value >= 3"), np.arange(5, dtype="i4"), np.arange(5) >= 3)
    # Coordinates.
    check(collection.query("time", "value == 2"), *(lambda v: (v, v == 2))(joined(paths, "time")))


@pytest.mark.parametrize("predicate", ["value < 0", "value > 0", "value != 5"])
def test_rows_that_a_file_lacks_are_fill_values(tmp_path: Path, predicate: str) -> None:
    paths = [tmp_path / f"f{number}.nc" for number in range(3)]
    for path, rows in zip(paths, (4, 1, 0), strict=True):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 2)
            file.createVariable("v", "i4", ("time",))[:] = np.arange(4)
            file.createVariable("w", "i2", ("time", "x"), fill_value=-9)[:rows] = np.arange(2 * rows).reshape(rows, 2)
    collection = hyperchunk.open_collection(paths)
    values = collection["w"][:]
    assert values.shape == (12, 2)
    assert (values == -9).sum() == 14
    check(collection.query("w", predicate), values, eval(predicate, {"value": values}))
    mask = eval(predicate, {"value": values}) & (np.arange(12) >= 3)[:, None] & (np.arange(12) < 10)[:, None]
    mask[:, 0] = False
    check(collection.query("w", predicate, [slice(3, 10), 1]), values, mask)


def test_statistics_beside_files_are_used(tmp_path: Path) -> None:
    paths = make(tmp_path, "h", [np.arange(1000.0) + 1000 * number for number in range(3)], chunks=(100,))
    for path in paths[:2]:
        hyperchunk.analyze(path)
    query = hyperchunk.open_collection(paths, concat=0).query("h", "1990 <= value < 2005")
    values = np.arange(3000.0)
    check(query, values, (values >= 1990) & (values < 2005))
    # One chunk of the second file, and all of the third one.
    assert 8800 <= query.bytes_scanned < 8800 + 6000
    # Statistics of another version of a file are not used.
    del query
    gc.collect()  # closes the files
    with h5py.File(paths[0], "r+") as file:
        file["h"][0] = 1995
    query = hyperchunk.open_collection(paths, concat=0).query("h", "1990 <= value < 2005")
    assert query.read()[1][0] == 1995


def test_queries_that_cannot_be(tmp_path: Path) -> None:
    paths = make(tmp_path, "h", [np.arange(3.0), np.arange(4.0)])
    for path in paths:
        with h5py.File(path, "r+") as file:
            file["text"] = np.array([b"a", b"b"])
    collection = hyperchunk.open_collection(paths, concat=0)
    with pytest.raises(ValueError, match="value"):
        collection.query("h", "value >")
    with pytest.raises(UnsupportedError, match="text"):
        collection.query("text", "value > 1")
    with pytest.raises(KeyError):
        collection.query("nothing", "value > 1")
    query = collection.query("h", "value > 1")
    with h5py.File(paths[1], "r+") as file:
        file["h"][0] = 7
    with pytest.raises(ChangedError, match=r"q1\.h5"):
        query.read()


def test_progress_and_repr(tmp_path: Path) -> None:
    paths = make(tmp_path, "h", [np.arange(3.0), np.arange(4.0)])
    query = hyperchunk.open_collection(paths, concat=0).query("h", "value > 1")
    calls: list[tuple[int, int]] = []
    query.read(progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]
    assert repr(query) == "<2 of 2 files may hold 'value > 1'>"
    assert query.files == [str(path) for path in paths]
    assert len(query) == 2
