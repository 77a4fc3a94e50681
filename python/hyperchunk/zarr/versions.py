"""Versions of the files of a collection, as it was collected."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from hyperchunk.collection import Collection
from hyperchunk.exceptions import ChangedError, InvalidError
from hyperchunk.file import is_url

#: Size in bytes of the head of a collection's file, and its bytes with the length of the directory.
_HEAD_BYTES = 56
_DIRECTORY = slice(12, 16)


class Version(NamedTuple):
    """Version of a file when it was collected: its identity in the format of collections."""

    #: Path or URL.
    name: str
    #: Size in bytes.
    size: int
    #: Times of the last write and change of a local file; the store's version of another one.
    text: str

    @property
    def written(self) -> datetime | None:
        """Time of the last write of a local file, rounded up to whole seconds."""
        times = _times(self.text)
        if is_url(self.name) or "time" not in times:
            return None
        seconds, _, rest = times["time"].partition(".")
        return datetime.fromtimestamp(int(seconds) + (int(rest or 0) > 0), UTC)

    @property
    def etag(self) -> str | None:
        """Strong ETag of a file in a store."""
        kind, _, tag = self.text.partition(":")
        return tag if is_url(self.name) and kind == "etag" and not tag.startswith("W/") else None

    def check_current(self) -> None:
        """Checks a local file whose times are known.

        Raises:
            ChangedError: It is another version.
        """
        if self.written is None:
            return
        path = Path(self.name.removeprefix("file://"))
        try:
            found = path.stat()
        except OSError as error:
            raise ChangedError(f"cannot commit {path}: {error.strerror}; collect it again") from error
        # On Windows, `st_ctime` is another time.
        compared = ("time", "changed") if os.name == "posix" else ("time",)
        wanted = {name: told for name, told in _times(self.text).items() if name in compared}
        given = {"time": found.st_mtime_ns, "changed": found.st_ctime_ns}
        same = all(_nanoseconds(told) == given[name] for name, told in wanted.items())
        if not same or found.st_size != self.size:
            raise ChangedError(f"cannot commit {path}: expected the version that was collected; collect it again")


def versions(collection: Collection) -> list[Version]:
    """Returns the versions of the files of a collection, in order."""
    import numcodecs

    # The collection's file begins with all files: docs/formats/collection.md.
    data = collection._core.encoded()
    end = _HEAD_BYTES + int.from_bytes(data[_DIRECTORY], "little")
    directory = _Reader(data[_HEAD_BYTES:end])
    if directory.number():
        directory.text()
    directory.number()
    section = _Reader(bytes(numcodecs.Zstd().decode(data[end : end + directory.number()])))
    found = []
    for name, _ in zip(collection.files, range(section.number()), strict=True):
        section.text()
        size = section.number()
        found.append(Version(name, size, section.text()))
        section.number()
    return found


def digest_versions(found: Sequence[Version], concat: str | int) -> str:
    """Returns a digest of versions and of the dimension along which the files are joined."""
    lines = [repr(concat), *(f"{told.name}\n{told.size}\n{told.text}" for told in found)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def check_settled(found: Sequence[Version]) -> None:
    """Waits, for at most a second, until a later change of a local file has a later second, and checks all files.

    Raises:
        ChangedError: A file is not the version that was collected.
    """
    latest = max((told.written.timestamp() for told in found if told.written is not None), default=0.0)
    left = latest - time.time()
    if -0.05 < left <= 1:
        time.sleep(left + 0.05)
    for told in found:
        told.check_current()


def _times(text: str) -> dict[str, str]:
    parts = [part.partition(":") for part in text.split(";")]
    return {name: told for name, _, told in parts}


def _nanoseconds(told: str) -> int:
    seconds, _, rest = told.partition(".")
    return int(seconds) * 10**9 + int(rest or 0)


class _Reader:
    """Reader of the numbers and texts of the format, in sequence."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        found = 0
        for number in range(math.ceil(64 / 7)):
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                return found
        raise InvalidError("cannot read the collection: expected a number of 64 bits, got a longer one")

    def text(self) -> str:
        length = self.number()
        start = self._at
        self._at += length
        return self._data[start : self._at].decode("utf-8", "surrogateescape")


__all__ = ["Version", "check_settled", "digest_versions", "versions"]
