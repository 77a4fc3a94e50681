"""HDF5-UDF's interface for C: its names, stored data, and error messages."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import native
import numpy as np
import pytest
from fresh import environment

ROOT = Path(__file__).resolve().parents[2]
TEXT, SIZE = ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)
CONTEXT = ctypes.c_void_p
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "init": (CONTEXT, [TEXT, TEXT]),
    "destroy": (None, [CONTEXT]),
    "set_option": (ctypes.c_bool, [TEXT, TEXT, CONTEXT]),
    "push_dataset": (ctypes.c_bool, [TEXT, CONTEXT]),
    "compile": (ctypes.c_bool, [CONTEXT]),
    "store": (ctypes.c_bool, [TEXT, SIZE, CONTEXT]),
    "get_metadata": (ctypes.c_bool, [TEXT, TEXT, SIZE, CONTEXT]),
    "get_error": (ctypes.c_size_t, [TEXT, ctypes.c_size_t, CONTEXT]),
}
LUA = """function dynamic_dataset()
    local out = lib.getData("out")
    for n = 1, lib.getDims("out")[1] do out[n] = n * n end
end
"""


@pytest.fixture(scope="module")
def library_path() -> Path:
    """Builds the library."""
    return native.c_library()


@pytest.fixture
def c(library_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library in this process, with h5py's libhdf5."""
    monkeypatch.setenv("HDF5_PLUGIN_PATH", environment()["HDF5_PLUGIN_PATH"])
    library = ctypes.CDLL(str(library_path))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, f"libudf_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def error_of(c: Any, context: int) -> str:
    text = ctypes.create_string_buffer(1000)
    assert c.libudf_get_error(text, len(text), context) == len(text.value)
    return text.value.decode()


def test_the_header_declares_what_the_library_has() -> None:
    header = (ROOT / "include" / "hdf5-udf.h").read_text()
    declared = re.findall(r"^[a-z].*?\blibudf_(\w+)\(", header, re.MULTILINE)
    assert sorted(declared) == sorted(SIGNATURES)


def test_a_program_in_c(scene: Any, source: Any, tmp_path: Path, library_path: Path) -> None:
    """The example program needs nothing of Hyperchunk but the path of its library."""
    if shutil.which(os.environ.get("CC", "cc")) is None or shutil.which("make") is None:
        pytest.skip("no C compiler")
    words = ["make", "-C", ROOT / "examples" / "c", f"OUT={tmp_path}", "PROFILE=debug", tmp_path / "store_udf"]
    built = subprocess.run(words, env=native.environment(), capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        line = [str(tmp_path / "store_udf"), *map(str, words)]
        env = environment(HYPERCHUNK_LIBHDF5=os.environ.get("HYPERCHUNK_LIBHDF5", ""))
        return subprocess.run(line, env=env, capture_output=True, text=True, check=False)

    file = scene()
    for language, text in (("lua", LUA), ("py", 'def dynamic_dataset():\n    lib.getData("out")[4] = 25\n')):
        done = run(file, source(language, text), "out:5:double")
        if "none could be loaded" in done.stderr:
            pytest.skip("no libhdf5 in the system's folders")
        assert done.returncode == 0, done.stderr
        [header] = json.loads(done.stdout)
        assert (header["output_dataset"], header["source_code"]) == ("out", text)
        with h5py.File(file) as opened:
            assert opened["out"][4] == 25
    done = run(file, source("lua", "function dynamic_dataset("), "out:5:double")
    assert done.returncode == 1
    assert done.stderr.startswith("libudf_compile: ")
    assert run(file, tmp_path / "none.lua").stderr.strip().endswith("there is no such source")


def test_headers_and_mistakes(c: Any, scene: Any, source: Any) -> None:
    file = scene()
    context = c.libudf_init(os.fsencode(file), os.fsencode(source("lua", LUA)))
    assert not c.libudf_compile(context)
    assert "out" in error_of(c, context)
    assert not c.libudf_push_dataset(b"out:five:double", context)
    assert c.libudf_push_dataset(b"out:5:double", context)
    assert c.libudf_compile(context)
    size = ctypes.c_size_t(20)
    short = ctypes.create_string_buffer(20)
    assert c.libudf_store(short, ctypes.byref(size), context)
    assert (len(short.value), size.value > 20) == (19, True)
    with h5py.File(file) as opened:
        np.testing.assert_array_equal(opened["out"][...], [1, 4, 9, 16, 25])
    # The dataset exists now.
    assert not c.libudf_store(None, None, context)
    assert "--overwrite" in error_of(c, context)
    assert c.libudf_set_option(b"overwrite", b"true", context)
    assert c.libudf_store(None, None, context)

    assert c.libudf_get_metadata(b"out", None, ctypes.byref(size), context)
    text = ctypes.create_string_buffer(size.value)
    small = ctypes.c_size_t(size.value - 1)
    assert not c.libudf_get_metadata(b"out", text, ctypes.byref(small), context)
    assert c.libudf_get_metadata(b"out", text, ctypes.byref(size), context)
    assert json.loads(text.value)["output_resolution"] == [5]
    assert not c.libudf_get_metadata(b"Red", None, ctypes.byref(size), context)
    assert "no live dataset" in error_of(c, context)
    c.libudf_destroy(context)


def test_a_key_is_made_on_demand(
    c: Any, scene: Any, source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A missing key is made, as in HDF5-UDF's library, and reported once."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    file = scene(a=np.arange(6.0))
    path = source("lua", 'function dynamic_dataset() lib.getData("out")[1] = lib.getData("a")[1] end')
    for _ in range(2):
        context = c.libudf_init(str(file).encode(), str(path).encode())
        assert c.libudf_compile(context), error_of(c, context)
        c.libudf_destroy(context)
    assert len(re.findall(r"made your signing key SHA256:\S+ \(", capfd.readouterr().err)) == 1
