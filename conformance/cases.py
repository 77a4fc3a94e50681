"""The list of cases: each makes one HDF5 file, some with files beside it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hdf5 import Library

Make = Callable[[Library, Path], None]


@dataclass(frozen=True)
class Case:
    """One file and what must be found in its bytes."""

    subject: str
    name: str
    make: Make
    marks: tuple[bytes, ...]
    needs: tuple[int, ...]

    @property
    def file(self) -> str:
        """The file's path below the output folder."""
        return f"{self.subject}/{self.name}.h5"


CASES: list[Case] = []


def case(*marks: bytes, needs: tuple[int, ...] = ()) -> Callable[[Make], Make]:
    """Adds a function as a case; `marks` are signatures that prove that the file has what it is for, `needs` is the
    oldest library that can make it."""

    def add(make: Make) -> Make:
        subject = make.__module__.rpartition(".")[2]
        CASES.append(Case(subject, make.__name__, make, marks, needs))
        return make

    return add


def load() -> list[Case]:
    """Every case of every file in `makers/`."""
    for path in sorted((Path(__file__).parent / "makers").glob("*.py")):
        if path.stem != "__init__":
            importlib.import_module(f"makers.{path.stem}")
    return CASES
