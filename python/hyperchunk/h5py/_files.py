"""Open files: h5py's rules for files that are opened several times, and for modes and drivers."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard, cast

from hyperchunk import File
from hyperchunk.exceptions import HyperchunkError, NotFoundError, UnsupportedError, also
from hyperchunk.objects import HLObject, Opened
from hyperchunk.typing import AnyModeOptions, FileName, SupportsSeekRead
from hyperchunk.write.file import WritableFile

if TYPE_CHECKING:
    from hyperchunk.h5py.h5p import Properties


class FileObject(SupportsSeekRead, Protocol):
    """A binary file-like object that is read or, if it has these methods, written."""

    def read(self, size: int = -1, /) -> bytes:
        """Reads at most `size` bytes, or all."""

    def write(self, data: bytes, /) -> object:
        """Writes bytes."""

    def truncate(self) -> object:
        """Cuts it off at the current offset."""


#: Numbers of files by their paths, as ``fileno`` in libhdf5.
_numbers: dict[object, int] = {}
#: Files that are open, by their paths.
_sessions: dict[str, weakref.WeakSet[Session]] = {}
#: Files that links and references opened, by the identity of Hyperchunk's open file.
_foreign: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()


class Session:
    """A file that the program has opened once; handles share it."""

    def __init__(self, native: File, key: object, name: str, *, driver: str, writes: bool) -> None:
        self.native = native
        self.name = name
        self.driver = driver
        self.writes = writes
        self.number = _numbers.setdefault(key, len(_numbers) + 1)
        self.handles: weakref.WeakSet[Handle] = weakref.WeakSet()
        #: Creation properties of new datasets by their addresses.
        self.created: dict[int, Properties] = {}
        #: File-like object that is read; None for other files.
        self.source: FileObject | None = None
        #: True if the file that is written existed before.
        self.edits = False
        #: Settings that the program passed.
        self.settings: Properties = {}
        #: Stores the bytes after each commit, for a file that is edited as a copy.
        self.deliver: Callable[[], None] | None = None
        if isinstance(key, str):
            _sessions.setdefault(key, weakref.WeakSet()).add(self)

    @property
    def opened(self) -> Opened:
        """Hyperchunk's open file."""
        return self.native._opened

    def flush(self) -> None:
        """Commits the file."""
        self.native.flush()
        if self.deliver is not None:
            self.deliver()

    def close(self) -> None:
        """Commits and closes the file."""
        self.native.close()
        if self.deliver is not None:
            self.deliver()
            self.deliver = None
        # A file-like object may be closed with its last reference.
        self.source = None
        self.opened.recipe = self.opened.recipe._replace(source=None)


class Handle:
    """A file as the program opened it. Its objects are unusable once it is closed."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._open = True
        session.handles.add(self)

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._open and self.session.opened.is_open

    @property
    def number(self) -> int:
        """Number of the file."""
        return self.session.number

    def of(self, found: HLObject) -> Handle:
        """Returns the handle of an object's file: this one, or that of a file that a link opened."""
        opened = found._opened
        if opened is self.session.opened:
            return self
        known = _foreign.get(id(opened))
        if known is None:
            path = str(Path(opened.filename).absolute())
            session = Session(File._of(opened), os.path.realpath(path), path, driver="sec2", writes=False)
            known = _foreign[id(opened)] = Handle(session)
        return known

    def close(self) -> None:
        """Closes it; the file is closed with its last handle."""
        if not self._open:
            return
        others = [handle for handle in self.session.handles if handle is not self and handle._open]
        if not others:
            self.session.close()
        self._open = False


def without(options: AnyModeOptions, *names: str) -> AnyModeOptions:
    """Returns options without some."""
    return cast("AnyModeOptions", {name: value for name, value in options.items() if name not in names})


def _present(key: str, *, writes: bool) -> Session | None:
    for session in list(_sessions.get(key, ())):
        if session.opened.is_open and session.writes == writes and any(h._open for h in session.handles):
            return session
    return None


def open_file(name: FileName, mode: str, options: AnyModeOptions) -> Handle:
    """Opens a file by h5py's rules.

    Args:
        name: Path, URL or file-like object.
        mode: ``"r"``, ``"r+"``, ``"a"``, ``"w"``, ``"w-"`` or ``"x"``.
        options: Options of Hyperchunk's files that have a value.
    """
    driver = options.get("driver")
    if is_fileobj(name):
        return Handle(_of_fileobj(name, mode, options))
    if not isinstance(name, str | bytes | os.PathLike):
        return Handle(_plain(name, object(), mode, options))
    path = os.fsdecode(name)
    if "://" in path and not path.startswith("file://"):
        return Handle(_plain(path, path, mode, options))
    key = os.path.realpath(path)
    if driver == "core" and mode in ("r+", "a") and (mode == "r+" or Path(path).exists()):
        if not options.get("backing_store"):
            return Handle(_of_image(path, options))
        # The file is edited in place, so that it stays the same file, and is never partially written.
        options = without(options, "driver", "backing_store")
    elif driver == "core" and not options.get("backing_store") and mode != "r":
        options = {**options, "backing_store": False}
        return Handle(_plain(path, object(), "w" if mode == "a" else mode, options))
    elif driver == "core" and mode == "a":
        mode = "w"
    writer, reader = _present(key, writes=True), _present(key, writes=False)
    if mode in ("r", "r+", "a") and writer is not None:
        return Handle(writer)
    if mode in ("w-", "x") and (writer is not None or reader is not None):
        raise FileExistsError(f"Unable to create file (the file {path} exists and is open)")
    if mode == "w" and (writer is not None or reader is not None):
        raise OSError(f"Unable to create file (unable to truncate a file which is already open: {path})")
    if mode in ("r+", "a") and reader is not None:
        raise OSError(f"Unable to open file (file is already open for read-only: {path})")
    session = _plain(path, key, mode, options)
    session.driver = driver or session.driver
    return Handle(session)


def is_fileobj(name: object) -> TypeGuard[FileObject]:
    """True for a file-like object."""
    return hasattr(name, "read") and hasattr(name, "seek")


def _plain(name: FileName, key: object, mode: str, options: AnyModeOptions) -> Session:
    """Opens a file as Hyperchunk does."""
    edits = mode == "r+" or (mode == "a" and isinstance(key, str) and Path(key).exists())
    try:
        native = File(name, mode, **options)
    except NotFoundError as error:
        raise _with_errno(error) from None
    shown = os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else repr(name)
    driver = options.get("driver") or ("sec2" if isinstance(name, str) else "fileobj")
    session = Session(native, key, shown, driver=driver, writes=isinstance(native, WritableFile))
    session.edits = edits
    return session


def _with_errno(error: HyperchunkError) -> HyperchunkError:
    return error if isinstance(error, FileNotFoundError) else also(error, FileNotFoundError)


def _of_fileobj(source: FileObject, mode: str, options: AnyModeOptions) -> Session:
    options = without(options, "driver", "locking", "backing_store")
    if mode == "r":
        session = _plain(source, object(), mode, options)
        session.source = source
        return session
    source.seek(0, os.SEEK_END)
    length = source.tell()
    if mode == "w" or (mode in ("w-", "x", "a") and not length):
        session = _plain(source, object(), "w", options)
        session.driver = "fileobj"
        session.deliver = _flushing(session.native, source)
        return session
    if mode in ("w-", "x"):
        raise FileExistsError("Unable to create file (the file-like object is not empty)")
    source.seek(0)
    return _edited(source.read(), repr(source), "fileobj", options, lambda image: _store(source, image))


def _flushing(native: File, source: FileObject) -> Callable[[], None]:
    def deliver() -> None:
        if native and isinstance(native, WritableFile):
            _store(source, native.getbuffer())

    return deliver


def _store(source: FileObject, image: bytes) -> None:
    source.seek(0)
    source.write(image)
    source.truncate()
    if hasattr(source, "flush"):
        source.flush()


def _of_image(path: str, options: AnyModeOptions) -> Session:
    """Edits a copy of a file; nothing is stored."""
    rest = without(options, "driver", "backing_store", "locking")
    return _edited(Path(path).read_bytes(), path, "core", rest, lambda _: None)


def edit_image(image: bytes, name: str, options: AnyModeOptions) -> Handle:
    """Edits a file image in memory; nothing is stored."""
    return Handle(_edited(image, name, "core", options, lambda _: None))


def _edited(image: bytes, name: str, driver: str, options: AnyModeOptions, store: Callable[[bytes], None]) -> Session:
    folder = tempfile.mkdtemp(prefix="hyperchunk-")
    copy = Path(folder) / "file.h5"
    copy.write_bytes(image)
    try:
        native = File(str(copy), "r+", **options)
    except BaseException:
        _remove(folder)
        raise
    session = Session(native, object(), name, driver=driver, writes=True)
    session.edits = True
    weakref.finalize(session, _remove, folder)
    session.deliver = lambda: store(copy.read_bytes())
    return session


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def wrap_native(native: File) -> Handle:
    """Returns a handle of one of Hyperchunk's open files."""
    opened = native._opened
    known = _foreign.get(id(opened))
    if known is None or not known.is_open:
        key: object = os.path.realpath(opened.filename) if opened.driver == "sec2" else object()
        writes = isinstance(native, WritableFile)
        known = _foreign[id(opened)] = Handle(
            Session(native, key, opened.filename, driver=opened.driver, writes=writes)
        )
    return known


def unsupported_driver(name: str) -> UnsupportedError:
    """Returns the error for a driver without an equivalent."""
    return UnsupportedError(f"driver {name!r} is not supported: hyperchunk does not use libhdf5's drivers")
