"""Functions that abuse their granted connections, spoofing name servers, and proof that each spoofed answer would work.

HDF5-UDF's functions had their own sockets where a profile allowed `socket`, and could connect anywhere.
"""

import functools
import re
from typing import Any

import pytest
from hostile import jail
from hostile import network_cases as cases

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(600)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))


@functools.cache
def batch() -> Any:
    """Runs everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "network_batch.py", seconds=180)


CAUSES = {name: cause for name, (_, _, cause) in cases.sources().items()} | cases.OTHERS


@pytest.mark.parametrize("name", list(CAUSES))
def test_attack(name: str) -> None:
    """Only granted targets are reached; the error names the cause, and the reader continues."""
    result, cause = batch()["cases"][name], CAUSES[name]
    text = result.get("text", "")
    if cause is None or (result["outcome"] == "value" and "^value$" in cause):
        assert result["outcome"] == "value", text
        assert result["value"][0] == 0
    else:
        assert result["outcome"] == "OSError", result
        assert re.search(cause, text), text
        assert f"net-{name}.h5:/out" in text
        assert len(text) < 1500
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", text), repr(text)
    assert result["seconds"] <= 10
    assert not result["left"], "a process was left behind"
    assert result["descriptors"] == 0, "a descriptor was left open"
    assert result["memory"]
    assert not result["canary"]
    assert result["good"], "the reader cannot read on"


def test_who_was_reached() -> None:
    """Targets without a grant got no connection; granted ones got the good ones; names were resolved outside the
    sandbox.
    """
    assert batch()["forbidden"] == 0
    assert batch()["packets"] == 0
    assert batch()["granted"] >= 3
    assert {"loop.test", "rebind.test", "silent.test"} <= set(batch()["asked"])
    assert "x.loop.test" not in batch()["asked"], "a name can carry a secret to who answers for it"


def test_controls() -> None:
    """Without the barriers, the same names and sockets reach the listener."""
    assert all(batch()["controls"].values()), batch()["controls"]
