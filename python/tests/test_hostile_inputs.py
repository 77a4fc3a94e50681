"""Inputs of a stranger's function must be in its file, or beside it, wherever the file refers.

Through external data, external links, virtual datasets and links in the file system, the author of a file could make
the function see any file of its reader, and print its contents or put them into the values. See `hostile/inputs.py`.
"""

import functools
from typing import Any

import pytest
from hostile import inputs, jail

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(300)]

REASON = jail.missing()
if REASON:
    pytestmark.append(pytest.mark.skip(reason=REASON))

READERS = ("h5py", "hyperchunk")
LANGUAGES = ("out", "computed")
SPECIAL = ("environ", "fifo")


@functools.cache
def batch() -> Any:
    """Runs everything in one jail."""
    return jail.run(jail.TESTS / "hostile" / "inputs.py", seconds=150)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("how", inputs.WAYS)
def test_a_file_elsewhere_is_no_input(how: str, reader: str, language: str) -> None:
    """A file elsewhere is refused as an input, for functions and expressions, by both readers."""
    said = batch()[f"{how} outside {reader} {language}"]
    wanted = "no regular file" if how in SPECIAL else "(`inputs` of the profile)"
    assert wanted in said, said


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("how", [how for how in inputs.WAYS if how not in SPECIAL])
def test_a_file_beside_is_one(how: str, reader: str, language: str) -> None:
    """A file in the same folder, or below it, may be an input."""
    assert batch()[f"{how} beside {reader} {language}"] == "secret"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("how", [how for how in inputs.WAYS if how not in SPECIAL])
def test_control(how: str, reader: str) -> None:
    """The reader itself follows the file's references; so the tests above are meaningful."""
    assert batch()[f"{how} outside {reader} control"] == "secret"
