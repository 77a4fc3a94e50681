"""Outputs stored as 16-bit floats, bools and enumerations: NumPy's values, in both readers."""

from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import failure, run_python
from hyperchunk.exceptions import UdfSyntaxError, UnsupportedError

from compatibility.inputs import LANGUAGES, Programs, both, run

#: Every half-precision number, values between two of them, ties, overflow and underflow.
# On aarch64, NumPy warns when it converts a signalling NaN.
with np.errstate(invalid="ignore"):
    HALVES = np.arange(1 << 16, dtype="u2").view("f2").astype("f4")
ORDERED = np.unique(HALVES[np.isfinite(HALVES)])
TIES = (ORDERED[:-1] + ORDERED[1:]) / 2
MORE = [np.nextafter(TIES, np.float32(np.inf)), np.nextafter(TIES, np.float32(-np.inf))]
FLOATS = np.concatenate([HALVES, TIES, *MORE, np.float32([1e6, -7e4, 65519.99, 65520, 1e-9])])
CLASSES = {"clear": 0, "cloud": 1, "snow or ice": 200}

COPY = Programs(
    {
        "py": """
import numpy as np
def dynamic_dataset():
    np.asarray(lib.getData("out"))[:] = np.asarray(lib.getData("a"))
""",
        "lua": """
function dynamic_dataset()
    local a, out, count = lib.getData("a"), lib.getData("out"), 1
    for _, d in ipairs(lib.getDims("out")) do count = count * d end
    for n = 1, count do out[n] = a[n] end
end
""",
        "cpp": """
extern "C" void dynamic_dataset() {
    auto a = lib.getData<TYPE>("a");
    auto out = lib.getData<TYPE>("out");
    size_t count = 1;
    for (size_t d : lib.getDims("out")) count *= d;
    for (size_t n = 0; n < count; n++) out[n] = a[n];
}
""",
    }
)


def copy(folder: Path, data: np.ndarray, language: str, kind: str, c_type: str, **options: Any) -> np.ndarray:
    """Returns a dataset of type `kind` computed by a function that copies `data`."""
    file = folder / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["a"] = data
    shape = "x".join(map(str, data.shape))
    run(folder, file, language, COPY[language].replace("TYPE", c_type), f"out:{shape}:{kind}", **options)
    return both(file, "out")


@pytest.mark.parametrize("chunks", [None, "1000"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_halves(language: str, chunks: str | None, tmp_path: Path) -> None:
    with np.errstate(over="ignore", under="ignore"):
        expected = FLOATS.astype("f2")
    got = copy(tmp_path, FLOATS, language, "float16", "float", chunks=chunks)
    assert got.dtype == np.dtype("<f2")
    np.testing.assert_array_equal(got, expected)
    assert np.array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_nans_of_any_bits(kind: str, language: str, tmp_path: Path) -> None:
    """Erased memory is all ones, a NaN that LuaJIT would take for `nil`."""
    bits = np.dtype(kind.replace("f", "u"))
    one = np.iinfo(bits).max
    data = np.array([one, one // 2, one - 1, one - (one >> 16), 0] * 500, bits).view(kind)
    got = copy(tmp_path, data, language, {"f4": "float", "f8": "double"}[kind], {"f4": "float", "f8": "double"}[kind])
    np.testing.assert_array_equal(got, data)
    assert np.array_equal(np.signbit(got), np.signbit(data))


def test_nans_of_any_bits_in_members(tmp_path: Path) -> None:
    data = np.zeros(100, [("a", "f4"), ("b", "f8", (3,)), ("c", "i4")])
    data["a"].view("u4")[...] = 2**32 - 1
    data["b"].view("u8")[:, 1] = 2**64 - 1
    data["c"] = -1
    with h5py.File(tmp_path / "a.h5", "w") as opened:
        opened["a"] = data
    text = """
function dynamic_dataset()
    local a, out = lib.getData("a"), lib.getData("out")
    for n = 1, 100 do
        local float, double = a[n].a, a[n].b[1]
        out[n] = (float ~= float and 1 or 0) + (double ~= double and 2 or 0) + a[n].b[2] + a[n].c
    end
end
"""
    run(tmp_path, tmp_path / "a.h5", "lua", text, "out:100:double")
    np.testing.assert_array_equal(both(tmp_path / "a.h5", "out"), np.full(100, 2.0))


@pytest.mark.parametrize("language", LANGUAGES)
def test_bools(language: str, tmp_path: Path) -> None:
    """Every value but 0 is true, as in NumPy; h5py returns NumPy's bools."""
    data = np.array([[0, 1, 2], [-1, -128, 0], [127, 0, 64]], "i1")
    for chunks in (None, "2x2"):
        got = copy(tmp_path, data, language, "bool", "int8_t", chunks=chunks)
        assert got.dtype == np.dtype(bool)
        assert got.view("u1").max() == 1
        np.testing.assert_array_equal(got, data.astype(bool))


@pytest.mark.parametrize(("base", "c_type"), [("uint8", "uint8_t"), ("int16", "int16_t"), ("uint64", "uint64_t")])
@pytest.mark.parametrize("language", LANGUAGES)
def test_enumerations(language: str, base: str, c_type: str, tmp_path: Path) -> None:
    """Names in the file are the given ones; values without a name are kept."""
    data = np.array([0, 1, 200, 77, 1], base)
    names = ",".join(f'"{name}"={value}' for name, value in CLASSES.items())
    got = copy(tmp_path, data, language, f"{base}{{{names}}}", c_type, chunks="2")
    np.testing.assert_array_equal(got, data)
    with h5py.File(tmp_path / "a.h5") as opened, hyperchunk.open(tmp_path / "a.h5") as ours:
        assert h5py.check_enum_dtype(opened["out"].dtype) == CLASSES
        assert h5py.check_enum_dtype(ours["out"].dtype) == CLASSES
        assert opened["out"].dtype == np.dtype(base)


MEMBERS = Programs(
    {
        "py": """
def dynamic_dataset():
    out = lib.getData("out")
    for n in range(len(out)):
        out[n].height, out[n].ok, out[n].kind = n / 3, n % 3, n % 2
        out[n].pair = [n, -n]
        lib.setString(out[n].name, f"row {n}")
""",
        "lua": """
function dynamic_dataset()
    local out = lib.getData("out")
    for n = 0, 6 do
        local row = out[n + 1]
        row.height, row.ok, row.kind, row.pair[0], row.pair[1] = n / 3, n % 3, n % 2, n, -n
        lib.setString(row.name, "row " .. n)
    end
end
""",
        "cpp": """
extern "C" void dynamic_dataset() {
    auto out = lib.getData<out_t>("out");
    for (int n = 0; n < 7; n++) {
        out[n].height = n / 3.0, out[n].ok = n % 3, out[n].kind = n % 2, out[n].pair[0] = n, out[n].pair[1] = -n;
        lib.setString(out[n].name, "row %d", n);
    }
}
""",
    }
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_members(language: str, tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    kind = "{height:float16,ok:bool,kind:uint8{odd=1,even=0},pair:float16[2],name:string(7)}"
    (record,) = run(tmp_path, file, language, MEMBERS[language], f"out:{kind}:7")
    assert record["output_datatype"] == kind.replace("odd=1,even=0", "even=0,odd=1")
    got = both(file, "out")
    assert [got.dtype[name].base for name in got.dtype.names] == [np.dtype(t) for t in ("f2", "?", "u1", "f2", "S7")]
    numbers = np.arange(7)
    np.testing.assert_array_equal(got["height"], (numbers / 3).astype("f4").astype("f2"))
    np.testing.assert_array_equal(got["ok"], numbers % 3 != 0)
    np.testing.assert_array_equal(got["kind"], numbers % 2)
    np.testing.assert_array_equal(got["pair"], np.stack([numbers, -numbers], 1))
    assert got["name"].tolist() == [b"row %d" % n for n in numbers]


def test_what_is_copied_from_the_inputs(tmp_path: Path) -> None:
    """Types of the file are taken, in any byte order; of 16 and 32 bits, the larger one."""
    file = tmp_path / "a.h5"
    classes = h5py.enum_dtype({"b": 2, "a": -1}, ">i2")
    with h5py.File(file, "w") as opened:
        opened["half"], opened["big half"] = np.arange(3, dtype="f2"), np.arange(3, dtype=">f2")
        opened["float"], opened["mask"] = np.arange(3, dtype="f4"), np.array([True, False, True])
        opened.create_dataset("classes", data=[2, -1, 0], dtype=classes)
        opened["byte"] = np.arange(3, dtype="i1")
        opened["rows"] = np.array([(1.5, True)] * 3, [("h", ">f2"), ("m", "?")])
    for number, (inputs, kind) in enumerate(
        [
            (["half", "big half"], "float16"),
            (["half", "float"], "float"),
            (["mask"], "bool"),
            (["mask", "byte"], "int8"),
            (["classes"], "int16{a=-1,b=2}"),
            (["rows"], "{h:float16,m:bool}"),
        ]
    ):
        calls = " ".join(f'lib.getData("{name}")' for name in inputs)
        name = f"out{number}"
        text = f"function dynamic_dataset() {calls} lib.getData('{name}')[1] = lib.getData('{inputs[0]}')[1] end"
        (record,) = run(tmp_path, file, "lua", text)
        assert record["output_datatype"] == kind
        with h5py.File(file) as opened:
            assert both(file, name)[0] == opened[inputs[0]][0]


def test_expressions(tmp_path: Path) -> None:
    """Comparisons give bools; any number is converted to the output's type."""
    file = tmp_path / "a.h5"
    a = np.linspace(-3, 3, 50, dtype="f4").reshape(5, 10)
    with h5py.File(file, "w") as opened:
        opened["a"], opened["h"] = a, a.astype("f2")
        opened["m"] = a > 1
    for name, text, expected in [
        ("more", "a > 1", a > 1),
        ("both", "m and not a > 2", (a > 1) & ~(a > 2)),
        ("nonzero:5x10:bool", "a * 0.1", a.astype(bool)),
        ("half:5x10:float16", "h / 3", (a.astype("f2").astype("f4") / np.float32(3)).astype("f2")),
        ("kind:5x10:uint8{low=0,high=1}", "m * 1", (a > 1).astype("u1")),
    ]:
        for chunks in (None, "2x3"):
            hyperchunk.udf.attach(file, outputs=name, expression=text, chunks=chunks, overwrite=chunks is not None)
            got = both(file, name.partition(":")[0])
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("chunks", [None, "1000"])
def test_doubles_of_expressions_are_rounded_once(tmp_path: Path, chunks: str | None) -> None:
    """A double near a tie is rounded directly, though its nearest `float32` is a tie."""
    file = tmp_path / "a.h5"
    ties = TIES.astype("f8")
    edges = [65520, np.nextafter(65520, 0), -1e300]
    a = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), edges])
    a = np.concatenate([a, np.random.default_rng(5).standard_normal(20_000), [np.nan, np.inf, 0.0, -0.0]])
    with h5py.File(file, "w") as opened:
        opened["a"] = a
    with np.errstate(over="ignore"):
        expected = a.astype("f2")
        assert (expected != a.astype("f4").astype("f2")).sum() > 10_000
    hyperchunk.udf.attach(file, outputs=f"half:{len(a)}:float16", expression="a + 0", chunks=chunks)
    np.testing.assert_array_equal(both(file, "half").view("u2") & 0x7FFF, expected.view("u2") & 0x7FFF)
    np.testing.assert_array_equal(both(file, "half"), expected)


def test_live_inputs_of_live_datasets(tmp_path: Path) -> None:
    """A half-precision mask and its result: inputs are `int8` and `float`, as if they were stored."""
    file = tmp_path / "a.h5"
    a = np.linspace(-2, 2, 40, dtype="f4")
    with h5py.File(file, "w") as opened:
        opened["a"] = a
    hyperchunk.udf.attach(file, outputs="h:40:float16", expression="a", chunks="16")
    hyperchunk.udf.attach(file, outputs="mask", expression="h > 0.5", chunks="16")
    text = """
function dynamic_dataset()
    local h, mask, out = lib.getData("h"), lib.getData("mask"), lib.getData("out")
    assert(lib.getType("h") == "float" and lib.getType("mask") == "int8" and lib.getType("out") == "float")
    for n = 1, lib.getChunk()[1] do out[n] = mask[n] == 1 and h[n] or -1 end
end
"""
    run(tmp_path, file, "lua", text, "out:40:float16", chunks="16")
    halves = a.astype("f2")
    np.testing.assert_array_equal(both(file, "out"), np.where(halves > 0.5, halves, np.float16(-1)))


OTHER_TYPE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r+") as file:
    old = file["out"]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((1,))
    plist.set_filter(31300, h5py.h5z.FLAG_OPTIONAL, old.id.get_create_plist().get_filter(0)[2])
    kind = h5py.h5t.py_create(np.dtype(eval(sys.argv[2])), logical=True)
    new = h5py.h5d.create(file.id, b"new", kind, h5py.h5s.create_simple((1,)), plist)
    new.write_direct_chunk((0,), old.id.read_direct_chunk((0,))[1])
    del file["out"]
    file.move("new", "out")
"""


@pytest.mark.parametrize("kind", ["float16", "bool", "uint8{a=0,b=1}"])
def test_a_dataset_of_another_type_is_refused(kind: str, tmp_path: Path) -> None:
    """The record states the type of the chunks; if the dataset in the file differs, the read fails."""
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    run(tmp_path, file, "lua", "function dynamic_dataset() lib.getData('out')[1] = 1 end", f"out:1:{kind}")
    assert both(file, "out").tolist() == [1]
    wrong = {"float16": "'>f2'", "bool": "'i1'", "uint8{a=0,b=1}": "h5py.enum_dtype({'a': 1, 'b': 0}, 'u1')"}[kind]
    run_python(OTHER_TYPE, file, wrong, HDF5_PLUGIN_PATH="")
    assert ("another byte order" if kind == "float16" else "its record says") in failure(file, "out")
    with hyperchunk.open(file) as opened, pytest.raises(hyperchunk.HyperchunkError, match="its record says"):
        opened["out"][...]


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("uint8{a=300}", UnsupportedError, "does not fit uint8"),
        ("float{a=1}", UnsupportedError, "only integers have names"),
        ("uint8{a=1,b=1}", UnsupportedError, "the same value"),
        ("uint8{}", UdfSyntaxError, "without a name"),
        ("half", UdfSyntaxError, "unknown type"),
    ],
)
def test_descriptions_that_cannot_be(kind: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    with pytest.raises(error, match=message):
        run(tmp_path, file, "lua", "function dynamic_dataset() lib.getData('out') end", f"out:1:{kind}")
