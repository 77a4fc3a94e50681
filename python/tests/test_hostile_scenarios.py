"""Complete situations around a hostile file: spoiled keys and profiles, a spoiled worker, a deceived reader, a busy
one.

HDF5-UDF 2.1 kept its private key at mode 0644, trusted every file in its configuration folder and used a key's e-mail
address as a file name there; passed its reader's environment on; ran NumPy once per process, printed twice, forked in
threaded readers and lost a compiler's output under load. `hostile/scenarios.py` has the expectations here.
"""

import functools
from typing import Any

import pytest
from hostile import jail, scenarios

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(600)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))


@functools.cache
def batch() -> Any:
    """Runs everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "scenarios.py", seconds=180)


@pytest.mark.parametrize("name", list(scenarios.SCENARIOS))
def test_scenario(name: str) -> None:
    """Runs the scenario of this name."""
    result = batch()[name]
    assert result["ok"], result["text"]
