"""Enumerations, booleans and members of records: what is stored is h5py's, and other members keep their bytes."""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk.h5py
import numpy as np
import pytest

LIBRARIES = (("stock", h5py), ("own", hyperchunk.h5py))

# --- Enumerations and booleans ---

BASES = ("i1", "u1", "<i2", ">i2", "<u4", ">i8")
VALUES: dict[str, Any] = {
    "without a name": np.array([0, 1, 3]),
    "too large": np.array([200, -300, 70000]),
    "unsigned": np.array([255, 128, 5], "u1"),
    "big-endian": np.array([256, 3, -2], ">i4"),
    "list": [0, 1, 3],
    "scalar": np.int64(3),
    "floats": np.array([0.5, 2, 0]),
}


def put(file: Any, dtype: Any, value: Any) -> Any:
    dataset = file.create_dataset("x", np.shape(value), dtype)
    dataset[...] = value
    return dataset


def put_direct(file: Any, dtype: Any, value: Any) -> Any:
    dataset = file.create_dataset("x", np.shape(value), dtype)
    dataset.write_direct(np.asarray(value))
    return dataset


def put_broadcast(file: Any, dtype: Any, value: Any) -> Any:
    dataset = file.create_dataset("x", (2, *np.shape(value)), dtype)
    dataset[...] = value
    return dataset


def put_by_list(file: Any, dtype: Any, value: Any) -> Any:
    dataset = file.create_dataset("x", (4,), dtype)
    dataset[[0, 2, 3]] = np.broadcast_to(np.asarray(value), 3)
    return dataset


def put_chunked(file: Any, dtype: Any, value: Any) -> Any:
    dataset = file.create_dataset("x", (3,), dtype, chunks=(2,), compression="gzip")
    dataset[...] = value
    return dataset


def new(file: Any, dtype: Any, value: Any) -> Any:
    return file.create_dataset("x", data=value, dtype=dtype)


def required(file: Any, dtype: Any, value: Any) -> Any:
    return file.require_dataset("x", np.shape(value), dtype, data=value)


def member(file: Any, dtype: Any, value: Any) -> Any:
    dataset = file.create_dataset("x", np.shape(value), np.dtype([("n", "i4"), ("e", dtype)]))
    dataset["e"] = value
    dataset["n"] = 7
    return dataset


def whole_record(file: Any, dtype: Any, value: Any) -> Any:
    array = np.asarray(value)
    records = np.zeros(array.shape, [("n", "i4"), ("e", array.dtype)])
    records["e"] = array
    dataset = file.create_dataset("x", array.shape, np.dtype([("n", "i4"), ("e", dtype)]))
    dataset[...] = records
    return dataset


def arrays(file: Any, dtype: Any, value: Any) -> Any:
    dataset = file.create_dataset("x", (2,), np.dtype((dtype, (3,))))
    dataset[...] = np.broadcast_to(np.asarray(value), (2, 3)).copy()
    return dataset


def fill(file: Any, dtype: Any, value: Any) -> Any:
    return file.create_dataset("x", (2,), dtype, fillvalue=np.asarray(value).flat[0])


WAYS: list[Callable[[Any, Any, Any], Any]] = [
    put,
    put_direct,
    put_broadcast,
    put_by_list,
    put_chunked,
    new,
    required,
    member,
    whole_record,
    arrays,
    fill,
]


def raw(path: Path, name: str = "x") -> bytes:
    """Returns the stored elements of a dataset, without conversion."""
    with h5py.File(path) as file:
        dataset = file[name].id
        stored = dataset.get_type()
        out = np.zeros((*dataset.shape, stored.get_size()), "u1").view(f"V{stored.get_size()}")[..., 0]
        dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, out, mtype=stored)
        return out.tobytes()


def outcomes(tmp_path: Path, action: Callable[[ModuleType, Any], Any]) -> list[Any]:
    """Returns the result, or the error, with each library."""
    found: list[Any] = []
    for name, library in LIBRARIES:
        with library.File(tmp_path / f"{name}.h5", "w") as file:
            try:
                found.append(action(library, file))
            except Exception as error:
                found.append(error)
    return found


def assert_same(found: list[Any]) -> None:
    stock, own = found
    if isinstance(stock, Exception):
        assert isinstance(own, type(stock)), f"expected {stock!r}, got {own!r}"
    elif isinstance(own, Exception):
        raise own
    else:
        assert own == stock


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", ["?", *BASES])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_integers_become_the_enums_of_h5py(tmp_path: Path, way: Any, kind: str, value: Any) -> None:
    def action(library: ModuleType, file: Any) -> Any:
        dtype = np.dtype("?") if kind == "?" else library.enum_dtype({"A": 1, "B": 3}, kind)
        return way(file, dtype, value)[...].tolist()

    found = outcomes(tmp_path, action)
    if way is fill and isinstance(found[0], ValueError):
        found[0] = OSError()  # where no conversion exists, each write has the same class of error
    assert_same(found)
    if not isinstance(found[0], Exception):
        assert raw(tmp_path / "own.h5") == raw(tmp_path / "stock.h5")


@pytest.mark.parametrize("kind", ["?", *BASES])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("how", ["create", "modify"])
def test_attributes_become_the_enums_of_h5py(tmp_path: Path, how: str, kind: str, value: Any) -> None:
    def action(library: ModuleType, file: Any) -> Any:
        dtype = np.dtype("?") if kind == "?" else library.enum_dtype({"A": 1, "B": 3}, kind)
        if how == "create":
            file.attrs.create("a", value, dtype=dtype)
        else:
            file.attrs.create("a", np.zeros(np.shape(value), "i1"), dtype=dtype)
            file.attrs.modify("a", value)
        return np.asarray(file.attrs["a"]).tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert_same(outcomes(tmp_path, action))


@pytest.mark.parametrize("kind", BASES)
def test_sequences_of_enums_keep_values_without_a_name(tmp_path: Path, kind: str) -> None:
    # h5py reads and writes such sequences in the wrong byte order: its values are no reference.
    dtype = h5py.enum_dtype({"A": 1, "B": 3}, kind)
    with hyperchunk.h5py.File(tmp_path / "a.h5", "w") as file:
        rows = file.create_dataset("v", (2,), hyperchunk.h5py.vlen_dtype(dtype))
        rows[0], rows[1] = [0, 1, 3], np.array([5, 0], "i8")
        assert [row.tolist() for row in rows[...]] == [[0, 1, 3], [5, 0]]


# --- Members that a write does not mention ---


def _float(size: int, precision: int, exponent: int, mantissa: int, order: int) -> Any:
    kind = h5py.h5t.IEEE_F32LE.copy() if size == 4 else h5py.h5t.IEEE_F16LE.copy()
    kind.set_fields(precision - 1, mantissa, exponent, 0, mantissa)
    kind.set_precision(precision)
    kind.set_ebias((1 << (exponent - 1)) - 1)
    kind.set_order(order)
    return kind


def _padded_integer() -> Any:
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(20)
    kind.set_offset(3)
    return kind


def _text(padding: int) -> Any:
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(6)
    kind.set_strpad(padding)
    return kind


def _opaque() -> Any:
    kind = h5py.h5t.create(h5py.h5t.OPAQUE, 6)
    kind.set_tag(b"a tag")
    return kind


def _type(dtype: Any) -> Any:
    return h5py.h5t.py_create(np.dtype(dtype), logical=True)


MEMBERS: dict[str, Callable[[], Any]] = {
    "enum": lambda: _type(h5py.enum_dtype({"A": 1}, "<i2")),
    "big-endian enum": lambda: _type(h5py.enum_dtype({"A": 1}, ">i2")),
    "boolean": lambda: _type("?"),
    "array of enums": lambda: _type((h5py.enum_dtype({"A": 1}, ">i4"), (2,))),
    "half": lambda: _type(">f2"),
    "bfloat16": lambda: _float(2, 16, 8, 7, h5py.h5t.ORDER_LE),
    "odd float": lambda: _float(4, 28, 9, 18, h5py.h5t.ORDER_BE),
    "long double": lambda: _type(np.longdouble),
    "padded integer": _padded_integer,
    "bit field": lambda: h5py.h5t.STD_B16BE,
    "opaque": _opaque,
    "terminated text": lambda: _text(h5py.h5t.STR_NULLTERM),
    "padded text": lambda: _text(h5py.h5t.STR_NULLPAD),
    "text with spaces": lambda: _text(h5py.h5t.STR_SPACEPAD),
    "record": lambda: _type([("a", h5py.enum_dtype({"A": 1}, ">i2")), ("b", ">f2")]),
    "complex": lambda: _type(">c8"),
}


def _build(path: Path, kind: Any, layout: str) -> None:
    """Makes a dataset of records with two gaps, of which every byte is set."""
    record = h5py.h5t.create(h5py.h5t.COMPOUND, 4 + 3 + max(kind.get_size(), 8) + 1)
    record.insert(b"n", 0, h5py.h5t.STD_I32LE)
    record.insert(b"m", 7, kind)
    space = h5py.h5s.create_simple((4,))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if layout == "chunked":
        plist.set_chunk((3,))
        plist.set_deflate(4)
    elif layout == "compact":
        plist.set_layout(h5py.h5d.COMPACT)
    with h5py.File(path, "w") as file:
        made = h5py.h5d.create(file.id, b"x", record, space, plist)
        noise = np.random.default_rng(7).integers(1, 255, 4 * record.get_size(), "u1")
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, noise.view(f"V{record.get_size()}"), mtype=record)


INDICES: dict[str, Any] = {
    "all": (..., [7, 8, 9, -1]),
    "slice": (slice(1, 3), [7, 8]),
    "element": (2, 7),
    "list": ([0, 3], [7, 8]),
    "mask": (np.array([True, False, True, False]), [7, 8]),
    "scalar": (..., 5),
    "floats": (..., np.array([1e9, -1e9, 2.5, 0])),
}


@pytest.mark.parametrize("layout", ["contiguous", "chunked", "compact"])
@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("index", INDICES)
def test_other_members_keep_their_bytes(tmp_path: Path, index: str, kind: str, layout: str) -> None:
    _build(tmp_path / "stock.h5", MEMBERS[kind](), layout)
    shutil.copy(tmp_path / "stock.h5", tmp_path / "own.h5")
    before = raw(tmp_path / "own.h5")
    where, values = INDICES[index]
    for name, library in LIBRARIES:
        with library.File(tmp_path / f"{name}.h5", "r+") as file:
            if library is h5py:
                # Through the low level: h5py itself has no dtype for some members.
                numbers = np.ndarray((4,), "i4", before[: 4 * (len(before) // 4)], 0, (len(before) // 4,)).copy()
                numbers[where] = values
                pair = h5py.h5t.create(h5py.h5t.COMPOUND, 4)
                pair.insert(b"n", 0, h5py.h5t.NATIVE_INT32)
                file["x"].id.write(h5py.h5s.ALL, h5py.h5s.ALL, numbers, mtype=pair)
            else:
                rows = file["x"]
                rows[(where, "n")] = values
    after = raw(tmp_path / "own.h5")
    assert after == raw(tmp_path / "stock.h5")
    assert after != before


HEAPS = {
    "text": h5py.string_dtype(),
    "sequence": h5py.vlen_dtype("i4"),
    "sequence of enums": h5py.vlen_dtype(h5py.enum_dtype({"A": 1}, ">i2")),
    "reference": h5py.ref_dtype,
    "region": h5py.regionref_dtype,
}


@pytest.mark.parametrize("chunks", [None, (2,)])
@pytest.mark.parametrize("kind", HEAPS)
def test_members_in_the_heap_keep_their_values(tmp_path: Path, kind: str, chunks: Any) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        rows = file.create_dataset("x", (3,), np.dtype([("n", "i4"), ("m", HEAPS[kind])]), chunks=chunks)
        records = np.zeros(3, rows.dtype)
        records["m"] = {
            "text": ["a", "é" * 50, ""],
            "reference": [file.ref, rows.ref, file.ref],
            "region": [rows.regionref[:2], rows.regionref[1:], rows.regionref[:]],
        }.get(kind, np.array([np.arange(3, dtype="i4"), np.arange(5, dtype="i4"), np.empty(0, "i4")], object))
        rows[...] = records
        before = _shown(file, rows["m"])
    with hyperchunk.h5py.File(path, "r+") as file:
        file["x"]["n"] = [7, 8, 9]
        file["x"][1, "n"] = 10
    with h5py.File(path) as file:
        assert file["x"]["n"].tolist() == [7, 10, 9]
        assert _shown(file, file["x"]["m"]) == before


def _shown(file: Any, values: Any) -> list[Any]:
    if isinstance(values[0], h5py.h5r.RegionReference):
        return [(file[one].name, file["x"].regionref.selection(one)) for one in values]
    if isinstance(values[0], h5py.h5r.Reference):
        return [file[one].name for one in values]
    return [one if isinstance(one, bytes) else one.tolist() for one in values]


# --- Records with a part of the members ---

PARTS: dict[str, Any] = {
    "clipped": np.array([(200.0,), (-300.0,)], [("a", "f8")]),
    "integers": np.array([(200,), (-300,)], [("a", "i8")]),
    "other order": np.array([(70000, 200), (-1, 1)], [("b", "i8"), ("a", "i8")]),
    "inner": np.array([((1000,),), ((-1,),)], [("c", [("y", "i8")])]),
    "boolean": np.array([(256,), (0,)], [("d", "i8")]),
    "half": np.array([(65519.0,), (1e9,)], [("e", "f8")]),
    "array": np.array([([1000, 2],), ([-1000, 3],)], [("f", "i8", (2,))]),
}


@pytest.mark.parametrize("fields", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_records_are_converted_as_by_h5py(tmp_path: Path, part: str, fields: bool) -> None:
    dtype = np.dtype(
        [("a", "i1"), ("b", "u2"), ("c", [("x", "i2"), ("y", "u1")]), ("d", "?"), ("e", ">f2"), ("f", "i1", (2,))]
    )
    value = PARTS[part]

    def action(_: ModuleType, file: Any) -> Any:
        rows = file.create_dataset("x", (2,), dtype)
        rows[...] = np.ones(2, dtype)
        if fields:
            rows[value.dtype.names] = value
        else:
            rows[...] = value
        return rows[...].tobytes()

    assert_same(outcomes(tmp_path, action))
    assert raw(tmp_path / "own.h5") == raw(tmp_path / "stock.h5")


# --- Types of new objects ---


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "f8", "i1", "u2", ">i4"])
@pytest.mark.parametrize("source", ["f4", "f8", ">f8", "i8", "f2", "?"])
@pytest.mark.parametrize("way", ["dataset", "written", "attribute", "required"])
def test_arrays_are_rounded_as_by_h5py(tmp_path: Path, way: str, source: str, dtype: str) -> None:
    if source == "f2" and dtype == "u2":
        pytest.skip("the result of h5py depends on the compiler")
    value = np.array([65519, 65535, 2049, 2051, 1.0009765, 0.3, 3e-8, 1.5e-7]).astype(source)

    def action(_: ModuleType, file: Any) -> Any:
        if way == "written":
            return put(file, dtype, value)[...].tolist()
        if way == "attribute":
            file.attrs.create("a", value, dtype=dtype)
            return file.attrs["a"].tolist()
        return (new if way == "dataset" else required)(file, dtype, value)[...].tolist()

    assert_same(outcomes(tmp_path, action))


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", "<i4", "<u4", "<i8", "<u8", ">i4", "f4"])
@pytest.mark.parametrize("value", [np.nan, np.float32(np.nan)])
def test_fill_value_of_nan_is_that_of_h5py(tmp_path: Path, value: Any, dtype: Any) -> None:
    found = outcomes(tmp_path, lambda _, file: file.create_dataset("x", (2,), dtype, fillvalue=value)[...].tobytes())
    assert_same(found)


# --- Sequences of sequences ---


def rows_of(*lengths: int) -> Any:
    found = np.empty(len(lengths), object)
    for index, length in enumerate(lengths):
        found[index] = np.arange(length, dtype="i4")
    return found


@pytest.mark.parametrize("lengths", [(2, 3), (2, 2), (1,), (0, 4), ()], ids=str)
def test_one_sequence_of_sequences_is_written(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    def action(library: ModuleType, file: Any) -> Any:
        nested = file.create_dataset("v", (2,), library.vlen_dtype(library.vlen_dtype("i4")))
        nested[0] = rows_of(*lengths)
        return [[inner.tolist() for inner in outer] for outer in nested[...]]

    assert_same(outcomes(tmp_path, action))


def test_all_sequences_of_sequences_are_written(tmp_path: Path) -> None:
    with hyperchunk.h5py.File(tmp_path / "a.h5", "w") as file:
        kind = hyperchunk.h5py.vlen_dtype(hyperchunk.h5py.vlen_dtype("i4"))
        nested = file.create_dataset("v", (2,), kind)
        nested[...] = [[[1], [2, 3]], [[], [4]]]
        nested[1] = [[5, 6], [7, 8]]
    with h5py.File(tmp_path / "a.h5") as file:
        assert [[inner.tolist() for inner in outer] for outer in file["v"][...]] == [[[1], [2, 3]], [[5, 6], [7, 8]]]


# --- Region references ---


REGIONS = (np.s_[::2, 1], 0, np.s_[1, 2], np.s_[[0, 2], 1], np.s_[1:1], np.s_[1:1, 2], np.s_[1:3], ..., "mask")


@pytest.mark.parametrize("index", REGIONS, ids=str)
def test_regions_keep_dimensions(tmp_path: Path, index: Any) -> None:
    def action(_: ModuleType, file: Any) -> Any:
        data = np.arange(20).reshape(4, 5)
        file["x"] = data
        dataset = file["x"]
        region = dataset.regionref[data % 3 == 0 if index == "mask" else index]
        file["r"] = region
        stored = file["r"][()]
        return [
            (dataset[one].shape, dataset[one].tolist(), dataset.regionref.selection(one)) for one in (region, stored)
        ]

    assert_same(outcomes(tmp_path, action))


# --- Options and closed files ---


@pytest.mark.parametrize(
    "options",
    [
        *[{"chunks": chunks} for chunks in ((), [], 0, (0,))],
        *[{"compression": level} for level in (False, 0, True)],
        {"compression": False, "compression_opts": 3},
        {"shape": (), "chunks": ()},
        {"shape": (), "compression": False},
    ],
    ids=str,
)
def test_options_without_a_value_are_as_in_h5py(tmp_path: Path, options: dict[str, Any]) -> None:
    def action(_: ModuleType, file: Any) -> Any:
        dataset = file.create_dataset("x", **{"shape": (50,), "dtype": "f4", **options})
        return dataset.chunks, dataset.compression, dataset.compression_opts

    assert_same(outcomes(tmp_path, action))


def test_empty_attributes_have_no_shape(tmp_path: Path) -> None:
    with hyperchunk.h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises(TypeError, match="cannot create attribute 'n'"):
            file.attrs.create("n", hyperchunk.h5py.Empty(np.dtype(("f4", (3,)))))
        assert list(file.attrs) == []


def test_get_of_a_closed_file_is_the_default(tmp_path: Path) -> None:
    for _, library in LIBRARIES:
        with library.File(tmp_path / "a.h5", "w") as file:
            file["x"] = 1
            dataset, attributes = file["x"], file.attrs
        assert attributes.get("q") is None
        assert dataset.attrs.get("q", 3) == 3
        assert file.get("x") is None


def test_names_follow_the_links(tmp_path: Path) -> None:
    def action(_: ModuleType, file: Any) -> Any:
        dataset = file.create_dataset("g/x", (1,), "f4")
        names = [dataset.name]
        file.move("g/x", "y")
        names.append(dataset.name)
        file["z"] = dataset
        del file["y"]
        names.append(dataset.name)
        del file["z"]
        return [*names, dataset.name, repr(dataset)]

    assert_same(outcomes(tmp_path, action))
