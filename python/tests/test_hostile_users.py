"""Security promises across users: files that another user puts beside yours have no effect. See `hostile/users.py`."""

import functools
from typing import Any

import pytest
from hostile import jail, users

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(600)]

REASON = jail.no_users()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))


@functools.cache
def batch() -> Any:
    """Runs everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "users.py", seconds=240, users=True)


@pytest.mark.parametrize("name", [scenario.__name__ for scenario in users.SCENARIOS])
def test_users(name: str) -> None:
    """Runs the scenario of this name."""
    assert batch()[name] == ""
