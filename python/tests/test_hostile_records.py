"""Damaged, forged, replayed and absurd records and stubs, as an attacker can write them with h5py alone.

HDF5-UDF 2.1 signed only the bytecode, so that names, types, shapes and labels could be changed and a blob replayed in
any file; used `bytecode_size` and `output_resolution` of the file unchecked; and threw a C++ exception through the
reader at the first malformed byte. Here each is an error of the read, in bounded time, and the reader survives.
"""

import functools
import re
from typing import Any

import pytest
from hostile import cases, damage, jail

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(600)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))


@functools.cache
def batch() -> Any:
    """Runs everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "record_batch.py", seconds=180)


@pytest.mark.parametrize("one", [pytest.param(d, id=d.name) for d in damage.ALL])
def test_damage(one: damage.Damage) -> None:
    """Reference: abort, wild pointers, or the changed record's values (udf.md 4.1, 4 and 9; sandbox.md 1.1, 5)."""
    result = batch()["cases"][one.name]
    text = result.get("text", "")
    if one.value is not None:
        assert result["outcome"] == "value", text
        assert tuple(result["value"]) == one.value
    else:
        assert result["outcome"] == "OSError", text
        assert one.cause is not None
        assert re.search(one.cause, text), text
        assert len(text) < 1500 or one.pieces
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), repr(text)
    assert result["seconds"] <= cases.LIMIT + cases.SLACK
    assert result["memory"], "the reader's memory was changed"
    assert not result["canary"], "a secret got out"
    assert not result["left"], "a process was left behind"
    assert result["descriptors"] == 0, "a descriptor was left open"
    assert result["good"], "the reader cannot read on"


def test_reading_writes_nothing() -> None:
    """Reference: reading imported the file's key as `<email>.pub`, with `../allow/evil` straight into the trusted ones.

    Here a label never becomes a path, and reading writes nothing: the home folder is unchanged, and may be read-only.
    """
    assert batch()["home_unchanged"]
    assert batch()["marks"] == []
