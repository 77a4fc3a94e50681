"""Escaping of names from files, for messages."""

from __future__ import annotations

from hyperchunk import _core


def printable(text: str) -> str:
    """Escapes control characters and invisible characters: ``\\u{1b}``."""
    return _core.printable(text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
