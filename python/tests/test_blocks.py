"""Functions that run once per chunk, on that block of their inputs."""

from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import WITH_CUDA
from fresh import failure, read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import LANGUAGES, elementwise

SEE_DIMS = {
    "py": """
def dynamic_dataset():
    out = lib.getData("out")
    d = lib.getDims("out")
    a = lib.getDims("a")
    t = lib.getDims("table")
    for i in range(len(out)):
        out[i] = d[0] * 10000 + d[1] * 100 + (a == d) * 10 + (t == (3,))
""",
    "lua": """
function dynamic_dataset()
    local out = lib.getData("out")
    local d, a, t = lib.getDims("out"), lib.getDims("a"), lib.getDims("table")
    local same = (#a == 2 and a[1] == d[1] and a[2] == d[2]) and 10 or 0
    local whole = (#t == 1 and t[1] == 3) and 1 or 0
    for i = 1, d[1] * d[2] do out[i] = d[1] * 10000 + d[2] * 100 + same + whole end
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
    auto out = lib.getData<int32_t>("out");
    auto d = lib.getDims("out"), a = lib.getDims("a"), t = lib.getDims("table");
    for (size_t i = 0; i < d[0] * d[1]; i++)
        out[i] = d[0] * 10000 + d[1] * 100 + (a == d) * 10 + (t == std::vector<size_t>{3});
}
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_block_sees_its_own_shape(language: str, scene: Any, attach: Any) -> None:
    """Inputs of the output's shape are cut to the block, clipped at the edges; others stay whole."""
    file = scene(a=np.zeros((10, 7), "f4"), table=np.arange(3, dtype="f4"))
    attach(file, language, SEE_DIMS[language], "out:10x7:int32", chunks="4x3")
    got = read(file, "out")
    rows = np.array([4, 4, 4, 4, 4, 4, 4, 4, 2, 2])
    columns = np.array([3, 3, 3, 3, 3, 3, 1])
    np.testing.assert_array_equal(got, rows[:, None] * 10000 + columns * 100 + 11)


@pytest.mark.parametrize("language", WITH_CUDA)
def test_a_lookup_table_stays_whole(language: str, scene: Any, attach: Any) -> None:
    codes = np.random.default_rng(3).integers(0, 16, (50, 33)).astype("u1")
    table = np.random.default_rng(4).random(16)
    file = scene(codes=codes, table=table)
    index = "a[i] + 1" if language == "lua" else "a[i]"
    text = elementwise(language, f"b[{index}]", "out", ["codes", "table"], "double", input_types=["uint8", "double"])
    for chunks in (None, "auto", "7x5"):
        attach(file, language, text, "out:50x33:double", chunks=chunks, overwrite=True)
        np.testing.assert_array_equal(read(file, "out"), table[codes])


FORMS: list[tuple[Any, tuple[int, int], list[int]]] = [
    (None, (300, 500), [300, 500]),
    ("whole", (300, 500), [300, 500]),
    ("auto", (900, 500), [524, 500]),  # bands of 1 MiB
    ("16x500", (300, 500), [16, 500]),
    ((16, 500), (300, 500), [16, 500]),
    ([1, 500], (300, 500), [1, 500]),
    ("256x256", (300, 500), [256, 256]),  # blocks that are not contiguous in the input
    ("9999x9999", (300, 500), [300, 500]),
]


@pytest.mark.parametrize(("chunks", "shape", "expected"), FORMS)
def test_forms_of_chunks(chunks: Any, shape: tuple[int, int], expected: list[int], scene: Any, attach: Any) -> None:
    a = np.random.default_rng(5).random(shape, "f4")
    file = scene(a=a)
    [record] = attach(file, "lua", elementwise("lua", "2 * a[i]", inputs=["a"]), chunks=chunks)
    assert record["chunk"] == expected
    assert record["blockwise"] is (chunks not in (None, "whole"))
    with h5py.File(file) as opened:
        out = opened["out"]
        assert list(out.chunks) == expected
        for selection in [np.s_[...], np.s_[250:270, 9:20], np.s_[520:530, 9:20], np.s_[299, 499], np.s_[::37, ::41]]:
            np.testing.assert_array_equal(out[selection], 2 * a[selection])


def test_auto_takes_the_chunks_of_the_inputs(tmp_path: Path, attach: Any) -> None:
    file, a = tmp_path / "a.h5", np.random.default_rng(6).random((100, 90), "f4")
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=a, chunks=(32, 20), compression="gzip")
    [record] = attach(file, "cpp", elementwise("cpp", "a[i] - 1", inputs=["a"]), chunks="auto")
    assert record["chunk"] == [32, 20]
    np.testing.assert_array_equal(read(file, "out"), a - np.float32(1))


@pytest.mark.parametrize("chunks", ["", "x", "0x5", "16", "16x16x16", "-1x5", "16X16", "big"])
def test_wrong_forms_of_chunks(chunks: str, scene: Any, attach: Any) -> None:
    with pytest.raises(hyperchunk.exceptions.UdfSyntaxError, match="chunk"):
        attach(scene(), "lua", elementwise("lua", "1"), "out:30x40:float", chunks=chunks)


def test_a_dataset_too_large_for_one_chunk_needs_blocks(scene: Any, attach: Any) -> None:
    """HDF5-UDF's limit of 4 GiB applies only to whole-array functions."""
    file, text = scene(), elementwise("cpp", "i", datatype="uint8")
    with pytest.raises(hyperchunk.exceptions.LimitError, match="--chunks auto"):
        attach(file, "cpp", text, "out:100000x50000:uint8")
    attach(file, "cpp", text, "out:100000x50000:uint8", chunks="100x50000")
    assert read(file, "out", np.s_[99_990, 10:14]).tolist() == [10 + n + (90 * 50_000) % 256 for n in range(4)]


def test_only_touched_chunks_are_computed(scene: Any, attach: Any) -> None:
    """A function that fails on one block does not affect the others."""
    file = scene(a=np.repeat(np.arange(10, dtype="f4"), 5).reshape(10, 5))
    text = """
def dynamic_dataset():
    a, out = lib.getData("a"), lib.getData("out")
    if a[0] == 6:
        raise ValueError("block six")
    out[0:len(out)] = a
"""
    attach(file, "py", text, chunks="2x5")
    assert read(file, "out", np.s_[:6, 0]).tolist() == [0, 1, 2, 3, 4, 5]
    assert read(file, "out", np.s_[8:, 0]).tolist() == [8, 9]
    assert "block six" in failure(file, "out", np.s_[7, 0])
    assert "block six" in failure(file, "out")


FIRST_ELEMENT = {
    "py": """
def dynamic_dataset():
    lib.getData("out")[0] = lib.getData("a")[0]
""",
    "lua": """
function dynamic_dataset()
    lib.getData("out")[1] = lib.getData("a")[1]
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
    lib.getData<float>("out")[0] = lib.getData<float>("a")[0];
}
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_blocks_start_from_zeros(language: str, scene: Any, attach: Any) -> None:
    """Elements that a function does not write are 0, whatever the previous block left in the worker's memory."""
    file = scene(a=np.arange(12, dtype="f4").reshape(6, 2))
    attach(file, language, FIRST_ELEMENT[language], chunks="2x2")
    assert read(file, "out").ravel().tolist() == [0, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0]


def test_scratch_outputs_in_blocks(scene: Any, attach: Any) -> None:
    """A source with several outputs runs once for each; the other outputs' buffers exist and are discarded."""
    a = np.arange(35, dtype="f4").reshape(7, 5)
    file = scene(a=a)
    text = """
import numpy as np
def dynamic_dataset():
    a = np.asarray(lib.getData("a"))
    half = lib.getData("half")
    double = lib.getData("double")
    half[0:len(half)] = a / 2
    double[0:len(double)] = a * 2
"""
    records = attach(file, "py", text, chunks="3x2")
    assert sorted(r["output_dataset"] for r in records) == ["double", "half"]
    assert [r["scratch_datasets"] for r in records if r["output_dataset"] == "half"] == [["double"]]
    np.testing.assert_array_equal(read(file, "half"), a / 2)
    np.testing.assert_array_equal(read(file, "double"), a * 2)


@pytest.fixture(scope="module")
def grids(tmp_path_factory: pytest.TempPathFactory, config_with_key: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """Live datasets of several shapes and chunk shapes, and their expected values."""
    folder = tmp_path_factory.mktemp("grids")
    file, expected = folder / "grids.h5", {}
    random = np.random.default_rng(9)
    shapes: list[tuple[int, ...]] = [(40,), (13, 17), (6, 7, 8), (3, 4, 5, 6)]
    with pytest.MonkeyPatch.context() as patch, h5py.File(file, "w") as opened:
        patch.setenv("XDG_CONFIG_HOME", str(config_with_key))
        for n, shape in enumerate(shapes):
            opened[f"a{n}"] = random.random(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(config_with_key))
        for n, shape in enumerate(shapes):
            for k, language in enumerate(LANGUAGES):
                chunk = [1 + int(random.integers(0, d)) for d in shape]
                name = f"out{n}{language}"
                text = elementwise(language, "a[i] * 3 - 1", name, [f"a{n}"], "double")
                program = folder / f"{n}.{language}"
                program.write_text(text)
                hyperchunk.udf.attach(file, program, chunks=None if (n + k) % 4 == 0 else chunk)
                with h5py.File(file) as opened:
                    expected[name] = opened[f"a{n}"][...] * 3 - 1
    return file, expected


def selections(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Draws an index or a strided slice for each dimension."""

    def one(size: int) -> st.SearchStrategy[Any]:
        bounds = st.tuples(st.integers(0, size), st.integers(0, size), st.integers(1, 4))
        return st.one_of(st.integers(0, size - 1), bounds.map(lambda b: slice(min(b[:2]), max(b[:2]), b[2])))

    return st.tuples(*map(one, shape))


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(data=st.data())
def test_random_slices_equal_numpy(grids: tuple[Path, dict[str, np.ndarray]], data: st.DataObject) -> None:
    file, expected = grids
    name = data.draw(st.sampled_from(sorted(expected)))
    selection = data.draw(selections(expected[name].shape))
    np.testing.assert_array_equal(read(file, name, selection), expected[name][selection])


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    seed=st.integers(0, 99),
    language=st.sampled_from(["py", "lua"]),
)
def test_whole_equals_blockwise(shape: list[int], seed: int, language: str, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    file, program = tmp_path / "shapes.h5", tmp_path / f"shapes.{language}"
    with h5py.File(file, "w") as opened:
        opened["a"] = random.random(shape)
    for name, chunks in [("whole", None), ("blocks", [1 + int(random.integers(0, d)) for d in shape])]:
        program.write_text(elementwise(language, "a[i] / 7", name, ["a"], "double"))
        hyperchunk.udf.attach(file, program, chunks=chunks)
    np.testing.assert_array_equal(read(file, "whole"), read(file, "a") / 7)
    np.testing.assert_array_equal(read(file, "blocks"), read(file, "whole"))


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_dataset_of_very_many_chunks(libver: str, tmp_path: Path, attach: Any) -> None:
    """HDF5 freed it when it was closed: its header had left the cache before it got its name."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w", libver=libver) as opened:
        opened["a"] = np.arange(50_000, dtype="i4")
    attach(file, "lua", elementwise("lua", "a[i] + 1", inputs=["a"], datatype="int32"), chunks="1")
    with h5py.File(file, "a") as opened:
        assert opened["out"].id.get_num_chunks() == 50_000
        assert opened["out"][[0, 30_000, 49_999]].tolist() == [1, 30_001, 50_000]
