"""Datasets with more pieces than a list of external files can hold: plain HDF5 reads them as virtual datasets."""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store

HIDDEN = ".hyperchunk-store"


def blocks(shape: tuple[int, ...], block: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Returns the boxes of a block decomposition, in C order."""
    grid = np.ndindex(*(-(-n // b) for n, b in zip(shape, block, strict=True)))
    return [tuple(slice(i * b, min((i + 1) * b, n)) for i, b, n in zip(at, block, shape, strict=True)) for at in grid]


def command(*words: object) -> str:
    """Runs the `hyperchunk` command of this installation."""
    program = Path(sys.executable).with_name("hyperchunk")
    return subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True).stdout


def check(path: Path, name: str, expected: np.ndarray) -> None:
    """Reads a dataset with hyperchunk, and with plain h5py as a whole and in parts."""
    with hyperchunk.open(path) as f:
        np.testing.assert_array_equal(f[name][...], expected)
        assert HIDDEN not in list(f)
        assert len(f) == len(list(f))
    with h5py.File(path) as f:
        np.testing.assert_array_equal(f[name][...], expected)
        part = tuple(slice(n // 3, n // 3 + n // 2 + 1) for n in expected.shape)
        np.testing.assert_array_equal(f[name][part], expected[part])


def test_a_block_decomposition_is_linked(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    expected = np.arange(1_000_000, dtype="f8").reshape(1000, 1000)
    run = store.create(path, {"x": store.Dataset((1000, 1000), "f8"), "g/small": store.Dataset((3,), "i4")})
    parts = blocks((1000, 1000), (130, 270))
    for rank in range(4):
        with run.writer() as writer:
            for part in parts[rank::4]:
                writer.write("x", tuple(s.start for s in part), expected[part])
            writer.write("g/small", (0,), np.array([1, 2, 3], "i4"))
    epoch = run.commit()
    assert epoch is not None
    assert epoch.unlinked == {}
    check(path, "x", expected)
    with h5py.File(path) as f:
        assert f["x"].is_virtual
        assert len(f["x"].virtual_sources()) == len(parts)
        assert not f["g/small"].is_virtual
        assert f["g/small"][...].tolist() == [1, 2, 3]


@pytest.mark.parametrize("seed", range(12))
def test_random_block_decompositions(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    path = tmp_path / "a.h5"
    rank = 1 + seed % 3
    shape = tuple(int(n) for n in random.integers(40, [6000, 200, 60][rank - 1], rank))
    block = tuple(int(random.integers(1 + n // 12, n + 2)) for n in shape)
    fill = [None, 7, -1][seed // 3 % 3]
    dtype = np.dtype([">i4", "<f8", [("a", "<i2"), ("b", "<f4")]][seed // 2 % 3])
    value = None if fill is None else np.full((), fill).astype(dtype)
    expected = np.zeros(shape, dtype) if value is None else np.full(shape, value, dtype)
    chunks = tuple(max(1, n // 5) for n in shape) if seed % 4 == 3 else None
    run = store.create(path, {"x": store.Dataset(shape, dtype, fillvalue=value, chunks=chunks)})
    for session in range(3):
        parts = [part for part in blocks(shape, block) if random.random() < 0.7]
        random.shuffle(parts)
        for rank_of in range(2):
            with run.writer() as writer:
                # Overwrites data of earlier sessions, never of the other writer.
                for part in parts[rank_of::2]:
                    data = (random.integers(0, 100, [s.stop - s.start for s in part]) + 100 * session).astype(dtype)
                    expected[part] = data
                    writer.write("x", tuple(s.start for s in part), data)
                if rank_of == 0:
                    at = tuple(int(random.integers(0, n)) for n in shape)
                    own = [p for p in parts[::2] if all(s.start <= i < s.stop for s, i in zip(p, at, strict=True))]
                    if own:
                        expected[at] = np.full((), session).astype(dtype)
                        writer.write("x", at, expected[at].reshape((1,) * rank))
        epoch = run.commit()
        assert epoch is None or epoch.unlinked == {}
        check(path, "x", expected)
    for step in "compact", "link":
        command("store", step, path)
        check(path, "x", expected)
    packed = tmp_path / "packed.h5"
    command("store", "pack", path, packed)
    with h5py.File(packed) as f:
        assert list(f) == ["x"]
        assert not f["x"].is_virtual
        np.testing.assert_array_equal(f["x"][...], expected)


def test_holes_read_as_a_fill_value(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {name: store.Dataset((50, 40), "i4", fillvalue=-9) for name in ("some", "none")})
    with run.writer() as writer:
        writer.write("some", (10, 10), np.arange(200, dtype="i4").reshape(10, 20))
    epoch = run.commit()
    assert epoch is not None
    assert epoch.unlinked == {}
    expected = np.full((50, 40), -9, "i4")
    check(path, "none", expected)
    expected[10:20, 10:30] = np.arange(200).reshape(10, 20)
    check(path, "some", expected)


def test_a_skeleton_has_room_for_so_many_blocks(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    names = [f"x{number}" for number in range(5)]
    run = store.create(path, {name: store.Dataset((64, 256), "i2") for name in names})
    values = np.arange(64 * 256, dtype="i2").reshape(64, 256)
    with run.writer() as writer:
        for name in names:
            # From the last to the first, so that no block continues another.
            for part in reversed(blocks((64, 256), (2, 2))):
                writer.write(name, tuple(s.start for s in part), values[part])
    epoch = run.commit()
    assert epoch is not None
    assert list(epoch.unlinked.values()) == ["more pieces than external files or virtual datasets can describe"]
    with h5py.File(path) as f:
        for name in names:
            if f"/{name}" in epoch.unlinked:
                with pytest.raises(OSError, match="external"):
                    f[name][...]
            else:
                np.testing.assert_array_equal(f[name][...], values)
    with hyperchunk.open(path) as f:
        assert all((f[name][...] == values).all() for name in names)


def test_other_programs_and_later_changes(tmp_path: Path) -> None:
    """Plain h5py changes the file, netCDF4 reads it, the command hides the blocks."""
    netcdf = pytest.importorskip("netCDF4")
    path = tmp_path / "a.h5"
    expected = np.arange(60_000, dtype="f4").reshape(600, 100)
    run = store.create(path, {"x": store.Dataset((600, 100), "f4", fillvalue=np.float32(-1))})
    with run.writer() as writer:
        for part in blocks((600, 100), (200, 7))[:-1]:
            writer.write("x", tuple(s.start for s in part), expected[part])
    expected[blocks((600, 100), (200, 7))[-1]] = -1
    run.commit()
    with h5py.File(path, "r+") as f:
        f["x"].attrs["unit"] = "m"
        f["y"] = [1, 2]
        f["z"] = f["x"]
    with store.open(path).writer() as writer:
        writer.write("x", (0, 0), np.full((1, 1), 5, "f4"))
    expected[0, 0] = 5
    epoch = store.open(path).commit()
    assert epoch is not None
    assert epoch.unlinked == {}
    check(path, "x", expected)
    check(path, "z", expected)
    with hyperchunk.open(path) as f:
        assert sorted(f) == ["x", "y", "z"]
        assert f["x"].attrs["unit"] == "m"
    code = f"import netCDF4; print(netCDF4.Dataset({str(path)!r})['x'][:].filled().sum())"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert netcdf
    assert float(told) == pytest.approx(expected.sum(dtype="f4"), rel=1e-4)
    for words in ["ls", "-r", path], ["dump", path], ["store", "status", path], ["dump", "--json", path]:
        assert HIDDEN not in command(*words), words


def test_without_its_logs_reading_is_an_error(tmp_path: Path) -> None:
    """With sources in another file, a virtual dataset would read as fill values."""
    folder = tmp_path / "before"
    folder.mkdir()
    run = store.create(folder / "a.h5", {"x": store.Dataset((300, 300), "i4", fillvalue=3)})
    with run.writer() as writer:
        writer.write("x", (0, 0), np.ones((200, 200), "i4"))
    run.commit()
    folder.rename(tmp_path / "after")
    path = tmp_path / "after" / "a.h5"
    with h5py.File(path) as f, pytest.raises(OSError):
        f["x"][...]
    expected = np.full((300, 300), 3)
    expected[:200, :200] = 1
    command("store", "link", path)
    check(path, "x", expected)
    # A copy of the file alone finds the logs, and is packed with its data.
    copy = tmp_path / "copy.h5"
    copy.write_bytes(path.read_bytes())
    with h5py.File(copy) as f:
        np.testing.assert_array_equal(f["x"][...], expected)
    command("pack", copy, tmp_path / "p.h5")
    with h5py.File(tmp_path / "p.h5") as f:
        assert list(f) == ["x"]
        assert not f["x"].is_virtual
        np.testing.assert_array_equal(f["x"][...], expected)


READ = """
import h5py, json
with h5py.File("a.h5") as f:
    names = []
    f.visit(names.append)
    try:
        f.attrs["a"] = 1
        names.append("not read-only")
    except OSError:
        pass
    print(json.dumps([names, len(f), f.filename, f.mode, float(f["x"][...].sum())]))
"""
PROGRAM = """
import h5py, json, sys, numpy as np
with h5py.File("a.h5", "a") as f:
    told = [list(f), f["x"].is_virtual, f["x"].chunks, f["x"].maxshape, float(f["x"][...].sum())]
    f["x"][100:107, 3:50] = -1
    f["x"].attrs["seen"] = True
    f["new"] = np.arange(4)
print(json.dumps(told))
"""


def test_the_connector_goes_on_with_such_a_dataset(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    expected = np.ones((1000, 300), "f4")
    run = store.create(path, {"x": store.Dataset((1000, 300), "f4", fillvalue=np.float32(2), chunks=(100, 100))})
    with run.writer() as writer:
        for part in blocks((900, 300), (300, 9)):
            writer.write("x", tuple(s.start for s in part), expected[part])
    expected[900:] = 2
    run.commit()
    check(path, "x", expected)
    env = hyperchunk.plugins.environment()
    for _ in range(2):
        told = subprocess.run(
            [sys.executable, "-c", PROGRAM.replace('f["new"] = ', 'f.require_group("g"); ')],
            cwd=tmp_path,
            env=env,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        names, is_virtual, chunks, maxshape, total = json.loads(told)
        assert HIDDEN not in names
        assert not is_virtual
        assert chunks == [100, 100]
        assert maxshape == [1000, 300]
        assert total == expected.sum()
        expected[100:107, 3:50] = -1
        check(path, "x", expected)
        told = subprocess.run(
            [sys.executable, "-c", READ], cwd=tmp_path, env=env, check=True, capture_output=True, text=True
        ).stdout
        assert json.loads(told) == [["g", "x"], 2, "a.h5", "r", expected.sum()]
        assert sorted(one.name for one in tmp_path.glob("a.h5*")) == ["a.h5", "a.h5.d"]
    with h5py.File(path) as f:
        assert f["x"].attrs["seen"]
        assert "g" in f


def test_a_copy_into_another_file_is_an_error(tmp_path: Path) -> None:
    """HDF5 copies only the mappings; their sources are missing in the other file."""
    path, other = tmp_path / "a.h5", tmp_path / "b.h5"
    run = store.create(path, {"x": store.Dataset((30, 30), "i4", fillvalue=3)})
    with run.writer() as writer:
        writer.write("x", (0, 0), np.ones((20, 20), "i4"))
    run.commit()
    with h5py.File(path) as f, h5py.File(other, "w") as g:
        f.copy("x", g)
    with hyperchunk.open(other) as f, pytest.raises(hyperchunk.exceptions.ObjectNotFoundError, match="sharded store"):
        f["x"][...]
