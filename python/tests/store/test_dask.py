"""Stores written by Dask."""

import shutil
from pathlib import Path

import dask.array as da
import h5py
import numpy as np
import pytest
from hyperchunk import store
from hyperchunk.store import parallel


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_blocks_go_to_the_logs_of_their_processes(tmp_path: Path, scheduler: str) -> None:
    import dask

    path = tmp_path / "a.h5"
    values = np.arange(120 * 40, dtype="f8").reshape(120, 40)
    array = da.from_array(values, chunks=(30, 17))
    with dask.config.set(scheduler=scheduler):
        epoch = store.to_hyperchunk({"/g/a": array, "/b": array.sum(axis=1)}, path, attrs={"made": "by Dask"})
    assert epoch.conflicts == []
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["g/a"][...], values)
        np.testing.assert_array_equal(file["b"][...], values.sum(axis=1))
        assert file.attrs["made"] == "by Dask"


def test_an_array_of_unknown_shape_is_refused(tmp_path: Path) -> None:
    array = da.arange(10, chunks=5)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        store.to_hyperchunk(array[array > 3], tmp_path / "a.h5")


def test_store_that_is_deleted_and_made_again(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / "a.h5"
        store.to_hyperchunk(da.full((20,), number, chunks=5), path)
        with h5py.File(path) as file:
            assert file["data"][...].tolist() == [number] * 20
        for made in tmp_path.iterdir():
            shutil.rmtree(made) if made.is_dir() else made.unlink()
    # Nothing is left to close at the end of the process.
    assert not parallel._WRITERS
