"""H5Coro's read interface."""

from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import h5coro
from hyperchunk.exceptions import InvalidError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("h5coro") / "made.h5"
    with h5py.File(path, "w") as f:
        f["line"] = np.arange(1000.0)
        f.create_dataset("table", data=np.arange(600, dtype="i4").reshape(200, 3), chunks=(7, 2), compression="gzip")
        f["cube"] = np.arange(24).reshape(2, 3, 4)
        f["one"] = 1
    return path


def test_rows_of_contiguous_data(made: Path) -> None:
    # h5coro 1.0.7 returns zeros for these.
    assert np.array_equal(h5coro.read(made, "line", start_row=500, row_count=10).data, np.arange(500.0, 510.0))
    with hyperchunk.open(made) as f:
        assert np.array_equal(f["line"][500:510], np.arange(500.0, 510.0))
        assert np.array_equal(h5coro.read(f, "line").data, np.arange(1000.0))
        assert f


def test_columns(made: Path) -> None:
    with h5py.File(made) as f:
        found = h5coro.read(made, "table", 1, 20, 30)
        assert np.array_equal(found.data, f["table"][20:50, 1])
        assert found[:3] == (30, 4, 120)
        assert found[4:] == (np.dtype("i4"), 200, 3)
        found = h5coro.read(made, "table", start_row=198)
        assert np.array_equal(found.data, f["table"][198:])
        assert found.elements == 6
        assert np.array_equal(h5coro.readp(made, "cube", start_row=1).result().data, f["cube"][1:])


def test_metadata_only(made: Path) -> None:
    found = h5coro.read(made, "cube", metadata_only=True)
    assert found == (24, 8, 192, None, np.dtype("i8"), 2, 3)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("line", {"start_row": 1001}),
        ("line", {"start_row": 990, "row_count": 11}),
        ("line", {"start_row": -1}),
        ("line", {"row_count": -2}),
        ("line", {"column": 0}),
        ("table", {"column": 3}),
        ("one", {}),
        ("/", {}),
    ],
)
def test_what_is_not_there(made: Path, name: str, wanted: dict[str, int]) -> None:
    with pytest.raises(InvalidError, match=name):
        h5coro.read(made, name, **wanted)
