"""Redirects of a web server to the reader's own machine, by an address of it that looks public.

See `hostile/redirects.py`.
"""

import functools
from typing import Any

import pytest
from hostile import jail, redirects

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(300)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))


@functools.cache
def batch() -> Any:
    """Runs everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "redirects.py", seconds=90)


@pytest.mark.parametrize("name", redirects.HOSTS)
def test_an_own_address_is_not_public(name: str) -> None:
    """The redirect is refused, and nothing is asked there."""
    said, asked = batch()[f"{name} public"]
    assert "cannot follow the server's redirect" in said, said
    assert ("this machine" if name == "address" else "which is") in said, said
    assert asked == 0


@pytest.mark.parametrize("name", redirects.HOSTS)
def test_control(name: str) -> None:
    """With all redirects allowed, the server is reached; so the test above is meaningful."""
    said, asked = batch()[f"{name} any"]
    assert asked > 0, said
