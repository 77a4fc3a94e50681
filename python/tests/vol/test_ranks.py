"""Ranks of one program that write one file through the connector: elements are merged, and conflicts are reported."""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest

PROGRAM = """
import sys
import h5py
import numpy as np
rank, ranks = int(sys.argv[1]), int(sys.argv[2])
with h5py.File("a.h5", "w") as file:
{body}
"""


def run(folder: Path, body: str, ranks: int = 2) -> tuple[list[int], str]:
    """Runs a program once per rank, in parallel; returns the sorted exit statuses and the common standard error."""
    text = PROGRAM.format(body="\n".join(f"    {line}" for line in body.strip().splitlines()))
    env = os.environ | hyperchunk.plugins.environment(store=True, writers=ranks)
    command = [sys.executable, "-W", "ignore", "-c", text]
    started = [
        subprocess.Popen([*command, str(rank), str(ranks)], env=env, cwd=folder, stderr=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    errors = [process.communicate(timeout=120)[1] for process in started]
    return sorted(process.returncode for process in started), "".join(errors)


FILLS = {
    "anonymous": "d = file.create_dataset(None, (2,), 'i4'); file['x'] = d; d[rank] = rank + 1",
    "assigned": "file['x'] = np.zeros(2, 'i4'); file['x'][rank] = rank + 1",
    "assigned, not zeros": "file['x'] = np.full(2, 9, 'i4'); file['x'][rank] = rank + 1",
    "data=": "file.create_dataset('x', data=np.zeros(2, 'i4')); file['x'][rank] = rank + 1",
    "data=, chunked": "file.create_dataset('x', data=np.full(2, 9), chunks=(1,)); file['x'][rank] = rank + 1",
    "plain": "d = file.create_dataset('x', (2,), 'i4'); d[rank] = rank + 1",
    "equal values": "file['x'] = np.array([1, 2])",
}


@pytest.mark.parametrize("fill", FILLS)
def test_elements_of_ranks_merge(fill: str, tmp_path: Path) -> None:
    assert run(tmp_path, FILLS[fill]) == ([0, 0], "")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][:].tolist() == [1, 2]


def test_a_large_array_and_a_group_on_the_way(tmp_path: Path) -> None:
    body = "file['g/h/x'] = np.ones(200_000); file['g/h/x'][rank * 50_000 : (rank + 1) * 50_000] = rank + 2"
    assert run(tmp_path, body, 4) == ([0] * 4, "")
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["g/h/x"][:], np.repeat([2.0, 3, 4, 5], 50_000))


def test_different_elements_of_one_fill_are_a_conflict(tmp_path: Path) -> None:
    states, errors = run(tmp_path, "a = np.full(2, np.nan); a[rank] = rank; file['x'] = a")
    assert states == [0, 1], "the close that commits fails"
    assert "a.h5: epoch 1 was committed, and writers do not agree" in errors
    assert "/x, [2] elements at [0]: different data" in errors


NATIVE = """
file.create_dataset("strings", (3,), dtype=h5py.string_dtype())[rank] = f"rank {rank}"
file.create_dataset("sequences", (3,), dtype=h5py.vlen_dtype("i4"))[rank] = np.arange(3) + rank
file.create_dataset("records", (3,), np.dtype([("a", "i4"), ("s", h5py.string_dtype())]))[rank] = (rank, f"r{rank}")
file.create_dataset("plain", (2,), "i4")
file.create_dataset("references", (3,), dtype=h5py.ref_dtype)[rank] = file["strings" if rank else "plain"].ref
file.create_dataset("chunks", (3,), h5py.string_dtype(), chunks=(2,), compression="gzip")[rank] = f"rank {rank}"
file.create_dataset("filled", (3,), h5py.string_dtype(), fillvalue="none")[rank] = f"rank {rank}"
plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
plist.set_layout(h5py.h5d.COMPACT)
space = h5py.h5s.create_simple((3,))
h5py.Dataset(h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32LE, space, plist))[rank] = rank + 1
file.create_dataset("scalar", (), "i4")[()] = 5
file["text"] = "the same"
"""


def test_elements_that_lie_in_ranks_own_files_merge(tmp_path: Path) -> None:
    assert run(tmp_path, NATIVE) == ([0, 0], "")
    with h5py.File(tmp_path / "a.h5") as file:
        for name in ("strings", "chunks"):
            assert file[name].asstr()[:].tolist() == ["rank 0", "rank 1", ""]
        assert file["filled"].asstr()[:].tolist() == ["rank 0", "rank 1", "none"]
        assert [list(part) for part in file["sequences"][:]] == [[0, 1, 2], [1, 2, 3], []]
        assert file["records"][:2].tolist() == [(0, b"r0"), (1, b"r1")]
        assert [file[reference].name for reference in file["references"][:2]] == ["/plain", "/strings"]
        assert file["compact"][:].tolist() == [1, 2, 0]
        assert file["scalar"][()] == 5
        assert file["text"].asstr()[()] == "the same"


def test_different_strings_of_one_element_are_a_conflict(tmp_path: Path) -> None:
    body = "file.create_dataset('s', (3,), h5py.string_dtype())[1] = f'rank {rank}'"
    states, errors = run(tmp_path, body)
    assert states == [0, 1]
    assert "/s: different values of 1 element, the first at [1]" in errors


READ = """
import pathlib, time
def wait(name):
    until = time.monotonic() + 60
    while not pathlib.Path(name).exists():
        assert time.monotonic() < until
        time.sleep(0.01)
d = file.create_dataset("x", (ranks, 1000), "i4")
c = file.create_dataset("c", (ranks, 10), "f8", chunks=(1, 10), compression="gzip", fillvalue=-1)
d[rank] = rank + 1
c[rank, :5] = rank + 1
file.flush()
pathlib.Path(f"flushed{rank}").touch()
for other in range(ranks):
    wait(f"flushed{other}")
assert (d[:] == np.arange(1, ranks + 1)[:, None]).all(), d[:, 0]
assert (c[:, :5] == np.arange(1, ranks + 1)[:, None]).all() and (c[:, 5:] == -1).all(), c[:]
assert (d[rank] == rank + 1).all()
pathlib.Path(f"read{rank}").touch()
for other in range(ranks):
    wait(f"read{other}")
# And once more, in the same open file.
d[rank, 0] = 100 + rank
file.flush()
pathlib.Path(f"again{rank}").touch()
for other in range(ranks):
    wait(f"again{other}")
assert d[:, 0].tolist() == [100 + other for other in range(ranks)], d[:, 0]
"""


def test_a_rank_reads_what_others_flushed(tmp_path: Path) -> None:
    assert run(tmp_path, READ, 3) == ([0] * 3, "")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][:, 0].tolist() == [100, 101, 102]


UNFLUSHED = """
import pathlib, time
def meet(name):
    pathlib.Path(f"{name}{rank}").touch()
    until = time.monotonic() + 60
    for other in range(ranks):
        while not pathlib.Path(f"{name}{other}").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
d = file.create_dataset("x", (ranks, 1000), "i4")
large = file.create_dataset("large", (ranks, 50_000), "i4")
grows = file.create_dataset("grows", (0, 10), "i4", maxshape=(None, 10), chunks=(1, 10))
d[rank] = rank + 1
file.flush()
large[rank] = rank + 1  # goes to the log at once, behind what was flushed
for rows in (ranks, 2 * ranks):
    grows.resize((rows, 10))
    grows[rows - ranks + rank] = rank + 1
meet("flushed")
assert d[:, 0].tolist() == [1, 2, 3], d[:, 0]
assert large[:, 0].tolist() == [1, 2, 3], large[:, 0]
file.flush()
meet("all")
assert grows[:, 0].tolist() == [1, 2, 3] * 2, grows[:, 0]
meet("read")
"""


def test_what_is_behind_the_last_flush_hides_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, UNFLUSHED, 3) == ([0] * 3, "")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["grows"][:, 0].tolist() == [1, 2, 3] * 2
