"""Companion files: used only for their own version of the file, and only if no other user could have made them."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import layouts
from hyperchunk._core import run_command
from hyperchunk.exceptions import ChangedError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and times of change are POSIX's")


def make(path: Path, value: int) -> None:
    """Makes a file whose size does not depend on its values."""
    with h5py.File(path, "w") as file:
        file.create_dataset("m", data=np.full((400, 400), value, "i4"), chunks=(20, 400))
        file["m"][:, 7] = value + 50


def accompany(path: Path) -> None:
    """Makes all companions of a file."""
    hyperchunk.analyze(path)
    hyperchunk.restructure(path, "/m", order="column")
    hyperchunk.index(path)


def in_place(path: Path, _: Path) -> None:
    """Edits in place, and keeps the modification time."""
    with h5py.File(path, "r+") as file:
        file["m"][...] = 2
        file["m"][:, 7] = 52


def copied(path: Path, other: Path) -> None:
    """Replaces the contents, as `cp -p` does."""
    shutil.copy2(other, path)


def replaced(path: Path, other: Path) -> None:
    """Replaces the file, as `rsync -t` does."""
    shutil.copy2(other, new := path.with_suffix(".new"))
    new.rename(path)


def moved(path: Path, other: Path) -> None:
    """Restores a backup."""
    other.rename(path)


def exchanged(path: Path, other: Path) -> None:
    """Exchanges two versions."""
    path.rename(kept := path.with_suffix(".kept"))
    other.rename(path)
    kept.rename(other)


@pytest.mark.parametrize("change", [in_place, copied, replaced, moved, exchanged])
def test_another_version_of_the_same_size_and_time(tmp_path: Path, change: Callable[[Path, Path], None]) -> None:
    path, other = tmp_path / "a.h5", tmp_path / "b.h5"
    make(path, 1)
    make(other, 2)
    before = path.stat()
    accompany(path)
    assert [one.state for one in layouts.of(path)] == ["used"]
    assert len(hyperchunk.query(path, "/m", "value > 50").read()[1]) == 400
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    change(path, other)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with pytest.raises(ChangedError, match="another version"):
        hyperchunk.query(path, "/m", "value > 51")
    file = hyperchunk.open(path)
    assert file["m"][:, 7].tolist() == [52] * 400
    assert file["m"][3, 3] == 2
    assert [one.state for one in layouts.of(path)] == ["stale"]


def test_what_was_made_with_a_lenient_umask_counts(tmp_path: Path) -> None:
    """A companion made with a lenient umask counts, beside a file that is not group-writable."""
    path = tmp_path / "a.h5"
    make(path, 1)
    path.chmod(0o644)
    before = os.umask(0o002)
    try:
        accompany(path)
    finally:
        os.umask(before)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(hyperchunk.query(path, "/m", "value > 50").read()[1]) == 400
        assert [one.state for one in layouts.of(path)] == ["used"]
        assert hyperchunk.open(path)["m"][:, 7].tolist() == [51] * 400


@pytest.mark.parametrize("spoil", ["others", "link", "pipe", "folder"])
def test_one_warning_for_what_does_not_count(tmp_path: Path, spoil: str) -> None:
    """One warning for a refused companion, also in a program that ran a command in-process before."""
    path = tmp_path / "a.h5"
    make(path, 1)
    assert run_command(["hyperchunk", "ls", str(path)]) == 0
    hyperchunk.index(path)
    index = Path(f"{path}.hcindex")
    if spoil == "others":
        index.chmod(0o666)
    else:
        index.rename(kept := tmp_path / "kept")
        if spoil == "link":
            index.symlink_to(kept)
        elif spoil == "pipe":
            os.mkfifo(index)
        else:
            index.mkdir()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert hyperchunk.open(path)["m"][0, 0] == 1
        for _ in range(1000):
            pass
    assert [str(one.message).split(":")[0] for one in caught] == ["an index is not used"]
