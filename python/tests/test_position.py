"""Functions that use their position: lib.getChunk, lib.getOffset, and blocks of inputs with a halo."""

import itertools
import json
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import failure, read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import LANGUAGES

EXAMPLES = Path(__file__).parents[2] / "examples" / "udf"

# Index of each element in the dataset, and the offset of a whole input.
NUMBERS = {
    "py": """
import numpy as np

def dynamic_dataset():
    out, a, table = lib.array("out"), lib.getData("a"), lib.getData("table")
    assert lib.getChunk() == out.shape == lib.getDims("out") and lib.getOffset("table") == (0,)
    assert lib.getOffset("out") == lib.getOffset() == lib.getOffset(b"/a")
    i, j = np.indices(lib.getChunk())
    y, x = lib.getOffset()
    out[:] = (i + y) * 1000 + (j + x)
""",
    "lua": """
function dynamic_dataset()
    local out, size, at = lib.getData("out"), lib.getChunk(), lib.getOffset()
    lib.getData("a")
    lib.getData("table")
    local a, t, d = lib.getOffset("/a"), lib.getOffset("table"), lib.getDims("out")
    assert(a[1] == at[1] and a[2] == at[2] and #t == 1 and t[1] == 0 and d[1] == size[1] and #at == 2)
    for i = 0, size[1] - 1 do
        for j = 0, size[2] - 1 do out[i * size[2] + j + 1] = (i + at[1]) * 1000 + j + at[2] end
    end
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
    auto out = lib.getData<int32_t>("out");
    auto a = lib.getData<float>("a");
    auto table = lib.getData<double>("table");
    if (a[0] + table[0] != 0) throw 1;
    std::vector<size_t> size = lib.getChunk(), at = lib.getOffset();
    if (lib.getOffset("a") != at || lib.getOffset(std::string("table")) != std::vector<size_t>{0}) throw 1;
    for (size_t i = 0; i < size[0]; i++)
        for (size_t j = 0; j < size[1]; j++) out[i * size[1] + j] = (i + at[0]) * 1000 + j + at[1];
}
""",
}


def both(file: Path, name: str, selection: Any = ...) -> np.ndarray:
    """Returns the values, the same through the plugin and hyperchunk.open."""
    by_plugin = read(file, name, selection)
    with hyperchunk.open(file) as opened:
        np.testing.assert_array_equal(opened[name][selection], by_plugin)
    return by_plugin


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("chunks", [None, "auto", "4x3", "1x7", "10x1"])
def test_where_a_block_is(language: str, chunks: str | None, scene: Any, attach: Any) -> None:
    file = scene(a=np.zeros((10, 7), "f4"), table=np.zeros(3))
    attach(file, language, NUMBERS[language], "out:10x7:int32", chunks=chunks)
    rows, columns = np.indices((10, 7))
    np.testing.assert_array_equal(both(file, "out"), rows * 1000 + columns)
    assert both(file, "out", np.s_[9, 5]) == 9005


# Writes to some blocks: nothing, zeros, one element.
SPARSE = {
    "py": """
def dynamic_dataset():
    out, row = lib.getData("out"), lib.getOffset()[0]
    if row % 4 == 1: out[7] = 0
    if row in (80, 120, 237): out[row] = row
""",
    "lua": """
function dynamic_dataset()
    local out, row = lib.getData("out"), lib.getOffset()[1]
    if row % 4 == 1 then out[8] = 0 end
    if row == 80 or row == 120 or row == 237 then out[row + 1] = row end
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
    auto out = lib.getData<int32_t>("out");
    size_t row = lib.getOffset()[0];
    if (row % 4 == 1) out[7] = 0;
    if (row == 80 || row == 120 || row == 237) out[row] = row;
}
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_blocks_that_a_function_does_not_write(language: str, scene: Any, attach: Any) -> None:
    file = scene(a=np.zeros(3))
    attach(file, language, SPARSE[language], "out:240x5000:int32", chunks="1x5000")
    expected = np.zeros((240, 5000), "i4")
    for row in (80, 120, 237):
        expected[row, row] = row
    np.testing.assert_array_equal(both(file, "out"), expected)


def mean_of_neighbours(image: np.ndarray) -> np.ndarray:
    """Returns the 3x3 mean, over the existing neighbours."""
    sums, counts = np.zeros(image.shape), np.zeros(image.shape)
    padded, ones = np.pad(image.astype("f8"), 1), np.pad(np.ones(image.shape), 1)
    for i, j in itertools.product(range(3), range(3)):
        here = np.s_[i : i + image.shape[0], j : j + image.shape[1]]
        sums += padded[here]
        counts += ones[here]
    return sums / counts


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("storage", ["contiguous", "chunked", "big-endian"])
def test_the_example_of_a_mean(language: str, storage: str, tmp_path: Path, attach: Any) -> None:
    """The result is the same for whole arrays and blocks, and for mapped and copied inputs."""
    image = np.random.default_rng(7).random((23, 31)).astype("f4")
    file, text = tmp_path / "a.h5", (EXAMPLES / f"smooth.{language}").read_text()
    with h5py.File(file, "w") as opened:
        if storage == "chunked":
            opened.create_dataset("image", data=image, chunks=(5, 9), compression="gzip")
        else:
            opened["image"] = image.astype(">f4") if storage == "big-endian" else image
    expected = mean_of_neighbours(image)
    attach(file, language, text, "smooth:23x31:float")
    np.testing.assert_allclose(both(file, "smooth"), expected, rtol=1e-6)
    for chunks in ("auto", "4x31", "1x31", "5x9", "1x1", "23x2"):
        if language != "lua" and chunks == "1x1":
            continue
        [record] = attach(file, language, text, "smooth:23x31:float", chunks=chunks, halo=1, overwrite=True)
        assert (record["halo"], record["api_version"]) == ([1, 1], 4)
        np.testing.assert_allclose(both(file, "smooth"), expected, rtol=1e-6, err_msg=chunks)


# For each input: the sum of all visible elements, and the shapes.
SEEN = """
import numpy as np

def dynamic_dataset():
    out = lib.array("out")
    seen = lib.array("a").astype("f8").sum() * 1e6
    start, dims = lib.getOffset("a"), lib.getDims("a")
    out[...] = 0
    out.flat[0] = seen + sum(s * 10 ** n for n, s in enumerate((*start, *dims)))
    lib.array("other")[...] = 3
"""


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_a_block_sees(data: Any, tmp_path: Path) -> None:
    """An input is the block and its halo, clipped at the edges. Other outputs have no halo."""
    rank = data.draw(st.integers(1, 4))
    shape = [data.draw(st.integers(1, 9)) for _ in range(rank)]
    chunk = [data.draw(st.integers(1, n)) for n in shape]
    halo = [data.draw(st.sampled_from([0, 1, 2, 20])) for _ in shape]
    a = np.random.default_rng(len(shape)).integers(0, 100, shape).astype("i2")
    file, source = tmp_path / "halo.h5", tmp_path / "seen.py"
    with h5py.File(file, "w") as opened:
        opened["a"] = a
    source.write_text(SEEN)
    size = "x".join(map(str, shape))
    outputs = [f"out:{size}:double", f"other:{size}:uint8"]
    hyperchunk.udf.attach(file, source, outputs, chunks=chunk, halo=halo)
    expected = np.zeros(shape)
    for corner in itertools.product(*(range(0, n, c) for n, c in zip(shape, chunk, strict=True))):
        axes = list(zip(corner, chunk, halo, shape, strict=True))
        start = [max(o - h, 0) for o, _, h, _ in axes]
        stop = [min(o + c + h, n) for o, c, h, n in axes]
        part = a[tuple(map(slice, start, stop))]
        numbers = (*start, *part.shape)
        expected[corner] = part.sum() * 1e6 + sum(s * 10**n for n, s in enumerate(numbers))
    np.testing.assert_array_equal(both(file, "out"), expected)
    np.testing.assert_array_equal(both(file, "other"), np.full(shape, 3))


STRINGS = """
def dynamic_dataset():
    names, fixed = lib.getData("names"), lib.getData("fixed")
    at = lib.getOffset()[0] - lib.getOffset("names")[0]
    assert lib.getOffset("names") == lib.getOffset("fixed")
    out = lib.getData("out")
    wide = lib.getDims("names")[0]
    for i in range(lib.getChunk()[0]):
        here = range(max(at + i - 1, 0), min(at + i + 2, wide))
        lib.setString(out[i], "".join(lib.string(names[n]) + lib.string(fixed[n]) for n in here))
"""


def test_strings_have_a_halo_too(tmp_path: Path, attach: Any) -> None:
    file = tmp_path / "a.h5"
    names = ["a" * n for n in range(11)]
    with h5py.File(file, "w") as opened:
        opened.create_dataset("names", data=names, dtype=h5py.string_dtype())
        opened["fixed"] = np.array([b"-", b"+"] * 5 + [b"."])
    attach(file, "py", STRINGS, "out:11:string(60)", chunks="3", halo=1)
    joined = [f"{name}{'-+'[n % 2] if n < 10 else '.'}" for n, name in enumerate(names)]
    expected = ["".join(joined[max(n - 1, 0) : n + 2]).encode() for n in range(11)]
    assert read(file, "out").tolist() == expected


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"halo": 1}, "--chunks auto"),
    ({"halo": [1, 1, 1], "chunks": "auto"}, "3 dimensions and the dataset has 2"),
    ({"halo": 1, "chunks": "auto", "outputs": "out:9x9:float"}, "a halo has no effect"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_halos_that_cannot_be(options: dict[str, Any], message: str, scene: Any, attach: Any) -> None:
    options = {"outputs": "out:30x40:float"} | options
    text = "function dynamic_dataset() lib.getData('out') lib.getData('Red') end"
    with pytest.raises(hyperchunk.exceptions.UdfSyntaxError, match=message):
        attach(scene(), "lua", text, options.pop("outputs"), **options)


def test_an_expression_has_no_halo(scene: Any) -> None:
    with pytest.raises(hyperchunk.exceptions.UdfSyntaxError, match="cannot have a halo"):
        hyperchunk.udf.attach(scene(), outputs="out", expression="Red", halo=1)


def test_a_halo_counts_against_the_memory(tmp_path: Path, attach: Any) -> None:
    """The memory limit applies to the wider block that the worker gets."""
    file, text = tmp_path / "a.h5", (EXAMPLES / "smooth.lua").read_text()
    with h5py.File(file, "w") as opened:
        opened.create_dataset("image", shape=(100_000, 100_000), dtype="f4", chunks=(5000, 5000))
    attach(file, "lua", text, chunks="5000x5000", halo=60_000)
    assert "`data`" in failure(file, "smooth", np.s_[500, 500])


def test_the_command(scene: Any, command: Any) -> None:
    file = scene(image=np.zeros((9, 9), "f4"))
    done = command("udf", "attach", file, EXAMPLES / "smooth.lua", "--chunks", "3x9", "--halo", "1,0", "--json")
    assert json.loads(done.stdout)[0]["halo"] == [1, 0]
    assert "with a halo of 1x0" in command("udf", "show", f"{file}:/smooth").stdout
    assert "a halo of 1x0" in command("udf", "explain", f"{file}:/smooth").stdout
    assert command("udf", "verify", file).returncode == 0
