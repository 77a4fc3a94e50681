"""Random collections: values of random selections across files, against h5py's, joined with NumPy."""

from __future__ import annotations

import resource
import tempfile
import threading
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import collection_reads
from hyperchunk.exceptions import ChangedError, HyperchunkError, InvalidError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LAYOUTS = ("contiguous", "compact", "chunked", "compressed", "sparse", "never written")
DTYPES = ("<i2", ">f8", "u1", "S3", [("a", "<i4"), ("b", ">f4")], "vlen string", ("<f4", (2,)))


def write(path: Path, rows: int, inner: tuple[int, ...], axis: int, layout: str, dtype: Any, seed: int) -> np.ndarray:
    """Writes a file with the dataset ``x``; returns what h5py reads from it."""
    numbers = np.random.default_rng(seed)
    shape = (*inner[:axis], rows, *inner[axis:])
    text = dtype == "vlen string"
    stored = h5py.string_dtype() if text else np.dtype(dtype)
    plain = not text and stored.names is None and stored.subdtype is None
    fill = {"fillvalue": b"no" if stored.kind == "S" else 7} if plain and numbers.random() < 0.5 else {}
    values: Any
    if text:
        values = np.array([f"{seed}-{number}" for number in range(int(np.prod(shape)))], object).reshape(shape)
    elif stored.names is not None:
        values = np.zeros(shape, stored)
        values["a"], values["b"] = numbers.integers(-9, 9, shape), numbers.random(shape)
    elif stored.subdtype is not None:
        values = numbers.random((*shape, 2)).astype("f4")
    else:
        values = numbers.integers(0, 100, shape).astype(stored)
    with h5py.File(path, "w") as file:
        if layout in ("contiguous", "compact") or 0 in shape:
            made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if layout == "compact" and not text:
                made.set_layout(h5py.h5d.COMPACT)
            if fill:
                made.set_fill_value(np.array(fill["fillvalue"], stored))
            kind = h5py.h5t.py_create(stored, logical=True)
            space = h5py.h5s.create_simple(shape)
            dataset = h5py.Dataset(h5py.h5d.create(file.id, b"x", kind, space, made))
            dataset[...] = values
        else:
            chunks = tuple(int(numbers.integers(1, length + 2)) for length in shape)
            chunks = tuple(min(chunk, length) for chunk, length in zip(chunks, shape, strict=True))
            more: dict[str, Any] = {"compression": "gzip", "shuffle": True} if layout == "compressed" else {}
            dataset = file.create_dataset("x", shape, stored, chunks=chunks, **more, **fill)
            if layout == "sparse":
                part = tuple(slice(0, (length + 1) // 2) for length in shape)
                dataset[part] = values[part]
            elif layout != "never written":
                dataset[...] = values
        read: np.ndarray = file["x"][...]
    return read


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index of each axis, as in outer indexing."""
    items: list[Any] = []
    for length in shape:
        kinds = ["all", "slice", "list", "mask"] + (["integer"] if length else [])
        kind = draw(st.sampled_from(kinds))
        place = st.integers(-length, length - 1)
        if kind == "all":
            items.append(slice(None))
        elif kind == "slice":
            bound = st.none() | st.integers(-length - 1, length + 1)
            items.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3]))))
        elif kind == "integer":
            items.append(draw(place))
        elif kind == "list":
            items.append(np.array(draw(st.lists(place, max_size=6)) if length else [], np.int64))
        else:
            items.append(np.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)), bool))
    return tuple(items)


def outer(values: np.ndarray, key: tuple[Any, ...]) -> np.ndarray:
    """Indexes each axis by itself; integers last."""
    for axis, item in enumerate(key):
        if not isinstance(item, int):
            values = values[(slice(None),) * axis + (item,)]
    return values[(*tuple(item if isinstance(item, int) else slice(None) for item in key), ...)]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_selections_of_random_files(tmp_path: Path, data: st.DataObject) -> None:
    inner = tuple(data.draw(st.lists(st.integers(1, 4), max_size=2), label="inner"))
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6), label="lengths")
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    paths, parts = [], []
    for number, rows in enumerate(lengths):
        layout = data.draw(st.sampled_from(LAYOUTS), label="layout")
        paths.append(folder / f"f{number}.h5")
        seed = data.draw(st.integers(0, 1000), label="seed")
        parts.append(write(paths[-1], rows, inner, 0, layout, dtype, seed))
    expected = np.concatenate(parts)
    collection = hyperchunk.open_collection(paths, concat=0)
    dataset = collection["x"]
    # An array datatype's own axes are not the dataset's.
    shape = (sum(lengths), *inner)
    assert dataset.shape == shape
    np.testing.assert_array_equal(dataset[...], expected)
    for _ in range(4):
        key = data.draw(keys(shape), label="key")
        found = dataset[key]
        want = outer(expected, key)
        if np.ndim(found):
            assert found.dtype == parts[0].dtype
        assert np.shape(found) == np.shape(want)
        np.testing.assert_array_equal(found, want)


@pytest.fixture
def many(tmp_path: Path) -> list[Path]:
    """Two hundred files, each of a row more than the one before."""
    paths = [tmp_path / f"f{number:03}.h5" for number in range(200)]
    for number, path in enumerate(paths):
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=number * 1000 + np.arange(number % 3), chunks=(1,) if number % 3 else None)
    return paths


def test_more_files_than_may_be_open(many: list[Path], tmp_path: Path) -> None:
    saved = tmp_path / "all.hcx"
    hyperchunk.open_collection(many, concat=0).save(saved)
    expected = np.concatenate([number * 1000 + np.arange(number % 3) for number in range(200)])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 64
    # A file takes two numbers for a moment: itself and its folder.
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 2 * collection_reads.LOCAL_FILES + 16, before[1]))
    try:
        dataset = hyperchunk.open_collection(saved)["x"]
        np.testing.assert_array_equal(dataset[:], expected)
        np.testing.assert_array_equal(dataset[::7], expected[::7])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_threads_read_together(many: list[Path]) -> None:
    dataset = hyperchunk.open_collection(many, concat=0)["x"]
    expected = dataset[:]
    failed = []

    def read(start: int) -> None:
        try:
            for _ in range(5):
                np.testing.assert_array_equal(dataset[start::4], expected[start::4])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


@pytest.mark.parametrize("was_open", [False, True])
def test_a_changed_file_among_many_is_named(many: list[Path], was_open: bool) -> None:
    dataset = hyperchunk.open_collection(many, concat=0)["x"]
    if was_open:
        dataset[-30:]
    other = many[-1].with_suffix(".new")
    with h5py.File(other, "w") as file:
        file["x"] = [-1]
    other.replace(many[-1])
    with pytest.raises(ChangedError, match=r"f199\.h5"):
        dataset[-30:]
    np.testing.assert_array_equal(dataset[:3], [1000, 2000, 2001])


def test_missing_files_are_named(many: list[Path]) -> None:
    dataset = hyperchunk.open_collection(many, concat=0)["x"]
    many[100].unlink()
    with pytest.raises((HyperchunkError, OSError), match=r"f100\.h5"):
        dataset[:]


def test_a_forged_datatype_or_extent_is_an_error(tmp_path: Path) -> None:
    """A collection whose files are not of one layout, as no collector makes it."""
    for name, other in (("type", np.arange(3, dtype="f4")), ("extent", np.zeros((3, 5), "i8"))):
        folder = tmp_path / name
        folder.mkdir()
        own = np.zeros((3, 4), "i8") if name == "extent" else np.arange(3)
        for number, values in enumerate((own, own, other)):
            with h5py.File(folder / f"f{number}.h5", "w") as file:
                file["x"] = values
        whole = hyperchunk.open_collection([folder / "f0.h5", folder / "f1.h5"], concat=0)
        alone = hyperchunk.open_collection([folder / "f2.h5"], concat=0)
        dataset = whole["x"]
        files = dataset.open_files
        kept = files._open
        kept[1] = alone["x"].open_files.file(0)
        with pytest.raises(InvalidError, match=r"f\d\.h5"):
            dataset[:]
