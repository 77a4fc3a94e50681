"""Each readable type is also written: as a dataset in each layout and as an attribute; h5py reads the same type and
values. The same tests run with h5py instead of hyperchunk.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

RNG = np.random.default_rng(5)


def _objects(items: list[Any], dtype: np.dtype) -> np.ndarray:
    array = np.empty(len(items), dtype)
    for index, item in enumerate(items):
        array[index] = item
    return array


def _nested(library: ModuleType) -> np.dtype:
    inner = np.dtype([("re", ">f8"), ("name", "S5"), ("grid", "i2", (2, 3))])
    return np.dtype([("id", "<u4"), ("inner", inner), ("flag", "?"), ("z", "<c8")])


NUMBERS = ["i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8", ">u8"]
FLOATS = ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "g"]
OTHERS = ["?", "<c8", ">c8", "<c16", ">c16", "S1", "S7", "V5"]


def _values(code: str) -> np.ndarray:
    dtype = np.dtype(code)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = RNG.integers(info.min, info.max, (4, 5), dtype=dtype.newbyteorder("="), endpoint=True)
        values[0, 0], values[0, 1] = info.min, info.max
        return values.astype(dtype)
    if dtype.kind in "fc":
        values = RNG.normal(size=(4, 5)).astype(dtype)
        values[1, 1] = np.nan
        values[2, 2] = -np.inf
        return values
    if dtype.kind == "b":
        return RNG.integers(0, 2, (4, 5)).astype(bool)
    return np.frombuffer(RNG.integers(1, 128, 20 * dtype.itemsize, dtype="u1").tobytes(), dtype).reshape(4, 5)


def _special(library: ModuleType) -> dict[str, np.ndarray]:
    """Returns arrays that need more than NumPy's dtypes."""
    nested = np.zeros((4, 5), _nested(library))
    nested["id"] = np.arange(20).reshape(4, 5)
    nested["inner"]["re"] = RNG.normal(size=(4, 5))
    nested["inner"]["name"] = b"abc"
    nested["inner"]["grid"] = RNG.integers(-9, 9, (4, 5, 2, 3))
    nested["flag"][1] = True
    nested["z"] = 1 - 2j
    text = library.string_dtype()
    mixed = np.zeros(3, np.dtype([("n", "i4"), ("s", text), ("v", library.vlen_dtype(np.dtype("f4"))), ("e", "f8")]))
    for row, (word, length) in enumerate([("one", 1), ("", 0), ("drei ß", 3)]):
        mixed[row] = (row, word.encode(), np.arange(length, dtype="f4"), row / 2)
    padded = np.zeros(3, np.dtype({"names": ["a", "b"], "formats": ["i2", "f8"], "offsets": [4, 16], "itemsize": 32}))
    padded["a"], padded["b"] = [1, 2, 3], [0.5, 1.5, 2.5]
    return {
        "nested": nested,
        "padded": padded,
        "mixed": mixed,
        "enum": RNG.integers(0, 3, (4, 5)).astype(library.enum_dtype({"R": 0, "G": 1, "B": 2}, "i2")),
        "utf8": _objects(["a", "", "größer", "x" * 3000], text),
        "ascii": _objects([b"a", b"", b"xyz"], library.string_dtype("ascii")),
        "fixed": np.array([b"ab", b"", b"abcde"], library.string_dtype("utf-8", 5)),
        "vlen": _objects([np.arange(n, dtype="<i2") for n in (3, 0, 7)], library.vlen_dtype(np.dtype("<i2"))),
        "time": np.arange(5).astype(library.opaque_dtype("<M8[s]")),
        "strings": _objects(
            [_objects(["a", "bc"], text), _objects([], text), _objects(["d"], text)], library.vlen_dtype(text)
        ),
    }


SPECIAL = sorted(_special(hyperchunk))


def equal(one: Any, two: Any) -> bool:
    """True if values are equal, including NaN and sequences."""
    if isinstance(one, np.ndarray) and one.dtype.names is not None:
        return one.shape == two.shape and all(equal(one[name], two[name]) for name in one.dtype.names)
    if isinstance(one, np.ndarray) and one.dtype.kind == "O":
        return one.shape == two.shape and all(equal(a, b) for a, b in zip(one.flat, two.flat, strict=True))
    if isinstance(one, str | bytes) or isinstance(two, str | bytes):
        return _bytes(one) == _bytes(two)
    if isinstance(one, np.ndarray) and one.dtype.kind == "M":
        return bool((one == two).all())
    if isinstance(one, np.ndarray) and one.dtype.kind in "SV":
        return one.shape == np.shape(two) and one.tobytes() == np.ascontiguousarray(two).tobytes()
    return np.array_equal(one, two, equal_nan=np.asarray(one).dtype.kind in "fc")


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": True},
    "deflate": {"chunks": True, "compression": 3, "shuffle": True},
    "growing": {"maxshape": True},
}


def _options(layout: str, array: np.ndarray) -> dict[str, Any]:
    options = dict(LAYOUTS[layout])
    if options.pop("maxshape", False):
        options["maxshape"] = (None,) * array.ndim
    return options


def _check(library: ModuleType, path: Path, array: np.ndarray, layout: str) -> None:
    with library.File(path, "w") as file:
        written = file.create_dataset("d", data=array, **_options(layout, array))
        assert equal(array, written[...])
        file.attrs["a"] = array
        empty = file.create_dataset("e", array.shape, array.dtype, **_options(layout, array))
        empty[1:] = array[1:]
    with h5py.File(path) as file:
        for value in (file["d"], file.attrs["a"]):
            found = value[...]
            if not array.dtype.hasobject:
                assert found.dtype == array.dtype
            assert equal(array, found)
        assert equal(array[1:], file["e"][1:])
        assert h5py.check_dtype(vlen=file["d"].dtype) == h5py.check_dtype(vlen=array.dtype)
        assert h5py.check_dtype(enum=file["d"].dtype) == h5py.check_dtype(enum=array.dtype)
    with hyperchunk.File(path) as file:
        assert equal(array, file["d"][...])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("code", NUMBERS + FLOATS + OTHERS)
def test_numbers_and_strings(library: ModuleType, tmp_path: Path, code: str, layout: str) -> None:
    _check(library, tmp_path / "a.h5", _values(code), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_types(library: ModuleType, tmp_path: Path, name: str, layout: str) -> None:
    if library is h5py and name == "strings":
        pytest.skip("h5py has no sequences of strings as values")
    _check(library, tmp_path / "a.h5", _special(library)[name], layout)


@pytest.mark.parametrize("name", SPECIAL)
def test_the_stored_type_is_the_one_h5py_stores(tmp_path: Path, name: str) -> None:
    for library in (hyperchunk, h5py):
        with library.File(tmp_path / f"{library.__name__}.h5", "w") as file:
            array = _special(library)[name]
            file.create_dataset("d", data=array)
            file.attrs["a"] = array
    with h5py.File(tmp_path / "hyperchunk.h5") as ours, h5py.File(tmp_path / "h5py.h5") as theirs:
        assert ours["d"].id.get_type() == theirs["d"].id.get_type()
        types = [file.attrs.get_id("a").get_type() for file in (ours, theirs)]
        assert types[0] == types[1]


@pytest.mark.parametrize("memory", ["<i2", ">i4", "<f4", ">f8", "u1"])
@pytest.mark.parametrize("stored", ["<i4", ">i8", "<f8", ">f4"])
def test_values_are_converted(library: ModuleType, tmp_path: Path, memory: str, stored: str) -> None:
    values = np.arange(60).reshape(6, 10).astype(memory)
    with library.File(tmp_path / "a.h5", "w") as file:
        for name, options in {"contiguous": {}, "chunked": {"chunks": (4, 4), "compression": 1}}.items():
            file.create_dataset(name, (6, 10), stored, **options)[...] = values
            file.create_dataset(name + "2", data=values, dtype=stored, **options)
    with h5py.File(tmp_path / "a.h5") as file:
        for dataset in file.values():
            assert dataset.dtype == stored
            assert np.array_equal(dataset[...], values.astype(stored))


def test_values_out_of_range_are_clamped(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("d", (3,), "i1")[:] = np.array([300, -300, 5])
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["d"][:].tolist() == [127, -128, 5]


@pytest.mark.parametrize(
    "value",
    [3, 2.5, True, 1 + 2j, "text", b"bytes", ["a", "ß"], [1, 2], [[1.5, 2]], np.float32(2), np.bytes_(b"x"), (1, 2, 3)],
    ids=repr,
)
def test_python_values(library: ModuleType, tmp_path: Path, value: Any) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        file["d"] = value
        file.attrs["a"] = value
    with h5py.File(tmp_path / "a.h5") as file, h5py.File(tmp_path / "control.h5", "w") as control:
        control["d"] = value
        control.attrs["a"] = value
        assert file["d"].id.get_type() == control["d"].id.get_type()
        assert file["d"].shape == control["d"].shape
        assert equal(np.asarray(file["d"][()]), np.asarray(control["d"][()]))
        assert file.attrs.get_id("a").get_type() == control.attrs.get_id("a").get_type()
        assert equal(np.asarray(file.attrs["a"]), np.asarray(control.attrs["a"]))


SCALARS = [np.bool_(True), np.bool_(False), np.int64(12), np.uint8(7), np.float32(3.5), np.bytes_(b"q"), np.str_("q")]


@pytest.mark.parametrize("value", SCALARS, ids=repr)
@pytest.mark.parametrize("length", [1, 3, 8])
def test_scalars_of_numpy_become_fixed_length_strings(tmp_path: Path, length: int, value: np.generic) -> None:
    """They are written as NumPy converts them; arrays of numbers are not."""
    found = []
    for library in (h5py, hyperchunk):
        with library.File(tmp_path / "a.h5", "w") as file:
            made = file.create_dataset("made", data=value, dtype=f"S{length}")
            file.create_dataset("all", (3,), f"S{length}")[...] = value
            one = file.create_dataset("one", (3,), f"S{length}")
            one[1] = value
            one[2:] = [value]
            file.attrs.create("made", value, dtype=f"S{length}")
            file.attrs.create("modified", b"", dtype=f"S{length}")
            file.attrs.modify("modified", value)
            if value.dtype.kind not in "SU":
                with pytest.raises(OSError, match="conver"):
                    one[:] = np.full(3, value)
            stored = [made[()], file["all"][:].tolist(), one[:].tolist(), *file.attrs.values()]
            found.append((made.dtype, stored))
    assert found[0] == found[1]


def test_empty(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        file["d"] = library.Empty("f4")
        file.create_dataset("e", data=library.Empty(library.string_dtype()))
        file.attrs["a"] = library.Empty("i2")
        assert file["d"].shape is None
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["d"][()] == h5py.Empty("f4")
        assert file.attrs["a"] == h5py.Empty("i2")


def test_references(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("g/h")
        target = file.create_dataset("g/t", data=np.arange(5))
        references = file.create_dataset("r", (4,), library.ref_dtype)
        references[0], references[1] = target.ref, group.ref
        references[2] = file.ref
        file.attrs["one"] = target.ref
        file.attrs["many"] = np.array([target.ref, group.ref], library.ref_dtype)
        target.attrs["late"] = 5
        assert file[references[0]] == target
        assert file[file.attrs["one"]].name == "/g/t"
    with h5py.File(tmp_path / "a.h5") as file:
        assert [file[reference].name for reference in file["r"][:3]] == ["/g/t", "/g/h", "/"]
        assert not file["r"][3]
        assert file[file.attrs["one"]].attrs["late"] == 5
        assert [file[reference].name for reference in file.attrs["many"]] == ["/g/t", "/g/h"]


def test_committed_types(library: ModuleType, tmp_path: Path) -> None:
    dtype = np.dtype([("a", "<i4"), ("b", ">f8")])
    with library.File(tmp_path / "a.h5", "w") as file:
        file["types/pair"] = dtype
        committed = file["types/pair"]
        dataset = file.create_dataset("d", (3,), dtype=committed)
        dataset[1] = (5, 2.5)
        file.attrs.create("a", np.array((1, 2.0), dtype), dtype=committed)
        committed.attrs["unit"] = "m"
        assert committed.dtype == dtype
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["d"].id.get_type().committed()
        assert file["d"].id.get_type() == file["types/pair"].id
        assert file["d"][1].tolist() == (5, 2.5)
        assert file.attrs.get_id("a").get_type().committed()
        assert file["types/pair"].attrs["unit"] == "m"


def test_what_has_no_type_is_an_error(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(TypeError):
            file.create_dataset("d", (2,), "O")
        with pytest.raises(TypeError):
            file.create_dataset("d", (2,), "M8[s]")
        assert "d" not in file


@pytest.mark.parametrize("how", ["create", "assign", "attribute", "modify"])
def test_times_are_never_stored_in_the_wrong_unit(how: str, tmp_path: Path) -> None:
    days = np.array(["2020-01-01", "2021-01-01"], "M8[D]")
    hours = np.array([3, 4], "m8[h]")
    seconds = {"M": hyperchunk.opaque_dtype("M8[s]"), "m": hyperchunk.opaque_dtype("m8[s]")}

    def write(file: hyperchunk.File, values: np.ndarray, dtype: np.dtype) -> np.ndarray:
        name = f"number {len(file) + len(file.attrs)}"
        if how == "create":
            return file.create_dataset(name, data=values, dtype=dtype)[:]
        if how == "assign":
            dataset = file.create_dataset(name, (2,), dtype)
            dataset[:] = values
            return dataset[:]
        file.attrs.create(name, values if how == "attribute" else np.zeros(2, dtype), dtype=dtype)
        if how == "modify":
            file.attrs.modify(name, values)
        return file.attrs[name]

    with hyperchunk.File(tmp_path / "a.h5", "w") as file:
        for values in (days, days.astype("M8[ns]"), days.astype(hyperchunk.opaque_dtype("M8[D]"))):
            np.testing.assert_array_equal(write(file, values, seconds["M"]), days)
        np.testing.assert_array_equal(write(file, hours, seconds["m"]), hours)
        for values, kind in ((days, "m"), (hours, "M"), (np.array([b"abcdefgh", b"12345678"]), "M")):
            with pytest.raises(hyperchunk.exceptions.ConversionError, match="astype"):
                write(file, values, seconds[kind])
        # As h5py: NumPy converts numbers for new attributes, and HDF5 has no conversion for the others.
        for values in (np.array([1.0, 2.0]), np.array([1, 2]), np.array([1, 2], "i4")):
            if how == "attribute":
                np.testing.assert_array_equal(write(file, values, seconds["M"]).astype("i8"), [1, 2])
            else:
                with pytest.raises((TypeError, OSError)):
                    write(file, values, seconds["M"])
