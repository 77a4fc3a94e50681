"""Native code planted in the cache of compiled modules: it runs in the sandbox, like all native code."""

import platform

import pytest
from hostile import jail

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(300)]

REASON = jail.missing() or (None if platform.machine() == "x86_64" else "the code is x86-64's")
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))


def test_it_can_do_what_native_code_can() -> None:
    """Each piece runs, and none escapes."""
    result = jail.run(jail.TESTS / "hostile" / "kept_code.py", seconds=90)
    assert result == {"number": 13, "wrong": {}}
