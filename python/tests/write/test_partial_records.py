"""Writes of some members of records, and reads into records with more: the others keep their values, as in h5py."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk
import hyperchunk.h5py
import numpy as np
import pytest

LIBRARIES = (("stock", h5py), ("own", hyperchunk.h5py))
NESTED = np.dtype([("x", "<i4"), ("in", [("p", ">f8"), ("q", "S3"), ("r", "<u2", (2,))]), ("y", "<f4"), ("z", "?")])
#: Dtypes of the values: some members, in another order, of other types, and parts of nested ones.
PARTS: dict[str, Any] = {
    "one": [("y", "<f4")],
    "first": [("x", "<i4")],
    "other types": [("y", "<f8"), ("x", ">i2")],
    "part of a member": [("in", [("q", "S3")])],
    "parts": [("in", [("r", "<u2", (2,)), ("p", "<f4")]), ("z", "?")],
    "all but a part": [("x", "<i4"), ("in", [("p", ">f8"), ("q", "S3")]), ("y", "<f4"), ("z", "?")],
    "array of a part": [("x", "<i8")],
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (4,)},
    "filtered": {"chunks": (3,), "compression": "gzip", "shuffle": True},
    "fill value": {"chunks": (4,), "fillvalue": np.array((7, (1.5, b"ab", (8, 9)), 2.5, True), NESTED)[()]},
}
COUNT = 10


def values(dtype: Any, shape: tuple[int, ...] = (COUNT,)) -> Any:
    """Returns records whose numbers all differ."""
    dtype = np.dtype(dtype)
    made = np.zeros(shape, dtype)
    for number, name in enumerate(dtype.names or ()):
        field = made[name]
        if field.dtype.names:
            made[name] = values(field.dtype, shape)
        elif field.dtype.kind == "S":
            made[name] = np.array([b"%c%c" % (97 + at % 26, 65 + number) for at in range(field.size)]).reshape(
                field.shape
            )
        else:
            made[name] = (np.arange(field.size).reshape(field.shape) + 11 * (number + 1)) % (
                2 if field.dtype.kind == "b" else 10_000
            )
    return made


def low_level(library: ModuleType, dataset: Any, given: Any) -> None:
    dataset.id.write(library.h5s.ALL, library.h5s.ALL, given, library.h5t.py_create(given.dtype))


def low_level_part(library: ModuleType, dataset: Any, given: Any) -> None:
    space = dataset.id.get_space()
    space.select_hyperslab((2,), (3,), (2,))
    dataset.id.write(library.h5s.create_simple((3,)), space, given[:3].copy(), library.h5t.py_create(given.dtype))


def assigned(library: ModuleType, dataset: Any, given: Any) -> None:
    dataset[...] = given


def assigned_part(library: ModuleType, dataset: Any, given: Any) -> None:
    dataset[3:8] = given[3:8]


def direct(library: ModuleType, dataset: Any, given: Any) -> None:
    dataset.write_direct(given, np.s_[1:4], np.s_[5:8])


WAYS = [low_level, low_level_part, assigned, assigned_part, direct]


@pytest.mark.parametrize("before", [False, True], ids=["unwritten", "written"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_members_that_are_not_given_stay(
    tmp_path: Path, way: Callable[..., None], part: str, layout: str, before: bool
) -> None:
    given = values(PARTS[part])
    found = []
    for name, library in LIBRARIES:
        path = tmp_path / f"{name}.h5"
        with library.File(path, "w") as file:
            dataset = file.create_dataset("d", (COUNT,), NESTED, **LAYOUTS[layout])
            if before:
                dataset[...] = values(NESTED)
            way(library, dataset, given)
            found.append(str(dataset[...].tolist()))
        with h5py.File(path) as file:
            assert str(file["d"][...].tolist()) == found[-1]
    assert found[0] == found[1]


@pytest.mark.parametrize("edited", [False, True], ids=["new", "edited"])
@pytest.mark.parametrize("part", PARTS)
def test_members_of_a_file_keep_their_values_with_the_own_interface(tmp_path: Path, part: str, edited: bool) -> None:
    path = tmp_path / "a.h5"
    given = values(PARTS[part])
    with h5py.File(tmp_path / "stock.h5", "w") as file:
        file["d"] = values(NESTED)
        file["d"][...] = given
        expected = str(file["d"][...].tolist())
    with hyperchunk.create(path) as file:
        file["d"] = values(NESTED)
        if not edited:
            file["d"][...] = given
    if edited:
        with hyperchunk.open(path, "r+") as file:
            file["d"][...] = given
    with h5py.File(path) as file:
        assert str(file["d"][...].tolist()) == expected


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("how", ["modify", "low level", "own interface"])
def test_members_of_an_attribute_keep_their_values(tmp_path: Path, how: str, part: str) -> None:
    """Not as in libhdf5, which sets them to zero."""
    given = values(PARTS[part], (2,))
    before = values(NESTED, (2,))
    with h5py.File(tmp_path / "stock.h5", "w") as file:
        file["d"] = before
        file["d"][...] = given
        expected = str(file["d"][...].tolist())
    path = tmp_path / "a.h5"
    if how == "own interface":
        with hyperchunk.create(path) as file:
            file.attrs["a"] = before
            file.attrs.modify("a", given)
    else:
        with hyperchunk.h5py.File(path, "w") as file:
            file.attrs["a"] = before
            if how == "modify":
                file.attrs.modify("a", given)
            else:
                file.attrs.get_id("a").write(given, hyperchunk.h5py.h5t.py_create(given.dtype))
    with h5py.File(path) as file:
        assert str(file.attrs["a"].tolist()) == expected


MORE = np.dtype([("new", "<i8"), ("x", "<i8"), ("in", [("p", "<f8"), ("more", "<i2")])])


@pytest.mark.parametrize("layout", ["written", "unwritten", *LAYOUTS])
@pytest.mark.parametrize("way", ["low level", "low level part", "read_direct", "read_direct all", "attribute"])
def test_members_that_the_file_lacks_keep_their_values_in_memory(tmp_path: Path, way: str, layout: str) -> None:
    found = []
    for name, library in LIBRARIES:
        with library.File(tmp_path / f"{name}.h5", "w") as file:
            if layout == "written":
                file["d"] = values(NESTED)
            else:
                file.create_dataset("d", (COUNT,), NESTED, **LAYOUTS.get(layout, {}))
                if layout in ("chunked", "filtered"):
                    file["d"][:4] = values(NESTED)[:4]
                elif name == "stock":
                    # libhdf5 sets them to zero if nothing was ever written.
                    file["d"][...] = np.full(COUNT, file["d"].fillvalue, NESTED)
            file.attrs["a"] = values(NESTED, (2,))
            out = values(MORE)
            if way == "low level":
                file["d"].id.read(library.h5s.ALL, library.h5s.ALL, out, library.h5t.py_create(MORE))
            elif way == "low level part":
                space = library.h5s.create_simple((COUNT,))
                space.select_hyperslab((2,), (3,), (2,))
                file["d"].id.read(space, space, out, library.h5t.py_create(MORE))
            elif way == "read_direct all":
                file["d"].read_direct(out)
            elif way == "read_direct":
                file["d"].read_direct(out, np.s_[1:4], np.s_[5:8])
            else:
                out = values(MORE, (2,))
                file.attrs.get_id("a").read(out, library.h5t.py_create(MORE))
            found.append(str(out.tolist()))
    assert found[0] == found[1]


def test_threads_change_different_members(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(4)]
    dtype = np.dtype([(name, "<i4") for name in names])
    with hyperchunk.create(tmp_path / "a.h5") as file:
        dataset = file.create_dataset("d", (200,), dtype, chunks=(50,))

        def change(name: str, number: int) -> None:
            for value in range(1, 8):
                dataset[name] = np.full(200, value * 10 + number, "<i4")

        threads = [threading.Thread(target=change, args=(name, number)) for number, name in enumerate(names)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with h5py.File(tmp_path / "a.h5") as file:
        for number, name in enumerate(names):
            assert set(file["d"][name].tolist()) == {70 + number}


def test_records_in_sequences_go_by_their_names(tmp_path: Path) -> None:
    """NumPy, and thereby h5py, assigns members in order."""
    pair = np.dtype([("a", "<i4"), ("b", "<f8")])
    turned = np.zeros(3, [("b", "<f8"), ("a", "<i4")])
    turned["a"], turned["b"] = [1, 2, 3], [0.5, 1.5, 2.5]
    straight = np.array([(7, 8.5)], pair)
    with hyperchunk.create(tmp_path / "a.h5") as file:
        dataset = file.create_dataset("d", (4,), hyperchunk.vlen_dtype(pair))
        dataset[0] = turned
        both = np.empty(2, object)
        both[0], both[1] = straight, turned
        dataset[1:3] = both
        dataset[3] = turned[1:]
    with h5py.File(tmp_path / "a.h5") as file:
        rows = [row.tolist() for row in file["d"][...]]
    assert rows == [[(1, 0.5), (2, 1.5), (3, 2.5)], [(7, 8.5)], [(1, 0.5), (2, 1.5), (3, 2.5)], [(2, 1.5), (3, 2.5)]]


@pytest.mark.parametrize("kind", ["strings", "sequences", "members", "arrays"])
@pytest.mark.parametrize(
    "library", [hyperchunk.create, lambda path: hyperchunk.h5py.File(path, "w")], ids=["own", "h5py"]
)
def test_sequences_need_fill_values(tmp_path: Path, library: Any, kind: str) -> None:
    """Of elements that were never written, libhdf5 would follow whatever the file has there."""
    dtypes = {
        "strings": hyperchunk.string_dtype(),
        "sequences": hyperchunk.vlen_dtype("i4"),
        "members": np.dtype([("a", "i4"), ("s", hyperchunk.string_dtype())]),
        "arrays": np.dtype((hyperchunk.string_dtype(), (2,))),
    }
    with library(tmp_path / "a.h5") as file:
        for options in ({}, {"chunks": (2,)}):
            with pytest.raises(ValueError, match="need a fill value; omit fill_time='never'"):
                file.create_dataset("d", (4,), dtypes[kind], fill_time="never", **options)
            assert "d" not in file
        file.create_dataset("d", (4,), "i4", fill_time="never", chunks=(2,))[:2] = 7
    with h5py.File(tmp_path / "a.h5") as file:
        assert list(file) == ["d"]
        assert file["d"][:2].tolist() == [7, 7]
