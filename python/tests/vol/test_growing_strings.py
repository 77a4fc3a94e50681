"""Datasets of variable-length strings that several processes make larger: merged element by element."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vol import helpers

#: Executes lines of Python; answers each with a line.
WORKER = """
import sys, h5py, numpy as np
names = {"h5py": h5py, "np": np}
for line in sys.stdin:
    try:
        exec(line, names)
        print("done", flush=True)
    except Exception as error:
        print(str(error).replace("\\n", " "), flush=True)
"""
Processes = list[subprocess.Popen[str]]


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    env = hyperchunk.plugins.environment(store=True)
    started = [helpers.start(WORKER, folder=Path.cwd(), env=env) for _ in range(3)]
    yield started
    for process in started:
        process.communicate(timeout=60)


def ask(process: subprocess.Popen[str], line: str) -> str:
    """Executes a line in a process; returns its answer."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def do(process: subprocess.Popen[str], line: str) -> None:
    """Executes a line in a process, which must succeed."""
    assert ask(process, line) == "done", line


def make(process: subprocess.Popen[str], path: Path, values: np.ndarray) -> None:
    """Makes a store with committed strings."""
    do(process, f"file = h5py.File({str(path)!r}, 'w')")
    maximum = (None,) * values.ndim
    array = f"np.array({values.tolist()!r}, object)"
    do(process, f"file.create_dataset('v', data={array}, dtype=h5py.string_dtype(), maxshape={maximum}); file.close()")


def begin(processes: Processes, path: Path) -> None:
    """Opens the store in all processes before one changes it."""
    for process in processes:
        do(process, f"file = h5py.File({str(path)!r}, 'r+'); v = file['v']")


def check(path: Path, expected: np.ndarray) -> None:
    """Checks that plain HDF5 and our reader return the same strings."""
    with h5py.File(path) as file:
        assert file["v"].shape == expected.shape
        np.testing.assert_array_equal(file["v"].asstr()[...], expected)
    with hyperchunk.open(path) as file:
        np.testing.assert_array_equal(file["v"].asstr()[...], expected)


def test_rows_that_two_processes_append(processes: Processes, tmp_path: Path) -> None:
    first, second = processes[:2]
    make(first, tmp_path / "a.h5", np.array(["a", "b", "c"], object))
    begin([first, second], tmp_path / "a.h5")
    do(first, "v.resize(4, 0); v[3] = 'row 3'")
    do(second, "v.resize(5, 0); v[4] = 'row 4'; v[0] = 'A'")
    do(first, "file.close()")
    do(second, "file.close()")
    check(tmp_path / "a.h5", np.array(["A", "b", "c", "row 3", "row 4"], object))


def test_extents_of_which_neither_contains_the_other_are_a_conflict(processes: Processes, tmp_path: Path) -> None:
    first, second = processes[:2]
    make(first, tmp_path / "a.h5", np.array([["a"]], object))
    begin([first, second], tmp_path / "a.h5")
    do(first, "v.resize((2, 1))")
    do(second, "v.resize((1, 2))")
    do(first, "file.close()")
    assert "/v: two datasets with different contents" in ask(second, "file.close()")


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_random_writes_of_processes_that_make_the_dataset_larger(
    processes: Processes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("grow") / "a.h5"
    columns = data.draw(st.sampled_from([None, 1, 3]), "columns")
    shape = (2,) if columns is None else (2, columns)
    old = np.array([f"old {at}" for at in range(int(np.prod(shape)))], object).reshape(shape)
    make(processes[0], path, old)
    count = data.draw(st.integers(2, 3), "processes")
    rows = [data.draw(st.integers(2, 6), "rows") for _ in range(count)]
    model = np.full((max(rows), *shape[1:]), "", object)
    model[:2] = old
    begin(processes[:count], path)
    free = set(np.ndindex(*model.shape))
    for number, extent in enumerate(rows):
        if extent > 2:
            do(processes[number], f"v.resize({extent}, 0)")
        possible = sorted(index for index in free if index[0] < extent)
        chosen = data.draw(st.lists(st.sampled_from(possible), unique=True, max_size=4)) if possible else []
        for index in chosen:
            free.remove(index)
            model[index] = f"{number} {index}"
            do(processes[number], f"v[{index}] = {model[index]!r}")
    for number in data.draw(st.permutations(range(count)), "order of closes"):
        do(processes[number], "file.close()")
    check(path, model)
