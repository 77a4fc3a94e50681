"""Datasets with many dimensions, very many elements, one element and none."""

import resource
import time
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import WITH_CUDA
from fresh import failure, read, run_python
from programs import LANGUAGES, elementwise


def both(file: Path, name: str, selection: Any = ...) -> np.ndarray:
    """Returns the values, the same through the plugin and hyperchunk.open."""
    by_plugin = read(file, name, selection)
    with hyperchunk.open(file) as opened:
        np.testing.assert_array_equal(opened[name][selection], by_plugin)
    return by_plugin


@pytest.mark.parametrize("language", WITH_CUDA)
@pytest.mark.parametrize("rank", [6, 12, 32])
def test_many_dimensions(language: str, rank: int, scene: Any, attach: Any) -> None:
    """HDF5's limit is 32 dimensions, NumPy's 64."""
    shape = (3, 2, 1, 2, *[1] * (rank - 6), 2, 3)
    a = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    file = scene(a=a)
    text = elementwise(language, "a[i] * 3", inputs=["a"], datatype="int32")
    halo = {"py": "assert len(lib.getOffset('a')) == len(lib.getChunk()) == RANK"}
    if language == "py":
        text += f"    {halo['py'].replace('RANK', str(rank))}\n"
    attach(file, language, text)
    np.testing.assert_array_equal(both(file, "out"), a * 3)
    attach(file, language, text, "out", chunks=[2] * rank, overwrite=True)
    np.testing.assert_array_equal(both(file, "out"), a * 3)
    at = tuple(n - 1 for n in shape)
    assert both(file, "out", at) == a[at] * 3


def test_more_dimensions_than_hdf5_has(scene: Any, attach: Any) -> None:
    with pytest.raises(hyperchunk.exceptions.UdfSyntaxError, match="32"):
        attach(scene(), "lua", elementwise("lua", "1"), f"out:{'x'.join(['1'] * 33)}:float")


@pytest.mark.parametrize("language", WITH_CUDA)
def test_one_element(language: str, scene: Any, attach: Any) -> None:
    """The payload is larger than the dataset, which HDF5-UDF cannot handle."""
    file = scene(a=np.float32(4), b=np.full((1, 1, 1), 5, "u1"))
    first = {"py": "[0]", "lua": "[1]", "cpp": "[0]", "cu": "[0]"}[language]
    whole = f"int(a{first})" if language == "py" else f"a{first}"
    text = elementwise(language, f"{whole} * 10 + b{first}", "out", ["a", "b"], "int8", ["float", "uint8"])
    for chunks in (None, "1", "auto"):
        attach(file, language, text, "out:1:int8", chunks=chunks, overwrite=True)
        assert both(file, "out").tolist() == [45]


BIG = {
    "py": """
import numpy as np

def dynamic_dataset():
    out = lib.array("out")
    rows, columns = np.indices(lib.getChunk(), "i8")
    out[:] = (rows + lib.getOffset()[0]) * 1_000_000 + columns + lib.getOffset()[1]
""",
    "lua": """
function dynamic_dataset()
    local out, size, at = lib.getData("out"), lib.getChunk(), lib.getOffset()
    for i = 0, size[1] - 1 do
        for j = 0, size[2] - 1 do out[i * size[2] + j + 1] = (i + at[1]) * 1000000 + j + at[2] end
    end
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
    auto out = lib.getData<int64_t>("out");
    auto size = lib.getChunk(), at = lib.getOffset();
    for (size_t i = 0; i < size[0]; i++)
        for (size_t j = 0; j < size[1]; j++) out[i * size[1] + j] = (i + at[0]) * 1000000 + j + at[1];
}
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_more_elements_than_32_bits_count(language: str, scene: Any, attach: Any) -> None:
    """80 GB of elements; values far from the beginning are correct."""
    file = scene()
    attach(file, language, BIG[language], "out:100000x100000:int64", chunks="40x100000")
    assert file.stat().st_size < 1 << 20
    assert both(file, "out", np.s_[99_999, 99_997:]).tolist() == [99_999_099_997 + n for n in range(3)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_small_part_costs_little(language: str, tmp_path: Path, attach: Any) -> None:
    """HDF5-UDF: 0.175 s of processor time for any part of 4000x4000; far less here, once the worker is warm."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        for name in ("Red", "NIR"):
            opened[name] = np.full((4000, 4000), 3, "f4")
    text = elementwise(language, "a[i] + b[i]", "sum", ["Red", "NIR"])
    if language == "py":
        text = "def dynamic_dataset():\n    lib.array('sum')[:] = lib.array('Red') + lib.array('NIR')\n"
    attach(file, language, text, chunks="auto")
    costs = []
    for n in range(12):
        with h5py.File(file) as opened:
            before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            start = time.perf_counter()
            assert opened["sum"][n * 300 + 7, 1000:1100].tolist() == [6] * 100
            wall = time.perf_counter() - start
            after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        spent = sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))
        costs.append((spent, wall))
    cpu, wall = (min(numbers) * 1e3 for numbers in zip(*costs, strict=True))
    print(f"slice of 100 elements, {language}: reader's CPU {cpu:.2f} ms, wall {wall:.2f} ms")
    # The whole takes seconds.
    assert wall < 500


FAULTS = """
import resource, sys, h5py
with h5py.File(sys.argv[1]) as file:
    least = {}
    for _ in range(6):
        for name in ("plain", "live"):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            file[name][...]
            spent = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
            least[name] = min(spent, least.get(name, spent))
print(least["live"] - least["plain"])
"""


def test_memory_of_chunks_is_used_again(tmp_path: Path, attach: Any) -> None:
    """HDF5 keeps 8 MiB of chunks until the dataset is closed: 2048 pages, which must not be faulted in at each read."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["plain"] = np.ones((2048, 4096), "f4")
    attach(file, "lua", "function dynamic_dataset() lib.getData('live') end", "live:2048x4096:float", chunks="32x4096")
    assert int(run_python(FAULTS, file).stdout) < 256


def test_inputs_without_elements(tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["null"] = h5py.Empty("f4")
        opened["none"] = np.zeros((0, 3), "f4")
        opened["some"] = np.zeros(3, "f4")
    for name, outputs, message in [
        ("null", "out:3:float", "null dataspace"),
        ("none", "out", "no elements, since its inputs have none"),
        ("none", "out:3:float", "has no elements"),
    ]:
        text = elementwise("lua", "a[i]", inputs=[name])
        with pytest.raises(hyperchunk.HyperchunkError, match=message):
            attach(file, "lua", text, outputs)
        with pytest.raises(hyperchunk.HyperchunkError, match=r"no elements|none. has 0x3 elements and"):
            hyperchunk.udf.attach(file, outputs=outputs, expression=f"{name} * 2")
    with pytest.raises(hyperchunk.exceptions.UdfSyntaxError, match="dimension is 0"):
        attach(file, "lua", elementwise("lua", "1"), "out:0:float")
    with h5py.File(file) as opened:
        assert set(opened) == {"null", "none", "some"}


def test_an_input_that_lost_its_elements(tmp_path: Path, attach: Any) -> None:
    """A scalar turned into a null dataspace has no dimensions either."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["a"] = np.float32(2)
    attach(file, "lua", elementwise("lua", "a[1]", inputs=["a"]), "out:3:float")
    hyperchunk.udf.attach(file, outputs="sum:3:float", expression="a + 1")
    assert both(file, "out").tolist() == [2, 2, 2]
    with h5py.File(file, "a") as opened:
        del opened["a"]
        opened["a"] = h5py.Empty("f4")
    for name in ("out", "sum"):
        assert "no elements" in failure(file, name)
        with hyperchunk.open(file) as opened, pytest.raises(hyperchunk.HyperchunkError, match="no elements"):
            opened[name][...]


@pytest.mark.parametrize("how", ["lua", "expression"])
def test_growing_from_nothing(how: str, tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", shape=(0, 3), maxshape=(None, 3), chunks=(2, 3), dtype="f4")
    if how == "expression":
        hyperchunk.udf.attach(file, outputs="out", expression="a * 2", maxshape="inputs")
    else:
        attach(file, "lua", elementwise("lua", "a[i] * 2", inputs=["a"]), chunks="auto", maxshape="inputs")
    assert both(file, "out").shape == (0, 3)
    with h5py.File(file, "a") as opened:
        opened["a"].resize((5, 3))
        opened["a"][...] = np.arange(15).reshape(5, 3)
    assert both(file, "out").shape == (0, 3)
    assert hyperchunk.udf.extend(file, "out") == (5, 3)
    np.testing.assert_array_equal(both(file, "out"), np.arange(15).reshape(5, 3) * 2)
