"""Another file at the path of a store: reported as early as possible, and no data of the store are lost."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import pytest

from vol import helpers

WORDS = "expected the file of the store whose folder is"

PLAIN = 'import h5py\nwith h5py.File("plain.h5", "w") as f: f["p"] = [1, 2]\n'


def plain_file(folder: Path) -> None:
    helpers.run(PLAIN, folder=folder, native=True)
    (folder / "plain.h5").replace(folder / "run.h5")


def file_of_another_store(folder: Path) -> None:
    shutil.copy(folder / "other.h5", folder / "run.h5")


def file_without_datasets(folder: Path) -> None:
    shutil.copy(folder / "empty.h5", folder / "run.h5")


OTHERS = [plain_file, file_of_another_store, file_without_datasets]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Stores: `run.h5` with datasets, and two others, each with one epoch."""
    code = """
        import h5py
        with h5py.File("run.h5", "w") as f: f["d"], f["s"] = [0.0, 1, 2, 3], 1
        with h5py.File("other.h5", "w") as f: f["d"], f["e"] = [5.0, 6, 7, 8], [1, 2]
        with h5py.File("empty.h5", "w") as f: f.attrs["k"], f["n"] = 1, 2
    """
    helpers.run(code, folder=tmp_path, store=True)
    return tmp_path


def opened(folder: Path, mode: str) -> str:
    code = f'import h5py\nwith h5py.File("run.h5", "{mode}") as f: print(sorted(f))\n'
    process = helpers.start(code, folder=folder, env=hyperchunk.plugins.environment(store=True))
    out, err = process.communicate(timeout=60)
    return out if process.returncode == 0 else err


def restored(folder: Path) -> None:
    """Follows the message: the other file is removed, and the store's is made again."""
    (folder / "run.h5").unlink()
    subprocess.run([helpers.command(), "store", "commit", folder / "run.h5"], check=True)
    subprocess.run([helpers.command(), "store", "link", folder / "run.h5"], check=True)


@pytest.mark.parametrize("put", OTHERS)
def test_it_is_said_when_the_file_is_opened(put: Callable[[Path], None], folder: Path) -> None:
    put(folder)
    before = (folder / "run.h5").read_bytes()
    for mode in ("a", "r+"):
        assert WORDS in opened(folder, mode)
    # An ordinary file is read as an ordinary file.
    assert opened(folder, "r") == "['p']\n" if put is plain_file else WORDS in opened(folder, "r")
    status = subprocess.run(
        [helpers.command(), "store", "status", folder / "run.h5"], capture_output=True, text=True, check=True
    )
    assert "is another file" in status.stdout
    assert (folder / "run.h5").read_bytes() == before
    restored(folder)
    assert opened(folder, "a") == "['d', 's']\n"
    with h5py.File(folder / "run.h5") as f:
        assert f["d"][:].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("put", OTHERS)
def test_it_is_said_when_a_session_flushes_and_closes(put: Callable[[Path], None], folder: Path) -> None:
    code = """
        import h5py, sys
        f = h5py.File("run.h5", "a")
        f["new"] = [1, 2, 3]
        f.flush()
        print("flushed", flush=True)
        sys.stdin.readline()
        f["d"][0] = 9
        for call in (f.flush, f.close):
            try:
                call()
            except Exception as error:
                print(error)
    """
    process = helpers.start(code, folder=folder, env=hyperchunk.plugins.environment(store=True))
    assert process.stdout is not None
    assert process.stdout.readline() == "flushed\n"
    put(folder)
    out, err = process.communicate(timeout=60)
    assert out.count(WORDS) == 2, out + err
    restored(folder)
    with h5py.File(folder / "run.h5") as f:
        assert f["d"][:].tolist() == [9, 1, 2, 3]
        assert f["new"][:].tolist() == [1, 2, 3]


def test_a_file_that_was_deleted_is_made_again(folder: Path) -> None:
    code = """
        import h5py, os
        with h5py.File("run.h5", "a") as f:
            f["new"] = [1, 2, 3]
            os.remove("run.h5")
            f.flush()
    """
    helpers.run(code, folder=folder, store=True)
    assert opened(folder, "r") == "['d', 'new', 's']\n"


def test_a_store_and_its_copy_are_read(folder: Path) -> None:
    shutil.copy(folder / "run.h5", folder / "copy.h5")
    shutil.copytree(folder / "run.h5.d", folder / "copy.h5.d")
    code = """
        import h5py
        with h5py.File("copy.h5", "a") as f:
            f["d"][0] = 7
        with h5py.File("copy.h5", "r") as f:
            print(f["d"][:].tolist())
    """
    assert helpers.run(code, folder=folder, store=True) == "[7.0, 1.0, 2.0, 3.0]\n"
