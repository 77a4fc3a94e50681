"""Files opened for reading."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, Unpack, overload

from hyperchunk import _core, observing
from hyperchunk._printable import printable
from hyperchunk.exceptions import HyperchunkError, NotFoundError, NotHdf5Error, UnsupportedError
from hyperchunk.group import Group
from hyperchunk.likeness import class_of_h5py
from hyperchunk.objects import Opened, Recipe, read_only
from hyperchunk.sources import python_source
from hyperchunk.suggestions import unexpected_keyword
from hyperchunk.typing import (
    AnyModeOptions,
    CacheOptions,
    CreateOptions,
    DatasetOptions,
    FileName,
    NetworkOptions,
    NewFileOptions,
    OpenOptions,
    PathLike,
    StorageOptions,
)

if TYPE_CHECKING:
    from hyperchunk.write.file import WritableFile

# h5py's options for new files, without effect on existing ones.
_OF_NEW_FILES = frozenset(
    (
        "track_order",
        "track_times",
        "fs_strategy",
        "fs_persist",
        "fs_threshold",
        "fs_page_size",
        "alignment_threshold",
        "alignment_interval",
        "backing_store",
    )
)
_MODES = ("r", "r+", "w", "w-", "x", "a")
# `_core`'s names for the values of `locking`.
_LOCKING = {
    None: "default",
    False: "never",
    "false": "never",
    True: "always",
    "true": "always",
    "best-effort": "best-effort",
}
_DRIVERS = (None, "sec2", "stdio", "core", "fileobj", "direct", "windows")


class _Signature:
    """Signature of a class, from its ``__init__``: some releases of Python 3.11 take it from ``__new__``."""

    def __get__(self, instance: object, owner: type) -> object:
        import inspect

        whole = inspect.signature(owner.__init__)  # type: ignore[misc]
        return whole.replace(parameters=list(whole.parameters.values())[1:])


class _ByMode:
    """Makes a `WritableFile` if the mode writes. A base of :class:`_Named`, so that `File` shows that signature."""

    __slots__ = ()

    __signature__ = _Signature()

    def __new__(cls, name: object = None, mode: str = "r", *_: object, **__: object) -> Self:
        if cls is File and mode in ("w", "w-", "x", "r+", "a"):
            from hyperchunk.write.file import WritableFile

            return super().__new__(WritableFile)  # type: ignore[return-value]
        return super().__new__(cls)


class _Named(_ByMode, Group):
    """Opens a file by its name. A base class of its own, so that type checkers take the class of ``File(name, mode)``
    from the overloads of ``File.__new__``.
    """

    __slots__ = ()

    def __init__(
        self,
        name: FileName,
        mode: str = "r",
        driver: str | None = None,
        libver: str | tuple[str, str] | None = None,
        userblock_size: int | None = None,
        swmr: bool = False,
        *,
        locking: bool | str | None = None,
        ignore_locks: bool = False,
        allow_truncated: bool = False,
        threads: int | None = None,
        external: str = "anywhere",
        index: PathLike = "auto",
        epoch: int | None = None,
        layouts: bool = True,
        limits: Mapping[str, int] | None = None,
        storage_options: StorageOptions | None = None,
        network: NetworkOptions | None = None,
        **creation: Unpack[NewFileOptions],
    ) -> None:
        _check(name, mode, driver, creation)
        options: dict[str, object] = {
            "ignore_locks": ignore_locks,
            "allow_truncated": allow_truncated,
            "threads": threads or 0,
            "external": external,
            "index": os.fspath(index),
        }
        if (lock := parse_locking(locking)) != "default":
            options["locking"] = lock
        if swmr:
            options["swmr"] = True
        if epoch is not None:
            options["epoch"] = epoch
        if not layouts:
            options["layouts"] = False
        if limits:
            options["limits"] = dict(limits)
        source = python_source(name)
        if source is not None:
            options["network"] = dict(network or {})
            recipe = Recipe(repr(name), "fileobj", options, source)
        elif is_url(path := to_path(name)):
            options["network"] = network_options(network, storage_options)
            recipe = Recipe(path, "network", options)
        elif storage_options or network:
            raise TypeError(f"storage_options and network are for files over a network, not for {path!r}")
        else:
            path = path.removeprefix("file://")
            if "\0" in path:
                raise ValueError("embedded null byte")
            folder = "" if Path(path).is_absolute() else str(Path.cwd())
            recipe = Recipe(path, driver or "sec2", options, None, folder)
        opened = Opened(open_core(recipe), recipe)
        super().__init__(opened, opened.need().root, "/")
        base = opened.need().base
        if userblock_size is not None and userblock_size != base:
            opened.close()
            raise ValueError(
                f"Requested userblock size ({userblock_size}) does not match that of existing file ({base})"
            )


class File(_Named):
    """An HDF5 file, and its root group. With another mode than ``"r"`` it is a
    :class:`hyperchunk.write.file.WritableFile`.

    Args:
        name: A path; a URL (``s3://bucket/key``, ``gs://…``, ``az://…``, ``https://…``); a file-like object, also of
            fsspec; a pair of an fsspec file system or an obstore store and a path in it.
        mode: ``"r"`` for reading, ``"r+"`` for editing, ``"a"`` for editing or a new file, ``"w"`` for a new file,
            ``"w-"`` or ``"x"`` for a new file that must not exist.
        driver: h5py's name of the access method: ``"sec2"``, ``"core"`` and others; all read the same.
        libver: h5py's; for reading, all versions are supported.
        userblock_size: Size in bytes of the user block that the file must have.
        swmr: Follow a file that is being written in SWMR mode (:meth:`refresh`, :meth:`Dataset.refresh`).
        locking: Locking of a local file while it is open, as in h5py: ``True``, ``False``, ``"best-effort"`` (where the
            file system supports locks), or None for libhdf5's default, which is ``"best-effort"``. The environment
            variable ``HDF5_USE_FILE_LOCKING`` takes precedence.
        ignore_locks: Read a file that is locked or marked as open for writing, as after a crash of its writer.
        allow_truncated: Read the existing part of a file that is shorter than it declares.
        threads: Maximum number of decoding threads.
        external: Other files that this one may refer to (links, raw data, sources of virtual datasets): `"anywhere"`,
            `"beside"` it, or `"never"`.
        index: Location of the file's index: `"auto"` (beside a local file, and in the cache folder), `"beside"`,
            `"never"`, or its path.
        epoch: Commit of a sharded store to read, instead of the newest.
        layouts: With ``False``, read datasets from their original location, even where another layout costs less
            (:func:`hyperchunk.restructure`).
        limits: Changes to the limits that protect time and memory against a hostile file, by the names in errors:
            ``{"visits": 10**9}``.
        storage_options: Access to a store: ``endpoint``, ``region``, ``key``, ``secret``, ``token``, ``anonymous``,
            ``allow_http`` and every other option of the store.
        network: Tuning of requests: ``timeout``, ``connect_timeout`` and ``retry_timeout`` (seconds), ``retries``,
            ``concurrency``, ``first_read``, ``read_ahead``, ``block``, ``gap``, ``largest_request`` (bytes),
            ``over_read`` (a fraction of the bytes needed).
        creation: Options of new files. For an existing file, h5py's are accepted without effect; the values of those
            for libhdf5's caches (``rdcc_nbytes`` and others) are checked.

    Raises:
        NotFoundError: There is no such file.
        NotHdf5Error: The file has no HDF5 signature.
        LockedError: Another program has locked the file, or it is marked as open for writing.
        UnsupportedError: The file cannot be edited (mode ``"a"`` or ``"r+"``); the message says why.
        TypeError: An option does not exist.

    Example:
        >>> with hyperchunk.File("scene.h5", "w") as file:
        ...     file["B04"] = numpy.zeros((100, 100))
        >>> with hyperchunk.File("scene.h5", threads=2) as file:
        ...     file["B04"][:10, :10].shape
        (10, 10)
    """

    __slots__ = ()

    __class__ = class_of_h5py("File")

    if TYPE_CHECKING:

        @overload
        def __new__(
            cls, name: FileName, mode: Literal["w", "w-", "x", "r+", "a"], **options: Unpack[CreateOptions]
        ) -> WritableFile: ...
        @overload
        def __new__(cls, name: FileName, mode: str = "r", **options: Unpack[AnyModeOptions]) -> Self: ...
        def __new__(cls, name: FileName, mode: str = "r", **options: Unpack[AnyModeOptions]) -> File: ...

    @classmethod
    def from_bytes(
        cls,
        data: bytes | bytearray | memoryview,
        name: str = "<bytes>",
        *,
        ignore_locks: bool = False,
        allow_truncated: bool = False,
        threads: int | None = None,
        external: str = "anywhere",
        index: PathLike = "never",
        limits: Mapping[str, int] | None = None,
    ) -> Self:
        """Opens a file image in memory.

        Args:
            data: The bytes of the file.
            name: Name in messages.
            ignore_locks, allow_truncated, threads, external, index, limits: As for opening a file.

        Raises:
            NotHdf5Error: The bytes have no HDF5 signature.

        Example:
            >>> with hyperchunk.open("image.h5", "w", driver="core") as file:
            ...     file["x"] = [1, 2, 3]
            ...     file.flush()
            ...     image = file.getbuffer()
            >>> hyperchunk.File.from_bytes(image)["x"][:].tolist()
            [1, 2, 3]
        """
        options: dict[str, object] = {
            "ignore_locks": ignore_locks,
            "allow_truncated": allow_truncated,
            "threads": threads or 0,
            "external": external,
            "index": os.fspath(index),
            "limits": dict(limits or {}),
        }
        return cls._of(_from_bytes(bytes(data), name, "core", options))

    @classmethod
    def in_memory(cls, file_image: bytes | None = None, **options: Unpack[CreateOptions]) -> File:
        """Creates a new file in memory, or opens a file image: :meth:`from_bytes` under h5py's name.

        Args:
            file_image: The bytes of a file; without them, the file is new.
            options: Options of a new file. They have no effect on an image, and h5py's ``block_size`` has none at all.

        Example:
            >>> with hyperchunk.File.in_memory() as file:
            ...     file["x"] = [1, 2, 3]
            ...     file["x"].shape
            (3,)
        """
        if unknown := set(options) - CreateOptions.__optional_keys__:
            raise unexpected_keyword("in_memory", unknown, CreateOptions.__optional_keys__)
        if not file_image:
            from hyperchunk.write.file import WritableFile

            options["driver"] = "core"
            return WritableFile("<memory>", **options)
        return cls.from_bytes(file_image)

    @classmethod
    def _of(cls, opened: Opened) -> Self:
        file = object.__new__(cls)
        Group.__init__(file, opened, opened.need().root, "/")
        return file

    @property
    def filename(self) -> str:
        """Path by which the file was opened."""
        self._opened.need()
        return self._opened.filename

    @property
    def mode(self) -> str:
        """Always ``"r"``."""
        self._opened.need()
        return "r"

    @property
    def driver(self) -> str:
        """Access method: ``"sec2"`` for a path, ``"network"`` for a URL, ``"core"`` for bytes, else ``"fileobj"``."""
        self._opened.need()
        return self._opened.driver

    @property
    def libver(self) -> tuple[str, str]:
        """Range of supported format versions: all."""
        self._opened.need()
        return ("earliest", "v200")

    @property
    def userblock_size(self) -> int:
        """Size in bytes of the user block before the HDF5 data."""
        return self._opened.need().base

    @property
    def meta_block_size(self) -> int:
        """h5py's default; without effect on reading."""
        self._opened.need()
        return 2048

    @property
    def swmr_mode(self) -> bool:
        """True if the file was opened in SWMR mode."""
        self._opened.need()
        return bool(self._opened.recipe.options.get("swmr"))

    @property
    def index(self) -> str | None:
        """Path of the index in use (made by ``hyperchunk index``); None without one."""
        core = self._opened.need()
        return core.index[0] if isinstance(core, _core.File) else None

    def stats(self) -> Stats | None:
        """Network statistics of this file until now; None for local files.

        Example:
            >>> with hyperchunk.open("a.h5", "w") as file:
            ...     file["x"] = 1
            >>> hyperchunk.open("a.h5").stats() is None
            True
        """
        core = self._opened.need()
        found = core.counters if isinstance(core, _core.File) else None
        return None if found is None else Stats(*found)

    def close(self) -> None:
        """Closes the file; no object of it can be used after that."""
        self._opened.close()

    transaction = discard = read_only

    def flush(self) -> None:
        """Does nothing: a file opened for reading has nothing to write."""
        self._opened.need()

    def refresh(self) -> None:
        """Reopens the file in its current state, for all its objects: groups, attributes and datasets already open
        show the current contents, and are looked up again by name. Use it for a file that another program writes in
        SWMR mode (``swmr=True``), and after an error that the file changed.
        """
        self._opened.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (type(self), self._opened.portable())

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 file>"
        return f'<HDF5 file "{printable(Path(self.filename).name)}" (mode {self.mode})>'


def _reopen(cls: type[File], recipe: Recipe) -> File:
    file = object.__new__(cls)
    Group.__init__(file, Opened(None, recipe), None, "/")
    return file


class Stats(NamedTuple):
    """Network statistics of a file."""

    #: Requests, including retries.
    requests: int
    #: Bytes in response bodies.
    bytes: int
    #: Number of retries.
    retries: int
    #: Sequential round trips: requests that had to wait for the previous ones.
    rounds: int


_URL = re.compile(r"(?!file://)[A-Za-z][A-Za-z0-9+.-]+://")
# fsspec's and boto's names of a store's options, and `_core`'s.
_STORE_NAMES = {
    "anon": "anonymous",
    "endpoint_url": "endpoint",
    "region_name": "region",
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
}


def is_url(name: str) -> bool:
    """True if a name is a URL."""
    return _URL.match(name) is not None


def to_path(name: FileName) -> str:
    """Returns a path or URL as text.

    Raises:
        TypeError: `name` is neither.
    """
    return os.fsdecode(name)  # type: ignore[arg-type]


def network_options(network: NetworkOptions | None, store: StorageOptions | None) -> dict[str, object]:
    """Returns `_core`'s options for a URL."""
    return {**(network or {}), "store": store_options(store or {})}


def store_options(options: StorageOptions) -> list[tuple[str, str]]:
    """Converts a store's options to text, under the names that `_core` knows; `client_kwargs` as in fsspec."""
    flat = dict(options)
    if isinstance(of_client := flat.pop("client_kwargs", None), Mapping):
        flat |= of_client
    found = []
    for name, value in flat.items():
        if value is None:
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        found.append((_STORE_NAMES.get(name, name), text))
    return found


def _check(name: FileName, mode: str, driver: str | None, creation: NewFileOptions) -> None:
    if mode not in _MODES:
        raise ValueError("Invalid mode; must be one of r, r+, w, w-, x, a")
    if mode != "r":
        raise UnsupportedError(f"cannot open {name!r} with mode {mode!r}: expected mode 'r' for a subclass of File")
    if driver not in _DRIVERS:
        raise ValueError(f"Unknown driver type {driver!r}")
    if creation.get("fs_strategy"):
        raise ValueError("Unable to set file space strategy of an existing file")
    if unknown := set(creation) - CacheOptions.__optional_keys__ - _OF_NEW_FILES:
        raise unexpected_keyword("File", unknown, OpenOptions.__optional_keys__)
    check_cache(creation)


def check_cache(options: CacheOptions | DatasetOptions) -> None:
    """Checks the values of h5py's options for libhdf5's chunk cache."""
    w0 = options.get("rdcc_w0")
    if w0 is not None and not 0 <= w0 <= 1:
        raise ValueError(f"rdcc_w0 must be between 0 and 1, not {w0}")
    for name, number in (("rdcc_nbytes", options.get("rdcc_nbytes")), ("rdcc_nslots", options.get("rdcc_nslots"))):
        if number is not None and number < 0:
            raise ValueError(f"{name} must not be negative: {number}")


def parse_locking(locking: bool | str | None) -> str:
    """Converts a locking mode to `_core`'s name for it."""
    if locking not in _LOCKING:
        raise ValueError(f"Unsupported locking value: {locking!r}")
    return _LOCKING[locking]


def open_core(recipe: Recipe, level: int = observing.INFO) -> _core.File:
    """Opens the `_core` object of a file, and logs that at `level`."""
    return observing.opened(recipe, _open_core, level)


def _open_core(recipe: Recipe) -> _core.File:
    if recipe.source is not None:
        return _core.File.from_source(recipe.source, recipe.filename, **recipe.options)
    if recipe.driver == "network":
        return _core.File.open_url(recipe.filename, **recipe.options)
    return _core.File.open(recipe.filename, **recipe.options)


def _from_bytes(data: bytes, name: str, driver: str, options: dict[str, object]) -> Opened:
    return Opened(_core.File.from_bytes(data, **options), Recipe(name, driver, options))


def is_hdf5(fname: PathLike | bytes) -> bool:
    """Returns whether there is a file with an HDF5 signature.

    Args:
        fname: Path or URL.

    Raises:
        ReadError: The server of a URL cannot be reached.

    Example:
        >>> hyperchunk.is_hdf5("missing.h5")
        False
    """
    try:
        File(fname, ignore_locks=True, allow_truncated=True)
    except (NotHdf5Error, NotFoundError):
        return False
    except HyperchunkError:
        if is_url(os.fsdecode(fname)):
            raise  # the server failed, so the contents are unknown
        return Path(os.fsdecode(fname)).is_file()
    return True
