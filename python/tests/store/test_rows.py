"""Appended rows while a dataset changes its width."""

import ast
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from vol import helpers


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "in a session"])
def test_what_an_extent_cuts_off_rows_does_not_come_back(is_committed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/d": store.Dataset((0, 2), ">i2", maxshape=(None, None), chunks=(1, 2))})
    with run.writer() as writer:
        writer["/d"].append(np.array([[90, 91], [92, 93]], ">i2"))
        writer["/d"].resize((1, 1))
    run.commit()
    assert hyperchunk.open(path)["d"][:].tolist() == [[0], [90], [92]]
    wide = [[0, 0, 0], [90, 0, 0], [92, 0, 0], [0, 0, 0]]
    if is_committed:
        with run.writer() as writer:
            writer["/d"].resize((4, 3))
        run.commit()
        with h5py.File(path) as file:
            assert file["d"][:].tolist() == wide
        assert hyperchunk.open(path)["d"][:].tolist() == wide
    else:
        code = (
            'import h5py\nwith h5py.File("a.h5", "r+") as f:\n    f["d"].resize((4, 3))\n    print(f["d"][:].tolist())'
        )
        assert ast.literal_eval(helpers.run(code, folder=tmp_path, store=True)) == wide
