"""Every form of index, compared with h5py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

RECORD = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3"), ("d", "<f4", (2, 3))])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("indices") / "indices.h5"
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file["line"] = np.arange(20)
        cube = random.integers(0, 1000, (7, 9, 11))
        file["cube"] = cube
        file.create_dataset("chunked", data=cube, chunks=(3, 4, 5), compression="gzip", shuffle=True)
        file["scalar"] = 2.5
        file["empty"] = h5py.Empty("f4")
        file["nothing"] = np.zeros((0, 4))
        records = np.zeros(10, RECORD)
        records["a"], records["b"], records["c"] = np.arange(10), np.arange(10) / 3, b"xyz"
        records["d"] = random.random((10, 2, 3))
        file["records"] = records
        file["one record"] = records[3]
        file["text"] = np.array(["a", "bé", ""] * 4, dtype=h5py.string_dtype())
        file.create_dataset("sequences", (5,), h5py.vlen_dtype("i2"))[1:3] = [np.arange(3), np.arange(2)]
        file.create_dataset("arrays", data=np.arange(24).reshape(4, 6), dtype="i8")
        file.create_dataset("arrays of 3", (4,), np.dtype(("<i4", (3,))))[...] = np.arange(12).reshape(4, 3)
    return path


@pytest.fixture(scope="module")
def files(path: Path) -> Iterator[tuple[Any, Any]]:
    with h5py.File(path) as theirs, hyperchunk.File(path) as ours:
        yield theirs, ours


s = np.s_
MASK = np.arange(7 * 9 * 11).reshape(7, 9, 11) % 5 == 1
CASES = {
    "line": [
        *(
            s[()],
            s[...],
            s[:],
            s[3],
            s[-1],
            s[-20],
            s[2:5],
            s[2:100],
            s[5:2],
            s[::3],
            s[1:-1:4],
            s[3:3],
            s[(3,)],
            s[..., 2],
        ),
        *(s[2, ...], s[[1, 3, 5]], s[[]], s[np.array([0, 19])], s[np.array([], int)], s[[-3, -1]], s[np.int8(4)]),
        *(s[np.array(2)], s[True], s[np.arange(20) % 3 == 0], s[np.zeros(20, bool)], s[(slice(2, 4),)], s[range(3, 6)]),
        *(
            s[np.uint8([1, 2])],
            s[20],
            s[-21],
            s[::-1],
            s[::0],
            s[1, 2],
            s[..., ...],
            s[None],
            s[1.5],
            s["a"],
            s[{}],
            s[""],
        ),
        *(s[[3, 1]], s[[1, 1]], s[[25]], s[[-25]], s[[0.5]], s[np.zeros(3, bool)], s[np.zeros((20, 1), int)], s[b"a"]),
    ],
    "cube": [
        *(s[()], s[...], s[2], s[2, 3], s[2, 3, 4], s[-1, -1, -1], s[:, 2], s[..., 5], s[1, ..., 5], s[1:6:2, ::3, 4:]),
        *(
            s[[0, 2, 6]],
            s[:, [1, 2, 8]],
            s[1, :, [3]],
            s[..., [0, 10]],
            s[2, [1, 4], 3],
            s[[0, 2], 1:3, -1],
            s[0:0],
            s[:, 3:3],
        ),
        *(
            s[MASK],
            s[np.zeros_like(MASK)],
            s[np.arange(7) > 3],
            s[:, np.arange(9) % 2 == 0],
            s[2, :, np.arange(11) < 3],
        ),
        *(
            s[[1, 2], [3, 4]],
            s[0, 1, 2, 3],
            s[np.zeros((7, 9), bool)],
            s[np.zeros(5, bool)],
            s[7],
            s[:, 9],
            s[[[1, 2]]],
        ),
        *(s[np.ones((2, 2), int)], s[..., 0, 0, 0, 0], s[[True, False] * 3 + [True]], s[[], 2]),
    ],
    "scalar": [s[()], s[...], s[0], s[:], s["a"], s[[0]], s[..., 0]],
    "empty": [s[()], s[...], s[0], s[:], s["a"]],
    "nothing": [s[()], s[...], s[:], s[0], s[:, 1], s[0:1], s[[]], s[0:0, 2]],
    "records": [
        *(s[()], s[2], s[2:5], s["a"], s["b", 3], s[3, "b"], s["a", "c"], s["c", "a", 1:4], s["d"], s["d", 2], s["zz"]),
        *(s["a", "zz"], s[:, "a"], s[[1, 3], "c"], s["a", [1, 3]], s[np.arange(10) > 5, "b"], s["a", ...]),
    ],
    "one record": [s[()], s[...], s["a"], s["d"], s["a", "b"], s[0]],
    "text": [s[()], s[0], s[1:3], s[[1, 4]], s[np.arange(12) % 2 == 1], s[-1], s[5:5]],
    "sequences": [s[()], s[1], s[0], s[1:3], s[[1, 4]]],
    "arrays of 3": [s[()], s[1], s[1:3], s[[0, 2]], s[1, 1], s[...]],
}
CASES["chunked"] = CASES["cube"]


def outcome(dataset: Any, index: Any) -> Any:
    try:
        return dataset[index]
    except Exception as error:
        return error


def same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, h5py.Empty):
        return isinstance(ours, hyperchunk.Empty) and theirs.dtype == ours.dtype
    if type(theirs) is not type(ours):
        return False
    if isinstance(theirs, np.ndarray | np.generic):
        if theirs.shape != ours.shape or theirs.dtype != ours.dtype:
            return False
        if theirs.dtype.hasobject:
            return all(map(same, theirs.ravel(), ours.ravel()))
        return bool(np.array_equal(theirs, ours))
    return bool(theirs == ours)


@pytest.mark.parametrize(("name", "index"), [(name, index) for name, indices in CASES.items() for index in indices])
def test_an_index(files: tuple[Any, Any], name: str, index: Any) -> None:
    theirs, ours = (outcome(file[name], index) for file in files)
    if not isinstance(theirs, Exception):
        assert same(theirs, ours), (theirs, ours)
    elif not isinstance(ours, Exception):
        # Where h5py refuses an index, its meaning is NumPy's.
        assert same(files[0][name][()][index], ours), (theirs, ours)
    else:
        assert isinstance(ours, type(theirs)), (theirs, ours)


BLOCKS = [
    {"start": 1, "stride": 4, "count": 3, "block": 2},
    {"block": 3, "stride": 5},
    {"start": 2},
    {"count": 2, "stride": 19},
    {"start": 19, "stride": 2, "block": 2},
    {"count": 30},
]


@pytest.mark.parametrize("block", BLOCKS)
def test_slices_of_blocks(files: tuple[Any, Any], block: dict[str, int]) -> None:
    theirs, ours = (
        outcome(file["line"], module.MultiBlockSlice(**block))
        for file, module in zip(files, (h5py, hyperchunk), strict=True)
    )
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs)
        assert str(ours) == str(theirs)
    else:
        assert same(theirs, ours)


@pytest.mark.parametrize("arguments", [{"start": -1}, {"stride": 0}, {"count": 0}, {"block": 3, "stride": 2}])
def test_impossible_slices_of_blocks(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError) as theirs:
        h5py.MultiBlockSlice(**arguments)
    with pytest.raises(ValueError) as ours:
        hyperchunk.MultiBlockSlice(**arguments)
    assert str(ours.value) == str(theirs.value)


DIRECT = [
    ((20,), "i8", None, None),
    ((20,), "f4", None, None),
    ((40,), "i8", None, s[::2]),
    ((30,), "i8", s[3:7], s[10:14]),
    ((4, 5), "i8", s[0:5], s[2]),
    ((5,), ">i2", s[[1, 3, 5, 7, 9]], None),
    ((3,), "i8", s[0:5], None),
    ((4, 3), "i8", s[0:5], None),
    ((4, 5), "i8", s[0:4], s[:, 1]),
    ((10,), "i8", s[0:3], s[[1, 5, 7]]),
    ((10,), "i8", s[0:2], s[[1, 5, 7]]),
]


@pytest.mark.parametrize(("shape", "dtype", "source", "target"), DIRECT)
def test_read_direct(files: tuple[Any, Any], shape: tuple[int, ...], dtype: str, source: Any, target: Any) -> None:
    results: list[Any] = []
    for file in files:
        array = np.full(shape, 77, dtype)
        try:
            file["line"].read_direct(array, source, target)
            results.append(array)
        except TypeError as error:
            results.append(str(error))
    theirs, ours = results
    assert same(theirs, ours), (theirs, ours)


def test_read_direct_repeats_rows(files: tuple[Any, Any]) -> None:
    """Here h5py fills only the first row."""
    array = np.full((4, 5), 77)
    files[1]["line"].read_direct(array, s[0:5], s[1:3])
    assert array[:, 3].tolist() == [77, 3, 3, 77]
    files[1]["line"].read_direct(array, s[0:5])
    assert array[:, 3].tolist() == [3] * 4
    files[1]["line"].read_direct(array, s[7])
    assert (array == 7).all()


def test_read_direct_wants_memory_in_one_piece(files: tuple[Any, Any]) -> None:
    array = np.zeros((20, 2), "i8")
    for file in files:
        with pytest.raises(TypeError):
            file["line"].read_direct(array[:, 0])
    array.flags.writeable = False
    with pytest.raises(TypeError):
        files[1]["line"].read_direct(array)


@pytest.mark.parametrize("name", ["chunked", "line"])
@pytest.mark.parametrize("sel", [None, s[1:5, 2:3, 0:11], s[2, 3, 4:6], s[1:2], s[0:8, 0:9, 0:11]])
def test_chunks_of_a_selection(files: tuple[Any, Any], name: str, sel: Any) -> None:
    def chunks(file: Any) -> Any:
        try:
            return list(file[name].iter_chunks(sel))
        except Exception as error:
            return type(error)

    assert chunks(files[0]) == chunks(files[1])


def test_other_views(files: tuple[Any, Any]) -> None:
    for cast in ("f4", ">u2", "i1", "<f8"):
        theirs, ours = (file["line"].astype(cast)[2:9] for file in files)
        assert same(theirs, ours)
    for make in (
        lambda f: f["text"].asstr()[1:4],
        lambda f: f["text"].asstr("latin-1")[1],
        lambda f: f["text"].asstr()[...],
    ):
        assert same(*map(make, files))
    for make in (lambda f: f["records"].fields("a")[2:4], lambda f: f["records"].fields(["c", "a"])[()]):
        assert same(*map(make, files))
    for name in ("line", "cube", "records", "text"):
        assert same(*(np.asarray(file[name]) for file in files))
    for file in files:
        with pytest.raises(ValueError, match="copy=False"):
            np.asarray(file["chunked"], copy=False)
        assert [int(x) for x in file["line"]][:3] == [0, 1, 2]
        with pytest.raises(TypeError):
            iter(file["scalar"]).__next__()
