"""Companion files: used only for their own version of the file, and only if no other user could have made them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


def everything(path: Path, to: Path) -> None:
    """A file and all that lies beside it."""
    for found in [path, *path.parent.glob(f"{path.name}.*")]:
        target = to.with_name(to.name + found.name.removeprefix(path.name))
        if found.is_dir():
            shutil.copytree(found, target)
        else:
            shutil.copy2(found, target)


def used(path: Path, value: int) -> None:
    """The statistics and the layout of a file are used, and say what is in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(hyperchunk.query(path, "/m", f"value > {value + 49}").read()[1]) == 400
        assert hyperchunk.query(path, "/m", f"value > {value + 50}").read()[1].tolist() == []
        assert [one.state for one in layouts.of(path)] == ["used"]
        assert hyperchunk.open(path)["m"][:, 7].tolist() == [value + 50] * 400


@pytest.mark.parametrize("way", ["cp -a", "cp", "mv", "chmod", "touch", "mount"])
def test_a_copy_keeps_its_companions(tmp_path: Path, way: str) -> None:
    path = tmp_path / "a.h5"
    make(path, 1)
    accompany(path)
    (tmp_path / "sub").mkdir()
    if way == "mv":
        for found in tmp_path.glob("a.h5*"):
            found.rename(tmp_path / "sub" / found.name)
        path = tmp_path / "sub" / "a.h5"
    elif way == "chmod":
        path.chmod(0o640)
    elif way == "touch":
        os.utime(path)
    else:
        everything(path, other := tmp_path / "sub" / "b.h5")
        path = other
        if way == "cp":
            os.utime(path)
    if way == "mount":
        # Nothing can be written there, so each process checks again.
        for folder in [path.parent, *(found for found in path.parent.rglob("*") if found.is_dir())]:
            folder.chmod(0o555)
    used(path, 1)
    used(path, 1)
    # Looked at once: another process needs no digest.
    program = (
        "import sys, hyperchunk\nfrom hyperchunk import layouts\npath = sys.argv[1]\n"
        "assert len(hyperchunk.query(path, '/m', 'value > 50').read()[1]) == 400\n"
        "assert [one.state for one in layouts.of(path)] == ['used']"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)


@pytest.mark.parametrize("change", ["a byte of a chunk", "another version", "a byte of what is left out"])
def test_a_copy_that_is_another_version(tmp_path: Path, change: str) -> None:
    """With the size and all times of the original: `rsync -t`, and a file system that has no more."""
    path, other = tmp_path / "a.h5", tmp_path / "b.h5"
    make(path, 1)
    accompany(path)
    everything(path, other)
    before = path.stat()
    if change == "another version":
        make(other, 2)
    else:
        with h5py.File(path) as file:
            at = file["m"].id.get_chunk_info(7).byte_offset + 40 * 4 if change == "a byte of a chunk" else 600
        with other.open("r+b") as file:
            file.seek(at)
            old = file.read(1)
            file.seek(at)
            file.write(bytes([old[0] ^ 0x40]))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = other.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    for _ in range(2):
        with pytest.raises(ChangedError, match="another version"):
            hyperchunk.query(other, "/m", "value > 51")
        assert [one.state for one in layouts.of(other)] == ["stale"]
    used(path, 1)


def test_a_copy_that_was_known_and_then_changed(tmp_path: Path) -> None:
    path, other = tmp_path / "a.h5", tmp_path / "b.h5"
    make(path, 1)
    accompany(path)
    everything(path, other)
    used(other, 1)
    before = other.stat()
    in_place(other, path)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ChangedError, match="another version"):
        hyperchunk.query(other, "/m", "value > 51")
    assert [one.state for one in layouts.of(other)] == ["stale"]
    assert hyperchunk.open(other)["m"][:, 7].tolist() == [52] * 400


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
