"""DuckDB, polars, pyarrow and pandas read tables over HDF5: equal results, and only the needed columns and rows are
read.
"""

from __future__ import annotations

import builtins
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import h5py
import hyperchunk
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from fresh import HYPERCHUNK
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

ROWS = 40_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Columns of many kinds, some compressed, some not."""
    path = tmp_path_factory.mktemp("doors") / "doors.h5"
    random = np.random.default_rng(3)
    x = random.normal(size=ROWS).astype("f4")
    x[::97] = np.nan
    with h5py.File(path, "w", track_order=True) as file:
        group = file.create_group("g", track_order=True)
        group.create_dataset("x", data=x)
        group.create_dataset("n", data=random.integers(0, 1000, ROWS, dtype="i4"))
        group.create_dataset("id", data=np.arange(ROWS), chunks=(3000,), compression="gzip")
        group.create_dataset("be", data=random.random(ROWS).astype(">f8"))
        group.create_dataset("word", data=np.array([b"one", b"two", b"three"])[random.integers(0, 3, ROWS)])
        group.create_dataset("cell", data=random.random((ROWS, 2, 3)), chunks=(1000, 2, 3), shuffle=True)
        group.create_dataset("flag", data=random.random(ROWS) < 0.5)
        plain = file.create_group("plain", track_order=True)
        for name in ("x", "n"):
            plain[name] = group[name][()]
    return path


@pytest.fixture(scope="module")
def memory(path: Path) -> pa.Table:
    """The same columns in memory, read by h5py."""
    with h5py.File(path) as file:
        group = file["g"]
        columns = {name: group[name][()] for name in ("x", "n", "id", "be", "word", "flag")}
    columns["be"] = columns["be"].astype("<f8")
    columns["word"] = [word.decode() for word in columns["word"]]
    return pa.table(columns)


@pytest.fixture
def table(path: Path) -> Iterator[hyperchunk.Table]:
    with hyperchunk.open(path) as file:
        yield file.table("g", columns=["x", "n", "id", "be", "word", "flag"])


class Spy:
    """Records the columns and rows that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from hyperchunk.arrow.table import Table

        self.selected: list[list[str]] = []
        select = Table.select

        def spied(table: Table, columns: Any) -> Table:
            self.selected.append(list(columns))
            return select(table, columns)

        monkeypatch.setattr(Table, "select", spied)


QUERIES = (
    "count(*), sum(n) from t",
    "count(*) from t where n > 500",
    "sum(be), min(id), max(id) from t where n between 100 and 200 and id < 30000",
    "count(*) from t where x > 0.5",
    "count(*) from t where x <= 0.5",
    "count(*), sum(id) from t where x = 'nan'::float",
    "word, count(*), sum(n) from t where word <> 'one' group by word order by word",
    "id, x, word from t where n = 7 or (n < 3 and be > 0.5) order by id limit 20",
    "count(*) from t where n in (1, 5, 700) and flag",
    "id from t where not flag and word in ('two', 'three') order by id desc limit 5",
    "count(*) from t where x is null",
    "sum(id) from t where word like 't%'",
)


@pytest.mark.parametrize("query", QUERIES)
def test_duckdb(query: str, table: hyperchunk.Table, memory: pa.Table) -> None:
    answers = []
    for t in (table, table.to_dataset(), table.to_pyarrow(), memory):
        found = duckdb.sql(f"select {query}").fetchall()
        answers.append([tuple(str(value) for value in row) for row in found])
        assert t is not None
    # As plain pyarrow datasets, whose comparisons of NaN equal ours; DuckDB itself compares them differently.
    assert answers[0] == answers[1] == answers[2] == answers[3]


def test_duckdb_asks_for_what_it_needs(table: hyperchunk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    scans: list[tuple[list[str], list[str]]] = []
    t = table.to_dataset()
    chosen = type(t)._filtered_batches

    def spied(dataset: Any, names: list[str], filter: Any) -> Any:
        scans.append((dataset._needed_columns([], filter), names))
        return chosen(dataset, names, filter)

    monkeypatch.setattr(type(t), "_filtered_batches", spied)
    duckdb.sql("select sum(be) from t").fetchall()
    assert spy.selected == [["be"]]
    duckdb.sql("select sum(be) from t where n < 10 and id > 20").fetchall()
    # Comparisons with numbers are evaluated here, and the rest by pyarrow.
    assert scans == []
    assert table.scanned is not None
    assert table.scanned.fused
    duckdb.sql("select sum(be) from t where word < 'p' and id > 20").fetchall()
    assert scans == [(["id", "word"], ["be"])]
    assert not table.scanned.fused


def test_cells_and_halves(tmp_path: Path) -> None:
    cells = np.arange(24, dtype="f4").reshape(4, 2, 3)
    with h5py.File(tmp_path / "h.h5", "w") as file:
        file["cell"], file["half"] = cells, np.arange(4, dtype="f2") / 2
    file = hyperchunk.open(tmp_path / "h.h5")
    t = file.table(cells="list", half="float32")  # noqa: F841 -- DuckDB finds it
    assert duckdb.sql("select cell[2][3], half from t").fetchall() == [
        (float(cell[1, 2]), number / 2) for number, cell in enumerate(cells)
    ]
    assert file.table().schema.field("half").type == pa.float16()
    np.testing.assert_array_equal(file.table().to_numpy()["half"], np.arange(4, dtype="f2") / 2)
    frame = hyperchunk.scan_hyperchunk(file).collect()
    assert frame.schema["cell"] == pl.Array(pl.Float32, (2, 3))
    np.testing.assert_array_equal(frame["cell"].to_numpy(), cells)


# --- polars ---

PREDICATES = (
    pl.col("n") > 500,
    (pl.col("x") > 0.1) & (pl.col("word") != "one"),
    pl.col("x").is_nan(),
    pl.col("id").is_between(17, 3500) | pl.col("flag"),
    pl.col("n") == pl.col("id"),
    pl.lit(True),
    pl.col("n") < -5,
)


@pytest.mark.parametrize("number", range(len(PREDICATES)))
@pytest.mark.parametrize("group", ["g", "plain"])
def test_polars(number: int, group: str, path: Path, memory: pa.Table) -> None:
    predicate = PREDICATES[number]
    names = ["x", "n"] if group == "plain" else ["x", "n", "id", "be", "word", "flag"]
    if not set(predicate.meta.root_names()) <= set(names):
        return
    expected = pl.DataFrame(memory.select(names))
    lazy = hyperchunk.scan_hyperchunk(path, group, columns=names)
    assert lazy.collect_schema().names() == names
    for query in (
        lambda frame: frame.filter(predicate),
        lambda frame: frame.filter(predicate).select("n"),
        lambda frame: frame.filter(predicate).select(pl.len(), pl.col("x").sum()),
        lambda frame: frame.head(1234).filter(predicate),
        lambda frame: frame.filter(predicate).head(1234).select("x"),
        lambda frame: frame.slice(777, 99),
        lambda frame: frame.tail(3),
    ):
        found, wanted = query(lazy).collect(), query(expected.lazy()).collect()
        assert_frame_equal(found, wanted.cast(found.schema))
        assert_frame_equal(query(lazy).collect(engine="streaming"), found, check_row_order=False)


def test_polars_asks_for_what_it_needs(table: hyperchunk.Table, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    lazy = hyperchunk.scan_hyperchunk(table)
    assert lazy.select("be").collect().shape == (ROWS, 1)
    assert spy.selected == [["be"]]
    assert "SELECTION" in lazy.filter(pl.col("n") > 5).select("be").explain()
    assert lazy.head(10).collect().height == 10
    with pytest.raises(TypeError, match="cannot be combined"):
        hyperchunk.scan_hyperchunk(table, cells="list")
    with hyperchunk.open(path) as file, pytest.raises(TypeError, match="for opening"):
        hyperchunk.scan_hyperchunk(file, "g", threads=1)


def test_polars_through_pyarrow(table: hyperchunk.Table, memory: pa.Table) -> None:
    lazy = pl.scan_pyarrow_dataset(table.to_dataset())
    query = lambda frame: frame.filter((pl.col("n") > 990) & (pl.col("be") < 0.5)).select("id", "word")  # noqa: E731
    assert_frame_equal(
        query(lazy).collect(), query(pl.DataFrame(memory).lazy()).collect().cast(query(lazy).collect().schema)
    )


# --- pyarrow ---


@st.composite
def expressions(draw: st.DrawFn) -> ds.Expression:
    """Draws expressions over the existing columns."""
    field = pc.field
    leaf = st.one_of(
        st.builds(lambda value: field("n") > value, st.integers(-10, 1010)),
        st.builds(lambda value: field("id") <= value, st.integers(0, ROWS)),
        st.builds(lambda value: field("x") < value, st.floats(-2, 2, width=32)),
        st.builds(lambda value: field("be") >= value, st.floats(0, 1)),
        st.builds(
            lambda words: field("word").isin(words), st.lists(st.sampled_from(["one", "two", "six"]), min_size=1)
        ),
        st.just(field("flag").cast(pa.bool_())),
        st.just(field("x").is_nan()),
        st.just(field("word").is_valid()),
    )
    return draw(
        st.recursive(
            leaf,
            lambda inner: st.one_of(
                st.builds(lambda a, b: a & b, inner, inner),
                st.builds(lambda a, b: a | b, inner, inner),
                st.builds(lambda a: ~a, inner),
            ),
            max_leaves=5,
        )
    )


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    filter=expressions(),
    columns=st.lists(st.sampled_from(["x", "n", "id", "be", "word"]), unique=True, min_size=1),
    batch=st.sampled_from([None, 100, 5000]),
)
def test_filters_of_pyarrow(
    filter: ds.Expression, columns: list[str], batch: int | None, table: hyperchunk.Table, memory: pa.Table
) -> None:
    dataset, plain = table.to_dataset(), ds.dataset(memory)
    wanted = plain.to_table(columns=columns, filter=filter)
    options = {} if batch is None else {"batch_size": batch}
    found = dataset.to_table(columns=columns, filter=filter, **options)
    assert found.column_names == columns
    for name in columns:
        a, b = (one[name].to_numpy() for one in (found, wanted))
        np.testing.assert_array_equal(a, b)
    assert dataset.count_rows(filter) == wanted.num_rows
    assert dataset.head(5, columns=columns, filter=filter).num_rows == min(5, wanted.num_rows)


def test_a_dataset_of_pyarrow(table: hyperchunk.Table, memory: pa.Table) -> None:
    dataset = table.to_dataset()
    assert isinstance(dataset, ds.Dataset)
    assert dataset.schema.names == memory.column_names
    assert dataset.count_rows() == ROWS
    assert dataset.head(3)["id"].to_pylist() == [0, 1, 2]
    assert dataset.take([5, 3, 39_999], columns=["id"])["id"].to_pylist() == [5, 3, 39_999]
    made = dataset.to_table(columns={"double": pc.field("n") * 2, "id": pc.field("id")}, filter=pc.field("id") < 3)
    assert made["double"].to_pylist() == [2 * n for n in memory["n"].to_pylist()[:3]]
    assert sum(batch.num_rows for batch in dataset.to_batches(columns=["id"], batch_size=1000)) == ROWS
    assert dataset.scanner(columns=[]).count_rows() == ROWS
    assert dataset.sort_by([("id", "descending")]).head(1)["id"].to_pylist() == [ROWS - 1]
    assert str(dataset.partition_expression) == "true"
    with pytest.raises((pa.ArrowInvalid, KeyError)):
        dataset.to_table(columns=["nothing"])
    with pytest.raises((pa.ArrowInvalid, KeyError)):
        dataset.to_table(filter=pc.field("nothing") > 3)
    few = dataset.filter(pc.field("n") > 1).filter(pc.field("id") < 10)
    assert few.count_rows() == memory.filter((pc.field("n") > 1) & (pc.field("id") < 10)).num_rows
    assert few.count_rows(pc.field("id") < 0) == 0
    for wrong in (dataset.get_fragments, lambda: dataset.replace_schema(None)):
        with pytest.raises(NotImplementedError):
            wrong()
    repr(dataset)


def test_what_an_expression_mentions(tmp_path: Path) -> None:
    """Columns whose names are only parts of other words are not read."""
    with h5py.File(tmp_path / "names.h5", "w") as file:
        for name in ("a", "b", "is_valid", "a b", "(a > 1)", "and", "ü"):
            file[name] = np.arange(5)
    dataset = hyperchunk.open(tmp_path / "names.h5").table().to_dataset()
    assert dataset._needed_columns([], (pc.field("b") > 1) & pc.field("b").is_valid()) == ["b"]
    assert dataset._needed_columns(["a"], pc.field("(a > 1)") > 1) == ["(a > 1)", "a"]
    assert dataset._needed_columns([], pc.field("a b") > 1) == ["a b"]
    assert dataset._needed_columns([], pc.field("ü") > 1) == ["ü"]
    # Columns referred to by number must keep their positions.
    assert dataset._needed_columns(["b"], pc.field(0) > 1) == dataset.schema.names
    assert dataset.to_table(columns=["b"], filter=pc.field(0) > 3)["b"].to_pylist() == [4]
    assert dataset.to_table(columns=["ü"], filter=pc.field("and") > 3)["ü"].to_pylist() == [4]


# --- pandas, and no library ---


def test_pandas(table: hyperchunk.Table, memory: pa.Table) -> None:
    frame = table.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    for name in ("x", "n", "id", "be"):
        np.testing.assert_array_equal(frame[name].to_numpy(), memory[name].to_numpy())
    assert frame["word"].tolist() == memory["word"].to_pylist()


@pytest.mark.parametrize(
    ("package", "use"),
    [
        ("pyarrow", lambda t: t.to_pyarrow()),
        ("pyarrow", lambda t: t.to_dataset()),
        ("pyarrow", lambda t: t.schema),
        ("polars", lambda t: t.to_polars()),
        ("polars", hyperchunk.scan_hyperchunk),
        ("pandas", lambda t: t.to_pandas()),
    ],
)
def test_what_is_not_installed(
    package: str, use: Any, table: hyperchunk.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return original(name, *args, **options)

    import importlib

    load = importlib.import_module
    monkeypatch.setattr(
        importlib,
        "import_module",
        lambda name, *rest: refuse(name) if name.partition(".")[0] == package else load(name, *rest),
    )
    monkeypatch.setattr(builtins, "__import__", refuse)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match=f"pip install {package}"):
        use(table)


def test_the_example(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "arrow" / "query.py"
    done = subprocess.run(
        [sys.executable, str(example), str(tmp_path / "new.h5")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "fast ones" in done.stdout


def test_groups_that_a_file_cannot_have_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(4)
        for number in range(5):
            file[f"g{number}/y"] = np.arange(3)
    words = [HYPERCHUNK, "arrow", "export", "a.h5", "x.parquet"]
    done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "note: the groups g0, g1, g2 and 2 more are left out; export to a folder for all" in done.stderr
    words = [HYPERCHUNK, "arrow", "export", "a.h5:/g1", "y.parquet"]
    done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stderr == ""
