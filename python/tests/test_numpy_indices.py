"""Indices with NumPy's meaning, compared with NumPy on arrays in memory, and with h5py where it accepts them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SHAPES = [(), (13,), (7, 9), (5, 6, 7), (4, 5, 3, 6), (0, 4)]
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": True},
    "compressed": {"chunks": True, "compression": "gzip", "shuffle": True},
}


def values(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype="i4").reshape(shape)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[h5py.File, hyperchunk.File]]:
    path = tmp_path_factory.mktemp("numpy") / "a.h5"
    with h5py.File(path, "w") as file:
        for shape in SHAPES:
            for layout, options in LAYOUTS.items():
                more = dict(options)
                if more and (not shape or 0 in shape):
                    continue
                if more:
                    more["chunks"] = tuple(max(1, length // 2) for length in shape)
                file.create_dataset(f"{shape} {layout}", data=values(shape), **more)
    with h5py.File(path) as theirs, hyperchunk.open(path) as ours:
        yield theirs, ours


@st.composite
def items(draw: st.DrawFn, length: int, size: int | None) -> Any:
    """An item of an index for a dimension; `size` is the length of lists."""
    kinds = ["slice", "slice", "int", "list", "list", "mask"] if length else ["slice"]
    kind = draw(st.sampled_from(kinds))
    if kind == "slice":
        bound = st.none() | st.integers(-length - 2, length + 2)
        step = draw(st.none() | st.integers(-4, 4).filter(bool))
        return slice(draw(bound), draw(bound), step)
    if kind == "int":
        return draw(st.integers(-length, length - 1))
    if kind == "mask":
        mask = np.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)), bool)
        if size is not None:
            mask[:] = False
            mask[: min(size, length)] = True
        return mask
    entries = st.integers(-length, length - 1)
    return draw(st.lists(entries, min_size=size or 0, max_size=6 if size is None else size))


@st.composite
def indices(draw: st.DrawFn, *, way: str = "") -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape and an index for it."""
    shape = draw(st.sampled_from([shape for shape in SHAPES if shape]))
    size = draw(st.integers(1, 4)) if way != "oindex" else None
    index: list[Any] = []
    axis = 0
    while axis < len(shape):
        if not way and len(shape) - axis > 1 and 0 not in shape and draw(st.integers(0, 6)) == 0:
            random = np.random.default_rng(draw(st.integers(0, 99)))
            mask = np.zeros(shape[axis : axis + 2], bool)
            mask.flat[random.choice(mask.size, size, replace=False)] = True
            index.append(mask)
            axis += 2
            continue
        if not way and shape[axis] and draw(st.integers(0, 8)) == 0:
            index.append(np.array(draw(st.lists(st.integers(0, shape[axis] - 1), min_size=2, max_size=2)))[:, None])
        else:
            index.append(draw(items(shape[axis], size)))
        axis += 1
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(index)))
        if draw(st.booleans()):
            index = [*index[:cut], ...]
        else:
            index.insert(cut, ...)
    return shape, tuple(index)


def lists_in(index: tuple[Any, ...]) -> list[Any]:
    return [item for item in index if isinstance(item, list | np.ndarray)]


def reference(array: np.ndarray, index: tuple[Any, ...]) -> Any:
    """NumPy's result; with one list, as h5py, which leaves the dimensions in their order."""
    lists = lists_in(index)
    index = tuple(np.array(item, int) if isinstance(item, list) else item for item in index)
    if len(lists) == 1 and np.ndim(lists[0]) == 1:
        return outer(array, index)
    return array[index]


def outer(array: np.ndarray, index: tuple[Any, ...]) -> Any:
    """Every combination of the indices of each dimension, one after another."""
    if any(item is Ellipsis for item in index):
        at = next(place for place, item in enumerate(index) if item is Ellipsis)
        index = index[:at] + (slice(None),) * (array.ndim - len(index) + 1) + index[at + 1 :]
    for axis in reversed(range(len(index))):
        item = np.array(index[axis], int) if isinstance(index[axis], list) else index[axis]
        array = array[(slice(None),) * axis + (item,)]
    return array


def check(found: Any, wanted: Any) -> None:
    assert np.shape(found) == np.shape(wanted)
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted)
    assert not isinstance(found, np.ndarray) or found.flags.c_contiguous


RUN = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@RUN
@given(indices())
def test_an_index_is_numpys(
    files: tuple[h5py.File, hyperchunk.File], drawn: tuple[tuple[int, ...], tuple[Any, ...]]
) -> None:
    shape, index = drawn
    theirs, ours = files
    try:
        wanted = reference(values(shape), index)
    except IndexError as error:
        with pytest.raises(IndexError, match=re.escape(str(error).split(" with")[0])):
            ours[f"{shape} contiguous"][index]
        return
    for layout in LAYOUTS:
        name = f"{shape} {layout}"
        if name not in ours:
            continue
        check(ours[name][index], wanted)
    try:
        h5 = theirs[f"{shape} contiguous"][index]
    except (TypeError, ValueError, IndexError):
        return
    check(ours[f"{shape} contiguous"][index], h5)


def test_an_ellipsis_of_no_axes_separates_lists(tmp_path: Path) -> None:
    data = np.arange(360).reshape(4, 5, 3, 6)
    mask = np.zeros((5, 3), bool)
    mask[4, 0] = True
    with hyperchunk.create(tmp_path / "a.h5") as file:
        file["x"] = data
    with hyperchunk.open(tmp_path / "a.h5") as file:
        for index in (np.s_[:, mask, ..., [[0], [0]]], np.s_[:, [1, 2], ..., 1, [0, 1]], np.s_[..., [1, 2], [0, 1]]):
            np.testing.assert_array_equal(file["x"][index], data[index])


@RUN
@given(indices(way="oindex"))
def test_oindex_combines_each_with_each(
    files: tuple[h5py.File, hyperchunk.File], drawn: tuple[tuple[int, ...], tuple[Any, ...]]
) -> None:
    shape, index = drawn
    for layout in LAYOUTS:
        if (name := f"{shape} {layout}") in files[1]:
            check(files[1][name].oindex[index], outer(values(shape), index))


@RUN
@given(indices(way="vindex"))
def test_vindex_puts_the_lists_first(
    files: tuple[h5py.File, hyperchunk.File], drawn: tuple[tuple[int, ...], tuple[Any, ...]]
) -> None:
    shape, index = drawn
    if not lists_in(index):
        return
    array = values(shape)
    expanded = index
    if any(item is Ellipsis for item in index):
        at = next(place for place, item in enumerate(index) if item is Ellipsis)
        expanded = index[:at] + (slice(None),) * (array.ndim - len(index) + 1) + index[at + 1 :]
    expanded += (slice(None),) * (array.ndim - len(expanded))
    # Integers are lists of one, broadcast with the others: then all lists are first in the transposed array.
    first = [axis for axis, item in enumerate(expanded) if not isinstance(item, slice)]
    rest = [axis for axis in range(array.ndim) if axis not in first]
    turned = tuple(np.array(expanded[axis]) for axis in first)
    turned = tuple(part.astype(int) if part.size == 0 else part for part in turned)
    try:
        wanted = array.transpose(first + rest)[turned + tuple(expanded[axis] for axis in rest)]
    except IndexError:
        with pytest.raises(IndexError):
            files[1][f"{shape} contiguous"].vindex[index]
        return
    for layout in LAYOUTS:
        if (name := f"{shape} {layout}") in files[1]:
            check(files[1][name].vindex[index], wanted)


@pytest.mark.parametrize("way", ["", "oindex", "vindex"])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_writes_by_the_same_indices(tmp_path: Path, way: str, data: st.DataObject) -> None:
    shape, index = data.draw(indices(way=way))
    array = values(shape)
    numbers = values(shape)
    try:
        where = numbers if way else reference(numbers, index)
        if way == "oindex":
            where = outer(numbers, index)
    except IndexError:
        return
    with hyperchunk.open(tmp_path / "w.h5", "w") as file:
        chunks = {"chunks": tuple(max(1, length // 2) for length in shape)} if 0 not in shape else {}
        dataset = file.create_dataset("x", data=array, **chunks)
        source = getattr(dataset, way) if way else dataset
        if way == "vindex":
            try:
                where = source[index]
            except IndexError:
                return
        given = np.arange(1000, 1000 + np.size(where), dtype="i4").reshape(np.shape(where))
        source[index] = given
        wanted = array.copy()
        # Of a repeated element, the last value counts.
        for place, value in zip(np.ravel(where), given.ravel(), strict=True):
            wanted.flat[place] = value
        assert np.array_equal(dataset[...], wanted)
        source[index] = 5
        wanted.flat[np.ravel(where)] = 5
        assert np.array_equal(dataset[...], wanted)


S = np.s_
ERRORS: list[tuple[Any, type[Exception], str]] = [
    (S[[1, 7], [0, 1]], IndexError, "index 7 is out of bounds for axis 0 with size 7"),
    (S[[1, -8], [0, 1]], IndexError, "index -8 is out of bounds for axis 0 with size 7"),
    (S[[1, 2], [0, 1, 2]], IndexError, "could not be broadcast together with shapes (2,) (3,)"),
    (S[[1, 2], [0.5, 1]], IndexError, "must be of integer (or boolean) type"),
    (S[[1, 2], [0, 1], 0], IndexError, "too many indices for array: array is 2-dimensional, but 3 were indexed"),
    (S[np.ones((7, 8), bool)], IndexError, "boolean index did not match indexed array along axis 1; size of axis is 9"),
    (S[::0, [3, 1]], ValueError, "step cannot be zero"),
]


@pytest.mark.parametrize(("index", "kind", "words"), ERRORS)
def test_errors_have_numpys_words(
    files: tuple[h5py.File, hyperchunk.File], index: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        files[1]["(7, 9) compressed"][index]


def test_other_elements_and_views(tmp_path: Path) -> None:
    record = np.dtype([("a", "<i4"), ("b", "<f8", (2,))])
    rows = np.zeros(10, record)
    rows["a"], rows["b"] = np.arange(10), np.arange(20).reshape(10, 2)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["rows"] = rows
        file["text"] = np.array(list("abcdefghij"), h5py.string_dtype())
        file.create_dataset("arrays", (4,), np.dtype(("<i4", (3,))))[...] = np.arange(12).reshape(4, 3)
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert np.array_equal(file["rows"][[5, 1, 5]], rows[[5, 1, 5]])
        assert np.array_equal(file["rows"]["b"][::-2], rows["b"][::-2])
        assert file["text"].asstr()[[3, 0, 3]].tolist() == ["d", "a", "d"]
        assert file["text"][::-1][0] == b"j"
        assert np.array_equal(file["arrays"][[2, 0]], np.arange(12).reshape(4, 3)[[2, 0]])
        assert np.array_equal(file["rows"].astype(record)[[2, 0]], rows[[2, 0]])
        out = np.zeros(3, record)
        file["rows"].read_direct(out, S[[4, 2, 4]])
        assert np.array_equal(out, rows[[4, 2, 4]])
        parts = file["rows"].read_slices([S[[4, 2]], S[1:3]])
        assert np.array_equal(parts[0], rows[[4, 2]])
        with pytest.raises(TypeError, match="increasing order"):
            file["rows"].regionref[[3, 1]]
        with pytest.raises(hyperchunk.HyperchunkError):
            file["rows"].oindex[[1]] = rows[:1]


def test_a_store_is_written_and_read(tmp_path: Path) -> None:
    run = store.create(tmp_path / "run.h5", {"/x": store.Dataset((6, 5), "i4", chunks=(2, 2))})
    wanted = np.zeros((6, 5), "i4")
    with run.writer() as writer:
        for index in (S[::-1, [3, 1]], S[[5, 0, 5], [4, 2, 4]], S[[4, 1]]):
            given = np.arange(1, wanted[index].size + 1).reshape(wanted[index].shape)
            writer["/x"][index] = given
            wanted[index] = given
    run.commit()
    with hyperchunk.open(tmp_path / "run.h5") as file:
        assert np.array_equal(file["x"][...], wanted)
        assert np.array_equal(file["x"][::-1, [3, 3, 0]], wanted[::-1, [3, 3, 0]])
        assert np.array_equal(file["x"][[5, 0], [4, 2]], wanted[[5, 0], [4, 2]])
