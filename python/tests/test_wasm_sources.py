"""C and C++ sources that Zig compiles to WebAssembly at the attach."""

import re
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from compatibility.inputs import HAS_ZIG
from fresh import failure, read
from hyperchunk.exceptions import UdfError, UdfSyntaxError
from programs import ndvi

pytestmark = pytest.mark.skipif(not HAS_ZIG, reason="Zig is missing: pip install ziglang")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "udf"


def attach(folder: Path, file: Path, text: str, *outputs: str, name: str = "case.cpp", **options: Any) -> Any:
    source = folder / name
    source.write_text(text)
    backend = None if name.endswith(".c") else "wasm"
    return hyperchunk.udf.attach(file, source, outputs, backend=backend, **options)


@pytest.mark.parametrize("name", ["case.cpp", "case.c"])
@pytest.mark.parametrize("chunks", [None, "auto", "7x8"])
def test_ndvi(name: str, chunks: str | None, scene: Any, tmp_path: Path, command: Any) -> None:
    """Module and source are stored, the module runs unsigned, and both readers compute the same."""
    file = scene()
    text = ndvi("cpp") if name.endswith("cpp") else (EXAMPLES / "ndvi.c").read_text()
    (record,) = attach(tmp_path, file, text, name=name, chunks=chunks, unsigned=True)
    target = "wasm32/c++" if name.endswith("cpp") else "wasm32/c"
    assert (record["backend"], record["compiled"]["target"]) == ("WebAssembly", target)
    assert record["source_code"] == text
    with h5py.File(file) as opened:
        red, nir = opened["Red"][...], opened["NIR"][...]
    expected = (nir - red) / (nir + red)
    np.testing.assert_array_equal(read(file, "NDVI"), expected)
    with hyperchunk.open(file) as own:
        np.testing.assert_array_equal(own["NDVI"][...], expected)
    assert text.strip() in command("udf", "show", "--source", f"{file}:/NDVI").stdout


def test_rebuilt(scene: Any, tmp_path: Path, command: Any) -> None:
    file = scene()
    (before,) = attach(tmp_path, file, ndvi("cpp"))
    expected = read(file, "NDVI")
    command("udf", "rebuild", f"{file}:/NDVI")
    (after,) = hyperchunk.udf.ls(file)
    assert after.path == "/NDVI"
    np.testing.assert_array_equal(read(file, "NDVI"), expected)
    assert before["compiled"]["target"] == "wasm32/c++"


LIBRARY = """
#include <stdio.h>
void dynamic_dataset(void)
{
    int64_t *out = lib.getData("/out");
    const size_t *chunk = lib.getChunk(), *at = lib.getOffset(NULL);
    assert(lib.getRank("out") == 2 && lib.getDims("out")[1] == chunk[1]);
    assert(strcmp(lib.getType("out"), "int64") == 0 && strcmp(lib.getType("a"), "int16") == 0);
    assert(lib.getRank("a") == 2 && strlen(lib.getFilePath()) > 3);
    const int16_t *a = lib.getData("a");
    const size_t *there = lib.getOffset("a"), *wide = lib.getDims("a");
    for (size_t i = 0; i < chunk[0]; i++)
        for (size_t j = 0; j < chunk[1]; j++)
            out[i * chunk[1] + j] = 1000 * (at[0] + i) + at[1] + j
                + a[(i + at[0] - there[0]) * wide[1] + j + at[1] - there[1]] * INT64_C(1000000);
    printf("%s\\n", lib.getType("out"));
}
"""


def test_the_library_of_c(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.h5"
    values = np.arange(12 * 10, dtype="i2").reshape(12, 10)
    with h5py.File(file, "w") as opened:
        opened["a"] = values
    attach(tmp_path, file, LIBRARY, "out:12x10:int64", name="case.c", chunks="5x4", halo=1)
    rows, columns = np.ogrid[:12, :10]
    np.testing.assert_array_equal(read(file, "out"), 1000 * rows + columns + values.astype("i8") * 1_000_000)
    assert {line.rpartition(" ")[2] for line in capfd.readouterr().err.splitlines()} == {"int64"}


STRINGS = """
void dynamic_dataset(void)
{
    const a_t *a = lib.getData("a");
    out_t *out = lib.getData("out");
    for (size_t n = 0; n < lib.getDims("a")[0]; n++) {
        out[n].id = a[n].id;
        lib.setString(out[n].name, sizeof out[n].name, a[n].name);
    }
}
"""


def test_strings_of_variable_length_in_c(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    rows = [(1, "one", 0.5), (2, "", 1.5), (3, "much longer than twelve", 2.5)]
    with h5py.File(file, "w") as opened:
        dtype = np.dtype([("id", "i4"), ("name", h5py.string_dtype()), ("x", "f4")])
        opened["a"] = np.array(rows, dtype)
    attach(tmp_path, file, STRINGS, "out:{id:int32,name:string(12)}:3", name="case.c")
    assert read(file, "out").tolist() == [(n, text.encode()[:12]) for n, text, _ in rows]


def test_what_is_thrown_is_the_message(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    for thrown, message in [
        ('std::runtime_error("no such luck")', "no such luck"),
        ("42", "the function threw something that is not a std::exception"),
    ]:
        text = f'extern "C" void dynamic_dataset() {{ if (lib.getData<float>("b")[0] == 0) throw {thrown}; }}'
        attach(tmp_path, file, text, "b:1:float", overwrite=True)
        assert message in failure(file, "b")


def test_what_the_library_would_throw_is_the_message(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    body = 'std::vector<float> list(3); lib.getData<float>("b")[0] = list.at(lib.getDims("b")[0] + 5);'
    attach(tmp_path, file, f'extern "C" void dynamic_dataset() {{ {body} }}', "b:1:float")
    assert "out_of_range was thrown" in failure(file, "b")


@pytest.mark.parametrize("name", ["case.cpp", "case.c"])
def test_a_small_function_is_a_small_module(name: str, scene: Any, tmp_path: Path) -> None:
    """Each new worker compiles the module, at 1 ms per KiB. Unused code, above all `printf`, must not be in it."""
    text = ndvi("cpp") if name.endswith("cpp") else (EXAMPLES / "ndvi.c").read_text()
    (record,) = attach(tmp_path, scene(), text, name=name)
    assert record["bytecode_size"] < 6000


def test_a_dataset_that_is_not_there(tmp_path: Path) -> None:
    """A missing dataset, accessed in a way that the scanner does not detect."""
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    text = 'extern "C" void dynamic_dataset() { lib.getData<float>("b"); hyperchunk::find("c"); }'
    attach(tmp_path, file, text, "b:1:float")
    assert "lib: no dataset c was recorded when this function was attached" in failure(file, "b")
    text = 'void dynamic_dataset(void) { lib.getData("b"); hyperchunk_find("c"); }'
    attach(tmp_path, file, text, "b:1:float", name="case.c", overwrite=True)
    assert "lib: no dataset c was recorded when this function was attached" in failure(file, "b")


def test_mistakes_are_told(tmp_path: Path, command: Any) -> None:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    with pytest.raises(UdfError, match=r"case\.cpp: it does not compile: .*udf\.cpp:1:\d+: error: .*nonsense"):
        attach(
            tmp_path, file, 'extern "C" void dynamic_dataset() { lib.getData<float>("b")[0] = nonsense; }', "b:1:float"
        )
    with pytest.raises(UdfError, match=r"case\.c: it does not compile: .*udf\.c:2:\d+: error"):
        attach(tmp_path, file, 'void dynamic_dataset(void) { lib.getData("b");\nreturn }', "b:1:float", name="case.c")
    with pytest.raises(UdfSyntaxError, match="a lua source does not run as wasm"):
        attach(tmp_path, file, "function dynamic_dataset() lib.getData('b') end", "b:1:float", name="case.lua")
    assert re.search(r"^zig +/.*zig$", command("doctor").stdout, re.MULTILINE)


def test_the_compiler_sees_no_file_of_the_user(tmp_path: Path) -> None:
    """As for machine code: included files must belong to the system, or to Zig."""
    file, secret = tmp_path / "a.h5", tmp_path / "secret.h"
    h5py.File(file, "w").close()
    secret.write_text("#error the secret was read\n")
    text = f'#include "{secret}"\nvoid dynamic_dataset(void) {{ lib.getData("b"); }}'
    with pytest.raises(UdfError) as error:
        attach(tmp_path, file, text, "b:1:float", name="case.c")
    assert "the secret was read" not in str(error.value)
    assert "secret.h" in str(error.value)
