"""The writer for C: h5py reads files of a C program, and errors have a text."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import native
import numpy as np
import pytest
from test_c_reads import SIGNATURES as READS

ROOT = Path(__file__).resolve().parents[2]

INT32, INT64, FLOAT32, FLOAT64 = 3, 4, 9, 10
NOT_DEFLATED, UNLIMITED = -1, 2**64 - 1
INT, ID, TEXT, BUFFER = ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p
EXTENTS = ctypes.POINTER(ctypes.c_uint64)
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "hc_error": (TEXT, []),
    "hc_create": (ID, [TEXT, ctypes.c_uint]),
    "hc_open_rw": (ID, [TEXT]),
    "hc_open_dataset": (ID, [ID, TEXT]),
    "hc_open_group": (ID, [ID, TEXT]),
    "hc_dims": (INT, [ID, INT, EXTENTS]),
    "hc_flush": (INT, [ID]),
    "hc_close": (INT, [ID]),
    "hc_discard": (INT, [ID]),
    "hc_create_group": (ID, [ID, TEXT]),
    "hc_create_dataset": (ID, [ID, TEXT, INT, INT, EXTENTS, EXTENTS, EXTENTS, INT, INT]),
    "hc_write_chunk": (INT, [ID, ID, ctypes.c_uint32, EXTENTS, ctypes.c_size_t, BUFFER]),
    "hc_read_chunk": (
        INT,
        [ID, ID, EXTENTS, ctypes.POINTER(ctypes.c_uint32), BUFFER, ctypes.POINTER(ctypes.c_size_t)],
    ),
    "hc_write": (INT, [ID, INT, BUFFER]),
    "hc_resize": (INT, [ID, EXTENTS]),
    "hc_set_numbers": (INT, [ID, TEXT, INT, ctypes.c_size_t, BUFFER]),
    "hc_set_string": (INT, [ID, TEXT, TEXT]),
}


@pytest.fixture(scope="module")
def library_path() -> Path:
    """Builds the library."""
    return native.c_library()


@pytest.fixture(scope="module")
def c(library_path: Path) -> ctypes.CDLL:
    """The library with its functions declared."""
    library = ctypes.CDLL(str(library_path))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def extents(*values: int) -> Any:
    return (ctypes.c_uint64 * len(values))(*values)


def test_the_header_declares_what_the_library_has(library_path: Path) -> None:
    header = (ROOT / "include" / "hyperchunk.h").read_text()
    declared = {
        word.split("(")[0].lstrip("*") for word in header.split() if word.lstrip("*").startswith("hc_") and "(" in word
    }
    assert declared == set(SIGNATURES) | set(READS)


def test_direct_chunk_write_in_c(tmp_path: Path, library_path: Path) -> None:
    """The program of the RFC's Appendix B."""
    compiler, make = shutil.which(os.environ.get("CC", "cc")), shutil.which("make")
    if compiler is None or make is None:
        pytest.skip("no C compiler")
    built = subprocess.run(
        [make, "-C", ROOT / "examples" / "c", f"OUT={tmp_path}", "PROFILE=debug"],
        env=native.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if "zlib.h" in built.stderr:
        pytest.skip("no zlib to compile with")
    assert built.returncode == 0, built.stderr
    path = tmp_path / "out.h5"
    done = subprocess.run([tmp_path / "write_chunk", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "16 chunks of 64 bytes" in done.stdout
    expected = np.tile(np.arange(16, dtype="i4").reshape(4, 4), (4, 4))
    for opened in (h5py.File(path), hyperchunk.open(path)):
        with opened as file:
            np.testing.assert_array_equal(file["data"][...], expected)
            assert file["data"].attrs["made by"] == "examples/c/write_chunk.c"
            assert file["data"].maxshape == (None, None)
    with h5py.File(path) as file:
        masks = [file["data"].id.read_direct_chunk((12, y))[0] for y in (0, 4, 8, 12)]
        assert masks == [0, 0, 0, 1]
    refused = subprocess.run(
        [tmp_path / "write_chunk", tmp_path / "no" / "x.h5"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith("hc_create: ")
    assert "no/x.h5" in refused.stderr


def test_everything_there_is(c: ctypes.CDLL, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    file = c.hc_create(str(path).encode(), 0)
    group = c.hc_create_group(file, "Gruppe ä".encode())
    whole = c.hc_create_dataset(group, b"whole", FLOAT64, 1, extents(1000), None, None, 0, NOT_DEFLATED)
    grows = c.hc_create_dataset(file, b"grows", INT32, 2, extents(2, 5), extents(UNLIMITED, 5), extents(2, 3), 1, 4)
    scalar = c.hc_create_dataset(file, b"scalar", INT64, 0, None, None, None, 0, NOT_DEFLATED)
    assert min(file, group, whole, grows, scalar) > 0, c.hc_error()
    values = np.arange(1000, dtype="f4")
    numbers = np.arange(20, dtype="i4").reshape(4, 5)
    assert c.hc_write(whole, FLOAT32, values.ctypes.data) == 0
    assert c.hc_resize(grows, extents(4, 5)) == 0
    assert c.hc_write(grows, INT32, numbers.ctypes.data) == 0
    assert c.hc_write(scalar, INT64, np.array(-7, dtype="i8").ctypes.data) == 0
    assert c.hc_set_string(group, b"text", "groß".encode()) == 0
    assert c.hc_set_numbers(file, b"one", FLOAT64, 0, np.array(1.5).ctypes.data) == 0
    assert c.hc_set_numbers(grows, b"three", INT32, 3, np.arange(3, dtype="i4").ctypes.data) == 0
    assert c.hc_close(group) == 0
    assert c.hc_flush(grows) == 0
    plain = np.full((2, 3), 9, dtype="i4")
    assert c.hc_write_chunk(grows, 0, 3, extents(2, 0), plain.nbytes, plain.ctypes.data) == 0
    mask, size = ctypes.c_uint32(), ctypes.c_size_t()
    assert c.hc_read_chunk(grows, 0, extents(2, 0), ctypes.byref(mask), None, ctypes.byref(size)) == 0
    assert (mask.value, size.value) == (3, 24)
    found = np.zeros((2, 3), dtype="i4")
    assert c.hc_read_chunk(grows, 0, extents(2, 0), None, found.ctypes.data, ctypes.byref(size)) == 0
    np.testing.assert_array_equal(found, plain)
    size.value = 23
    assert c.hc_read_chunk(grows, 0, extents(2, 0), None, found.ctypes.data, ctypes.byref(size)) == -1
    assert b"23 bytes for a chunk of 24" in c.hc_error()
    with h5py.File(path) as before:  # as flushed
        np.testing.assert_array_equal(before["grows"][...], numbers)
    assert c.hc_close(file) == 0
    numbers[2:4, :3] = 9
    with h5py.File(path) as after:
        np.testing.assert_array_equal(after["Gruppe ä/whole"][...], values)
        np.testing.assert_array_equal(after["grows"][...], numbers)
        assert after["scalar"][()] == -7
        assert after["Gruppe ä"].attrs["text"] == "groß"
        assert after.attrs["one"] == 1.5
        np.testing.assert_array_equal(after["grows"].attrs["three"], [0, 1, 2])


def test_mistakes_are_errors(c: ctypes.CDLL, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    file = c.hc_create(str(path).encode(), 1)
    dset = c.hc_create_dataset(file, b"d", INT32, 1, extents(8), None, extents(4), 0, 1)
    data = np.zeros(4, dtype="i4").ctypes.data
    tries: list[tuple[Callable[[], int], str]] = [
        (lambda: c.hc_create(None, 0), "NULL"),
        (lambda: c.hc_create(str(path).encode(), 2), "flags"),
        (lambda: c.hc_create(b"nowhere://x/y", 0), "nowhere"),
        (lambda: c.hc_create_group(99, b"g"), "99 is no open"),
        (lambda: c.hc_create_group(file, b""), "empty"),
        (lambda: c.hc_create_group(file, b"d"), "exists"),
        (lambda: c.hc_create_dataset(file, b"e", 77, 0, None, None, None, 0, -1), "type 77"),
        (lambda: c.hc_create_dataset(file, b"e", INT32, 33, extents(1), None, None, 0, -1), "33 dimensions"),
        (lambda: c.hc_create_dataset(file, b"e", INT32, 1, None, None, None, 0, -1), "dims is NULL"),
        (lambda: c.hc_create_dataset(file, b"e", INT32, 1, extents(8), None, extents(4), 0, 12), "12"),
        (lambda: c.hc_create_dataset(file, b"e", INT32, 1, extents(8), None, None, 1, -1), "chunks"),
        (lambda: c.hc_write_chunk(dset, 0, 0, extents(3), 4, data), "multiples of 4"),
        (lambda: c.hc_write_chunk(dset, 0, 0, extents(8), 4, data), "beyond"),
        (lambda: c.hc_write_chunk(dset, 0, 0, extents(4), 0, data), "without bytes"),
        (lambda: c.hc_write_chunk(dset, 0, 0, extents(4), 4, None), "NULL"),
        (lambda: c.hc_write_chunk(dset, 0, 0, None, 4, data), "offset is NULL"),
        (lambda: c.hc_write_chunk(file, 0, 0, extents(4), 4, data), "expected a dataset"),
        (lambda: c.hc_write(dset, INT32, None), "NULL"),
        (lambda: c.hc_resize(dset, extents(9)), "its maximum is 8"),
        (lambda: c.hc_set_string(file, b"s", b"\xff"), "UTF-8"),
        (lambda: c.hc_close(12345), "12345"),
    ]
    for attempt, message in tries:
        assert attempt() == -1, message
        assert message in c.hc_error().decode(), c.hc_error()
    here = c.hc_error()
    told: list[bytes] = []
    other = threading.Thread(target=lambda: told.append(c.hc_error()))
    other.start()
    other.join()
    assert told == [b""], "errors are a thread's own"
    assert c.hc_error() == here
    assert c.hc_discard(file) == 0
    assert list(tmp_path.glob("a.h5*")) == []
    assert c.hc_write_chunk(dset, 0, 0, extents(4), 4, data) == -1


def test_many_threads_write_chunks(c: ctypes.CDLL, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    file = c.hc_create(str(path).encode(), 0)
    dset = c.hc_create_dataset(file, b"d", INT32, 2, extents(64, 1000), None, extents(1, 1000), 0, 1)
    rows = np.random.default_rng(1).integers(0, 100, (64, 1000), dtype="i4")

    def write(first: int) -> None:
        for row in range(first, 64, 4):
            packed = zlib.compress(rows[row].tobytes(), 1)
            assert c.hc_write_chunk(dset, 0, 0, extents(row, 0), len(packed), packed) == 0

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert c.hc_close(file) == 0
    with h5py.File(path) as written:
        np.testing.assert_array_equal(written["d"][...], rows)


# --- Existing files ---


@pytest.fixture
def existing(tmp_path: Path) -> Path:
    path = tmp_path / "existing.h5"
    with h5py.File(path, "w") as file:
        frames = file.create_dataset(
            "detector/frames",
            data=np.arange(200, dtype="<i4").reshape(2, 10, 10),
            chunks=(1, 10, 10),
            maxshape=(None, 10, 10),
            compression="gzip",
        )
        frames.attrs["units"] = "counts"
        file["plain"] = np.arange(10.0)
        file["soft"] = h5py.SoftLink("/detector/frames")
        file["external"] = h5py.ExternalLink("other.h5", "/x")
    return path


def write_chunk(c: ctypes.CDLL, dset: int, offset: tuple[int, ...], data: bytes, mask: int = 0) -> int:
    return int(c.hc_write_chunk(dset, 0, mask, extents(*offset), len(data), data))


def test_chunks_of_an_existing_dataset_are_replaced(c: ctypes.CDLL, existing: Path) -> None:
    """By smaller and larger ones, and by one without filters; and the dataset grows."""
    random = np.random.default_rng(3).integers(2**30, size=(10, 10), dtype="<i4")
    zeros = np.zeros((10, 10), "<i4")
    file = c.hc_open_rw(str(existing).encode())
    assert file > 0, c.hc_error()
    group = c.hc_open_group(file, b"detector")
    frames = c.hc_open_dataset(group, b"frames")
    dims = extents(0, 0, 0)
    assert c.hc_dims(frames, 3, dims) == 3
    assert list(dims) == [2, 10, 10]
    assert write_chunk(c, frames, (0, 0, 0), zlib.compress(zeros.tobytes())) == 0
    assert write_chunk(c, frames, (1, 0, 0), zlib.compress(random.tobytes())) == 0
    assert c.hc_flush(file) == 0
    assert write_chunk(c, frames, (0, 0, 0), random.tobytes(), mask=1) == 0
    assert c.hc_resize(frames, extents(4, 10, 10)) == 0
    assert write_chunk(c, frames, (3, 0, 0), zlib.compress((random + 1).tobytes())) == 0
    # Chunks that were there before, and those that are not written yet, are read back.
    room, mask = ctypes.c_size_t(0), ctypes.c_uint32(7)
    assert c.hc_read_chunk(frames, 0, extents(0, 0, 0), mask, None, room) == 0
    assert (room.value, mask.value) == (400, 1)
    assert c.hc_set_numbers(frames, b"scale", FLOAT64, 0, np.array([2.5]).tobytes()) == 0
    added = c.hc_create_dataset(group, b"added", INT32, 1, extents(3), None, None, 0, NOT_DEFLATED)
    assert c.hc_write(added, INT32, np.array([1, 2, 3], "<i4").tobytes()) == 0
    assert c.hc_close(file) == 0
    with h5py.File(existing) as read:
        found = read["detector/frames"]
        assert found.shape == (4, 10, 10)
        np.testing.assert_array_equal(found[()], [random, random, zeros, random + 1])
        assert found.id.read_direct_chunk((0, 0, 0)) == (1, random.tobytes())
        assert dict(found.attrs) == {"units": "counts", "scale": 2.5}
        assert list(read["detector/added"]) == [1, 2, 3]
        assert list(read["plain"]) == list(range(10))


def test_discarded_edit_changes_nothing(c: ctypes.CDLL, existing: Path) -> None:
    before = existing.read_bytes()
    file = c.hc_open_rw(str(existing).encode())
    frames = c.hc_open_dataset(file, b"/soft")
    assert write_chunk(c, frames, (0, 0, 0), b"x" * 5000) == 0
    assert c.hc_write(c.hc_open_dataset(file, b"plain"), FLOAT64, np.zeros(10).tobytes()) == 0
    assert c.hc_discard(file) == 0
    assert existing.read_bytes() == before
    assert not existing.with_name("existing.h5.redo").exists()


def test_edits_that_fail(c: ctypes.CDLL, existing: Path) -> None:
    def fails(result: int, why: str) -> None:
        assert result == -1
        assert why in c.hc_error().decode()

    fails(c.hc_open_rw(str(existing.with_name("none.h5")).encode()), "none.h5")
    fails(c.hc_open_rw(b"s3://bucket/a.h5"), "expected a local file, got a URL")
    file = c.hc_open_rw(str(existing).encode())
    fails(c.hc_open_rw(str(existing).encode()), "edits it already")
    fails(c.hc_open_dataset(file, b"/detector/none"), "none")
    fails(c.hc_open_dataset(file, b"/external"), "other.h5")
    fails(c.hc_open_group(file, b"/plain"), "no group")
    assert c.hc_open_dataset(file, b"/detector") == -1
    frames, plain = c.hc_open_dataset(file, b"/detector/frames"), c.hc_open_dataset(file, b"/plain")
    fails(write_chunk(c, frames, (0, 1, 0), b"x"), "chunks begin at multiples")
    fails(write_chunk(c, frames, (2, 0, 0), b"x"), "beyond the extent")
    fails(write_chunk(c, plain, (0,), b"x"), "not stored in chunks")
    fails(c.hc_dims(frames, 2, extents(0, 0)), "room for 2 values, expected 3")
    assert c.hc_dims(frames, 0, None) == 3
    fails(c.hc_create_group(file, b"plain"), "exists")
    assert c.hc_close(file) == 0
    with h5py.File(existing) as read:
        assert read["detector/frames"].shape == (2, 10, 10)
