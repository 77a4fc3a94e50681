"""Where the bytes of a file come from, if neither from a path nor from a URL: Python's file objects, fsspec's and
obstore's objects.

`_core` asks a source for its `size`, its `identity` (what it is called, and which version of it; None where reading
costs no requests) and, by `fetch`, for ranges of bytes.
"""

from __future__ import annotations

import importlib
import io
from threading import Lock
from typing import Any

from hyperchunk.exceptions import ChangedError

Ranges = list[tuple[int, int]]


class FileObject:
    """A Python file object: `read` and `seek`."""

    identity = None

    def __init__(self, file: Any) -> None:
        self._file = file
        self._lock = Lock()
        self.size = int(file.seek(0, io.SEEK_END) or file.tell())

    def fetch(self, ranges: Ranges) -> list[bytes]:
        return [self._read(start, end) for start, end in ranges]

    def _read(self, start: int, end: int) -> bytes:
        with self._lock:
            self._file.seek(start)
            parts: list[bytes] = []
            while start < end:
                part = self._file.read(end - start)
                if not part:
                    break
                parts.append(bytes(part))
                start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return FileObject, (self._file,)


class FsspecFile:
    """A file of an fsspec file system: ranges are fetched together, past fsspec's caches."""

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        info = filesystem.info(path)
        self.size = int(info["size"])
        self._version = _version(info)
        protocol = filesystem.protocol
        name = protocol if isinstance(protocol, str) else protocol[0]
        self.identity = f"{name}://{path} {self.size} {self._version}"

    def fetch(self, ranges: Ranges) -> list[bytes]:
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        found = self._filesystem.cat_ranges([self._path] * len(ranges), starts, ends, on_error="raise")
        if any(len(part) != end - start for part, start, end in zip(found, starts, ends, strict=True)):
            self._check()
        return list(found)

    def _check(self) -> None:
        """Tells of a file that was written since it was opened."""
        self._filesystem.invalidate_cache()
        info = self._filesystem.info(self._path)
        if int(info["size"]) != self.size or _version(info) != self._version:
            raise ChangedError(f"the file was written since it was opened: open it again (file {self._path})")

    def __reduce__(self) -> tuple[Any, ...]:
        return FsspecFile, (self._filesystem, self._path)

    def __repr__(self) -> str:
        return f"<{self.identity}>"


class ObstoreObject:
    """An object of an obstore store."""

    def __init__(self, store: Any, path: str) -> None:
        self._store = store
        self._path = path
        meta = _obstore().head(store, path)
        self.size = int(meta["size"])
        self._tag = meta.get("e_tag")
        self.identity = f"{store!r} {path} {self.size} {self._tag or meta.get('last_modified')}"

    def fetch(self, ranges: Ranges) -> list[bytes]:
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        found = _obstore().get_ranges(self._store, self._path, starts=starts, ends=ends, coalesce=0)
        return [bytes(part) for part in found]

    def __reduce__(self) -> tuple[Any, ...]:
        return ObstoreObject, (self._store, self._path)

    def __repr__(self) -> str:
        return f"<{self.identity}>"


def _obstore() -> Any:
    return importlib.import_module("obstore")


def _version(info: dict[str, Any]) -> str:
    for key in ("ETag", "etag", "e_tag", "md5Hash", "generation", "LastModified", "last_modified", "mtime", "created"):
        if info.get(key) is not None:
            return str(info[key])
    return ""


def source_of(thing: Any) -> Any:
    """What gets the bytes of a thing; None if it is none of these."""
    if isinstance(thing, tuple) and len(thing) == 2:
        first, path = thing
        if hasattr(first, "cat_ranges"):
            return FsspecFile(first, str(path))
        if type(first).__module__.startswith("obstore"):
            return ObstoreObject(first, str(path))
    filesystem, path = getattr(thing, "fs", None), getattr(thing, "path", None)
    if hasattr(filesystem, "cat_ranges") and isinstance(path, str):
        return FsspecFile(filesystem, path)
    if hasattr(thing, "read") and hasattr(thing, "seek"):
        return FileObject(thing)
    return None


__all__ = ["FileObject", "FsspecFile", "ObstoreObject", "source_of"]
