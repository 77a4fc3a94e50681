"""Type mapping, row by row: values written by h5py are read by pyarrow, and converted back to the same HDF5."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from h5py import h5d, h5s, h5t
from hyperchunk import _core
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
COUNT = itertools.count()
SHAPES = st.one_of(
    st.just(()),
    st.tuples(st.integers(0, 5)),
    st.tuples(st.integers(0, 4), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)),
)


def run(*words: object) -> None:
    assert _core.run_command(["hyperchunk", "arrow", *map(str, words)]) == 0, words


@dataclass
class Case:
    """Elements of one type: as stored in HDF5, and in Arrow."""

    kind: Any
    #: Bytes of the elements.
    stored: np.ndarray[Any, Any]
    #: Arrow type of one element.
    arrow: pa.DataType | None = None
    #: Arrow values, one for each element.
    values: list[Any] | None = None
    look: list[str] = field(default_factory=list)


def void(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the bytes of elements."""
    packed = np.ascontiguousarray(array)
    return packed.view(f"V{packed.dtype.itemsize}").reshape(array.shape)


def write(path: Path, case: Case) -> None:
    with h5py.File(path, "w") as file:
        space = h5s.create_simple(case.stored.shape) if case.stored.shape else h5s.create(h5s.SCALAR)
        dataset = h5d.create(file.id, b"a", case.kind, space)
        if case.stored.size:
            dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(case.stored), mtype=case.kind)


def read(path: Path) -> tuple[Any, np.ndarray[Any, Any]]:
    with h5py.File(path, "r") as file:
        dataset = file["a"]
        kind = dataset.id.get_type()
        out = np.zeros(dataset.shape, f"V{kind.get_size()}")
        if out.size:
            dataset.id.read(h5s.ALL, h5s.ALL, out, mtype=kind)
        return kind.copy(), out


def flat(values: Any, depth: int) -> list[Any]:
    """Flattens nested lists."""
    for _ in range(depth):
        values = [inner for value in values for inner in value]
    return list(values)


def check(folder: Path, case: Case) -> None:
    """Converts from HDF5 to Arrow and back, in both representations of cells."""
    name = f"{next(COUNT)}"
    old, new, out = (folder / f"{name}{end}" for end in ("old.h5", "new.h5", ".arrow"))
    write(old, case)
    depth = max(len(case.stored.shape) - 1, 0)
    for cells in ("tensor", "list"):
        run("export", old, out, "--overwrite", "--cells", cells, *case.look)
        with pa.ipc.open_file(out) as reader:
            table = reader.read_all()
        table.validate(full=True)
        assert table.num_rows == (case.stored.shape[0] if case.stored.shape else 1)
        if case.arrow is not None and table.num_columns == 1:
            column = table.column(0)
            kind = column.type.storage_type if isinstance(column.type, pa.FixedShapeTensorType) else column.type
            # pyarrow cannot combine zero chunks of lists of booleans.
            column = column.combine_chunks() if column.num_chunks else pa.chunked_array([], kind)
            column = column.storage if isinstance(column.type, pa.FixedShapeTensorType) else column
            levels = 0
            # Nested once per dimension, or flat.
            while kind != case.arrow and pa.types.is_fixed_size_list(kind) and levels < depth:
                kind, levels = kind.value_type, levels + 1
            storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
            assert case.arrow in (kind, storage)
            if case.values is not None:
                found = flat(column.to_pylist(), levels)
                assert repr(found) == repr(case.values)
        run("import", out, new, "--overwrite")
        kind, stored = read(new)
        assert kind.equal(case.kind)
        assert stored.shape == case.stored.shape
        assert stored.tobytes() == void(case.stored).tobytes()


def arrays(dtype: Any, elements: Any = None) -> st.SearchStrategy[Any]:
    return SHAPES.flatmap(lambda shape: npst.arrays(dtype, shape, elements=elements))


INTEGERS = [f"{order}{sign}{size}" for order in "<>" for sign in "iu" for size in (1, 2, 4, 8)]


@pytest.mark.parametrize("dtype", INTEGERS)
@FEW
@given(data=st.data())
def test_integers(tmp_path: Path, dtype: str, data: st.DataObject) -> None:
    values = data.draw(arrays(dtype))
    native = np.dtype(dtype).newbyteorder("=")
    check(tmp_path, Case(h5t.py_create(np.dtype(dtype)), values, pa.from_numpy_dtype(native), values.ravel().tolist()))


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"])
@FEW
@given(data=st.data())
def test_floats(tmp_path: Path, dtype: str, data: st.DataObject) -> None:
    values = data.draw(arrays(dtype))
    native = np.dtype(dtype).newbyteorder("=")
    expected = [float(value) for value in values.ravel()]
    check(tmp_path, Case(h5t.py_create(np.dtype(dtype)), values, pa.from_numpy_dtype(native), expected))


@pytest.mark.parametrize("order", [h5t.ORDER_LE, h5t.ORDER_BE])
@pytest.mark.parametrize("signed", [True, False])
@FEW
@given(data=st.data())
def test_integers_of_odd_precision(tmp_path: Path, order: int, signed: bool, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([1, 2, 4, 8]))
    # libhdf5 refuses types with fewer bits.
    bits = data.draw(st.integers(size * 4 + 1, size * 8))
    offset = data.draw(st.integers(0, size * 8 - bits))
    kind = (h5t.STD_I64LE if signed else h5t.STD_U64LE).copy()
    kind.set_size(size)
    kind.set_precision(bits)
    kind.set_offset(offset)
    kind.set_order(order)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    numbers = data.draw(st.lists(st.integers(low, high), max_size=5))
    mask = (1 << bits) - 1
    raw = b"".join(
        ((number & mask) << offset).to_bytes(size, "little" if order == h5t.ORDER_LE else "big") for number in numbers
    )
    stored = np.frombuffer(raw, f"V{size}")
    arrow = getattr(pa, f"{'int' if signed else 'uint'}{size * 8}")()
    check(tmp_path, Case(kind, stored, arrow, numbers))


def opaque_bytes(size: int) -> st.SearchStrategy[Any]:
    return st.lists(st.binary(min_size=size, max_size=size), max_size=5).map(
        lambda rows: np.frombuffer(b"".join(rows), f"V{size}")
    )


@pytest.mark.parametrize("size", [3, 5, 16])
@FEW
@given(data=st.data())
def test_integers_of_odd_sizes(tmp_path: Path, size: int, data: st.DataObject) -> None:
    kind = h5t.STD_I64LE.copy()
    kind.set_size(size)
    kind.set_precision(size * 8)
    stored = data.draw(opaque_bytes(size))
    check(tmp_path, Case(kind, stored, pa.binary(size), [bytes(row) for row in stored]))


def small_float(size: int, precision: int, exponent: int, mantissa: int) -> Any:
    kind = h5t.IEEE_F32LE.copy()
    kind.set_fields(precision - 1, mantissa, exponent, 0, mantissa)
    kind.set_size(size)
    kind.set_precision(precision)
    kind.set_ebias((1 << exponent - 1) - 1)
    return kind


@pytest.mark.parametrize(
    ("fields", "name"), [((2, 16, 8, 7), "h5.bfloat16"), ((1, 8, 4, 3), "h5.f8e4m3"), ((1, 8, 5, 2), "h5.f8e5m2")]
)
@FEW
@given(data=st.data())
def test_small_floats(tmp_path: Path, fields: tuple[int, int, int, int], name: str, data: st.DataObject) -> None:
    try:
        kind = small_float(*fields)
    except Exception:
        pytest.skip("libhdf5 makes no such type")
    stored = data.draw(opaque_bytes(fields[0]))
    arrow = {1: pa.uint8(), 2: pa.uint16()}[fields[0]]
    check(tmp_path, Case(kind, stored, arrow, [int.from_bytes(bytes(row), "little") for row in stored]))


@pytest.mark.skipif(np.longdouble(1).nbytes != 16, reason="no number of 80 bits here")
@FEW
@given(data=st.data())
def test_long_doubles(tmp_path: Path, data: st.DataObject) -> None:
    stored = data.draw(opaque_bytes(16))
    check(tmp_path, Case(h5t.NATIVE_LDOUBLE, stored, pa.binary(16), [bytes(row) for row in stored]))


@pytest.mark.parametrize("dtype", ["<c8", ">c8", "<c16"])
@FEW
@given(data=st.data())
def test_complex_numbers(tmp_path: Path, dtype: str, data: st.DataObject) -> None:
    values = data.draw(arrays(dtype))
    item = pa.field("item", pa.float32() if dtype.endswith("c8") else pa.float64(), nullable=False)
    expected = [[float(value.real), float(value.imag)] for value in values.ravel()]
    check(tmp_path, Case(h5t.py_create(np.dtype(dtype)), values, pa.list_(item, 2), expected))


@pytest.mark.parametrize("dtype", ["<i1", "<u2", ">i4", "<i8"])
@FEW
@given(data=st.data())
def test_enumerations(tmp_path: Path, dtype: str, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.text("abcé", min_size=1), min_size=1, max_size=5, unique=True))
    names = dict(zip(words, data.draw(st.permutations(range(100))), strict=False))
    kind = h5t.py_create(h5py.enum_dtype(names, dtype), logical=True)
    values = data.draw(arrays(dtype))
    native = pa.from_numpy_dtype(np.dtype(dtype).newbyteorder("="))
    check(tmp_path, Case(kind, values, native, values.ravel().tolist()))
    named = np.array(data.draw(st.lists(st.sampled_from(list(names.values())), max_size=5)), dtype)
    dictionary = pa.dictionary(pa.int32(), pa.utf8())
    by_value = {value: name for name, value in names.items()}
    expected = [by_value[int(value)] for value in named]
    check(tmp_path, Case(kind, named, dictionary, expected, ["--enums", "dictionary"]))


@FEW
@given(data=st.data())
def test_truth_values(tmp_path: Path, data: st.DataObject) -> None:
    values = data.draw(arrays("?"))
    check(tmp_path, Case(h5t.py_create(np.dtype("?")), values, pa.int8(), None))


@pytest.mark.parametrize("padding", [h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD])
@pytest.mark.parametrize("charset", [h5t.CSET_ASCII, h5t.CSET_UTF8])
@FEW
@given(data=st.data())
def test_strings_of_fixed_length(tmp_path: Path, padding: int, charset: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    kind = h5t.C_S1.copy()
    kind.set_size(size)
    kind.set_strpad(padding)
    kind.set_cset(charset)
    fill = b" " if padding == h5t.STR_SPACEPAD else b"\0"
    texts = data.draw(st.lists(st.text("ab é ", max_size=size), max_size=5))
    texts = [text for text in texts if len(text.encode()) <= size]
    stored = np.frombuffer(b"".join(text.encode().ljust(size, fill) for text in texts), f"V{size}")
    expected = [text.rstrip(" ") if padding == h5t.STR_SPACEPAD else text for text in texts]
    check(tmp_path, Case(kind, stored, pa.large_utf8(), expected))
    anything = data.draw(opaque_bytes(size))
    check(tmp_path, Case(kind, anything, pa.binary(size), [bytes(row) for row in anything], ["--strings", "stored"]))


@FEW
@given(data=st.data())
def test_bit_fields(tmp_path: Path, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([1, 2, 4, 8]))
    order = data.draw(st.sampled_from(["LE", "BE"]))
    stored = data.draw(opaque_bytes(size))
    kind = getattr(h5t, f"STD_B{size * 8}{order}")
    expected = [int.from_bytes(bytes(row), "little" if order == "LE" else "big") for row in stored]
    check(tmp_path, Case(kind, stored, getattr(pa, f"uint{size * 8}")(), expected))


@FEW
@given(data=st.data())
def test_opaque_bytes(tmp_path: Path, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 20))
    kind = h5t.create(h5t.OPAQUE, size)
    kind.set_tag(data.draw(st.text("ab c", max_size=9)).encode())
    stored = data.draw(opaque_bytes(size))
    check(tmp_path, Case(kind, stored, pa.opaque(pa.binary(size), kind.get_tag().decode(), "HDF5")))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["M8", "m8"])
@FEW
@given(data=st.data())
def test_times(tmp_path: Path, unit: str, kind: str, data: st.DataObject) -> None:
    numbers = data.draw(arrays("<i8"))
    order = data.draw(st.sampled_from("<>"))
    numbers = numbers.astype(f"{order}i8")
    dtype = h5py.opaque_dtype(np.dtype(f"{order}{kind}[{unit}]"))
    arrow = pa.timestamp(unit) if kind == "M8" else pa.duration(unit)
    check(tmp_path, Case(h5t.py_create(dtype, logical=True), numbers, arrow))
    # The smallest number is NaT, which becomes null.
    nat = np.iinfo("i8").min
    expected = [None if number == nat else number for number in numbers.ravel().tolist()]
    assert times(tmp_path, numbers, dtype) == expected


def times(folder: Path, numbers: np.ndarray[Any, Any], dtype: Any) -> list[int | None]:
    """Converts times to Arrow."""
    name = f"{next(COUNT)}"
    write(folder / f"{name}.h5", Case(h5t.py_create(dtype, logical=True), numbers.ravel()))
    run("export", folder / f"{name}.h5", folder / f"{name}.arrow")
    with pa.ipc.open_file(folder / f"{name}.arrow") as reader:
        return list(reader.read_all().column(0).cast(pa.int64()).to_pylist())


MEMBERS = st.sampled_from(["<i2", ">i4", "<f8", "<f4", "S5", "?", "<c8", ("<u2", (2, 3)), [("x", "<f4"), ("y", ">i2")]])


@FEW
@given(data=st.data())
def test_compounds(tmp_path: Path, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(MEMBERS, min_size=1, max_size=5))
    dtype = np.dtype([(f"m{number}", kind) for number, kind in enumerate(kinds)], align=data.draw(st.booleans()))
    shape = data.draw(SHAPES)
    size = int(np.prod(shape, dtype=int))
    values = np.zeros(shape, dtype)
    fill(values, data)
    old, new, out = (tmp_path / f"{next(COUNT)}{end}" for end in ("old.h5", "new.h5", ".arrow"))
    with h5py.File(old, "w") as file:
        file.create_dataset("a", data=values)
    for look in ("columns", "struct"):
        run("export", old, out, "--overwrite", "--compounds", look)
        with pa.ipc.open_file(out) as reader:
            table = reader.read_all()
        table.validate(full=True)
        columns = look == "columns" and len(shape) < 2
        assert table.column_names == (list(dtype.names or ()) if columns else ["a"])
        if columns and size:
            for name in dtype.names or ():
                if dtype[name].kind in "if" and dtype[name].subdtype is None:
                    assert repr(table[name].to_pylist()) == repr(np.atleast_1d(values)[name].tolist())
        run("import", out, new, "--overwrite")
        with h5py.File(old) as one, h5py.File(new) as other:
            assert one["a"].id.get_type().equal(other["a"].id.get_type())
            assert one["a"].dtype == other["a"].dtype
            same(one["a"][()], other["a"][()])


def fill(values: np.ndarray[Any, Any], data: st.DataObject) -> None:
    """Fills all members with numbers."""
    for name in values.dtype.names or ():
        member = values[name]
        if member.dtype.names:
            fill(member, data)
        elif member.dtype.kind == "S":
            member[...] = data.draw(st.text("abc", max_size=5)).encode()
        else:
            member[...] = data.draw(st.integers(0, 100))


def same(one: Any, other: Any) -> None:
    if one.dtype.names:
        for name in one.dtype.names:
            same(one[name], other[name])
    else:
        np.testing.assert_array_equal(one, other)


SEQUENCES: list[tuple[Any, Any, st.SearchStrategy[Any]]] = [
    (h5py.string_dtype(), pa.large_utf8(), st.text("ab é", max_size=9)),
    (h5py.string_dtype("ascii"), pa.large_utf8(), st.text("ab", max_size=9)),
    (
        h5py.vlen_dtype("<i4"),
        pa.large_list(pa.field("item", pa.int32(), nullable=False)),
        st.lists(st.integers(-9, 9), max_size=4).map(lambda numbers: np.array(numbers, "<i4")),
    ),
    (
        h5py.vlen_dtype(">f8"),
        pa.large_list(pa.field("item", pa.float64(), nullable=False)),
        st.lists(st.integers(-9, 9), max_size=4).map(lambda numbers: np.array(numbers, ">f8")),
    ),
    (
        h5py.vlen_dtype(np.dtype([("a", "<i2"), ("b", "<f4")])),
        None,
        st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), max_size=4).map(
            lambda rows: np.array(rows, [("a", "<i2"), ("b", "<f4")])
        ),
    ),
]


@pytest.mark.parametrize("number", range(len(SEQUENCES)))
@FEW
@given(data=st.data())
def test_sequences_and_strings_of_any_length(tmp_path: Path, number: int, data: st.DataObject) -> None:
    dtype, arrow, element = SEQUENCES[number]
    shape = data.draw(SHAPES.filter(len))
    old, new, out = (tmp_path / f"{next(COUNT)}{end}" for end in ("old.h5", "new.h5", ".arrow"))
    drawn: list[Any] = []
    with h5py.File(old, "w") as file:
        dataset = file.create_dataset("a", shape, dtype)
        for place in np.ndindex(shape):
            drawn.append(data.draw(element))
            dataset[place] = drawn[-1]
    run("export", old, out)
    with pa.ipc.open_file(out) as reader:
        table = reader.read_all()
    table.validate(full=True)
    with h5py.File(old) as one:
        if len(shape) == 1 and arrow is not None:
            assert table.schema.field(0).type == arrow
            # Not compared with h5py, which does not swap the byte order of numbers in sequences.
            assert table.column(0).to_pylist() == [
                value if isinstance(value, str) else value.tolist() for value in drawn
            ]
        run("import", out, new)
        with h5py.File(new) as other:
            assert one["a"].id.get_type().equal(other["a"].id.get_type())
            assert one["a"].shape == other["a"].shape
            for first, second in zip(one["a"][()].ravel(), other["a"][()].ravel(), strict=True):
                assert first == second if isinstance(first, bytes) else np.array_equal(first, second)


def test_null_strings_are_null(tmp_path: Path) -> None:
    old, out, new = tmp_path / "old.h5", tmp_path / "a.arrow", tmp_path / "new.h5"
    with h5py.File(old, "w") as file:
        dataset = file.create_dataset("a", (3,), h5py.string_dtype())
        dataset[0], dataset[1] = "x", ""
    run("export", old, out)
    with pa.ipc.open_file(out) as reader:
        assert reader.read_all().column(0).to_pylist() == ["x", "", None]
    run("import", out, new)
    run("export", new, tmp_path / "b.arrow")
    with pa.ipc.open_file(tmp_path / "b.arrow") as reader:
        assert reader.read_all().column(0).to_pylist() == ["x", "", None]


def test_references(tmp_path: Path) -> None:
    old, folder, new = tmp_path / "old.h5", tmp_path / "folder", tmp_path / "new.h5"
    with h5py.File(old, "w") as file:
        data = file.create_dataset("g/data", data=np.arange(20).reshape(4, 5))
        references = file.create_dataset("references", (3,), h5py.ref_dtype)
        references[0], references[1] = data.ref, file["g"].ref
        regions = file.create_dataset("regions", (2,), h5py.regionref_dtype)
        regions[0] = data.regionref[1:3, ::2]
        mask = np.zeros((4, 5), bool)
        mask[0, 1] = mask[3, 4] = True
        file.attrs["region"] = data.regionref[mask]
        file.attrs["reference"] = file["g"].ref
    run("export", old, folder)
    with pa.ipc.open_file(folder / "references.arrow") as reader:
        rows = reader.read_all().column(0).to_pylist()
    assert [row["path"] for row in rows] == ["/g/data", "/g", None]
    with pa.ipc.open_file(folder / "regions.arrow") as reader:
        rows = reader.read_all().column(0).to_pylist()
    assert rows[0]["selection"] == [1, 0, 2, 0, 1, 2, 2, 2, 1, 4, 2, 4]
    run("import", folder, new)
    with h5py.File(new) as file:
        assert file[file["references"][0]].name == "/g/data"
        assert file[file["references"][1]].name == "/g"
        assert not file["references"][2]
        data = file["g/data"]
        assert np.array_equal(data[file["regions"][0]].ravel(), np.arange(20).reshape(4, 5)[1:3, ::2].ravel())
        assert sorted(data[file.attrs["region"]]) == [1, 19]
        assert file[file.attrs["reference"]].name == "/g"


def test_named_types_spaces_layouts_and_attributes(tmp_path: Path) -> None:
    old, folder, new = tmp_path / "old.h5", tmp_path / "folder", tmp_path / "new.h5"
    with h5py.File(old, "w", track_order=True) as file:
        file["named"] = np.dtype([("a", "<i4"), ("b", ">f8")])
        file.create_dataset("of_named", (3,), file["named"])
        file["null"] = h5py.Empty("<f4")
        file["scalar"] = 5.5
        grows = file.create_dataset(
            "grows", (6, 4), "<i2", maxshape=(None, 8), chunks=(2, 3), fillvalue=7, compression="gzip", shuffle=True
        )
        grows[:4] = np.arange(16).reshape(4, 4)
        grows.attrs["text"] = "é"
        grows.attrs["list"] = ["a", "bc"]
        grows.attrs["numbers"] = np.arange(6, dtype=">u2").reshape(2, 3)
        grows.attrs["empty"] = h5py.Empty("S3")
        grows.attrs["fixed"] = np.bytes_("abc")
        grows.attrs["none"] = np.zeros((0, 3))
        grows.attrs.create("of named", np.zeros(2, file["named"].dtype), dtype=file["named"])
        file["link"] = h5py.SoftLink("/grows")
        file["other"] = h5py.ExternalLink("x.h5", "/y")
        file["again"] = grows
    run("export", old, folder)
    run("import", folder, new)
    with h5py.File(old) as one, h5py.File(new) as other:
        assert list(one) == list(other)
        for name in ("of_named", "scalar", "grows"):
            first, second = one[name], other[name]
            assert (first.shape, first.maxshape, first.chunks) == (second.shape, second.maxshape, second.chunks)
            assert (first.dtype, first.compression, first.shuffle) == (second.dtype, second.compression, second.shuffle)
            assert first.fillvalue == second.fillvalue
            same(np.asarray(first[()]), np.asarray(second[()]))
        assert other["of_named"].id.get_type().committed()
        assert other["null"].shape is None
        assert list(one["grows"].attrs) == list(other["grows"].attrs)
        for key, value in one["grows"].attrs.items():
            first, second = one["grows"].attrs.get_id(key), other["grows"].attrs.get_id(key)
            assert first.get_type().equal(second.get_type())
            assert first.shape == second.shape
            if not isinstance(value, h5py.Empty):
                assert np.array_equal(value, other["grows"].attrs[key])
        assert other["grows"].attrs.get_id("of named").get_type().committed()
        assert other.get("link", getlink=True).path == "/grows"
        assert other.get("other", getlink=True).filename == "x.h5"
        assert other["again"] == other["grows"]


def imported(tmp_path: Path, array: pa.Array, name: str = "c") -> Any:
    """Returns h5py's values of a column that originates in Arrow."""
    out, new = tmp_path / f"{next(COUNT)}.arrow", tmp_path / "new.h5"
    table = pa.table({name: array})
    with pa.OSFile(str(out), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    run("import", out, new, "--overwrite", "--name", "/t")
    with h5py.File(new) as file:
        dataset = file["t"][name]
        return dataset[()] if not h5py.check_string_dtype(dataset.dtype) else dataset.asstr()[()]


FOREIGN: list[tuple[str, pa.Array, Callable[[Any], list[Any]], list[Any]]] = [
    ("utf8", pa.array(["a", "é", ""]), list, ["a", "é", ""]),
    ("view", pa.array(["a", "é"], pa.string_view()), list, ["a", "é"]),
    ("binary", pa.array([b"a", b"\xff\0"]), lambda found: [bytes(row) for row in found], [b"a", b"\xff\0"]),
    ("bool", pa.array([True, False]), lambda found: found.tolist(), [True, False]),
    ("date32", pa.array([1, -1], pa.date32()), lambda found: found.astype("i8").tolist(), [1, -1]),
    ("date64", pa.array([86400000], pa.date64()), lambda found: found.astype("i8").tolist(), [86400000]),
    ("timestamp", pa.array([7], pa.timestamp("us", "UTC")), lambda found: found.astype("i8").tolist(), [7]),
    ("duration", pa.array([7], pa.duration("ns")), lambda found: found.astype("i8").tolist(), [7]),
    ("time32", pa.array([7], pa.time32("s")), lambda found: found.tolist(), [7]),
    ("decimal", pa.array([1], pa.decimal64(5, 2)), lambda found: found.tolist(), [100]),
    ("dictionary", pa.array(["a", "b", "a"]).dictionary_encode(), list, ["a", "b", "a"]),
    ("runs", pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([5, 6])), lambda found: found.tolist(), [5, 5, 6]),
    ("list", pa.array([[1, 2], [], [3]]), lambda found: [row.tolist() for row in found], [[1, 2], [], [3]]),
    ("fixed list", pa.array([[1, 2]], pa.list_(pa.int8(), 2)), lambda found: found.tolist(), [[1, 2]]),
    ("struct", pa.array([{"a": 1, "b": 2.0}]), lambda found: found.tolist(), [(1, 2.0)]),
    ("map", pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), lambda found: [r.tolist() for r in found], [[(1, 2)]]),
    ("large list", pa.array([[1.5]], pa.large_list(pa.float32())), lambda found: [r.tolist() for r in found], [[1.5]]),
    ("half", pa.array(np.array([1.5], "f2")), lambda found: found.tolist(), [1.5]),
    ("bytes", pa.array([b"ab"], pa.binary(2)), lambda found: [bytes(row) for row in found], [b"ab"]),
    ("tensor", pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2, 2]), pa.array([[1, 2, 3, 4]], pa.list_(pa.int32(), 4))),
        lambda found: found.tolist(), [[[1, 2], [3, 4]]]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("array", "as_list", "expected"), [row[1:] for row in FOREIGN], ids=[row[0] for row in FOREIGN]
)
def test_what_never_was_hdf5(
    tmp_path: Path, array: pa.Array, as_list: Callable[[Any], list[Any]], expected: list[Any]
) -> None:
    assert as_list(imported(tmp_path, array)) == expected
    # A slice of it, too.
    if len(array) > 1:
        assert as_list(imported(tmp_path, array.slice(1))) == expected[1:]


def test_what_is_null_is_said(tmp_path: Path) -> None:
    out, new = tmp_path / "t.parquet", tmp_path / "new.h5"
    pa.parquet.write_table(pa.table({"n": pa.array([1, None, 3]), "s": pa.array(["a", None, ""])}), out)
    run("import", out, new)
    with h5py.File(new) as file:
        assert file["t/n"][()].tolist() == [1, 0, 3]
        assert file["t/n__valid"][()].tolist() == [True, False, True]
        assert file["t/n"].attrs["valid"] == "n__valid"
        assert file["t"].attrs["h5.table"].tolist() == ["n", "s"]
        assert "s__valid" not in file["t"]


@pytest.mark.parametrize(
    "array", [pa.nulls(3), pa.array([1, 2]).cast(pa.int64()).dictionary_encode().slice(0, 0).cast(pa.null())]
)
def test_what_has_no_place_is_an_error(tmp_path: Path, array: pa.Array, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.arrow"
    table = pa.table({"c": array})
    with pa.OSFile(str(out), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert _core.run_command(["hyperchunk", "arrow", "import", str(out), str(tmp_path / "new.h5")]) == 1
    error = capfd.readouterr().err
    assert "column c" in error
    assert str(out) in error
    assert not (tmp_path / "new.h5").exists()


def test_parquet_and_streams(tmp_path: Path) -> None:
    old, new = tmp_path / "old.h5", tmp_path / "new.h5"
    dtype = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S4")])
    rows = np.zeros(1000, dtype)
    rows["a"], rows["b"], rows["c"] = np.arange(1000), np.arange(1000) / 2, b"abcd"
    with h5py.File(old, "w") as file:
        file.create_dataset("t", data=rows, chunks=(64,))
        file["t"].attrs["unit"] = "m"
    for name in ("t.parquet", "t.arrows", "t.arrow"):
        run("export", f"{old}:/t", tmp_path / name)
        run("import", tmp_path / name, new, "--overwrite")
        with h5py.File(new) as file:
            assert np.array_equal(file["t"][()], rows)
            assert file["t"].dtype == dtype
            assert file["t"].attrs["unit"] == "m"


def test_a_group_is_a_table(tmp_path: Path) -> None:
    old, out, new = tmp_path / "old.h5", tmp_path / "t.parquet", tmp_path / "new.h5"
    with h5py.File(old, "w") as file:
        file["g/x"] = np.arange(100, dtype="<f4")
        file["g/id"] = np.arange(100, dtype=">i8")
    run("export", f"{old}:/g", out)
    table = pa.parquet.read_table(out)
    assert table.column_names == ["id", "x"]
    assert table["id"].to_pylist() == list(range(100))
    run("import", out, new, "--name", "/g")
    with h5py.File(new) as file:
        assert file["g/id"].dtype == np.dtype(">i8")
        assert np.array_equal(file["g/x"][()], np.arange(100))


@FEW
@given(data=st.data())
def test_damaged_files_are_errors(tmp_path: Path, data: st.DataObject) -> None:
    old = tmp_path / "old.h5"
    if not old.exists():
        with h5py.File(old, "w") as file:
            file["a"] = np.array([(1, 2.5, b"abc")] * 50, [("a", "<i4"), ("b", "<f8"), ("c", "S3")])
        for name in ("t.arrow", "t.arrows", "t.parquet"):
            run("export", old, tmp_path / name)
    name = data.draw(st.sampled_from(["t.arrow", "t.arrows", "t.parquet"]))
    bytes_ = bytearray((tmp_path / name).read_bytes())
    if data.draw(st.booleans()):
        del bytes_[data.draw(st.integers(0, len(bytes_) - 1)) :]
    for _ in range(data.draw(st.integers(1, 5)) if bytes_ else 0):
        bytes_[data.draw(st.integers(0, len(bytes_) - 1))] = data.draw(st.integers(0, 255))
    damaged = tmp_path / f"damaged-{name}"
    damaged.write_bytes(bytes_)
    status = _core.run_command(["hyperchunk", "arrow", "import", str(damaged), str(tmp_path / "new.h5"), "--overwrite"])
    assert status in (0, 1)
