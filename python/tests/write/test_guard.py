"""Guarded edits: other programs see whole commits or an error, also after an interruption at any write."""

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
from hyperchunk.exceptions import UnsupportedError

EDITS = """
import hyperchunk, sys
with hyperchunk.open(sys.argv[1], "r+", guard=True) as file:
    print("open", flush=True)
    for number in (1, 2):
        file["contiguous"][...] = number
        file["chunked"][...] = number
        file["chunked"].attrs["number"] = number
        file.attrs["number"] = number
        file.attrs[f"text{number}"] = "long" * 100 * number
        file.flush()
"""


def make(path: Path, libver: str) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        file["contiguous"] = np.zeros(3000)
        file.create_dataset("chunked", data=np.zeros(900), chunks=(300,), compression="gzip")
        file["chunked"].attrs["number"] = 0
        file.attrs["number"] = 0


def number(path: Path, opened: Any) -> int:
    with opened(path, "r") as file:
        parts = [file["contiguous"][...], file["chunked"][...], file["chunked"].attrs["number"], file.attrs["number"]]
        found = {int(value) for part in parts for value in np.unique(part)}
    assert len(found) == 1, "a commit is visible in part"
    return found.pop()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_killed_at_each_write(libver: str, tmp_path: Path) -> None:
    original, path = tmp_path / "original.h5", tmp_path / "a.h5"
    make(original, libver)
    refused = complete = 0
    for when in range(1, 200):
        shutil.copyfile(original, path)
        strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64,pwritev"]
        strace += ["-e", f"inject=pwrite64,pwritev:signal=KILL:when={when}"]
        done = subprocess.run([*strace, sys.executable, "-c", EDITS, path], capture_output=True, text=True)
        assert done.stdout == "open\n", done.stderr
        if done.returncode == 0:
            break
        seen = None
        try:
            seen = number(path, h5py.File)
        except OSError:
            refused += 1
        found = number(path, hyperchunk.open)
        assert seen in (None, found, found - 1)
        redo = path.with_name("a.h5.redo")
        # A reader leaves an empty journal, of which a kill left the name alone.
        assert not redo.exists() or redo.stat().st_size == 0
        assert number(path, h5py.File) == found
        complete += found > 0
    assert done.returncode == 0
    assert number(path, h5py.File) == 2
    assert refused >= 8
    assert complete > 0


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
@pytest.mark.parametrize("option", ["", "--guard"])
def test_commands_guard_their_commit(option: str, tmp_path: Path) -> None:
    original, path = tmp_path / "original.h5", tmp_path / "a.h5"
    make(original, "earliest")
    refused = 0
    for when in range(1, 100):
        shutil.copyfile(original, path)
        strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64,pwritev"]
        strace += ["-e", f"inject=pwrite64,pwritev:signal=KILL:when={when}"]
        words = [HYPERCHUNK, "attr", "set", path, "/", "number", "[1, 2, 3]", "--overwrite", *filter(None, [option])]
        done = subprocess.run([*strace, *words], capture_output=True, text=True)
        refused += path.read_bytes()[8] == 255
        with hyperchunk.open(path) as file:
            assert np.array_equal(file.attrs["number"], 0) or np.array_equal(file.attrs["number"], [1, 2, 3])
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    assert (refused > 0) == bool(option)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_guarded_file_without_its_journal_says_so(libver: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    make(path, libver)
    content = bytearray(path.read_bytes())
    assert content[8] == (0 if libver == "earliest" else 3)
    with hyperchunk.open(path, "r+", guard=True) as file:
        file.attrs["number"] = 7
    assert path.read_bytes()[8] == content[8]
    if libver == "earliest":
        content[8] = 0xFF
        path.write_bytes(content)
        with pytest.raises(UnsupportedError, match=r"guarded edit.*FILE\.redo"):
            hyperchunk.open(path)


def test_guard_is_for_edits(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with pytest.raises(ValueError, match="guard is for the modes"):
        hyperchunk.open(path, "w", guard=True)
    with hyperchunk.open(path, "a", guard=True) as file:
        file["x"] = 1
    assert not path.with_name("a.h5.redo").exists()
