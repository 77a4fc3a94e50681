"""Datasets that move: to Dask workers, through pickles used in another working directory, in modules loaded by name."""

import pickle
import subprocess
import sys
from pathlib import Path

import dask.array as da
import h5py
import hyperchunk
import numpy as np
import pytest


@pytest.mark.parametrize("chunks", ["auto", (2, 2), -1])
@pytest.mark.parametrize("name", ["contiguous", "chunked"])
def test_dask_takes_a_dataset(tmp_path: Path, name: str, chunks: object) -> None:
    values = np.arange(12.0).reshape(3, 4)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["contiguous"] = values
        file.create_dataset("chunked", data=values, chunks=(1, 4))
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert not hasattr(file[name], "shards")
        assert np.array_equal(da.from_array(file[name], chunks=chunks).compute(scheduler="sync"), values)


@pytest.mark.parametrize("change_before", [True, False])
@pytest.mark.parametrize("what", ["file", "dataset", "group"])
def test_pickle_in_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, change_before: bool
) -> None:
    (tmp_path / "below").mkdir()
    with h5py.File(tmp_path / "below/a.h5", "w") as file:
        file["g/x"] = np.arange(3)
    monkeypatch.chdir(tmp_path / "below")
    file = hyperchunk.open("a.h5")
    assert file.filename == "a.h5"
    if change_before:
        monkeypatch.chdir(tmp_path)
    stored = pickle.dumps({"file": file, "dataset": file["g/x"], "group": file["g"]}[what])
    monkeypatch.chdir(tmp_path)
    loaded = pickle.loads(stored)
    found = {"file": lambda: loaded["g/x"], "dataset": lambda: loaded, "group": lambda: loaded["x"]}[what]()
    assert found[()].tolist() == [0, 1, 2]
    # Pickled again after loading.
    assert pickle.loads(pickle.dumps(found))[()].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["arrow", "h5coro", "netcdf", "pool", "store", "udf"])
def test_module_is_loaded_when_it_is_named(name: str) -> None:
    code = f"import sys, hyperchunk; assert 'hyperchunk.{name}' not in sys.modules; print(hyperchunk.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"hyperchunk.{name}"
