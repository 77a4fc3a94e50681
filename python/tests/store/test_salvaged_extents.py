"""Extents changed by a stopped writer and by later epochs: the later ones win, and cut-off data are a conflict."""

import subprocess
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from vol import helpers

pytestmark = pytest.mark.filterwarnings("ignore::hyperchunk.store.StoreWarning")


def stopped(path: Path, *, compact: bool) -> store.Writer:
    """Returns an idle writer of an older epoch, and makes a dataset of 3 rows."""
    run = store.create(path, {"/d": store.Dataset((3, 2), "i4", maxshape=(None, 2), chunks=(1, 2))})
    with run.writer() as writer:
        writer["/d"][...] = 1
    run.commit()
    writer = store.open(path).writer()
    if compact:
        subprocess.run([helpers.command(), "store", "compact", path], check=True, capture_output=True)
    return writer


def later(path: Path, *, rows: int | None = None, value: int | None = None) -> None:
    """Commits a later epoch."""
    with store.open(path).writer() as writer:
        if rows is not None:
            writer["/d"].resize((rows, 2))
        if value is not None:
            writer["/d"][0] = value
    assert store.open(path).commit() is not None


def recovered(path: Path, *, conflict: str | None) -> np.ndarray:
    """Returns h5py's view after the stopped writer's data are salvaged."""
    run = store.open(path)
    if conflict is not None:
        with pytest.raises(hyperchunk.HyperchunkError, match=conflict):
            run.commit(salvage=True, on_conflict="error")
    epoch = run.commit(salvage=True, on_conflict="warn")
    assert epoch is not None
    assert [one.path for one in epoch.conflicts] == ["/d"] * (conflict is not None)
    with h5py.File(path) as file:
        return file["d"][...]


@pytest.mark.parametrize("compact", [False, True])
def test_data_outside_the_extent_of_later_epochs_are_a_conflict(tmp_path: Path, compact: bool) -> None:
    path = tmp_path / "a.h5"
    writer = stopped(path, compact=compact)
    later(path, rows=2)
    writer["/d"][1:3] = 9
    writer.flush()
    found = recovered(path, conflict=r"data outside the extent \(2, 2\) of later epochs")
    np.testing.assert_array_equal(found, [[1, 1], [9, 9]])
    writer.close()


def test_data_inside_the_extent_of_later_epochs_do_not_change_it(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    writer = stopped(path, compact=False)
    later(path, rows=2)
    writer["/d"][0] = 9
    writer.flush()
    np.testing.assert_array_equal(recovered(path, conflict=None), [[9, 9], [1, 1]])
    writer.close()


def test_of_two_that_made_it_larger_the_larger_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    writer = stopped(path, compact=False)
    later(path, rows=4)
    writer["/d"].resize((5, 2))
    writer["/d"][4] = 9
    writer.flush()
    np.testing.assert_array_equal(recovered(path, conflict=None), [[1, 1]] * 3 + [[0, 0], [9, 9]])
    writer.close()


def test_it_does_not_shrink_below_what_later_epochs_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    writer = stopped(path, compact=False)
    later(path, value=5)
    writer["/d"].resize((1, 2))
    writer.flush()
    found = recovered(path, conflict=r"different extents, \(1, 2\) and \(3, 2\)")
    assert found.shape == (3, 2)
    np.testing.assert_array_equal(found[0], [5, 5])
    writer.close()


def test_it_shrinks_where_nobody_wrote_since(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    writer = stopped(path, compact=False)
    with store.open(path).writer() as other:
        other.structure.attrs["a"] = 1
    store.open(path).commit()
    writer["/d"].resize((1, 2))
    writer.flush()
    np.testing.assert_array_equal(recovered(path, conflict=None), [[1, 1]])
    writer.close()
