"""Live datasets defined by expressions: NumPy's values, through HDF5 and through our own reader."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK, failure, read, run_python
from hyperchunk.exceptions import UdfSyntaxError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SHAPE = (30, 41)


def attach(file: Path, expression: str, output: str = "out", **options: Any) -> dict[str, Any]:
    """Attaches an unsigned expression, replacing an existing output."""
    [record] = hyperchunk.udf.attach(
        file, outputs=output, expression=expression, unsigned=True, overwrite=True, **options
    )
    return record


def check(file: Path, expected: np.ndarray, name: str = "out") -> None:
    """Reads whole and in part, read-only (mapped) and read-write, and without libhdf5."""
    part = np.s_[7:25:2, 3:40]
    for mode in ("r", "r+"):
        with h5py.File(file, mode) as opened:
            np.testing.assert_array_equal(opened[name][...], expected)
            np.testing.assert_array_equal(opened[name][part], expected[part])
    with hyperchunk.open(file) as opened:
        np.testing.assert_array_equal(opened[name][...], expected)
        np.testing.assert_array_equal(opened[name][part], expected[part])


def values(kind: str, seed: int = 1) -> np.ndarray:
    """Returns elements of all magnitudes, with NaN, infinities and the limits of the range."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return random.random(SHAPE) > 0.5
    if dtype.kind == "f":
        data = (random.random(SHAPE) * 20 - 10).astype(dtype)
        data.flat[:4] = [np.nan, np.inf, -np.inf, -0.0]
        return data
    info = np.iinfo(dtype)
    data = random.integers(max(info.min, -100), min(info.max, 100), SHAPE).astype(dtype)
    data.flat[:3] = [info.min, info.max, 0]
    return data


NDVI = "(NIR - Red) / (NIR + Red)"


@pytest.mark.parametrize("chunks", [None, "whole", "auto", "7x11", (1, 41)])
def test_ndvi(chunks: Any, scene: Any) -> None:
    file = scene()
    red, nir = read(file, "Red"), read(file, "NIR")
    record = attach(file, NDVI, "NDVI", chunks=chunks)
    assert (record["backend"], record["source_code"], record["compiled"]) == ("Expression", NDVI, None)
    assert (record["output_datatype"], record["blockwise"]) == ("float", chunks != "whole")
    check(file, (nir - red) / (nir + red), "NDVI")


def test_it_needs_no_worker_and_no_trust(scene: Any, read_in_fresh_process: Any) -> None:
    """An unsigned record needs neither a worker nor trust: every stock reader computes it in its own process."""
    file = scene()
    attach(file, NDVI, "NDVI")
    expected = read(file, "NDVI")
    [live] = hyperchunk.udf.ls(file)
    assert (live.signer, live.profile, live.error) == (None, "untrusted", None)
    for reader in ("h5py", "netCDF4"):
        np.testing.assert_array_equal(read_in_fresh_process(file, "NDVI", reader=reader), expected)
    code = """
import os, sys, h5py
h5py.File(sys.argv[1])["NDVI"][...]
print(open(f"/proc/self/task/{os.getpid()}/children").read().split())
"""
    assert run_python(code, file).stdout.strip() == "[]"


def test_the_command(scene: Any, command: Any, tmp_path: Path) -> None:
    file = scene()
    done = command("udf", "attach", file, "NDVI", "--expression", NDVI)
    assert "attached NDVI: expression float 30x40, inputs: NIR, Red" in done.stdout, done.stderr
    source = tmp_path / "twice.expr"
    source.write_text("# doubled\nNDVI\n  * 2\n")
    done = command("udf", "attach", file, source, "twice:30x40:double")
    assert "expression double 30x40" in done.stdout, done.stderr
    np.testing.assert_array_equal(read(file, "twice"), read(file, "NDVI") * np.float32(2))
    assert "Red" in command("udf", "show", f"{file}:/NDVI").stdout
    assert command("udf", "verify", file).returncode == 0
    for words in [("--expression", NDVI), (), ("a", "b", "--expression", NDVI), (source,)]:
        done = command("udf", "attach", file, *words)
        assert done.returncode != 0
    assert "an expression computes one dataset" in done.stderr


def test_an_expression_may_begin_with_a_minus(scene: Any, command: Any) -> None:
    file = scene()
    done = command("udf", "attach", file, "less", "--expression", "-NIR + Red")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(read(file, "less"), read(file, "Red") - read(file, "NIR"))


STORED = {
    "big-endian": lambda a: {"data": a.astype(a.dtype.newbyteorder(">"))},
    "chunked": lambda a: {"data": a, "chunks": (8, 9), "compression": "gzip"},
    "compact": lambda a: {"data": a},
    "resizable": lambda a: {"data": a, "maxshape": (None, None)},
}


@pytest.mark.parametrize("how", STORED)
@pytest.mark.parametrize("kind", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_inputs_of_every_type(kind: str, how: str, tmp_path: Path) -> None:
    a, b = values(kind), np.arange(np.prod(SHAPE), dtype="f4").reshape(SHAPE)
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", **STORED[how](a))
        opened["b"] = b
    wide = a.astype("f4") if kind == "f2" else a
    with np.errstate(all="ignore"):
        for text, expected in [
            ("a", wide),
            ("a + b", wide + b),
            ("where(a, b, -1)", np.where(wide != 0, b, np.float32(-1))),
            ("a == a", wide == wide),
        ]:
            record = attach(file, text)
            assert h5py.File(file)["out"].dtype == expected.dtype, record
            check(file, expected)
    if kind == "?":
        attach(file, "where(~a, b, 0) * (a != True)")
        check(file, np.where(~a, b, np.float32(0)))


def test_enumerations_are_their_integers(tmp_path: Path) -> None:
    file, codes = tmp_path / "a.h5", np.arange(np.prod(SHAPE)).reshape(SHAPE) % 3 - 1
    with h5py.File(file, "w") as opened:
        kind = h5py.enum_dtype({"cloud": -1, "land": 0, "sea": 1}, basetype=">i2")
        opened.create_dataset("codes", data=codes, dtype=kind)
    record = attach(file, "codes * 100")
    assert record["output_datatype"] == "int16"
    check(file, (codes * 100).astype("i2"))


def test_one_element_is_broadcast(tmp_path: Path) -> None:
    a = values("f4")
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["a"], opened["calibration/gain"], opened["offset"] = a, np.float32(2.5), np.array([[3]], "i2")
        opened["all"] = np.arange(5.0)
    attach(file, '(a - offset) * "calibration/gain"')
    check(file, (a - np.int16(3)) * np.float32(2.5))
    record = attach(file, '"/calibration/gain" + offset')
    assert record["output_resolution"] == [1, 1]
    assert read(file, "out").tolist() == [[5.5]]
    with pytest.raises(UdfSyntaxError, match='input "all" has 5 elements and the output 30x41'):
        attach(file, "a * all")
    attach(file, "1 / 3", "third:4:double")
    assert read(file, "third").tolist() == [1 / 3] * 4


def test_chains(tmp_path: Path) -> None:
    """Expressions of expressions; a cycle is an error."""
    file, a = tmp_path / "a.h5", values("i4")
    with h5py.File(file, "w") as opened:
        opened["a"] = a
    attach(file, "a % 7", "b")
    attach(file, "b * b", "c", chunks="5x5")
    attach(file, "c - b + a", "d")
    b = a % np.int32(7)
    check(file, b * b - b + a, "d")
    attach(file, "c + 1", "b")
    assert "cycle" in failure(file, "c")


def test_what_an_integer_cannot_hold(tmp_path: Path) -> None:
    """Integers saturate, floats are truncated; NaN is an error with advice."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["a"] = np.array([[-1e9, -1.9, 1.9, 1e9, np.inf]])
        opened["n"] = np.array([[0.0, np.nan]])
    attach(file, "a", "out:1x5:int16")
    assert read(file, "out").tolist() == [[-32768, -1, 1, 32767, 32767]]
    attach(file, "uint8(int32(a)) + uint8(1)", "out")
    assert read(file, "out").tolist() == [[1, 1, 2, 0, 0]]
    attach(file, "n", "out:1x2:int16")
    reason = failure(file, "out")
    assert "NaN, which int16 cannot represent" in reason
    assert "expression, unsigned, profile untrusted" in reason
    assert f"{file}:/out" in reason
    attach(file, "where(isnan(n), -9999, n)", "out:1x2:int16")
    assert read(file, "out").tolist() == [[0, -9999]]


@pytest.mark.parametrize(
    ("expression", "output", "part"),
    [
        ("Red +", "out", "the expression: column 6"),
        ("Red + Blue", "out", 'there is no dataset "Blue"'),
        ("out + Red", "out", "which it computes"),
        ("Red", "Red/x/", "Red"),
        ("open('x')", "out", 'there is no function "open"'),
        ("Red.__class__", "out", "there is no dataset"),
        ("/Red", "out", "expected a value here"),
        ("e * Red", "out", "e is a number in expressions, and a dataset"),
        ("1 + 1", "out", "no inputs to copy dimensions from"),
        ("int8(Red) + 1000", "out", "1000 does not fit int8"),
        ("(" * 2000, "out", "nested more than"),
        ("x" * 70000, "out", "at most 65536"),
    ],
)
def test_mistakes(expression: str, output: str, part: str, scene: Any) -> None:
    file = scene(Red=values("f4"), NIR=values("f4"), e=values("f4"))
    with pytest.raises(hyperchunk.HyperchunkError, match=r".") as raised:
        attach(file, expression, output)
    assert part in str(raised.value)
    with h5py.File(file) as opened:
        assert set(opened) == {"Red", "NIR", "e"}


def test_either_a_source_or_an_expression(scene: Any) -> None:
    with pytest.raises(TypeError, match="either"):
        hyperchunk.udf.attach(scene(), outputs="x")
    with pytest.raises(TypeError, match="either"):
        hyperchunk.udf.attach(scene(), "ndvi.lua", expression="Red")


def test_an_input_that_changed_is_an_error(scene: Any) -> None:
    file = scene(a=values("f4"))
    attach(file, "a + 1")
    with h5py.File(file, "r+") as opened:
        del opened["a"]
        opened["a"] = values("f8")
    assert 'input "a"' in failure(file, "out")
    with pytest.raises(hyperchunk.HyperchunkError, match="attach it again"), hyperchunk.open(file) as opened:
        opened["out"][...]


def test_a_file_that_was_changed_is_read_anew(scene: Any) -> None:
    """A mapping made for one reader is not reused after the file changes."""
    file = scene(a=np.zeros(SHAPE, "f4"))
    attach(file, "a + 1")
    for n in range(3):
        with h5py.File(file, "r+") as opened:
            opened["a"][...] = np.full(SHAPE, n, "f4")
        np.testing.assert_array_equal(read(file, "out"), np.full(SHAPE, n + 1, "f4"))


CUT = """
import os, sys, time, h5py
file = h5py.File(sys.argv[1])
out = file["out"]
assert out[0, 0] == 2
os.truncate(sys.argv[1], os.path.getsize(sys.argv[1]) // 2)
time.sleep(float(sys.argv[2]))
try:
    print(out[-1])
except OSError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize("pause", [0, 0.05])
def test_a_file_that_is_cut_short_while_it_is_open(pause: float, tmp_path: Path) -> None:
    """Truncating the file is an error, as with any dataset; not a signal, though the input was mapped."""
    file, ones = tmp_path / "a.h5", np.ones((3000, 1000), "f4")
    with h5py.File(file, "w") as opened:
        opened["a"] = ones
    attach(file, "a + 1")
    with h5py.File(file, "r+") as opened:
        del opened["a"]
        opened["rest"] = np.zeros((3000, 1000), "f4")
        opened["a"] = ones
    assert "refused" in run_python(CUT, file, pause).stdout


# Random expressions, in our grammar and in NumPy's.

ROUNDED = ["exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "log2", "log10"]
NAMES = {"a": "f4", "b": "f8", "i": "i4", "j": "i2", "u": "u1", "w": "u4", "m": "?"}
Pair = tuple[str, str]


def call(ours: str, theirs: str) -> Callable[[tuple[Pair, ...]], Pair]:
    """Makes a call of a function in both grammars."""
    return lambda p: (f"{ours}({', '.join(x[0] for x in p)})", f"{theirs}({', '.join(x[1] for x in p)})")


def infix(op: str) -> Callable[[tuple[Pair, ...]], Pair]:
    """Makes an operator that both grammars write the same."""
    return lambda p: (f"({p[0][0]} {op} {p[1][0]})", f"({p[0][1]} {op} {p[1][1]})")


def expressions() -> st.SearchStrategy[Pair]:
    """Draws pairs: our text, and the text for ``eval`` with NumPy. Inexact functions are applied last, if at all."""
    names = st.sampled_from(sorted(NAMES)).map(lambda n: (n, n))
    numbers = st.sampled_from(["2", "3", "0.5", "1e-3", "7"]).map(lambda n: (n, n))

    def grow(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
        one, two, three = st.tuples(inner), st.tuples(inner, inner), st.tuples(inner, inner, inner)
        options = [two.map(infix(op)) for op in ["+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!="]]
        options += [
            two.map(lambda p: (f"({p[0][0]} and {p[1][0]})", f"logical_and({p[0][1]}, {p[1][1]})")),
            two.map(lambda p: (f"({p[0][0]} or {p[1][0]})", f"logical_or({p[0][1]}, {p[1][1]})")),
            one.map(lambda p: (f"(not {p[0][0]})", f"logical_not({p[0][1]})")),
            one.map(call("-", "-")),
            one.map(call("sqrt", "sqrt")),
            one.map(call("floor", "floor")),
            one.map(call("round", "rint")),
            one.map(call("isnan", "isnan")),
            one.map(call("float32", "np.float32")),
            one.map(call("float64", "np.float64")),
            two.map(call("min", "minimum")),
            two.map(call("max", "maximum")),
            three.map(call("where", "where")),
        ]
        return st.one_of(options)

    exact = st.recursive(st.one_of(names, names, numbers), grow, max_leaves=7)
    last = [st.tuples(exact).map(call(name, name)) for name in ROUNDED]
    last += [st.tuples(exact, exact).map(call(name, name)) for name in ("hypot", "atan2")]
    return st.one_of(exact, exact, *last)


def with_our_rules(function: Any, floats: bool, whole_stays: bool = False) -> Any:
    """Wraps a NumPy function to return a scalar for scalars, and float64 for integers."""

    def run(*arguments: Any) -> Any:
        if whole_stays and np.asarray(arguments[0]).dtype.kind in "biu":
            return arguments[0]
        common = np.result_type(*arguments)
        if floats and common.kind != "f" and not all(type(a) in (int, float) for a in arguments):
            arguments = tuple(np.asarray(a, "f8") for a in arguments)
        result = function(*arguments)
        return result.item() if all(type(a) in (int, float) for a in arguments) else result

    return run


SCOPE = {name: with_our_rules(getattr(np, name), True) for name in [*ROUNDED, "sqrt", "hypot"]}
SCOPE |= {"atan2": with_our_rules(np.arctan2, True), "np": np}
SCOPE |= {name: with_our_rules(getattr(np, name), False, True) for name in ("floor", "rint")}
plain = ("minimum", "maximum", "where", "isnan", "logical_and", "logical_or", "logical_not")
SCOPE |= {name: with_our_rules(getattr(np, name), False) for name in plain}


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=expressions())
def test_the_values_of_numpy(pair: tuple[str, str], tmp_path: Path) -> None:
    ours, theirs = pair
    file = tmp_path / "random.h5"
    arrays = {name: values(kind, seed) for seed, (name, kind) in enumerate(NAMES.items())}
    if not file.exists():
        with h5py.File(file, "w") as opened:
            for name, array in arrays.items():
                opened[name] = array
    with np.errstate(all="ignore"):
        try:
            expected = eval(theirs, SCOPE, dict(arrays))
        except (TypeError, OverflowError, ZeroDivisionError):
            return  # subtraction of bools, overflowing numbers: errors of ours, too, tested separately
    if not isinstance(expected, np.ndarray) or expected.shape != SHAPE:
        return
    reason, record = "", {}
    try:
        record = attach(file, ours)
    except UdfSyntaxError as error:
        reason = str(error)
    if reason:
        # Constant expressions stay scalars in ours.
        assert any(part in reason for part in ("does not fit", "divided by 0", "bool", "too large")), (ours, reason)
        return
    got = read(file, "out")
    assert got.shape == SHAPE
    kind = expected.dtype
    assert got.dtype == kind, (ours, record["output_datatype"], expected.dtype)
    last = ours.partition("(")[0] in [*ROUNDED, "hypot", "atan2"]
    if last and got.dtype.kind == "f":
        tolerance = 1e-5 if got.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=ours)
    else:
        np.testing.assert_array_equal(got, expected, err_msg=ours)


@pytest.mark.parametrize(
    ("datatype", "formula", "noted"),
    [
        ("u2", "(NIR - Red) / (NIR + Red)", True),
        ("u2", "(float32(NIR) - Red) / (float32(NIR) + Red)", False),
        ("u2", "-NIR + Red", True),
        ("i2", "NIR - Red", False),
        ("f4", "NIR - Red", False),
    ],
)
def test_attach_notes_unsigned_differences(datatype: str, formula: str, noted: bool, scene: Any) -> None:
    values = np.arange(4, dtype=datatype)
    file = scene("unsigned.h5", NIR=values, Red=values[::-1].copy())
    words = [HYPERCHUNK, "udf", "attach", file, "NDVI", "--expression", formula, "--unsigned"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ("wrap around below 0" in done.stderr) is noted, done.stderr
