"""Every element type, shape and kind of input, in every language."""

from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from cuda_programs import WITH_CUDA
from fresh import failure, read
from programs import LANGUAGES, TYPES, elementwise


def samples(kind: str) -> np.ndarray:
    """Returns the extremes of a type and some values in between."""
    dtype = np.dtype(TYPES[kind][0])
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        return np.array([0, -0.0, 1.5, limits.max, limits.min, limits.tiny, np.inf, -np.inf, np.nan], dtype)
    limits = np.iinfo(dtype)
    return np.array([0, 1, 2, limits.max, limits.max - 1, limits.min, limits.min + 1, 77, 100], dtype)


def copy_all(language: str) -> str:
    """Returns a program that copies ten inputs to ten outputs, one of each type."""
    if language == "py":
        body = "".join(
            f'    a, b = lib.getData("in_{t}"), lib.getData("out_{t}")\n    for i in range(9): b[i] = a[i]\n'
            for t in TYPES
        )
        return "def dynamic_dataset():\n" + body
    if language == "lua":
        body = "".join(
            f'  do local a, b = lib.getData("in_{t}"), lib.getData("out_{t}")\n  for i = 1, 9 do b[i] = a[i] end end\n'
            for t in TYPES
        )
        return "function dynamic_dataset()\n" + body + "end\n"
    body = "".join(
        f'  {{ auto a = lib.getData<{c}>("in_{t}"), b = lib.getData<{c}>("out_{t}");'
        " for (int i = 0; i < 9; i++) b[i] = a[i]; }\n"
        for t, (_, c) in TYPES.items()
    )
    return 'extern "C" void dynamic_dataset() {\n' + body + "}\n"


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_type_goes_through_unchanged(language: str, order: str, scene: Any, attach: Any) -> None:
    """Values pass in and out unchanged, from little- and big-endian inputs. HDF5-UDF does not read big-endian ones."""
    inputs = {f"in_{t}": samples(t).astype(samples(t).dtype.newbyteorder(order)) for t in TYPES}
    file = scene(**inputs)
    attach(file, language, copy_all(language), *(f"out_{t}:9:{t}" for t in TYPES))
    for kind in TYPES:
        got = read(file, f"out_{kind}")
        assert got.dtype == np.dtype(TYPES[kind][0])
        np.testing.assert_array_equal(got, samples(kind), err_msg=kind)


@pytest.mark.parametrize("kind", ["uint16", "uint8", "uint32", "uint64"])
def test_python_integers_do_not_wrap(kind: str, scene: Any, attach: Any) -> None:
    """Elements are Python integers: 3 - 5 is -2, not 65534."""
    dtype = TYPES[kind][0]
    file = scene(a=np.array([3, 5, 0], dtype), b=np.array([5, 3, 9], dtype))
    attach(file, "py", elementwise("py", "(a[i] - b[i]) / (a[i] + b[i])", inputs=["a", "b"]), "out:3:float")
    np.testing.assert_array_equal(read(file, "out"), np.array([-2 / 8, 2 / 8, -1], "f4"))


@pytest.mark.parametrize("language", WITH_CUDA)
def test_negative_differences_of_unsigned_inputs(language: str, scene: Any, attach: Any) -> None:
    """Each language's own arithmetic applies: Lua's numbers are double, C++ promotes to int."""
    file = scene(a=np.array([3, 65535, 0], "u2"), b=np.array([5, 0, 65535], "u2"))
    text = elementwise(language, "a[i] - b[i]", "out", ["a", "b"], "int32", ["uint16", "uint16"])
    attach(file, language, text, "out:3:int32")
    assert read(file, "out").tolist() == [-2, 65535, -65535]


SHAPES = [(1,), (7,), (1, 1), (5, 3), (1, 9), (3, 4, 5), (2, 3, 4, 5), (1, 1, 1, 1), (2, 1, 3, 1, 2)]


@pytest.mark.parametrize("language", WITH_CUDA)
def test_shapes(language: str, scene: Any, source: Any) -> None:
    """One to five dimensions, one element; whole and in blocks that do not divide the shape."""
    arrays = {f"a{n}": np.arange(np.prod(s), dtype="f4").reshape(s) for n, s in enumerate(SHAPES)}
    file = scene(**arrays)
    # One program for all shapes, so that C++ is compiled only once per chunk form.
    for n, shape in enumerate(SHAPES):
        if language == "cpp" and n % 3:
            continue
        program = source(language, elementwise(language, "2 * a[i] + 1", f"out{n}", [f"a{n}"]))
        for chunks in (None, "auto", [2] * len(shape)):
            hyperchunk.udf.attach(file, program, f"out{n}", chunks=chunks, overwrite=True)
            got = read(file, f"out{n}")
            np.testing.assert_array_equal(got, 2 * arrays[f"a{n}"] + 1, err_msg=f"{shape} {chunks}")


def test_a_scalar_input(scene: Any, attach: Any) -> None:
    """Rank 0: no dimensions, one element."""
    file = scene(factor=np.float64(2.5), a=np.arange(6, dtype="f4"))
    for language in LANGUAGES:
        first = {"py": "b[0]", "lua": "b[1]", "cpp": "b[0]"}[language]
        text = elementwise(language, f"a[i] * {first}", language, ["a", "factor"], input_types=["float", "double"])
        for chunks in (None, "4"):
            attach(file, language, text, f"{language}:6:float", chunks=chunks, overwrite=True)
            assert read(file, language).tolist() == [0, 2.5, 5, 7.5, 10, 12.5]


KINDS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (7, 11)},
    "gzip": {"chunks": (8, 8), "compression": "gzip", "shuffle": True},
    "big-endian": {"dtype": ">f4"},
    "double": {"dtype": "f8"},
    "resizable": {"maxshape": (None, None), "chunks": (5, 40)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_how_the_input_is_stored_does_not_matter(kind: str, tmp_path: Path, source: Any) -> None:
    file, values = tmp_path / "a.h5", np.random.default_rng(1).random((23, 40)).astype("f4")
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=values, **KINDS[kind])
    kinds = ["double" if kind == "double" else "float"]
    for language in LANGUAGES:
        name = f"out_{language}"
        program = source(language, elementwise(language, "a[i] + 1", name, ["a"], input_types=kinds))
        for chunks in (None, "auto", "5x7"):
            hyperchunk.udf.attach(file, program, f"{name}:23x40:float", chunks=chunks, overwrite=True)
            np.testing.assert_array_equal(read(file, name), values + np.float32(1), err_msg=f"{chunks}")


def test_a_compact_and_an_unwritten_input(tmp_path: Path, attach: Any) -> None:
    """Compact data are stored in the object header; an unwritten contiguous dataset has no storage."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(opened.id, b"compact", h5py.h5t.IEEE_F32LE, space, plist).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.arange(4, dtype="f4")
        )
        opened.create_dataset("empty", (4,), "f4", fillvalue=7)
    attach(file, "lua", elementwise("lua", "a[i] + b[i]", inputs=["compact", "empty"]))
    assert read(file, "out").tolist() == [7, 8, 9, 10]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (np.array([b"text"], "V4"), "opaque"),
        (np.array([1 + 2j], "c8"), "complex|double|a compound"),
    ],
)
def test_inputs_of_other_types_are_refused_when_attaching(data: np.ndarray, what: str, scene: Any, attach: Any) -> None:
    """In files of most versions of h5py, a complex number is a compound, whose parts can be read."""
    file = scene(a=data)
    with h5py.File(file) as opened:
        if opened["a"].id.get_type().get_class() == h5py.h5t.COMPOUND:
            return
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match=what):
        attach(file, "lua", elementwise("lua", "1", inputs=["a"]), "out:3:float")


@pytest.mark.parametrize("language", WITH_CUDA)
def test_small_floats_are_read_as_floats(language: str, scene: Any, attach: Any) -> None:
    """Every 16-bit number, including infinite, subnormal and NaN."""
    every = np.arange(65536, dtype="u2").view("f2")
    file = scene(a=every, b=every.astype(">f2"))
    attach(file, language, elementwise(language, "a[i]", "x", ["a"]), "x:65536:float")
    attach(file, language, elementwise(language, "a[i]", "y", ["b"]), "y:65536:float")
    for name in "xy":
        np.testing.assert_array_equal(read(file, name), every.astype("f4"))


@pytest.mark.parametrize("language", WITH_CUDA)
def test_enumerations_are_read_as_their_integers(language: str, scene: Any, attach: Any) -> None:
    file = scene(a=np.array([True, False, True]))
    with h5py.File(file, "r+") as opened:
        kind = h5py.enum_dtype({"RED": 1000, "GREEN": -5}, ">i2")
        opened.create_dataset("colour", data=np.array([1000, -5, 1000], ">i2"), dtype=kind)
    for name, kind, values in (("a", "int8", [1, 0, 1]), ("colour", "int16", [1000, -5, 1000])):
        text = elementwise(language, "a[i]", "out", [name], "int32", [kind])
        attach(file, language, text, "out:3:int32", overwrite=True)
        assert read(file, "out").tolist() == values


@pytest.mark.parametrize("language", LANGUAGES)
def test_arrays_of_numbers_are_flat(language: str, scene: Any, attach: Any) -> None:
    """Array elements give all their numbers, one after the other."""
    values = np.arange(24, dtype="i4").reshape(4, 2, 3)
    file = scene()
    with h5py.File(file, "r+") as opened:
        opened.create_dataset("a", (4,), np.dtype(("i4", (2, 3))))[...] = values
    body = {
        "py": "def dynamic_dataset():\n    a, out = lib.getData('a'), lib.getData('out')\n"
        "    for i in range(24): out[i] = a[i] * 2\n    assert lib.array('a').shape == (4, 6)\n",
        "lua": "function dynamic_dataset() local a, out = lib.getData('a'), lib.getData('out')\n"
        "for i = 1, 24 do out[i] = a[i] * 2 end end",
        "cpp": 'extern "C" void dynamic_dataset() {\n'
        'auto a = lib.getData<int32_t>("a"), out = lib.getData<int32_t>("out");\n'
        "for (int i = 0; i < 24; i++) out[i] = a[i] * 2; }",
    }[language]
    attach(file, language, body, "out:4:int32[2x3]")
    np.testing.assert_array_equal(read(file, "out"), values * 2)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("out:3:string(*)", "strings of variable length cannot be computed"),
        ("out:{id:int32,name:string(*)}:3", "strings of variable length cannot be computed"),
        ("out:3:string(0)", "a string of 0 bytes"),
        ("out:3:int8[20000000]", "more than 16777216 bytes"),
    ],
)
def test_outputs_of_other_types_are_refused(description: str, message: str, scene: Any, attach: Any) -> None:
    with pytest.raises(hyperchunk.exceptions.HyperchunkError, match=message):
        attach(scene(), "lua", elementwise("lua", "1"), description)


def test_an_input_that_was_reshaped_is_an_error(scene: Any, attach: Any) -> None:
    file = scene(a=np.arange(4, dtype="f4"))
    attach(file, "lua", elementwise("lua", "a[i]", inputs=["a"]))
    for data, what in [
        (np.arange(5, dtype="f4"), "float [5] now"),
        (np.arange(4, dtype="i4"), "int32 [4] now"),
    ]:
        with h5py.File(file, "r+") as opened:
            del opened["a"]
            opened["a"] = data
        reason = failure(file, "out")
        assert 'input "a"' in reason
        assert what in reason
    with h5py.File(file, "r+") as opened:
        del opened["a"]
    assert 'input "a"' in failure(file, "out")
    with h5py.File(file, "r+") as opened:
        opened["a"] = np.full(4, 9, "f4")
    assert read(file, "out").tolist() == [9, 9, 9, 9]
