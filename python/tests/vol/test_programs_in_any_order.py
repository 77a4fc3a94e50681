"""A model of programs that open, write, close and lose one store in any order, with commits and readers between."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vol import helpers

SHELL = """
    import sys
    import h5py
    for line in sys.stdin:
        try:
            exec(line)
            print("done", flush=True)
        except Exception as error:
            print("failed:", " ".join(str(error).split()), flush=True)
"""
READ = "import h5py; f = h5py.File('a.h5', 'r'); print(sorted((n, int(v[()].max())) for n, v in f.items()))"
SOLO, RANKS = (0, 1), (2, 3)
ACTORS = SOLO + RANKS
OPERATIONS = st.one_of(
    st.tuples(
        st.sampled_from(["open w", "open a", "write", "write", "flush", "close", "close"]), st.sampled_from(ACTORS)
    ),
    st.tuples(st.sampled_from(["kill"]), st.sampled_from(ACTORS)),
    st.tuples(st.sampled_from(["commit", "read"]), st.just(0)),
)


class Programs:
    """The programs, and the state of the file that they should make."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.count = 0
        # Objects that must be there, and objects that may be there because a killed program had flushed them.
        self.expected: dict[str, int] = {}
        self.possible: dict[str, int] = {}
        self.open: dict[int, dict[str, int]] = {}
        self.flushed: dict[int, dict[str, int]] = {}
        # The ranks of the session that have begun, in this mode, and those that have closed the file.
        self.mode = ""
        self.begun: set[int] = set()
        self.done: set[int] = set()
        self.was_killed = False

    def do(self, actor: int, line: str) -> str:
        process = self.processes.get(actor)
        if process is None:
            options: dict[str, Any] = {"writers": 2, "session": "job"} if actor in RANKS else {}
            env = hyperchunk.plugins.environment(store=True, **options)
            process = self.processes[actor] = helpers.start(SHELL, folder=self.folder, env=env)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    def kill(self, actor: int) -> None:
        process = self.processes.pop(actor)
        process.kill()
        process.communicate()

    def step(self, operation: str, actor: int) -> None:
        """Does an operation, unless it makes no sense in this state."""
        if operation.startswith("open"):
            self.begin(actor, operation[-1])
        elif operation in ("commit", "read"):
            if (self.folder / "a.h5").exists():
                self.look(operation)
        elif actor not in self.open:
            return
        elif operation == "write":
            self.count += 1
            name = f"n{self.count}"
            line = f"f['{name}'] = {self.count}; f.require_dataset('x', (4,), 'i8')[{actor}] = {self.count}"
            assert self.do(actor, line) == "done"
            self.open[actor] |= {name: self.count, "x": self.count}
        elif operation == "flush":
            assert self.do(actor, "f.flush()") == "done"
            self.flushed[actor] = dict(self.open[actor])
        elif operation == "close":
            self.close(actor)
        else:
            self.kill(actor)
            self.open.pop(actor)
            self.possible |= self.flushed.pop(actor, {})
            self.begun.discard(actor)
            self.was_killed = True

    def begin(self, actor: int, mode: str) -> None:
        if actor in self.open or (mode == "a" and not (self.folder / "a.h5").exists()):
            return
        in_session = actor in RANKS and bool(self.begun | self.done)
        if in_session and (mode != self.mode or actor in self.done):
            return
        if mode == "w" and not in_session and (self.open or self.begun or self.done):
            return
        assert self.do(actor, f"f = h5py.File('a.h5', '{mode}')") == "done"
        self.open[actor] = {}
        if mode == "w" and not in_session:
            self.expected, self.possible = {}, {}
        if actor in RANKS:
            self.mode = mode
            self.begun.add(actor)

    def close(self, actor: int) -> None:
        answer = self.do(actor, "f.close()")
        # The order of sessions that one program's open file keeps in one epoch is reported.
        assert answer == "done" or "do not agree" in answer, answer
        self.expected |= self.open.pop(actor)
        self.flushed.pop(actor, None)
        if actor in RANKS:
            self.begun.discard(actor)
            self.done.add(actor)
            if self.done == set(RANKS):
                self.done = set()

    def look(self, operation: str) -> None:
        if operation == "commit":
            words = [helpers.command(), "store", "commit", "a.h5", "--on-conflict", "warn"]
        else:
            words = [helpers.sys.executable, "-c", READ]
        env = helpers.clean() | hyperchunk.plugins.environment()
        done = subprocess.run(words, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        refused = ("not committed yet", "ended without closing it", "nothing", "no store", "not a store")
        assert done.returncode == 0 or any(text in done.stderr for text in refused), done.stderr

    def finish(self) -> None:
        """Closes all files, completes the session and compares the file."""
        for actor in list(self.open):
            self.close(actor)
        for actor in RANKS:
            if self.done and actor not in self.done:
                self.begin(actor, self.mode)
                self.close(actor)
        if self.was_killed:
            self.look("commit")
        # Any program commits what finished programs left.
        self.look("read")
        with h5py.File(self.folder / "a.h5") as file:
            found = set(file)
        assert set(self.expected) <= found
        assert found <= set(self.expected) | set(self.possible)
        with h5py.File(self.folder / "a.h5") as file, hyperchunk.open(self.folder / "a.h5") as ours:
            for name in found:
                value = {**self.possible, **self.expected}[name]
                if name != "x":
                    assert file[name][()] == ours[name][()] == value
                elif "x" in self.expected:
                    assert int(file["x"][:].max()) == int(ours["x"][:].max()) >= value

    def end(self) -> None:
        for actor in list(self.processes):
            self.kill(actor)


def run(operations: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(Path(folder))
        try:
            programs.step("open w", 0)
            for operation, actor in operations:
                programs.step(operation, actor)
            programs.finish()
        finally:
            programs.end()


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(OPERATIONS, min_size=6, max_size=24))
def test_what_programs_closed_is_in_the_file(operations: list[tuple[str, int]]) -> None:
    run(operations)
