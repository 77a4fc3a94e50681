"""Tables over data reached through links and user blocks, external files, stores and Python objects."""

from __future__ import annotations

import gc
import io
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hyperchunk import store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BIG = 30_000


@pytest.fixture(scope="module")
def compressed() -> bytes:
    """A file with columns that need decoding."""
    memory = io.BytesIO()
    random = np.random.default_rng(5)
    with h5py.File(memory, "w") as file:
        for name in "ab":
            data = random.integers(0, 50, 600_000, dtype="i4")
            file.create_dataset(name, data=data, chunks=(20_000,), compression="lzf")
        file["text"] = np.array(["ä", "", "longer than that"] * 200_000, dtype=object)[:600_000]
    return memory.getvalue()


@pytest.mark.parametrize("make", [io.BytesIO, None])
def test_objects_of_python(make: type[io.BytesIO] | None, compressed: bytes) -> None:
    """The iterator of batches calls Python, while its consumer may hold the GIL."""
    file = hyperchunk.File.from_bytes(compressed) if make is None else hyperchunk.open(make(compressed))
    table = file.table(columns=["a", "b"])
    assert not table.is_zero_copy
    with h5py.File(io.BytesIO(compressed)) as theirs:
        expected = {name: theirs[name][()] for name in "ab"}
    for name, values in table.to_numpy().items():
        np.testing.assert_array_equal(values, expected[name])
    for number in range(6):
        reader = table.to_reader()
        for _ in range(number % 3):
            reader.read_next_batch()
        del reader
        batches = table.batches()
        next(batches)
        del batches
        gc.collect()
    np.testing.assert_array_equal(pl.DataFrame(table)["b"].to_numpy(), expected["b"])
    lazy = hyperchunk.scan_hyperchunk(table).filter(pl.col("a") > 48).select(pl.col("b").sum())
    assert lazy.collect().item() == expected["b"][expected["a"] > 48].sum()


def test_strings(compressed: bytes) -> None:
    text = hyperchunk.open(io.BytesIO(compressed))["text"].arrow()[200_000:200_005].to_pyarrow()["text"]
    assert text.to_pylist() == ["longer than that", "ä", "", "longer than that", "ä"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_chunks_of_any_extent(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Mapped or read, with chunks of any shape, after a user block: the values equal h5py's."""
    path = tmp_path_factory.mktemp("chunks") / "c.h5"
    rows = data.draw(st.integers(1, 3 * BIG))
    chunk = data.draw(st.integers(1, rows))
    cell = data.draw(st.sampled_from([(), (3,)]))
    maxshape = data.draw(st.sampled_from([None, (None, *cell)]))
    userblock = data.draw(st.sampled_from([0, 512]))
    libver = data.draw(st.sampled_from(["earliest", "latest"]))
    early = data.draw(st.booleans())
    with h5py.File(path, "w", userblock_size=userblock, libver=libver) as file:
        options = {"chunks": (max(chunk, rows // 500), *cell), "maxshape": maxshape}
        for number, name in enumerate("xy"):
            dataset = file.create_dataset(name, (rows, *cell), "<f8", fillvalue=-number, **options)
            if early:
                dataset[...] = np.random.default_rng(number).random((rows, *cell))
            for _ in range(data.draw(st.integers(0, 3))):
                start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, rows)])))
                dataset[start:stop] = np.random.default_rng(start).random((stop - start, *cell))
        if maxshape is not None:
            # Chunks beyond the end stay stored.
            for name in "xy":
                file[name].resize(data.draw(st.integers(1, 1)) * rows, axis=0)
        expected = {name: file[name][()] for name in "xy"}
    table = hyperchunk.open(path).table()
    start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, rows)])))
    found = table[start:stop].to_numpy()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values[start:stop])
        np.testing.assert_array_equal(np.asarray(hyperchunk.open(path)[name]), values)
    unmapped = hyperchunk.open(path).table(mapped=False, rows=(start, stop)).to_numpy()
    assert all(np.array_equal(unmapped[name], found[name]) for name in found)


def test_a_dataset_that_became_shorter(tmp_path: Path) -> None:
    path = tmp_path / "short.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=np.arange(BIG * 4), chunks=(BIG,), maxshape=(None,))
        dataset.resize(BIG + 5, axis=0)
    np.testing.assert_array_equal(hyperchunk.open(path)["x"].arrow().to_numpy()["x"], np.arange(BIG + 5))


def test_links_and_other_files(tmp_path: Path) -> None:
    words = np.array(["one", "zwei", "три"], dtype=object)
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["far"], other["words"] = np.arange(3.0), words
    with h5py.File(tmp_path / "links.h5", "w") as file:
        file["near"] = np.arange(3)
        file["linked"] = h5py.ExternalLink("other.h5", "/far")
        file["soft"] = h5py.SoftLink("/near")
        file["words"] = h5py.ExternalLink("other.h5", "/words")
        file["again"] = file["near"]
    table = hyperchunk.open(tmp_path / "links.h5").table()
    assert table.column_names == ["again", "linked", "near", "soft", "words"]
    assert table.to_pyarrow().to_pydict() == {
        "again": [0, 1, 2],
        "linked": [0.0, 1.0, 2.0],
        "near": [0, 1, 2],
        "soft": [0, 1, 2],
        "words": words.tolist(),
    }


def test_strings_of_virtual_datasets(tmp_path: Path) -> None:
    """Handles into the heap of a source file are invalid in the virtual dataset's own file: correct values, or an
    error.
    """
    words = np.array(["one", "zwei", "три"] * 5, dtype=object)
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file["more"] = np.array(["other"] * 7, dtype=object)
        file["words"] = words
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file["own"] = np.array(["mine"] * 15, dtype=object)
        layout = h5py.VirtualLayout((15,), h5py.string_dtype())
        layout[:] = h5py.VirtualSource(str(tmp_path / "source.h5"), "words", (15,))
        file.create_virtual_dataset("v", layout)
    file = hyperchunk.open(tmp_path / "virtual.h5")
    try:
        found = file["v"].arrow().to_pyarrow()["v"].to_pylist()
    except (pa.ArrowException, OSError):
        return
    assert found == words.tolist()


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_stores(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Segments of logs that are whole rows are mapped, whatever overlaps."""
    path = tmp_path_factory.mktemp("store") / "run.h5"
    rows, cell = 40_000, data.draw(st.sampled_from([(), (2, 3)]))
    run = store.create(path, {"/x": store.Dataset((rows, *cell), "<f8", fillvalue=-1)})
    expected = np.full((rows, *cell), -1.0)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    for _ in range(data.draw(st.integers(1, 3))):
        with run.writer() as writer:
            for _ in range(data.draw(st.integers(0, 3))):
                start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, rows)])))
                values = random.random((stop - start, *cell))
                if cell and data.draw(st.booleans()):
                    writer["/x"][start:stop, :1] = values[:, :1]
                    expected[start:stop, :1] = values[:, :1]
                else:
                    writer["/x"][start:stop] = values
                    expected[start:stop] = values
        run.commit()
    with hyperchunk.open(path) as file:
        np.testing.assert_array_equal(file["x"][...], expected)
        table = file["x"].arrow()
        np.testing.assert_array_equal(table.to_numpy()["x"], expected)
        start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, rows)])))
        np.testing.assert_array_equal(table[start:stop].to_numpy()["x"], expected[start:stop])


def test_a_store_in_place(tmp_path: Path) -> None:
    run = store.create(tmp_path / "run.h5", {"/x": store.Dataset((2 * BIG,), "<f8")})
    values = np.random.default_rng(1).random(2 * BIG)
    for half in range(2):
        with run.writer() as writer:
            writer["/x"][half * BIG : (half + 1) * BIG] = values[half * BIG : (half + 1) * BIG]
    run.commit()
    with hyperchunk.open(tmp_path / "run.h5") as file:
        table = file["x"].arrow()
        assert table.is_zero_copy
        column = table.to_pyarrow()["x"]
        assert column.num_chunks == 2
        np.testing.assert_array_equal(column.to_numpy(), values)
