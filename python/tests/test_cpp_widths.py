"""C++ functions are compiled twice, for every processor and with AVX2, and compute the same, bit for bit."""

import base64
import json
import platform
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from fresh import read

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX2 is one of x86_64's")

FUNCTION = """
static void compute({type} *out, const {type} *a, const {type} *b, size_t n) {{
    {loops}
}}
extern "C" void dynamic_dataset() {{
    auto out = lib.getData<{type}>("out");
    const {type} *a = lib.getData<{type}>("a"), *b = lib.getData<{type}>("b");
    {before}
    compute(out, a, b, lib.getDims("a")[0]);
    {after}
}}
"""
# A function that calls itself cannot be put into the one that has AVX2, so it has the narrow form alone.
NARROW = {"before": "static int depth; if (depth++ == 0) dynamic_dataset();", "after": "depth--;"}
WIDE = {"before": "", "after": ""}

EACH = "for (size_t i = 0; i < n; i++) out[i] = {};"
# A row of the output each.
LOOPS = [
    EACH.format("(a[i] - b[i]) / (a[i] + b[i])"),
    EACH.format("a[i] * b[i] + a[i]"),
    EACH.format("a[i] < b[i] ? a[i] : b[i] * 3"),
    "out[0] = 0; for (size_t i = 0; i < n; i++) out[0] += a[i] * b[i];",
    "for (size_t i = 1; i < n; i++) out[i] = out[i - 1] / 2 + a[i] - b[n - i];",
]
TYPES = {"float": "f4", "double": "f8", "int32_t": "i4", "uint8_t": "u1", "int64_t": "i8"}
NAMES = {"f4": "float", "f8": "double", "i4": "int32", "u1": "uint8", "i8": "int64"}


def object_of(file: Path, name: str, to: Path) -> Path:
    """The compiled form in a record."""
    with h5py.File(file) as opened:
        record = json.loads(opened[name].attrs["hyperchunk_udf"])
    to.write_bytes(zlib.decompress(base64.b64decode(record["compiled"]["deflate"]), -15))
    return to


@pytest.mark.parametrize("kind", TYPES)
def test_both_forms_compute_the_same(kind: str, scene: Any, attach: Any) -> None:
    dtype = np.dtype(TYPES[kind])
    rng = np.random.default_rng(7)
    if dtype.kind == "f":
        bits = rng.integers(0, 2 ** (8 * dtype.itemsize), 1003, f"u{dtype.itemsize}", endpoint=False)
        a, b = bits.view(dtype), rng.normal(size=1003).astype(dtype)
    else:
        a, b = rng.integers(1, 15, (2, 1003)).astype(dtype)
    outputs = []
    for words in (WIDE, NARROW):
        file = scene(a=a, b=b)
        text = FUNCTION.format(type=kind, loops="\n    out += n;\n    ".join(LOOPS), **words)
        attach(file, "cpp", text, f"out:{len(LOOPS)}x1003:{NAMES[dtype.str[1:]]}")
        outputs.append(read(file, "out").copy())
        file.unlink()
    wide, narrow = outputs
    np.testing.assert_array_equal(wide.view("u1"), narrow.view("u1"))
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(wide[0], (a - b) / (a + b))


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
def test_the_wide_form_is_there(scene: Any, attach: Any, tmp_path: Path) -> None:
    for form, words in {"wide": WIDE, "narrow": NARROW}.items():
        file = scene(a=np.ones(9, "f4"), b=np.ones(9, "f4"))
        attach(file, "cpp", FUNCTION.format(type="float", loops=LOOPS[0], **words), "out:9:float")
        done = subprocess.run(
            ["objdump", "-d", object_of(file, "out", tmp_path / form)], capture_output=True, text=True, check=True
        )
        assert ("%ymm" in done.stdout) == (form == "wide")
        file.unlink()


ODD = {
    "labels": "static void *to[] = {&&one, &&two}; goto *to[out == nullptr]; one: out[0] = 1; return; two: out[0] = 2;",
    "an exception of its own": "try { if (out) throw 3; } catch (int n) { out[0] = n - 2; }",
    "a lambda": "[&](int n) { out[0] = n; }(1);",
    "alloca": "int *p = static_cast<int *>(__builtin_alloca(64)); p[3] = 1; out[0] = p[3];",
}


@pytest.mark.parametrize("case", ODD)
def test_functions_of_any_kind_compile(case: str, scene: Any, attach: Any) -> None:
    file = scene()
    attach(
        file,
        "cpp",
        f'extern "C" void dynamic_dataset() {{ int *out = lib.getData<int>("out"); {ODD[case]} }}',
        "out:1:int32",
    )
    assert read(file, "out").tolist() == [1]


def test_errors_are_told_once_and_with_their_lines(scene: Any, attach: Any) -> None:
    file = scene()
    with pytest.raises(Exception, match=r"udf.cpp:2:.*nothing_such") as caught:
        attach(
            file,
            "cpp",
            'extern "C" void dynamic_dataset() { lib.getData<int>("out");\nnothing_such(); }',
            "out:1:int32",
        )
    assert str(caught.value).count("nothing_such") <= 2
