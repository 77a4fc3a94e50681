"""Values of another dtype, written to a store: the same elements as in a plain file by h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hyperchunk import store

ARRAYS: list[Any] = [
    np.array([300, -1, 70000, -70000]),
    np.array([2**63 - 1, -(2**63), 0, 1]),
    np.array([2**64 - 1, 1, 2, 3], "u8"),
    np.array([1e20, -1e20, 2.5, -2.5]),
    np.array([np.inf, -np.inf, 1e300, 0.1]),
    np.array([1, 2, 3, 4], ">i2"),
    np.array([True, False, True, True]),
    np.array([0.1, 1e38, -1, 0], "f4"),
]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", ">i4", "u4", "i8", "u8", "f2", "f4", ">f8"])
@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_numbers_that_do_not_fit(tmp_path: Path, dtype: str, number: int) -> None:
    array = ARRAYS[number]
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file.create_dataset("x", (4,), dtype)[:] = array
        wanted = file["x"][...]
    definition = store.Dataset((4,), dtype), store.Dataset((0,), dtype, maxshape=(None,))
    run = store.create(tmp_path / "a.h5", {"/x": definition[0], "/y": definition[0], "/rows": definition[1]})
    with run.writer() as writer:
        writer["/x"][:] = array
        writer.write("/y", 0, array)
        writer["/rows"].append(array)
    run.commit()
    with h5py.File(tmp_path / "a.h5") as file:
        for name in ("x", "y", "rows"):
            assert file[name][...].tobytes() == wanted.tobytes(), (name, file[name][...], wanted)


def test_values_that_are_refused(tmp_path: Path) -> None:
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset((2,), "i2"), "/f": store.Dataset((2,), "f8")})
    with run.writer() as writer:
        for name, values, error in (
            ("/f", np.array([1 + 2j, 3]), TypeError),
            ("/f", [1 + 2j, 3], TypeError),
            ("/x", [70000, 1], OverflowError),
        ):
            with pytest.raises(error):
                writer[name][:] = values
        writer["/x"][:] = [1e20, -2.5]
    run.commit()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [32767, -2]
