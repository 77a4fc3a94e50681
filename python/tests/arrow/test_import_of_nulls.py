"""`hyperchunk arrow import`: what HDF5 has no value for is neither lost nor taken for values."""

import subprocess
from pathlib import Path

import duckdb
import h5py
import hyperchunk
import pyarrow as pa
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
    assert "x__valid marks the valid rows" in done.stderr
    with hyperchunk.open(tmp_path / "a.h5") as file:
        found = file.table("/a")
        assert found.column_names == ["x", "x__valid", "y", "s"]
        query = "select avg(x) filter (x__valid), count(x) filter (x__valid) from found"
        assert duckdb.sql(query).fetchall() == [(15, 2)]
    done = run("export", f"{tmp_path / 'a.h5'}:/a", tmp_path / "b.parquet")
    assert done.returncode == 0, done.stderr
    back = pq.read_table(tmp_path / "b.parquet").to_pydict()
    assert back == {"x": [10, 0, 20], "x__valid": [True, False, True], "y": [1.5, 2.5, 3.5], "s": ["a", None, "c"]}


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
