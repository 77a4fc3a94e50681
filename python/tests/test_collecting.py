"""Collections that are collected in batches."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperchunk
import numpy as np
import pytest
from hyperchunk import collecting
from hyperchunk.exceptions import ChangedError, ExistsError, InvalidError, NotFoundError
from test_collections import granule


class StoppedError(Exception):
    """The end of a process."""


def test_an_interrupted_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = [granule(tmp_path / f"{number}.nc", 2 * number, 2) for number in range(7)]
    output, partial = tmp_path / "all.hcx", tmp_path / "all.partial.hcx"

    def stop(done: int, total: int) -> None:
        assert total == 7
        if done == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        hyperchunk.open_collection(paths, output=output, progress=stop)
    assert not output.exists()
    assert len(hyperchunk.open_collection(partial).files) == 4
    assert partial.stat().st_mode & 0o022 == 0
    with pytest.raises(InvalidError, match="expected the files that are collected now"):
        hyperchunk.open_collection(paths[1:], output=output)
    with pytest.raises(InvalidError, match="it is joined along 'time', not 'y'"):
        hyperchunk.open_collection(paths, "y", output=output)
    shown: list[int] = []
    made = hyperchunk.open_collection(paths, output=output, progress=lambda done, _: shown.append(done))
    # The first four are not read again.
    # What was finished before, then the others.
    assert shown == [4, 5, 6, 7]
    assert shown[-1] == 7
    assert not partial.exists()
    assert made.files == hyperchunk.open_collection(output).files
    np.testing.assert_array_equal(made["time"][:], np.arange(14))
    with pytest.raises(ExistsError, match="overwrite=True"):
        hyperchunk.open_collection(paths, output=output)
    hyperchunk.open_collection(paths[:3], output=output, overwrite=True)
    assert len(hyperchunk.open_collection(output).files) == 3


def test_files_that_are_left_out_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = [granule(tmp_path / f"{at}.nc", 2 * at, 2, width=5 if at == 1 else 4) for at in range(5)]

    def stop(done: int, _: int) -> None:
        if done == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        hyperchunk.open_collection(paths, output=tmp_path / "all.hcx", progress=stop, on_mismatch="skip")
    made = hyperchunk.open_collection(paths, output=tmp_path / "all.hcx", on_mismatch="skip")
    assert len(made.files) == 4
    assert [Path(name).name for name in made.skipped] == ["1.nc"]


def interrupted(paths: list[Path], output: Path, **options: Any) -> Path:
    """Collects the first files of a list, and stops; returns the finished part."""

    def stop(done: int, _: int) -> None:
        if done == len(paths):
            raise StoppedError

    with pytest.raises(StoppedError):
        hyperchunk.open_collection(paths, output=output, progress=stop, **options)
    return output.with_name(f"{output.stem}.partial.hcx")


def test_the_order_of_files_is_kept_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = [granule(tmp_path / f"{number}.nc", 2 * number, 2) for number in range(5)]
    output = tmp_path / "all.hcx"
    partial = interrupted(paths, output)
    assert hyperchunk.open_collection(partial).files == tuple(map(str, paths[:4]))
    for other in (paths[:2][::-1] + paths[2:], [paths[0], *paths], paths[:3]):
        with pytest.raises(InvalidError, match="in their order; delete it"):
            hyperchunk.open_collection(other, output=output)
    assert hyperchunk.open_collection(paths, output=output).files == tuple(map(str, paths))


def test_a_file_that_is_left_out_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = [granule(tmp_path / f"{number}.nc", 2 * number, 2) for number in range(5)]
    paths[1].write_bytes(b"no HDF5 file")
    output = tmp_path / "all.hcx"
    interrupted(paths, output, on_mismatch="skip")
    with pytest.raises(InvalidError, match=r"it leaves out .*1\.nc"):
        hyperchunk.open_collection(paths, output=output)
    made = hyperchunk.open_collection(paths, output=output, on_mismatch="skip")
    assert len(made.files) == 4
    assert list(made.skipped) == [str(paths[1])]


def test_finished_files_that_changed_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = [granule(tmp_path / f"{number}.nc", 2 * number, 2) for number in range(5)]
    output = tmp_path / "all.hcx"
    partial = interrupted(paths, output)
    granule(paths[2], 100, 3)
    with pytest.raises(ChangedError, match=r"2\.nc.*delete .*partial"):
        hyperchunk.open_collection(paths, output=output)
    paths[2].unlink()
    with pytest.raises(NotFoundError, match=r"2\.nc.*delete .*partial"):
        hyperchunk.open_collection(paths, output=output)
    partial.write_bytes(b"")
    with pytest.raises(hyperchunk.HyperchunkError, match=r"delete .*partial\.hcx to begin again"):
        hyperchunk.open_collection(paths, output=output)


@pytest.mark.parametrize("way", ["call", "command"])
@pytest.mark.parametrize("there", ["collection", "appended", "file", "link", "for others", "none"])
def test_only_the_part_of_an_interrupted_call_is_used_and_deleted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    there: str,
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = [granule(tmp_path / f"{number}.nc", 2 * number, 2) for number in range(3)]
    output, partial = tmp_path / "k.hcx", tmp_path / "k.partial.hcx"
    other = tmp_path / "other.hcx"
    if there in ("link", "for others", "appended"):
        interrupted(paths, output)
    if there == "collection":
        hyperchunk.open_collection(paths[:2]).save(partial)
    elif there == "appended":
        # From then on it is a collection of the user.
        assert command("collect", paths[2], "--append", "-o", partial).returncode == 0
    elif there == "file":
        partial.write_bytes(b"five years of work")
    elif there == "link":
        partial.rename(other)
        partial.symlink_to(other)
    elif there == "for others":
        partial.chmod(0o666)
    before = partial.read_bytes() if partial.exists() else b""
    if way == "command":
        done = command("collect", *paths, "-o", output)
        failed, message = done.returncode != 0, done.stderr
    else:
        try:
            hyperchunk.open_collection(paths, output=output)
            failed, message = False, ""
        except InvalidError as error:
            failed, message = True, str(error)
    assert failed == (there != "none")
    assert output.exists() == (there == "none")
    if there == "none":
        assert not partial.exists()
        return
    expected = {"collection": "complete collection", "appended": "complete collection", "file": "no signature"}
    assert expected.get(there, "expected a regular file" if there == "link" else "permissions 666") in message
    assert "k.partial.hcx" in message
    assert "name another output" in message
    assert partial.read_bytes() == before
    partial.unlink()
    assert len(hyperchunk.open_collection(paths, output=output).files) == 3


def test_names_in_a_part_are_shown_on_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = [granule(tmp_path / f"{number}.nc", 2 * number, 2) for number in range(3)]
    paths[1] = tmp_path / "a\nhyperchunk: all is well"
    paths[1].write_bytes(b"no HDF5 file")
    interrupted(paths, tmp_path / "all.hcx", on_mismatch="skip")
    with pytest.raises(InvalidError, match=r"leaves out .*all is well") as raised:
        hyperchunk.open_collection(paths, output=tmp_path / "all.hcx")
    assert "\n" not in str(raised.value)


def test_the_command_goes_on(
    tmp_path: Path, command: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1003
    (tmp_path / "files").mkdir()
    names = [tmp_path / "files" / f"{number:04}.h5" for number in range(count)]
    with hyperchunk.create(names[0]) as file:
        file["x"] = [1.0, 2.0]
    for name in names[1:]:
        shutil.copy2(names[0], name)
    whole = names[-1].read_bytes()
    names[-1].write_bytes(whole[:100])
    output, partial = tmp_path / "all.hcx", tmp_path / "all.partial.hcx"
    arguments = ("collect", *names, "-o", output, "--concat", "0", "--statistics", "x")
    done = command(*arguments)
    assert done.returncode != 0
    assert names[-1].name in done.stderr
    assert not output.exists()
    assert len(hyperchunk.open_collection(partial).files) == 1000
    # Other files, or files that are joined in another way, are not added to it.
    done = command("collect", *names[1:], *arguments[count + 1 :])
    assert "the finished files are not the ones that are collected now" in done.stderr
    assert f"delete {partial}" in done.stderr
    done = command("collect", *names, "-o", output, "--concat", "x")
    assert "joined along 0" in done.stderr
    names[-1].write_bytes(whole)
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    assert "1003 files" in done.stdout
    assert not partial.exists()
    collection = hyperchunk.open_collection(output)
    assert collection.files == tuple(map(str, names))
    assert collection["x"].shape == (2 * count,)
    statistics = collection["x"].statistics
    assert statistics is not None
    assert all(file is not None and (file.min, file.max) == (1, 2) for file in statistics)
    # A finished part of Python's is the same, and a file of it that has changed is named.
    output.unlink()
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)

    def stop(done: int, _: int) -> None:
        if done == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        hyperchunk.open_collection(names[:6], 0, output=output, progress=stop)
    names[0].write_bytes(whole + b"\0")
    done = command("collect", *names[:6], "-o", output, "--concat", "0")
    assert done.returncode != 0
    assert "0000.h5" in done.stderr
    assert f"delete {partial}" in done.stderr
    names[0].write_bytes(whole)
    partial.unlink()
    partial.write_bytes(b"something else")
    done = command("collect", *names[:6], "-o", output, "--concat", "0")
    assert done.returncode != 0
    assert f"delete {partial}" in done.stderr
    assert partial.read_bytes() == b"something else"


def test_a_file_that_is_left_out_again_is_recorded_once(tmp_path: Path) -> None:
    for number in range(2):
        with hyperchunk.create(tmp_path / f"{number}.h5") as file:
            file["x"] = [number]
    (tmp_path / "bad.h5").write_bytes(b"no HDF5")
    paths = sorted(tmp_path.glob("*.h5"))
    made = hyperchunk.open_collection([*paths[:2]], concat=0)
    sizes = []
    for _ in range(3):
        made.append(paths, on_mismatch="skip")
        made.save(tmp_path / "all.hcx", overwrite=True)
        sizes.append((tmp_path / "all.hcx").stat().st_size)
    assert [Path(name).name for name in made.skipped] == ["bad.h5"]
    assert len(set(sizes)) == 1
