"""Compound members written one by one through the connector: as in native HDF5, by one writer and by several."""

import pickle
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

from vol import helpers, releases

#: Writes, reads and resizes a compound dataset at random; the values read go to a file.
PROGRAM = """
import pickle, sys
import h5py
import numpy as np

seed, steps = int(sys.argv[1]), int(sys.argv[2])
random = np.random.default_rng(seed)
inner = [("u", "<i2"), ("v", "<f8")]
members = [("a", "<i4"), ("b", "<f8"), ("c", ">i2"), ("d", "S3"), ("e", "<f4", (2,)), ("n", inner), ("f", "u1")]
KINDS = [
    np.dtype(members),
    np.dtype([("a", "i4"), ("b", "f8"), ("c", "i2"), ("n", np.dtype(inner, align=True)), ("f", "u1")], align=True),
    np.dtype([(name, "f4") for name in "xyzpqrst"]),
    np.dtype([("only", "f8")]),
]
kind = KINDS[seed % 4]


def some(dtype, shape):
    values = np.zeros(shape, dtype)
    fill(values)
    return values


def fill(values):
    if values.dtype.names:
        for name in values.dtype.names:
            fill(values[name])
    elif values.dtype.kind == "S":
        values[...] = random.choice([b"", b"a", b"bcd"], values.shape)
    else:
        values[...] = random.integers(0, 100, values.shape)


def other(dtype):
    # The type of a member in memory.
    if dtype.names:
        return memory(dtype) if random.random() < 0.5 else dtype
    if dtype.subdtype or dtype.kind == "S" or random.random() < 0.7:
        return dtype
    return np.dtype(str(random.choice(["<f4", "<f8", ">f8"] if dtype.kind == "f" else ["<i8", ">i4", "<i2"])))


def memory(dtype):
    # Some members, in some order and at some places, and maybe others.
    names = list(random.permutation(list(dtype.names)))[: random.integers(1, len(dtype.names) + 1)]
    if random.random() < 0.3:
        names = list(dtype.names)
    formats = [other(dtype.fields[name][0]) for name in names]
    if random.random() < 0.2:
        names, formats = [*names, "unknown"], [*formats, np.dtype("i4")]
    offsets, at = [], 0
    for format in formats:
        at += int(random.integers(0, 3)) if random.random() < 0.3 else 0
        offsets.append(at)
        at += format.itemsize
    return np.dtype({"names": [str(name) for name in names], "formats": formats, "offsets": offsets, "itemsize": at})


rank = 1 + seed // 4 % 2
shape = (40,) if rank == 1 else (9, 7)
chunked = seed // 8 % 3 > 0
options = {}
if chunked:
    options = {"chunks": (8,) if rank == 1 else (4, 3), "maxshape": (None,) * rank}
    if seed // 8 % 3 == 2:
        options["compression"] = "gzip"
if seed % 3:
    options["fillvalue"] = some(kind, ())
file = h5py.File("a.h5", "w")
data = file.create_dataset("g/data", shape, kind, **options)
seen = []


def box():
    starts = [int(random.integers(0, n)) for n in data.shape]
    return tuple(slice(at, int(random.integers(at + 1, n + 1))) for at, n in zip(starts, data.shape))


def write(place, values):
    # With the type of the values, whatever that is, maybe from every second element.
    counts = tuple(part.stop - part.start for part in place)
    space = data.id.get_space()
    space.select_hyperslab(tuple(part.start for part in place), counts)
    held = h5py.h5s.create_simple(counts)
    if random.random() < 0.4:
        wide = some(values.dtype, (*counts[:-1], 2 * counts[-1]))
        wide[..., ::2] = values
        held = h5py.h5s.create_simple(wide.shape)
        held.select_hyperslab((0,) * len(counts), counts, (1,) * (len(counts) - 1) + (2,))
        values = wide
    data.id.write(held, space, np.ascontiguousarray(values), h5py.h5t.py_create(values.dtype))


for step in range(steps):
    what = random.integers(0, 14)
    place = box()
    counts = tuple(part.stop - part.start for part in place)
    name = str(random.choice(kind.names))
    if what < 4:
        write(place, some(memory(kind), counts))
    elif what < 6:
        if kind[name].names or kind[name].subdtype:
            write(place, some(np.dtype([(name, kind[name])]), counts))
        else:
            data[(*place, name)] = some(kind[name], counts)
    elif what == 6:
        data[place] = some(kind, counts)
    elif what == 7:
        # Points and scattered rows.
        points = np.unique(np.stack([random.integers(0, n, 5) for n in data.shape], 1), axis=0)
        random.shuffle(points)
        space = data.id.get_space()
        space.select_elements(points)
        values = some(memory(kind), (len(points),))
        data.id.write(h5py.h5s.create_simple((len(points),)), space, values, h5py.h5t.py_create(values.dtype))
    elif what == 8 and kind[name].names is None and kind[name].subdtype is None:
        data[(slice(None, None, 3), name)] = some(kind[name], data[::3].shape)
    elif what == 9:
        seen.append(data[place])
    elif what == 10:
        seen.append(data[(*place, name)])
    elif what == 11 and chunked:
        data.resize(tuple(int(random.integers(1, 2 * n)) for n in shape))
    elif what == 12:
        file.flush()
        if chunked and "compression" not in options and random.random() < 0.5:
            offset = tuple(int(random.integers(0, -(-n // c))) * c for n, c in zip(data.shape, data.chunks))
            data.id.write_direct_chunk(offset, some(kind, data.chunks).tobytes())
    elif what == 13 and random.random() < 0.4:
        file.close()
        file = h5py.File("a.h5", "r+")
        data = file["g/data"]
        seen.append(data[...])
seen.append(data[...])
file.close()
pickle.dump(seen, open(sys.argv[3], "wb"))
"""


def plain(values: np.ndarray) -> object:
    """Returns the values of all members, without the gaps between them."""
    if values.dtype.names:
        return {name: plain(values[name]) for name in values.dtype.names}
    return values.tolist()


def history(folder: Path, seed: int, steps: int, **options: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Runs a random program natively and with the connector; returns the values read by each."""
    found = []
    for native in (True, False):
        place = folder / ("native" if native else "store")
        place.mkdir()
        chosen = {} if native else {"store": True, **options}
        helpers.run(PROGRAM, seed, steps, "seen.pickle", folder=place, native=native, **chosen)
        found.append(pickle.loads((place / "seen.pickle").read_bytes()))
    return found[0], found[1]


def command(*words: object) -> str:
    """Runs the `hyperchunk` command of this installation."""
    return subprocess.run([helpers.command(), *map(str, words)], check=True, capture_output=True, text=True).stdout


def check(path: Path, expected: np.ndarray) -> None:
    """Reads a dataset in all ways: with hyperchunk, as a whole, in parts and one by one, and with plain h5py."""
    rows = [0, *range(2, len(expected), 3)]
    scattered = np.zeros(expected.shape, bool)
    scattered[:: max(1, len(expected) // 5)] = True
    scattered.flat[-1] = True
    for file in (hyperchunk.open(path), h5py.File(path)):
        with file:
            data = file["g/data"]
            assert plain(data[...]) == plain(expected), file
            assert plain(data[1:, ...]) == plain(expected[1:]), file
            assert plain(data[rows]) == plain(expected[rows]), file
            # libhdf5 does not support point selections of virtual datasets.
            if isinstance(file, hyperchunk.File) or not data.is_virtual:
                assert plain(data[scattered]) == plain(expected[scattered]), file
            for name in expected.dtype.names or ():
                assert plain(data[name]) == plain(expected[name]), (file, name)


@pytest.mark.parametrize("seed", range(48))
def test_random_histories_are_as_native_ones(seed: int, tmp_path: Path) -> None:
    native, ours = history(tmp_path, seed, 60)
    assert len(native) == len(ours)
    for step, (one, other) in enumerate(zip(native, ours, strict=True)):
        assert plain(one) == plain(other), f"read {step}"
    path, expected = tmp_path / "store" / "a.h5", native[-1]
    compressed = seed // 8 % 3 == 2
    if compressed:
        with hyperchunk.open(path) as file:
            assert plain(file["g/data"][...]) == plain(expected)
    else:
        check(path, expected)
    command("store", "pack", path, tmp_path / "packed.h5")
    check(tmp_path / "packed.h5", expected)
    command("store", "compact", path)
    check(path, expected)


RANK = """
import sys
import h5py
import numpy as np
rank = int(sys.argv[1])
kind = np.dtype([("a", "i4"), ("b", "f8"), ("n", [("u", "i2"), ("v", "f4")])], align=True)
fill = np.zeros((), kind)
fill[()] = (7, 8, (9, 10))
with h5py.File("a.h5", "w") as file:
    data = file.create_dataset("g/data", (50,), kind, chunks=CHUNKS, fillvalue=fill)
BODY
"""


def ranks(folder: Path, body: str, chunks: str = "None", number: int = 2) -> tuple[list[int], str]:
    """Runs a program once per rank, in parallel; returns the sorted exit statuses and the common standard error."""
    code = RANK.replace("BODY", textwrap.indent(helpers.dedent(body), "    ")).replace("CHUNKS", chunks)
    env = hyperchunk.plugins.environment(store=True, writers=number, session="fields")
    started = [helpers.start(code, rank, folder=folder, env=env) for rank in range(number)]
    errors = [process.communicate(timeout=120)[1] for process in started]
    return sorted(process.returncode for process in started), "".join(errors)


MEMBERS = """
if rank == 0:
    data["a"] = np.arange(50)
else:
    data["b"] = np.arange(50) / 2
"""


@pytest.mark.parametrize("chunks", ["None", "(8,)"])
def test_ranks_that_write_different_members_agree(chunks: str, tmp_path: Path) -> None:
    assert ranks(tmp_path, MEMBERS, chunks) == ([0, 0], "")
    expected = np.zeros(50, [("a", "i4"), ("b", "f8"), ("n", [("u", "i2"), ("v", "f4")])])
    expected["a"], expected["b"], expected["n"] = (
        np.arange(50),
        np.arange(50) / 2,
        np.array((9, 10), expected["n"].dtype),
    )
    check(tmp_path / "a.h5", expected)
    # A later session writes the rest.
    code = """
    import h5py, numpy as np
    with h5py.File("a.h5", "r+") as file:
        inner = np.zeros(50, [("n", [("u", "i2"), ("v", "f4")])])
        inner["n"]["u"] = 3
        file["g/data"].id.write(h5py.h5s.ALL, h5py.h5s.ALL, inner, h5py.h5t.py_create(inner.dtype))
        file["g/data"][4:6, "a"] = -1
    """
    helpers.run(code, folder=tmp_path, store=True)
    expected["n"]["u"], expected["n"]["v"], expected["a"][4:6] = 3, 0, -1
    check(tmp_path / "a.h5", expected)


def test_ranks_that_write_one_member_in_different_ways_conflict(tmp_path: Path) -> None:
    states, errors = ranks(tmp_path, 'data["b"] = np.full(50, rank); data["a"] = np.full(50, 5)')
    assert states != [0, 0]
    assert "g/data" in errors
    assert "different data" in errors


def test_ranks_that_write_a_member_alike_agree(tmp_path: Path) -> None:
    assert ranks(tmp_path, 'data["b"] = np.arange(50); data[rank, "a"] = rank') == ([0, 0], "")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["g/data"]["a"].tolist() == [0, 1] + [7] * 48
        assert file["g/data"]["b"].tolist() == list(range(50))


def test_a_rank_reads_what_another_flushed_of_a_member(tmp_path: Path) -> None:
    body = """
    import os, time
    data[str("ab"[rank])] = np.arange(50) + rank
    file.flush()
    open(f"flushed {rank}", "w").close()
    while not os.path.exists(f"flushed {1 - rank}"):
        time.sleep(0.01)
    read = data[...]
    assert read["a"].tolist() == list(range(50)), read
    assert read["b"].tolist() == list(range(1, 51)), read
    assert read["n"]["u"].tolist() == [9] * 50, read
    """
    assert ranks(tmp_path, body) == ([0, 0], "")


def test_nothing_is_read_to_write_a_member(tmp_path: Path) -> None:
    code = """
    import os
    import h5py
    import numpy as np
    kind = np.dtype([(name, "f8") for name in "abcdefgh"])
    with h5py.File("a.h5", "w") as file:
        data = file.create_dataset("x", (100_000,), kind)
        for name in kind.names:
            data[name] = np.arange(100_000)
        y = file.create_dataset("y", (100_000,), [("c", "f8")])
        y.id.write(h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(100_000, kind), h5py.h5t.py_create(kind))
    """
    helpers.run(code, folder=tmp_path, store=True)
    # Each member of the first once, and one member of the second.
    written = sum(path.stat().st_size for path in (tmp_path / "a.h5.d").glob("*.log"))
    assert written < 9 * 800_000 + 100_000


def test_what_lies_between_the_members_of_a_fill_value_does_not_count(tmp_path: Path) -> None:
    code = """
    import sys
    import h5py
    import numpy as np
    rank = int(sys.argv[1])
    kind = np.dtype([("a", "i1"), ("b", "f8"), ("n", [("u", "i2")], (2,))], align=True)
    fill = np.frombuffer(bytes([rank + 1]) * kind.itemsize, kind).copy()
    fill["a"], fill["b"], fill["n"]["u"] = 7, 8, 9
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_fill_value(fill)
    with h5py.File("a.h5", "w") as file:
        space = h5py.h5s.create_simple((4,))
        data = h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(kind), space, plist))
        data[rank, "a"] = rank
    """
    env = hyperchunk.plugins.environment(store=True, writers=2, session="gaps")
    for process in [helpers.start(code, rank, folder=tmp_path, env=env) for rank in range(2)]:
        helpers.finish(process)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"]["a"].tolist() == [0, 1, 7, 7]
        assert file["x"]["b"].tolist() == [8] * 4
        assert file["x"]["n"]["u"].tolist() == [[9, 9]] * 4


#: Reads a dataset with a libhdf5 without the connector: as a whole, in parts, and each member.
PLAIN = """
import ctypes, pickle, sys
import numpy as np
hdf5 = ctypes.CDLL(sys.argv[1])
ID, N = ctypes.c_int64, ctypes.c_uint64
names = "H5Fopen H5Dopen2 H5Dget_type H5Dget_space H5Tget_member_type H5Tcreate H5Screate_simple"
for name in names.split():
    getattr(hdf5, name).restype = ID
hdf5.H5Tget_size.restype = ctypes.c_size_t
zero = ID(0)
expected = pickle.load(open("seen.pickle", "rb"))[-1]
file = ID(hdf5.H5Fopen(b"a.h5", 0, zero))
data = ID(hdf5.H5Dopen2(file, b"g/data", zero))
kind = ID(hdf5.H5Dget_type(data))
assert hdf5.H5Tget_size(kind) == expected.dtype.itemsize


def plain(values):
    if values.dtype.names:
        return {name: plain(values[name]) for name in values.dtype.names}
    return values.tolist()


def read(kind, dtype, first, count):
    out = np.full((count, *expected.shape[1:]), 0, dtype)
    out.view("u1")[...] = 77
    dims = (N * out.ndim)(*out.shape)
    memory = ID(hdf5.H5Screate_simple(out.ndim, dims, None))
    space = ID(hdf5.H5Dget_space(data))
    start = (N * out.ndim)(first)
    assert hdf5.H5Sselect_hyperslab(space, 0, start, None, dims, None) >= 0
    assert hdf5.H5Dread(data, kind, memory, space, zero, ID(out.ctypes.data)) >= 0
    return out


for first, count in [(0, len(expected)), (1, len(expected) - 1), (len(expected) // 2, 1)]:
    part = expected[first : first + count]
    assert plain(read(kind, expected.dtype, first, count)) == plain(part)
    for number, name in enumerate(expected.dtype.names):
        member = ID(hdf5.H5Tget_member_type(kind, number))
        one = np.dtype([(name, expected.dtype[name])])
        alone = ID(hdf5.H5Tcreate(6, ctypes.c_size_t(one.itemsize)))
        assert hdf5.H5Tinsert(alone, name.encode(), ctypes.c_size_t(0), member) >= 0
        assert plain(read(alone, one, first, count)) == plain(part[[name]])
"""

RELEASES = [package for package, _ in releases.RELEASES]
FETCHED = releases.fetched()


@pytest.mark.parametrize("release", [*RELEASES, *FETCHED])
def test_other_releases_read_members(release: str, tmp_path: Path) -> None:
    library = FETCHED.get(release) or releases.library(release)
    for seed in (1, 2, 5, 6, 9, 12):
        folder = tmp_path / str(seed)
        folder.mkdir()
        helpers.run(PROGRAM, seed, 60, "seen.pickle", folder=folder, store=True)
        with h5py.File(folder / "a.h5") as file:
            assert file["g/data"].is_virtual or file["g/data"].external or seed % 4 == 3
        env = {"LD_LIBRARY_PATH": str(library.parent)}
        helpers.finish(helpers.start(PLAIN, library, folder=folder, env=env))
