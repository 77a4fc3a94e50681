"""Calls about single chunks: a store answers them like the native library."""

import json
import time
from pathlib import Path

import h5py
import pytest

from vol import helpers

# HDF5's information about the chunks of a dataset. Compressed ones are compared by their decoded contents, not by
# their masks: a chunk that gzip does not shrink is stored uncompressed. Elements outside the extent are left out, and
# values that the native library does not set: the mask and the size of a chunk without an address.
LOOK = """
import contextlib, ctypes, itertools, json, sys, zlib
import h5py, numpy as np
ID, N = ctypes.c_int64, ctypes.c_uint64
maps = [line.split()[-1] for line in open("/proc/self/maps") if "libhdf5" in line and "_hl" not in line]
hdf5 = ctypes.CDLL(maps[0])

def attempt(call, *arguments):
    try:
        return call(*arguments)
    except (OSError, RuntimeError, ValueError, KeyError, MemoryError):
        return "an error"

def known(info):
    if info == "an error":
        return info
    if info.byte_offset is None:
        return [info.size]
    return [list(info.chunk_offset), info.filter_mask, info.size]

def decoded(d, place, mask, raw):
    # Whatever the mask says: libhdf5 2.0.0 tells that of before for some chunks that it holds in memory.
    if d.compression == "gzip":
        with contextlib.suppress(zlib.error):
            raw = zlib.decompress(raw)
    inside = tuple(slice(n - at) for n, at in zip(d.shape, place))
    return np.frombuffer(raw, d.dtype).reshape(d.chunks)[inside].tolist()

def size_of(d, place):
    size = N(12345)
    told = hdf5.H5Dget_chunk_storage_size(ID(d.id.id), (N * len(place))(*place), ctypes.byref(size))
    # Of a dataset of which nothing was ever written, the native library says nothing.
    return "an error" if told < 0 else size.value % 12345

def sizes_of(d, places):
    return [size_of(d, place) for place in places]

def chunk(d, place):
    found = attempt(d.id.read_direct_chunk, place)
    return found if found == "an error" else decoded(d, place, *found)

def look(d):
    sizes = d.compression is None
    shown = lambda info: info if sizes or info == "an error" or len(info) < 3 else info[:1]
    number = attempt(d.id.get_num_chunks)
    if number == "an error":
        return number
    told = {"count": number, "stored": d.id.get_storage_size() if sizes else None, "offset": d.id.get_offset()}
    told["numbers"] = [shown(known(attempt(d.id.get_chunk_info, n))) for n in range(number + 1)]
    visited = []
    attempt(d.id.chunk_iter, lambda info: visited.append(shown(known(info))))
    told["visited"] = visited
    places = list(itertools.product(*(range(0, n + 3, 1 + n // 9) for n in d.shape)))
    found = [known(attempt(d.id.get_chunk_info_by_coord, place)) for place in places]
    told["places"] = [shown(info) for info in found]
    there = [place for place, info in zip(places, found) if len(info) == 3]
    told["sizes"] = [size if sizes else size > 0 for size in sizes_of(d, there)]
    told["chunks"] = [chunk(d, place) for place in places]
    told["status"] = d.id.get_space_status()
    return told

def raw(d, place, value):
    chunk = np.full(d.chunks, d.fillvalue, d.dtype)
    chunk[tuple(slice(n - at) for n, at in zip(d.shape, place))] = value
    return chunk.tobytes()
"""

STEPS = """
import os, random
random = random.Random(int(sys.argv[1]))
told = []

def pick(d):
    return tuple(random.randrange(n) for n in d.shape)

def step(d):
    if not all(d.shape):
        d.resize(tuple(max(n, 1) for n in d.shape))
    kind = random.choice("slab slab direct direct wrong shrink grow flush point".split())
    if kind == "slab":
        start = pick(d)
        d[tuple(slice(a, random.randint(a + 1, n)) for a, n in zip(start, d.shape))] = random.randrange(100)
    elif kind == "point":
        d[pick(d)] = random.randrange(100)
    elif kind in ("direct", "wrong"):
        place = tuple(a // c * c + (kind == "wrong") for a, c in zip(pick(d), d.chunks))
        if kind == "wrong" and d.chunks == (1,) * d.ndim:
            return
        bytes, mask = raw(d, place, random.randrange(100)), 0
        if d.compression == "gzip":
            mask = random.choice([0, 1])
            bytes = bytes if mask else zlib.compress(bytes)
        told.append(attempt(d.id.write_direct_chunk, place, bytes, mask))
    elif kind == "shrink":
        # To whole chunks: else the native library makes chunks of fill values where none were.
        d.resize(tuple(random.randint(0, n // c) * c for n, c in zip(d.shape, d.chunks)))
    elif kind == "grow":
        d.resize(tuple(n + random.randint(0, 5) for n in d.shape))
    else:
        d.file.flush()

def values(d):
    return d[...].tolist()

names = []
for session in range(3):
    with h5py.File("a.h5", "a" if session else "w") as f:
        if session == 0:
            for number in range(4):
                rank = random.randint(1, 3)
                shape = tuple(random.randint(1, 12) for _ in range(rank))
                chunks = tuple(random.randint(1, 5) for _ in range(rank))
                filters = random.choice([{}, {"compression": "gzip"}])
                d = f.create_dataset(
                    f"d{number}", shape, "<i2", chunks=chunks, maxshape=(None,) * rank,
                    fillvalue=random.choice([0, -7]), **filters,
                )
                names.append(d.name)
        for name in names:
            told.append(look(f[name]))
            for _ in range(random.randint(0, 8)):
                step(f[name])
                told.append(look(f[name]))
                told.append(values(f[name]))
    with h5py.File("a.h5", "r") as f:
        told.append([[look(f[name]), values(f[name])] for name in names])
print(json.dumps(told))
"""


def answers(code: str, tmp_path: Path, *arguments: object) -> list[list[object]]:
    """Returns the output of a program, natively and with the connector."""
    told = []
    for store in False, True:
        folder = tmp_path / str(store)
        folder.mkdir()
        options = {"store": True} if store else {"native": True}
        told.append(json.loads(helpers.run(code, *arguments, folder=folder, **options)))
    assert (tmp_path / "True" / "a.h5.d").is_dir()
    return told


@pytest.mark.parametrize("seed", range(20))
def test_random_histories(seed: int, tmp_path: Path) -> None:
    native, ours = answers(LOOK + STEPS, tmp_path, seed)
    for number, (expected, got) in enumerate(zip(native, ours, strict=True)):
        assert got == expected, number


# Operations on single chunks mixed with other writes, each time compared with the native library.
CALLS = """
told = []
with h5py.File("a.h5", "w") as f:
    d = f.create_dataset("d", (10, 7), "<i4", chunks=(4, 3), maxshape=(None, None), compression="gzip")
    told.append(look(d))
    d[5, 4] = 9
    d.id.write_direct_chunk((8, 6), raw(d, (8, 6), 3), 1)
    for flush in False, True:
        told.append([known(attempt(d.id.get_chunk_info_by_coord, place))[:2] for place in [(9, 6), (11, 8), (8, 6)]])
        told.append([d.id.read_direct_chunk((8, 6))[0], look(d)])
        f.flush()
    plain = f.create_dataset("plain", (5,), "<i4")
    plain[...] = 1
    for chunks in (4,), None:
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        dcpl.set_fill_value(np.array(6, "<i4"))
        if chunks:
            dcpl.set_chunk(chunks)
        space = h5py.h5s.create_simple((10,), (20,) if chunks else (10,))
        early = h5py.Dataset(h5py.h5d.create(f.id, b"early" + str(chunks).encode(), h5py.h5t.STD_I32LE, space, dcpl))
        told += [look(early), early.id.get_storage_size(), early.id.get_space_status()]
        if chunks:
            early.resize((13,))
            early[2] = 1
            told.append(look(early))
    told += [attempt(plain.id.get_num_chunks), attempt(plain.id.get_chunk_info_by_coord, (0,)), look(plain)]
    out = np.zeros(48, "u1")
    told.append([attempt(d.id.read_direct_chunk, (8, 6), h5py.h5p.DEFAULT, out)[0], out.tolist()])
    told.append(attempt(d.id.read_direct_chunk, (8, 6), h5py.h5p.DEFAULT, out[:20].copy()))
    told.append(attempt(d.id.read_direct_chunk, (8, 5)))
    told.append(attempt(d.id.read_direct_chunk, (80, 6)))
with h5py.File("a.h5", "a") as f:
    d = f["d"]
    told.append(look(d))
    d.resize((4, 7))
    told.append(look(d))
    d.resize((10, 7))
    told.append([look(d), d[...].tolist()])
    d.id.write_direct_chunk((4, 3), zlib.compress(raw(d, (4, 3), 5)))
    told.append([look(d), d[...].tolist()])
with h5py.File("a.h5", "r") as f:
    told.append([look(f["d"]), f["d"][...].tolist()])
print(json.dumps(told))
"""


def test_calls_beside_other_writes(tmp_path: Path) -> None:
    native, ours = answers(LOOK + CALLS, tmp_path)
    for number, (expected, got) in enumerate(zip(native, ours, strict=True)):
        assert got == expected, number


# Buffers of any size, and none; the call returns the size of the chunk, and its bytes if they fit.
BUFFERS = """
with h5py.File("a.h5", "w") as f:
    d = f.create_dataset("d", (8,), "<i4", chunks=(4,))
    d[:4] = [1, 2, 3, 4]
    told = []
    for how in "slab", "direct":
        for place, size, given in (0, 16, 1), (0, 40, 1), (0, 8, 1), (0, 16, 0), (4, 16, 1), (2, 16, 1), (16, 16, 1):
            room, mask = ctypes.c_size_t(size), ctypes.c_uint32(7)
            buffer = (ctypes.c_char * 64)(*([9] * 64))
            out = buffer if given else None
            status = hdf5.H5Dread_chunk2(
                ID(d.id.id), ID(0), (N * 1)(place), ctypes.byref(mask), out, ctypes.byref(room)
            )
            told.append([how, place, size, bytes(buffer)[:18].hex()] + [room.value, mask.value] * (status >= 0))
        d.id.write_direct_chunk((0,), np.array([5, 6, 7, 8], "<i4").tobytes())
print(json.dumps(told))
"""


def test_buffers_of_any_size(tmp_path: Path) -> None:
    if h5py.version.hdf5_version_tuple < (2, 0, 0):
        pytest.skip("H5Dread_chunk2 is new in HDF5 2.0")
    native, ours = answers(LOOK + BUFFERS, tmp_path)
    assert ours == native


def test_reading_all_chunks_takes_time_in_proportion(tmp_path: Path) -> None:
    """Each call used to scan all chunks: 10,000 took minutes."""
    code = """
    with h5py.File("a.h5", "w") as f:
        d = f.create_dataset("d", (10_000, 4), "<i4", chunks=(1, 4))
        d[...] = np.arange(40_000).reshape(10_000, 4)
    with h5py.File("a.h5") as f:
        d = f["d"]
        assert d.id.get_num_chunks() == 10_000
        for n in range(10_000):
            assert d.id.get_chunk_info(n).chunk_offset == (n, 0)
            assert d.id.read_direct_chunk((n, 0))[1] == np.arange(4 * n, 4 * n + 4, dtype="<i4").tobytes()
    """
    started = time.monotonic()
    helpers.run(LOOK + helpers.dedent(code), folder=tmp_path, store=True)
    assert time.monotonic() - started < 30


def test_refusals_name_the_call(tmp_path: Path) -> None:
    code = """
    with h5py.File("a.h5", "w") as f:
        plain = f.create_dataset("plain", (5,), "<i4")
        d = f.create_dataset("d", (8,), "<i4", chunks=(4,))
        d[0] = 1
        for call, arguments in (plain.id.get_num_chunks, ()), (d.id.read_direct_chunk, ((4,),)):
            try:
                call(*arguments)
            except Exception as error:
                print(error)
    """
    said = helpers.run(LOOK + helpers.dedent(code), folder=tmp_path, store=True).splitlines()
    names = ["H5Dget_num_chunks", "H5Dget_chunk_storage_size"]
    assert [name in text for name, text in zip(names, said, strict=True)] == [True] * 2, said
