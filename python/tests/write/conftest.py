"""Fixtures for tests of writing: each test may run with h5py instead of hyperchunk, as a control."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk
import pytest


@pytest.fixture(params=["hyperchunk", "h5py"])
def library(request: pytest.FixtureRequest) -> ModuleType:
    """Library under test: hyperchunk, and h5py as a control."""
    return {"hyperchunk": hyperchunk, "h5py": h5py}[request.param]


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Any]:
    """A new file written by hyperchunk, and read by h5py: ``with new.h5py() as file``."""
    made = New(tmp_path / "new.h5")
    yield made
    made.close()


class New:
    """A file written by hyperchunk and read by h5py."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = hyperchunk.File(path, "w")

    def close(self) -> None:
        self.file.close()

    def h5py(self) -> h5py.File:
        """Closes the file and opens it with h5py."""
        self.close()
        return h5py.File(self.path, "r")
