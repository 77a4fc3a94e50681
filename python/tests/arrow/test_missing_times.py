"""NaT is a null in Arrow and for every reader through it; empty pandas frames have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import h5py
import hyperchunk
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hyperchunk import _core

UNITS = ["s", "ms", "us", "ns"]
VALUES = [0, "NaT", 86_400, -5, "NaT"]


def _times(kind: str, unit: str, order: str = "<") -> np.ndarray:
    return np.array(VALUES, f"{kind}8[{unit}]").astype(f"{order}{kind}8[{unit}]")


def _store(path: Path, values: np.ndarray, **options: Any) -> None:
    with h5py.File(path, "w") as file:
        stored = values.astype(h5py.opaque_dtype(values.dtype))
        file.create_dataset("g/t", data=stored, **options)
        file["g/i"] = np.arange(len(values))


@pytest.mark.parametrize("kind", ["M", "m"])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("options", [{}, {"chunks": (2,)}, {"chunks": (2,), "compression": "gzip"}])
def test_nat_is_null(tmp_path: Path, kind: str, unit: str, order: str, options: dict[str, Any]) -> None:
    path = tmp_path / "t.h5"
    values = _times(kind, unit, order)
    _store(path, values, **options)
    expected = pa.array(values.astype(values.dtype.newbyteorder("<")))
    for mapped in (True, False):
        found = hyperchunk.open(path).table("/g", mapped=mapped).to_pyarrow()
        assert found["t"].null_count == 2
        assert found["t"].to_pylist() == expected.to_pylist()
        assert found.schema.field("t").nullable
    found_rows = hyperchunk.open(path).table("/g")
    assert found_rows.to_polars()["t"].null_count() == 2
    assert duckdb.sql("select count(t), count(*), count(*) filter (where t is null) from found_rows").fetchall() == [
        (3, 5, 2)
    ]
    scan = hyperchunk.scan_hyperchunk(path, "/g")
    assert scan.filter(pl.col("t").is_null()).select("i").collect()["i"].to_list() == [1, 4]
    assert scan.filter(pl.col("t").is_not_null()).select("i").collect()["i"].to_list() == [0, 2, 3]


@pytest.mark.parametrize("unit", UNITS)
def test_nat_is_not_before_anything(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "t.h5"
    _store(path, _times("M", unit))
    scan = hyperchunk.scan_hyperchunk(path, "/g")
    for bound in (pl.datetime(2000, 1, 1), pl.datetime(1900, 1, 1), pl.datetime(3000, 1, 1)):
        found = scan.filter(pl.col("t") < bound).select("i").collect()["i"].to_list()
        assert 1 not in found
        assert 4 not in found
    found_rows = hyperchunk.open(path).table("/g")  # noqa: F841 (for DuckDB)
    assert 1 not in [i for (i,) in duckdb.sql("select i from found_rows where t < '2000-01-01'::timestamp").fetchall()]


@pytest.mark.parametrize("kind", ["M", "m"])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_there_and_back(tmp_path: Path, kind: str, unit: str, form: str) -> None:
    path, between, back = tmp_path / "t.h5", tmp_path / f"t.{form}", tmp_path / "back.h5"
    values = _times(kind, unit)
    _store(path, values)
    assert _core.run_command(["hyperchunk", "arrow", "export", f"{path}:/g", str(between)]) == 0
    found = pq.read_table(between) if form == "parquet" else pa.ipc.open_file(between).read_all()
    assert found["t"].null_count == 2
    assert _core.run_command(["hyperchunk", "arrow", "import", str(between), str(back)]) == 0
    with h5py.File(back) as file:
        name = next(name for name in ("t", "g/t", "table/t") if name in file)
        stored = file[name][()]
        assert stored.dtype == values.dtype
        assert (np.isnat(stored) == np.isnat(values)).all()
        assert (stored[~np.isnat(values)] == values[~np.isnat(values)]).all()


def test_times_within_other_values(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    times = _times("M", "us")
    record = np.zeros(5, [("at", "<M8[us]"), ("n", "i4"), ("span", "<m8[s]")])
    record["at"], record["span"] = times, _times("m", "s")
    with h5py.File(path, "w") as file:
        dtype = h5py.h5t.create(h5py.h5t.COMPOUND, record.dtype.itemsize)
        for name in record.dtype.names:
            of, at = record.dtype.fields[name][:2]
            of = h5py.opaque_dtype(of) if of.kind in "mM" else of
            dtype.insert(name.encode(), at, h5py.h5t.py_create(of, logical=True))
        data = h5py.h5d.create(file.id, b"r", dtype, h5py.h5s.create_simple((5,)))
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, record.view(f"V{record.dtype.itemsize}"), mtype=dtype)
        grid = np.concatenate([times, times[::-1]]).reshape(5, 2)
        file["grid"] = grid.astype(h5py.opaque_dtype(grid.dtype))
    file = hyperchunk.open(path)
    found = file["r"].arrow().to_pyarrow()
    assert found["at"].null_count == 2
    assert found["span"].null_count == 2
    assert found["n"].null_count == 0
    rows = file["grid"].arrow().to_pyarrow()[0].to_pylist()
    assert [[value is None for value in row] for row in rows] == np.isnat(grid).tolist()


def test_times_without_nat_have_no_bitmap(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    _store(path, np.arange(5).astype("M8[ns]"))
    found = hyperchunk.open(path).table("/g").to_pyarrow()["t"].chunk(0)
    assert found.null_count == 0
    assert found.buffers()[0] is None


def _pandas_array(group: Any, name: str, values: np.ndarray) -> None:
    """Pandas' fixed format: PyTables has no empty arrays."""
    if values.size:
        group[name] = values
        return
    stored = "f8" if values.dtype.kind in "iub" else values.dtype
    data = group.create_dataset(name, data=np.zeros((1,) * values.ndim, stored))
    data.attrs["value_type"] = str(values.dtype)
    data.attrs["shape"] = np.bytes_(repr(values.shape).encode())


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ({"v": "f8", "n": "i8"}, 0),
        ({"a": "f8", "b": "f8", "c": "f8"}, 0),
        ({"a": "f8"}, 0),
        ({}, 0),
        ({}, 3),
        ({"a": "i8", "b": "i8"}, 1),
        ({"a": "i8", "b": "f4"}, 4),
    ],
)
def test_frames_of_pandas_without_rows(tmp_path: Path, columns: dict[str, str], rows: int) -> None:
    path = tmp_path / "p.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("e")
        group.attrs["pandas_type"], group.attrs["pandas_version"] = "frame", "0.15.2"
        group.attrs["axis0_variety"] = group.attrs["axis1_variety"] = "regular"
        names = np.array([name.encode() for name in columns], "S1")
        _pandas_array(group, "axis0", names)
        _pandas_array(group, "axis1", np.arange(rows))
        for number, kind in enumerate(sorted(set(columns.values()))):
            of = [name for name, other in columns.items() if other == kind]
            _pandas_array(group, f"block{number}_items", np.array([name.encode() for name in of], "S1"))
            _pandas_array(group, f"block{number}_values", np.full((rows, len(of)), number + 1, kind))
    found_rows = hyperchunk.open(path).table("/e")
    assert found_rows.num_rows == rows
    assert found_rows.column_names == ["index", *columns]
    found = found_rows.to_pyarrow()
    assert found.num_rows == rows
    assert duckdb.sql("select count(*) from found_rows").fetchall() == [(rows,)]
    assert [str(field.type) for field in found.schema] == ["int64", *(TYPES[kind] for kind in columns.values())]


TYPES = {"f8": "double", "i8": "int64", "f4": "float"}


def _bits(group: Any, name: str, values: list[list[bool]]) -> None:
    """Truth as PyTables stores it."""
    stored = np.array(values, "u1")
    made = h5py.h5d.create(group.id, name.encode(), h5py.h5t.STD_B8LE, h5py.h5s.create_simple(stored.shape))
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, stored, mtype=h5py.h5t.NATIVE_B8)


@pytest.mark.parametrize("unit", ["", "[s]", "[ms]", "[us]", "[ns]"])
@pytest.mark.parametrize("rows", [0, 2])
def test_times_and_truth_in_frames_of_pandas(tmp_path: Path, unit: str, rows: int) -> None:
    """PyTables stores times as integers, truth as bits, and no rows of times as `(columns, 0)`."""
    path = tmp_path / "p.h5"
    least = np.iinfo("i8").min
    with h5py.File(path, "w") as file:
        group = file.create_group("k")
        group.attrs["pandas_type"] = np.bytes_(b"frame")
        _pandas_array(group, "axis0", np.array([b"t", b"d", b"ok", b"z"]))
        _pandas_array(group, "axis1", np.array([10, least], "i8")[:rows])
        group["axis1"].attrs["kind"] = np.bytes_(f"datetime64{unit}".encode())
        for number, (name, kind) in enumerate({"t": "datetime64", "d": "timedelta64", "z": "datetime64"}.items()):
            number += number == 2
            group[f"block{number}_items"] = np.array([name.encode()])
            group[f"block{number}_values"] = np.array([[least], [7]][:rows], "i8").reshape(
                (rows, 1) if rows else (1, 0)
            )
            values = group[f"block{number}_values"]
            values.attrs["value_type"] = np.bytes_(f"{kind}{unit}".encode())
            if name == "z":
                values.attrs["tz"] = np.bytes_(b"Europe/Berlin")
        group["block2_items"] = np.array([b"ok"])
        if rows:
            _bits(group, "block2_values", [[True], [False]])
        else:
            _pandas_array(group, "block2_values", np.zeros((0, 1), "f8"))
            group["block2_values"].attrs["value_type"] = np.bytes_(b"bool")
    rows_of_it = hyperchunk.open(path).table("/k")
    found = rows_of_it.to_pyarrow()
    name = unit.strip("[]") or "ns"
    assert [str(field.type) for field in found.schema if field.name != "ok"] == [
        f"timestamp[{name}]",
        f"timestamp[{name}]",
        f"duration[{name}]",
        f"timestamp[{name}, tz=Europe/Berlin]",
    ]
    assert rows_of_it.to_pandas()["ok"].dtype == bool
    assert found.num_rows == rows
    if rows:
        assert [found[name].is_null().to_pylist() for name in ("index", "t", "d")] == [
            [False, True],
            [True, False],
            [True, False],
        ]
        assert rows_of_it.to_pandas()["ok"].tolist() == [True, False]
        before = pl.datetime(3000, 1, 1)
        rows_before = hyperchunk.scan_hyperchunk(path, "/k").filter(pl.col("t") < before).select("z").collect()
        assert rows_before["z"].dt.timestamp("us").to_list() == [{"s": 7_000_000, "ms": 7000, "us": 7}.get(name, 0)]


def test_series_of_pandas(tmp_path: Path) -> None:
    path = tmp_path / "p.h5"
    with h5py.File(path, "w") as file:
        for name in ("times", "texts"):
            group = file.create_group(name)
            group.attrs["pandas_type"] = np.bytes_(b"series")
            group["index"] = np.arange(2)
        file["times/values"] = np.array([np.iinfo("i8").min, 5])
        file["times/values"].attrs["value_type"] = np.bytes_(b"datetime64[us]")
        # An object that holds all values, pickled.
        pickled = file["texts"].create_dataset("values", (1,), h5py.vlen_dtype("u1"))
        pickled[0] = np.frombuffer(b"pickle", "u1")
    found = hyperchunk.open(path).table("/times").to_pyarrow()
    assert found.column_names == ["index", "values"]
    assert found["values"].is_null().to_pylist() == [True, False]
    with pytest.raises(hyperchunk.HyperchunkError, match="pickled objects"):
        hyperchunk.open(path).table("/texts")


COARSE = {"m": 60, "h": 3600, "D": 86_400, "W": 604_800}


@pytest.mark.parametrize("kind", ["M", "m"])
@pytest.mark.parametrize("unit", COARSE)
@pytest.mark.parametrize("order", ["<", ">"])
def test_units_that_arrow_lacks(tmp_path: Path, kind: str, unit: str, order: str) -> None:
    path = tmp_path / "t.h5"
    values = np.array([0, "NaT", 18_262, -5], f"{kind}8[{unit}]").astype(f"{order}{kind}8[{unit}]")
    _store(path, values)
    found = hyperchunk.open(path).table("/g")
    column = found.to_pyarrow()["t"]
    days = (kind, unit) == ("M", "D")
    assert column.type == (pa.date32() if days else pa.timestamp("s") if kind == "M" else pa.duration("s"))
    assert column.null_count == 1
    assert np.array_equal(found.to_numpy()["t"], values.astype(f"{kind}8[{'D' if days else 's'}]"), equal_nan=True)
    assert found.to_polars()["t"].null_count() == 1
    assert duckdb.sql("select count(t) from found").fetchall() == [(3,)]


def test_units_that_arrow_lacks_come_back(tmp_path: Path) -> None:
    for unit in ("D", "h"):
        path, arrow, back = (tmp_path / f"{unit}{end}" for end in (".h5", ".arrow", "b.h5"))
        values = np.array([0, "NaT", 18_262, -5], f"M8[{unit}]")
        _store(path, values)
        for words in (("export", f"{path}:/g/t", arrow), ("import", arrow, back)):
            assert _core.run_command(["hyperchunk", "arrow", *map(str, words)]) == 0
        with h5py.File(back) as file:
            assert file["g/t"].dtype == values.dtype
            assert np.array_equal(file["g/t"][:], values, equal_nan=True)


def test_times_beyond_those_of_arrow(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    for kind, unit in (("M", "D"), ("M", "h"), ("m", "W")):
        _store(path, np.array([1 << 61], "i8").view(f"{kind}8[{unit}]"))
        with pytest.raises(pa.ArrowInvalid, match="beyond those of"):
            hyperchunk.open(path).table("/g").to_pyarrow()
