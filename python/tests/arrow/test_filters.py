"""Filters evaluated on stored values: the results equal those of pyarrow and DuckDB in memory, and the fast path was
used.
"""

from __future__ import annotations

import copy
import inspect
import operator
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import h5py
import hyperchunk
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hyperchunk.arrow import duckdb as ours
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# More than one block of rows, and a remainder.
ROWS = 50_001
TYPES = ["<f4", ">f4", "<f8", ">f8", "i1", "<i2", ">i2", "<i4", "<i8", ">i8", "u1", "<u2", "<u4", "<u8", ">u8"]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


def made(dtype: str, seed: int) -> Any:
    """Makes few distinct values with repeats, and runs of equal values."""
    random, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind == "f":
        info = np.finfo(kind)
        few = [0, -0.0, 1, -1, 0.5, 2.5, 7, np.nan, np.inf, -np.inf, info.max, info.min, info.tiny, info.tiny / 2]
    else:
        ends = np.iinfo(kind)
        few = [0, 1, 2, 7, ends.max, ends.max - 1, ends.min, ends.min + 1]
    values = np.array(few, kind)[random.integers(0, len(few), ROWS)]
    values[16_000:40_000] = 7
    return values


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filters") / "filters.h5"
    with h5py.File(path, "w", track_order=True) as file:
        for name in ("t", "packed"):
            group = file.create_group(name, track_order=True)
            options: dict[str, Any] = {} if name == "t" else {"chunks": (7000,), "compression": 1}
            for number, dtype in enumerate(TYPES):
                group.create_dataset(f"c{number}", data=made(dtype, number), **options)
            group.create_dataset("word", data=np.array([b"one", b"two"])[np.arange(ROWS) % 2])
            group.create_dataset("cell", data=np.arange(ROWS * 2, dtype="f4").reshape(ROWS, 2))
            group.create_dataset("half", data=(np.arange(ROWS) % 100).astype("f2"))
            group.create_dataset("flag", data=np.arange(ROWS) % 3 == 0)
            group.create_dataset("row", data=np.arange(ROWS, dtype="i4"))
    return path


@pytest.fixture(scope="module", params=["t", "packed"])
def table(path: Path, request: pytest.FixtureRequest) -> Iterator[hyperchunk.Table]:
    with hyperchunk.open(path) as file:
        yield file.table(request.param, cells="list", half="float32")


@pytest.fixture(scope="module")
def memory(path: Path) -> pa.Table:
    with h5py.File(path) as file:
        columns = {f"c{number}": file[f"t/c{number}"][()] for number in range(len(TYPES))}
        columns = {name: values.astype(values.dtype.newbyteorder("=")) for name, values in columns.items()}
        return pa.table(columns | {"row": file["t/row"][()]})


def numbers(dtype: str) -> st.SearchStrategy[Any]:
    """Draws numbers of a type."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        exact = st.floats(width=8 * kind.itemsize, allow_nan=False)  # type: ignore[arg-type]
        return st.one_of(st.sampled_from([0.0, -0.0, 0.5, 7.0, float("inf"), float("-inf")]), exact)
    ends = np.iinfo(kind)
    inside = st.integers(int(ends.min), int(ends.max))
    return st.one_of(st.sampled_from([0, 1, 7, int(ends.min), int(ends.max)]), inside)


@st.composite
def terms(draw: st.DrawFn) -> Any:
    """Draws comparisons of columns with numbers of their types, and logical combinations of them."""
    columns = st.integers(0, len(TYPES) - 1)
    leaf = columns.flatmap(
        lambda number: st.tuples(st.just(f"c{number}"), st.sampled_from(sorted(OPERATORS)), numbers(TYPES[number]))
    )
    nested = st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)
        ),
        max_leaves=4,
    )
    return draw(nested)


def joined(term: Any, leaf: Callable[[str, str, Any], Any], words: dict[str, Callable[..., Any]]) -> Any:
    match term:
        case ("not" | "and" | "or" as word, *parts):
            return words[word](*(joined(part, leaf, words) for part in parts))
        case (name, kind, value):
            return leaf(name, kind, value)
    raise AssertionError(term)


def types_of(name: str) -> str:
    return TYPES[int(name[1:])]


def expression(term: Any) -> Any:
    """Converts a term to a pyarrow filter, with values of the columns' types."""

    def leaf(name: str, kind: str, value: Any) -> Any:
        own = pa.from_numpy_dtype(np.dtype(types_of(name)).newbyteorder("="))
        return OPERATORS[kind](pc.field(name), pa.scalar(value, own))

    return joined(term, leaf, {"not": operator.inv, "and": operator.and_, "or": operator.or_})


def sql(term: Any) -> str:
    def leaf(name: str, kind: str, value: Any) -> str:
        if isinstance(value, float):
            written = "float" if "f4" in types_of(name) else "double"
            return f"{name} {kind} '{value!r}'::{written}"
        return f"{name} {kind} {value}"

    words = {"not": "(not {})".format, "and": "({} and {})".format, "or": "({} or {})".format}
    found: str = joined(term, leaf, words)
    return found


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(terms(), st.sampled_from([["row"], ["row", "c4"], ["c2", "row", "word"], []]), st.sampled_from([None, 1000]))
def test_as_pyarrow_finds(
    table: hyperchunk.Table, memory: pa.Table, term: Any, wanted: list[str], batch: int | None
) -> None:
    filter = expression(term)
    rows = memory.filter(filter)["row"].to_numpy()
    dataset = table.to_dataset()
    options = {} if batch is None else {"batch_size": batch}
    found = dataset.to_table(columns=wanted, filter=filter, **options)
    assert table.scanned is not None
    assert table.scanned.fused, term
    assert found.column_names == wanted
    assert dataset.count_rows(filter) == len(rows)
    for name in wanted:
        expected = memory["row" if name == "word" else name].to_numpy()[rows]
        if name == "word":
            assert found[name].to_pylist() == [("one", "two")[row % 2] for row in rows.tolist()]
        else:
            np.testing.assert_array_equal(found[name].to_numpy(), expected, err_msg=str(term))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(terms())
def test_as_duckdb_finds(table: hyperchunk.Table, memory: pa.Table, term: Any) -> None:
    condition, t = sql(term), table
    assert t is not None
    for wanted in ("count(*)", "row", "row, c1, c4, c14"):
        asked = f"select {wanted} from {{}} where {condition}"
        expected = duckdb.sql(asked.format("memory")).to_arrow_table()
        found = duckdb.sql(asked.format("t")).to_arrow_table()
        for name in expected.column_names:
            np.testing.assert_array_equal(found[name].to_numpy(), expected[name].to_numpy(), err_msg=condition)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(terms())
def test_as_polars_finds(path: Path, memory: pa.Table, term: Any) -> None:
    def leaf(name: str, kind: str, value: Any) -> Any:
        own = pl.Series(np.array([value], np.dtype(types_of(name)).newbyteorder("="))).dtype
        return OPERATORS[kind](pl.col(name), pl.lit(value, own))

    predicate = joined(term, leaf, {"not": operator.inv, "and": operator.and_, "or": operator.or_})
    expected = pl.DataFrame(memory).filter(predicate).select("row", "c0", "c14")
    with hyperchunk.open(path) as file:
        packed = file.table("packed")
        found = hyperchunk.scan_hyperchunk(packed).filter(predicate).select("row", "c0", "c14").collect()
        assert found.equals(expected, null_equal=True), term
        if packed.scanned is not None:
            # Infinity is serialized as null, which is not supported here.
            assert packed.scanned.fused or "inf" in str(term), term


@pytest.mark.parametrize(
    ("predicate", "here"),
    [
        (pl.col("row").is_between(10, 40_000), True),
        (pl.col("row").is_between(10, 40_000, closed="none"), True),
        (pl.col("row").is_in([1, 5, 50_000]), True),
        (~pl.col("row").is_in([1, 5, 50_000]), True),
        (pl.col("c0").is_nan(), True),
        (pl.col("c0").is_not_nan() & (pl.col("row") > 7), True),
        (pl.col("c0") > 0.5, True),
        (pl.lit(7) > pl.col("row"), True),
        (pl.col("row") + 1 > 7, False),
        (pl.col("word") == "one", False),
        (pl.col("c0") > pl.col("c1"), False),
    ],
    ids=str,
)
def test_what_polars_leaves_to_the_table(path: Path, predicate: pl.Expr, here: bool) -> None:
    with hyperchunk.open(path) as file:
        packed = file.table("packed", half="float32")
        expected = packed.to_polars().filter(predicate).select("row", "word")
        found = hyperchunk.scan_hyperchunk(packed).filter(predicate).select("row", "word").collect()
        assert found.equals(expected)
        assert packed.scanned is not None
        assert packed.scanned.fused == here


@pytest.mark.parametrize("number", range(len(TYPES)))
def test_duckdb_leaves_comparisons_to_the_table(table: hyperchunk.Table, memory: pa.Table, number: int) -> None:
    """DuckDB pushes down every comparison, including `>` and `!=` of floating-point numbers."""
    t, m = table, memory
    for kind in OPERATORS:
        value = 7 if "f" not in TYPES[number] else f"7::{'float' if 'f4' in TYPES[number] else 'double'}"
        asked = f"select count(*), sum(row) from {{}} where c{number} {kind} {value} and row >= 10"
        t._scans.clear()
        assert duckdb.sql(asked.format("t")).fetchall() == duckdb.sql(asked.format("m")).fetchall()
        assert t.scanned is not None, kind
        assert t.scanned.fused, kind
        assert m is not None


@pytest.mark.parametrize(
    ("condition", "here"),
    [
        ("row in (1, 5, 49999, 50000)", True),
        ("not row in (1, 5)", True),
        ("c0 in (0::float, 7::float, 0.5::float)", True),
        ("c0 in (0, 7, 'inf'::float)", False),
        ("row between 10 and 20 or row > 49990", True),
        ("row is null", True),
        ("row is not null and row < 5", True),
        ("c0 > 'nan'::float", False),
        ("c0 >= 'nan'::float", False),
        ("c0 = 'nan'::float", False),
        ("isnan(c0)", False),
        ("row + c4 > 3", False),
        ("c0 > c1", False),
        ("word = 'one'", False),
        ("word = 'one' and row < 9", True),
        ("flag and row < 100", True),
        ("flag", False),
        ("half < 3", True),
    ],
)
def test_what_duckdb_leaves_to_the_table(table: hyperchunk.Table, condition: str, here: bool) -> None:
    t, whole = table, table.to_pyarrow()
    asked = f"select row from {{}} where {condition} order by row"
    expected = duckdb.sql(asked.format("whole")).fetchall()
    assert whole.num_rows == ROWS
    table._scans.clear()
    assert duckdb.sql(asked.format("t")).fetchall() == expected
    assert (t.scanned is not None and t.scanned.fused) == here


@pytest.mark.parametrize(
    ("filter", "here"),
    [
        (pc.field("row") > 7, True),
        (pc.scalar(7) > pc.field("row"), True),
        (pc.field("c0") > 0.1, True),
        (pc.field("c0") == 0.1, True),
        (pc.field("c0") <= 2**24, True),
        (pc.field("c0") <= 2**24 + 1, False),
        (pc.field("c2") <= 2**53, True),
        (pc.field("c4") > 1000, False),
        (pc.field("c4") > -1000, False),
        (pc.field("row") > 0.5, False),
        (pc.field("c13") > -1, False),
        (pc.field("c13") > pa.scalar(2**64 - 2, pa.uint64()), True),
        (pc.field("row").isin(pa.array([1, 2, 3], pa.int32())), True),
        (~pc.field("row").isin(pa.array([1, 2, 3], pa.int32())), True),
        (pc.field("c0").isin(pa.array([1, 2.5], pa.float32())), True),
        (pc.field("c0").isin(pa.array([0.0], pa.float32())), False),
        (pc.field("c0").isin(pa.array([-0.0, 1], pa.float32())), False),
        (pc.field("c0").isin(pa.array([np.nan], pa.float32())), False),
        (pc.field("row").is_null(), True),
        (pc.field("c0").is_null(nan_is_null=True), False),
        (pc.field("row").is_valid() & (pc.field("row") < 4), True),
        (pc.field("c0").is_nan(), False),
        (pc.field("c0") == float("nan"), False),
        (pc.field("row") > pc.scalar(None), False),
        (pc.field("row") + 1 > 7, False),
        (pc.field("row").cast("int64") > 7, False),
        (pc.field("c0") > pc.field("c1"), False),
        (pc.field("word") == "one", False),
        ((pc.field("row") > 7) & pc.scalar(True), True),
        ((pc.field("row") > 7) | pc.scalar(False), True),
        (pc.scalar(True), False),
        (pc.field("half") > 50, True),
        (pc.if_else(pc.field("row") > 7, pc.scalar(True), pc.scalar(False)), False),
    ],
    ids=str,
)
def test_what_is_evaluated_here(table: hyperchunk.Table, filter: Any, here: bool) -> None:
    whole = table.to_pyarrow()
    table._scans.clear()
    try:
        expected = whole.filter(filter)["row"].to_pylist()
    except pa.ArrowException as error:
        # Filters that pyarrow refuses are refused.
        with pytest.raises(type(error)):
            table.to_dataset().to_table(columns=["row"], filter=filter)
    else:
        assert table.to_dataset().to_table(columns=["row"], filter=filter)["row"].to_pylist() == expected
    assert (table.scanned is not None and table.scanned.fused) == here


def test_rows_that_are_all_wanted_are_not_copied(path: Path) -> None:
    with hyperchunk.open(path) as file:
        table = file.table("t")
        # `c0` is 7 throughout the middle, and occasionally elsewhere.
        reader = table.to_dataset().scanner(columns=["c0", "row"], filter=pc.field("c0") == 7).to_reader()
        batches = list(reader)
        maps = table._core.mapped_memory()

        def mapped(batch: pa.RecordBatch) -> bool:
            address = batch.column(0).buffers()[1].address
            return any(start <= address < end for start, end in maps)

        lengths = [len(batch) for batch in batches if mapped(batch)]
        assert lengths == [16_384], "the block that has nothing else"
        rows = np.concatenate([batch.column(1).to_numpy() for batch in batches])
        np.testing.assert_array_equal(rows, np.flatnonzero(made("<f4", 0) == 7))


def test_batches_that_are_kept_stay_as_they_are(tmp_path: Path) -> None:
    """Buffers are reused only after the last reference to them is gone."""
    count = 1_000_000
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.arange(count, dtype="i4")
        file["b"] = np.arange(count, dtype="i8") % 3
    dataset = hyperchunk.open(tmp_path / "a.h5").table().to_dataset()
    kept = list(dataset.scanner(columns=["a"], filter=pc.field("b") == 1).to_reader())
    assert len(kept) > 3
    addresses = {batch.column(0).buffers()[1].address for batch in kept}
    assert len(addresses) == len(kept)
    np.testing.assert_array_equal(np.concatenate([one.column(0).to_numpy() for one in kept]), np.arange(1, count, 3))
    seen = []
    for batch in dataset.scanner(columns=["a"], filter=pc.field("b") == 1).to_reader():
        seen.append(batch.column(0).buffers()[1].address)
        del batch
    assert len(set(seen)) < len(seen)


def test_a_scanner(table: hyperchunk.Table, memory: pa.Table) -> None:
    filter = pc.field("c4") > pc.field("c10")
    for chosen in (None, filter, pc.field("row") < 11):
        scanner = table.to_dataset().scanner(columns=["row", "c4"], filter=chosen)
        plain = ds.dataset(memory).scanner(columns=["row", "c4"], filter=chosen)
        assert isinstance(scanner, ds.Scanner)
        assert scanner.projected_schema.names == ["row", "c4"]
        assert scanner.dataset_schema.names == table.column_names
        for _ in range(2):
            assert scanner.to_table()["row"].to_pylist() == plain.to_table()["row"].to_pylist()
        assert scanner.count_rows() == plain.count_rows()
        assert scanner.head(7)["c4"].to_pylist() == plain.head(7)["c4"].to_pylist()
        assert scanner.head(0).num_rows == 0
        assert scanner.take([3, 1])["row"].to_pylist() == plain.take([3, 1])["row"].to_pylist()
        assert sum(len(batch) for batch in scanner.to_batches()) == plain.count_rows()
        assert sum(len(tagged.record_batch) for tagged in scanner.scan_batches()) == plain.count_rows()
        assert "row" in repr(scanner)


def test_duckdb_stops_when_it_has_enough(table: hyperchunk.Table) -> None:
    t = table
    for _ in range(3):
        assert t is not None
        assert len(duckdb.sql("select row from t where c4 != 7 limit 3").fetchall()) == 3
    with duckdb.connect() as one:
        one.register("mine", table)
        assert one.sql("select count(*) from mine where row < 10").fetchall() == [(10,)]
        both = "select count(*) from mine a join mine b using (row) where a.row < 100 and b.c4 = 7"
        expected = int(np.count_nonzero(made("i1", 4)[:100] == 7))
        assert one.sql(both).fetchall() == [(expected,)]


# --- The class of a table ---


def test_a_table_is_a_table(table: hyperchunk.Table) -> None:
    assert type(table) is hyperchunk.Table
    assert isinstance(table, hyperchunk.Table)
    assert issubclass(table.__class__, hyperchunk.Table)
    assert not isinstance(table, ds.Dataset)
    assert len(copy.copy(table)) == ROWS
    with pytest.raises(AttributeError, match="nothing"):
        table.nothing  # noqa: B018


def test_the_protocol_is_the_one_that_is_known() -> None:
    """If DuckDB's interface changes, tables become streams for it; this test detects the change."""
    from duckdb._sources import ArrowScanSource, nodes

    assert ours.source_class(hyperchunk.Table) is not None
    theirs = {name for name in vars(ArrowScanSource) | vars(ArrowScanSource.__mro__[1]) if not name.startswith("_")}
    assert theirs <= ours.NAMES
    assert {name for name, one in vars(nodes).items() if inspect.isclass(one) and issubclass(one, nodes.Node)} == {
        *("Node", "Col", "Lit", "Binary", "Unary", "Postfix", "In")
    }


def test_a_duckdb_that_asks_otherwise(table: hyperchunk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from duckdb._sources import ArrowScanSource

    class Other(ArrowScanSource):
        def stream(self, columns: Any, filters: Any, order: Any) -> Any:  # type: ignore[override]
            raise AssertionError

    monkeypatch.setattr(sys.modules["duckdb._sources"], "ArrowScanSource", Other)
    assert table.__class__ is hyperchunk.Table
    t = table
    t._scans.clear()
    assert duckdb.sql("select count(*) from t where row < 10").fetchall() == [(10,)]
    assert t.scanned is None


def test_without_duckdb(path: Path) -> None:
    """Using a table does not import DuckDB."""
    code = f"""
import sys, hyperchunk
t = hyperchunk.open({str(path)!r}).table("t", half="float32")
assert t.__class__ is hyperchunk.Table and not hasattr(t, "stream")
assert "duckdb" not in sys.modules
import duckdb
assert duckdb.sql("select count(*) from t where row < 10").fetchall() == [(10,)]
assert t.scanned.fused
"""
    subprocess.run([sys.executable, "-c", code], check=True)
