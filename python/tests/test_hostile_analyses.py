"""Analyses that attack: each is stopped or gains nothing, and the data are written completely.

The attacks are from `test_hostile_functions`, whose controls prove that each would work without the sandbox; and
results that no honest function returns.
"""

import functools
import re
from typing import Any

import pytest
from hostile import analysis_batch, cases, jail

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(600)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))

ATTACKS = analysis_batch.chosen()
LIMIT = r"limit of \d+ (ms|s)"
#: Time limit for loading, which a writer waits for a function that does not load: the profile's limit.
SLACK = 6.0


@functools.cache
def batch() -> Any:
    """Runs everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "analysis_batch.py", seconds=360)


def check(result: Any) -> None:
    """Checks that the data are stored, and nothing was gained."""
    assert result["data"], "data were lost"
    assert result["memory"], "the writer's memory was changed"
    assert result["first"] <= cases.LIMIT + SLACK
    for box in result["boxes"]:
        assert "canary" not in str(box)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", box["failure"] or "")


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in ATTACKS])
def test_attack(case: cases.Case) -> None:
    """The causes are as for a live dataset; the writer continues."""
    result = batch()["cases"][case.name]
    check(result)
    # A function that unmaps its own result page, or reports its end too early, has returned no results.
    assert len(result["boxes"]) == {"map_over": 0, "forged_done_spin": 1}.get(case.attack, 2)
    for box in result["boxes"]:
        if box["failure"] is not None:
            # The limit differs from a live dataset's, and a function without `lib` cannot be called.
            late = cases.LATE if case.attack == "forged_done_spin" else "KeyError|no dataset"
            cause = (case.cause or late).replace(cases.LATE, LIMIT)
            assert re.search(cause, box["failure"]), box["failure"]
        else:
            assert case.cause is None or "^value$" in case.cause, "it should have been stopped"
            assert box["values"]["worked"] == 0
            assert batch()["process"] not in (box["values"]["process"], box["values"]["process_of_load"])


@pytest.mark.parametrize("name", list(analysis_batch.RESULTS))
def test_forged_results(name: str) -> None:
    """Returned results are validated as strictly as a file."""
    result = batch()["cases"][f"results:{name}"]
    check(result)
    expected = analysis_batch.RESULTS[name][1]
    for box in result["boxes"]:
        assert box["values"] is None
        assert expected in box["failure"], box["failure"]


def test_nothing_was_touched() -> None:
    """No mark, no remaining process, and an unchanged home folder."""
    assert batch()["marks"] == []
    assert batch()["home_unchanged"]
    assert batch()["left"] == []
