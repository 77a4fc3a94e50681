"""The object ``lib`` that functions use, in each language."""

import re
from typing import Any

import numpy as np
import pytest
from fresh import failure, read
from hyperchunk.exceptions import UdfSyntaxError
from programs import LANGUAGES, TYPES

A = np.arange(6, dtype="f4").reshape(2, 3)


def python(*lines: str) -> str:
    """Returns a Python function with ``a`` and ``out`` defined."""
    start = [
        "import numpy as np",
        "def dynamic_dataset():",
        '    a, out = lib.getData("a"), lib.getData("out")',
    ]
    return "\n".join([*start, *(f"    {line}" for line in lines), ""])


EVERY_TYPE = {
    "py": """
def dynamic_dataset():
    out = lib.getData("out")
{}
""",
    "lua": """
function dynamic_dataset()
  local out = lib.getData("out")
{}
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {{
  auto out = lib.getData<int32_t>("out");
{}
}}
""",
}
IS_TYPE = {
    "py": '    lib.getData("{t}"); out[{i}] = (lib.getType("{t}") == b"{t}") + (lib.getType("{t}") == "{t}")',
    "lua": '  lib.getData("{t}"); out[{n}] = lib.getType("{t}") == "{t}" and 2 or 0',
    "cpp": '  lib.getData<char>("{t}"); out[{i}] = std::string(lib.getType("{t}")) == "{t}" ? 2 : 0;',
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_get_type(language: str, scene: Any, attach: Any) -> None:
    """In Python the type equals bytes, as in HDF5-UDF, and the string."""
    file = scene(**{t: np.zeros(3, TYPES[t][0]) for t in TYPES})
    lines = [IS_TYPE[language].format(t=t, i=i, n=i + 1) for i, t in enumerate(TYPES)]
    attach(file, language, EVERY_TYPE[language].format("\n".join(lines)), "out:10:int32")
    assert read(file, "out").tolist() == [2] * 10


GET_DIMS = {
    "py": """
def dynamic_dataset():
    lib.getData("a")
    out = lib.getData("out")
    dims = lib.getDims("a")
    assert isinstance(dims, tuple) and dims == lib.getSize("a")
    for i, d in enumerate(dims + (len(dims),)):
        out[i] = d
""",
    "lua": """
function dynamic_dataset()
  lib.getData("a")
  local out = lib.getData("out")
  local dims = lib.getDims("a")
  assert(#lib.getSize("a") == 4)
  for i = 1, #dims do out[i] = dims[i] end
  out[#dims + 1] = #dims
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
  lib.getData<float>("a");
  auto out = lib.getData<uint8_t>("out");
  std::vector<size_t> dims = lib.getDims("a");
  if (lib.getSize("a") != dims) throw std::runtime_error("getSize");
  dims.push_back(dims.size());
  for (size_t i = 0; i < dims.size(); i++) out[i] = dims[i];
}
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_get_dims(language: str, scene: Any, attach: Any) -> None:
    file = scene(a=np.zeros((2, 3, 5, 7), "f4"))
    attach(file, language, GET_DIMS[language], "out:5:uint8")
    assert read(file, "out").tolist() == [2, 3, 5, 7, 4]


FILE_PATH = {
    "py": """
def dynamic_dataset():
    out, path = lib.getData("out"), lib.getFilePath()
    assert isinstance(path, bytes) and path == path.decode() and path == str(path).encode()
    for i, c in enumerate(path[-16:]):
        out[i] = c
""",
    "lua": """
function dynamic_dataset()
  local out, path = lib.getData("out"), lib.getFilePath()
  for i = 1, 16 do out[i] = string.byte(path, #path - 16 + i) end
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
  auto out = lib.getData<uint8_t>("out");
  std::string path = lib.getFilePath();
  for (size_t i = 0; i < 16; i++) out[i] = path[path.size() - 16 + i];
}
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_get_file_path(language: str, scene: Any, attach: Any) -> None:
    """The path is the one by which the reader opened the file."""
    file = scene("example-file-path.h5")
    attach(file, language, FILE_PATH[language], "out:16:uint8")
    assert read(file, "out").tobytes() == str(file).encode()[-16:]


def test_get_file_path_after_renaming(scene: Any, attach: Any) -> None:
    file = scene("example-file-path.h5")
    attach(file, "lua", FILE_PATH["lua"], "out:16:uint8")
    read(file, "out")
    file = file.rename(file.with_name("another-file-path.h5"))
    assert read(file, "out").tobytes() == str(file).encode()[-16:]


PYTHON_BUFFER: dict[str, tuple[str, ...]] = {
    "length": ("assert len(a) == len(out) == 6 and a.shape == (6,)",),
    "elements are Python's": ("assert type(a[0]) is float and a[5] == 5.0",),
    "negative index": ("assert a[-1] == 5 and a[-6] == 0", "out[-1] = 3", "assert out[5] == 3"),
    "index errors": (
        "for n in (6, -7, 10**30):",
        "    for act in (lambda: a[n], lambda: out.__setitem__(n, 1)):",
        "        try: act()",
        "        except IndexError: pass",
        "        else: raise AssertionError(n)",
    ),
    "slices": ("assert list(a[1:3]) == [1, 2] and list(a[::-2]) == [5, 3, 1] and len(a[:]) == 6",),
    "a slice takes an array": ("out[0:6] = np.arange(6) * 2", "assert list(out) == [0, 2, 4, 6, 8, 10]"),
    "a slice takes the other buffer": ("out[0:6] = a", "assert list(out) == list(a)"),
    "a slice takes a scalar": ("out[2:4] = 7", "assert list(out) == [0, 0, 7, 7, 0, 0]"),
    "a slice of the wrong length": (
        "try: out[0:6] = np.arange(5)",
        "except ValueError: pass",
        "else: raise AssertionError",
    ),
    "NumPy writes through": (
        "view = np.asarray(out)",
        "assert view.dtype == np.float32 and view.flags.writeable",
        "view[3] = 9",
        "assert out[3] == 9 and np.shares_memory(view, np.asarray(out))",
    ),
    "inputs are read-only for NumPy": ("assert not np.asarray(a).flags.writeable",),
    "arithmetic": ("x = (a - out) / (a + 1) * 2", "assert isinstance(x, np.ndarray) and x.shape == (6,)"),
    "arithmetic with numbers on the left": ("assert list(1 + a - (2 * a)) == [1, 0, -1, -2, -3, -4]",),
    "negation": ("assert list(-a) == [0, -1, -2, -3, -4, -5]",),
    "iteration": ("assert sum(a) == 15 and max(a) == 5 and 3 in a",),
    "lib.array has the shape": (
        'x, y = lib.array("a"), lib.array("out")',
        "assert x.shape == y.shape == (2, 3) and x[1, 0] == 3",
        "y[1, 2] = 8",
        "assert out[5] == 8",
    ),
    "lib.ffi.buffer, as in HDF5-UDF": (
        "x = np.frombuffer(lib.ffi.buffer(a, 24), dtype=np.float32).reshape(2, 3)",
        "assert x[1, 1] == 4 and len(lib.ffi.buffer(a, 8)) == 8 and len(lib.ffi.buffer(a)) == 24",
        "y = np.frombuffer(lib.ffi.buffer(out), dtype='f4')",
        "y[:] = x.ravel()",
        "assert out[4] == 4",
    ),
    "memoryview": ("m = memoryview(out)", "assert (m.format, m.itemsize, m.readonly) == ('f', 4, False)"),
    "NumPy scalars are stored": ("out[0] = np.float64(2.5)", "out[1] = np.int8(-3)", "assert out[1] == -3"),
}


@pytest.mark.parametrize("case", PYTHON_BUFFER)
def test_python_buffers(case: str, scene: Any, attach: Any) -> None:
    file = scene(a=A)
    attach(file, "py", python(*PYTHON_BUFFER[case], "out[0] = 42"))
    assert read(file, "out")[0, 0] == 42


PYTHON_ERRORS: list[tuple[str, str, str]] = [
    ("a[0] = 1", "float", "this dataset is an input and cannot be written"),
    ("a[0:6] = 1", "float", "read-only"),
    ("np.asarray(a)[0] = 1", "float", "read-only"),
    ("out[0] = 1.5", "int32", "TypeError: an int32 dataset takes integers"),
    ("out[0] = 1.0", "uint8", "TypeError: an uint8 dataset takes integers"),
    ("out[0] = 256", "uint8", "OverflowError: 256 does not fit into uint8"),
    ("out[0] = -1", "uint64", "OverflowError"),
    ("out[0] = 2**63", "int64", "OverflowError"),
    ("out[0] = 10**40", "uint64", "OverflowError"),
    ("out[0] = 'x'", "float", "TypeError"),
    ("out[0] = None", "int8", "TypeError"),
    ("del out[0]", "int8", "Error"),
    ("out['x']", "int8", "Error"),
]


@pytest.mark.parametrize(("line", "kind", "message"), PYTHON_ERRORS)
def test_python_errors(line: str, kind: str, message: str, scene: Any, attach: Any) -> None:
    file = scene(a=A)
    attach(file, "py", python("pass", line), f"out:6:{kind}")
    reason = failure(file, "out")
    assert message in reason
    assert "udf.py, line 5" in reason


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("uint8", [255, 0]),
        ("int8", [-128, 127]),
        ("uint64", [2**64 - 1, 2**63]),
        ("int64", [-(2**63), 2**63 - 1]),
    ],
)
def test_python_stores_the_extremes_of_integers(kind: str, values: list[int], scene: Any, attach: Any) -> None:
    file = scene(a=A)
    text = python(*(f"out[{n}] = {value}" for n, value in enumerate(values)))
    attach(file, "py", text, f"out:2:{kind}")
    assert read(file, "out").tolist() == values


def test_lua_counts_from_one(scene: Any, attach: Any) -> None:
    file = scene(a=A)
    text = """
function dynamic_dataset()
    local a, out = lib.getData("a"), lib.getData("out")
    out[1], out[6] = a[6], a[1] + 0.5
end
"""
    attach(file, "lua", text)
    assert read(file, "out").tolist() == [[5, 0, 0], [0, 0, 0.5]]


def test_lua_has_what_computes(scene: Any, attach: Any) -> None:
    file = scene(a=A)
    text = """
local ffi, bit = require("ffi"), require("bit")
local helper = {}
function helper.f(x) return math.floor(x / 2) + bit.band(7, 5) + #string.rep("x", 2) end
function dynamic_dataset()
    local a, out = lib.getData("a"), lib.getData("out")
    local scratch = ffi.new("double[?]", 6)
    for i = 1, 6 do scratch[i - 1] = helper.f(a[i]) end
    for i = 1, 6 do out[i] = scratch[i - 1] end
    assert(io == nil and os == nil or os.execute == nil)
end
"""
    attach(file, "lua", text)
    np.testing.assert_array_equal(read(file, "out"), A // 2 + 7)


def test_cpp_has_the_standard_library(scene: Any, attach: Any) -> None:
    file = scene(a=A)
    text = """
#include <algorithm>
#include <map>
#include <numeric>
static int calls = 0;
template <class T> static T twice(T x) { return x + x; }
extern "C" void dynamic_dataset()
{
    float *a = lib.getData<float>("a"), *out = lib.getData<float>("out");
    std::vector<float> sorted(a, a + 6);
    std::sort(sorted.rbegin(), sorted.rend());
    std::map<int, float> map;
    for (int i = 0; i < 6; i++) map[i] = sorted[i];
    for (auto &[i, x] : map) out[i] = twice(x) + std::accumulate(a, a + 6, 0.0f);
    calls++;
}
"""
    attach(file, "cpp", text, "out:2x3:float")
    np.testing.assert_array_equal(read(file, "out").ravel(), 2 * A.ravel()[::-1] + 15)


MODULES = "numpy math random json re statistics itertools functools collections datetime struct zlib hashlib"


def test_python_has_what_computes(scene: Any, attach: Any) -> None:
    file = scene(a=A)
    imports = f"import {', '.join(MODULES.split())}"
    text = python(imports, "import numpy.linalg, numpy.fft", "out[0:6] = numpy.fft.ifft(numpy.fft.fft(a)).real")
    attach(file, "py", text)
    np.testing.assert_allclose(read(file, "out"), A, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "cpp", "fits"),
    [
        ("i4", "double", False),
        ("i4", "float", False),
        ("f4", "int", False),
        ("i8", "int32_t", False),
        ("i2", "long", False),
        ("f8", "float", False),
        ("i4", "int", True),
        ("u4", "int", True),
        ("f4", "uint32_t", True),
        ("f8", "unsigned long long", True),
        ("i8", "long long", True),
        ("u2", "const short", True),
        ("f8", "unsigned char", True),
        ("f8", "double", True),
    ],
)
def test_types_that_do_not_fit_are_errors_in_cpp(kind: str, cpp: str, fits: bool, scene: Any, attach: Any) -> None:
    file = scene(a=np.ones(4, kind))
    text = f"""extern "C" void dynamic_dataset() {{
        auto out = lib.getData<double>("out");
        out[0] = lib.getData<{cpp}>("a") != nullptr;
    }}"""
    attach(file, "cpp", text, "out:4:double")
    if fits:
        assert read(file, "out")[0] == 1
    else:
        assert "no dataset a has elements of the type of lib.getData<T>" in failure(file, "out")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def dynamic_dataset():\n    yield lib.getData('out')\n", "contains `yield`"),
        ("async def dynamic_dataset():\n    lib.getData('out')[0] = 1\n", "is `async`"),
    ],
)
def test_a_function_whose_call_computes_nothing_is_not_attached(text: str, why: str, scene: Any, attach: Any) -> None:
    with pytest.raises(UdfSyntaxError, match=why):
        attach(scene(a=A), "py", text, "out:4:double")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "def one():\n    yield lib.getData('out')\n\ndef dynamic_dataset():\n    return one()\n",
            "generator.*`yield`",
        ),
        (
            "async def one():\n    lib.getData('out')\n\ndef dynamic_dataset():\n    return one()\n",
            "coroutine.*`async`",
        ),
    ],
)
def test_a_function_that_returns_a_generator_or_a_coroutine_fails(text: str, why: str, scene: Any, attach: Any) -> None:
    """Its outputs would stay zeros."""
    file = scene(a=A)
    attach(file, "py", text, "out:4:double")
    assert re.search(why, failure(file, "out"))


def test_memory_that_is_not_there_is_named(scene: Any, attach: Any) -> None:
    file = scene(a=A)
    attach(file, "py", "def dynamic_dataset():\n    lib.getData('out')[0] = len(bytearray(2**50))\n", "out:1:double")
    assert re.search(r"MemoryError .*the limit is \d+ MiB \(`memory` of its profile\)", failure(file, "out"))
