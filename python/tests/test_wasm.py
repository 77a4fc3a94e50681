"""WebAssembly modules: the same values everywhere, in a separate address space and sandbox."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import read
from hyperchunk.exceptions import LimitError, UdfError, UdfSyntaxError, UnsupportedError
from modules import module, ndvi, section, unsigned

OUT = "out:4:uint8"


@pytest.fixture
def wasm(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Attaches a module: ``wasm(file, bytes, "out:4:uint8", inputs=["a"])``."""

    def run(file: Path, given: bytes, *outputs: str, **options: Any) -> list[dict[str, Any]]:
        path = tmp_path / "given.wasm"
        path.write_bytes(given)
        return hyperchunk.udf.attach(file, path, outputs, **options)

    return run


def failure(file: Path) -> str:
    """Returns the error of a read, the same from both readers."""
    with pytest.raises(OSError) as error:
        read(file, "out", 0)
    with hyperchunk.open(file) as opened, pytest.raises(Exception) as own:
        opened["out"][0]
    reason = str(error.value)
    told = re.search(r"profile \w+\): (.*?)( \[it printed| \(file |$)", str(own.value))
    assert told is not None, own.value
    assert told[1] in reason
    return reason


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("chunks", [None, "auto", "7x8", "1x40"])
def test_ndvi_in_both_readers(chunks: str | None, wide: bool, scene: Any, wasm: Any) -> None:
    file = scene()
    (record,) = wasm(file, ndvi(wide=wide), chunks=chunks)
    assert (record["backend"], record["compiled"]["target"]) == ("WebAssembly", "wasm32")
    assert (record["input_datasets"], record["source_code"]) == (["Red", "NIR"], "")
    with h5py.File(file) as opened:
        red, nir = opened["Red"][...], opened["NIR"][...]
    assert np.array_equal(read(file, "NDVI"), (nir - red) / (nir + red))
    with hyperchunk.open(file) as own:
        assert np.array_equal(own["NDVI"][...], (nir - red) / (nir + red))
        assert np.array_equal(own["NDVI"][3:9, 17], read(file, "NDVI")[3:9, 17])


def test_inputs_that_are_not_mapped(scene: Any, wasm: Any) -> None:
    """Big-endian, compressed and chunked inputs are passed in shared memory."""
    red, nir = np.random.default_rng(1).random((2, 30, 40), dtype="f4")
    file = scene(Red=red.astype(">f4"))
    with h5py.File(file, "r+") as opened:
        opened.create_dataset("NIR", data=nir, chunks=(10, 10), compression="gzip")
    wasm(file, ndvi(), chunks="auto")
    assert np.array_equal(read(file, "NDVI"), (nir - red) / (nir + red))


def test_a_large_array_in_one_piece(scene: Any, wasm: Any) -> None:
    """Large arrays are at distant addresses."""
    random = np.random.default_rng(2)
    red, nir = (random.random((3000, 1001), dtype="f4") for _ in "ab")
    file = scene(Red=red, NIR=nir)
    wasm(file, ndvi())
    assert np.array_equal(read(file, "NDVI"), (nir - red) / (nir + red))


def test_unsigned_ones_run_everywhere(scene: Any, wasm: Any, command: Any) -> None:
    file = scene()
    wasm(file, ndvi(), unsigned=True)
    assert np.isfinite(read(file, "NDVI")).all()
    assert "untrusted: runs here" in command("udf", "verify", file).stdout
    assert "WebAssembly module" in command("udf", "explain", f"{file}:/NDVI").stdout
    shown = command("udf", "show", f"{file}:/NDVI").stdout
    assert "language  wasm" in shown
    assert json.loads(command("udf", "ls", file, "--json").stdout)[0]["backend"] == "wasm"
    assert re.search(r"untrusted +wasm +runs", command("doctor").stdout)


def test_rebuild_signs_the_same_module(scene: Any, wasm: Any, command: Any) -> None:
    file = scene()
    wasm(file, ndvi(), unsigned=True)
    before = read(file, "NDVI")
    done = command("udf", "rebuild", f"{file}:/NDVI", "--take-over")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(read(file, "NDVI"), before)
    assert "profile self" in command("udf", "verify", file).stdout


def test_the_library(scene: Any, wasm: Any) -> None:
    """Type, path and shape, through the functions that a module imports."""
    body = """
    i32.const 0 i32.const 3 call find local.tee 0 call data local.set 1
    local.get 1  i32.const 4 i32.const 1 call find call rank  i32.store8 0
    local.get 1  i32.const 4 i32.const 1 call find i32.const 2 call dim i32.wrap_i64  i32.store8 1
    local.get 1  i32.const 5 i32.const 4 call find  i32.store8 2
    local.get 1  i32.const 4 i32.const 1 call find  i32.const 64 i32.const 3  call type  i32.store8 3
    local.get 1  i32.const 64 i32.load 0  i32.store 4
    local.get 1  i32.const 64 i32.const 100 call file_path  i32.store8 8
    local.get 1  i32.const 64 i32.load8_u 0  i32.store8 9
    i32.const 10 i32.const 6 call print
    """
    given = module(body, locals="i32 i32", datasets="out\na", data={0: b"out\0anonehello\n"})
    file = scene(a=np.zeros((2, 3, 5)))
    wasm(file, given, "out:10:uint8")
    out = read(file, "out")
    assert list(out[:4]) == [3, 5, 255, len("double")]
    assert bytes(out[4:8]) == b"dou\0"
    assert (out[8], out[9]) == (len(str(file)) % 256, ord("/"))


def test_where_the_block_is(scene: Any, wasm: Any) -> None:
    """Each block gets its offset."""
    body = "i32.const 0 call data  i32.const 0 i32.const 1 call start i32.wrap_i64  i32.store8 0"
    file = scene()
    wasm(file, module(body), "out:4x12:uint8", chunks="4x3")
    assert list(read(file, "out")[0]) == [0, 0, 0, 3, 0, 0, 6, 0, 0, 9, 0, 0]


def test_inputs_by_option(scene: Any, wasm: Any, command: Any, tmp_path: Path) -> None:
    """Inputs given by option, for a module that does not declare them."""
    body = "i32.const 0 call data  i32.const 1 call data i32.load8_u 2  i32.store8 0"
    file = scene(a=np.array([1, 2, 42], "u1"))
    wasm(file, module(body), OUT, inputs=["a"])
    assert read(file, "out")[0] == 42
    (tmp_path / "x.wasm").write_bytes(module(body))
    done = command("udf", "attach", file, tmp_path / "x.wasm", "other:1:uint8", "--input", "a")
    assert done.returncode == 0, done.stderr
    assert read(file, "other")[0] == 42
    (tmp_path / "x.lua").write_text("function dynamic_dataset() lib.getData('o')[1] = 1 end")
    with pytest.raises(UdfSyntaxError, match="only for WebAssembly modules"):
        hyperchunk.udf.attach(file, tmp_path / "x.lua", "o:1:uint8", inputs=["a"])


def test_memory_that_grows_lies_behind_the_data(scene: Any, wasm: Any) -> None:
    """A newly allocated page is zero, and no input."""
    body = """
    i32.const 0 call data
    i32.const 1 memory.grow i32.const 65536 i32.mul local.tee 0 i32.load 0 i32.eqz
    local.get 0 i32.const 1234567 i32.store 65532
    i32.store8 0
    """
    file = scene(a=np.full(4, 7, "u1"))
    wasm(file, module(body, locals="i32"), OUT, inputs=["a"])
    assert read(file, "out")[0] == 1


def test_a_failure_in_words(scene: Any, wasm: Any) -> None:
    file = scene(a=np.zeros(4))
    wasm(file, module("i32.const 0 i32.const 14 call fail", data={0: b"no light today"}), OUT)
    assert "no light today" in failure(file)


LOOP = "loop br 0 end"
GROW = "block loop i32.const 256 memory.grow i32.const -1 i32.eq br_if 1 br 0 end end"
# name -> the module and the expected error; None: it runs and gains nothing.
BOMBS: dict[str, tuple[bytes, str | None]] = {
    "out_of_bounds": (module("i32.const -4 i32.load 0 drop"), "memory that is not its own"),
    "far_out_of_bounds": (module("i32.const -4 i32.load 0xfffffff0 drop"), "memory that is not its own"),
    "fill_out_of_bounds": (module("i32.const -4 i32.const 1 i32.const 64 memory.fill"), "not its own"),
    "write_into_an_input": (module("i32.const 1 call data i32.const 1 i32.store 0"), "wrote into an input"),
    "print_from_outside": (module("i32.const -4 i32.const 64 call print"), "outside its memory"),
    "type_into_an_input": (
        module("i32.const 1 i32.const 1 call data i32.const 4 call type drop"),
        "cannot be written",
    ),
    "no_such_dataset": (module("i32.const 99 call data drop"), "no dataset number 99"),
    "no_such_dimension": (module("i32.const 0 i32.const 9 call dim drop"), "1 dimensions"),
    "recursion": (module("call dynamic_dataset"), "nested too deeply"),
    "endless": (module(LOOP), "limit of 2 s"),
    "unreachable": (module("unreachable"), "gave up"),
    "division": (module("i32.const 1 i32.const 0 i32.div_u drop"), "divide by zero"),
    "memory_bomb": (module(GROW), None),
    "memory_bomb_filled": (
        module(f"{GROW} i32.const 0 i32.const 1 memory.size i32.const 65536 i32.mul memory.fill"),
        "which can only be read",
    ),
    "table_bomb": (
        module("block loop ref.null i32.const 65536 table.grow 0 i32.const -1 i32.eq br_if 1 br 0 end end", table=1),
        None,
    ),
    "print_bomb": (module("loop i32.const 0 i32.const 65536 call print br 0 end"), "limit of 2 s"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_a_module_does_wrong(name: str, scene: Any, wasm: Any, profile: Any) -> None:
    profile("untrusted", '[limits]\nwall_s = 2\ncpu_s = 2\nmemory = "128MiB"')
    given, cause = BOMBS[name]
    file = scene(a=np.zeros(4))
    wasm(file, given, OUT, inputs=["a"], unsigned=True)
    if cause is None:
        assert not read(file, "out").any()
    else:
        assert cause in failure(file)


NOTHING = "i32.const 1 drop "
# name -> the bytes and the error of attaching them.
BAD: dict[str, tuple[bytes, type[Exception], str]] = {
    "empty": (b"", UdfSyntaxError, "0 bytes"),
    "text": (b"(module)", UdfSyntaxError, "wat2wasm"),
    "machine_code": (b"\x7fELF" + bytes(100), UdfSyntaxError, r"\.cwasm"),
    "component": (b"\0asm\x0d\0\x01\0", UnsupportedError, "component"),
    "cut": (ndvi()[:-9], UdfSyntaxError, "damaged"),
    "junk_code": (
        b"\0asm\x01\0\0\0" + section(10, b"\x01\x04\x00\xff\xff\x0b"),
        UdfError,
        "does not compile",
    ),
    "unknown_import": (module("call system", imports={("env", "system"): ("", "")}), UdfError, "env.system"),
    "wrong_import": (module("", imports={("hyperchunk", "exec"): ("", "")}), UdfError, "hyperchunk.exec"),
    "no_memory": (module("", exports=["dynamic_dataset"]), UdfError, "memory"),
    "no_entry": (module("", exports=["memory"]), UdfError, "dynamic_dataset"),
    "start_function": (module("", start="unreachable"), UdfError, "gave up"),
    "large_function": (module(NOTHING * 200_000), LimitError, "function 0"),
    "many_functions": (
        b"\0asm\x01\0\0\0" + section(10, unsigned(30_000) + b"\x02\x00\x0b" * 30_000),
        LimitError,
        "30000 functions",
    ),
    "large_memory": (module("", pages=2000), LimitError, "125 MiB"),
    "huge_table": (module("", table=100_000_000), UdfError, "table"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_when_attached(name: str, scene: Any, wasm: Any) -> None:
    given, kind, words = BAD[name]
    file = scene(a=np.zeros(4))
    with pytest.raises(kind, match=words) as error:
        wasm(file, given, OUT)
    assert "given.wasm" in str(error.value)
    with h5py.File(file) as opened:
        assert "out" not in opened


def test_an_endless_start_function_ends(scene: Any, wasm: Any, profile: Any) -> None:
    profile("self", "[limits]\nwall_s = 2\ncpu_s = 2")
    with pytest.raises(LimitError, match="2 s"):
        wasm(scene(), module("", start=LOOP), "out:4:uint8")


def test_more_than_the_address_space(scene: Any, wasm: Any) -> None:
    file = scene()
    wasm(file, module("", datasets="out\nb"), "out:3000000000:uint8", "b:2000000000:uint8")
    assert "--chunks auto" in failure(file)


def test_grants_do_not_reach_modules(scene: Any, wasm: Any, profile: Any, data: Path, command: Any) -> None:
    profile("self", f'[grant]\nread = ["{data}"]')
    file = scene()
    wasm(file, ndvi())
    assert np.isfinite(read(file, "NDVI")).all()
    assert "no calls to use these grants" in command("udf", "explain", f"{file}:/NDVI").stdout
