"""Sources for files that are neither a path nor a URL: Python file objects, and objects of fsspec and obstore, which
can be targets of new files, too.

`_core` uses a source's `size`, its `identity` (name and version; None if reads cost no requests), and `fetch`, which
returns ranges of bytes.
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Mapping
from functools import cached_property
from itertools import count
from threading import Lock
from types import ModuleType
from typing import Any, Protocol, cast

from hyperchunk.exceptions import ChangedError, FileThereError, UnsupportedError
from hyperchunk.typing import SupportsSeekRead

Ranges = list[tuple[int, int]]


class Source(Protocol):
    """A source of bytes for `_core`."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def identity(self) -> str | None:
        """Name and version; None if reads cost no requests."""

    def fetch(self, ranges: Ranges) -> list[bytes]:
        """Returns ranges of bytes."""


class FileSystem(Protocol):
    """The methods of an fsspec file system that are used here."""

    protocol: str | tuple[str, ...]

    def invalidate_cache(self) -> None: ...
    def exists(self, path: str) -> bool: ...
    def pipe_file(self, path: str, value: bytes, /) -> object: ...
    def info(self, path: str) -> dict[str, Any]: ...
    def cat_ranges(self, paths: list[str], starts: list[int], ends: list[int], *, on_error: str) -> list[bytes]: ...


class FileObject:
    """A Python file object, with `read` and `seek`."""

    identity = None

    def __init__(self, file: SupportsSeekRead) -> None:
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

    def __reduce__(self) -> tuple[object, ...]:
        return FileObject, (self._file,)


class Opener(Protocol):
    """The methods of fsspec's ``OpenFile`` that are used here."""

    def open(self) -> SupportsSeekRead: ...


class CompressedFile:
    """An fsspec ``OpenFile`` with a compression, opened at its first use. A read before the position of the previous
    one decompresses the file from its start again.
    """

    identity = None

    def __init__(self, opener: Opener) -> None:
        self._opener = opener

    @cached_property
    def _opened(self) -> FileObject:
        return FileObject(self._opener.open())

    @property
    def size(self) -> int:
        return self._opened.size

    def fetch(self, ranges: Ranges) -> list[bytes]:
        return self._opened.fetch(ranges)

    def __reduce__(self) -> tuple[object, ...]:
        return CompressedFile, (self._opener,)


class _Versioned:
    """A versioned remote object; nothing is requested before its first use. The version is checked after each fetch,
    so that bytes of two versions are never mixed.
    """

    @cached_property
    def _opened(self) -> tuple[int, str]:
        """Size and version at the first access."""
        return self._look()

    @property
    def size(self) -> int:
        return self._opened[0]

    @cached_property
    def identity(self) -> str:
        size, version = self._opened
        # Without a version, the same name does not imply the same contents.
        return f"{self._name()} {size} {version or f'opened {next(_openings)} by {os.getpid()}'}"

    def fetch(self, ranges: Ranges) -> list[bytes]:
        expected = self._opened
        found = self._get([start for start, _ in ranges], [end for _, end in ranges])
        if self._look() != expected:
            raise ChangedError(f"the object was written since it was opened: open it again (file {self._name()})")
        return found

    def _name(self) -> str:
        raise NotImplementedError

    def _look(self) -> tuple[int, str]:
        raise NotImplementedError

    def _get(self, starts: list[int], ends: list[int]) -> list[bytes]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self._name()}>"


# Counter of openings of objects without a version.
_openings = count()


class FsspecFile(_Versioned):
    """A file of an fsspec file system: ranges are fetched together, without fsspec's caches."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path

    def _name(self) -> str:
        protocol = self._filesystem.protocol
        name = protocol if isinstance(protocol, str) else protocol[0]
        # The token distinguishes file systems that have a file of the same name.
        return f"{name}://{self._path} {getattr(self._filesystem, '_fs_token', id(self._filesystem))}"

    def _look(self) -> tuple[int, str]:
        self._filesystem.invalidate_cache()
        info = self._filesystem.info(self._path)
        return int(info["size"]), _version(info)

    def _get(self, starts: list[int], ends: list[int]) -> list[bytes]:
        return list(self._filesystem.cat_ranges([self._path] * len(starts), starts, ends, on_error="raise"))

    @property
    def local(self) -> str | None:
        """Path of a local file, else None."""
        protocol = self._filesystem.protocol
        return self._path if "file" in ((protocol,) if isinstance(protocol, str) else protocol) else None

    def exists(self) -> bool:
        """True if there is such a file."""
        self._filesystem.invalidate_cache()
        return self._filesystem.exists(self._path)

    def put(self, data: bytes) -> None:
        """Stores the file."""
        self._filesystem.pipe_file(self._path, data)

    def __reduce__(self) -> tuple[object, ...]:
        return FsspecFile, (self._filesystem, self._path)


class ObstoreObject(_Versioned):
    """An object of an obstore store."""

    def __init__(self, store: object, path: str) -> None:
        self._store = store
        self._path = path

    def _name(self) -> str:
        return f"{self._store!r} {self._path}"

    def _look(self) -> tuple[int, str]:
        meta = _obstore().head(self._store, self._path)
        return int(meta["size"]), str(meta.get("e_tag") or meta.get("last_modified") or "")

    def _get(self, starts: list[int], ends: list[int]) -> list[bytes]:
        found = _obstore().get_ranges(self._store, self._path, starts=starts, ends=ends, coalesce=0)
        return [bytes(part) for part in found]

    def exists(self) -> bool:
        """True if there is such an object."""
        try:
            _obstore().head(self._store, self._path)
        except FileNotFoundError:
            return False
        return True

    def put(self, data: bytes) -> None:
        """Stores the object."""
        _obstore().put(self._store, self._path, data)

    def __reduce__(self) -> tuple[object, ...]:
        return ObstoreObject, (self._store, self._path)


def _obstore() -> ModuleType:
    return importlib.import_module("obstore")


def _version(info: Mapping[str, object]) -> str:
    for key in ("ETag", "etag", "e_tag", "md5Hash", "generation", "LastModified", "last_modified", "mtime", "created"):
        if info.get(key) is not None:
            return str(info[key])
    return ""


class Target:
    """Destination of a new file in an fsspec file system or an obstore store. The file is stored when it is closed."""

    def __init__(self, location: FsspecFile | ObstoreObject, replace: bool) -> None:
        self._location = location
        self._replace = replace
        if not replace:
            self._refuse()

    def deliver(self, data: bytes) -> None:
        """Stores the object."""
        if not self._replace:
            self._refuse()
        self._location.put(data)

    def _refuse(self) -> None:
        if self._location.exists():
            raise FileThereError(f"cannot create the file: an object of this name exists ({self._location!r})")

    def __repr__(self) -> str:
        return repr(self._location)


def local_path(thing: object) -> object:
    """Returns the path of a file in fsspec's local file system, and everything else unchanged."""
    source = None if hasattr(thing, "write") and hasattr(thing, "seek") else python_source(thing)
    return source.local or thing if isinstance(source, FsspecFile) else thing


def python_target(thing: object, *, replace: bool) -> Target | None:
    """Returns the target of a new file; None if it is not in an fsspec file system or an obstore store.

    Raises:
        FileThereError: The object exists, and `replace` is False.
        UnsupportedError: The object would be compressed.
    """
    source = None if hasattr(thing, "write") and hasattr(thing, "seek") else python_source(thing)
    if isinstance(source, CompressedFile):
        raise UnsupportedError(
            "cannot create the file: expected a target without a compression, got "
            f"compression={getattr(thing, 'compression', None)!r}; compress the datasets instead"
        )
    return Target(source, replace) if isinstance(source, FsspecFile | ObstoreObject) else None


def python_source(thing: object) -> Source | None:
    """Returns the source for an object; None if its type is not supported, or if it is a local path."""
    if isinstance(thing, os.PathLike) and "://" not in os.fsdecode(thing):
        return None
    if isinstance(thing, tuple) and len(thing) == 2:
        first, path = thing
        if hasattr(first, "cat_ranges"):
            return FsspecFile(cast("FileSystem", first), str(path))
        if type(first).__module__.startswith("obstore"):
            return ObstoreObject(first, str(path))
    filesystem, path = getattr(thing, "fs", None), getattr(thing, "path", None)
    if hasattr(filesystem, "cat_ranges") and isinstance(path, str) and not getattr(thing, "compression", None):
        return FsspecFile(cast("FileSystem", filesystem), path)
    if hasattr(thing, "read") and hasattr(thing, "seek"):
        return FileObject(cast("SupportsSeekRead", thing))
    if hasattr(filesystem, "cat_ranges") and hasattr(thing, "open"):
        return CompressedFile(cast("Opener", thing))
    return None


__all__ = ["FileObject", "FsspecFile", "ObstoreObject", "Target", "local_path", "python_source", "python_target"]
