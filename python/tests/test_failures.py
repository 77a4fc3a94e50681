"""Functions that fail or print: the reader's error, and the success of the next read."""

from typing import Any

import numpy as np
import pytest
from fresh import failure, read, run_python
from hyperchunk.exceptions import HyperchunkError, UdfError
from programs import LANGUAGES, elementwise

A = np.arange(6, dtype="f4")

RAISE = {
    "py": """
def helper(x):
    raise ValueError(f"no luck with {x:g}")

def dynamic_dataset():
    a, out = lib.getData("a"), lib.getData("out")
    helper(a[2])
""",
    "lua": """
local function helper(x)
    error("no luck with " .. x)
end

function dynamic_dataset()
    local a, out = lib.getData("a"), lib.getData("out")
    helper(a[3])
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
    auto a = lib.getData<float>("a"), out = lib.getData<float>("out");
    out[0] = a[0];
    throw std::invalid_argument("no luck with " + std::to_string(int(a[2])));
}
""",
}
LINE = {"py": "udf.py, line 3", "lua": "udf:3:", "cpp": ""}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_text_and_line_of_an_exception(language: str, scene: Any, attach: Any) -> None:
    file = scene(a=A)
    attach(file, language, RAISE[language])
    reason = failure(file, "out")
    assert "no luck with 2" in reason
    assert LINE[language] in reason
    assert "s2.h5:/out" in reason


@pytest.mark.parametrize("language", LANGUAGES)
def test_after_a_failure_the_next_read_works(language: str, scene: Any, attach: Any) -> None:
    file = scene(a=A)
    attach(file, language, RAISE[language])
    attach(file, language, elementwise(language, "a[i] + 1", "good", ["a"]))
    for _ in range(2):
        failure(file, "out")
        np.testing.assert_array_equal(read(file, "good"), A + 1)


def test_other_throws_of_cpp(scene: Any, attach: Any) -> None:
    file = scene()
    attach(
        file,
        "cpp",
        'extern "C" void dynamic_dataset() { lib.getData<float>("out"); throw 7; }',
        "out:2:float",
    )
    assert "not a std::exception" in failure(file, "out")


CRASHES = {
    "null": "*(volatile int *)8 = 1;",
    "abort": "abort();",
    "exit": "exit(0);",
    "stack": "volatile char big[64 << 20]; for (size_t i = 0; i < sizeof big; i += 4096) big[i] = 1;",
    "trap": "__builtin_trap();",
}


@pytest.mark.parametrize("case", CRASHES)
def test_crashes_of_cpp(case: str, scene: Any, attach: Any) -> None:
    """A dead worker is an error of that read only."""
    file = scene(a=A)
    text = f'extern "C" void dynamic_dataset() {{ lib.getData<float>("out"); {CRASHES[case]} }}'
    attach(file, "cpp", text, "out:2:float")
    attach(file, "lua", elementwise("lua", "a[i]", "good", ["a"]))
    for _ in range(2):
        assert "hyperchunk udf" in failure(file, "out")
        np.testing.assert_array_equal(read(file, "good"), A)


SYNTAX = {
    "py": ('def dynamic_dataset():\n    lib.getData("out")\n    x = = 1\n', "line 3"),
    "lua": ('function dynamic_dataset()\n  lib.getData("out")\n  local x = = 1\nend\n', "3"),
    "cpp": (
        'extern "C" void dynamic_dataset() {\n  lib.getData<float>("out");\n  int x = = 1;\n}\n',
        "udf.cpp:3",
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_syntax_errors_show_when_attaching(language: str, scene: Any, attach: Any) -> None:
    file = scene()
    before = file.read_bytes()
    text, place = SYNTAX[language]
    with pytest.raises(HyperchunkError, match=place) as caught:
        attach(file, language, text, "out:2:float")
    assert f"0.{language}" in str(caught.value)
    assert file.read_bytes() == before


def test_compiler_errors_tell_the_compilers_text(scene: Any, attach: Any) -> None:
    text = 'extern "C" void dynamic_dataset() {\n  lib.getData<float>("out");\n  undeclared_thing(1);\n}\n'
    with pytest.raises(UdfError, match=r"udf\.cpp:3.*undeclared_thing"):
        attach(scene(), "cpp", text, "out:2:float")


def test_unresolved_symbols_show_when_attaching(scene: Any, attach: Any) -> None:
    text = 'void missing();\nextern "C" void dynamic_dataset() { lib.getData<float>("out"); missing(); }\n'
    with pytest.raises(UdfError, match="missing"):
        attach(scene(), "cpp", text, "out:2:float")


MISSING = {
    "py": 'def dynamic_data():\n    lib.getData("out")\n',
    "lua": 'function dynamic_data() lib.getData("out") end',
    "cpp": 'extern "C" void dynamic_data() { lib.getData<float>("out"); }',
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_dynamic_dataset(language: str, scene: Any, attach: Any) -> None:
    with pytest.raises(HyperchunkError, match="dynamic_dataset"):
        attach(scene(), language, MISSING[language], "out:2:float")


def test_errors_at_the_top_level_show_when_attaching(scene: Any, attach: Any) -> None:
    for language, text in [
        ("py", 'x = 1 / 0\ndef dynamic_dataset():\n    lib.getData("out")\n'),
        ("lua", 'error("top") function dynamic_dataset() lib.getData("out") end'),
    ]:
        with pytest.raises(UdfError, match=r"division by zero|top"):
            attach(scene(), language, text, "out:2:float")


DYNAMIC_NAMES = {
    "py": 'name = "o" + str(1)\ndef dynamic_dataset():\n    lib.getData(name)\n',
    "lua": 'function dynamic_dataset() lib.getData("o" .. 1) end',
    "cpp": 'extern "C" void dynamic_dataset() { std::string n = std::to_string(1); lib.getData<float>(n); }',
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_must_be_constants(language: str, scene: Any, attach: Any) -> None:
    """HDF5-UDF would make a dataset called ``lib.getData(n)``."""
    with pytest.raises(HyperchunkError, match=r"constant|literal|quoted|string"):
        attach(scene(), language, DYNAMIC_NAMES[language], "out:2:float")


PRINT = {
    "py": """
def dynamic_dataset():
    lib.getData("out")[0] = 1
    print("hello", "world")
    print("%s")
""",
    "lua": """
function dynamic_dataset()
  lib.getData("out")[1] = 1
  print("hello world")
  print("%s")
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
  lib.getData<float>("out")[0] = 1;
  printf("hello world\\n");
  puts("%s");
}
""",
}
READER = """
import sys, h5py
print("before")
h5py.File(sys.argv[1])["out"][...]
sys.stdout.flush()
print("after")
"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_prints_reach_the_reader_once(language: str, scene: Any, attach: Any) -> None:
    """HDF5-UDF prints twice when standard output is a pipe. Terminal escapes are neutralized."""
    file = scene()
    escape = r"\027[31mred" if language == "lua" else r"\033[31mred"
    attach(file, language, PRINT[language] % escape, "out:2:float")
    done = run_python(READER, file)
    assert done.stderr.count(": hello world\n") == 1
    assert done.stdout.count("before\n") == done.stdout.count("after\n") == 1
    assert "\x1b" not in done.stderr
    assert "\\u{1b}[31mred\n" in done.stderr
    assert "hello" not in done.stdout


def test_nothing_is_printed_when_attaching(scene: Any, attach: Any, capfd: pytest.CaptureFixture[str]) -> None:
    file = scene()
    for language in LANGUAGES:
        attach(file, language, PRINT[language] % "x", "out:2:float", overwrite=True)
    assert capfd.readouterr() == ("", "")


def test_a_closed_standard_output_does_not_fail_the_read(scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, "py", PRINT["py"] % "x", "out:2:float")
    code = "import os, sys, h5py; os.close(1); sys.exit(0 if h5py.File(sys.argv[1])['out'][0] == 1 else 3)"
    assert run_python(code, file, check=False).returncode == 0


MUCH = {
    "py": """
def dynamic_dataset():
    lib.getData("out")[0] = 1
    for n in range(50000):
        print("x" * 100)
""",
    "lua": """
function dynamic_dataset()
  lib.getData("out")[1] = 1
  for n = 1, 50000 do print(string.rep("x", 100)) end
end
""",
    "cpp": """
extern "C" void dynamic_dataset() {
  lib.getData<float>("out")[0] = 1;
  for (int n = 0; n < 50000; n++) puts(std::string(100, 'x').c_str());
}
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_much_output_is_cut_and_blocks_nobody(language: str, scene: Any, attach: Any) -> None:
    file = scene()
    attach(file, language, MUCH[language], "out:2:float")
    done = run_python(READER, file)
    assert 0 < len(done.stdout) < 300_000


def test_what_a_failing_function_printed_is_in_the_reason(scene: Any, attach: Any) -> None:
    file = scene()
    text = """
def dynamic_dataset():
    lib.getData("out")
    print("almost")
    raise ValueError("no luck")
"""
    attach(file, "py", text, "out:2:float")
    reason = failure(file, "out")
    assert "no luck" in reason
    assert "almost" in reason


def test_warnings_of_numpy_are_no_failure(scene: Any, attach: Any) -> None:
    file = scene(a=A)
    text = """
import numpy as np
def dynamic_dataset():
    a, out = np.asarray(lib.getData("a")), lib.getData("out")
    out[0:6] = a / 0
"""
    attach(file, "py", text)
    got = read(file, "out")
    assert np.isnan(got[0])
    assert np.isinf(got[1:]).all()
