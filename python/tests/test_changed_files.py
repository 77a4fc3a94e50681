"""Files that change while they are open: values of two versions never mix, and no change goes unnoticed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import ChangedError

COUNT = 4000


def make(path: Path, value: int, **options: object) -> None:
    with h5py.File(path, "w", locking=False) as file:
        file.attrs["value"] = value
        file.create_dataset("chunked", data=np.full(COUNT, value, "i4"), chunks=(500,))
        file.create_dataset("gzip", data=np.full(COUNT, value, "i4"), chunks=(500,), compression="gzip")
        file.create_dataset("plain", data=np.full(COUNT, value, "i4"))
        file.create_dataset("compact", data=np.full(5, value, "i4"))
        file.create_dataset("text", data=[f"{value}"] * 5, dtype=h5py.string_dtype())
        file.create_group("g").attrs["value"] = value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    make(path, 1)
    old = time.time() - 100
    os.utime(path, (old, old))
    return path


def edit(path: Path) -> None:
    with h5py.File(path, "r+", locking=False) as file:
        file["chunked"][:] = file["plain"][:] = file["gzip"][:] = 2
        file.attrs["value"] = 2


def edit_and_put_the_time_back(path: Path) -> None:
    before = path.stat()
    with h5py.File(path, "r+", locking=False) as file:
        file["chunked"][:] = file["plain"][:] = 2
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def grow(path: Path) -> None:
    with h5py.File(path, "r+", locking=False) as file:
        file["more"] = np.arange(100000)


def shorten(path: Path) -> None:
    os.truncate(path, 3000)


def copy_over(path: Path) -> None:
    other = path.with_name("other.h5")
    make(other, 2)
    shutil.copyfile(other, path)


def replace(path: Path) -> None:
    other = path.with_name("other.h5")
    make(other, 2)
    other.replace(path)


def replace_as_backups_do(path: Path) -> None:
    before = path.stat()
    path.rename(path.with_suffix(".bak"))
    make(path, 2)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def write_with_ours(path: Path) -> None:
    with hyperchunk.open(path, "w") as file:
        file["chunked"] = np.full(COUNT, 2, "i4")


CHANGES = [
    edit,
    edit_and_put_the_time_back,
    grow,
    shorten,
    copy_over,
    replace,
    replace_as_backups_do,
    write_with_ours,
]


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_change_under_an_open_handle(path: Path, change: Callable[[Path], None], warm: bool) -> None:
    file = hyperchunk.open(path)
    names, attributes = ["chunked", "gzip", "plain", "compact", "text"], file.attrs
    found = {name: file[name] for name in names}
    group = file["g"]
    if warm:
        assert all(data[0] in (1, b"1") for data in found.values())
        assert group.attrs["value"] == 1
    change(path)
    for data in found.values():
        with pytest.raises(ChangedError, match="refresh") as caught:
            data[:]
        assert str(path) in str(caught.value)
    for attempt in (
        lambda: group.attrs["value"],
        lambda: list(file),
        lambda: file["g"],
        lambda: found["chunked"].read_chunk((0,)),
        lambda: found["chunked"].read_slices([np.s_[:5], np.s_[7]]),
        lambda: found["plain"].read_direct(np.empty(COUNT, "i4")),
        lambda: found["chunked"].arrow().to_pyarrow(),
        lambda: found["chunked"].astype("f8")[:],
    ):
        with pytest.raises(ChangedError):
            attempt()
    if change is not shorten:
        file.refresh()
        value = 1 if change is grow else 2
        assert set(found["chunked"][:]) == {value} == {file["chunked"][3]}
        if change is not edit_and_put_the_time_back and change is not write_with_ours:
            assert attributes["value"] == value
    with hyperchunk.open(path.with_name("fine.h5"), "w") as fine:
        fine["x"] = 1


def test_dataset_refresh_is_for_the_dataset(path: Path) -> None:
    file = hyperchunk.open(path)
    one, other = file["chunked"], file["plain"]
    edit(path)
    one.refresh()
    assert set(one[:]) == {2}
    assert set(file["plain"][:]) == {2}
    with pytest.raises(ChangedError):
        other[:]
    other.refresh()
    assert set(other[:]) == {2}


def test_what_does_not_change_contents(path: Path) -> None:
    file = hyperchunk.open(path)
    data, text = file["chunked"], file["text"]

    def right() -> None:
        assert set(data[:]) == {1}
        assert text[0] == b"1"
        assert file.attrs["value"] == 1

    right()
    path.chmod(0o600)
    right()
    (path.parent / "link.h5").hardlink_to(path)
    right()
    (path.parent / "link.h5").unlink()
    right()
    path.rename(path.parent / "b.h5")
    right()
    (path.parent / "b.h5").unlink()
    right()


def test_link_and_virtual_dataset_to_a_file_that_changes(path: Path) -> None:
    whole = path.with_name("whole.h5")
    with hyperchunk.open(whole, "w") as file:
        file["link"] = hyperchunk.ExternalLink(str(path), "/plain")
        layout = hyperchunk.VirtualLayout((COUNT,), "i4")
        layout[:] = hyperchunk.VirtualSource(str(path), "chunked", shape=(COUNT,))
        file.create_virtual_dataset("v", layout)
    file = hyperchunk.open(whole)
    data, link = file["v"], file["link"]
    assert set(data[:]) == {1} == set(link[:])
    edit(path)
    for one in (data, link):
        with pytest.raises(ChangedError, match=path.name):
            one[:]
    data.refresh()
    assert set(data[:]) == {2}


def rename(path: Path) -> None:
    path.rename(path.with_suffix(".bak"))


def rename_back_and_remove(path: Path) -> None:
    data = hyperchunk.open(path)["plain"]
    rename(path)
    assert data[0] == 1
    path.with_suffix(".bak").rename(path)
    assert data[0] == 1
    path.unlink()


@pytest.mark.parametrize("leave", [Path.unlink, rename, rename_back_and_remove])
def test_name_that_is_taken_by_another_file_after_a_read(path: Path, leave: Callable[[Path], None]) -> None:
    """Nothing about the file that lost its name changes when another one takes it."""
    whole = path.with_name("whole.h5")
    with h5py.File(whole, "w") as file:
        file["link"] = h5py.ExternalLink(path.name, "/plain")
        layout = h5py.VirtualLayout((COUNT,), "i4")
        layout[:] = h5py.VirtualSource(path.name, "chunked", shape=(COUNT,))
        file.create_virtual_dataset("v", layout)
    file, outer = hyperchunk.open(path, locking=False), hyperchunk.open(whole, locking=False)
    found = [file["plain"], outer["link"], outer["v"]]
    assert all(set(data[:]) == {1} for data in found)
    time.sleep(0.03)  # The system's clock has ticks: a file that is renamed within one has the same times.
    leave(path)
    for _ in range(3):
        assert all(set(data[:]) == {1} for data in found[:2])
        outer["v"][:]
    make(path, 2)
    for _ in range(2):
        for data in found:
            with pytest.raises(ChangedError, match="refresh"):
                data[:]
    for data in found:
        data.refresh()
        assert set(data[:]) == {2}


def test_name_that_is_taken_by_another_file_in_another_working_directory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    data = hyperchunk.open(path.name)["plain"]
    (path.parent / "below").mkdir()
    monkeypatch.chdir(path.parent / "below")
    make(Path(path.name), 3)
    path.unlink()
    assert set(data[:]) == {1}
    make(path, 2)
    with pytest.raises(ChangedError, match="refresh"):
        data[:]


def test_no_read_goes_on_after_a_change(tmp_path: Path) -> None:
    """While a program without locks writes all the time, each value read is of the version that was opened."""
    path = tmp_path / "a.h5"
    make(path, 0)
    program = textwrap.dedent("""
        import sys, time, h5py
        with h5py.File(sys.argv[1], "r+", locking=False) as file:
            print("ready", flush=True)
            end, value = time.time() + 2, 0
            while time.time() < end:
                value += 1
                file["plain"][:] = value
                file.flush()
                time.sleep(0.03)
    """)
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    whole = refused = 0
    while process.poll() is None:
        with contextlib.suppress(ChangedError), hyperchunk.open(path, locking=False) as file:
            first = file["plain"][:1000]
            for _ in range(100):
                try:
                    values = file["plain"][:]
                except ChangedError:
                    refused += 1
                    break
                # The system's clock has ticks: a change within one is detected at the next.
                if set(values) == set(first):
                    whole += 1
    process.stdout.close()
    assert process.returncode == 0
    assert whole > 0
    assert refused > 0


def test_mapped_views_show_what_the_file_has(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(1 << 16, dtype="i8")
    table = hyperchunk.open(path)["x"].arrow()
    before = table.to_pyarrow()["x"]
    assert table.is_zero_copy
    with h5py.File(path, "r+", locking=False) as file:
        file["x"][5] = -99
    assert before[5].as_py() == -99
    assert table.to_pyarrow()["x"][5].as_py() == -99


WRITER = """
    import sys
    import hyperchunk, numpy as np
    with hyperchunk.open(sys.argv[1], "w") as file:
        data = file.create_dataset("d", (1000,), "i4", maxshape=(None,), chunks=(100,))
        data[:] = 1
        file.flush()
        for count in range(1000, 100000, 1000):
            print("ready", flush=True)
            if input() == "flush":
                file.flush()
            elif count:
                data.resize((count + 1000,))
                data[count:] = count
                data[:100] = count
"""


def test_reader_of_a_commit_goes_on_while_our_writer_does(tmp_path: Path) -> None:
    """What a commit told of is there until the next one; after that, reads are errors until a refresh."""
    path = tmp_path / "a.h5"
    words = [sys.executable, "-c", textwrap.dedent(WRITER), path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None

        def tell(word: str) -> None:
            program.stdin.write(word + "\n")  # type: ignore[union-attr]
            program.stdin.flush()  # type: ignore[union-attr]
            program.stdout.readline()  # type: ignore[union-attr]

        program.stdout.readline()
        with hyperchunk.open(path) as file:
            data = file["d"]
            for _ in range(10):
                tell("write")
                np.testing.assert_array_equal(data[...], 1)
                assert file["d"].shape == (1000,)
            tell("flush")
            with pytest.raises(ChangedError):
                data[...]
            file.refresh()
            assert data.shape == (11000,)
            np.testing.assert_array_equal(data[:100], 10000)
            np.testing.assert_array_equal(data[10000:], 10000)
            tell("write")
            np.testing.assert_array_equal(data[:100], 10000)
        program.kill()


@pytest.mark.parametrize("between", [1, 2, 3, 4])
def test_reader_sees_that_commits_were_made_whose_structure_lies_as_before(tmp_path: Path, between: int) -> None:
    """Commits of the same size use the same places by turns: no number of them between two reads goes unnoticed."""
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, "w") as writer:
        data = writer.create_dataset("d", (1000,), "i4", chunks=(1000,), compression="gzip")
        for value in range(10):
            data[:] = value
            writer.flush()
            with hyperchunk.open(path, locking=False) as reader:
                np.testing.assert_array_equal(reader["d"][...], value)
                for count in range(between):
                    data[:] = 1000 + count
                    writer.flush()
                with pytest.raises(ChangedError):
                    reader["d"][...]
    assert path.stat().st_size < 10_000
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["d"][...], 1000 + between - 1)


def test_first_look_at_a_file_that_is_written(path: Path) -> None:
    """It sees the file as it is then; of other files, and after something was read, a change is an error."""
    with hyperchunk.open(path, locking=False) as reader:
        edit(path)
        with pytest.raises(ChangedError):
            reader["gzip"][:]
    with hyperchunk.open(path, "w") as writer:
        writer["x"] = np.arange(5)
        writer.flush()
        with hyperchunk.open(path) as reader:
            for number in range(3):
                writer[f"y{number}"] = np.arange(100000)
                writer.flush()
            assert reader["y2"][-1] == 99999
            writer["z"] = np.arange(100000)
            writer.flush()
            with pytest.raises(ChangedError):
                reader["z"]
            reader.refresh()
            assert reader["z"][-1] == 99999


@pytest.mark.parametrize("mapped_before", [False, True])
def test_no_mapping_of_a_file_that_changed(path: Path, mapped_before: bool) -> None:
    """The mapping of a changed file has other objects' bytes in that place."""
    data = hyperchunk.open(path)["plain"]
    if mapped_before:
        assert set(np.asarray(data)) == {1}
    copy_over(path)
    for attempt in (np.asarray, np.array, np.mean, np.from_dlpack, lambda it: np.asarray(it, "f4")):
        with pytest.raises(ChangedError, match="refresh"):
            attempt(data)
    data.refresh()
    assert set(np.asarray(data)) == {2} == set(np.from_dlpack(data))


@pytest.mark.parametrize("progress", [None, lambda done, total: None])
def test_a_table_of_a_changed_file_is_a_changed_error_through_pyarrow(path: Path, progress: object) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with hyperchunk.open(path) as file:
        table = file.table("gzip")
        edit(path)
        with pytest.raises(ChangedError) as caught:
            table.to_pyarrow(progress=progress)
    # The class that pyarrow raises for the text of the error, too.
    assert isinstance(caught.value, pyarrow.ArrowException | OSError)
