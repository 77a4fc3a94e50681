"""A live dataset reads its own file: independent of the file's name and place, and of other open files."""

import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from cuda_programs import WITH_CUDA
from fresh import failure, read, run_python
from programs import LANGUAGES, elementwise

A = np.arange(6, dtype="f4").reshape(2, 3)
PLUS_ONE = {language: elementwise(language, "a[i] + 1", inputs=["a"]) for language in (*LANGUAGES, "cu")}
#: Inputs that the worker maps, and inputs that are copied to it.
LAYOUTS: list[dict[str, Any]] = [{}, {"chunks": (1, 3)}]


def live_file(path: Path, attach: Any, data: np.ndarray, language: str = "lua", **layout: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=data, **layout)
    attach(path, language, PLUS_ONE[language])
    return path


@pytest.mark.parametrize("language", WITH_CUDA)
@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "chunked"])
def test_two_files_with_the_same_names(language: str, layout: Any, attach: Any, tmp_path: Path) -> None:
    """HDF5-UDF computed from the file that was opened first: silently wrong values."""
    one = live_file(tmp_path / "one.h5", attach, A, language, **layout)
    two = live_file(tmp_path / "two.h5", attach, A + 100, language, **layout)
    for first, second in [(one, two), (two, one)]:
        with h5py.File(first) as x, h5py.File(second) as y:
            for file in (x, y, y, x):
                np.testing.assert_array_equal(file["out"][...], file["a"][...] + 1)
            live = x["out"], y["out"]
            np.testing.assert_array_equal(live[1][...], y["a"][...] + 1)
            np.testing.assert_array_equal(live[0][...], x["a"][...] + 1)


def test_a_file_in_place_of_another(attach: Any, tmp_path: Path) -> None:
    """A new file at the same path, and after deletion often with the same inode."""
    for n in range(4):
        path = live_file(tmp_path / "same.h5", attach, A + 10 * n)
        np.testing.assert_array_equal(read(path, "out"), A + 10 * n + 1)
        path.unlink()


@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "chunked"])
def test_a_byte_copy_with_other_data(layout: Any, attach: Any, tmp_path: Path) -> None:
    """A copy alone reads correctly. Beside the original, whose id it has: correct or an error, never the other's
    values.
    """
    one = live_file(tmp_path / "one.h5", attach, A, **layout)
    two = tmp_path / "two.h5"
    shutil.copy(one, two)
    with h5py.File(one) as x, h5py.File(two) as y:
        np.testing.assert_array_equal(x["out"][...], A + 1)
        np.testing.assert_array_equal(y["out"][...], A + 1)
    with h5py.File(two, "r+") as file:
        file["a"][...] = A + 100
    np.testing.assert_array_equal(read(two, "out"), A + 101)
    np.testing.assert_array_equal(read(one, "out"), A + 1)
    with h5py.File(one) as x, h5py.File(two) as y:
        # Only one dataset is open at a time, so it is clear which is read.
        for file, expected in [(x, A + 1), (y, A + 101), (x, A + 1)]:
            np.testing.assert_array_equal(file["out"][...], expected)
        reasons = []
        # While both datasets are open, they cannot be distinguished.
        both = x["out"], y["out"]
        for live, expected in zip(both, [A + 1, A + 101], strict=True):
            try:
                values = live[...]
            except OSError as error:
                reasons.append(str(error))
            else:
                np.testing.assert_array_equal(values, expected)
    for reason in reasons:
        assert "hyperchunk udf:" not in reason or ("one.h5" in reason and "two.h5" in reason)


def test_closed_and_opened_again(attach: Any, tmp_path: Path) -> None:
    path = live_file(tmp_path / "a.h5", attach, A)
    for n in range(3):
        np.testing.assert_array_equal(read(path, "out"), A + n + 1)
        with h5py.File(path, "r+") as file:
            file["a"][...] = A + n + 1


@pytest.mark.parametrize("language", WITH_CUDA)
@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "chunked"])
def test_an_input_changed_between_two_reads(language: str, layout: Any, attach: Any, tmp_path: Path) -> None:
    """A changed input is read, without a chunk cache, and with changes still in HDF5's buffers."""
    path = live_file(tmp_path / "a.h5", attach, A, language, **layout)
    with h5py.File(path, "r+", rdcc_nbytes=0) as file:
        for n in range(3):
            file["a"][...] = A * (n + 2)
            np.testing.assert_array_equal(file["out"][...], A * (n + 2) + 1)
        live = file["out"]
        file["a"][0, 0] = 55
        assert live[0, 0] == 56
        file["a"][0, 0] = 66
        assert live[0, 0] == 67


def test_no_handle_keeps_the_file_open(attach: Any, tmp_path: Path) -> None:
    """After the close, the file can be opened for writing (with HDF5's locks), and this process has no handle of it."""
    for n, language in enumerate(LANGUAGES):
        for k, layout in enumerate(LAYOUTS):
            path = live_file(tmp_path / f"{n}{k}.h5", attach, A, language, **layout)
            code = """
import os, sys, h5py
path = sys.argv[1]
for _ in range(2):
    file = h5py.File(path)
    file["out"][...]
    file.close()
    h5py.File(path, "r+", locking=True).close()
    numbers = os.listdir("/proc/self/fd")
    links = [f"/proc/self/fd/{n}" for n in numbers]
    held = [os.readlink(n) for n in links if os.path.lexists(n)]
    assert path not in held, held
kinds = h5py.h5f.OBJ_FILE | h5py.h5f.OBJ_DATASET | h5py.h5f.OBJ_GROUP | h5py.h5f.OBJ_ATTR
assert h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, kinds) == 0
h5py.File(path, "w", locking=True).close()
"""
            run_python(code, path)


def test_renamed_linked_and_moved(attach: Any, tmp_path: Path) -> None:
    """HDF5-UDF loses a renamed dataset."""
    path = live_file(tmp_path / "a.h5", attach, A)
    with h5py.File(path, "r+") as file:
        file.move("out", "renamed")
        file["hard"] = file["renamed"]
        file["soft"] = h5py.SoftLink("/renamed")
        file.copy("renamed", "copy")
        file.create_group("group")["hard"] = file["renamed"]
    moved = tmp_path / "elsewhere" / "b.h5"
    moved.parent.mkdir()
    path.rename(moved)
    for name in ("renamed", "hard", "soft", "copy", "group/hard"):
        np.testing.assert_array_equal(read(moved, name), A + 1, err_msg=name)
    link = tmp_path / "link.h5"
    link.symlink_to(moved)
    np.testing.assert_array_equal(read(link, "renamed"), A + 1)
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file["out"] = h5py.ExternalLink(moved, "/renamed")
        file["a"] = A + 100  # not the input of the linked dataset
    np.testing.assert_array_equal(read(tmp_path / "external.h5", "out"), A + 1)


def test_relative_paths_and_other_working_folders(attach: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = live_file(tmp_path / "a.h5", attach, A)
    monkeypatch.chdir(tmp_path)
    with h5py.File(path.name) as file:
        monkeypatch.chdir("/")
        np.testing.assert_array_equal(file["out"][...], A + 1)


def test_an_unlinked_file_and_a_file_in_memory(attach: Any, tmp_path: Path) -> None:
    """HDF5-UDF finds neither."""
    for n, layout in enumerate(LAYOUTS):
        path = live_file(tmp_path / f"{n}.h5", attach, A, **layout)
        with path.open("rb") as stream, h5py.File(stream) as file:
            np.testing.assert_array_equal(file["out"][...], A + 1)
        with h5py.File(path, driver="core", backing_store=False) as file:
            np.testing.assert_array_equal(file["out"][...], A + 1)
        with h5py.File(path) as file:
            path.unlink()
            np.testing.assert_array_equal(file["out"][...], A + 1)


def test_copied_to_another_file(attach: Any, tmp_path: Path) -> None:
    path, other = live_file(tmp_path / "a.h5", attach, A), tmp_path / "b.h5"
    with h5py.File(path) as source, h5py.File(other, "w") as target:
        source.copy("out", target)
    assert 'input "a"' in failure(other, "out")
    with h5py.File(other, "r+") as target:
        target["a"] = A + 50
    np.testing.assert_array_equal(read(other, "out"), A + 51)
    # The original and the copy, one after the other, while both files are open.
    with h5py.File(path) as source, h5py.File(other) as target:
        np.testing.assert_array_equal(source["out"][...], A + 1)
        np.testing.assert_array_equal(target["out"][...], A + 51)


def test_a_virtual_dataset_over_a_live_one(attach: Any, tmp_path: Path) -> None:
    """HDF5 opens the source itself, invisibly: correct values or an error with advice, never zeros."""
    path = live_file(tmp_path / "a.h5", attach, A)
    virtual = tmp_path / "virtual.h5"
    layout = h5py.VirtualLayout((2, 3), "f4")
    layout[...] = h5py.VirtualSource(path, "out", (2, 3))
    with h5py.File(virtual, "w") as file:
        file.create_virtual_dataset("v", layout)
    try:
        got = read(virtual, "v")
    except OSError:
        assert "virtual" in failure(virtual, "v")
    else:
        np.testing.assert_array_equal(got, A + 1)
    with h5py.File(path) as source, h5py.File(virtual) as file:
        live = source["out"]  # open, as the error advises
        np.testing.assert_array_equal(file["v"][...], A + 1)
        np.testing.assert_array_equal(live[...], A + 1)


def test_a_live_dataset_over_a_virtual_one(attach: Any, tmp_path: Path) -> None:
    parts = []
    for n in range(2):
        parts.append(tmp_path / f"part{n}.h5")
        with h5py.File(parts[n], "w") as file:
            file["part"] = A[n]
    path = tmp_path / "a.h5"
    layout = h5py.VirtualLayout((2, 3), "f4")
    for n, part in enumerate(parts):
        layout[n] = h5py.VirtualSource(part, "part", (3,))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("a", layout)
    attach(path, "lua", PLUS_ONE["lua"])
    np.testing.assert_array_equal(read(path, "out"), A + 1)


def test_an_input_in_another_file_by_an_external_link(attach: Any, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["a"] = A
    path = tmp_path / "live.h5"
    with h5py.File(path, "w") as file:
        file["a"] = h5py.ExternalLink("data.h5", "/a")
    attach(path, "lua", PLUS_ONE["lua"])
    np.testing.assert_array_equal(read(path, "out"), A + 1)
    os.truncate(tmp_path / "data.h5", 0)
    assert 'input "a"' in failure(path, "out")


def test_an_input_with_raw_data_in_an_external_file(attach: Any, tmp_path: Path) -> None:
    A.tofile(tmp_path / "raw.bin")
    path = tmp_path / "live.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", (2, 3), "f4", external=[(str(tmp_path / "raw.bin"), 0, 24)])
    attach(path, "lua", PLUS_ONE["lua"])
    np.testing.assert_array_equal(read(path, "out"), A + 1)


def test_a_file_with_a_user_block(attach: Any, tmp_path: Path) -> None:
    """Addresses in the file count from the end of the user block."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=1024) as file:
        file["a"] = A
    attach(path, "lua", PLUS_ONE["lua"])
    np.testing.assert_array_equal(read(path, "out"), A + 1)


@pytest.mark.parametrize("libver", ["earliest", "v110", "latest"])
def test_format_versions(libver: str, attach: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["a"] = np.arange(1000, dtype="f4").reshape(50, 20)
    attach(path, "lua", PLUS_ONE["lua"], chunks="7x3")
    np.testing.assert_array_equal(read(path, "out"), read(path, "a") + 1)


ATTACH_THEN_WRITE = """
import sys, h5py, hyperchunk
others = [open("/dev/null") for _ in range(20)]  # so that the file's number is none that a worker uses itself
hyperchunk.udf.attach(sys.argv[1], sys.argv[2])
h5py.File(sys.argv[1], "r+", locking=True).close()
"""


@pytest.mark.parametrize("language", WITH_CUDA)
def test_attaching_leaves_no_lock_behind(language: str, scene: Any, source: Any) -> None:
    """HDF5 opens files without close-on-exec: a worker that inherits one holds its lock."""
    run_python(ATTACH_THEN_WRITE, scene(a=A), source(language, PLUS_ONE[language]))


READ_THEN_WRITE = """
import sys, h5py
others = [open("/dev/null") for _ in range(20)]
file = h5py.File(sys.argv[1], "r", locking=True)
file["out"][...]
file.close()
h5py.File(sys.argv[1], "r+", locking=True).close()
"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_reading_leaves_no_lock_behind(language: str, attach: Any, tmp_path: Path) -> None:
    run_python(READ_THEN_WRITE, live_file(tmp_path / "a.h5", attach, A, language))
