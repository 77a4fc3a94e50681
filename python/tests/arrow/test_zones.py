"""Filters of pyarrow, DuckDB and polars over zone statistics: excluded rows are not read, no matching row is lost."""

import operator
import warnings
from collections.abc import Callable
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
from hyperchunk import store
from hypothesis import given, settings
from hypothesis import strategies as st

ROWS = 400
SPECIAL = [np.nan, np.inf, -np.inf, -0.0]
TYPES = ["<f4", ">f4", "<f8", ">f8", "i1", ">i2", "<i4", "<i8", ">i8", "u1", "<u4", ">u8"]
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


def numbers(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    """Draws numbers of a type, mostly from a few repeated values."""
    if dtype.kind == "f":
        exact = st.floats(width=8 * dtype.itemsize)  # type: ignore[arg-type]
        return st.one_of(st.integers(-3, 12).map(float), st.sampled_from(SPECIAL), exact)
    info = np.iinfo(dtype)
    few = st.integers(max(-3, info.min), 12)
    return st.one_of(few, few, st.sampled_from([info.min, info.max, info.max - 1]))


def make_store(path: Path, columns: dict[str, np.dtype[Any]], draw: Any) -> None:
    """Makes a store with several overlapping writers, some without statistics, and with unwritten parts."""
    fill = draw(st.sampled_from([None, 7, 100]))
    definitions = {
        f"/t/{name}": store.Dataset(
            ROWS,
            dtype,
            fillvalue=fill,
            chunks=draw(st.sampled_from([None, (64,)])) and (64,),
            maxshape=None,
        )
        for name, dtype in columns.items()
    }
    run = store.create(path, definitions, statistics=True, sync="never")
    for _ in range(draw(st.integers(1, 2))):
        writers = [store.open(path).writer(statistics=draw(st.sampled_from([True, True, False]))) for _ in range(2)]
        for writer in writers:
            for name, dtype in columns.items():
                for _ in range(draw(st.integers(0, 3))):
                    start = draw(st.integers(0, ROWS - 1))
                    stop = draw(st.integers(start + 1, ROWS))
                    values = draw(st.lists(numbers(dtype), min_size=1, max_size=6))
                    writer[f"t/{name}"][start:stop] = np.resize(np.array(values, dtype), stop - start)
            writer.close()
        with warnings.catch_warnings():
            # Random writes of two writers may overlap.
            warnings.simplefilter("ignore", store.StoreWarning)
            run.commit(on_conflict="warn")


def make_plain(path: Path, columns: dict[str, np.dtype[Any]], draw: Any) -> None:
    """Makes a plain file with statistics beside it, contiguous or chunked with some chunks missing."""
    with h5py.File(path, "w") as file:
        for name, dtype in columns.items():
            options: dict[str, Any] = {"fillvalue": draw(st.sampled_from([None, 7]))}
            if draw(st.booleans()):
                options |= {"chunks": (draw(st.sampled_from([32, 50, 400])),)}
                options |= {"compression": draw(st.sampled_from([None, "gzip"]))}
            dataset = file.create_dataset(f"t/{name}", ROWS, dtype, **options)
            for _ in range(draw(st.integers(0, 3))):
                start = draw(st.integers(0, ROWS - 1))
                stop = draw(st.integers(start + 1, ROWS))
                values = draw(st.lists(numbers(dtype), min_size=1, max_size=6))
                dataset[start:stop] = np.resize(np.array(values, dtype), stop - start)
    hyperchunk.analyze(path)


def literal(draw: Any, dtype: np.dtype[Any]) -> Any:
    """Draws a value for a comparison with a column, not necessarily of its type."""
    values = [np.array([draw(numbers(dtype))], dtype)[0].item(), draw(st.integers(-2, 12)), 0.1, 2.5]
    return draw(st.sampled_from(values))


def leaf(draw: Any, columns: dict[str, np.dtype[Any]]) -> tuple[str, str, Any]:
    name = draw(st.sampled_from(sorted(columns)))
    kinds = [*COMPARISONS, "in", "isnan", "between"] if columns[name].kind == "f" else [*COMPARISONS, "in", "between"]
    kind = draw(st.sampled_from(kinds))
    if kind == "in":
        own = st.lists(numbers(columns[name]), min_size=1, max_size=3)
        return name, kind, [np.array([value], columns[name])[0].item() for value in draw(own)]
    if kind == "between":
        return name, kind, [literal(draw, columns[name]), literal(draw, columns[name])]
    return name, kind, literal(draw, columns[name])


def of(term: Any, column: Callable[[str], Any], kinds: dict[str, Callable[[Any, Any], Any]]) -> Any:
    """Converts a predicate to the form of a library."""
    match term:
        case ("and", one, other):
            return of(one, column, kinds) & of(other, column, kinds)
        case ("or", one, other):
            return of(one, column, kinds) | of(other, column, kinds)
        case ("not", one):
            return ~of(one, column, kinds)
        case (name, kind, value):
            return kinds[kind](column(name), value)
    raise AssertionError(term)


ARROW = COMPARISONS | {
    "in": lambda column, values: column.isin(values),
    "isnan": lambda column, _: column.is_nan(),
    "between": lambda column, ends: (column >= ends[0]) & (column <= ends[1]),
}
POLARS = COMPARISONS | {
    "in": lambda column, values: column.is_in(values),
    "isnan": lambda column, _: column.is_nan(),
    "between": lambda column, ends: column.is_between(*ends),
}


def sql(term: Any) -> str:
    """Converts a predicate to SQL."""

    def text(value: Any) -> str:
        return f"'{value}'::double" if isinstance(value, float) and not np.isfinite(value) else repr(value)

    match term:
        case ("and" | "or" as word, one, other):
            return f"({sql(one)} {word} {sql(other)})"
        case ("not", one):
            return f"(not {sql(one)})"
        case (name, "in", values):
            return f"({name} in ({', '.join(map(text, values))}))"
        case (name, "isnan", _):
            return f"isnan({name})"
        case (name, "between", ends):
            return f"({name} between {text(ends[0])} and {text(ends[1])})"
        case (name, kind, value):
            return f"({name} {kind} {text(value)})"
    raise AssertionError(term)


def answered(ask: Callable[[], Any]) -> Any:
    """Returns the result; or the error, if the library refuses to compare such values."""
    try:
        return ask()
    except (pa.ArrowException, pl.exceptions.PolarsError, duckdb.Error, OverflowError, TypeError) as error:
        return type(error)


@settings(max_examples=60, deadline=None)
@given(st.data())
@pytest.mark.parametrize("make", [make_store, make_plain])
def test_no_row_that_is_wanted_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, make: Callable[..., None], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("random") / "run.h5"
    draw = data.draw
    columns = {name: np.dtype(draw(st.sampled_from(TYPES))) for name in "ab"}
    make(path, columns, draw)
    with hyperchunk.open(path) as file:
        table = file["t"].table(mapped=draw(st.booleans()))
        table = table[draw(st.integers(0, 99)) : draw(st.integers(300, ROWS))]
        memory = table.to_pyarrow()
        frame = table.to_polars()
        dataset = table.to_dataset()
        scanned = hyperchunk.scan_hyperchunk(table)
        for _ in range(4):
            term: Any = leaf(draw, columns)
            for _ in range(draw(st.integers(0, 2))):
                word = draw(st.sampled_from(["and", "or", "not"]))
                term = ("not", term) if word == "not" else (word, term, leaf(draw, columns))
            check(term, memory, frame, dataset, scanned, table)


def check(
    term: Any, memory: pa.Table, frame: pl.DataFrame, dataset: Any, scanned: pl.LazyFrame, table: hyperchunk.Table
) -> None:
    """Checks that each library finds in our table the same rows as in one in memory."""
    expression = answered(lambda: of(term, pc.field, ARROW))
    if isinstance(expression, pc.Expression):
        expected = answered(lambda: memory.filter(expression))
        same(answered(lambda: dataset.to_table(filter=expression)), expected, term)
        if isinstance(expected, pa.Table):
            assert dataset.count_rows(expression) == expected.num_rows, term
    predicate = of(term, pl.col, POLARS)
    expected = answered(lambda: frame.lazy().filter(predicate).collect())
    if isinstance(expected, pl.DataFrame):
        found = answered(lambda: scanned.filter(predicate).collect())
        assert isinstance(found, pl.DataFrame), (term, found)
        assert found.equals(expected, null_equal=True), term

    def asked(t: Any) -> pa.Table:
        # DuckDB finds it by the variable's name.
        assert t is not None
        return duckdb.sql(f"select * from t where {sql(term)}").to_arrow_table()

    expected = answered(lambda: asked(memory))
    assert expected is not duckdb.CatalogException
    for ours in (dataset, table):
        same(answered(lambda ours=ours: asked(ours)), expected, term)  # type: ignore[misc]


def same(found: Any, expected: Any, term: Any) -> None:
    """Compares two tables, with NaN equal to itself. Where the library refuses to compare values, zones with such
    values may be skipped.
    """
    if not isinstance(expected, pa.Table):
        return
    assert isinstance(found, pa.Table), (term, found)
    for name in expected.column_names:
        np.testing.assert_array_equal(found[name].to_numpy(), expected[name].to_numpy(), err_msg=str(term))


@pytest.fixture(scope="module")
def waves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of four writers with a single high wave."""
    path = tmp_path_factory.mktemp("waves") / "run.h5"
    rows = 4_000_000
    types = {"h": "f4", "id": "i8", "t": ">f8", "word": "S4"}
    definitions = {f"/p/{name}": store.Dataset(rows, dtype) for name, dtype in types.items()}
    run = store.create(path, definitions, statistics=True, sync="never")
    values = np.random.default_rng(3).random(rows, "f4")
    values[2_900_000] = 25
    values[100] = np.nan
    for rank in range(4):
        part = slice(rank * rows // 4, (rank + 1) * rows // 4)
        with run.writer() as writer:
            writer["p/h"][part] = values[part]
            writer["p/id"][part] = np.arange(rows)[part]
            writer["p/t"][part] = np.arange(rows)[part] / 1000
            writer["p/word"][part] = np.full(rows // 4, f"w{rank}", "S4")
    run.commit()
    return path


def test_little_is_looked_at(waves: Path) -> None:
    with hyperchunk.open(waves) as file:
        table = file["p"].table(columns=["h", "id", "t"])
        assert table.scanned is None
        dataset = table.to_dataset()
        found = dataset.to_table(columns=["id"], filter=pc.field("h") > 20)
        assert found["id"].to_pylist() == [2_900_000]
        seen = table.scanned
        assert seen is not None
        assert seen.total == 4_000_000 * 12
        assert seen.bytes_candidate <= 2**18 * 12, "one zone"
        assert seen.unknown == 0
        assert seen.bytes_scanned < seen.total / 10
        assert str(seen.bytes_scanned) in repr(dataset.scanned)
        # Both columns have statistics, also the one of big-endian numbers.
        both = (pc.field("h") > 0.5) & (pc.field("t") < 100.5)
        assert dataset.count_rows(both) == np.count_nonzero(file["p/h"][:100_500] > 0.5)
        assert dataset.scanned.bytes_scanned < seen.total / 10
        # Nothing is read if no row can match.
        assert dataset.count_rows(pc.field("id") < 0) == 0
        assert dataset.scanned.bytes_candidate == 0
        assert dataset.scanned.bytes_scanned < 100_000, "of statistics alone"


def test_polars_looks_at_little(waves: Path) -> None:
    with hyperchunk.open(waves) as file:
        table = file["p"].table()
        lazy = hyperchunk.scan_hyperchunk(table)
        asked = lazy.filter(pl.col("id").is_between(2_000_000, 2_000_100)).select("h", "word")
        assert asked.collect().height == 101
        assert table.scanned is not None
        assert table.scanned.bytes_scanned < table.scanned.total / 10
        # polars orders NaN as the largest number.
        found = lazy.filter(pl.col("h") > 20).select("id").collect()["id"].to_list()
        assert found == [100, 2_900_000]
        assert table.scanned.bytes_scanned < table.scanned.total / 5
        assert lazy.filter(pl.col("word") == "w3").select(pl.len()).collect().item() == 1_000_000
        assert table.scanned.unknown == table.scanned.total
        assert lazy.select(pl.col("id").sum()).collect().item() == 4_000_000 * 3_999_999 // 2


def test_duckdb_looks_at_little(waves: Path) -> None:
    with hyperchunk.open(waves) as file:
        table = file["p"].table(columns=["h", "id"])
        dataset = table.to_dataset()
        assert duckdb.sql("select sum(h) > 0 from dataset where id between 3500000 and 3500010").fetchall() == [(True,)]
        assert table.scanned is not None
        assert table.scanned.bytes_scanned < table.scanned.total / 10
        assert duckdb.sql("select id from dataset where id in (7, 3999999)").fetchall() == [(7,), (3_999_999,)]
        assert table.scanned.bytes_scanned < table.scanned.total / 5
        # DuckDB orders NaN as the largest number, too.
        t = table
        assert duckdb.sql("select id from t where h > 20 order by id").fetchall() == [(100,), (2_900_000,)]
        assert t.scanned is not None
        assert t.scanned.fused
        assert t.scanned.bytes_scanned < t.scanned.total / 5
        # Through pyarrow, DuckDB compares NaN differently with `>`, so the filter is passed to pyarrow itself.
        big = dataset.filter(pc.field("h") > 20)
        assert duckdb.sql("select id from big").fetchall() == [(2_900_000,)]
        assert table.scanned.bytes_scanned < table.scanned.total / 10
        assert big.count_rows() == 1
        assert big.head(5).num_rows == 1
        assert big.filter(pc.field("id") < 5).to_table().num_rows == 0


def test_what_is_not_committed_is_not_seen(waves: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    run = store.create(path, {"/t/a": store.Dataset(1000, "i4")}, statistics=True)
    with run.writer() as writer:
        writer["t/a"][:500] = np.arange(500)
    run.commit()
    with hyperchunk.open(path) as file:
        dataset = file["t"].table().to_dataset()
        with store.open(path).writer() as writer:
            writer["t/a"][100:200] = np.full(100, 900)
        assert dataset.count_rows(pc.field("a") == 900) == 0
        assert dataset.count_rows(pc.field("a") == 0) == 501, "what nobody wrote is 0"
        run.commit()
        assert dataset.count_rows(pc.field("a") == 900) == 0, "of the epoch that was opened"
    assert hyperchunk.open(path)["t"].table().to_dataset().count_rows(pc.field("a") == 900) == 100


def test_a_file_that_changes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["t/a"] = np.arange(300_000)
        file.create_dataset("t/b", data=np.arange(300_000), chunks=(1000,), compression="gzip")
    hyperchunk.analyze(path)
    with hyperchunk.open(path) as file:
        table = file["t"].table(columns=["a"])
        dataset = table.to_dataset()
        assert dataset.count_rows(pc.field("a") == 5) == 1
        assert table.scanned is not None
        assert table.scanned.bytes_candidate < table.scanned.total
        packed = file["t"].table(columns=["b"])
        assert packed.to_dataset().count_rows(pc.field("b") == 1234) == 1
        assert packed.scanned is not None
        assert packed.scanned.bytes_candidate == 8000
        # Another process writes in place. The mapping shows that at once, and so must the filter.
        with h5py.File(path, "r+", locking=False) as other:
            other["t/a"][299_999] = 5
        assert dataset.count_rows(pc.field("a") == 5) == 2
        assert table.scanned.bytes_candidate == table.scanned.total
    with hyperchunk.open(path) as file:
        table = file["t"].table(columns=["a"])
        assert table.to_dataset().count_rows(pc.field("a") == 5) == 2
    hyperchunk.analyze(path)
    with hyperchunk.open(path) as file:
        table = file["t"].table(columns=["a"])
        assert table.to_dataset().count_rows(pc.field("a") == 5) == 2
        assert table.scanned is not None
        assert table.scanned.bytes_candidate < table.scanned.total


def test_damaged_statistics_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("t/a", data=np.arange(10_000), chunks=(100,))
    place = hyperchunk.analyze(path).path
    whole = place.read_bytes()
    for at in range(0, len(whole), 31):
        place.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        with hyperchunk.open(path) as file, pytest.raises((hyperchunk.exceptions.HyperchunkError, OSError)):
            file["t"].table().to_dataset().count_rows(pc.field("a") == 77)


def test_strings_and_rows_of_rows_have_no_zones(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    shapes: dict[str, Any] = {"s": (100, "S3"), "m": ((100, 3), "f4"), "h": (100, "f2"), "x": (100, "i4")}
    run = store.create(path, {f"/t/{name}": store.Dataset(*shape) for name, shape in shapes.items()}, statistics=True)
    with run.writer() as writer:
        writer["t/s"][...] = np.array([f"{at:03}" for at in range(100)], "S3")
        writer["t/m"][...] = np.ones((100, 3), "f4")
        writer["t/h"][...] = np.arange(100, dtype="f2")
        writer["t/x"][...] = np.arange(100)
    run.commit()
    with hyperchunk.open(path) as file:
        table = file["t"].table(half="float32")
        dataset = table.to_dataset()
        assert dataset.count_rows(pc.field("s") == "007") == 1
        assert table.scanned is not None
        assert table.scanned.unknown == table.scanned.total
        assert dataset.count_rows((pc.field("h") > 50) & (pc.field("x") < 60)) == 9
        assert not file["t"].table(columns=["s", "m", "h"])._core.keeps_zones()


def test_many_stretches_are_looked_at_in_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    rows = 100_000
    values = np.repeat(np.arange(rows // 10), 10).astype("f8")
    values[::1000] = np.nan
    with h5py.File(path, "w") as file:
        file.create_dataset("t/a", data=values, chunks=(10,))
        file.create_dataset("t/b", data=np.arange(rows, dtype="u8") + 2**63, chunks=(32,))
    hyperchunk.analyze(path)
    with hyperchunk.open(path) as file:
        table = file["t"].table()
        dataset = table.to_dataset()
        memory = table.to_pyarrow()
        for expression in [
            pc.field("a") == 77,
            ~(pc.field("a") < 9990),
            pc.field("b") >= pa.scalar(2**63 + 99_990, pa.uint64()),
            (pc.field("a") > 5000) & (pc.field("b") < pa.scalar(2**63 + 50_020, pa.uint64())),
            pc.field("a").is_nan(),
            pc.field("a") != pc.field("a"),
            pc.field("a").isin([3.0, 9999.0]),
        ]:
            assert dataset.to_table(filter=expression).num_rows == memory.filter(expression).num_rows
        dataset.count_rows(pc.field("a") == 77)
        assert table.scanned is not None
        assert table.scanned.bytes_candidate <= 80
        found = hyperchunk.scan_hyperchunk(table).filter(pl.col("b") == 2**63 + 5).collect()
        assert found["a"].to_list() == [0.0]
        assert table.scanned.bytes_candidate <= 32 * 16


def test_appended_rows_and_arrow_segments(tmp_path: Path) -> None:
    for segments in ("log", "arrow"):
        path = tmp_path / f"{segments}.h5"
        names = {"/t/x": "f8", "/t/i": "u8"}
        definitions = {name: store.Dataset(0, dtype, maxshape=(None,)) for name, dtype in names.items()}
        run = store.create(path, definitions, statistics=True, segments=segments)
        for rank in range(4):
            with run.writer() as writer:
                writer["t/x"].append(np.arange(200_000.0) + 1e6 * rank)
                writer["t/i"].append(np.arange(200_000, dtype="u8") + 2**63 * (rank // 2))
        run.commit()
        with run.open() as file:
            table = file["t"].table()
            dataset = table.to_dataset()
            assert dataset.count_rows((pc.field("x") >= 1e6) & (pc.field("x") < 2e6)) == 200_000
            assert table.scanned is not None
            assert table.scanned.bytes_candidate <= table.scanned.total / 2
            top = pa.scalar(2**63 + 199_999, pa.uint64())
            assert dataset.to_table(filter=pc.field("i") == top).num_rows == 2
            assert table.scanned.bytes_candidate <= table.scanned.total / 2
            assert ds.dataset(memory := table.to_pyarrow()).count_rows(filter=pc.field("i") == top) == 2
            assert memory.num_rows == 800_000
