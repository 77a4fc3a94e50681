"""Values that are written as other types: what is stored, or the class of the error, is h5py's."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk.h5py
import numpy as np
import pytest

STRING, SEQUENCE = h5py.string_dtype(), h5py.vlen_dtype("i4")


def objects(*values: Any) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


#: Values and the dtype of the elements.
CASES: list[tuple[Any, Any]] = [
    *[(value, STRING) for value in (None, 0, 0.0, False, [None, "a"], [0, "a"], np.zeros(2), np.empty(2, object))],
    *[(value, STRING) for value in ("a", b"b", ["a", "b"], np.array(["a", "é"], object), np.array([b"a", b"b"]))],
    *[(value, "u2") for value in (np.int64(-1), -1, np.array(-1), [-1], np.array([-1]), [np.int64(-1)])],
    *[(value, "i1") for value in (np.int64(300), 300, np.array([300, -300]), np.int8(5), np.bool_(True))],
    *[
        (value, "u1")
        for value in (np.float64(3.7), np.array([300.5, -300.0]), 3.7, "5", b"7", np.str_("6"), np.bytes_(b"8"))
    ],
    *[
        (value, "f4")
        for value in (np.float64(1.5), np.int64(2), ["1", "2"], "1e3", np.longdouble(1.5), np.float64(1e300))
    ],
    *[(value, "?") for value in (np.int64(3), np.float64(0.5), 2, np.array([0, 3]))],
    *[(value, "c8") for value in (np.float64(4), np.float32(4), np.complex128(1 + 2j), 3.5, 1j)],
    *[(value, "S3") for value in ("abc", b"ab", np.int64(12), ["a", "bcd"])],
]


def stored(values: Any) -> Any:
    """Returns values as bytes, which tell 0.0 from -0.0, or as objects."""
    array = np.asarray(values)
    return array.tolist() if array.dtype.kind == "O" else (array.dtype.str, array.shape, array.tobytes())


def ways(library: ModuleType, file: Any, value: Any, dtype: Any) -> dict[str, Callable[[], Any]]:
    shape = np.shape(value)

    def put() -> Any:
        dataset = file.create_dataset("put", shape, dtype)
        dataset[...] = value
        return dataset[()]

    def new() -> Any:
        return file.create_dataset("new", data=value, dtype=dtype)[()]

    def attribute() -> Any:
        file.attrs.create("a", value, dtype=dtype)
        return file.attrs["a"]

    def modified() -> Any:
        file.attrs.create("m", np.full(shape, "x", object) if dtype is STRING else np.zeros(shape), dtype=dtype)
        file.attrs.modify("m", value)
        return file.attrs["m"]

    return {"put": put, "new": new, "attribute": attribute, "modified": modified}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("how", ["put", "new", "attribute", "modified"])
@pytest.mark.parametrize(("value", "dtype"), CASES, ids=[f"{number}" for number in range(len(CASES))])
def test_values_are_those_of_h5py(tmp_path: Path, how: str, value: Any, dtype: Any) -> None:
    if how == "modified" and dtype == "S3":
        pytest.skip("numbers do not become text")
    results: list[Any] = []
    for name, library in (("stock", h5py), ("own", hyperchunk.h5py)):
        with library.File(tmp_path / f"{name}.h5", "w") as file:
            try:
                results.append(stored(ways(library, file, value, dtype)[how]()))
            except Exception as error:
                results.append(error)
    stock, own = results
    if isinstance(stock, Exception):
        assert isinstance(own, type(stock)), f"expected {stock!r}, got {own!r}"
    elif isinstance(own, Exception):
        raise own
    else:
        assert own == stock


def test_what_h5py_takes_in_parts_is_an_error(tmp_path: Path) -> None:
    with hyperchunk.h5py.File(tmp_path / "a.h5", "w") as file:
        numbers = file.create_dataset("x", (1,), "f8")
        for wrong in (np.complex64(1 + 2j), np.datetime64("2020")):
            with pytest.raises(TypeError):
                numbers[0] = wrong
            with pytest.raises(TypeError):
                file.create_dataset("y", data=wrong, dtype="f8")
        references = file.create_dataset("r", (2,), hyperchunk.h5py.ref_dtype)
        with pytest.raises(TypeError, match="expected a reference"):
            references[...] = 0
        references[0] = None


def test_sequences_of_strings_are_rows(tmp_path: Path) -> None:
    for library in (h5py, hyperchunk.h5py):
        with library.File(tmp_path / "a.h5", "w") as file:
            rows = file.create_dataset("v", (2,), library.vlen_dtype(library.string_dtype()))
            rows[0], rows[1] = np.array(["a", "b"], object), ["c"]
            assert [list(row) for row in rows[...]] == [[b"a", b"b"], [b"c"]]


HEAPS = [
    [("v", SEQUENCE), ("x", "i4")],
    [("x", "i1"), ("v", SEQUENCE), ("y", "i2"), ("s", STRING), ("z", "f8")],
    {"names": ["a", "b"], "formats": ["i4", STRING], "offsets": [40, 8], "itemsize": 64},
    [("n", [("v", SEQUENCE), ("x", "i4")]), ("q", "i2")],
    [("r", h5py.regionref_dtype), ("x", "i4")],
    [("v", SEQUENCE, (3,)), ("x", "i4")],
]


@pytest.mark.parametrize("described", HEAPS, ids=range(len(HEAPS)))
def test_compounds_keep_their_size_in_copies(tmp_path: Path, described: Any) -> None:
    layouts = []
    for name, library in (("stock", h5py), ("own", hyperchunk.h5py)):
        path = tmp_path / f"{name}.h5"
        with library.File(path, "w") as file:
            dtype = np.dtype(described)
            for round_ in range(3):
                dtype = file.create_dataset(f"{round_}", (1,), dtype).dtype
        with h5py.File(path) as file:
            types = [file[one].id.get_type() for one in file]
            layouts.append([(one.get_size(), *map(one.get_member_offset, range(one.get_nmembers()))) for one in types])
    assert layouts[0] == layouts[1]


SHAPES = [[[1], [2]], [1, 2], 5, [5], [[5]], [[1, 2], [3, 4]]]


@pytest.mark.parametrize("old", SHAPES, ids=str)
@pytest.mark.parametrize("new", [*SHAPES, [[5, 6]], [1, 2, 3, 4], 7, [7], [[7]]], ids=str)
def test_changed_attributes_keep_their_shape(tmp_path: Path, old: Any, new: Any) -> None:
    results = []
    for name, library in (("stock", h5py), ("own", hyperchunk.h5py)):
        with library.File(tmp_path / f"{name}.h5", "w") as file:
            file.attrs["a"] = old
            try:
                file.attrs.modify("a", new)
                results.append(np.asarray(file.attrs["a"]).tolist())
            except TypeError:
                results.append("TypeError")
    assert results[0] == results[1]
