"""Layouts of a dataset: the same values, at lower cost."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import layouts, store
from hypothesis import given, settings
from hypothesis import strategies as st


def run(*words: Any, status: int = 0) -> str:
    """Runs the command, checks its exit status, and returns its output."""
    command = [HYPERCHUNK, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def values(shape: tuple[int, ...], dtype: str = "f4") -> Any:
    return (np.arange(np.prod(shape)) * 2654435761 % 4294967296).astype(dtype).reshape(shape)


def written(path: Path, data: Any, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("g/x", data=data, **options)
        dataset.attrs["unit"] = np.float32(3.5)
        dataset.attrs["name"] = "of any length"
    return path


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_layouts_have_the_same_values(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.lists(st.integers(1, 24), min_size=rank, max_size=rank)))
    chunk = st.lists(st.integers(1, 45), min_size=rank, max_size=rank).map(tuple)
    dtype = data.draw(st.sampled_from(["u1", "<i2", ">f4", "<f8", "S5", [("a", "<i4"), ("b", ">f8")]]))
    source = data.draw(st.none() | chunk)
    options: dict[str, Any] = {}
    if source is not None:
        options["chunks"] = tuple(min(size, extent) for size, extent in zip(source, shape, strict=True))
        options["compression"] = data.draw(st.sampled_from([None, "gzip", "lzf"]))
    array = np.frombuffer(np.random.default_rng(1).bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype=dtype)
    array = array.reshape(shape)
    path = written(tmp_path_factory.mktemp("a") / "a.h5", array, **options)
    order = data.draw(st.sampled_from(["row", "column", "hilbert"]) | st.permutations(range(rank)))
    asked = data.draw(
        chunk
        | st.builds(lambda mb, axis: {"target_mb": mb, "favor": [axis]}, st.integers(1, 3), st.integers(0, rank - 1))
    )
    codec = data.draw(st.sampled_from(["none", "none", "gzip:1", "zstd:1", "lz4", "fast"]))
    made = hyperchunk.restructure(
        path,
        "/g/x",
        order=order,
        chunk=asked,
        codec=codec,
        memory=data.draw(st.sampled_from(["32MiB", "256MiB"])),
        sync=False,
    )
    assert made.done > 0
    assert made.skipped == 0
    with h5py.File(path) as original, hyperchunk.open(made.path) as layout, hyperchunk.open(path) as file:
        expected = original["g/x"][...].tobytes()
        assert layout["g/x"][...].tobytes() == expected
        assert file["g/x"][...].tobytes() == expected
        for _ in range(5):
            where = tuple(
                slice(*sorted(data.draw(st.tuples(st.integers(0, extent), st.integers(0, extent))))) for extent in shape
            )
            assert file["g/x"][where].tobytes() == original["g/x"][where].tobytes()
    if codec in ("none", "gzip:1"):
        with h5py.File(made.path) as layout:
            assert layout["g/x"][...].tobytes() == expected
    again = hyperchunk.restructure(path, "/g/x", order=order, chunk=asked, codec=codec, memory="32MiB", sync=False)
    assert again.path.parent.parent == made.path.parent.parent


def requests_and_bytes(path: Path, where: str, *, other: bool) -> tuple[int, int]:
    """Counts the system's reads and their bytes for a selection, in a fresh process."""
    program = (
        "import sys, numpy, hyperchunk\n"
        "file = hyperchunk.open(sys.argv[1], layouts=sys.argv[3] == 'True')\n"
        "dataset = file['g/x']; dataset[0, 0]\n"
        "count = lambda: [int(line.split()[1]) for line in open('/proc/self/io')][:3:2]\n"
        "before = count(); before = count()\n"
        f"part = dataset[{where}]\n"
        "after = count()\n"
        "print(after[1] - before[1], after[0] - before[0], part.sum())\n"
    )
    command = [sys.executable, "-c", program, str(path), where, str(other)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    calls, size, total = done.stdout.split()
    with h5py.File(path) as file:
        assert float(total) == eval(f"file['g/x'][{where}]", {"file": file}).sum()
    return int(calls), int(size)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts of system calls")
def test_a_column_costs_less_and_a_row_what_it_did(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", values((4096, 2048), "i4"))
    made = hyperchunk.restructure(path, "/g/x", order="column", chunk={"target_mb": 1}, memory="64MiB")
    assert made.chunk == (4096, 64)
    before = requests_and_bytes(path, ":, 17", other=False)
    after = requests_and_bytes(path, ":, 17", other=True)
    # Each element was a separate read, of at least a page from the disk.
    assert before[0] >= 4096
    assert after[0] * 20 <= before[0], (before, after)
    assert after[1] * 10 <= before[0] * 4096, (before, after)
    assert requests_and_bytes(path, "17, :", other=True)[1] < 2 * 2048 * 4 + 4096


def test_the_command(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", values((500, 300)))
    dry = run("restructure", path, "/g/x", "--order", "column", "--memory", "16MiB", "--dry-run")
    assert "tasks" in dry
    assert "of memory" in dry
    assert not Path(f"{path}.d").exists()
    begun = json.loads(run("restructure", path, "g/x", "--order", "column", "--memory", "16MiB", "--begin", "--json"))
    assert run("restructure", "layouts", path).split()[1] == "unfinished"
    for part in range(3):
        share = json.loads(run("store", "work", path, begun["id"][:8], "--task-range", f"{part}/3", "--json"))
        assert share["committed"] == (part == 2)
    listed = json.loads(run("restructure", "layouts", path, "--json"))
    assert [(one["id"], one["state"]) for one in listed] == [(begun["id"], "used")]
    assert listed[0]["request"]["order"] == "column"
    assert "exists already" in run("restructure", path, "/g/x", "--order", "column", "--memory", "16MiB")
    with h5py.File(begun["result"]) as file:
        np.testing.assert_array_equal(file["g/x"][...], values((500, 300)))
        assert file["g/x"].attrs["unit"] == 3.5
    assert "need" in run("restructure", path, "/g/x", "--memory", "1MiB", status=1)
    assert "no preset" in run("restructure", path, "/g/x", "--codec", "best", status=1)
    assert "expected" in run("restructure", path, "/g/x", "--order", "up", status=2)
    run("restructure", path, "/g/y", status=1)
    run("restructure", "rm", path, begun["id"][:6])
    assert "no layouts" in run("restructure", "layouts", path)
    assert "no layout" in run("restructure", "rm", path, begun["id"], status=1)
    out = tmp_path / "out.h5"
    told = run("restructure", path, "/g/x", "--chunk", "50x60", "--codec", "zstd:3", "--output", out)
    assert "attribute name" in told
    with hyperchunk.open(out) as file:
        assert file["g/x"].chunks == (50, 60)
        np.testing.assert_array_equal(file["g/x"][...], values((500, 300)))
    assert "exists" in run("restructure", path, "/g/x", "--output", out, status=1)
    assert {entry.name for entry in tmp_path.iterdir()} - {"config"} == {"a.h5", "out.h5"}


def test_a_file_that_was_written_to_is_read_itself(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", values((600, 400)))
    hyperchunk.restructure(path, "/g/x", order="column", memory="16MiB")
    assert [one.state for one in layouts.of(path)] == ["used"]
    with hyperchunk.open(path) as old:
        with pytest.raises(BlockingIOError):
            h5py.File(path, "r+")
        with h5py.File(path, "r+", locking=False) as file:
            file["g/x"][:, 3] = 7
        with pytest.raises(hyperchunk.exceptions.ChangedError):
            old["g/x"][:, 3]
        old.refresh()
        assert (old["g/x"][:, 3] == 7).all()
    with hyperchunk.open(path) as file:
        assert (file["g/x"][:, 3] == 7).all()
    assert [one.state for one in layouts.of(path)] == ["stale"]
    layouts.remove(path, layouts.of(path)[0])
    assert layouts.of(path) == []


def test_what_has_no_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("text", data=["a", "bc"], dtype=h5py.string_dtype())
        file.create_dataset("reference", data=[file["text"].ref], dtype=h5py.ref_dtype)
        file.create_dataset("scalar", data=1.0)
        file.create_dataset("empty", shape=(0, 3), dtype="f4", maxshape=(None, 3))
        layout = h5py.VirtualLayout((4,), "i4")
        layout[...] = h5py.VirtualSource("b.h5", "x", (4,))
        file.create_virtual_dataset("virtual", layout)
    for name in ("text", "reference", "scalar", "empty", "virtual"):
        with pytest.raises(hyperchunk.HyperchunkError):
            hyperchunk.restructure(path, name)
    with pytest.raises(hyperchunk.HyperchunkError):
        hyperchunk.restructure(path, "nothing")
    assert not Path(f"{path}.d").exists()


def test_epochs_of_a_store_keep_the_layouts_of_what_did_not_change(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    made = store.create(path, {"/a": store.Dataset((800, 300), "f8"), "/b": store.Dataset((10,), "f8")})
    first = values((800, 300), "f8")
    for part in range(4):
        with made.writer() as writer:
            writer["a"][part * 200 : (part + 1) * 200] = first[part * 200 : (part + 1) * 200]
    made.commit()
    done = made.restructure("/a", order="column", memory="32MiB")
    with hyperchunk.open(path) as file:
        np.testing.assert_array_equal(file["a"][:, 5], first[:, 5])
    with made.writer() as writer:
        writer["b"][...] = 1.0
    made.commit()
    assert [one.state for one in layouts.of(path)] == ["used"], "the new epoch has nothing of it"
    assert made.restructure("/a", order="column", memory="32MiB").done == 0
    with made.writer() as writer:
        writer["a"][3:5] = -1.0
    made.commit()
    assert [one.state for one in layouts.of(path)] == ["stale"]
    with hyperchunk.open(path) as file:
        assert (file["a"][3:5, 5] == -1).all()
        np.testing.assert_array_equal(file["a"][5:, 5], first[5:, 5])
    # The old epoch still has its layout.
    with hyperchunk.open(path, epoch=2) as file:
        np.testing.assert_array_equal(file["a"][:, 5], first[:, 5])
    with hyperchunk.open(done.path) as file:
        np.testing.assert_array_equal(file["a"][...], first)
    old = made.restructure("/a", order="hilbert", chunk=(64, 64), epoch=1, memory="32MiB")
    with h5py.File(old.path) as file:
        np.testing.assert_array_equal(file["a"][...], first)
    run("store", "verify", path)
    run("store", "vacuum", path, "--grace", "0")
    assert done.path.exists()


def test_a_copy_has_its_layouts_and_a_damaged_one_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", values((600, 400)))
    made = hyperchunk.restructure(path, "/g/x", order="column", memory="16MiB")
    copy = tmp_path / "b.h5"
    shutil.copy(path, copy)
    shutil.copytree(f"{path}.d", f"{copy}.d")
    assert [one.state for one in layouts.of(copy)] == ["used"], "the time is another one, the contents are not"
    made.path.write_bytes(made.path.read_bytes()[:5000])
    with hyperchunk.open(path) as file:
        np.testing.assert_array_equal(file["g/x"][:, 7], values((600, 400))[:, 7])


def test_a_file_with_a_layout_is_edited(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(600.0).reshape(20, 30)
    hyperchunk.restructure(path, "/x", order="column", memory="32MiB")
    with hyperchunk.open(path, "r+") as file:
        file["x"][3, 4] = -1
        file["y"] = 5
    assert [one.state for one in layouts.of(path)] == ["stale"]
    with hyperchunk.open(path) as file, h5py.File(path) as plain:
        assert (file["x"][:, 4][3], plain["x"][3, 4], file["y"][()]) == (-1, -1, 5)
    subprocess.run([HYPERCHUNK, "attr", "set", path, "/", "a", "1"], check=True, capture_output=True)
    subprocess.run([HYPERCHUNK, "pack", "--in-place", path], check=True, capture_output=True)
    with h5py.File(path) as plain:
        assert (plain["x"][3, 4], plain.attrs["a"]) == (-1, 1)


def test_the_file_of_a_store_is_not_edited(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    made = store.create(path, {"/x": store.Dataset((4, 5), "f4")})
    with made.writer() as writer:
        writer["/x"][:] = 1
    made.commit()
    made.restructure("/x", order="column", memory="32MiB")
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match="sharded store"):
        hyperchunk.open(path, "r+")
