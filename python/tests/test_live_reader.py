"""Live datasets in `hyperchunk.open`: the plugin's values, without libhdf5, for every source of a file."""

import io
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import WITH_CUDA
from fresh import HYPERCHUNK, read, run_python
from hyperchunk.exceptions import CorruptError, RefusedError, UdfError
from programs import ndvi
from stored_records import put_record, record_of

SUM = """
import numpy as np
def dynamic_dataset():
    lib.array("S")[...] = lib.array("A") + lib.array("B")
"""


def computed(file: Any, name: str = "NDVI", selection: Any = ...) -> np.ndarray:
    with hyperchunk.open(file) as opened:
        values: np.ndarray = opened[name][selection]
        return values


@pytest.mark.parametrize("chunks", [None, "auto", "7x11", "1x40"])
@pytest.mark.parametrize("language", WITH_CUDA)
def test_the_same_as_through_the_plugin(language: str, chunks: str | None, scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, language, ndvi(language), chunks=chunks)
    expected = read(file, "NDVI")
    with hyperchunk.open(file) as opened:
        live = opened["NDVI"]
        assert (live.shape, live.dtype) == (expected.shape, expected.dtype)
        assert np.array_equal(live[...], expected)
        for selection in (np.s_[3], np.s_[10:20, 5], np.s_[::3, 2:9], np.s_[[1, 5, 9]]):
            assert np.array_equal(live[selection], expected[selection])


def test_no_libhdf5_is_loaded(scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, "lua", ndvi("lua"))
    code = """
import sys, hyperchunk
values = hyperchunk.open(sys.argv[1])["NDVI"][...]
maps = open("/proc/self/maps").read()
assert "libhdf5" not in maps and "h5py" not in sys.modules, maps
print(float(values.mean()))
"""
    assert float(run_python(code, file).stdout) == pytest.approx(float(read(file, "NDVI").mean()), rel=1e-6)


def test_inputs_of_every_storage(tmp_path: Path, attach: Any) -> None:
    """Chunked and compressed, big-endian, compact, or in another file: a function sees plain values."""
    random = np.random.default_rng(3)
    a, b = random.integers(-100, 100, (60, 50)), random.integers(-100, 100, (60, 50))
    for number, options in enumerate(
        ({"chunks": (7, 13), "compression": "gzip"}, {"dtype": ">i8"}, {"dtype": "i2"}, {"chunks": (60, 1)})
    ):
        file = tmp_path / f"{number}.h5"
        with h5py.File(file, "w") as made:
            made.create_dataset("A", data=a, **options)
            made.create_dataset("B", data=b.astype(options.get("dtype", "i8")))
        for chunks in (None, "16x16"):
            attach(file, "py", SUM, "S:60x50:int64", chunks=chunks, overwrite=chunks is not None)
            assert np.array_equal(computed(file, "S"), a + b)
            assert np.array_equal(computed(io.BytesIO(file.read_bytes()), "S", np.s_[5:50, 7]), (a + b)[5:50, 7])


def test_live_on_live_and_virtual(scene: Any, attach: Any, tmp_path: Path) -> None:
    """A chain, and a virtual dataset over a live one, which the plugin cannot do alone."""
    file = scene(A=np.arange(600.0).reshape(20, 30), B=np.ones((20, 30)))
    attach(file, "py", SUM, "S:20x30:double", chunks="6x30")
    attach(file, "py", SUM.replace('"A"', '"S"').replace('array("S")[...]', 'array("T")[...]'), "T:20x30:double")
    expected = np.arange(600.0).reshape(20, 30) + 1
    assert np.array_equal(computed(file, "S"), expected)
    assert np.array_equal(computed(file, "T"), expected + 1)
    layout = h5py.VirtualLayout((20, 30), "f8")
    layout[...] = h5py.VirtualSource(file, "S", (20, 30))
    with h5py.File(tmp_path / "virtual.h5", "w") as made:
        made.create_virtual_dataset("V", layout)
    assert np.array_equal(computed(tmp_path / "virtual.h5", "V"), expected)


def test_renamed_copied_and_many_threads(scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, "lua", ndvi("lua"), chunks="5x40")
    expected = read(file, "NDVI")
    with h5py.File(file, "r+") as made:
        made.move("NDVI", "other")
        made.copy("other", "copy")
    with hyperchunk.open(file) as opened, ThreadPoolExecutor(8) as threads:
        names = ["other", "copy"] * 20
        for found in threads.map(lambda name: opened[name][...], names):
            assert np.array_equal(found, expected)


def test_a_function_that_fails_says_why(scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, "py", 'def dynamic_dataset():\n    lib.getData("NDVI")[0] = lib.getData("Red")[0]\n    1 / 0\n')
    with pytest.raises(UdfError, match=r"s2\.h5:/NDVI.*profile self.*ZeroDivisionError"):
        computed(file)


def test_strangers_are_refused_native_code(scene: Any, attach: Any, config: Path) -> None:
    """The profile applies here as in the plugin."""
    file = scene()
    attach(file, "cpp", ndvi("cpp"), unsigned=True)
    with pytest.raises(RefusedError, match=r"not signed.*profile untrusted"):
        computed(file)


def test_tampering_is_seen(scene: Any, attach: Any) -> None:
    file = scene()
    [record] = attach(file, "lua", ndvi("lua"))
    with h5py.File(file, "r+") as made:
        changed = json.loads(record_of(made["NDVI"])) | {"source_code": record["source_code"] + " "}
        put_record(made["NDVI"], json.dumps(changed).encode())
    with pytest.raises(CorruptError, match="it was changed"):
        computed(file)
    with h5py.File(file, "r+") as made:
        put_record(made["NDVI"], b"")
    with pytest.raises(CorruptError, match="it has no record"):
        computed(file)


def test_a_circle_is_an_error(scene: Any, attach: Any) -> None:
    file = scene(A=np.ones((4, 4)), B=np.ones((4, 4)))
    attach(file, "py", SUM, "S:4x4:double")
    attach(file, "py", SUM.replace('"A"', '"S"').replace('array("S")[...]', 'array("T")[...]'), "T:4x4:double")
    with h5py.File(file, "r+") as made:
        del made["A"]
        made.move("T", "A")
    with pytest.raises(hyperchunk.HyperchunkError, match="cycle"):
        computed(file, "S")


def test_an_input_that_changed_its_shape(scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, "lua", ndvi("lua"))
    with h5py.File(file, "r+") as made:
        del made["Red"]
        made["Red"] = np.ones((3, 3), "f4")
    with pytest.raises(CorruptError, match=r'input "Red".*attach it again'):
        computed(file)


def test_a_live_dataset_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(6.0)
    words = [HYPERCHUNK, "udf", "attach", path, "twice", "--expression", "2 * x", "--unsigned"]
    subprocess.run(words, check=True, capture_output=True)
    before = path.read_bytes()
    with hyperchunk.open(path, "r+") as file:
        twice = file["twice"]
        for write in (lambda: twice.__setitem__(0, 1), lambda: twice.__setitem__(..., 1), lambda: twice.resize((9,))):
            with pytest.raises(
                hyperchunk.exceptions.UnsupportedError, match=r"cannot write or resize a live dataset.*udf rm"
            ):
                write()
        assert twice[...].tolist() == [0, 2, 4, 6, 8, 10]
    assert path.read_bytes() == before
