"""The inputs of a stranger's function come from its file, or from beside it: not from wherever the file says.

Through external data, external links, virtual datasets and links in the file system, the author of a file had the
function see any file of its reader's, and what it saw could be printed or lie in its values. See `hostile/inputs.py`.
"""

import functools
from typing import Any

import pytest
from hostile import inputs, jail

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(180)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))

READERS = ("h5py", "hyperchunk")
LANGUAGES = ("out", "computed")
SPECIAL = ("environ", "fifo")


@functools.cache
def batch() -> Any:
    """Everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "inputs.py", seconds=150)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("how", inputs.WAYS)
def test_a_file_elsewhere_is_no_input(how: str, reader: str, language: str) -> None:
    """Neither of functions nor of expressions, by either reader."""
    said = batch()[f"{how} outside {reader} {language}"]
    wanted = "no regular file" if how in SPECIAL else "functions get no inputs"
    assert wanted in said, said


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("how", [how for how in inputs.WAYS if how not in SPECIAL])
def test_a_file_beside_is_one(how: str, reader: str, language: str) -> None:
    """What lies in the folder of the file, or below it, may be an input."""
    assert batch()[f"{how} beside {reader} {language}"] == "secret"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("how", [how for how in inputs.WAYS if how not in SPECIAL])
def test_control(how: str, reader: str) -> None:
    """The reader itself reads what the file leads to: so the tests above mean something."""
    assert batch()[f"{how} outside {reader} control"] == "secret"
