"""Tables over collections, against loops over the files with h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import netCDF4
import numpy as np
import pytest
from hyperchunk.exceptions import ChangedError, InvalidError

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

LENGTHS = (4, 0, 7, 1, 300)


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Files as of ICESat-2: columns of many types in a group, a compound dataset, and others."""
    paths = []
    for number, rows in enumerate(LENGTHS):
        numbers = np.random.default_rng(number)
        paths.append(tmp_path / f"p{number}.h5")
        with h5py.File(paths[-1], "w") as file:
            file["g/h"] = numbers.normal(size=rows) * 1000
            file["g/big"] = numbers.integers(-(2**62), 2**62, rows).astype(">i8")
            file["g/u8"] = numbers.integers(2**63, 2**64, rows, dtype="u8")
            file["g/flag"] = numbers.random(rows) > 0.5
            file["g/f2"] = numbers.random(rows).astype("f2")
            file["g/name"] = np.array([f"n{number}" for _ in range(rows)], "S8")
            file.create_dataset("g/text", data=["ü" * (row % 3) for row in range(rows)], dtype=h5py.string_dtype())
            color = h5py.enum_dtype({"RED": 0, "GREEN": 1}, "i1")
            file.create_dataset("g/color", data=numbers.integers(0, 2, rows), dtype=color)
            file["g/xyz"] = numbers.random((rows, 3))
            # Never written: fill values only; and written in a part.
            file.create_dataset("g/bare", (rows,), "i4", fillvalue=-7)
            some = file.create_dataset("g/some", (rows,), ">f4", chunks=(5,), fillvalue=np.nan, maxshape=(None,))
            some[: rows // 2] = np.arange(rows // 2)
            hits = np.zeros(rows, [("id", "i8"), ("e", ">f8"), ("xy", "f4", 2), ("tag", "S3")])
            hits["id"], hits["e"], hits["tag"] = np.arange(rows) + 1000 * number, numbers.random(rows), b"ab"
            hits["xy"] = numbers.random((rows, 2))
            large = {"chunks": (50,), "compression": "gzip"} if rows > 50 else {}
            file.create_dataset("hits", data=hits, **large)
            file["odd"] = np.arange(rows // 2)
            file["g/scalar"] = 5
    return paths


def joined(paths: list[Path], name: str) -> Any:
    found = []
    for path in paths:
        with h5py.File(path) as file:
            found.append(file[name][()])
    return np.concatenate(found)


NAMES = ["big", "bare", "color", "f2", "flag", "h", "name", "some", "text", "u8", "xyz"]


def test_columns_of_a_group_are_those_of_h5py(parts: list[Path]) -> None:
    table = hyperchunk.open_collection(parts, concat=0).table("/g")
    assert sorted(table.column_names) == sorted(NAMES)
    assert table.num_rows == sum(LENGTHS)
    found = table.to_pyarrow()
    numpy = table.to_numpy()
    for name in NAMES:
        expected = joined(parts, f"g/{name}")
        if name == "text":
            assert found[name].to_pylist() == [text.decode() for text in expected]
        elif name == "name":
            assert [text.encode() for text in found[name].to_pylist()] == expected.tolist()
        else:
            np.testing.assert_array_equal(numpy[name], expected)
            kind = np.dtype(expected.dtype).newbyteorder("=")
            assert numpy[name].dtype in (kind, np.dtype("i1") if kind == np.bool_ else kind), name
    # The table of one file has the same types.
    with hyperchunk.open(parts[0]) as file:
        assert found.schema.types == file.table("/g", columns=table.column_names).to_pyarrow().schema.types
    assert found.schema.field("color").metadata[b"h5.enum"] is not None


def test_members_of_a_compound(parts: list[Path]) -> None:
    collection = hyperchunk.open_collection(parts, concat=0)
    expected = joined(parts, "hits")
    table = collection.table("hits")
    found = table.to_numpy()
    for name in ("id", "e", "xy"):
        np.testing.assert_array_equal(found[name], expected[name])
    assert table.column_names == ["id", "e", "xy", "tag"]
    # Across the borders of files.
    for rows in (slice(2, 9), slice(0, 0), slice(4, 5), slice(11, 200), (3, 12), range(10, 13)):
        at = slice(*rows) if isinstance(rows, tuple) else slice(rows.start, rows.stop)
        part = collection.table("hits", ["tag", "id"], rows=rows)
        assert part.column_names == ["tag", "id"]
        assert part.to_numpy()["id"].tolist() == expected["id"][at].tolist()
    assert table[3:30][2:4]["id"].to_numpy()["id"].tolist() == expected["id"][5:7].tolist()
    struct = collection.table("hits", compounds="struct").to_pyarrow()
    assert struct.column(0).to_pylist()[-1]["id"] == expected["id"][-1]
    one = collection.table("odd")
    assert one.to_numpy()["odd"].tolist() == joined(parts, "odd").tolist()


def test_batches_and_whole_arrays(parts: list[Path]) -> None:
    table = hyperchunk.open_collection(parts, concat=0).table("hits", batch_rows=64)
    batches = [pa.record_batch(batch) for batch in table.batches()]
    assert max(len(batch) for batch in batches) == 64
    assert sum(len(batch) for batch in batches) == sum(LENGTHS)
    assert len({batch.schema for batch in batches}) == 1
    reader = table.to_reader(3)
    assert {len(batch) for batch in reader} == {3, 1}
    whole = pa.record_batch(table)
    np.testing.assert_array_equal(whole["id"].to_numpy(), joined(parts, "hits")["id"])
    assert table.nbytes == pytest.approx(sum(LENGTHS) * (8 + 8 + 8 + 3))
    assert not table.is_zero_copy
    assert table.copied_rows["id"] == sum(LENGTHS)
    counts: list[tuple[int, int]] = []
    table.to_pyarrow(progress=lambda done, total: counts.append((done, total)))
    assert counts[-1] == (sum(LENGTHS), sum(LENGTHS))


def test_pyarrow_filters(parts: list[Path]) -> None:
    table = hyperchunk.open_collection(parts, concat=0).table("/g", ["h", "u8", "text"])
    h, u8 = joined(parts, "g/h"), joined(parts, "g/u8")
    dataset = table.to_dataset()
    found = dataset.to_table(columns=["u8"], filter=pc.field("h") > 500)
    assert found["u8"].to_pylist() == u8[h > 500].tolist()
    assert dataset.count_rows(
        filter=(pc.field("h") > 0) & (pc.field("u8") > pa.scalar(2**63 + 2**62, pa.uint64()))
    ) == int(((h > 0) & (u8 > 2**63 + 2**62)).sum())
    assert table.scanned is not None
    assert table.scanned.fused
    # A filter that pyarrow evaluates.
    found = dataset.to_table(columns=["h"], filter=pc.starts_with(pc.field("text"), "üü"))
    text = [value.decode() for value in joined(parts, "g/text")]
    assert found["h"].to_pylist() == [value for value, own in zip(h.tolist(), text, strict=True) if own == "üü"]
    assert dataset.filter(pc.field("h") < 0).count_rows() == int((h < 0).sum())


def test_duckdb(parts: list[Path]) -> None:
    duckdb = pytest.importorskip("duckdb")
    collection = hyperchunk.open_collection(parts, concat=0)
    t = collection.table("/g", ["h", "big", "name", "text"])
    h, big, name = joined(parts, "g/h"), joined(parts, "g/big"), joined(parts, "g/name")
    with duckdb.connect() as connection:
        connection.register("t", t)
        found = connection.sql("select count(*), sum(big) from t where h > 100").fetchall()
        assert found == [(int((h > 100).sum()), sum(int(value) for value in big[h > 100]))]
        assert connection.sql("select count(*) from t").fetchall() == [(len(h),)]
        rows = connection.sql("select name, count(*) from t group by name order by name").fetchall()
        assert rows == [(key.decode(), int((name == key).sum())) for key in np.unique(name)]


def test_duckdb_names_a_file_that_changed(parts: list[Path]) -> None:
    duckdb = pytest.importorskip("duckdb")
    t = hyperchunk.open_collection(parts, concat=0).table("/g", ["h"])
    with h5py.File(parts[2], "r+") as file:
        file["g/h"][0] = 1
    with duckdb.connect() as connection:
        connection.register("t", t)
        with pytest.raises(duckdb.Error, match=r"p2\.h5"):
            connection.sql("select sum(h) from t").fetchall()


def test_polars(parts: list[Path]) -> None:
    pl = pytest.importorskip("polars")
    table = hyperchunk.open_collection(parts, concat=0).table("/g", ["h", "flag", "xyz"])
    h, flag, xyz = joined(parts, "g/h"), joined(parts, "g/flag"), joined(parts, "g/xyz")
    lazy = hyperchunk.scan_hyperchunk(table)
    found = lazy.filter((pl.col("h") > 300) & pl.col("flag")).select("h").collect()
    assert found["h"].to_list() == h[(h > 300) & flag].tolist()
    assert lazy.filter(pl.col("h") < -300).select(pl.len()).collect().item() == int((h < -300).sum())
    assert lazy.head(6).collect().height == 6
    frame = table.to_polars()
    assert frame["flag"].to_list() == flag.tolist()
    np.testing.assert_array_equal(frame["xyz"].to_numpy(), xyz)
    assert pl.DataFrame(table.select(["h"]))["h"].to_list() == h.tolist()


def test_pandas(parts: list[Path]) -> None:
    pytest.importorskip("pandas")
    frame = hyperchunk.open_collection(parts, concat=0).table("hits", ["id", "e"]).to_pandas()
    np.testing.assert_array_equal(frame["e"], joined(parts, "hits")["e"])


def test_saved_and_appended_collections(parts: list[Path], tmp_path: Path) -> None:
    collection = hyperchunk.open_collection(parts[:2], concat=0)
    collection.append(parts)
    collection.save(tmp_path / "all.hcx")
    found = hyperchunk.open_collection(tmp_path / "all.hcx").table("hits").to_numpy()
    np.testing.assert_array_equal(found["id"], joined(parts, "hits")["id"])


def test_the_first_file_may_be_empty(parts: list[Path]) -> None:
    order = [parts[1], parts[0], parts[3]]
    table = hyperchunk.open_collection(order, concat=0).table("hits")
    assert table.to_numpy()["id"].tolist() == joined(order, "hits")["id"].tolist()
    assert table.nbytes > 0
    empty = hyperchunk.open_collection([parts[1]], concat=0).table("hits")
    assert (empty.num_rows, empty.nbytes, empty.to_pyarrow().num_rows) == (0, 0, 0)


def test_what_is_no_table(parts: list[Path]) -> None:
    collection = hyperchunk.open_collection(parts, concat=0)
    with pytest.raises(InvalidError, match=r"expected columns of equal length in each file, got .*odd 155"):
        collection.table("/", ["g/h", "odd"])
    with pytest.raises(InvalidError, match="scalar: expected a dataset that is joined along its first axis"):
        collection.table("g", ["h", "scalar"])
    with pytest.raises(KeyError, match="nothing"):
        collection.table("g", ["nothing"])
    with pytest.raises(KeyError):
        collection.table("nothing")
    with pytest.raises(InvalidError, match="at least one column"):
        collection.table("g", [])
    with pytest.raises(TypeError, match="list of names"):
        collection.table("g", "h")
    assert collection.table("/", ["g/h", "g/big"]).num_rows == sum(LENGTHS)


def test_a_file_that_changed_is_named(parts: list[Path]) -> None:
    table = hyperchunk.open_collection(parts, concat=0).table("/g", ["h"])
    with h5py.File(parts[2], "r+") as file:
        file["g/h"][0] = 1
    with pytest.raises(ChangedError, match=r"p2\.h5"):
        list(table.batches())
    with pytest.raises(Exception, match=r"p2\.h5"):
        table.to_pyarrow()
    # The files before it can be read.
    assert len(table[:4].to_numpy()["h"]) == 4


def test_damaged_chunks_are_named(parts: list[Path]) -> None:
    with h5py.File(parts[4]) as file:
        place = file["hits"].id.get_chunk_info(2)
    data = bytearray(parts[4].read_bytes())
    for offset in range(place.byte_offset, place.byte_offset + place.size):
        data[offset] ^= 0x5A
    parts[4].write_bytes(data)
    table = hyperchunk.open_collection(parts, concat=0).table("hits")
    with pytest.raises(Exception, match=r"p4\.h5"):
        table.to_pyarrow()


def test_netcdf_files(tmp_path: Path) -> None:
    paths = []
    for number, units in enumerate(["hours since 2020-01-01", "hours since 2020-01-01", "days since 2020-01-01"]):
        paths.append(tmp_path / f"n{number}.nc")
        with netCDF4.Dataset(paths[-1], "w") as file:
            for name, size in (("time", None), ("bare", None), ("x", 3)):
                file.createDimension(name, size)
            time = file.createVariable("time", "f8", ("time",))
            time.units = units
            time[:] = [number, number + 0.5]
            file.createVariable("x", "f4", ("x",))[:] = [1, 2, 3]
            file.createVariable("v", "i2", ("time",), fill_value=-1)[:] = [number, 9]
            file.createVariable("field", "f4", ("time", "x"))[:] = number
            file.createVariable("turned", "f4", ("x", "time"))[:] = number
    table = hyperchunk.open_collection(paths[:2], concat="time").table()
    assert sorted(table.column_names) == ["field", "time", "v"]
    assert table.to_numpy()["v"].tolist() == [0, 9, 1, 9]
    assert table.to_numpy()["field"].shape == (4, 3)
    with pytest.raises(InvalidError, match=r"turned: .* it is joined along axis 1"):
        hyperchunk.open_collection(paths[:2], concat="time").table(columns=["turned"])
    collection = hyperchunk.open_collection(paths, concat="time")
    with pytest.raises(InvalidError, match="time: its units differ between the files"):
        collection.table()
    assert collection.table(columns=["v"]).to_numpy()["v"].tolist() == [0, 9, 1, 9, 2, 9]


def test_variables_shorter_than_their_dimension_are_named(tmp_path: Path) -> None:
    paths = [tmp_path / "a.nc", tmp_path / "b.nc"]
    for path, rows in zip(paths, (3, 2), strict=True):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createVariable("v", "i4", ("time",))[:] = [1, 2, 3]
            file.createVariable("w", "i4", ("time",))[:] = np.arange(rows)
    for columns in (["w"], ["v", "w"]):
        with pytest.raises(InvalidError, match=r"b\.nc"):
            list(hyperchunk.open_collection(paths).table(columns=columns).batches())
