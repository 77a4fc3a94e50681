"""Batches for training: each row once in each epoch, each chunk read once, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.dataset import Dataset

ROWS = np.arange(1003 * 3, dtype="f4").reshape(1003, 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=ROWS, chunks=(50, 2), compression="gzip")
        file["plain"] = ROWS
        file["none"] = np.zeros((0, 3))
        file["scalar"] = 1
    return tmp_path / "a.h5"


@pytest.mark.parametrize("name", ["x", "plain"])
@pytest.mark.parametrize("size", [1, 7, 64, 2000])
@pytest.mark.parametrize("window", [None, 1, 120, 5000])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_each_epoch_has_each_row_once(path: Path, name: str, size: int, window: int | None, axis: int) -> None:
    with hyperchunk.open(path) as file:
        dataset = file[name]
        plain = list(dataset.batches(size, axis=axis, window=window))
        assert np.array_equal(np.concatenate(plain, axis=axis), ROWS)
        batches = dataset.batches(size, shuffle=3, axis=axis, window=window)
        found = list(batches)
        assert len(found) == len(batches) == len(plain)
        assert [part.shape for part in found] == [part.shape for part in plain]
        together = np.moveaxis(np.concatenate(found, axis=axis), axis, 0)
        wanted = np.moveaxis(ROWS, axis, 0)
        assert np.array_equal(together[np.argsort(together[:, 0])], wanted)
        dropped = list(dataset.batches(size, shuffle=3, axis=axis, window=window, drop_last=True))
        length = ROWS.shape[axis]
        assert len(dropped) == len(dataset.batches(size, axis=axis, drop_last=True)) == length // size
        assert all(map(np.array_equal, dropped, found))


def test_orders_differ_between_epochs_and_seeds_repeat(path: Path) -> None:
    with hyperchunk.open(path) as file:
        batches = file["x"].batches(100, shuffle=1, window=200)
        first, second = (np.concatenate(list(batches))[:, 0] for _ in range(2))
        assert not np.array_equal(first, second)
        again = file["x"].batches(100, shuffle=1, window=200)
        assert np.array_equal(np.concatenate(list(again))[:, 0], first)
        assert np.array_equal(np.concatenate(list(again))[:, 0], second)
        other = np.concatenate(list(file["x"].batches(100, shuffle=2, window=200)))[:, 0]
        assert not np.array_equal(other, first)
        # Rows of distant chunks meet in a batch, and neighbours part.
        assert np.ptp(first[:100]) > 300
        assert (np.abs(np.diff(first)) == 3).mean() < 0.1


def test_each_chunk_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[np.ndarray] = []
    read = Dataset.__getitem__

    def counted(self: Dataset, index: Any) -> Any:
        asked.append(np.arange(1003)[index[0]] // 50)
        return read(self, index)

    monkeypatch.setattr(Dataset, "__getitem__", counted)
    with hyperchunk.open(path) as file:
        for _ in file["x"].batches(7, shuffle=5, window=100):
            # The window in use, the next, and the one that is read.
            pass
    chunks = [set(part.tolist()) for part in asked]
    assert all(len(part) <= 2 for part in chunks)
    assert sorted(chunk for part in chunks for chunk in part) == list(range(21))


def test_windows_are_read_only_as_they_are_needed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    read = Dataset.__getitem__
    monkeypatch.setattr(Dataset, "__getitem__", lambda self, index: (asked.append(index), read(self, index))[1])
    with hyperchunk.open(path) as file:
        running = iter(file["x"].batches(50, shuffle=5, window=50))
        for _ in range(3):
            next(running)
        assert len(asked) <= 4
        running.close()


def test_errors(path: Path) -> None:
    with hyperchunk.open(path) as file:
        assert list(file["none"].batches(3, shuffle=1)) == []
        for options in ({"size": 0}, {"size": 1, "axis": 2}, {"size": 1, "window": 0}):
            with pytest.raises(ValueError):
                file["x"].batches(**options)
        with pytest.raises(TypeError):
            file["scalar"].batches(1)
        running = iter(file["x"].batches(50, shuffle=5, window=50))
        next(running)
    with pytest.raises((ValueError, hyperchunk.HyperchunkError)):
        list(running)
