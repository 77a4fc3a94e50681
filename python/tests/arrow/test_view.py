"""Tables over HDF5 data equal h5py's values for every layout; values in Arrow's representation are used in place."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROWS = 5000
COMPOUND = np.dtype([("a", "<i2"), ("b", ">f8"), ("c", "<u4", (2, 3)), ("d", "S5")])
# Minimum size in bytes of a contiguous piece that is mapped.
LARGE = 1 << 14


def mapped(array: pa.Array, memory: list[tuple[int, int]]) -> bool:
    """True if all values of an array are in mapped files."""
    buffers = [buffer for buffer in array.buffers() if buffer is not None and buffer.size]
    return bool(buffers) and all(
        any(start <= buffer.address and buffer.address + buffer.size <= end for start, end in memory)
        for buffer in buffers
    )


def chunks_of(table: hyperchunk.Table, name: str) -> list[bool]:
    """Returns for each chunk of a column whether it is in a mapped file."""
    column = table.to_pyarrow()[name]
    memory = table._core.mapped_memory()
    return [mapped(chunk, memory) for chunk in column.chunks]


def check(table: hyperchunk.Table, expected: dict[str, np.ndarray]) -> None:
    """Checks the values of a table."""
    arrow = table.to_pyarrow()
    arrow.validate(full=True)
    assert arrow.column_names == table.column_names == list(expected)
    assert arrow.num_rows == table.num_rows
    found = table.to_numpy()
    for name, values in expected.items():
        assert found[name].shape == values.shape, name
        np.testing.assert_array_equal(found[name], values, name)


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group with a dataset of each layout, of equal length."""
    folder = tmp_path_factory.mktemp("layouts")
    path = folder / "layouts.h5"
    random = np.random.default_rng(7)
    values = {
        "i4": random.integers(-(2**31), 2**31, ROWS, dtype="i4"),
        "f8": random.random(ROWS),
        "u1": random.integers(0, 256, ROWS, dtype="u1"),
        "i2": random.integers(-100, 100, (ROWS, 3, 4), dtype="i2"),
        "be": random.integers(0, 2**60, ROWS).astype(">i8"),
    }
    with h5py.File(folder / "source.h5", "w") as file:
        file["s"] = values["f8"]
    with h5py.File(path, "w") as file:
        group = file.create_group("g", track_order=True)
        group["contiguous"] = values["i4"]
        group["contiguous_f8"] = values["f8"]
        group["big_endian"] = values["be"]
        group["cells"] = values["i2"]
        group.create_dataset("chunked", data=values["f8"], chunks=(64,))
        group.create_dataset("chunked_cells", data=values["i2"], chunks=(64, 2, 4))
        group.create_dataset("high_chunks", data=values["i2"], chunks=(1000, 3, 4))
        group.create_dataset("gzip", data=values["i4"], chunks=(300,), compression="gzip", shuffle=True)
        group.create_dataset("gzip_cells", data=values["i2"], chunks=(700, 3, 1), compression="gzip")
        group.create_dataset("lzf", data=values["u1"], chunks=(4096,), compression="lzf", fletcher32=True)
        group.create_dataset("unlimited", data=values["f8"], chunks=(999,), maxshape=(None,))
        external = [(str(folder / "a.raw"), 0, 8 * 3000), (str(folder / "b.raw"), 16, 8 * ROWS)]
        group.create_dataset("external", data=values["f8"], external=external)
        layout = h5py.VirtualLayout((ROWS,), "f8")
        layout[:] = h5py.VirtualSource(str(folder / "source.h5"), "s", (ROWS,))
        group.create_virtual_dataset("virtual", layout)
        holes = group.create_dataset("holes", (ROWS,), "i4", chunks=(500,), fillvalue=-7)
        holes[1200:1300] = values["i4"][1200:1300]
        group.create_dataset("unwritten", (ROWS,), "f4", fillvalue=2.5)
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((ROWS,))
        made = h5py.h5d.create(group.id, b"compact", h5py.h5t.STD_U8LE, space, compact)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values["u1"])
        group["scalar"] = 4.0
        group["null"] = h5py.Empty("f4")
        group.create_group("subgroup")
        records = np.zeros(ROWS, COMPOUND)
        for name in COMPOUND.names or ():
            records[name] = random.integers(0, 99, records[name].shape).astype(COMPOUND[name].base)
        file["records"] = records
        file.create_dataset("packed", data=records, chunks=(600,), compression="gzip")
    return path


@pytest.fixture
def ours(layouts: Path) -> Iterator[hyperchunk.File]:
    with hyperchunk.open(layouts) as file:
        yield file


@pytest.fixture(scope="module")
def expected(layouts: Path) -> dict[str, np.ndarray]:
    with h5py.File(layouts) as file:
        return {name: item[()] for name, item in file["g"].items() if isinstance(item, h5py.Dataset) and item.shape}


def test_each_layout(ours: hyperchunk.File, expected: dict[str, np.ndarray]) -> None:
    table = ours.table("g")
    check(table, expected)
    check(ours["g"].table(mapped=False), expected)
    assert ours["g"].table(mapped=False)._core.mapped_memory() == []
    copied = table.copied_rows
    # Big-endian, filtered, fragmented, virtual or unwritten values must be read.
    for name in ("contiguous", "contiguous_f8", "cells"):
        offset = h5py.File(ours.filename)[f"g/{name}"].id.get_offset()
        if offset % expected[name].dtype.itemsize == 0:
            assert copied[name] == 0, name
            assert chunks_of(table.select([name]), name) == [True]
    for name in ("big_endian", "gzip", "gzip_cells", "lzf", "virtual", "compact", "unwritten", "chunked_cells"):
        assert copied[name] == ROWS, name
    for name, values in expected.items():
        check(ours[f"g/{name}"].arrow(), {name: values})


def test_chunks_that_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "chunks.h5"
    values = np.arange(20 * LARGE, dtype="f8")
    with h5py.File(path, "w", libver="latest") as file:
        dataset = file.create_dataset("x", (20 * LARGE,), "f8", chunks=(LARGE,), fillvalue=-1)
        for number in (3, 2, 9, 10, 11, 19):
            dataset[number * LARGE : (number + 1) * LARGE] = values[number * LARGE : (number + 1) * LARGE]
        # Chunks written in sequence are contiguous in the file.
        together = file.create_dataset("y", (5 * LARGE,), "f8", chunks=(LARGE,))
        together[...] = values[: 5 * LARGE]
        expected = dataset[()]
    file = hyperchunk.open(path)
    table = file["x"].arrow()
    check(table, {"x": expected})
    arrow = table.to_pyarrow()["x"]
    memory = table._core.mapped_memory()
    assert table.copied_rows == {"x": 14 * LARGE}
    assert sum(len(chunk) for chunk in arrow.chunks if mapped(chunk, memory)) == 6 * LARGE
    table = file["y"].arrow()
    assert table.is_zero_copy
    check(table[5:], {"y": values[5 : 5 * LARGE]})


def test_types_of_rows(ours: hyperchunk.File) -> None:
    cells = ours["g/cells"]
    assert cells.arrow().schema.field("cells").type == pa.fixed_shape_tensor(pa.int16(), (3, 4))
    nested = pa.list_(pa.field("item", pa.list_(pa.field("item", pa.int16(), False), 4), False), 3)
    assert cells.arrow(cells="list").schema.field("cells").type == nested
    # Over the same memory.
    addresses = [cells.arrow(cells=look).to_pyarrow()["cells"].chunk(0) for look in ("tensor", "list")]
    assert cells.arrow().is_zero_copy == cells.arrow(cells="list").is_zero_copy
    assert addresses[0].storage.flatten().buffers()[1].address == addresses[1].flatten().flatten().buffers()[1].address
    with pytest.raises(ValueError, match="there are cells=tensor"):
        cells.arrow(cells="other")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword"):
        cells.arrow(colour="red")


def test_a_schema_that_is_asked_for(ours: hyperchunk.File) -> None:
    table = ours["g"].table(columns=["cells", "contiguous"])
    for look in ("tensor", "list"):
        wanted = ours["g"].table(columns=["cells", "contiguous"], cells=look).schema
        found = pa.RecordBatchReader.from_stream(table, schema=wanted)
        assert found.schema.field("cells").type == wanted.field("cells").type
        assert found.read_all().num_rows == ROWS
        batch = pa.record_batch(table, schema=wanted)
        assert batch.schema.field("cells").type == wanted.field("cells").type
    # A requested schema that is not one of the options is ignored: the values keep their types.
    other = pa.schema([pa.field("cells", pa.string()), pa.field("contiguous", pa.float64())])
    capsule = table.__arrow_c_stream__(other.__arrow_c_schema__())
    found = pa.RecordBatchReader._import_from_c_capsule(capsule)
    assert found.schema.field("contiguous").type == pa.int32()


@pytest.mark.parametrize("name", ["records", "packed"])
def test_compounds(ours: hyperchunk.File, name: str) -> None:
    with h5py.File(ours.filename) as file:
        records = file[name][()]
    table = ours[name].arrow()
    arrow = table.to_pyarrow()
    for member in ("a", "b"):
        np.testing.assert_array_equal(arrow[member].to_numpy(), records[member])
    np.testing.assert_array_equal(table.to_numpy()["c"], records["c"])
    assert arrow["d"].to_pylist() == [text.decode() for text in records["d"]]
    part = ours[name].arrow(columns=["d", "a"], rows=slice(17, 4000))
    assert part.column_names == ["d", "a"]
    np.testing.assert_array_equal(part.to_pyarrow()["a"].to_numpy(), records["a"][17:4000])
    whole = ours[name].arrow(compounds="struct")
    assert whole.column_names == [name]
    rows = whole.to_pyarrow()[name].to_pylist()
    assert [row["a"] for row in rows] == records["a"].tolist()
    with pytest.raises(KeyError, match="no member of the name `z`; there are: `a`, `b`"):
        ours[name].arrow(columns=["z"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_columns_and_rows(data: st.DataObject, ours: hyperchunk.File, expected: dict[str, np.ndarray]) -> None:
    columns = data.draw(st.lists(st.sampled_from(sorted(expected)), unique=True, max_size=5))
    start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, ROWS)])))
    table = ours["g"].table(columns=columns if columns else ["contiguous"], rows=(start, stop)).select(columns)
    check(table, {name: expected[name][start:stop] for name in columns})
    first, last = sorted(data.draw(st.tuples(*2 * [st.integers(0, stop - start)])))
    rows = data.draw(st.one_of(st.none(), st.integers(1, 2000)))
    part = table[first:last]
    batches = [pa.record_batch(batch) for batch in part.batches(rows)]
    assert sum(batch.num_rows for batch in batches) == last - first
    if rows is not None:
        assert all(batch.num_rows <= rows for batch in batches)
    for name in columns:
        one = hyperchunk.arrow.arrays.to_numpy(pa.Table.from_batches(batches, table.schema))[name]
        np.testing.assert_array_equal(one, expected[name][start:stop][first:last])


def test_spaces(ours: hyperchunk.File, tmp_path: Path) -> None:
    scalar, null = ours["g/scalar"].arrow(), ours["g/null"].arrow()
    assert scalar.to_pyarrow()["scalar"].to_pylist() == [4.0]
    assert (null.num_rows, null.schema.field("null").type) == (0, pa.float32())
    assert null.to_pyarrow().num_rows == 0
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file["none"] = np.zeros((0,), "i4")
        file["flat"] = np.zeros((0, 3), "i4")
        file["no_width"] = np.zeros((4, 0), "i4")
    file = hyperchunk.open(tmp_path / "empty.h5")
    check(file["none"].arrow(), {"none": np.zeros(0, "i4")})
    check(file["flat"].arrow(), {"flat": np.zeros((0, 3), "i4")})
    check(file["no_width"].arrow(cells="list"), {"no_width": np.zeros((4, 0), "i4")})


def test_what_is_no_table(ours: hyperchunk.File, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "no.h5", "w") as file:
        file["a"], file["b"], file["c"] = np.arange(3), np.arange(4), np.arange(4)
        file["far"] = h5py.SoftLink("/nowhere")
        file.create_group("empty")
        file["type"] = np.dtype("i4")
    file = hyperchunk.open(tmp_path / "no.h5")
    with pytest.raises(ValueError, match=r"numbers of rows \(3 rows: `a`; 4 rows: `b`, `c`\).*columns") as error:
        file.table()
    assert "no.h5" in str(error.value)
    check(file.table(columns=["c", "b"]), {"c": np.arange(4), "b": np.arange(4)})
    for path in ("empty", "type"):
        with pytest.raises(ValueError, match="is not a table"):
            hyperchunk.arrow.as_table(file[path])
    with pytest.raises(KeyError, match="nowhere"):
        file.table(columns=["far"])
    with pytest.raises(KeyError, match="no column of the name `q`"):
        file.table(columns=["b"]).select(["q"])
    table = file.table(columns=["b"])
    for rows in ((0, 5), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="rows"):
            file.table(columns=["b"], rows=rows)
    with pytest.raises(ValueError, match="step"):
        table[::2]
    with pytest.raises(TypeError):
        table.select("b")
    file.close()
    assert table.to_pyarrow()["b"].to_pylist() == [0, 1, 2, 3]
    with pytest.raises(hyperchunk.HyperchunkError):
        file.table()
    with hyperchunk.create(tmp_path / "new.h5") as new:
        new["x"] = np.arange(3)
        with pytest.raises(hyperchunk.HyperchunkError, match="written"):
            new.table()


def test_order_of_columns(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "order.h5", "w") as file:
        for name, track in (("by_name", False), ("by_time", True), ("said", True)):
            group = file.create_group(name, track_order=track)
            for column in "cab":
                group[column] = np.arange(3)
        file["said"]["longer"] = np.arange(9)
        file["said"].attrs["h5.table"] = ["b", "c"]
    file = hyperchunk.open(tmp_path / "order.h5")
    assert file.table("by_name").column_names == ["a", "b", "c"]
    assert file.table("by_time").column_names == ["c", "a", "b"]
    assert file.table("said").column_names == ["b", "c"]
    assert file.table("said", columns=["a"]).column_names == ["a"]
    assert file.table(columns=["said/a", "by_name/c"]).column_names == ["said/a", "by_name/c"]


def test_files_changed_in_place_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "changed.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(LARGE, dtype="i8")
    table = hyperchunk.open(path)["x"].arrow()
    before = table.to_pyarrow()["x"]
    assert table.is_zero_copy
    with h5py.File(path, "r+", locking=False) as file:
        file["x"][5] = -99
        file["more"] = np.arange(10)
    for column in (before, table.to_pyarrow()["x"]):
        assert column[5].as_py() == -99
    with path.open("r+b") as raw:
        raw.truncate(path.stat().st_size // 2)
    del before
    with pytest.raises(hyperchunk.HyperchunkError, match="bytes when it was opened"):
        table.to_pyarrow()


def test_arrays_that_outlive_all_else(layouts: Path, expected: dict[str, np.ndarray]) -> None:
    file = hyperchunk.open(layouts)
    table = file["g"].table(columns=["contiguous", "cells", "gzip"])
    reader = table[100:].to_reader(900)
    del table
    batches = [reader.read_next_batch()]
    file.close()
    del file
    gc.collect()
    batches += list(reader)
    del reader
    gc.collect()
    whole = hyperchunk.arrow.arrays.to_numpy(pa.Table.from_batches(batches))
    del batches
    gc.collect()
    for name, values in whole.items():
        np.testing.assert_array_equal(values, expected[name][100:])


def _maps() -> int:
    return len(Path("/proc/self/maps").read_text(encoding="ascii").splitlines())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts what Linux lists")
def test_thousands_of_streams(layouts: Path) -> None:
    def some(count: int) -> None:
        for number in range(count):
            with hyperchunk.open(layouts) as file:
                table = file["g"].table(columns=["contiguous", "gzip"])
                stream = pa.RecordBatchReader.from_stream(table)
                if number % 3:
                    stream.read_next_batch()
                if number % 2:
                    del stream
                table.__arrow_c_stream__()
                table.__arrow_c_array__()

    some(50)
    gc.collect()
    files, maps, threads = len(list(Path("/proc/self/fd").iterdir())), _maps(), threading.active_count()
    some(1500)
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= files + 1
    assert _maps() <= maps + 30
    assert threading.active_count() == threads
    assert not any("hyperchunk-ahead" in task.read_text() for task in Path("/proc/self/task").glob("*/comm"))


def test_threads_share_a_table(ours: hyperchunk.File, expected: dict[str, np.ndarray]) -> None:
    table = ours["g"].table(columns=["contiguous", "gzip", "be" if "be" in expected else "big_endian"])
    wrong: list[str] = []

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(20):
            start = int(random.integers(0, ROWS))
            found = table[start:].to_numpy()
            wrong.extend(name for name in found if not np.array_equal(found[name], expected[name][start:]))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


FORK = """
    import os, sys, threading
    import hyperchunk, numpy as np, pyarrow as pa

    path = sys.argv[1]
    table = hyperchunk.open(path)["x"].arrow()
    stop = threading.Event()
    def busy():
        while not stop.is_set():
            for batch in table.to_reader():
                pass
    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    reader = table.to_reader()
    first = reader.read_next_batch()
    total = int(np.asarray(table.to_pyarrow()["x"]).sum())
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            rest = sum(int(batch["x"].to_numpy().sum()) for batch in reader) + int(first["x"].to_numpy().sum())
            again = int(np.asarray(table.to_pyarrow()["x"]).sum())
            os._exit(0 if rest == again == total else 1)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    stop.set()
    for thread in threads:
        thread.join()
    rest = sum(int(batch["x"].to_numpy().sum()) for batch in reader) + int(first["x"].to_numpy().sum())
    assert rest == total
    assert codes == [0] * 8, codes
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forks_while_batches_are_made(tmp_path: Path) -> None:
    path = tmp_path / "fork.h5"
    with h5py.File(path, "w") as file:
        data = np.arange(2_000_000, dtype="i8") % 1000
        file.create_dataset("x", data=data, chunks=(100_000,), compression="lzf")
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORK), str(path)]
    subprocess.run(command, check=True, timeout=240)


def test_opening_reads_no_data(tmp_path: Path) -> None:
    """A table of many large datasets costs only the reading of their headers."""
    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        for name in "abcdefgh":
            # Allocated but never written: the file has a hole.
            made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            made.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            made.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            space = h5py.h5s.create_simple((1 << 31,))
            h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F64LE, space, made)
    assert path.stat().st_size > 8 << 34
    file = hyperchunk.open(path)
    table = file.table()
    assert table.num_rows == 1 << 31
    reader = table.to_reader()
    assert reader.read_next_batch()["h"][0].as_py() == 0.0
    assert table.is_zero_copy
    last = table[-1:].to_pyarrow()
    assert last["a"].to_pylist() == [0.0]


def test_attributes_of_schemas(ours: hyperchunk.File) -> None:
    schema = ours["g"].table(columns=["gzip", "unlimited", "holes"]).schema
    metadata = {field.name: field.metadata for field in schema}
    assert metadata["gzip"][b"h5.path"] == b"/g/gzip"
    assert b'"layout":"chunked"' in metadata["gzip"][b"h5.layout"]
    assert metadata["unlimited"][b"h5.space"] == b'{"dims":[5000],"max":[null]}'
    assert b"h5.fill" in metadata["holes"]
    assert schema.metadata[b"h5.path"] == b"/g"
    assert not any(field.nullable for field in schema)


# --- Tables written by other libraries ---


def test_pandas_and_pytables(tmp_path: Path) -> None:
    path = tmp_path / "frame.h5"
    ints = np.arange(12, dtype="i8").reshape(4, 3)
    floats = np.arange(8.0).reshape(4, 2)
    with h5py.File(path, "w") as file:
        # As `DataFrame.to_hdf` writes it.
        group = file.create_group("frame")
        group.attrs["pandas_type"] = np.bytes_(b"frame")
        group.attrs["axis0_variety"] = group.attrs["axis1_variety"] = np.bytes_(b"regular")
        group["axis0"] = np.array([b"i1", b"f1", b"i2", b"f2", b"i3"])
        group["axis1"] = np.array([10, 20, 30, 40])
        group["block0_items"], group["block0_values"] = np.array([b"i1", b"i2", b"i3"]), ints
        group["block1_items"], group["block1_values"] = np.array([b"f1", b"f2"]), floats
        group = file.create_group("rows")
        group.attrs["pandas_type"] = np.bytes_(b"frame_table")
        group["table"] = np.array([(1, 2.0), (3, 4.0)], [("index", "i8"), ("x", "f8")])
        group["table"].attrs["CLASS"] = np.bytes_(b"TABLE")
    file = hyperchunk.open(path)
    columns = {"index": np.array([10, 20, 30, 40]), "i1": ints[:, 0], "f1": floats[:, 0], "i2": ints[:, 1]}
    check(file.table("frame"), columns | {"f2": floats[:, 1], "i3": ints[:, 2]})
    check(file.table("frame", columns=["f2"], rows=slice(1, 3)), {"f2": floats[1:3, 1]})
    check(file.table("rows"), {"index": np.array([1, 3]), "x": np.array([2.0, 4.0])})


def test_vaex_anndata_and_nexus(tmp_path: Path) -> None:
    path = tmp_path / "others.h5"
    x, y = np.arange(5.0), np.arange(5)
    with h5py.File(path, "w") as file:
        for name, data in (("x", x), ("y", y)):
            file[f"table/columns/{name}/data"] = data
        file["table/columns/text/data"] = np.zeros(9, "u1")
        file["table/columns/text/indices"] = np.arange(6)
        obs = file.create_group("obs")
        obs.attrs.update({"encoding-type": "dataframe", "_index": "names", "column-order": ["y", "x"]})
        obs["names"] = [b"a", b"b", b"c", b"d", b"e"]
        obs["x"], obs["y"] = x, y
        plot = file.create_group("plot")
        plot.attrs.update({"NX_class": "NXdata", "signal": "counts", "axes": ["energy", "angle"]})
        plot["counts"], plot["energy"], plot["angle"] = np.outer(x, [1, 2]), y, np.arange(2)
        plot["weights"] = np.arange(7)
    file = hyperchunk.open(path)
    for found in (file.table(columns=["x", "y"]), file.table("table", columns=["x", "y"])):
        check(found, {"x": x, "y": y})
    check(file.table("table/columns", columns=["y"]), {"y": y})
    with pytest.raises(hyperchunk.HyperchunkError, match="`text`: it has strings of vaex"):
        file.table("table")
    assert file.table("obs").column_names == ["names", "y", "x"]
    check(file.table("obs", columns=["x"]), {"x": x})
    check(file.table("plot"), {"energy": y, "counts": np.outer(x, [1, 2])})


# --- Arrays in place ---


def test_arrays_in_place(ours: hyperchunk.File, expected: dict[str, np.ndarray]) -> None:
    for name in ("contiguous", "big_endian", "cells", "contiguous_f8"):
        dataset = ours[f"g/{name}"]
        array = np.asarray(dataset)
        interface = dataset.__array_interface__
        assert array.__array_interface__["data"] == interface["data"]
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, expected[name])
        assert np.array(dataset).flags.writeable
    for name in ("gzip", "virtual", "unwritten", "chunked_cells"):
        dataset = ours[f"g/{name}"]
        assert not hasattr(dataset, "__array_interface__")
        np.testing.assert_array_equal(np.asarray(dataset), expected[name])
        with pytest.raises(ValueError, match="copy"):
            np.asarray(dataset, copy=False)


def test_dlpack(ours: hyperchunk.File, expected: dict[str, np.ndarray]) -> None:
    for name in ("contiguous", "cells", "gzip", "contiguous_f8"):
        dataset = ours[f"g/{name}"]
        assert dataset.__dlpack_device__() == (1, 0)
        np.testing.assert_array_equal(np.from_dlpack(dataset), expected[name])
        # A consumer that does not support read-only memory gets a copy.
        dataset.__dlpack__()
    cells = ours["g/cells"]
    assert np.from_dlpack(cells).__array_interface__["data"][0] == cells.__array_interface__["data"][0]
    assert np.from_dlpack(cells, copy=True).flags.writeable
    with pytest.raises(BufferError, match="new memory"):
        np.from_dlpack(ours["g/gzip"], copy=False)
    with contextlib.suppress(BufferError):
        np.from_dlpack(ours["g/big_endian"])


def test_an_array_in_place_outlives_its_file(layouts: Path, expected: dict[str, Any]) -> None:
    file = hyperchunk.open(layouts)
    array = np.asarray(file["g/contiguous"])
    file.close()
    del file
    gc.collect()
    np.testing.assert_array_equal(array, expected["contiguous"])
