"""Whole situations around a hostile file: spoiled keys and profiles, a spoiled worker, a lured reader, a busy one.

HDF5-UDF 2.1 kept its private key at mode 0644, believed whatever lay in its configuration folder and took a key's
e-mail address as a file name there; passed its reader's environment on; ran NumPy once per process, printed twice,
forked in threaded readers and lost a compiler's output under load. `hostile/scenarios.py` says what is expected here.
"""

import functools
from typing import Any

import pytest
from hostile import jail, scenarios

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(240)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))

KNOWN = {
    "open_profiles_folder": "only a key's own folder is looked at, not those above it",
    "open_config_folder": "only a key's own folder is looked at, not those above it",
    "symlinked_keys_folder": "a symbolic link to a folder of keys is followed",
    "distrust_that_cannot_be_read": "a list of distrust that cannot be read counts as empty",
    "worker_for_the_group_to_write": "the worker's group may write it",
    "worker_in_an_open_folder": "the worker's folder is not looked at",
    "signals_in_the_reader": "each signal starts the wait for the worker anew",
    "neighbours_of_a_mapped_input": "an input is mapped in whole pages, with its neighbours in the file",
}


@functools.cache
def batch() -> Any:
    """Everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "scenarios.py", seconds=180)


def known(name: str) -> list[pytest.MarkDecorator]:
    """What is known to fail still."""
    return [pytest.mark.xfail(strict=True, reason=KNOWN[name])] if name in KNOWN else []


@pytest.mark.parametrize("name", [pytest.param(n, marks=known(n)) for n in scenarios.SCENARIOS])
def test_scenario(name: str) -> None:
    """See the scenario of this name."""
    result = batch()[name]
    assert result["ok"], result["text"]
