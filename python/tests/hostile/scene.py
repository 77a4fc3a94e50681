"""Common parts of the jail's scenarios: writing of a hand-made live dataset, and reading."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hostile import records
from hostile.records import Slot, make, store

SCENARIOS: dict[str, Callable[[Path], None]] = {}


def scenario(function: Callable[[Path], None]) -> Callable[[Path], None]:
    """Registers a scenario."""
    SCENARIOS[function.__name__] = function
    return function


def write(folder: Path, header: records.Header, name: str = "live.h5") -> Path:
    """Makes a file with a live dataset and an input `a`."""
    path = folder / name
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(1.0, 5.0)
        store(file, header)
    return path


def read(path: Path, dataset: str = "out", mode: str = "r") -> Any:
    """Returns the values."""
    with h5py.File(path, mode) as file:
        return file[dataset][...].tolist()


def refused(path: Path, cause: str) -> None:
    """Checks that the read fails for this cause."""
    with pytest.raises(OSError, match=cause):
        read(path)


def simple(language: str = "lua", out: str = "7") -> records.Header:
    """Returns a good function."""
    sources = {
        "lua": f'function dynamic_dataset() lib.getData("out")[1] = {out} end',
        "py": f'def dynamic_dataset():\n    lib.getData("out")[0] = {out}\n',
    }
    return make(sources[language], language, Slot("out", "double", (1,)))


def workers_of(pid: int) -> list[int]:
    """Returns the descendants of a process."""
    rows = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                rows[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found: list[int] = []
    front = [pid]
    while front:
        front = [child for child, parent in rows.items() if parent in front]
        found += front
    return found


def is_alive(pid: int) -> bool:
    """True while a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
