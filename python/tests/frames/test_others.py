"""PyTables, NWB, NeXus and Keras: equal to what their libraries read."""

from __future__ import annotations

import datetime
import os
import warnings
from pathlib import Path
from typing import Any

import duckdb
import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.frames import nexus
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_frames import rows_of_tables

#: Number of random tables; `make test-all` has more.
COUNT = int(os.environ.get("HYPERCHUNK_FRAMES", "20"))

pytestmark = pytest.mark.filterwarnings("ignore")


# --- PyTables ---


@pytest.fixture
def of_pytables(tmp_path: Path) -> Path:
    tables = pytest.importorskip("tables")
    path = tmp_path / "t.h5"

    class Row(tables.IsDescription):
        number = tables.Int32Col(pos=0)
        colour = tables.EnumCol(["red", "green", "blue"], "red", base="uint8", pos=1)
        when = tables.Time64Col(pos=2)
        second = tables.Time32Col(pos=3)
        cell = tables.Float64Col(shape=(2, 3), pos=4)
        ok = tables.BoolCol(pos=5)
        name = tables.StringCol(8, pos=6)
        wave = tables.ComplexCol(16, pos=7)

        class info(tables.IsDescription):  # noqa: N801
            x = tables.Float32Col(pos=0)
            tag = tables.StringCol(3, pos=1)

    with tables.open_file(path, "w") as file:
        table = file.create_table("/", "table", Row, filters=tables.Filters(5, "blosc"))
        for number in range(20):
            row = table.row
            row["number"], row["colour"], row["when"], row["second"] = number, number % 3, 1.5e9 + number / 8, number
            row["cell"], row["ok"], row["name"], row["wave"] = (
                np.full((2, 3), number),
                number % 2,
                f"n{number}",
                number * 1j,
            )
            row["info/x"], row["info/tag"] = number / 2, "ab"
            row.append()
        file.create_array("/", "flags", np.array([True, False]))
        file.create_carray("/", "carray", obj=np.arange(10.0))
        for name, atom, rows in (
            ("objects", tables.ObjectAtom(), [{"a": [1, 2.5]}, "text", None]),
            ("texts", tables.VLUnicodeAtom(), ["ü", "日本", ""]),
            ("bytes", tables.VLStringAtom(), [b"a", b"\0b"]),
            ("numbers", tables.Int32Atom(), [[1], [2, 3], []]),
        ):
            array = file.create_vlarray("/", name, atom)
            for row in rows:
                array.append(row)
        file.create_earray("/", "times", tables.Time64Atom(), (0,)).append(np.array([1.25, 2.5]))
    return path


def test_tables(of_pytables: Path) -> None:
    import tables

    frame = hyperchunk.frames.read(hyperchunk.open(of_pytables)["table"])
    with tables.open_file(of_pytables) as file:
        expected = file.root.table.read()
        names = file.root.table.get_enum("colour")
    found = dict(zip(frame.column_names, frame.values(), strict=True))
    assert list(found)[-2:] == ["info/x", "info/tag"]
    for name, values in found.items():
        wanted = expected
        for part in name.split("/"):
            wanted = wanted[part]
        if name == "colour":
            assert frame.to_pandas()["colour"].tolist() == [names(value) for value in wanted]
        elif name == "when":
            np.testing.assert_allclose(values.data, wanted, rtol=0, atol=1e-6)
        else:
            np.testing.assert_array_equal(values.data, wanted)
    rows = duckdb.sql("select number, colour, ok, \"info/x\" from frame where colour = 'green' order by 1").fetchall()
    assert rows[:2] == [(1, "green", True, 0.5), (4, "green", False, 2.0)]


@settings(max_examples=COUNT, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=rows_of_tables(), filters=st.sampled_from([(0, "zlib"), (5, "zlib"), (5, "blosc:lz4"), (5, "bzip2")]))
def test_random_tables(tmp_path: Path, made: np.ndarray, filters: tuple[int, str]) -> None:
    tables = pytest.importorskip("tables")
    path = tmp_path / "r.h5"
    path.unlink(missing_ok=True)
    with tables.open_file(path, "w") as file:
        order = "big" if any(made.dtype[name].base.byteorder == ">" for name in made.dtype.names) else "little"
        file.create_table("/", "t", obj=made, filters=tables.Filters(*filters), byteorder=order, chunkshape=8)
    with tables.open_file(path) as file:
        expected = file.root.t.read()
    frame = hyperchunk.frames.read(hyperchunk.open(path)["t"], half="float32")
    in_pandas = hyperchunk.frames.read(hyperchunk.open(path)["t"]).to_pandas()
    in_polars, in_duckdb = frame.to_polars(), duckdb.sql("select * from frame").fetchall()
    assert len(in_pandas) == in_polars.height == len(in_duckdb) == len(made)
    for number, (name, values) in enumerate(zip(frame.column_names, frame.values(), strict=True)):
        wanted = expected
        for part in name.split("/"):
            wanted = wanted[part]
        np.testing.assert_array_equal(values.data, wanted)
        for found, theirs in zip(in_pandas[name], wanted, strict=True):
            np.testing.assert_array_equal(found, theirs)
        if wanted.ndim == 1 and wanted.dtype.kind in "iufbS":
            listed = [None if value != value else value for value in wanted.tolist()]
            assert in_polars[name].to_list() == listed
            assert [row[number] for row in in_duckdb] == listed


@pytest.mark.parametrize("name", ["flags", "carray", "objects", "texts", "bytes", "numbers", "times"])
def test_arrays(of_pytables: Path, name: str) -> None:
    import tables

    found = hyperchunk.frames.read(hyperchunk.open(of_pytables)[name])
    with tables.open_file(of_pytables) as file:
        expected = file.get_node("/" + name).read()
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.array_equal(ours, theirs) if isinstance(theirs, np.ndarray) else ours == theirs
        assert isinstance(ours, type(theirs))


# --- NWB ---


def dynamic_table(group: Any) -> None:
    """Writes a table as hdmf does: `id`, a column of numbers, one of lists, and one of lists of lists."""
    group.attrs.update(
        {"neurodata_type": "DynamicTable", "namespace": "hdmf-common", "colnames": ["t", "tags", "deep"]}
    )
    group["id"] = np.array([10, 11, 12])
    group["t"] = np.arange(3.0)
    group["tags"], group["tags_index"] = ["a", "b", "c"], np.array([1, 1, 3], "u1")
    group["deep"], group["deep_index"] = np.arange(6), np.array([1, 4, 6], "u1")
    group["deep_index_index"] = np.array([2, 2, 3], "u1")


def test_tables_of_nwb(tmp_path: Path) -> None:
    path = tmp_path / "n.nwb"
    with h5py.File(path, "w") as file:
        file.attrs["nwb_version"] = "2.6.0"
        dynamic_table(file.create_group("intervals/trials"))
    frame = hyperchunk.open(path).table("intervals/trials")
    found = frame.to_pandas()
    assert found.index.tolist() == [10, 11, 12]
    assert found.index.name == "id"
    assert [list(row) for row in found["tags"]] == [["a"], [], ["b", "c"]]
    assert [[list(inner) for inner in row] for row in found["deep"]] == [[[0], [1, 2, 3]], [], [[4, 5]]]
    assert frame.to_pyarrow()["deep"].to_pylist() == [[[0], [1, 2, 3]], [], [[4, 5]]]
    assert [list(row) for row in frame[2:]["tags"].to_pandas()["tags"]] == [["b", "c"]]
    assert duckdb.sql("select id, len(tags) from frame").fetchall() == [(10, 1), (11, 0), (12, 2)]
    path = tmp_path / "damaged.nwb"
    with h5py.File(path, "w") as file:
        dynamic_table(file.create_group("intervals/trials"))
        file["intervals/trials/tags_index"][0] = 3
    with pytest.raises(hyperchunk.HyperchunkError, match="ends of rows"):
        hyperchunk.open(path).table("intervals/trials").to_pandas()


def test_tables_of_pynwb(tmp_path: Path) -> None:
    pynwb = pytest.importorskip("pynwb")
    path = tmp_path / "p.nwb"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = pynwb.NWBFile("d", "i", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        file.add_trial_column("spikes", "s", index=True)
        for number in range(4):
            file.add_trial(start_time=float(number), stop_time=number + 1.0, spikes=list(range(number)))
        with pynwb.NWBHDF5IO(path, "w") as io:
            io.write(file)
        with pynwb.NWBHDF5IO(path, "r") as io:
            expected = io.read().trials.to_dataframe()
            found = hyperchunk.frames.read(hyperchunk.open(path)["intervals/trials"]).to_pandas()
            assert found.drop(columns="spikes").equals(expected.drop(columns="spikes"))
            assert [list(row) for row in found["spikes"]] == [list(row) for row in expected["spikes"]]


# --- NeXus ---


def test_plots_of_nexus(tmp_path: Path) -> None:
    path = tmp_path / "x.nxs"
    with h5py.File(path, "w") as file:
        file.attrs.update({"NX_class": "NXroot", "default": "second"})
        for name in ("first", "second"):
            entry = file.create_group(name)
            entry.attrs.update({"NX_class": "NXentry", "default": "plot"})
            plot = entry.create_group("plot")
            plot.attrs.update(
                {"NX_class": "NXdata", "signal": "counts", "axes": ["energy"], "auxiliary_signals": ["more"]}
            )
            plot["energy"], plot["counts"], plot["more"] = np.arange(4.0), np.arange(4) + len(name), np.ones(4)
            plot["unrelated"] = np.arange(9)
    file = hyperchunk.open(path)
    assert nexus.default(file).name == "/second/plot"
    frame = hyperchunk.frames.read(file)
    assert frame.column_names == ["energy", "counts", "more"]
    assert frame.to_pandas()["counts"].tolist() == [6, 7, 8, 9]
    assert hyperchunk.frames.read(file["first"]).to_pandas()["counts"].tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("name", ["edge", "edge\x01"])
def test_lower_bounds_of_bins(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.nxs"
    with h5py.File(path, "w") as file:
        plot = file.create_group("plot")
        plot.attrs.update({"NX_class": "NXdata", "signal": "counts", "axes": [name]})
        plot[name], plot["counts"] = np.arange(5.0), np.arange(4)
    frame = hyperchunk.frames.read(hyperchunk.open(path)["plot"]).to_pandas()
    assert frame.to_numpy().tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_plots_that_lead_in_a_circle(tmp_path: Path) -> None:
    path = tmp_path / "x.nxs"
    with h5py.File(path, "w") as file:
        file.attrs.update({"NX_class": "NXroot", "default": "a"})
        file["a/b"] = h5py.SoftLink("/a")
        file["a"].attrs.update({"NX_class": "NXentry", "default": "b"})
    with pytest.raises(hyperchunk.HyperchunkError, match="NXdata"):
        hyperchunk.frames.read(hyperchunk.open(path))


# --- Keras ---


def test_weights_of_keras(tmp_path: Path) -> None:
    two, three = tmp_path / "two.h5", tmp_path / "three.weights.h5"
    kernel, bias = np.arange(6.0).reshape(2, 3), np.zeros(3)
    with h5py.File(two, "w") as file:
        file.attrs["keras_version"] = "2.12.0"
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = np.array([b"dense", b"drop"])
        dense = weights.create_group("dense")
        dense.attrs["weight_names"] = np.array([b"dense/kernel:0", b"dense/bias:0"])
        dense["dense/kernel:0"], dense["dense/bias:0"] = kernel, bias
        weights.create_group("drop").attrs["weight_names"] = np.array([], "S1")
    found = hyperchunk.frames.read(hyperchunk.open(two))
    assert list(found) == ["dense", "drop"]
    assert list(found["dense"]) == ["dense/kernel:0", "dense/bias:0"]
    np.testing.assert_array_equal(found["dense"]["dense/kernel:0"], kernel)
    with h5py.File(three, "w") as file:
        for number in range(12):
            file[f"layers/dense/vars/{number}"] = kernel + number
        file.create_group("layers/dropout")
    found = hyperchunk.frames.read(hyperchunk.open(three))
    assert list(found) == ["layers/dense"]
    assert [array[0, 0] for array in found["layers/dense"]] == list(range(12))


def test_objects_of_no_program(tmp_path: Path) -> None:
    path = tmp_path / "p.h5"
    with h5py.File(path, "w") as file:
        file["x"] = [1]
    assert hyperchunk.frames.kind(hyperchunk.open(path)) is None
    with pytest.raises(hyperchunk.HyperchunkError, match="cannot recognise"):
        hyperchunk.frames.read(hyperchunk.open(path))
