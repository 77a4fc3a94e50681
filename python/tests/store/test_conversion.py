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


RECORD = np.dtype([("a", "<i2"), ("b", ">f4"), ("in", [("p", "u1"), ("q", "S2")]), ("c", "<i4", (2,))])
OTHERS: dict[str, Any] = {
    "another order": [("c", "<i4", (2,)), ("b", ">f4"), ("in", [("q", "S2"), ("p", "u1")]), ("a", "<i2")],
    "other types": [("a", "<i8"), ("b", "<f8"), ("in", [("p", "<i4"), ("q", "S2")]), ("c", "<i8", (2,))],
    "other places": {
        "names": ["a", "b", "in", "c"],
        "formats": [RECORD[name] for name in RECORD.names or ()],
        "offsets": [20, 8, 4, 24],
        "itemsize": 40,
    },
}


@pytest.mark.parametrize("kind", OTHERS)
def test_members_of_records_go_by_their_names(tmp_path: Path, kind: str) -> None:
    array = np.zeros(4, OTHERS[kind])
    array["a"], array["b"], array["c"] = [1, -2, 70000 % 32768, 4], [0.5, 1e30, 2, 3], np.arange(8).reshape(4, 2)
    array["in"]["p"], array["in"]["q"] = [1, 2, 3, 4], [b"ab", b"c", b"", b"de"]
    if kind == "other types":
        array["a"][2], array["c"][1], array["in"]["p"][3] = 2**40, -(2**40), 300
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file.create_dataset("x", (4,), RECORD)[:] = array
        wanted = file["x"][...]
    run = store.create(
        tmp_path / "a.h5", {"/x": store.Dataset((4,), RECORD), "/rows": store.Dataset((0,), RECORD, maxshape=(None,))}
    )
    with run.writer() as writer:
        writer["/x"][:] = array
        writer["/rows"].append(array)
    run.commit()
    with h5py.File(tmp_path / "a.h5") as file:
        for name in ("x", "rows"):
            assert file[name][...].tobytes() == wanted.tobytes(), (name, file[name][...], wanted)


@pytest.mark.parametrize("names", [["a"], ["x", "y"], ["a", "b", "c"], ["a", "B"]])
def test_records_with_other_members_are_refused(tmp_path: Path, names: list[str]) -> None:
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset((2,), [("a", "i4"), ("b", "i4")])})
    with run.writer() as writer:
        with pytest.raises(TypeError, match=f"expected values for the members a, b, got {', '.join(names)}"):
            writer["/x"][:] = np.ones(2, [(name, "i4") for name in names])
        writer["/x"][:] = [(1, 2), (3, 4)]
    run.commit()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [(1, 2), (3, 4)]


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
