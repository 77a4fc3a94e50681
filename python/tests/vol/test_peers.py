"""Other sessions' data in a program that has a store open: new data are visible, but not overwrites by later epochs."""

import ast
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import pytest
from hyperchunk import store

from vol import helpers

# Executes its input, line by line, and prints the results.
LOOP = """
    import sys
    import h5py
    import numpy as np
    for line in sys.stdin:
        try:
            print(repr(eval(line, globals())), flush=True)
        except SyntaxError:
            exec(line, globals())
            print(None, flush=True)
"""


class Program:
    """A program that has the store open and executes commands one by one."""

    def __init__(self, folder: Path, mode: str) -> None:
        env = hyperchunk.plugins.environment(store=True, commit="manual", fsync="never")
        self._process = helpers.start(LOOP, folder=folder, env=env)
        self(f'f = h5py.File("a.h5", "{mode}")')

    def __call__(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, self._process.communicate()[1]
        return ast.literal_eval(answer)

    def close(self) -> None:
        """Closes the file and ends."""
        self("f.close()")
        helpers.finish(self._process)


class Programs:
    """Programs that end with the test."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack

    @contextmanager
    def at_work(self, mode: str = "r+") -> Iterator[Program]:
        program = Program(self.folder, mode)
        try:
            yield program
        finally:
            program.close()

    def start(self, mode: str = "r+") -> Program:
        """Starts one that runs until the test ends."""
        return self._stack.enter_context(self.at_work(mode))


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """A store of one epoch with a dataset of four elements."""
    run = store.create(tmp_path / "a.h5", {"/d": store.Dataset((4,), "i4", maxshape=(8,), chunks=(2,))}, sync="never")
    with run.writer() as writer:
        writer["/d"][:] = [1, 2, 3, 4]
    run.commit()
    with ExitStack() as stack:
        yield Programs(tmp_path, stack)


def commit(folder: Path, **options: Any) -> None:
    """Commits an epoch."""
    assert store.open(folder / "a.h5").commit(**options) is not None


def test_what_others_have_flushed_is_seen(programs: Programs) -> None:
    other, later = programs.start(), programs.start()
    other("f['d'].resize((6,))")
    other("f['d'].write_direct(np.array([7, 8], 'i4'), np.s_[:], np.s_[4:6])")
    other("f.flush()")
    assert later("f['d'].shape") == (6,)
    assert later("f['d'][:].tolist()") == [1, 2, 3, 4, 7, 8]


@pytest.mark.parametrize("size", [2, 0])
def test_who_was_there_before_a_dataset_shrank_does_not_make_it_grow(programs: Programs, size: int) -> None:
    programs.start()("f['d'].shape")
    with programs.at_work() as shrinks:
        shrinks(f"f['d'].resize(({size},))")
    commit(programs.folder)
    with programs.at_work() as later:
        assert later("f['d'].shape") == (size,)
    commit(programs.folder)
    with h5py.File(programs.folder / "a.h5") as file:
        assert file["d"].shape == (size,)


def test_what_is_committed_of_one_at_work_does_not_lie_over_later_epochs(programs: Programs) -> None:
    first = programs.start()
    first("f['d'].write_direct(np.array([10], 'i4'), np.s_[:], np.s_[0:1])")
    first("f.flush()")
    commit(programs.folder, flushed=True)
    with programs.at_work() as second:
        second("f['d'].write_direct(np.array([20], 'i4'), np.s_[:], np.s_[0:1])")
    commit(programs.folder)
    with programs.at_work() as third:
        assert third("f['d'][:].tolist()") == [20, 2, 3, 4]
        first("f['d'].write_direct(np.array([30], 'i4'), np.s_[:], np.s_[1:2])")
        first("f.flush()")
        assert third("f['d'][:].tolist()") == [20, 30, 3, 4]


def test_an_extent_that_is_committed_of_one_at_work_does_not_come_back(programs: Programs) -> None:
    first = programs.start()
    first("f['d'].resize((6,))")
    first("f.flush()")
    commit(programs.folder, flushed=True)
    with programs.at_work() as second:
        second("f['d'].resize((3,))")
    commit(programs.folder)
    with programs.at_work() as third:
        assert third("f['d'].shape") == (3,)
        assert third("f['d'][:].tolist()") == [1, 2, 3]


def test_what_another_cuts_off_is_there_until_it_is_committed(programs: Programs) -> None:
    reader = programs.start()
    assert reader("f['d'][:].tolist()") == [1, 2, 3, 4]
    with programs.at_work() as shrinks:
        shrinks("f['d'].resize((2,))")
        shrinks("f.flush()")
        assert reader("f['d'][:].tolist()") == [1, 2, 3, 4]
        with programs.at_work() as later:
            assert later("f['d'][:].tolist()") == [1, 2, 3, 4]
    assert reader("f['d'][:].tolist()") == [1, 2, 3, 4]
    commit(programs.folder)
    assert reader("f['d'][:].tolist()") == [1, 2, 3, 4]
    with h5py.File(programs.folder / "a.h5") as file:
        assert file["d"][:].tolist() == [1, 2]


def test_who_only_looks_at_what_another_made_larger_does_not_change_it(programs: Programs) -> None:
    other = programs.start()
    other("f['d'].resize((6,))")
    other("f.flush()")
    with programs.at_work() as looks:
        assert looks("f['d'].shape") == (6,)
        looks("f.attrs.__setitem__('looked', 1)")
    commit(programs.folder)
    with h5py.File(programs.folder / "a.h5") as file:
        assert file["d"].shape == (4,)


@pytest.mark.parametrize("rows", ["5:6", "3:5"])
def test_who_writes_where_another_made_room_has_that_room(programs: Programs, rows: str) -> None:
    other = programs.start()
    other("f['d'].resize((6,))")
    other("f.flush()")
    with programs.at_work() as writes:
        writes(f"f['d'].write_direct(np.array([9, 9][: len(range(6)[{rows}])], 'i4'), np.s_[:], np.s_[{rows}])")
        shown = writes("f['d'][:].tolist()")
    commit(programs.folder)
    with h5py.File(programs.folder / "a.h5") as file:
        assert file["d"][:].tolist() == shown == ([1, 2, 3, 9, 9, 0] if rows == "3:5" else [1, 2, 3, 4, 0, 9])


def test_a_whole_chunk_is_written_where_another_made_room(programs: Programs) -> None:
    with programs.at_work() as shrinks:
        shrinks("f['d'].resize((3,))")
    commit(programs.folder)
    other = programs.start()
    other("f['d'].resize((6,))")
    other("f.flush()")
    with programs.at_work() as writes:
        writes("f['d'].id.write_direct_chunk((2,), np.array([8, 9], 'i4').tobytes())")
    commit(programs.folder)
    with h5py.File(programs.folder / "a.h5") as file:
        assert file["d"][:].tolist() == [1, 2, 8, 9, 0, 0]
