"""C++ functions are compiled twice, for every processor and with AVX2, with bit-identical results."""

import base64
import json
import platform
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from fresh import read
from stored_records import record_of

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX2 is one of x86_64's"),
    pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump"),
]

FUNCTION = """
__attribute__((always_inline)) static inline void compute({type} *out, const {type} *a, const {type} *b, size_t n) {{
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
# A recursive function cannot be inlined into the AVX2 version, so it exists only in the narrow form.
NARROW = {"before": "static int depth; if (depth++ == 0) dynamic_dataset();", "after": "depth--;"}
WIDE = {"before": "", "after": ""}

EACH = "for (size_t i = 0; i < n; i++) out[i] = {};"
# Each computes a row of the output.
LOOPS = [
    EACH.format("(a[i] - b[i]) / (a[i] + b[i])"),
    EACH.format("a[i] * b[i] + a[i]"),
    EACH.format("a[i] < b[i] ? a[i] : b[i] * 3"),
    "out[0] = 0; for (size_t i = 0; i < n; i++) out[0] += a[i] * b[i];",
    "for (size_t i = 1; i < n; i++) out[i] = out[i - 1] / 2 + a[i] - b[n - i];",
]
TYPES = {"float": "f4", "double": "f8", "int32_t": "i4", "uint8_t": "u1", "int64_t": "i8"}
NAMES = {"f4": "float", "f8": "double", "i4": "int32", "u1": "uint8", "i8": "int64"}


def disassembled(file: Path, name: str, folder: Path) -> str:
    """Returns the disassembly of the compiled form in a record."""
    with h5py.File(file) as opened:
        record = json.loads(record_of(opened[name]))
    path = folder / "object"
    path.write_bytes(zlib.decompress(base64.b64decode(record["compiled"]["deflate"]), -15))
    done = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True)
    return done.stdout


def is_wide(file: Path, name: str, folder: Path) -> bool:
    """True if the compiled form in a record uses 32-byte registers."""
    return "%ymm" in disassembled(file, name, folder)


@pytest.mark.skipif(not Path("/usr/bin/g++").exists(), reason="other compilers choose themselves")
def test_loops_ask_for_what_they_go_through_before_they_need_it(scene: Any, attach: Any, tmp_path: Path) -> None:
    data = np.linspace(0, 1, 5000, dtype="f4")
    asked = []
    for loop in (LOOPS[0], "out[0] = a[0] / b[0];"):
        file = scene(a=data, b=1 - data)
        attach(file, "cpp", FUNCTION.format(type="float", loops=loop, **WIDE), "out:5000:float")
        # Prefetches one to four kilobytes ahead.
        asked.append(len(re.findall(r"prefetcht0 +0x[4-9a-f][0-9a-f]{2}\(", disassembled(file, "out", tmp_path))))
        if loop == LOOPS[0]:
            np.testing.assert_array_equal(read(file, "out"), (data - (1 - data)) / (data + (1 - data)))
        file.unlink()
    # At least one in each form; the prelude has loops, too.
    assert asked[0] >= asked[1] + 2


@pytest.mark.parametrize("kind", TYPES)
def test_both_forms_compute_the_same(kind: str, scene: Any, attach: Any, tmp_path: Path) -> None:
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
        assert is_wide(file, "out", tmp_path) == (words is WIDE)
        outputs.append(read(file, "out").copy())
        file.unlink()
    wide, narrow = outputs
    np.testing.assert_array_equal(wide.view("u1"), narrow.view("u1"))
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(wide[0], (a - b) / (a + b))


BY_VALUE = """
typedef float v8 __attribute__(({attribute}(32)));
struct S {{ v8 x; }};
__attribute__((noinline)) static {type} twice({type} a) {{ asm volatile(""); return {twice}; }}
extern "C" void dynamic_dataset() {{
    auto out = lib.getData<float>("out");
    v8 a = {{1, 2, 3, 4, 5, 6, 7, 8}};
    auto b = twice({given});
    memcpy(out, &b, 32);
}}
"""
PLAIN = {"type": "v8", "twice": "a + a", "given": "a"}
IN_A_STRUCTURE = {"type": "S", "twice": "S{a.x + a.x}", "given": "S{a}"}


@pytest.mark.parametrize("how", [PLAIN, IN_A_STRUCTURE], ids=["plain", "in a structure"])
@pytest.mark.parametrize("hidden", [False, True])
def test_vectors_are_given_as_every_function_takes_them(
    hidden: bool, how: dict[str, str], scene: Any, attach: Any, tmp_path: Path
) -> None:
    """Functions with AVX2 pass 32-byte vectors in a register, and others expect them in memory."""
    file = scene()
    text = BY_VALUE.format(attribute="JOINED(vector, _size)" if hidden else "vector_size", **how)
    attach(file, "cpp", f"#define JOINED(a, b) a##b\n{text}", "out:8:float")
    assert read(file, "out").tolist() == [2, 4, 6, 8, 10, 12, 14, 16]
    assert not is_wide(file, "out", tmp_path)


def test_sums_in_any_order_have_one_form(scene: Any, attach: Any, tmp_path: Path) -> None:
    file = scene(a=np.ones(9, "f4"), b=np.ones(9, "f4"))
    text = FUNCTION.format(type="float", loops=LOOPS[3], **WIDE)
    attach(file, "cpp", f'#pragma GCC optimize("fast-math")\n{text}', "out:9:float")
    assert not is_wide(file, "out", tmp_path)


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
