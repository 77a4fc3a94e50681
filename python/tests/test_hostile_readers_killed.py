"""Nothing of a stranger's function outlives its reader, or goes on after it said that it is done.

A function could block the signal by which it learned of its reader's end, by a forged return from a signal handler, and
say that it is done: it slept or computed on for ever, with what memory it had. See `hostile/killed.py`.
"""

import functools
import os
from typing import Any

import pytest
from hostile import jail

# The number of readers: 50, or as many as this says.
READERS = int(os.environ.get("HYPERCHUNK_TEST_READERS", "50"))

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(120 + READERS)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))


@functools.cache
def batch() -> Any:
    """Everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "killed.py", str(READERS), seconds=100 + READERS)


def test_killed_readers_leave_nothing() -> None:
    """Two seconds after readers were killed at random, no process of theirs is there, seen by a process beside them."""
    killed = batch()["killed"]
    assert killed["killed"] == READERS
    assert killed["workers_seen"] > 0, "no function ran, so this showed nothing"
    assert killed["left"] == []


@pytest.mark.parametrize("name", ["done_asleep", "done_busy", "loop_done", "forged_done"])
def test_workers_that_do_not_wait_are_ended(name: str) -> None:
    """One that said that it is done, and then reads nothing or computes, is ended by the host, without another read."""
    assert batch()["idle"][name] == 0


@pytest.mark.parametrize("name", ["honest_py", "honest_lua"])
def test_workers_that_wait_are_kept(name: str) -> None:
    """One that waits for the next call is there for it."""
    assert batch()["idle"][name] == 1
