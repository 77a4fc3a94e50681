"""Names of a file in messages for people."""

from __future__ import annotations

from hyperchunk import _core


def printable(text: str) -> str:
    """Returns `text` with characters that a terminal obeys, or does not show, written out: ``\\u{1b}``."""
    return _core.printable(text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
