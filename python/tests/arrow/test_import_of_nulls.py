"""`hyperchunk arrow import`: what HDF5 has no value for is neither lost nor taken for values."""

import datetime as dt
import decimal
import subprocess
from pathlib import Path

import duckdb
import h5py
import hyperchunk
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fresh import HYPERCHUNK


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HYPERCHUNK, "arrow", *words], capture_output=True, text=True, check=False)


def test_nulls_are_marked_beside_their_column(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([10, None, 20]), "y": [1.5, 2.5, 3.5], "s": ["a", None, "c"]})
    pq.write_table(table, tmp_path / "a.parquet")
    done = run("import", tmp_path / "a.parquet", tmp_path / "a.h5")
    assert done.returncode == 0, done.stderr
    assert "column x has nulls" in done.stderr
    assert "the dataset x__valid, which marks the valid rows" in done.stderr
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["a/x__valid"][...].tolist() == [True, False, True]
    with hyperchunk.open(tmp_path / "a.h5") as file:
        found = file.table("/a")
        assert found.column_names == ["x", "y", "s"]
        assert duckdb.sql("select avg(x), count(x), count(*) from found").fetchall() == [(15, 2, 3)]
        assert duckdb.sql("select y from found where x > 5 order by y").fetchall() == [(1.5,), (3.5,)]
        assert duckdb.sql("select y from found where x is null").fetchall() == [(2.5,)]
        assert duckdb.sql("select y from found where x = 0").fetchall() == []
        assert pa.table(file.table("/a", columns=["y", "x"]))["x"].to_pylist() == [10, None, 20]
        assert file.table("/a", columns=["x__valid"]).column_names == ["x__valid"]
    done = run("export", f"{tmp_path / 'a.h5'}:/a", tmp_path / "b.parquet")
    assert done.returncode == 0, done.stderr
    back = pq.read_table(tmp_path / "b.parquet").to_pydict()
    assert back == {"x": [10, None, 20], "y": [1.5, 2.5, 3.5], "s": ["a", None, "c"]}


DAY = dt.datetime(2026, 3, 4, 5, 6, 7, 123000, dt.UTC)
COLUMNS = [
    pa.array([1, None, -3], pa.int8()),
    pa.array([None, 1.5, float("nan")], pa.float32()),
    pa.array([True, None, False]),
    pa.array([decimal.Decimal("19.99"), None, decimal.Decimal("-0.01")], pa.decimal128(10, 2)),
    pa.array([decimal.Decimal("1e40"), None, decimal.Decimal("-1")], pa.decimal256(60, 2)),
    pa.array([decimal.Decimal("1.5"), decimal.Decimal("2.5"), decimal.Decimal("3.5")], pa.decimal128(38, 1)),
    pa.array([DAY, None, DAY], pa.timestamp("us", "Europe/Berlin")),
    pa.array([DAY, None, DAY], pa.timestamp("ns", "UTC")),
    pa.array([DAY.replace(tzinfo=None), None, DAY.replace(tzinfo=None)], pa.timestamp("ms")),
    pa.array([DAY.date(), None, DAY.date()], pa.date32()),
    pa.array([DAY.date(), None, DAY.date()], pa.date64()),
    pa.array([dt.time(1, 2, 3), None, dt.time(23, 59, 59)], pa.time32("s")),
    pa.array([dt.time(1, 2, 3, 4), dt.time(1), dt.time(2)], pa.time64("us")),
    pa.array([dt.timedelta(seconds=5), None, dt.timedelta(days=-1)], pa.duration("us")),
    pa.array([b"a\0b", None, b""], pa.large_binary()),
    pa.array(["a", None, ""], pa.large_string()),
    pa.array([1, None, 1 << 60], pa.uint64()),
]


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
@pytest.mark.parametrize("column", COLUMNS, ids=[str(column.type) for column in COLUMNS])
def test_an_imported_table_is_the_same_when_it_is_read(tmp_path: Path, column: pa.Array, suffix: str) -> None:
    table = pa.table({"n": [1, 2, 3], "x": column})
    source = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, source)
        table = pq.read_table(source)
    else:
        with pa.ipc.new_file(source, table.schema) as sink:
            sink.write_table(table)
    done = run("import", source, tmp_path / "a.h5")
    assert done.returncode == 0, done.stderr
    with hyperchunk.open(tmp_path / "a.h5") as file:
        for batch_rows in (None, 2):
            found = pa.table(file.table("/a", batch_rows=batch_rows))
            is_truth = pa.types.is_boolean(column.type)
            values = found["x"].cast(pa.bool_()) if is_truth else found["x"]
            # Parquet has no dates in milliseconds, but says that they were some.
            assert values.type in (table["x"].type, column.type) or is_truth
            assert str(values.to_pylist()) == str(table["x"].to_pylist())
            assert found["x"].null_count == table["x"].null_count
        # The forms of other libraries.
        if pa.types.is_date64(column.type) or pa.types.is_decimal256(column.type):
            return
        for again in (pa.Table.from_pandas(file.table("/a").to_pandas()), file.table("/a").to_polars().to_arrow()):
            shown = again["x"].cast(pa.bool_()) if is_truth else again["x"]
            if pa.types.is_floating(shown.type):
                assert shown.to_pylist()[1] in (None, 1.5)
            else:
                expected = table["x"].cast(shown.type) if not pa.types.is_large_list(shown.type) else table["x"]
                assert str(shown.to_pylist()) == str(expected.to_pylist())
    # And once more: what is exported is imported again, with less nulls.
    done = run("export", f"{tmp_path / 'a.h5'}:/a", tmp_path / "b.arrow")
    assert done.returncode == 0, done.stderr
    again = pa.ipc.open_file(tmp_path / "b.arrow").read_all().slice(0, 1)
    assert str(again["n"].to_pylist()) == "[1]"
    with pa.ipc.new_file(tmp_path / "c.arrow", again.schema) as sink:
        sink.write_table(again)
    done = run("import", tmp_path / "c.arrow", tmp_path / "c.h5", "--name", "/c")
    assert done.returncode == 0, done.stderr
    with hyperchunk.open(tmp_path / "c.h5") as file:
        assert str(pa.table(file.table("/c"))["x"].to_pylist()) == str(again["x"].to_pylist())


def test_missing_marks_are_an_error(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([10, None, 20]), "y": [1.5, 2.5, 3.5]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert run("import", tmp_path / "a.parquet", tmp_path / "a.h5").returncode == 0
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["a/x__valid"]
    with hyperchunk.open(tmp_path / "a.h5") as file:
        with pytest.raises(KeyError, match="names the dataset `x__valid`, which marks the rows that are not null"):
            file.table("/a")
        assert pa.table(file.table("/a", columns=["y"]))["y"].to_pylist() == [1.5, 2.5, 3.5]


@pytest.mark.parametrize("column", [["a\0b", "c"], [["x\0y"], []]], ids=["text", "list"])
def test_text_with_a_zero_byte_is_refused(tmp_path: Path, column: list[object]) -> None:
    """HDF5's strings of variable length end at a zero byte: the rest would be lost."""
    pq.write_table(pa.table({"s": pa.array(column)}), tmp_path / "a.parquet")
    done = run("import", tmp_path / "a.parquet", tmp_path / "a.h5")
    assert done.returncode == 1
    assert "zero byte" in done.stderr
    assert "column s" in done.stderr or "/s" in done.stderr, done.stderr
    assert not (tmp_path / "a.h5").exists()
    table = pq.read_table(tmp_path / "a.parquet")
    if pa.types.is_string(table["s"].type):
        pq.write_table(pa.table({"s": table["s"].cast(pa.binary())}), tmp_path / "b.parquet")
        done = run("import", tmp_path / "b.parquet", tmp_path / "b.h5")
        assert done.returncode == 0, done.stderr
        with h5py.File(tmp_path / "b.h5") as file:
            assert [bytes(value) for value in file["b/s"][...]] == [b"a\0b", b"c"]


def test_statistics_of_stored_zeros_are_not_those_of_nulls(tmp_path: Path) -> None:
    for number in (0, 1):
        table = pa.table(
            {
                "x": pa.array([5, None, 7 + number, None]),
                "q": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.50"), None], pa.decimal128(10, 2)),
                "i": [1, 2, 3, 4],
            }
        )
        pq.write_table(table, tmp_path / f"{number}.parquet")
        done = run("import", tmp_path / f"{number}.parquet", tmp_path / f"{number}.h5", "--name", "/t")
        assert done.returncode == 0, done.stderr
    files = [tmp_path / f"{number}.h5" for number in (0, 1)]
    with hyperchunk.open_collection(files, concat=0, statistics=["t/x", "t/i"]) as collection:
        found = collection.table("/t").to_dataset()
        assert found.to_table(filter=pc.field("x").is_null()).num_rows == 4
        assert found.to_table(filter=pc.field("x") > 6)["x"].to_pylist() == [7, 8]
        assert found.to_table(filter=pc.field("q") < decimal.Decimal("2.00")).num_rows == 2
        assert found.to_table(filter=pc.field("i") > 3)["x"].to_pylist() == [None, None]


def test_nulls_in_numpy(tmp_path: Path) -> None:
    table = pa.table(
        {
            "b": pa.array([True, None]),
            "v": pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
            "w": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert run("import", tmp_path / "a.parquet", tmp_path / "a.h5").returncode == 0
    with hyperchunk.open(tmp_path / "a.h5") as file:
        found = file.table("/a", columns=["b", "v"]).to_numpy()
        assert found["b"].tolist() == [True, None]
        np.testing.assert_array_equal(found["v"], [[1, 2], [np.nan, np.nan]])
        with pytest.raises(hyperchunk.HyperchunkError, match="the column w: expected no nulls"):
            file.table("/a").to_numpy()
