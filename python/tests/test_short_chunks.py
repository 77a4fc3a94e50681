"""Files of writers that deviate from libhdf5: chunks stored without padding, and layouts with another element size
than the datatype's.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import CorruptError, FilterError, HyperchunkError

LIBVERS = ["earliest", "latest"]


def _shuffled(data: bytes, size: int) -> bytes:
    whole = np.frombuffer(data, "u1").reshape(-1, size)
    return np.ascontiguousarray(whole.T).tobytes()


def _fletcher32(data: bytes) -> bytes:
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2").astype("u8")
    low = high = 0
    for word in words.tolist():
        low = (low + word) % 65535
        high = (high + low) % 65535
    return data + struct.pack("<HH", low, high)


CODERS: dict[str, tuple[dict[str, Any], Callable[[bytes], bytes]]] = {
    "plain": ({}, lambda data: data),
    "gzip": ({"compression": "gzip"}, zlib.compress),
    "shuffle": ({"shuffle": True, "compression": "gzip"}, lambda data: zlib.compress(_shuffled(data, 4))),
    "fletcher32": ({"fletcher32": True}, _fletcher32),
}


@pytest.mark.parametrize("libver", LIBVERS)
@pytest.mark.parametrize(("options", "code"), CODERS.values(), ids=CODERS.keys())
@pytest.mark.parametrize(
    ("shape", "chunk"), [((15,), (10,)), ((10,), (8,)), ((7, 3), (4, 3)), ((9, 5), (4, 3)), ((3, 3, 3), (2, 2, 2))]
)
def test_chunks_that_end_with_the_extent(
    tmp_path: Path, libver: str, options: dict[str, Any], code: Any, shape: tuple[int, ...], chunk: tuple[int, ...]
) -> None:
    path = tmp_path / "short.h5"
    values = np.arange(np.prod(shape), dtype="<i4").reshape(shape) + 1
    with h5py.File(path, "w", libver=libver) as file:
        maxshape = (None, *shape[1:])
        data = file.create_dataset("d", shape, "<i4", chunks=chunk, maxshape=maxshape, **options)
        for start in np.ndindex(*[-(-n // c) for n, c in zip(shape, chunk, strict=True)]):
            first = tuple(s * c for s, c in zip(start, chunk, strict=True))
            part = values[tuple(slice(f, f + c) for f, c in zip(first, chunk, strict=True))]
            whole = np.zeros(chunk, "<i4")
            whole[tuple(slice(0, n) for n in part.shape)] = part
            last = np.ravel_multi_index(tuple(n - 1 for n in part.shape), chunk)
            kept = whole.ravel()[: last + 1].tobytes()
            if not options and len(kept) < whole.nbytes and libver == "latest":
                kept = whole.tobytes()  # unfiltered chunks of the new indexes have no stored size
            data.id.write_direct_chunk(first, code(kept))
    with hyperchunk.open(path) as file:
        data = file["d"]
        assert (data[()] == values).all()
        assert (data[-1:] == values[-1:]).all()
        assert data[(-1,) * len(shape)] == values[(-1,) * len(shape)]
        assert (data[[0, shape[0] - 1]] == values[[0, shape[0] - 1]]).all()
        assert (file.read_many(["d"])[0] == values).all()
        assert (data.astype("f8")[()] == values).all()


@pytest.mark.parametrize(("options", "code"), [CODERS["gzip"], CODERS["shuffle"], CODERS["fletcher32"]])
@pytest.mark.parametrize(("start", "count"), [(8, 1), (8, 0), (0, 7)])
def test_chunks_that_lack_elements_of_the_extent(
    tmp_path: Path, options: dict[str, Any], code: Any, start: int, count: int
) -> None:
    path = tmp_path / "lacking.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("d", (10,), "<i4", chunks=(8,), **options)
        data[:] = 1
        data.id.write_direct_chunk((start,), code(np.arange(count, dtype="<i4").tobytes()))
    with pytest.raises(FilterError):
        hyperchunk.open(path)["d"][()]


def test_a_short_chunk_of_a_dataset_that_grew(tmp_path: Path) -> None:
    path = tmp_path / "grown.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("d", (10,), "<i4", chunks=(8,), maxshape=(None,), compression="gzip")
        data.id.write_direct_chunk((8,), zlib.compress(np.arange(2, dtype="<i4").tobytes()))
        data.resize((12,))
    with pytest.raises(FilterError, match="8 bytes after its filters instead of 32"):
        hyperchunk.open(path)["d"][()]


def test_a_short_chunk_is_packed_whole(tmp_path: Path) -> None:
    path = tmp_path / "short.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("d", (10,), "<i4", chunks=(8,), compression="gzip")
        data.id.write_direct_chunk((0,), zlib.compress(np.arange(8, dtype="<i4").tobytes()))
        data.id.write_direct_chunk((8,), zlib.compress(np.arange(8, 10, dtype="<i4").tobytes()))
    from hyperchunk import _core

    assert _core.run_command(["hyperchunk", "pack", str(path), str(tmp_path / "out.h5"), "--filters", "deflate"]) == 0
    assert (hyperchunk.open(tmp_path / "out.h5")["d"][()] == np.arange(10)).all()


def _with_element_size(path: Path, dtype: str, size: int, **options: Any) -> np.ndarray:
    """Makes an h5py file whose layout message has a different element size."""
    values = np.arange(24).astype(dtype)
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        file.create_dataset("d", data=values, **options)
    data = bytearray(path.read_bytes())
    chunk, real = options["chunks"][0], values.dtype.itemsize
    # Layout message, version 4, chunked: flags, rank 2, one byte per dimension.
    at = next(
        at
        for at in range(len(data) - 7)
        if data[at : at + 2] == b"\x04\x02" and data[at + 3 : at + 7] == bytes([2, 1, chunk, real])
    )
    data[at + 6] = size
    start = data.rindex(b"OHDR", 0, at)
    flags = data[start + 5]
    skip = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    end = start + skip + width + int.from_bytes(data[start + skip : start + skip + width], "little")
    data[end : end + 4] = struct.pack("<I", _lookup3(bytes(data[start:end])))
    path.write_bytes(data)
    return values


def _lookup3(data: bytes) -> int:
    mask = 0xFFFFFFFF

    def rotated(x: int, k: int) -> int:
        return ((x << k) | (x >> (32 - k))) & mask

    a = b = c = (0xDEADBEEF + len(data)) & mask
    at, left = 0, len(data)
    while left > 12:
        x, y, z = struct.unpack_from("<III", data, at)
        a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
        a = ((a - c) & mask) ^ rotated(c, 4)
        c = (c + b) & mask
        b = ((b - a) & mask) ^ rotated(a, 6)
        a = (a + c) & mask
        c = ((c - b) & mask) ^ rotated(b, 8)
        b = (b + a) & mask
        a = ((a - c) & mask) ^ rotated(c, 16)
        c = (c + b) & mask
        b = ((b - a) & mask) ^ rotated(a, 19)
        a = (a + c) & mask
        c = ((c - b) & mask) ^ rotated(b, 4)
        b = (b + a) & mask
        at, left = at + 12, left - 12
    if left == 0:
        return c
    x, y, z = struct.unpack("<III", data[at:] + b"\0" * (12 - left))
    a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
    for into, of, by in [
        ("c", "b", 14),
        ("a", "c", 11),
        ("b", "a", 25),
        ("c", "b", 16),
        ("a", "c", 4),
        ("b", "a", 14),
        ("c", "b", 24),
    ]:
        values = {"a": a, "b": b, "c": c}
        values[into] = ((values[into] ^ values[of]) - rotated(values[of], by)) & mask
        a, b, c = values["a"], values["b"], values["c"]
    return c


# Single chunk, fixed array, extensible array, version 2 B-tree.
@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (24,)},
        {"chunks": (24,), "compression": "gzip"},
        {"chunks": (6,)},
        {"chunks": (6,), "maxshape": (None,)},
    ],
)
@pytest.mark.parametrize(("dtype", "size"), [("<f8", 4), ("<i2", 4), ("<i8", 1), ("<u1", 4), ("<f4", 8)])
def test_layouts_with_another_size_of_elements(tmp_path: Path, options: dict[str, Any], dtype: str, size: int) -> None:
    path = tmp_path / "purehdf.h5"
    values = _with_element_size(path, dtype, size, **options)
    with hyperchunk.open(path) as file:
        assert (file["d"][()] == values).all()
        assert (file["d"][5:9] == values[5:9]).all()


def test_a_size_of_elements_of_zero_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "zero.h5"
    _with_element_size(path, "<f8", 0, chunks=(24,))
    with pytest.raises(CorruptError):
        hyperchunk.open(path)["d"][()]


class TestRegisterFilter:
    NUMBER = 31777

    def _file(self, path: Path, *, shuffle: bool = False, keep: int | None = None) -> np.ndarray:
        values = np.arange(20, dtype="<i4")
        with h5py.File(path, "w") as file:
            space, plist = h5py.h5s.create_simple((20,)), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((5,))
            if shuffle:
                plist.set_shuffle()
            plist.set_filter(self.NUMBER, h5py.h5z.FLAG_OPTIONAL, (7, 9))
            data = h5py.h5d.create(file.id, b"d", h5py.h5t.STD_I32LE, space, plist)
            for start in range(0, 20, 5):
                part = values[start : start + 5].tobytes()
                part = _shuffled(part, 4) if shuffle else part
                data.write_direct_chunk((start,), bytes(255 - byte for byte in part)[:keep])
        return values

    @pytest.mark.parametrize("shuffle", [False, True])
    def test_it_is_called_for_each_chunk(self, tmp_path: Path, shuffle: bool) -> None:
        path = tmp_path / "own.h5"
        values = self._file(path, shuffle=shuffle)
        seen = []

        def undo(data: bytes, parameters: list[int], size: int | None) -> bytes:
            seen.append((len(data), tuple(parameters), size))
            return bytes(255 - byte for byte in data)

        hyperchunk.register_filter(self.NUMBER, undo, name="inverted")
        data = hyperchunk.open(path)["d"]
        assert (data[()] == values).all()
        assert seen == [(20, (7, 9), 20)] * 4
        assert data.filter_names[-1] == "inverted"
        assert (data[3:8] == values[3:8]).all()

    def test_what_it_raises_and_returns(self, tmp_path: Path) -> None:
        path = tmp_path / "own.h5"
        self._file(path)
        for undo, message in [
            (lambda *_: 1 // 0, "modulo by zero"),
            (lambda *_: None, "register_filter"),
            (lambda *_: b"123", "3 bytes after its filters instead of 20"),
            (lambda *_: b"1" * (1 << 20), "1048576 bytes; the limit is"),
        ]:
            hyperchunk.register_filter(self.NUMBER, undo)
            with pytest.raises(HyperchunkError, match=message):
                hyperchunk.open(path)["d"][()]
        with pytest.raises(ValueError, match="filter 0"):
            hyperchunk.register_filter(0, undo)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"compression": "gzip", "shuffle": True, "fletcher32": True}, ("shuffle", "deflate", "fletcher32")),
        ({"compression": "lzf"}, ("lzf",)),
        ({"scaleoffset": 3}, ("scaleoffset",)),
        ({"compression": "szip"}, ("szip",)),
    ],
)
@pytest.mark.parametrize("libver", LIBVERS)
def test_filter_names(tmp_path: Path, libver: str, options: dict[str, Any], names: tuple[str, ...]) -> None:
    path = tmp_path / "names.h5"
    try:
        with h5py.File(path, "w", libver=libver) as file:
            file.create_dataset("d", data=np.arange(64), chunks=(32,), **options)
    except ValueError:
        pytest.skip("this HDF5 has no such filter")
    assert hyperchunk.open(path)["d"].filter_names == names


@pytest.mark.parametrize(
    ("shape", "chunks", "count", "early"),
    [
        ((10,), (10,), 1, False),
        ((10,), (4,), 3, True),
        ((4, 6), (2, 3), 4, False),
        ((10,), (4,), 3, False),
        ((10,), (20,), 1, True),
    ],
)
def test_an_index_counts_all_chunks(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], count: int, early: bool
) -> None:
    path = tmp_path / "one.h5"
    with h5py.File(path, "w", libver="latest") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(chunks)
        if early:
            plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple(shape, tuple(max(n, c) for n, c in zip(shape, chunks, strict=True)))
        data = h5py.Dataset(h5py.h5d.create(file.id, b"d", h5py.h5t.STD_I32LE, space, plist))
        data[...] = 1
    assert hyperchunk.index(path, tmp_path / "one.idx")["chunks"] == count
