"""Arrow types that HDF5 lacks: each way into a file and out of it keeps them, at every depth, or refuses them."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import hyperchunk
import numpy as np
import pyarrow as pa
import pyarrow.flight as fl
import pyarrow.parquet as pq
import pytest
from flight_server import Server
from fresh import HYPERCHUNK
from hyperchunk.exceptions import UnsupportedError

TIME = dt.datetime(2026, 3, 4, 5, 6, 7)
DAY = dt.datetime(2026, 3, 4)
COLUMNS: dict[str, pa.Array] = {
    str(data_type).replace("/", " "): pa.array(values, data_type)
    for data_type, values in [
        (pa.time32("s"), [dt.time(1, 2, 3), dt.time(4)]),
        (pa.time32("ms"), [dt.time(1, 2, 3, 5000), dt.time(4)]),
        (pa.time64("us"), [dt.time(1, 2, 3, 5), dt.time(4)]),
        (pa.time64("ns"), [dt.time(1, 2, 3, 5), dt.time(4)]),
        *((pa.timestamp(unit), [TIME, DAY]) for unit in ("s", "ms", "us", "ns")),
        (pa.timestamp("s", "UTC"), [TIME, DAY]),
        (pa.timestamp("us", "Europe/Berlin"), [TIME, DAY]),
        (pa.date32(), [DAY.date(), dt.date(1969, 12, 31)]),
        (pa.date64(), [DAY.date(), dt.date(1969, 12, 31)]),
        *((pa.duration(unit), [5, -7]) for unit in ("s", "ms", "us", "ns")),
        (pa.decimal32(7, 2), [Decimal("1.25"), Decimal(-3)]),
        (pa.decimal64(15, 2), [Decimal("1.25"), Decimal(-3)]),
        (pa.decimal128(20, 2), [Decimal("1.25"), Decimal(-3)]),
        (pa.decimal256(50, 2), [Decimal("1.25"), Decimal(-3)]),
        (pa.bool_(), [True, False]),
        (pa.float16(), [1.5, -2.5]),
        (pa.uint8(), [1, 200]),
        (pa.string(), ["a", "bc"]),
        (pa.large_string(), ["ä", ""]),
        (pa.binary(), [b"a", b"b\0c"]),
        (pa.large_binary(), [b"", b"bc"]),
        (pa.binary(3), [b"abc", b"d\0f"]),
        (pa.list_(pa.int16()), [[1, 2], []]),
        (pa.list_(pa.float64(), 2), [[1, 2], [3, 4]]),
        (pa.map_(pa.string(), pa.decimal128(9, 2)), [[("k", Decimal(1))], []]),
    ]
}
COLUMNS["dictionary"] = pa.array([dt.time(1), dt.time(1)], pa.time32("s")).dictionary_encode()
#: Columns with values of variable length, which dual files and stores cannot have.
VARIABLE = ("string", "binary", "list<", "map", "large_")


def in_struct(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array([1, 2]), values], ["number", "value"])


def in_list(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), values)


def in_fixed_list(values: pa.Array) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.concat_arrays([values, values]), 2)


def in_both(values: pa.Array) -> pa.Array:
    return in_struct(in_list(in_struct(values)))


DEPTHS: list[Callable[[pa.Array], pa.Array]] = [lambda values: values, in_struct, in_list, in_fixed_list, in_both]
NAMES = ["plain", "struct", "list", "fixed-size list", "struct of lists of structs"]


def kind(data_type: pa.DataType) -> Any:
    """Returns a type without differences of representation, which are documented."""
    if isinstance(data_type, pa.BaseExtensionType):
        bools = data_type.extension_name == "arrow.bool8"
        return kind(pa.bool_() if bools else data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return kind(data_type.value_type)
    if pa.types.is_large_string(data_type):
        return pa.string()
    if pa.types.is_large_binary(data_type):
        return pa.binary()
    if pa.types.is_struct(data_type):
        return [(field.name, kind(field.type)) for field in data_type]
    if pa.types.is_map(data_type):
        return ("map", kind(data_type.key_type), kind(data_type.item_type))
    if pa.types.is_fixed_size_list(data_type):
        return ("fixed", data_type.list_size, kind(data_type.value_type))
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return ("list", kind(data_type.value_type))
    return data_type


def assert_same(found: pa.Table, wanted: pa.Table) -> None:
    assert found.column_names == wanted.column_names
    for name in wanted.column_names:
        assert kind(found[name].type) == kind(wanted[name].type), name
        assert found[name].to_pylist() == wanted[name].to_pylist(), name


def run(*words: str | Path) -> None:
    done = subprocess.run([HYPERCHUNK, "arrow", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def view(path: Path, table: str) -> pa.Table:
    with hyperchunk.open(path) as file:
        return file.table(table).to_pyarrow()


def import_arrow(table: pa.Table, folder: Path, *words: str) -> Path:
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    run("import", folder / "a.arrow", folder / "a.h5", *words)
    return folder / "a.h5"


def as_arrow(table: pa.Table, folder: Path) -> pa.Table:
    return view(import_arrow(table, folder), "/a")


def as_parquet(table: pa.Table, folder: Path) -> pa.Table:
    pq.write_table(table, folder / "a.parquet")
    run("import", folder / "a.parquet", folder / "a.h5")
    return view(folder / "a.h5", "/a")


def as_compound(table: pa.Table, folder: Path) -> pa.Table:
    return view(import_arrow(table, folder, "--compound"), "/a")


def out_as_arrow(table: pa.Table, folder: Path) -> pa.Table:
    run("export", f"{import_arrow(table, folder)}:/a", folder / "b.arrow")
    return pa.ipc.open_file(folder / "b.arrow").read_all()


def out_as_parquet(table: pa.Table, folder: Path) -> pa.Table:
    """Parquet has neither seconds nor dates of milliseconds; Hyperchunk reads them as they were."""
    run("export", f"{import_arrow(table, folder)}:/a", folder / "b.parquet")
    run("import", folder / "b.parquet", folder / "b.h5")
    return view(folder / "b.h5", "/a")


def compound_out_as_arrow(table: pa.Table, folder: Path) -> pa.Table:
    run("export", f"{import_arrow(table, folder, '--compound')}:/a", folder / "b.arrow")
    return pa.ipc.open_file(folder / "b.arrow").read_all()


WAYS = [as_arrow, as_parquet, as_compound, out_as_arrow, out_as_parquet, compound_out_as_arrow]


def table_of(depth: Callable[[pa.Array], pa.Array], names: list[str] | None = None) -> pa.Table:
    # Nested lists of fixed size are shown as tensors.
    known = [name for name in COLUMNS if depth is not in_fixed_list or not name.startswith("fixed_size_list")]
    return pa.table({name: depth(COLUMNS[name]) for name in names or known})


@pytest.mark.parametrize("depth", DEPTHS, ids=NAMES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_types_are_kept(tmp_path: Path, way: Callable[[pa.Table, Path], pa.Table], depth: Any) -> None:
    table = table_of(depth)
    assert_same(way(table, tmp_path), table)


@pytest.mark.parametrize("name", ["time32[s]", "timestamp[s]", "decimal128(20, 2)", "binary", "dictionary"])
@pytest.mark.parametrize("way", [as_arrow, out_as_arrow, out_as_parquet], ids=lambda way: way.__name__)
@pytest.mark.parametrize("depth", [DEPTHS[0], in_struct], ids=["plain", "struct"])
def test_a_table_of_one_column_keeps_its_type(tmp_path: Path, way: Any, depth: Any, name: str) -> None:
    table = table_of(depth, [name])
    assert_same(way(table, tmp_path), table)


def test_one_column_alone_keeps_type_and_nulls(tmp_path: Path) -> None:
    """Also if its dataset is named."""
    values = pa.array([dt.time(1, 2, 3), None], pa.time32("s"))
    path = import_arrow(pa.table({"t": values, "n": [1, 2]}), tmp_path)
    assert view(path, "/a/t")["t"].to_pylist() == values.to_pylist()
    run("export", f"{path}:/a/t", tmp_path / "b.arrow")
    found = pa.ipc.open_file(tmp_path / "b.arrow").read_all()
    assert (found["t"].type, found["t"].to_pylist()) == (values.type, values.to_pylist())


@pytest.mark.parametrize("words", [[], ["--compound"]], ids=["group", "compound"])
def test_attributes_of_a_table_come_back(tmp_path: Path, words: list[str]) -> None:
    path = import_arrow(table_of(DEPTHS[0], ["time32[s]", "uint8"]), tmp_path, *words)
    with hyperchunk.open(path, "r+") as file:
        file["a"].attrs["station"] = "north"
        file["a"].attrs["offset"] = np.int16(3)
    run("export", f"{path}:/a", tmp_path / "b.arrow")
    run("import", tmp_path / "b.arrow", tmp_path / "b.h5")
    with hyperchunk.open(tmp_path / "b.h5") as file:
        assert (file["a"].attrs["station"], file["a"].attrs["offset"]) == ("north", 3)
        assert kind(file.table("a").schema.field("time32[s]").type) == pa.time32("s")


@pytest.mark.parametrize("nulls", [pa.array([["a", "b"], None], pa.list_(pa.string(), 2)), pa.array([["a"], None])])
def test_null_lists_of_text_are_null(tmp_path: Path, nulls: pa.Array) -> None:
    found = view(import_arrow(pa.table({"x": nulls}), tmp_path), "/a")
    assert found["x"].to_pylist() == nulls.to_pylist()


@pytest.mark.parametrize("value", [None, {"a": None}], ids=["struct", "member"])
def test_nulls_inside_of_fixed_lists_are_refused(tmp_path: Path, value: Any) -> None:
    """Also where a whole list is null, which is marked."""
    data_type = pa.list_(pa.struct([("a", pa.int32())]), 1)
    for rows in ([[value], None], [None, [{"a": 1}], [value]]):
        with pytest.raises(AssertionError, match="nulls inside of other values"):
            import_arrow(pa.table({"x": pa.array(rows, data_type)}), tmp_path)
    rows = [None, [{"a": 1}]]
    assert view(import_arrow(pa.table({"x": pa.array(rows, data_type)}), tmp_path), "/a")["x"].to_pylist() == rows


def test_parquet_of_times_in_seconds_has_times(tmp_path: Path) -> None:
    """And not integers: pyarrow's reader is another one."""
    names = ["time32[s]", "timestamp[s]", "timestamp[s, tz=UTC]", "date64[ms]", "duration[s]"]
    run("export", f"{import_arrow(table_of(DEPTHS[0], names), tmp_path)}:/a", tmp_path / "b.parquet")
    found = pq.read_table(tmp_path / "b.parquet")
    for name in names:
        assert found[name].to_pylist() == COLUMNS[name].to_pylist(), name
    with hyperchunk.create(tmp_path / "c.h5") as file:
        file["times"] = np.array(["2026-03-04T05:06:07"], "M8[s]").astype(hyperchunk.opaque_dtype(np.dtype("M8[s]")))
    run("export", f"{tmp_path / 'c.h5'}:/times", tmp_path / "c.parquet")
    assert pq.read_table(tmp_path / "c.parquet")["times"].to_pylist() == [TIME]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Server]]:
    if os.name != "posix":
        pytest.skip("servers are stopped by signals")
    folder = tmp_path_factory.mktemp("served")
    with Server(folder, options=("--writable",)) as server:
        yield folder, server


def put(server: Server, data: pa.Table, /, **command: Any) -> str:
    with server.client() as client:
        writer, results = client.do_put(fl.FlightDescriptor.for_command(json.dumps(command)), data.schema)
        with writer:
            writer.write_table(data)
            writer.done_writing()
            return str(json.loads(results.read().to_pybytes())["as"])


@pytest.mark.parametrize("depth", range(len(DEPTHS)), ids=NAMES)
@pytest.mark.parametrize("way", ["", "hdf5"])
def test_written_tables_keep_types(served: tuple[Path, Server], way: str, depth: int) -> None:
    folder, server = served
    table = table_of(DEPTHS[depth])
    name = f"{way}{depth}.h5"
    assert put(server, table, file=name, table="t", **({"as": way} if way else {})) == "hdf5"
    assert_same(view(folder / name, "t"), table)


FIXED = [name for name in COLUMNS if not name.startswith(VARIABLE) and name != "dictionary"]


@pytest.mark.parametrize(
    ("depth", "name"),
    [("plain", name) for name in FIXED]
    + [("fixed-size list", name) for name in FIXED if not name.startswith("fixed_size_list")],
)
def test_files_of_two_formats_and_stores_keep_or_refuse_types(
    tmp_path: Path, served: tuple[Path, Server], name: str, depth: str
) -> None:
    folder, server = served
    table = table_of(DEPTHS[NAMES.index(depth)], [name])
    lost = name.startswith(("time32", "time64", "date64", "decimal")) or "tz=" in name

    def write() -> None:
        with hyperchunk.create(tmp_path / "a.h5", layout="arrow") as file:
            file.append(table)

    if lost or name in ("date32[day]", "bool"):  # bits, and days in 4 bytes
        with pytest.raises(UnsupportedError, match="cannot be in a file that is HDF5 and Arrow"):
            write()
        assert not (tmp_path / "a.h5").exists()
    else:
        write()
        assert_same(view(tmp_path / "a.h5", "/"), table)
        assert_same(pa.ipc.open_file(tmp_path / "a.h5").read_all(), table)
    store = f"store {depth} {name}.h5"
    if lost:
        with pytest.raises(pa.ArrowException, match="a store has no place for"):
            put(server, table, file=store, table="t", **{"as": "store"})
        assert not (folder / store).exists()
    else:
        put(server, table, file=store, table="t", **{"as": "store"})
        assert_same(view(folder / store, "t"), table)


@pytest.mark.parametrize("data_type", [pa.list_(pa.int32(), 0), pa.binary(0), pa.struct([])], ids=str)
def test_rows_without_bytes_are_refused(tmp_path: Path, data_type: pa.DataType) -> None:
    """libhdf5 cannot read a file of two formats with such a column."""
    table = pa.table({"x": pa.array([[], []] if pa.types.is_list(data_type) else [None, None], data_type)})
    if pa.types.is_fixed_size_list(data_type):
        table = pa.table({"x": pa.array([[], []], data_type)})
    with (
        pytest.raises(UnsupportedError, match=r"HDF5|no bytes"),
        hyperchunk.create(tmp_path / "a.h5", layout="arrow") as file,
    ):
        file.append(table)
    assert not (tmp_path / "a.h5").exists()


def test_null_lists_are_not_written_as_empty_ones(served: tuple[Path, Server]) -> None:
    _, server = served
    with pytest.raises(pa.ArrowException, match="has nulls; its HDF5 type has none"):
        put(server, pa.table({"x": pa.array([["a"], None])}), file="nulls.h5", table="t")


def test_masked_values_are_refused(tmp_path: Path) -> None:
    masked = np.ma.array([1, 2, 3], mask=[False, True, False])
    with hyperchunk.create(tmp_path / "a.h5", layout="arrow") as file:
        with pytest.raises(UnsupportedError, match="column 'x' has masked values"):
            file.append({"x": masked})
        file.append({"x": np.ma.array([1, 2, 3])})
    assert view(tmp_path / "a.h5", "/")["x"].to_pylist() == [1, 2, 3]
