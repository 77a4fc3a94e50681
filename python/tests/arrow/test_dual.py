"""Dual files (HDF5 and Arrow): every reader finds the same values; after an edit by h5py, the correct ones or none."""

from __future__ import annotations

import decimal
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hyperchunk import _core
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import ipc

duckdb = pytest.importorskip("duckdb")

DTYPES = ["i1", "u2", "<i4", "<u8", "<f2", "<f4", "<f8", "?", "<c8", "<c16", "S5", "V3"]


def some(dtype: str, rows: int, cell: tuple[int, ...] = ()) -> Any:
    """Returns test values of a dtype."""
    size = rows * int(np.prod(cell, dtype=int))
    numbers = np.arange(size) % 100
    kind = np.dtype(dtype).kind
    if kind in "MSV":
        width = np.dtype(dtype).itemsize
        values: Any = np.frombuffer(
            b"".join(bytes([65 + n % 26] * width) for n in numbers.tolist()), np.dtype(dtype), size
        )
    else:
        values = (numbers % 2 == 0) if kind == "b" else numbers.astype(dtype)
    return values.reshape((rows, *cell))


def stored(column: Any) -> bytes:
    """Returns the bytes of an Arrow column's values."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    count, offset = len(array), array.offset
    while pa.types.is_fixed_size_list(array.type):
        count, offset = count * array.type.list_size, offset * array.type.list_size
        array = array.values
        offset += array.offset
    width = array.type.bit_width // 8
    buffer = array.buffers()[-1]
    return b"" if buffer is None else buffer.to_pybytes()[offset * width : (offset + count) * width]


def as_arrow(path: Path) -> pa.Table:
    """Reads a mapped file with pyarrow."""
    table = ipc.open_file(pa.memory_map(str(path))).read_all()
    table.validate(full=True)
    return table


def command(*arguments: object) -> int:
    """Runs `hyperchunk arrow`."""
    return _core.run_command(["hyperchunk", "arrow", *map(str, arguments)])


def same(path: Path, group: str, *, all_of_it: bool = True) -> None:
    """Checks that all readers find the same values as h5py."""
    table = as_arrow(path)
    polars = pl.read_ipc(path)
    assert polars.columns == table.schema.names
    assert pl.scan_ipc(path).select(pl.len()).collect().item() == table.num_rows
    with h5py.File(path) as file:
        found = file[group]
        assert set(table.schema.names) <= set(found)
        if all_of_it:
            assert set(table.schema.names) == set(found)
        for name in table.schema.names:
            values = found[name][()]
            assert len(values) == table.num_rows
            assert stored(table[name]) == values.tobytes(), name
            # polars accepts any bytes in binary columns of fixed size.
            if values.dtype.kind not in "SV":
                assert stored(polars[name].to_arrow()) == values.tobytes(), name
    assert command("check", path) == 0


@pytest.mark.parametrize("options", [{}, {"row_group": 7}, {"group": "/a/b", "row_group": 64, "growable": True}])
@pytest.mark.parametrize("rows", [0, 1, 100])
def test_every_type(tmp_path: Path, options: dict[str, Any], rows: int) -> None:
    path, group = tmp_path / "a.h5", options.get("group", "/")
    columns = {f"{dtype} {number}": some(dtype, rows) for number, dtype in enumerate(DTYPES)}
    columns["cells"] = some("<f4", rows, (2, 3))
    with hyperchunk.create(path, layout="arrow", **options) as file:
        assert file.append(columns) == rows
        file[group].attrs["time"] = 1.5
        file[group]["cells"].attrs["unit"] = "m"
        assert file.num_rows == rows
    same(path, group)
    schema = as_arrow(path).schema
    assert b"1.5" in schema.metadata[b"h5.attrs.json"]
    assert b'"m"' in schema.field("cells").metadata[b"h5.attrs.json"]
    with path.open("rb") as stream:
        stream.seek(8)
        assert ipc.open_stream(stream).read_all().num_rows == rows
    if rows:
        # DuckDB finds it by the variable's name.
        numbers = as_arrow(path).select(["<i4 2"])  # noqa: F841
        assert duckdb.sql('select count(*), max("<i4 2") from numbers').fetchall() == [(rows, min(rows, 100) - 1)]
        addresses = [column.chunk(0).buffers()[-1].address % 64 for column in as_arrow(path).columns[:8]]
        assert not any(addresses)
    with hyperchunk.open(path) as file, h5py.File(path) as other:
        for name, values in columns.items():
            assert file[group][name][()].tobytes() == other[group][name][()].tobytes() == values.tobytes()


def test_rows_of_other_libraries(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    table = pa.table({"a": pa.array(range(1000), pa.int32()), "b": pa.array(np.arange(1000.0))})
    with hyperchunk.create(path, layout="arrow", columns=table.schema, row_group=300) as file:
        file.append(table)
        file.flush()
        same(path, "/")
        file.append(pl.from_arrow(table))
        file.append(table.to_reader(max_chunksize=70))
        file.append(table.to_batches()[0].slice(5, 10))
    same(path, "/")
    assert as_arrow(path)["a"].to_pylist()[:2010] == list(range(1000)) * 2 + list(range(10))
    assert as_arrow(path).num_rows == 3010


def test_times_and_other_byte_orders(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    times = np.array(["2020-01-01", "2021-02-03T04:05:06.5"], "M8[ns]")
    with hyperchunk.create(path, layout="arrow", columns={"t": "M8[ns]", "x": ">f4", "s": "S3"}) as file:
        file.append({"t": times, "x": np.array([1.5, 2], ">f4"), "s": np.array([b"a", b"b"])})
        file.append({"t": times.astype(">M8[ns]"), "x": np.array([3, 4], "f4"), "s": np.array([b"a", b"ccc"])})
        with pytest.raises(hyperchunk.HyperchunkError, match="'t' has NaT in row 1"):
            file.append({"t": [times[0], np.datetime64("NaT")], "x": [1, 2], "s": [b"", b""]})
        with pytest.raises(hyperchunk.HyperchunkError, match="'s' has another type"):
            file.append({"t": times, "x": np.array([3, 4], "f4"), "s": np.array([b"a", b"cccc"])})
    with h5py.File(path) as file:
        assert file["t"][...].tolist() == [*times.tolist(), *times.tolist()]
        assert file["x"][...].tolist() == [1.5, 2, 3, 4]
        assert file["s"][...].tolist() == [b"a", b"b", b"a", b"ccc"]
    table = as_arrow(path)
    assert table["t"].type == pa.timestamp("ns")
    assert table["t"].to_numpy().tolist() == [*times.tolist(), *times.tolist()]
    assert table["x"].to_pylist() == [1.5, 2, 3, 4]
    assert command("check", path) == 0
    for wrong, message in [
        ({"t": np.array(["2020-01-01"], "M8[D]")}, r"array.astype\('M8\[s\]'\)"),
        ({"t": pa.array([1], pa.timestamp("us", "UTC"))}, "time zone UTC"),
        (pa.table({"t": pa.array([1], pa.timestamp("us", "UTC"))}), "time zone"),
        (pa.table({"t": pa.array([decimal.Decimal("1.5")])}), "the scale"),
    ]:
        file = hyperchunk.create(tmp_path / "b.h5", layout="arrow")
        with pytest.raises(hyperchunk.HyperchunkError, match=message):
            file.append(wrong)
        file.discard()


def test_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for columns in [{"text": pa.array(["a"])}, {"null": pa.array([1, None])}, {"flag": pa.array([True])}]:
        file = hyperchunk.create(path, layout="arrow")
        with pytest.raises(hyperchunk.HyperchunkError, match=next(iter(columns))):
            file.append(pa.table(columns))
        file.discard()
    file = hyperchunk.create(path, layout="arrow")
    with pytest.raises(hyperchunk.HyperchunkError, match="no columns"):
        file.close()
    with pytest.raises(hyperchunk.HyperchunkError, match="no columns"):
        file["a"]
    with pytest.raises(ValueError):
        file.append({"a": np.arange(3), "b": np.arange(4)})
    file.append({"a": np.arange(3)})
    for wrong in [{"b": np.arange(3)}, {"a": np.arange(3.0)}, {"a": np.arange(3), "b": np.arange(3)}]:
        with pytest.raises(hyperchunk.HyperchunkError):
            file.append(wrong)
    file.close()
    same(path, "/")
    assert command("check", path) == 0
    with h5py.File(tmp_path / "b.h5", "w") as other:
        other["a"] = np.arange(10)
    assert command("check", tmp_path / "b.h5") == 1
    assert command("fix", tmp_path / "b.h5") == 1


def test_values_in_place_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for options in ({}, {"row_group": 100}):
        with hyperchunk.create(path, layout="arrow", **options) as file:
            file.append({"a": np.arange(1000), "b": np.arange(1000.0)})
        before = as_arrow(path)
        with h5py.File(path, "r+") as other:
            other["a"][5] = 70
            other["b"][500:] = -1
            other.flush()
            assert before["a"][5].as_py() == 70
            assert before["b"][999].as_py() == -1
        same(path, "/")


def edit(rng: random.Random, file: h5py.File, path: str) -> None:
    """Makes a random edit of the kind that programs make to HDF5 files."""
    group = file.get(path, file)
    names = [name for name in group if isinstance(group[name], h5py.Dataset)]
    if not names:
        return
    name = rng.choice(names)
    data = group[name]
    number = f"n{rng.randrange(10**6)}"
    match rng.randrange(16):
        case 0 if data.shape and data.shape[0]:
            data[rng.randrange(data.shape[0])] = 7
        case 1:
            del group[name]
        case 2:
            group.create_dataset(number, data=np.full(data.shape, 9, rng.choice(["f4", "i8"])))
        case 3:
            shape, dtype = data.shape, data.dtype
            del group[name]
            group.create_dataset(name, data=np.full(shape, 99, dtype))
        case 4 if data.chunks:
            data.resize(rng.randrange(data.shape[0] + 1), axis=0)
        case 5 if data.chunks and data.maxshape[0] is None:
            data.resize(data.shape[0] + rng.choice([1, 5, 500]), axis=0)
        case 6:
            data.attrs[number] = 1
        case 7:
            for attribute in list(data.attrs)[:1]:
                data.attrs.modify(attribute, rng.randrange(100))
        case 8:
            for attribute in list(data.attrs)[:1]:
                del data.attrs[attribute]
        case 9:
            group.attrs[rng.choice(["a", number])] = 5
        case 10:
            group.move(name, number)
        case 11 if len(names) > 1:
            other = rng.choice([another for another in names if another != name])
            group.move(name, number)
            group.move(other, name)
            group.move(number, other)
        case 12:
            group.copy(name, number)
        case 13 if path != "/":
            del file[path.strip("/").split("/")[0]]
        case 14:
            group.create_dataset(number, data=np.full(data.shape, 7, "f8"))
            del group[number]
        case 15:
            data.attrs["large"] = np.zeros(rng.choice([10, 1000, 7000]))
        case _:
            group[number] = data


def right_or_refused(path: Path, group: str) -> None:
    """Checks that an Arrow reader finds the contents of the HDF5 file, or no Arrow file."""
    with h5py.File(path) as file:
        for read in (as_arrow, lambda path: pl.read_ipc(path).to_arrow()):
            try:
                table = read(path)
            except (pa.ArrowInvalid, OSError, pl.exceptions.ComputeError):
                continue
            found = file[group]
            assert set(table.schema.names) == set(found)
            for name in table.schema.names:
                assert len(found[name]) == table.num_rows
                assert stored(table[name]) == found[name][()].tobytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    options=st.sampled_from(
        [{}, {"group": "/a/b"}, {"row_group": 64}, {"row_group": 64, "growable": True, "group": "/g"}]
    ),
)
def test_whatever_h5py_does(tmp_path: Path, seed: int, options: dict[str, Any]) -> None:
    path, group, rng = tmp_path / "a.h5", options.get("group", "/"), random.Random(seed)
    rows = rng.choice([0, 1, 64, 200])
    columns = {
        f"c{n}": some(rng.choice(["<i4", "<f8", "u1"]), rows, rng.choice([(), (3,)]))
        for n in range(1, rng.randint(2, 5))
    }
    with hyperchunk.create(path, layout="arrow", **options) as file:
        file.append(columns)
        file[group]["c1"].attrs["a"] = 3
        file[group].attrs["a"] = 3
    same(path, group)
    for _ in range(rng.randint(1, 3)):
        with h5py.File(path, "r+", libver=rng.choice(["earliest", "latest", ("v108", "v114")])) as file:
            for _ in range(rng.randint(1, 4)):
                try:
                    edit(rng, file, group)
                except (ValueError, OSError, RuntimeError, KeyError, TypeError):
                    continue
        right_or_refused(path, group)
    if command("fix", path) == 0:
        same(path, group, all_of_it=False)


@pytest.mark.parametrize("libver", ["earliest", ("v110", "v114"), "latest"])
def test_files_of_others(tmp_path: Path, libver: Any) -> None:
    path, copy = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(path, "w", userblock_size=4096, libver=libver) as file:
        group = file.create_group("T")
        for name in "abc":
            group.create_dataset(name, data=np.arange(1000, dtype="f4"))
        group.create_dataset("z", data=np.arange(1000.0), compression="gzip")
        group.attrs["t"] = 1.5
        file["other/x"] = 5
        file["soft"] = h5py.SoftLink("/T/a")
    assert command("fix", path, "-o", copy, "--group", "/T") == 0
    same(copy, "T")
    assert command("fix", path, "--group", "/T") == 0
    same(path, "T", all_of_it=False)
    for name in (path, copy):
        with h5py.File(name, "r+") as file:
            assert (file["T"].attrs["t"], file["other/x"][()], file["soft"][7]) == (1.5, 5, 7)
            file["T"]["new"] = np.arange(1000)
        assert command("fix", name) == 0
        same(name, "T", all_of_it=False)


def test_a_program_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    program = textwrap.dedent("""
        import sys, numpy as np, hyperchunk
        file = hyperchunk.create(sys.argv[1], layout="arrow", row_group=1000)
        for number in range(100000):
            file.append({"a": np.arange(number * 37, number * 37 + 37)})
            file.flush()
            print(number, flush=True)
    """)
    for rounds in (1, 3, 10, 40):
        process = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(rounds):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with h5py.File(path) as file:
            found = file["a"][()]
        assert np.array_equal(found, np.arange(len(found)))
        assert len(found) >= 37 * rounds
        right_or_refused(path, "/")
        with h5py.File(path, "r+") as file:
            file["more"] = 1
            del file["more"]
        assert command("fix", path) == 0
        same(path, "/")
