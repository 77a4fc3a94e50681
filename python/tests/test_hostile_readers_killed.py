"""A stranger's function does not outlive its reader, or continue after reporting its end.

A function could block the signal that reports its reader's end, by a forged return from a signal handler, and report
its own end: it then slept or computed forever, and kept its memory. See `hostile/killed.py`.
"""

import functools
import os
from typing import Any

import pytest
from hostile import jail

# Number of readers: 50 by default.
READERS = int(os.environ.get("HYPERCHUNK_TEST_READERS", "50"))

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(300 + READERS)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))


@functools.cache
def batch() -> Any:
    """Runs everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "killed.py", str(READERS), seconds=100 + READERS)


def test_killed_readers_leave_nothing() -> None:
    """Two seconds after readers were killed at random, a separate process sees none of their processes."""
    killed = batch()["killed"]
    assert killed["killed"] == READERS
    assert killed["workers_seen"] > 0, "no function ran, so this showed nothing"
    assert killed["left"] == []


@pytest.mark.parametrize("name", ["done_asleep", "done_busy", "loop_done", "forged_done"])
def test_workers_that_do_not_wait_are_ended(name: str) -> None:
    """A worker that reported its end, and then does not wait for a call, is ended by the host, without another read."""
    assert batch()["idle"][name] == 0


@pytest.mark.parametrize("name", ["honest_py", "honest_lua"])
def test_workers_that_wait_are_kept(name: str) -> None:
    """A worker that waits for the next call is kept."""
    assert batch()["idle"][name] == 1
