"""Live datasets that grow with their inputs."""

import json
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import WITH_CUDA
from fresh import failure, read, run_python
from programs import elementwise, ndvi


def series(path: Path, rows: int, *names: str) -> np.ndarray:
    """Makes growable datasets, or extends them by rows. Returns their contents: each is the previous one plus 1."""
    with h5py.File(path, "a") as file:
        for n, name in enumerate(names):
            if name not in file:
                file.create_dataset(name, shape=(0, 6), maxshape=(None, 6), chunks=(4, 6), dtype="f4")
            data = file[name]
            data.resize(data.shape[0] + rows, axis=0)
            data[...] = np.arange(data.size).reshape(data.shape) + n
        whole: np.ndarray = file[names[0]][...]
    return whole


def both(file: Path, name: str, selection: Any = ...) -> np.ndarray:
    """Returns the values, the same through the plugin and hyperchunk.open."""
    by_plugin = read(file, name, selection)
    with hyperchunk.open(file) as opened:
        np.testing.assert_array_equal(opened[name][selection], by_plugin)
    return by_plugin


@pytest.mark.parametrize("language", [*WITH_CUDA, "expression"])
def test_it_grows_with_its_inputs(language: str, tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    a = series(file, 5, "a", "b")
    if language == "expression":
        [record] = hyperchunk.udf.attach(file, outputs="sum", expression="a + b", maxshape="inputs")
    else:
        text = elementwise(language, "a[i] + b[i]", "sum", ["a", "b"])
        [record] = attach(file, language, text, chunks="auto", maxshape="inputs")
    assert (record["maximum_resolution"], record["chunk"], record["api_version"]) == ([None, 6], [4, 6], 4)
    with h5py.File(file) as opened:
        assert (opened["sum"].shape, opened["sum"].maxshape) == ((5, 6), (None, 6))
    np.testing.assert_array_equal(both(file, "sum"), 2 * a + 1)
    for rows in (1, 7, 100):
        shorter = a
        a = series(file, rows, "a", "b")
        # It is shorter than its inputs until it is extended, and correct.
        np.testing.assert_array_equal(both(file, "sum"), 2 * shorter + 1)
        assert hyperchunk.udf.extend(file, "sum") == a.shape
        np.testing.assert_array_equal(both(file, "sum"), 2 * a + 1)
    assert hyperchunk.udf.extend(file, "/sum") == a.shape
    assert hyperchunk.udf.show(file, "sum").error is None


def test_a_halo_at_an_edge_that_moves(tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    series(file, 5, "a")
    text = """
import numpy as np

def dynamic_dataset():
    a, out = lib.array("a"), lib.array("out")
    top = lib.getOffset()[0] - lib.getOffset("a")[0]
    out[:] = [a[max(top + n - 1, 0) : top + n + 2].sum() for n in range(len(out))]
"""
    with h5py.File(file, "a") as opened:
        opened.create_dataset("v", data=np.arange(7.0), maxshape=(None,), chunks=(3,))
    attach(file, "py", text.replace('"a"', '"v"'), chunks="3", halo=1, maxshape=[None])
    for size in (7, 8, 20):
        with h5py.File(file, "a") as opened:
            opened["v"].resize((size,))
            opened["v"][...] = np.arange(size)
        hyperchunk.udf.extend(file, "out")
        padded = np.pad(np.arange(size), 1)
        np.testing.assert_array_equal(both(file, "out"), padded[:-2] + padded[1:-1] + padded[2:])


def test_nobody_else_resizes_it(tmp_path: Path, attach: Any) -> None:
    """HDF5 would fill new chunks with zeros. With and without the plugin, it refuses, and the file stays unchanged."""
    file = tmp_path / "a.h5"
    a = series(file, 5, "a")
    attach(file, "lua", elementwise("lua", "a[i]", inputs=["a"]), chunks="auto", maxshape="inputs")
    before = file.read_bytes()
    code = "import sys, h5py\nout = h5py.File(sys.argv[1], 'a')['out']\n{}\nout.resize((50, 6))"
    for used, message, variables in [
        ("", "filter 31300 is not registered", {"HDF5_PLUGIN_PATH": ""}),
        ("", "filter 31300 is not registered", {}),
        ("out[...]", "hyperchunk udf extend", {}),
    ]:
        done = run_python(code.format(used), file, check=False, **variables)
        assert done.returncode != 0
        assert message in done.stderr
    assert len(file.read_bytes()) == len(before)
    np.testing.assert_array_equal(both(file, "out"), a)
    with h5py.File(file, "a") as opened, pytest.raises((OSError, RuntimeError, ValueError), match="extend"):
        opened["out"].resize((50, 6))
    assert read(file, "out").shape == (5, 6)
    series(file, 5, "a")
    assert hyperchunk.udf.extend(file, "out") == (10, 6)


def test_whoever_can_write_the_file_extends_it(adas: Any, command: Any) -> None:
    """Write access suffices to extend it, and the signature stays valid: growth is part of the signed record."""
    file: Path = adas(
        "py",
        "def dynamic_dataset():\n    lib.array('out')[:] = lib.getOffset()[0]\n",
        "out:4:int32",
        options=["--chunks", "2", "--maxshape", "*"],
    )
    signer = hyperchunk.udf.show(file, "out").signer
    assert hyperchunk.udf.extend(file, "out", (7,)) == (7,)
    assert hyperchunk.udf.show(file, "out").signer == signer
    assert command("udf", "verify", file).returncode == 0
    assert both(file, "out").tolist() == [0, 0, 2, 2, 4, 4, 6]


def test_chunks_that_hold_nothing(tmp_path: Path, attach: Any, command: Any) -> None:
    """Empty chunks made by force: hyperchunk.open and verify report them; libhdf5 returns its fill value."""
    file = tmp_path / "a.h5"
    series(file, 9, "a")
    attach(file, "lua", elementwise("lua", "a[i]", inputs=["a"]), chunks="auto", maxshape="inputs")
    series(file, 11, "a")
    with h5py.File(file, "a") as opened:
        out = opened["out"]
        plist, datatype = out.id.get_create_plist(), out.id.get_type()
        stubs = [out.id.read_direct_chunk((row, 0))[1] for row in (0, 4, 8)]
        del opened["out"], out
        # With this fill time, HDF5 does not call the filter at a resize.
        plist.set_fill_time(h5py.h5d.FILL_TIME_IFSET)
        space = h5py.h5s.create_simple((20, 6), (h5py.h5s.UNLIMITED, 6))
        made = h5py.Dataset(h5py.h5d.create(opened.id, b"out", datatype, space, plist))
        for row, stub in zip((0, 4, 8), stubs, strict=True):
            made.id.write_direct_chunk((row, 0), stub)
    with hyperchunk.open(file) as opened:
        assert opened["out"][:9].shape == (9, 6)
        with pytest.raises(OSError, match="holds nothing"):
            opened["out"][...]
    assert command("udf", "verify", file).returncode == 1
    assert command("udf", "rebuild", file).returncode == 0
    assert both(file, "out").shape == (20, 6)


def test_inputs_that_became_smaller(tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    series(file, 9, "a", "b")
    attach(file, "lua", ndvi("lua", "out", "a", "b"), chunks="auto", maxshape="inputs")
    with h5py.File(file, "a") as opened:
        opened["a"].resize((8, 6))
    assert "attach it again" in failure(file, "out")
    with hyperchunk.open(file) as opened, pytest.raises(OSError, match="attach it again"):
        opened["out"][...]
    with pytest.raises(hyperchunk.exceptions.InvalidRecordError, match="can only grow"):
        hyperchunk.udf.extend(file, "out")


def test_it_does_not_grow_past_its_inputs(tmp_path: Path, attach: Any) -> None:
    """Such a dataset could not be read any more."""
    file = tmp_path / "a.h5"
    a = series(file, 9, "a")
    attach(file, "lua", elementwise("lua", "a[i]", inputs=["a"]), chunks="auto", maxshape="inputs")
    with pytest.raises(
        hyperchunk.exceptions.InvalidRecordError, match=r"its inputs reach to 9x6 only.*extend the inputs"
    ):
        hyperchunk.udf.extend(file, "out", (12, 6))
    np.testing.assert_array_equal(both(file, "out"), a)
    a = series(file, 3, "a")
    assert hyperchunk.udf.extend(file, "out", (11, 6)) == (11, 6)
    np.testing.assert_array_equal(both(file, "out"), a[:11])
    with h5py.File(file, "a") as opened:
        opened["a"].resize((8, 6))
    with hyperchunk.open(file) as opened, pytest.raises(OSError, match="as large as it is now, needs float"):
        opened["out"][...]


def test_a_dataset_without_inputs_grows_to_a_shape(tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    text = """
import numpy as np

def dynamic_dataset():
    lib.array("out")[:] = np.arange(lib.getChunk()[0]) + lib.getOffset()[0]
"""
    attach(file, "py", text, "out:10:int64", chunks="auto", maxshape=(None,))
    with pytest.raises(hyperchunk.exceptions.InvalidRecordError, match="--to"):
        hyperchunk.udf.extend(file, "out")
    assert hyperchunk.udf.extend(file, "out", (1_000_000,)) == (1_000_000,)
    np.testing.assert_array_equal(both(file, "out"), np.arange(1_000_000))
    attach(file, "py", text, "out:10:int64", chunks="4", maxshape=(15,), overwrite=True)
    with pytest.raises(hyperchunk.exceptions.InvalidRecordError, match="growing to"):
        hyperchunk.udf.extend(file, "out", (16,))
    assert hyperchunk.udf.extend(file, "out", [15]) == (15,)
    np.testing.assert_array_equal(both(file, "out"), np.arange(15))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"maxshape": "inputs", "chunks": None}, "whole arrays"),
    ({"maxshape": "inputs", "outputs": "out:3x3:float"}, "cannot"),
    ({"maxshape": "5"}, "cannot grow to this"),
    ({"maxshape": "4x6"}, "cannot grow to this"),
    ({"maxshape": "*x*x*"}, "cannot grow to this"),
    ({"maxshape": "x"}, "not a maximum shape"),
    ({"maxshape": "0x6"}, "not a maximum shape"),
    ({"maxshape": "5x6"}, "cannot"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_largest_shapes_that_cannot_be(options: dict[str, Any], message: str, tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    series(file, 5, "a")
    options = {"chunks": "auto", "outputs": "out:5x6:float"} | options
    with pytest.raises(hyperchunk.exceptions.UdfSyntaxError, match=message):
        attach(file, "lua", elementwise("lua", "1", inputs=["a"]), options.pop("outputs"), **options)


def test_what_does_not_grow(scene: Any, attach: Any, command: Any) -> None:
    file = scene()
    attach(file, "lua", ndvi("lua"), chunks="auto")
    with pytest.raises(hyperchunk.exceptions.InvalidRecordError, match="maxshape"):
        hyperchunk.udf.extend(file, "NDVI")
    assert command("udf", "extend", str(file)).stdout.startswith("no live dataset of this file can grow")
    assert command("udf", "convert", str(file)).stdout.startswith("no dataset of this file was written by HDF5-UDF")


def test_the_command(tmp_path: Path, command: Any, source: Any) -> None:
    file = tmp_path / "a.h5"
    series(file, 5, "a")
    program = source("lua", elementwise("lua", "a[i]", inputs=["a"]))
    assert command("udf", "attach", file, program, "--chunks", "auto", "--maxshape", "inputs").returncode == 0
    assert command("udf", "attach", file, "two", "--expression", "a * 2").returncode == 0
    series(file, 5, "a")
    done = command("udf", "extend", file)
    assert done.stdout == "/out: 10x6, 1 new chunk\n"
    assert command("udf", "extend", f"{file}:/out", "--to", "9x6").returncode != 0
    assert "grows to  *x6" in command("udf", "show", f"{file}:/out").stdout
    assert "may grow to *x6" in command("udf", "explain", f"{file}:/out").stdout
    assert json.loads(command("udf", "ls", "--json", file).stdout)[0]["maxdims"] == [None, 6]
    assert command("udf", "verify", f"{file}:/out").returncode == 0
    assert command("udf", "rebuild", f"{file}:/out").returncode == 0
    assert hyperchunk.udf.show(file, "out").record["output_resolution"] == [10, 6]
    np.testing.assert_array_equal(both(file, "out"), series(file, 0, "a"))


@pytest.mark.parametrize("language", ["py", "lua", "cpp"])
def test_an_input_that_is_whole_stays_so(language: str, tmp_path: Path, attach: Any, command: Any) -> None:
    """A whole input that happens to have the shape to which the dataset grows."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=np.arange(4.0), maxshape=(None,), chunks=(4,))
        opened["table"] = np.arange(1.0, 9.0)
    text = {
        "py": 'def dynamic_dataset():\n    a, t, out = (lib.array(n) for n in ("a", "table", "out"))\n'
        "    out[...] = a + 1000 * t[0] + len(t)\n",
        "lua": """function dynamic_dataset()
            local a, t, out = lib.getData("a"), lib.getData("table"), lib.getData("out")
            for i = 1, lib.getDims("out")[1] do out[i] = a[i] + 1000 * t[1] + lib.getDims("table")[1] end
        end""",
        "cpp": """extern "C" void dynamic_dataset() {
            auto a = lib.getData<double>("a"), t = lib.getData<double>("table"), out = lib.getData<double>("out");
            for (size_t i = 0; i < lib.getDims("out")[0]; i++) out[i] = a[i] + 1000 * t[0] + lib.getDims("table")[0];
        }""",
    }[language]
    attach(file, language, text, "out:4:double", chunks="4", maxshape="inputs")
    for length in (8, 12):
        with h5py.File(file, "r+") as opened:
            opened["a"].resize((length,))
            opened["a"][...] = np.arange(length)
        assert hyperchunk.udf.extend(file, "out") == (length,)
        np.testing.assert_array_equal(both(file, "out"), np.arange(length) + 1008)
        if length == 8:
            told = command("udf", "rebuild", f"{file}:/out")
            assert told.returncode == 1
            assert "grown to the shape of 'table'" in told.stderr.replace('"', "'")
    assert command("udf", "rebuild", f"{file}:/out").returncode == 0
    np.testing.assert_array_equal(both(file, "out"), np.arange(12) + 1008)
