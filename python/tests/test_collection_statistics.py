"""Statistics of collections: they may leave out files, but never a match."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import netCDF4
import numpy as np
import pytest
from hyperchunk import collecting
from hyperchunk.exceptions import ChangedError, HyperchunkError, NotFoundError, UnsupportedError
from range_server import serve
from test_collection_queries import PREDICATES, TYPES, joined, make, random_values, truth
from test_collections import granule

FILES = 12


def narrow_values(numbers: Any, dtype: str, rows: int) -> Any:
    """Values that are often close to each other, so that statistics rule out files."""
    kind = np.dtype(dtype)
    values = random_values(numbers, dtype, (rows,))
    choice = numbers.integers(5)
    if choice == 0 or not rows:
        return values
    if choice == 1:
        return np.full(rows, values[0], kind)
    if kind.kind == "f":
        return (
            np.full(rows, np.nan, kind)
            if choice == 2
            else (numbers.random(rows) + numbers.integers(-4, 5)).astype(kind)
        )
    limits = np.iinfo(kind)
    near = limits.max - 3 if choice == 2 else 0 if choice == 3 else limits.min
    return (numbers.integers(0, 4, rows).astype(kind) + kind.type(near)).astype(kind)


@pytest.mark.parametrize("dtype", TYPES)
def test_answers_are_the_same_with_statistics(tmp_path: Path, dtype: str) -> None:
    numbers = np.random.default_rng(TYPES.index(dtype) + 100)
    lengths = numbers.integers(0, 20, FILES)
    paths = make(tmp_path, "h", [narrow_values(numbers, dtype, int(rows)) for rows in lengths])
    without = hyperchunk.open_collection(paths, concat=0)
    kept = hyperchunk.open_collection(paths, concat=0, statistics=["h"])
    values = joined(paths, "h")
    left_out = 0
    for predicate in PREDICATES:
        query = kept.query("h", predicate)
        left_out += FILES - len(query)
        for one in (query, without.query("h", predicate)):
            indices, found = one.read()
            expected = truth(predicate, values)
            np.testing.assert_array_equal(indices[:, 0], np.flatnonzero(expected))
            np.testing.assert_array_equal(found, values[expected])
    assert left_out > FILES
    # NumPy has the same.
    statistics = kept["h"].statistics
    assert statistics is not None
    ends = np.concatenate([[0], np.cumsum(lengths)])
    for number, file in enumerate(statistics):
        own = values[ends[number] : ends[number + 1]]
        assert file is not None
        rest = own[own == own]
        assert (file.count, file.nan) == (len(own), len(own) - len(rest))
        assert (file.min, file.max) == ((rest.min(), rest.max()) if len(rest) else (None, None))
        assert file.min is None or isinstance(file.min, float if values.dtype.kind == "f" else int)


def test_integers_beyond_the_precision_of_floats(tmp_path: Path) -> None:
    large = 2**53
    paths = make(tmp_path, "h", [np.array([large, large + 1]), np.array([large + 2, large + 3])])
    collection = hyperchunk.open_collection(paths, concat=0, statistics=["h"])
    for predicate, files, found in [
        (f"value == {large + 1}", 1, [large + 1]),
        (f"value > {large + 1}", 1, [large + 2, large + 3]),
        (f"value < {large}", 0, []),
        (f"value >= {large + 3}", 1, [large + 3]),
    ]:
        query = collection.query("h", predicate)
        assert len(query) == files, predicate
        assert query.read()[1].tolist() == found


@pytest.mark.parametrize("seed", range(4))
def test_filters_of_tables_are_the_same(tmp_path: Path, seed: int) -> None:
    pa = pytest.importorskip("pyarrow")
    pc = pytest.importorskip("pyarrow.compute")
    pl = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    numbers = np.random.default_rng(seed)
    dtypes = {"a": ">f8", "b": "<i8", "c": "u8", "d": "f4", "e": "i2"}
    paths = []
    for number in range(6):
        paths.append(tmp_path / f"t{number}.h5")
        rows = int(numbers.integers(0, 30))
        with h5py.File(paths[-1], "w") as file:
            for name, dtype in dtypes.items():
                file[name] = narrow_values(numbers, dtype, rows)
            file["pair"] = numbers.random((rows, 2))
    kept = hyperchunk.open_collection(paths, concat=0, statistics=["a", "b", "/c", "d", "e"])
    plain = hyperchunk.open_collection(paths, concat=0).table()
    table = kept.table()
    bytes_left = 0
    for name, dtype in dtypes.items():
        column = joined(paths, name)
        for _ in range(2):
            value = column[numbers.integers(len(column))] if len(column) else np.dtype(dtype).type(0)
            literal = float(value) if np.dtype(dtype).kind == "f" else int(value)
            scalar = pa.scalar(literal, plain.schema.field(name).type)
            for operator in ("__gt__", "__le__", "__eq__", "__ne__"):
                expression = getattr(pc.field(name), operator)(scalar)
                found = table.to_dataset().to_table(filter=expression)
                expected = plain.to_dataset().to_table(filter=expression)
                assert found.drop("pair").to_pandas().equals(expected.drop("pair").to_pandas()), (
                    name,
                    operator,
                    literal,
                )
                assert table.scanned is not None
                bytes_left += table.scanned.total - table.scanned.bytes_candidate
            part, own = table[3:-2], plain.to_pyarrow().slice(3, max(plain.num_rows - 5, 0))
            condition = pl.col(name) > pl.lit(literal, pl.DataFrame(own.select([name])).schema[name])
            found = hyperchunk.scan_hyperchunk(part.select([name])).filter(condition).collect()
            assert found.equals(pl.DataFrame(own.select([name])).filter(condition))
            if literal == literal and abs(literal) != np.inf:
                with duckdb.connect() as connection:
                    connection.register("t", table)
                    connection.register("u", plain.to_pyarrow().select([name]))
                    text = f"select count(*) from {{}} where {name} >= {literal!r}"
                    assert connection.sql(text.format("t")).fetchall() == connection.sql(text.format("u")).fetchall()
    assert bytes_left > 0


def test_files_in_a_store_that_are_ruled_out_get_no_request(tmp_path: Path) -> None:
    paths = make(tmp_path, "h", [np.arange(100.0) + 100 * number for number in range(6)])
    with serve(data=tmp_path) as server:
        names = [f"{server.url}/data/{path.name}" for path in paths]
        hyperchunk.open_collection(names, concat=0, statistics=["h"]).save(tmp_path / "all.hcx")
        collection = hyperchunk.open_collection(tmp_path / "all.hcx")
        server.asked.clear()
        query = collection.query("h", "210 <= value < 215")
        assert query.files == [names[2]]
        assert query.read()[1].tolist() == [210, 211, 212, 213, 214]
        assert query.bytes_scanned == 800
        assert query.total == 4800
        pc = pytest.importorskip("pyarrow.compute")
        table = collection.table(columns=["h"])
        found = table.to_dataset().to_table(filter=(pc.field("h") >= 210) & (pc.field("h") < 215))
        assert found["h"].to_pylist() == [210, 211, 212, 213, 214]
        assert table.scanned is not None
        assert table.scanned.bytes_candidate == 800
        # The first file has the layout.
        assert {name for name, _ in server.asked} <= {"/data/q0.h5", "/data/q2.h5"}


def replaced(path: Path) -> None:
    new = path.with_suffix(".new")
    with h5py.File(new, "w") as file:
        file["h"] = np.full(10, 1000.0)
    new.replace(path)


def edited(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["h"][3] = 1000


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 40)


@pytest.mark.parametrize("change", [replaced, edited, truncated, Path.unlink])
@pytest.mark.parametrize("saved", [False, True])
def test_changed_local_files_are_errors_although_they_are_ruled_out(
    tmp_path: Path, change: Callable[[Path], None], saved: bool
) -> None:
    pc = pytest.importorskip("pyarrow.compute")
    pl = pytest.importorskip("polars")
    paths = make(tmp_path, "h", [np.arange(10.0) + 10 * number for number in range(4)])
    collection = hyperchunk.open_collection(paths, concat=0, statistics=["h"])
    if saved:
        collection.save(tmp_path / "all.hcx")
        collection = hyperchunk.open_collection(tmp_path / "all.hcx")
    change(paths[2])
    table = collection.table()
    for predicate in ("value > 500", "value == 13"):
        with pytest.raises((ChangedError, NotFoundError), match=r"q2\.h5"):
            collection.query("h", predicate).read()
        with pytest.raises((ChangedError, NotFoundError), match=r"q2\.h5"):
            list(collection.query("h", predicate))
    for filter in (pc.field("h") > 500, pc.field("h").isin([13.0])):
        with pytest.raises((HyperchunkError, OSError, ValueError), match=r"q2\.h5"):
            table.to_dataset().to_table(filter=filter)
    for condition in (pl.col("h") > 500, pl.col("h").sqrt() > 500, pl.col("h") * 1 == 13):
        with pytest.raises((HyperchunkError, pl.exceptions.PolarsError), match=r"q2\.h5"):
            hyperchunk.scan_hyperchunk(table).filter(condition).collect()
    # The rows of other files do not depend on it.
    assert collection.query("h", "value == 13", np.s_[:20]).read()[1].tolist() == [13]
    assert table[:20].to_dataset().to_table(filter=pc.field("h") == 13).num_rows == 1


@pytest.mark.parametrize("how", ["saved", "appended", "pickled", "output", "gathered", "command", "command, appended"])
def test_ways_to_statistics(
    tmp_path: Path,
    how: str,
    command: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = make(tmp_path, "g/h", [np.arange(10) + 10 * number for number in range(5)])
    saved = tmp_path / "all.hcx"
    if how == "saved":
        hyperchunk.open_collection(paths, concat=0, statistics=["g/h"]).save(saved)
        collection = hyperchunk.open_collection(saved)
    elif how == "appended":
        collection = hyperchunk.open_collection(paths[:2], concat=0, statistics=["g/h"])
        assert collection.append(paths) == 3
    elif how == "pickled":
        collection = pickle.loads(pickle.dumps(hyperchunk.open_collection(paths, concat=0, statistics=["g/h"])))
    elif how == "output":
        collection = hyperchunk.open_collection(paths, concat=0, statistics=["g/h"], output=saved)
    elif how == "gathered":
        collection = hyperchunk.open_collection(paths, concat=0)
        assert collection["g/h"].statistics is None
        calls: list[tuple[int, int]] = []
        collection.gather(["g/h"], progress=lambda done, total: calls.append((done, total)))
        assert calls[-1] == (5, 5)
        collection.gather(["g/h"])
    else:
        first = paths[:3] if "appended" in how else paths
        done = command("collect", *first, "-o", saved, "--concat", "0", "--statistics", "g/h")
        assert done.returncode == 0, done.stderr
        if "appended" in how:
            done = command("collect", *paths, "-o", saved, "--append")
            assert done.returncode == 0, done.stderr
        collection = hyperchunk.open_collection(saved)
    query = collection.query("g/h", "value > 33")
    assert query.files == [str(paths[3]), str(paths[4])]
    statistics = collection["g/h"].statistics
    assert statistics is not None
    assert [file and (file.count, file.nan, file.min, file.max) for file in statistics] == [
        (10, 0, 10 * number, 10 * number + 9) for number in range(5)
    ]


def test_collections_without_statistics_have_the_first_version(tmp_path: Path) -> None:
    paths = make(tmp_path, "h", [np.arange(3.0)] * 2)
    hyperchunk.open_collection(paths, concat=0).save(tmp_path / "one.hcx")
    hyperchunk.open_collection(paths, concat=0, statistics=["h"]).save(tmp_path / "two.hcx")
    assert (tmp_path / "one.hcx").read_bytes()[8:10] == b"\1\0"
    assert (tmp_path / "two.hcx").read_bytes()[8:10] == b"\2\0"


def test_damaged_statistics_are_an_error(tmp_path: Path) -> None:
    paths = make(tmp_path, "h", [np.arange(50.0) + 50 * number for number in range(4)])
    saved = tmp_path / "all.hcx"
    hyperchunk.open_collection(paths, concat=0, statistics=["h"]).save(saved)
    whole = saved.read_bytes()
    numbers = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[numbers.integers(len(whole))] ^= 1 << int(numbers.integers(8))
        saved.write_bytes(damaged)
        try:
            found = hyperchunk.open_collection(saved).query("h", "120 <= value < 124").read()[1]
        except (HyperchunkError, OSError):
            continue
        assert found.tolist() == [120, 121, 122, 123]


def test_what_has_no_statistics(tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        paths.append(tmp_path / f"{number}.h5")
        with h5py.File(paths[-1], "w") as file:
            file["h"], file["scalar"], file["text"] = np.arange(3), 4, np.array([b"a"])
            file["half"] = np.zeros(3, "f2")
            layout = h5py.VirtualLayout((3,), "i8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "elsewhere.h5"), "h", (3,))
            file.create_virtual_dataset("virtual", layout)
            external = [(str(tmp_path / "elsewhere.bin"), 0, 24)]
            file.create_dataset("external", (3,), "i8", external=external)
    collection = hyperchunk.open_collection(paths, concat=0, statistics=["h"])
    for name, error, reason in [
        ("nothing", NotFoundError, "nothing"),
        ("scalar", UnsupportedError, "expected one that is joined"),
        ("text", UnsupportedError, "text"),
        ("half", UnsupportedError, "half"),
        # Their values may change while the file stays as it is.
        ("virtual", UnsupportedError, "in other files"),
        ("external", UnsupportedError, "in other files"),
    ]:
        with pytest.raises(error, match=reason):
            collection.gather(["h", name])
    with pytest.raises(TypeError, match="list of paths"):
        collection.gather("h")
    assert collection["half"].statistics is None
    assert len(collection.query("h", "value > 5")) == 0
    with h5py.File(paths[1], "r+") as file:
        file["h"][0] = 9
    with pytest.raises(ChangedError, match=r"1\.h5"):
        hyperchunk.open_collection(paths, concat=0, statistics=["h"]) and collection.query("h", "value >= 0").read()
    saved = tmp_path / "all.hcx"
    collection.save(saved)
    with pytest.raises(TypeError, match=r"gather\(\)"):
        hyperchunk.open_collection(saved, statistics=["h"])


def test_rows_that_a_file_lacks_may_match(tmp_path: Path) -> None:
    paths = [tmp_path / f"f{number}.nc" for number in range(3)]
    for path, rows in zip(paths, (4, 1, 0), strict=True):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createVariable("v", "i4", ("time",))[:] = np.arange(4)
            file.createVariable("w", "i2", ("time",), fill_value=-9)[:rows] = np.arange(rows)
    collection = hyperchunk.open_collection(paths, statistics=["w"])
    assert collection.query("w", "value < 0").read()[0][:, 0].tolist() == [5, 6, 7, 8, 9, 10, 11]
    assert collection.query("w", "value < 0").files == [str(path) for path in paths[1:]]


def test_statistics_of_an_inner_axis(tmp_path: Path) -> None:
    paths = [granule(tmp_path / f"{number}.nc", 3 * number, 3) for number in range(3)]
    collection = hyperchunk.open_collection(paths, statistics=["rain", "t", "time"])
    for name in ("rain", "t", "time"):
        values = collection[name][:]
        limit = float(np.quantile(values, 0.99))
        indices, found = collection.query(name, f"value > {limit!r}").read()
        assert len(found) == int((values > limit).sum())
        np.testing.assert_array_equal(values[tuple(indices.T.astype(int))], found)
    assert len(collection.query("time", "value > 6.5")) == 1
