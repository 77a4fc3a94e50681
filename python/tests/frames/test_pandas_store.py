"""Frames and series that pandas wrote: equal to what pandas reads, through pandas, pyarrow, polars and DuckDB."""

from __future__ import annotations

import contextlib
import datetime
import os
import warnings
from pathlib import Path
from typing import Any

import duckdb
import hyperchunk
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hyperchunk.exceptions import UnsupportedError
from hypothesis import HealthCheck, given, settings

pytest.importorskip("tables")
from random_frames import frames

#: Number of random frames; `make test-all` has more.
COUNT = int(os.environ.get("HYPERCHUNK_FRAMES", "40"))

pytestmark = pytest.mark.filterwarnings("ignore")


def store(path: Path, made: Any, key: str = "k", **options: Any) -> Any:
    """Writes an object with pandas, and returns what pandas reads. Skips what pandas refuses to write."""
    path.unlink(missing_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.to_hdf(path, key=key, **options)
        return pd.read_hdf(path, key)


def check_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(found, expected, check_freq=True)
    else:
        pd.testing.assert_frame_equal(found, expected, check_freq=True)
        assert type(found.columns) is type(expected.columns)
    assert type(found.index) is type(expected.index)


def check_readers(path: Path, expected: Any, key: str = "k") -> None:
    """Compares all ways to read an object with what pandas reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = hyperchunk.frames.read(hyperchunk.open(path)[key], half="float32")
        check_equal(hyperchunk.frames.read(hyperchunk.open(path)[key]).to_pandas(), expected)
        check_arrow(hyperchunk.frames.read(hyperchunk.open(path)[key]), expected)
        if any(field.type == pa.null() for field in _schema_or_empty(frame)):
            return
        check_values(frame, expected)


def _schema_or_empty(frame: Any) -> Any:
    try:
        return frame.schema
    except hyperchunk.HyperchunkError:
        # A column of objects for which Arrow has no type.
        return [pa.field("", pa.null())]


def as_frame(expected: Any) -> pd.DataFrame:
    return (
        expected.to_frame("values" if expected.name is None else expected.name)
        if isinstance(expected, pd.Series)
        else expected
    )


def check_arrow(frame: Any, expected: Any) -> None:
    """Compares an Arrow table with pyarrow's own of the same frame."""
    expected = as_frame(expected)
    try:
        theirs = pa.Table.from_pandas(expected, preserve_index=True)
        pd.testing.assert_frame_equal(theirs.to_pandas(), expected, check_freq=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError, AssertionError):
        # pyarrow has no type for a column, or does not return the frame that it got.
        return
    ours = frame.to_pyarrow()
    assert ours.num_rows == len(expected)
    assert [ours.schema.field(name).type for name in frame.index_names] == [
        theirs.schema.field(number).type for number in range(len(expected.columns), len(theirs.schema))
    ] or any(pa.types.is_string(field.type) or pa.types.is_null(field.type) for field in theirs.schema)
    pd.testing.assert_frame_equal(ours.to_pandas(), expected, check_freq=False)


def plain(value: Any) -> Any:
    """Returns a value in a form that all readers share."""
    if isinstance(value, (pd.Timestamp, pd.Timedelta)) or type(value).__module__ == "datetime":
        return (
            pd.Timestamp(value).tz_convert("UTC") if getattr(value, "tzinfo", None) else str(pd.Series([value]).iloc[0])
        )
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, np.generic):
        return plain(value.item())
    return value


def check_values(frame: Any, expected: Any) -> None:
    """Compares the numbers, texts and truth values of the columns in polars and DuckDB, one by one."""
    expected = as_frame(expected)
    columns = [field for field in frame._columns if not field.is_index]
    in_polars = frame.to_polars()
    assert in_polars.height == len(expected)
    scanned = hyperchunk.scan_hyperchunk(frame).collect()
    assert scanned.equals(in_polars, null_equal=True)
    rows = duckdb.sql("select * from frame").fetchall()
    assert len(rows) == len(expected)
    names = frame.column_names
    for place, field in enumerate(columns):
        series = expected.iloc[:, place]
        if series.dtype.kind not in "iufbOM" or isinstance(series.dtype, pd.PeriodDtype):
            continue
        if isinstance(series.dtype, pd.DatetimeTZDtype) or series.dtype.kind == "M":
            counts = in_polars[field.name].dt.timestamp("us").to_list()
            wanted = [None if value is pd.NaT else value.value // 1000 for value in series]
            assert counts == wanted
            continue
        wanted = [plain(value) for value in series]
        assert [plain(value) for value in in_polars[field.name].to_list()] == pytest.approx(wanted, nan_ok=True)
        number = names.index(field.name)
        assert [plain(row[number]) for row in rows] == pytest.approx(wanted, nan_ok=True)


@settings(max_examples=COUNT, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=frames())
@pytest.mark.parametrize("layout", ["fixed", "table"])
def test_random_frames(layout: str, tmp_path: Path, made: pd.DataFrame) -> None:
    path = tmp_path / "f.h5"
    if layout == "table" and isinstance(made.index, pd.TimedeltaIndex) and pd.__version__ < "3":
        # pandas 2 loses the type of this index.
        return
    try:
        expected = store(path, made, format=layout)
    except (TypeError, ValueError, NotImplementedError, KeyError, AttributeError, OverflowError, AssertionError):
        # pandas cannot write it, or not read what it wrote.
        return
    check_readers(path, expected)


def prices(rows: int = 1000) -> pd.DataFrame:
    """Returns a frame with an index of times and columns of several kinds."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "price": rng.random(rows),
            "volume": rng.integers(0, 100, rows),
            "name": rng.choice(["a", "b", "nan", None], rows),
            "kind": pd.Categorical.from_codes(rng.integers(-1, 3, rows), ["x", "y", "z"], ordered=True),
            "at": pd.date_range("2020-01-01", periods=rows, freq="min", tz="Europe/Berlin"),
            "ok": rng.random(rows) < 0.5,
        },
        index=pd.date_range("2020-01-01", periods=rows, freq="h", name="when"),
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "t.h5"
    prices().to_hdf(path, key="prices", format="table", data_columns=["price", "volume", "name", "at"])
    return path


CONDITIONS = (
    "index > '2020-01-10'",
    "index >= Timestamp('2020-01-10') & index < '2020-01-12'",
    "price > 0.9",
    "price > 0.2 & volume < 10",
    "(price > 0.9) | (volume == 5)",
    "volume = 7",
    "volume in [1, 2, 3]",
    "volume == [1, 2, 3]",
    "volume != 7",
    "name == 'a'",
    "name = a",
    "name != 'a'",
    "at > '2020-01-01 10:00'",
    "price > 2",
)


@pytest.mark.parametrize("where", CONDITIONS)
def test_conditions(table: Path, where: str) -> None:
    expected = pd.read_hdf(table, "prices", where=where)
    frame = hyperchunk.frames.read(hyperchunk.open(table)["prices"], where=where)
    pd.testing.assert_frame_equal(frame.to_pandas(), expected, check_freq=False)
    assert frame.num_rows == len(expected)
    assert frame.to_pyarrow().num_rows == len(expected)


@pytest.mark.parametrize(
    "where",
    [
        *("columns=['price']", "columns == ['name', 'price']", "columns='kind'", "columns != ['price', 'none']"),
        *("columns=['price'] & index > '2020-01-10'", "(volume == 5) & (columns=['price'])", "columns=[]"),
        *(
            "index >= datetime.datetime(2020, 1, 10)",
            "index < datetime.datetime(2020, 1, 10, 5)",
            "at > datetime.date(2020,1,2)",
        ),
        *("index > Timestamp(2020, 1, 10)", "index > Timestamp(1578614400000000000)", "columns=['price', 'volume']"),
    ],
)
def test_conditions_of_labels_and_dates(table: Path, where: str) -> None:
    expected = pd.read_hdf(table, "prices", where=where)
    found = hyperchunk.frames.read(hyperchunk.open(table)["prices"], where=where)
    pd.testing.assert_frame_equal(found.to_pandas(), expected, check_freq=False)
    assert found.num_rows == len(expected)


def test_choice_of_columns_beside_columns(table: Path) -> None:
    group, where = hyperchunk.open(table)["prices"], ["columns=['price', 'kind']", "volume > 50"]
    expected = pd.read_hdf(table, "prices", where=where, columns=["price", "volume"])
    found = hyperchunk.frames.read(group, where=where, columns=["price", "volume"]).to_pandas()
    pd.testing.assert_frame_equal(found, expected, check_freq=False)


def test_conditions_on_any_column(table: Path) -> None:
    """pandas only has conditions on data columns."""
    group, whole = hyperchunk.open(table)["prices"], pd.read_hdf(table, "prices")
    found = hyperchunk.frames.read(group, where=["kind == 'x'", "ok"], columns=["kind"]).to_pandas()
    pd.testing.assert_frame_equal(found, whole[(whole.kind == "x") & whole.ok][["kind"]], check_freq=False)
    found = hyperchunk.frames.read(group, where="~(volume > 5 & ok) and not kind == 'z'").to_pandas()
    chosen = ~((whole.volume > 5) & whole.ok) & ~(whole.kind == "z")
    pd.testing.assert_frame_equal(found, whole[chosen], check_freq=False)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nothing > 3", "no column"),
        ("price >", "expected comparisons"),
        ("__import__('os').system('x')", "expected a comparison"),
        ("price > 'text'", "cannot compare"),
        ("index > 'no time'", "as a time"),
        ("price > [1, 2]", "a list"),
        ("columns > 'price'", "columns can only be chosen"),
        ("columns=['price'] | volume > 5", "columns can only be chosen"),
        ("~(columns=['price'])", "columns can only be chosen"),
        ("index > datetime.datetime(2020, 13, 1)", "a valid date"),
        ("index > datetime.datetime(2020)", "expected a number"),
        ("(" * 5000 + "price > 1" + ")" * 5000, "expected comparisons"),
        ("price > 1" + " & price > 1" * 3000, "more than"),
    ],
)
def test_conditions_that_are_wrong(table: Path, where: str, message: str) -> None:
    with pytest.raises(hyperchunk.HyperchunkError, match=message):
        hyperchunk.frames.read(hyperchunk.open(table)["prices"], where=where).to_pandas()


@pytest.mark.parametrize("layout", ["fixed", "table"])
def test_parts(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "p.h5"
    made = prices().drop(columns=["kind"])
    expected = store(path, made, format=layout)
    group = hyperchunk.open(path)["k"]
    found = hyperchunk.frames.read(group, columns=["price", "at"], rows=(10, 20)).to_pandas()
    pd.testing.assert_frame_equal(found, expected[["price", "at"]].iloc[10:20], check_freq=False)
    frame = group.table()
    assert isinstance(frame, hyperchunk.frames.Frame)
    assert frame.column_names == ["when", "price", "volume", "name", "at", "ok"]
    assert frame[5:9]["volume"].to_numpy()["volume"].tolist() == made.volume[5:9].tolist()
    assert [len(batch) for batch in frame.batches(300)] == [300, 300, 300, 100]
    assert sum(len(batch) for batch in frame.to_reader()) == 1000
    with pytest.raises(KeyError, match="pric"):
        frame.select(["pric"])
    assert not isinstance(group.table(columns=["price"] if layout == "fixed" else None, frames=False), type(frame))
    dataset = frame.to_dataset()
    assert dataset.to_table(columns=["volume"], filter=pc.field("volume") > 50).num_rows == (made.volume > 50).sum()
    assert dataset.count_rows(pc.field("volume") > 50) == (made.volume > 50).sum()


def test_sql_reads_only_the_columns_of_the_query(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = hyperchunk.open(table)["prices"].table()
    read, wanted, source = type(frame._source).read, list[str](), frame._source

    def spy(self: Any, numbers: Any, start: int, stop: int) -> Any:
        if stop > start and self is source:
            wanted.extend(self.fields[number].name for number in numbers)
        return read(self, numbers, start, stop)

    monkeypatch.setattr(type(frame._source), "read", spy)
    found = duckdb.sql("select sum(volume) from frame where volume > 10").fetchall()
    assert found == [(int(prices().volume[prices().volume > 10].sum()),)]
    assert set(wanted) == {"volume"}
    wanted.clear()
    lazy = hyperchunk.scan_hyperchunk(frame).filter(pl.col("volume") > 10).select(pl.col("price").sum())
    assert lazy.collect().item() == pytest.approx(prices().price[prices().volume > 10].sum())
    assert set(wanted) == {"volume", "price"}


@pytest.mark.parametrize("name", [None, "s", 7])
@pytest.mark.parametrize("layout", ["fixed", "table"])
def test_series(tmp_path: Path, layout: str, name: Any) -> None:
    path = tmp_path / "s.h5"
    index = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["k", None])
    for values in ([1.5, 2.5, np.nan, 4], ["x", None, "nan", "y"], pd.date_range("2020", periods=4, tz="UTC")):
        for of_index in (None, index):
            if layout == "table" and (name == 7 or (of_index is not None and name is None)):
                continue  # pandas has no such
            made = pd.Series(values, index=of_index, name=name)
            check_readers(path, store(path, made, format=layout))


@pytest.mark.parametrize("complib", ["zlib", "bzip2", "blosc", "blosc:lz4", "blosc:zstd"])
@pytest.mark.parametrize("layout", ["fixed", "table"])
def test_compressed(tmp_path: Path, layout: str, complib: str) -> None:
    path = tmp_path / "c.h5"
    made = prices().drop(columns=["kind"])
    check_readers(path, store(path, made, format=layout, complevel=5, complib=complib))


def test_labels_that_repeat(tmp_path: Path) -> None:
    path = tmp_path / "r.h5"
    made = pd.DataFrame(np.arange(12.0).reshape(3, 4), columns=["a", "b", "a", "b"])
    made["n"] = [1, 2, 3]
    expected = store(path, made, format="table")
    frame = hyperchunk.frames.read(hyperchunk.open(path)["k"])
    pd.testing.assert_frame_equal(frame.to_pandas(), expected)
    assert frame.column_names == ["index", "a", "b", "a_1", "b_1", "n"]


def test_wide_frames(tmp_path: Path) -> None:
    path = tmp_path / "w.h5"
    made = pd.DataFrame(np.arange(10_000.0).reshape(2, 5000), columns=[f"c{number}" for number in range(5000)])
    expected = store(path, made)
    check_equal(hyperchunk.frames.read(hyperchunk.open(path)["k"]).to_pandas(), expected)


def test_objects_that_are_not_read(tmp_path: Path) -> None:
    """A pickle of a class that is not on the list is an error, and nothing of it runs."""
    path, ran = tmp_path / "o.h5", tmp_path / "ran"

    class Hostile:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {ran}",)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pd.DataFrame({"a": [1, 2], "b": np.array([Hostile(), None], "O")}).to_hdf(path, key="k")
    frame = None
    with pytest.raises(hyperchunk.HyperchunkError, match=r"posix\.system"):
        frame = hyperchunk.frames.read(hyperchunk.open(path)["k"]).to_pandas()
    assert frame is None
    assert not ran.exists()


def test_columns_of_other_objects_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    made = pd.DataFrame({"mixed": [1, "a", None], "n": [1, 2, 3]})
    expected = store(path, made)
    frame = hyperchunk.frames.read(hyperchunk.open(path)["k"])
    pd.testing.assert_frame_equal(frame.to_pandas(), expected)
    assert frame.select(["n"]).to_pyarrow().num_rows == 3
    with pytest.raises(hyperchunk.HyperchunkError, match="column 'mixed' to Arrow"):
        frame.to_pyarrow()


def test_damaged_files(tmp_path: Path) -> None:
    """Any byte may be wrong: an error of the package, or a frame."""
    path, bad = tmp_path / "d.h5", tmp_path / "bad.h5"
    for layout in ("fixed", "table"):
        store(path, prices(20).drop(columns=["kind"] if layout == "fixed" else []), format=layout)
        stored, rng = path.read_bytes(), np.random.default_rng(3)
        for _ in range(60):
            damaged = bytearray(stored)
            for place in rng.integers(0, len(stored), 20):
                damaged[place] = int(rng.integers(256))
            bad.write_bytes(damaged)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with contextlib.suppress(hyperchunk.HyperchunkError, KeyError):
                    hyperchunk.frames.read(hyperchunk.open(bad)["k"]).to_pyarrow()


@pytest.mark.parametrize("data_columns", [None, True])
@pytest.mark.parametrize(
    "labels",
    [["a", None], [1.0, np.nan, 2.0], ["z", None, "a"], pd.MultiIndex.from_tuples([("a", 1), ("b", np.nan)])],
    ids=str,
)
def test_columns_without_a_name(tmp_path: Path, labels: Any, data_columns: Any) -> None:
    """Such names are NaN in the file, which is unequal to itself: the column was lost."""
    frame = pd.DataFrame(np.arange(3.0 * len(labels)).reshape(3, -1), columns=labels)
    path = tmp_path / "a.h5"
    try:
        frame.to_hdf(path, key="k", format="table", data_columns=data_columns)
    except (ValueError, TypeError) as error:
        pytest.skip(f"pandas cannot write it: {error}")
    with hyperchunk.open(path) as file:
        found = file["k"].table().to_pandas()
    pd.testing.assert_frame_equal(found, pd.read_hdf(path, "k"))


@pytest.mark.parametrize(
    "where",
    [
        *("t > 20000110", "index > 20000110", "t > 2000", "t in [20000110, 20000111]", "e > 10", "e <= 10.5", "t > 5"),
        *("t > '2000-01-10'", "e > '12s'"),
    ],
)
def test_numbers_as_times_in_conditions(tmp_path: Path, where: str) -> None:
    """For pandas, 20000110 is a day, and 10 is ten seconds."""
    frame = pd.DataFrame({"v": range(40), "e": pd.to_timedelta(range(40), unit="s")})
    frame.index = pd.date_range("2000-01-01", periods=40)
    frame["t"] = frame.index
    path = tmp_path / "a.h5"
    frame.to_hdf(path, key="k", format="table", data_columns=True)
    try:
        wanted = len(pd.read_hdf(path, "k", where=where))
    except ValueError:
        wanted = None
    with hyperchunk.open(path) as file:
        if wanted is None:
            with pytest.raises(hyperchunk.exceptions.InvalidError):
                hyperchunk.frames.read(file["k"], where=where).to_pandas()
        else:
            assert len(hyperchunk.frames.read(file["k"], where=where).to_pandas()) == wanted


@pytest.mark.parametrize("layout", ["fixed", "table"])
def test_index_of_dates(tmp_path: Path, layout: str) -> None:
    """PyTables stores an index of dates in HDF5's class of times, which NumPy has no type for."""
    frame = pd.DataFrame({"v": [1, 2], "t": ["a", "b"]}, index=[datetime.date(2000, 1, 1), datetime.date(1969, 1, 2)])
    expected = store(tmp_path / "a.h5", frame, format=layout)
    with hyperchunk.open(tmp_path / "a.h5") as file:
        check_equal(file["k"].table().to_pandas(), expected)
        found = hyperchunk.frames.read(file["k"], columns=["v"], rows=(1, 2))
        check_equal(found.to_pandas(), expected[["v"]].iloc[1:])


def test_a_type_without_an_equivalent_is_no_damage(tmp_path: Path) -> None:
    frame = pd.DataFrame({"v": [1, 2]}, index=[datetime.date(2000, 1, 1), datetime.date(2000, 1, 2)])
    frame.to_hdf(tmp_path / "a.h5", key="k", format="table")
    with hyperchunk.open(tmp_path / "a.h5") as file, pytest.raises(UnsupportedError, match="the class time"):
        file["k/table"][()]


@pytest.mark.parametrize("layout", ["fixed", "table"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_columns_that_are_regular_times(tmp_path: Path, layout: str, zone: str | None) -> None:
    labels = pd.date_range("2000-01-01", periods=2, freq="D", tz=zone, name="when")
    made = pd.DataFrame(np.eye(2), columns=labels)
    try:
        expected = store(tmp_path / "a.h5", made, format=layout)
    except (ValueError, TypeError, NotImplementedError) as error:
        pytest.skip(f"pandas cannot store it: {error}")
    found = hyperchunk.frames.read(hyperchunk.open(tmp_path / "a.h5")["k"]).to_pandas()
    pd.testing.assert_frame_equal(found, expected, check_freq=True)
    if layout == "fixed":
        assert found.columns.freq == expected.columns.freq
