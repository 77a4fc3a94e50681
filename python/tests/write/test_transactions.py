"""Transactions of edited files: committed whole, or undone. h5py reads the results."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import InvalidError, UnsupportedError


class StopError(Exception):
    """Ends a transaction."""


@contextmanager
def undone(file: Any) -> Iterator[None]:
    """A transaction that is undone at the end of the block."""
    try:
        with file.transaction():
            yield
            raise StopError
    except StopError:
        pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.attrs["step"] = 0
        file["contiguous"] = np.arange(20.0)
        file.create_dataset("compact", data=np.arange(4, dtype="i2"))
        file.create_dataset(
            "chunked", data=np.arange(60).reshape(6, 10), chunks=(4, 4), maxshape=(None, 10), compression="gzip"
        )
        file.create_dataset("strings", data=["a", "bb"], dtype=h5py.string_dtype(), chunks=(2,), maxshape=(None,))
        file["g/x"] = [1, 2]
        file["type"] = np.dtype("f4")
        file["hard"] = file["chunked"]
    return path


def contents(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        found: dict[str, Any] = {"step": int(file.attrs["step"]), "links": sorted(file)}

        def visit(name: str, value: Any) -> None:
            if isinstance(value, h5py.Dataset):
                found[name] = (value.shape, value[()].tolist())
            found[f"{name} attributes"] = sorted(value.attrs)

        file.visititems(visit)
    return found


def change(file: Any) -> None:
    """Changes objects of each kind."""
    file.attrs["step"] = 1
    file.attrs["new"] = "text"
    file["contiguous"][5:] = 7
    file["compact"][0] = 7
    file["chunked"].resize(9, 0)
    file["chunked"][7:] = 3
    file["chunked"][0, 0] = 9
    file["strings"][0] = "changed"
    file["g"].attrs["note"] = "new"
    del file["g/x"]
    file.create_dataset("made", data=np.zeros((100, 100)), chunks=(10, 10))
    file.move("type", "g/type")
    file["another"] = file["contiguous"]


@pytest.mark.parametrize("then", ["write", "resize", "transaction"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_attributes_after_an_undone_transaction(tmp_path: Path, libver: str, then: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        made = file.create_dataset("d", data=np.arange(300), chunks=(16,), maxshape=(None,))
        made.attrs["units"] = "m"
        file["g/x"] = 1
        file["g"].attrs["note"] = "kept"
    with hyperchunk.open(path, "r+") as file:
        with undone(file):
            file["d"][:200] = 5
            file["d"].resize(310, 0)
            file["g/y"] = 2
        if then == "write":
            file["d"][:200] = 7
        elif then == "resize":
            file["d"].resize(299, 0)
        else:
            with file.transaction():
                file["d"][0] = 1
        file["g/z"] = 3
    with h5py.File(path) as file:
        assert dict(file["d"].attrs) == {"units": "m"}
        assert dict(file["g"].attrs) == {"note": "kept"}
        assert sorted(file["g"]) == ["x", "z"]


def test_transaction_is_one_commit(path: Path) -> None:
    before = contents(path)
    with hyperchunk.open(path, "r+") as file:
        file.attrs["step"] = 5
        with file.transaction() as same:
            assert same is file
            # What came before is committed.
            assert contents_unlocked(path)["step"] == 5
            change(file)
            assert contents_unlocked(path) == {**before, "step": 5}
        after = contents_unlocked(path)
        assert after["step"] == 1
        assert "made" in after["links"]
    assert contents(path) == after


def contents_unlocked(path: Path) -> dict[str, Any]:
    """Reads a copy of the file: it is locked."""
    copy = path.with_name("copy.h5")
    copy.write_bytes(path.read_bytes())
    return contents(copy)


@pytest.mark.parametrize("first", [False, True], ids=["fresh", "after commits"])
def test_exception_undoes_everything(path: Path, first: bool) -> None:
    with hyperchunk.open(path, "r+") as file:
        chunked, contiguous, strings, group = (file[name] for name in ("chunked", "contiguous", "strings", "g"))
        if first:
            change(file)
            file.flush()
            file["chunked"][:, 1] = 5
            file["made"][3, :] = 4
            file.attrs["step"] = 2
            del file["another"]
            file["g/x"] = [5, 6, 7]
            file.flush()
        before, size, digest = contents_unlocked(path), path.stat().st_size, sha(path)
        shape, values = chunked.shape, chunked[()]
        with undone(file):
            if first:
                file["g/type2"] = np.dtype("i4")
                del file["made"], file["g/x"]
                chunked[:] = 0
                chunked.resize(20, 0)
                contiguous[:] = -1
                strings[1] = "other"
                file["later"] = np.arange(100_000)
            else:
                change(file)
        # Free space of earlier commits is written at once.
        assert first or sha(path) == digest
        assert path.stat().st_size == size
        assert contents_unlocked(path) == before
        assert sorted(file) == before["links"]
        assert int(file.attrs["step"]) == before["step"]
        # Handles from before the transaction show the file as it was, and write to it.
        assert chunked.shape == shape
        np.testing.assert_array_equal(chunked[()], values)
        assert contiguous[()].tolist() == before["contiguous"][1]
        assert sorted(group.attrs) == before["g attributes"]
        chunked[0, 2] = 77
        group.attrs["after"] = 1
        contiguous[0] = 99
        file["new"] = [1, 2, 3]
    after = contents(path)
    expected = np.array(values)
    expected[0, 2] = 77
    assert after["chunked"] == (shape, expected.tolist())
    with h5py.File(path) as read:
        assert read["hard"] == read["chunked"]
    assert after["contiguous"][1][0] == 99
    assert after["new"] == ((3,), [1, 2, 3])
    assert after["strings"] == before["strings"]


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_object_of_an_undone_transaction(path: Path) -> None:
    with hyperchunk.open(path, "r+") as file:
        with undone(file):
            made = file.create_group("made")
            data = file.create_dataset("data", data=[1, 2])
        with pytest.raises(InvalidError, match="undone"):
            made.attrs["x"] = 1
        with pytest.raises(InvalidError, match="undone"):
            data[0] = 1
        assert "made" not in file
        file.create_group("made").attrs["x"] = 2
    with h5py.File(path) as read:
        assert read["made"].attrs["x"] == 2
        assert "data" not in read


def test_transactions_do_not_nest(path: Path) -> None:
    with hyperchunk.open(path, "r+") as file:
        with file.transaction():
            file.attrs["step"] = 3
            with pytest.raises(InvalidError, match="a transaction is open"), file.transaction():
                pytest.fail("it began")
            with pytest.raises(InvalidError, match="cannot commit: a transaction is open"):
                file.flush()
            with pytest.raises(InvalidError, match="cannot close the file: a transaction is open"):
                file.close()
        with file.transaction():
            file.attrs["more"] = 1
    assert contents(path)["step"] == 3


def test_new_file_has_no_transactions(path: Path) -> None:
    with (
        hyperchunk.open(path.with_name("new.h5"), "w") as file,
        pytest.raises(UnsupportedError, match='mode "r\\+"'),
        file.transaction(),
    ):
        pytest.fail("it began")


def test_undone_transactions_take_no_space(path: Path) -> None:
    with hyperchunk.open(path, "r+") as file:
        for number in range(20):
            with undone(file):
                file[f"d{number}"] = np.random.default_rng(number).random(100_000)
    assert path.stat().st_size < 100_000


def test_random_transactions_keep_what_was_committed(path: Path) -> None:
    """Many transactions, of which some are undone: a model of h5py's has only the others."""
    random = np.random.default_rng(7)
    model = path.with_name("model.h5")
    model.write_bytes(path.read_bytes())
    with hyperchunk.open(path, "r+") as ours, h5py.File(model, "r+") as theirs:
        for number in range(120):
            undone = bool(random.integers(2))
            seed = int(random.integers(2**31))
            try:
                with ours.transaction():
                    steps(ours, seed, number)
                    if undone:
                        raise StopError
            except StopError:
                pass
            if not undone:
                steps(theirs, seed, number)
    assert contents(path) == contents(model)


def steps(file: Any, seed: int, number: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(int(random.integers(1, 5))):
        match int(random.integers(8)):
            case 0:
                file["chunked"][int(random.integers(6)), :] = random.integers(100, size=10)
            case 1:
                file["chunked"].resize(int(random.integers(6, 30)), 0)
            case 2:
                file["contiguous"][int(random.integers(20))] = random.random()
            case 3:
                file["strings"][int(random.integers(2))] = "x" * int(random.integers(50))
            case 4:
                file[f"n{number}-{int(random.integers(10**9))}"] = random.integers(
                    9, size=int(random.integers(1, 3000))
                )
            case 5:
                names = sorted(name for name in file if name.startswith("n"))
                if names:
                    del file[names[int(random.integers(len(names)))]]
            case 6:
                file["g"].attrs[f"a{int(random.integers(20))}"] = random.integers(9, size=3)
            case _:
                group = file.require_group(f"groups/{int(random.integers(5))}")
                group.attrs["n"] = int(random.integers(9))


def test_file_is_committed_after_an_exception_without_a_transaction(path: Path) -> None:
    """As h5py: what was written stays."""

    def write() -> None:
        with hyperchunk.open(path, "r+") as file:
            file.attrs["step"] = 8
            raise StopError

    with pytest.raises(StopError):
        write()
    assert contents(path)["step"] == 8


def test_exception_in_a_transaction_and_a_file(path: Path) -> None:
    before = contents(path)

    def write() -> None:
        with hyperchunk.open(path, "r+") as file, file.transaction():
            change(file)
            raise StopError

    with pytest.raises(StopError):
        write()
    assert contents(path) == before
    assert not path.with_name("a.h5.redo").exists()


def test_killed_in_a_transaction(path: Path) -> None:
    before = contents(path)
    program = f"""
import os, signal, hyperchunk
file = hyperchunk.open({str(path)!r}, "r+")
with file.transaction():
    file["chunked"][:] = 0
    file["contiguous"][:] = 0
    file["new"] = range(10000)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode < 0
    assert contents(path) == before
    with hyperchunk.open(path, "r+") as file:
        assert "new" not in file
