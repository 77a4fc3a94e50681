"""Names of files as bytes and text."""

from __future__ import annotations

import os

WINDOWS_ENCODING = "utf-8"


def filename_encode(filename: str | bytes | os.PathLike[str]) -> bytes:
    """Returns the name of a file as bytes."""
    return os.fsencode(filename)


def filename_decode(filename: str | bytes | os.PathLike[str]) -> str:
    """Returns the name of a file as text."""
    return os.fsdecode(filename)
