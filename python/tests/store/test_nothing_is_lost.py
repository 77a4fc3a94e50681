"""Logs that are cut off or missing, stores that are replaced, and writers that nobody closed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store

VALUES = np.arange(100_000) + 1.0


def made(path: Path, segments: str = "log") -> None:
    if segments == "log":
        run = store.create(path, {"/x": store.Dataset(VALUES.shape, "f8")})
        with run.writer() as writer:
            writer["/x"][:] = VALUES
    else:
        run = store.create(path, {"/t/x": store.Dataset((len(VALUES),), "f8")}, segments="arrow")
        with run.writer() as writer:
            writer.write_batch("t", {"x": VALUES}, row=0)
    run.commit()


def copy(path: Path, to: Path) -> None:
    shutil.copy(path, to)
    shutil.copytree(f"{path}.d", f"{to}.d")


@pytest.mark.parametrize("kind", ["missing", "cut off"])
@pytest.mark.parametrize("segments", ["log", "arrow"])
def test_incomplete_copies_are_not_linked(kind: str, segments: str, tmp_path: Path) -> None:
    made(tmp_path / "a.h5", segments)
    path = tmp_path / "b.h5"
    copy(tmp_path / "a.h5", path)
    name = "x" if segments == "log" else "t/x"
    pattern = "*.log" if segments == "log" else "*.arrow"
    data = max(Path(f"{path}.d").rglob(pattern), key=lambda file: file.stat().st_size)
    whole = data.read_bytes()
    data.chmod(0o644)
    data.unlink() if kind == "missing" else os.truncate(data, len(whole) // 2)

    done = subprocess.run([HYPERCHUNK, "store", "link", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "0 of 1 datasets are read by plain HDF5" in done.stdout
    assert "so 1 datasets are not linked" in done.stderr
    with h5py.File(path) as file, pytest.raises(OSError, match="unable to open external"):
        file[name][:]
    # A commit of other data neither fails nor hides the damage.
    run = store.open(path)
    with run.writer() as writer:
        writer.structure["note"] = "text"
    epoch = run.commit()
    assert epoch is not None
    assert "missing or cut off" in epoch.unlinked[f"/{name}"]
    with h5py.File(path) as file, pytest.raises(OSError, match="unable to open external"):
        file[name][:]
    with pytest.raises(hyperchunk.HyperchunkError), hyperchunk.open(path) as file:
        file[name][:]

    data.write_bytes(whole)
    subprocess.run([HYPERCHUNK, "store", "link", path], check=True, capture_output=True)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file[name][:], VALUES)


def test_logs_of_a_replaced_store_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/x": store.Dataset(VALUES.shape, "f8")})
    with run.writer() as writer:
        writer["/x"][:] = VALUES
    running = run.writer()
    running["/x"][:] = 5
    # Nothing was committed.
    new = store.create(path, {"/y": store.Dataset((3,), "i4")}, overwrite=True)
    ticket = running.close()
    with pytest.warns(store.StoreWarning, match="the store was created anew after this writer began"):
        assert run.commit([ticket]) is None
    with new.writer() as writer:
        writer["/y"][:] = 7
    assert new.commit() is not None
    with h5py.File(path) as file:
        assert list(file) == ["y"]
        assert file["y"][:].tolist() == [7] * 3
    # As the message about such a log says.
    other = tmp_path / "other.h5"
    (tmp_path / "other.h5.d").mkdir()
    first = next(log for log in Path(f"{path}.d").glob("*.log") if VALUES.tobytes() in log.read_bytes())
    shutil.copy(first, tmp_path / "other.h5.d")
    subprocess.run([HYPERCHUNK, "store", "recover", other], check=True, capture_output=True)
    with hyperchunk.open(other) as file:
        np.testing.assert_array_equal(file["x"][:], VALUES)


@pytest.mark.parametrize(
    "end",
    [
        "",
        "del w",
        "x = w['/x']; del w; x[500:] = 6; del x; import gc; gc.collect()",
        "w.structure['note'] = 'text'",
        "raise SystemExit(3)",
        "import os; p = os.fork(); p and os.waitpid(p, 0)",
    ],
)
def test_a_writer_that_nobody_closes_closes_itself(end: str, tmp_path: Path) -> None:
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset(VALUES.shape, "f8")})
    code = f"from hyperchunk import store; w = store.open('a.h5').writer(); w['/x'][:500] = 5; {end}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3 if "Exit" in end else 0, "")
    epoch = run.commit()
    assert epoch is not None
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert (file["x"][:500] == 5).all()
        assert ("note" in file) == ("note" in end)


def test_a_forked_child_leaves_the_writer_of_its_parent_alone(tmp_path: Path) -> None:
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset((4,), "f8")})
    code = """
import os
from hyperchunk import store
w = store.open("a.h5").writer()
w["/x"][:2] = 5
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    w["/x"][2:] = 6
    w.close()
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    run.commit()
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert file["x"][:].tolist() == [5, 5, 6, 6]
