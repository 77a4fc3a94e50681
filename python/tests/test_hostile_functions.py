"""Functions that attack, in three languages, and proof that each attack would work without the sandbox.

HDF5-UDF 2.1 ran a Python module's body, a Lua chunk and a C++ object's constructors in the *reading* process before
it forked; ran unsigned payloads and its user's own without any sandbox; left its child the reader's memory,
descriptors and environment; checked paths with ptrace, after the fact, as text; and had no limit of time, memory or
output. Here each of these is a failed read with a reason, which leaves no traces and does not harm its reader.
"""

import functools
import re
from typing import Any

import pytest
from hostile import cases, jail

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(300)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))


@functools.cache
def batch() -> Any:
    """Runs everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "attack_batch.py", seconds=240)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in cases.ALL])
def test_attack(case: cases.Case) -> None:
    """Reference: most attacks work (udf.md 4.1, 1, 2, 6, 7, 8; sandbox.md 1.1, 2 to 4, 7). Here: none does."""
    result = batch()["cases"][case.name]
    text = result.get("text", "")
    if result["outcome"] == "value":
        worked, process, process_of_load, ran = result["value"][:4]
        assert case.cause is None or "^value$" in case.cause, "it should have been stopped"
        assert worked == 0
        assert ran == 1 or case.attack == "map_over"
        if ran:
            assert result["pid"] not in (process, process_of_load), "it ran in the reader"
    else:
        assert result["outcome"] == "OSError", text
        assert case.cause is not None, text
        assert re.search(case.cause, text), text
        assert f"{case.file}:/out" in text, "the error does not name the dataset"
        assert len(text) < 1500
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), repr(text)
    assert result["seconds"] <= cases.LIMIT + cases.SLACK
    assert result["memory"], "the reader's memory was changed"
    assert not result["canary"], "a secret got out"
    assert not result["left"], "a process was left behind"
    assert result["descriptors"] == 0, "a descriptor was left open"
    assert result["good"], "the reader cannot read on"


def test_nothing_was_touched() -> None:
    """Reference: a marker file from each of the three languages. Here: no mark, and an unchanged home folder."""
    assert batch()["marks"] == []
    assert batch()["home_unchanged"]


def test_output_is_bounded_and_clean() -> None:
    """Reference: a function wrote to the reader's standard output. Here: at most 64 KiB per evaluation, sanitized."""
    for name, result in batch()["cases"].items():
        printed = result["printed"]
        found = re.search(r" … (\d+) in all$", printed)
        length = int(found[1]) if found else len(printed)
        assert length < 4 << 20, name
        assert "\x1b" not in printed, name


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in cases.ALL if c.works_without])
def test_control(case: cases.Case) -> None:
    """Without the sandbox, for the same user in the same jail, the attack works; so the test above is meaningful."""
    control = batch()["controls"][case.name]
    assert control["worked"], control["text"]


def test_control_of_the_network() -> None:
    """The listener in the jail got only the connections of the controls, Python's and C++'s."""
    assert batch()["controls"]["connections"] == 2


def test_the_jail_refuses_to_be_none() -> None:
    """Outside of a jail, the attack runner refuses."""
    with pytest.raises(jail.JailError, match="must not"):
        jail.require_confined()
