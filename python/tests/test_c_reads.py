"""The reader for C, beside h5py: types, strides, strings, attributes, chunks, and the files of the corpus."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import native
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = [
    folder for folder in (ROOT.parent / "shared" / "corpus" / "files", ROOT / "fuzz" / "corpus") if folder.is_dir()
]
INT, ID, TEXT, BUFFER, SIZE = ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t
EXTENTS = ctypes.POINTER(ctypes.c_uint64)
STRINGS = ctypes.POINTER(ctypes.c_char_p)
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "hc_error": (TEXT, []),
    "hc_open": (ID, [TEXT]),
    "hc_open_dataset": (ID, [ID, TEXT]),
    "hc_open_group": (ID, [ID, TEXT]),
    "hc_create_group": (ID, [ID, TEXT]),
    "hc_create": (ID, [TEXT, ctypes.c_uint]),
    "hc_dims": (INT, [ID, INT, EXTENTS]),
    "hc_close": (INT, [ID]),
    "hc_flush": (INT, [ID]),
    "hc_discard": (INT, [ID]),
    "hc_resize": (INT, [ID, EXTENTS]),
    "hc_read_chunk": (INT, [ID, ID, EXTENTS, ctypes.POINTER(ctypes.c_uint32), BUFFER, ctypes.POINTER(SIZE)]),
    "hc_member_count": (ID, [ID]),
    "hc_member_name": (ID, [ID, ID, BUFFER, SIZE]),
    "hc_kind": (INT, [ID, TEXT]),
    "hc_class_of": (INT, [ID, TEXT]),
    "hc_type_of": (INT, [ID, TEXT]),
    "hc_element_size": (ID, [ID, TEXT]),
    "hc_element_count": (ID, [ID, TEXT]),
    "hc_read": (INT, [ID, INT, EXTENTS, EXTENTS, EXTENTS, BUFFER]),
    "hc_read_many": (INT, [SIZE, BUFFER]),
    "hc_read_strings": (STRINGS, [ID, EXTENTS, EXTENTS, EXTENTS, ctypes.POINTER(SIZE)]),
    "hc_free": (None, [STRINGS]),
    "hc_attr_count": (ID, [ID]),
    "hc_attr_name": (ID, [ID, ID, BUFFER, SIZE]),
    "hc_attr_dims": (INT, [ID, TEXT, INT, EXTENTS]),
    "hc_get_numbers": (ID, [ID, TEXT, INT, SIZE, BUFFER]),
    "hc_get_string": (ID, [ID, TEXT, BUFFER, SIZE]),
    "hc_get_strings": (STRINGS, [ID, TEXT, ctypes.POINTER(SIZE)]),
}
#: NumPy's type for each `hc_type`.
TYPES = [None, "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


class Request(ctypes.Structure):
    """`hc_read_request`."""

    _fields_ = [
        ("dset", ID),
        ("type", INT),
        ("start", EXTENTS),
        ("count", EXTENTS),
        ("stride", EXTENTS),
        ("buf", BUFFER),
    ]


@pytest.fixture(scope="module")
def c() -> ctypes.CDLL:
    """The library with its functions declared."""
    library = ctypes.CDLL(str(native.c_library()))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def numbers(*values: int) -> Any:
    return (ctypes.c_uint64 * len(values))(*values)


def dims(c: ctypes.CDLL, dset: int) -> tuple[int, ...]:
    found = numbers(*[0] * 32)
    rank = c.hc_dims(dset, 32, found)
    assert rank >= 0, c.hc_error()
    return tuple(found[:rank])


def name_of(function: Any, object: int, number: int) -> bytes:
    length = function(object, number, None, 0)
    text = ctypes.create_string_buffer(length + 1)
    assert function(object, number, text, length + 1) == length
    return text.value


def taken(c: ctypes.CDLL, strings: Any, number: SIZE) -> list[bytes]:
    """Returns strings that the library gave, and frees them."""
    assert strings, c.hc_error()
    found = [strings[index] for index in range(number.value)]
    assert strings[number.value] is None
    c.hc_free(strings)
    return found


def read(c: ctypes.CDLL, dset: int, number: int, shape: tuple[int, ...], *places: Any) -> np.ndarray:
    values = np.zeros(shape, TYPES[number])
    status = c.hc_read(dset, number, *(places or (None, None, None)), values.ctypes.data)
    assert status == 0, c.hc_error()
    return values


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name in TYPES[1:]:
            file[f"types/{name}"] = np.arange(24, dtype=name).reshape(2, 3, 4)
        file["big"] = np.arange(-3, 3, dtype=">i4")
        file["half"] = np.arange(5, dtype="f2")
        file["flag"] = np.array([True, False, True])
        file["scalar"] = 7.5
        file["empty"] = h5py.Empty("f4")
        file["none"] = np.zeros((0, 3))
        file["compound"] = np.array([(1, 2.5), (3, 4.5)], [("a", "i2"), ("b", "f8")])
        file["text"] = np.array([b"one", b"three", b""], "S5")
        file.create_dataset("strings", data=["eins", "zwölf", ""], dtype=h5py.string_dtype())
        file.create_dataset("gzip", data=np.arange(1000).reshape(50, 20), chunks=(7, 20), compression="gzip")
        file["soft"] = h5py.SoftLink("/types/i4")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["gzip"].attrs["units"] = "m"
        file["gzip"].attrs["range"] = np.array([1, 2, 3], "i2")
        file["gzip"].attrs.create("names", ["a", "bc"], dtype=h5py.string_dtype())
        file.attrs["title"] = np.bytes_(b"fixed")
    return path


def test_values_in_every_type(c: ctypes.CDLL, path: Path) -> None:
    file = c.hc_open(os.fsencode(path))
    assert file > 0, c.hc_error()
    with h5py.File(path) as theirs:
        for number, name in enumerate(TYPES[1:], 1):
            assert name is not None
            dset = c.hc_open_dataset(file, f"types/{name}".encode())
            assert (c.hc_type_of(dset, None), dims(c, dset)) == (number, (2, 3, 4))
            for other in range(1, 11):
                np.testing.assert_array_equal(read(c, dset, other, (2, 3, 4)), theirs[f"types/{name}"][...])
        for name, number in [("big", 3), ("half", 9), ("flag", 1), ("soft", 3)]:
            dset = c.hc_open_dataset(file, name.encode())
            found = theirs[name][...]
            assert c.hc_type_of(dset, None) in (number, 5)
            np.testing.assert_array_equal(read(c, dset, c.hc_type_of(dset, None), found.shape), found)
        assert read(c, c.hc_open_dataset(file, b"scalar"), 10, ()) == 7.5
        for name in (b"empty", b"none"):
            dset = c.hc_open_dataset(file, name)
            assert c.hc_read(dset, 10, None, None, None, None) == 0, c.hc_error()
        dset = c.hc_open_dataset(file, b"compound")
        assert (c.hc_class_of(dset, None), c.hc_type_of(dset, None), c.hc_element_size(dset, None)) == (6, 0, 10)
        stored = np.zeros(20, "u1")
        assert c.hc_read(dset, 0, None, None, None, stored.ctypes.data) == 0
        assert stored.tobytes() == theirs["compound"][...].tobytes()
        # Numbers beyond a type's range become the nearest.
        assert read(c, c.hc_open_dataset(file, b"big"), 5, (6,)).tolist() == [0, 0, 0, 0, 1, 2]
    assert c.hc_close(file) == 0


def test_parts_and_many_at_once(c: ctypes.CDLL, path: Path) -> None:
    file = c.hc_open(os.fsencode(path))
    dset = c.hc_open_dataset(file, b"gzip")
    expected = np.arange(1000).reshape(50, 20)
    for start, count, stride in [((3, 1), (5, 6), (9, 3)), ((49, 0), (1, 20), (1, 1)), ((0, 0), (0, 20), (1, 1))]:
        places = [numbers(*start), numbers(*count), numbers(*stride)]
        part = expected[tuple(slice(a, a + n * s, s) for a, n, s in zip(start, count, stride, strict=True))]
        np.testing.assert_array_equal(read(c, dset, 4, part.shape, *places), part)
    np.testing.assert_array_equal(read(c, dset, 4, (7, 4), numbers(1, 2), None, numbers(7, 5)), expected[1::7, 2::5])
    np.testing.assert_array_equal(read(c, dset, 4, (2, 20), None, numbers(2, 20), None), expected[:2])
    for start, count, stride in [((51, 0), None, None), ((0, 0), (51, 20), None), (None, None, (0, 1))]:
        places = [None if one is None else numbers(*one) for one in (start, count, stride)]
        assert c.hc_read(dset, 4, *places, np.zeros(1020).ctypes.data) == -1
        assert b"/gzip" in c.hc_error()
    texts = c.hc_open_dataset(file, b"types/f8")
    first, second = np.zeros((2, 20), "f4"), np.zeros((2, 3, 4), "i2")
    requests = (Request * 2)(
        Request(dset, 9, numbers(10, 0), numbers(2, 20), None, first.ctypes.data),
        Request(texts, 2, None, None, None, second.ctypes.data),
    )
    assert c.hc_read_many(2, requests) == 0, c.hc_error()
    np.testing.assert_array_equal(first, expected[10:12])
    np.testing.assert_array_equal(second, np.arange(24).reshape(2, 3, 4))
    assert c.hc_close(file) == 0
    # What was opened stays usable.
    np.testing.assert_array_equal(read(c, dset, 4, (50, 20)), expected)


def test_members_attributes_strings_and_chunks(c: ctypes.CDLL, path: Path) -> None:
    file = c.hc_open(os.fsencode(path))
    with h5py.File(path) as theirs:
        names = [name_of(c.hc_member_name, file, number).decode() for number in range(c.hc_member_count(file))]
        assert names == sorted(theirs)
        kinds = {name: c.hc_kind(file, name.encode()) for name in [*names, "missing"]}
        assert (kinds["types"], kinds["gzip"], kinds["soft"], kinds["dangling"], kinds["missing"]) == (1, 2, 2, 0, 0)
        dset = c.hc_open_dataset(file, b"gzip")
        attributes = [name_of(c.hc_attr_name, dset, number) for number in range(c.hc_attr_count(dset))]
        assert attributes == [b"names", b"range", b"units"]
        values = np.zeros(3, "f8")
        assert c.hc_get_numbers(dset, b"range", 10, 0, None) == 3
        assert c.hc_get_numbers(dset, b"range", 10, 3, values.ctypes.data) == 3
        assert values.tolist() == [1, 2, 3]
        assert c.hc_get_numbers(dset, b"range", 10, 2, values.ctypes.data) == -1
        extent = numbers(0)
        assert (c.hc_attr_dims(dset, b"range", 1, extent), extent[0]) == (1, 3)
        text = ctypes.create_string_buffer(3)
        assert (c.hc_get_string(file, b"title", text, 3), text.value) == (5, b"fi")
        assert c.hc_get_string(dset, b"names", text, 3) == -1
        assert b"hc_get_strings" in c.hc_error()
        number = SIZE()
        assert taken(c, c.hc_get_strings(dset, b"names", ctypes.byref(number)), number) == [b"a", b"bc"]
        assert not c.hc_get_strings(dset, b"range", ctypes.byref(number))
        for name in ("text", "strings"):
            found = c.hc_read_strings(c.hc_open_dataset(file, name.encode()), None, None, None, ctypes.byref(number))
            assert taken(c, found, number) == theirs[name][...].tolist()
        found = c.hc_read_strings(
            c.hc_open_dataset(file, b"strings"), numbers(1), numbers(1), None, ctypes.byref(number)
        )
        assert taken(c, found, number) == ["zwölf".encode()]
        mask, size = ctypes.c_uint32(9), SIZE(0)
        assert c.hc_read_chunk(dset, 0, numbers(14, 0), ctypes.byref(mask), None, ctypes.byref(size)) == 0
        stored = ctypes.create_string_buffer(size.value)
        assert c.hc_read_chunk(dset, 0, numbers(14, 0), ctypes.byref(mask), stored, ctypes.byref(size)) == 0
        assert (mask.value, stored.raw) == theirs["gzip"].id.read_direct_chunk((14, 0))
        assert c.hc_read_chunk(dset, 0, numbers(15, 0), None, None, ctypes.byref(size)) == -1
    assert c.hc_close(file) == 0


def test_errors_say_what_to_do(c: ctypes.CDLL, path: Path, tmp_path: Path) -> None:
    assert c.hc_open(os.fsencode(tmp_path / "missing.h5")) == -1
    assert b"missing.h5" in c.hc_error()
    file = c.hc_open(os.fsencode(path))
    stored = ctypes.create_string_buffer(8)
    for failed, told in [
        (lambda: c.hc_open_dataset(file, b"types"), b"dataset"),
        (lambda: c.hc_open_group(file, b"gzip"), b"group"),
        (lambda: c.hc_create_group(file, b"g"), b"open for reading"),
        (lambda: c.hc_flush(file), b"open for reading"),
        (lambda: c.hc_discard(file), b"open for reading"),
        (lambda: c.hc_resize(c.hc_open_dataset(file, b"gzip"), numbers(1, 1)), b"open for reading"),
        (lambda: c.hc_read(c.hc_open_dataset(file, b"text"), 4, None, None, None, stored), b"/text"),
        (lambda: c.hc_read(c.hc_open_dataset(file, b"gzip"), 11, None, None, None, stored), b"type 11"),
        (lambda: c.hc_read(c.hc_open_dataset(file, b"gzip"), 4, None, None, None, None), b"buf is NULL"),
        (lambda: c.hc_get_numbers(file, b"nothing", 4, 0, None), b"no attribute nothing"),
        (lambda: c.hc_member_name(file, 1000, None, 0), b"no member 1000"),
        (lambda: c.hc_read(file, 4, None, None, None, stored), b"expected a dataset"),
    ]:
        assert failed() == -1
        assert told in c.hc_error(), c.hc_error()
    assert c.hc_close(file) == 0
    assert c.hc_read(file, 4, None, None, None, None) == -1
    made = c.hc_create(os.fsencode(tmp_path / "new.h5"), 0)
    assert c.hc_member_count(made) == -1
    assert b"being written" in c.hc_error()
    assert c.hc_close(made) == 0
    c.hc_free(None)


def test_live_datasets_and_stores(c: ctypes.CDLL, tmp_path: Path) -> None:
    live = tmp_path / "live.h5"
    with hyperchunk.open(live, "w") as file:
        file["a"] = np.arange(6.0)
    hyperchunk.udf.attach(live, outputs="double", expression="a * 2", unsigned=True)
    file = c.hc_open(os.fsencode(live))
    assert read(c, c.hc_open_dataset(file, b"double"), 10, (6,)).tolist() == [0, 2, 4, 6, 8, 10]
    run = hyperchunk.store.create(tmp_path / "run.h5", {"/x": hyperchunk.store.Dataset((10,), "i4")})
    with run.writer() as writer:
        writer["/x"][2:5] = 7
    run.commit()
    file = c.hc_open(os.fsencode(tmp_path / "run.h5"))
    assert read(c, c.hc_open_dataset(file, b"x"), 3, (10,)).tolist() == [0, 0, 7, 7, 7, 0, 0, 0, 0, 0]


def corpus() -> Iterator[Path]:
    for folder in CORPUS:
        files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size < 1 << 20)
        # h5py may crash on files that were made to attack it.
        yield from (path for path in files if "cve" not in path.name.lower())


def test_numbers_and_strings_of_the_corpus(c: ctypes.CDLL) -> None:
    """Equal to h5py's, wherever both read."""
    compared = 0
    for path in corpus():
        try:
            theirs = h5py.File(path, "r")
        except OSError:
            continue
        with theirs:
            datasets: list[str] = []

            def note(name: str, found: Any, to: list[str] = datasets) -> None:
                if isinstance(found, h5py.Dataset):
                    to.append(name)

            # Of damaged files, h5py names the datasets up to the damage.
            with contextlib.suppress(RuntimeError, OSError, KeyError, ValueError, TypeError):
                theirs.visititems(note)
            file = c.hc_open(os.fsencode(path))
            if file < 0:
                continue
            for name in datasets:
                try:
                    kind = theirs[name].dtype
                    if kind.kind not in "iufbOS" or h5py.check_ref_dtype(kind) or h5py.check_vlen_dtype(kind):
                        continue
                    expected = theirs[name][()]
                except (OSError, TypeError, ValueError, KeyError):
                    continue
                dset = c.hc_open_dataset(file, name.encode())
                assert dset > 0, (path, name, c.hc_error())
                number = c.hc_type_of(dset, None)
                if isinstance(expected, h5py.Empty) or number < 0:
                    continue
                if number > 0 and kind.kind in "iufb" and kind.itemsize <= 8:
                    found = read(c, dset, number, np.shape(expected))
                    np.testing.assert_array_equal(found, expected, f"{path} {name}")
                    compared += 1
                elif c.hc_class_of(dset, None) == 3 and np.size(expected):
                    size = SIZE()
                    given = c.hc_read_strings(dset, None, None, None, ctypes.byref(size))
                    mine = taken(c, given, size)
                    texts = [one.split(b"\0")[0] for one in np.ravel(expected).tolist()]
                    if theirs[name].id.get_type().get_strpad() == h5py.h5t.STR_SPACEPAD:
                        texts = [text.rstrip(b" ") for text in texts]
                    assert texts == mine, (path, name)
                    compared += 1
            assert c.hc_close(file) == 0
    assert compared > (1000 if len(CORPUS) == 2 else 100)


def test_the_example_lists_a_file(c: ctypes.CDLL, path: Path, tmp_path: Path) -> None:
    environment = native.environment() | {"OUT": str(tmp_path), "PROFILE": "debug"}
    environment["CARGO_TARGET_DIR"] = str(native.target_dir())
    made = ["make", "-C", str(ROOT / "examples" / "c"), str(tmp_path / "read_file")]
    subprocess.run(made, env=environment, check=True, capture_output=True)
    done = subprocess.run([tmp_path / "read_file", path], capture_output=True, text=True, check=True)
    assert '/gzip  50 x 20: 0 1 2 3\n    @names\n    @range\n    @units = "m"\n' in done.stdout
    assert "/dangling  (dangling link)" in done.stdout
    done = subprocess.run([tmp_path / "read_file", path, "gzip"], capture_output=True, check=True)
    assert np.frombuffer(done.stdout, "f8").tolist() == list(range(1000))
    failed = subprocess.run([tmp_path / "read_file", tmp_path], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith("read_file: ")
