"""Files opened for writing or editing."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack, cast

from hyperchunk import _core, observing
from hyperchunk.exceptions import IsFolderError, UnsupportedError
from hyperchunk.file import _DRIVERS, File, _Named, check_cache, is_url, network_options, parse_locking, to_path
from hyperchunk.objects import Recipe
from hyperchunk.sources import local_path, python_source, python_target
from hyperchunk.suggestions import unexpected_keyword
from hyperchunk.typing import CacheOptions, CreateOptions, FileName, NetworkOptions, StorageOptions
from hyperchunk.write.group import WritableGroup
from hyperchunk.write.opened import Writing

# Oldest release of HDF5 that must be able to read a file, by h5py's names.
_OLDEST = {
    "earliest": "v18",
    "v108": "v18",
    "v110": "v110",
    "v112": "v110",
    "v114": "v110",
    "v200": "v200",
    "latest": "v200",
}
# Free-space strategies of h5py without an equivalent.
_OTHER_STRATEGIES = ("aggregate", "none")
# libhdf5's default page size.
_FS_PAGE_BYTES = 4096
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Smallest user block.
_FIRST_BLOCK_BYTES = 512
# Default size of the first page of a file for object stores.
_FIRST_PAGE_BYTES = 1 << 20
_SYNC = {None: "commit", "commit": "commit", "never": "never", "write": "write", False: "never", True: "commit"}


class WritableFile(WritableGroup, File):
    """An HDF5 file that is written, and its root group.

    A new file is called ``NAME.partial`` until a flush or close has completed it.

    In an edited file, each flush, and the close, is an atomic commit: after an interruption, the file is in the state
    before or after it.

    Args:
        name: A path; a URL; a binary file-like object that gets the bytes at the end; or an fsspec or
            universal_pathlib path, or a pair of a store and a path, whose object is stored at the end.
        mode: ``"w"`` replaces an existing file, ``"x"`` (or ``"w-"``) does not; ``"r+"`` edits an existing file,
            ``"a"`` creates it if it does not exist.
        driver: ``"core"`` keeps the file in memory (:meth:`getbuffer`), and with `backing_store` on disk.
        libver: Oldest release of HDF5 that must be able to read the file: ``"v108"``, ``"v110"``, ``"v200"`` or
            ``"latest"``. Without it, or with ``"earliest"``, that is 1.8, except for features that no format of 1.8
            has, such as chunks of 4 GiB and more, which cause a :class:`NewerFormatWarning`. A pair gives the oldest
            release, and the newest whose format may be used where it is needed.
        userblock_size: Size in bytes of a block before the HDF5 data.
        swmr: h5py's; only False is supported. Set :attr:`swmr_mode` after the datasets are made.
        locking: As for reading. Other programs can read the flushed state of a locked file, but not write it.
        track_order, track_times: Store the creation order of links and attributes, and the times of the root group.
        fs_strategy, fs_page_size: ``"page"``: the structure is in pages of this number of bytes.
        fs_persist, fs_threshold: h5py's; only their defaults are supported.
        alignment_threshold, alignment_interval: Objects of at least the first number of bytes begin at multiples of the
            second.
        backing_store: With ``driver="core"``, write the file to disk, too.
        threads: Maximum number of compressing threads.
        sync: Time at which data must have reached the disk: ``"commit"``, ``"never"`` or ``"write"`` (each write).
        layout: ``"cloud"``: put all structure into a first page, so that a reader over a network fetches it with one
            request.
        page_size: Size of that page in bytes.
        alignment: Chunks begin at multiples of this number of bytes.
        journal: Keep the data that ``hyperchunk recover`` needs if this program is killed.
        guard: In an edit, make other programs refuse the file while a commit is written into it; after an interruption
            of that, until Hyperchunk has completed the commit. Each commit waits for the disk twice more.
        waiting_bytes: Maximum memory for partially written chunks.
        storage_options, network: As for :class:`hyperchunk.File`.
        caches: h5py's options for libhdf5's caches (``rdcc_nbytes`` and others), which are checked, and have no effect.

    Raises:
        FileThereError: The file exists, and the mode is ``"x"``.
        UnsupportedError: An option of h5py without an equivalent, which it names.
        TypeError: An option does not exist.
        ValueError: An option has an invalid value.

    Example:
        >>> with hyperchunk.open("new.h5", "w", sync="never") as file:
        ...     file.create_dataset("x", (100,), "f4", chunks=(10,), compression="gzip")[:] = 1
        >>> hyperchunk.is_hdf5("new.h5")
        True
    """

    __slots__ = ()

    def __init__(
        self,
        name: FileName,
        mode: str = "w",
        driver: str | None = None,
        libver: str | tuple[str, str] | None = None,
        userblock_size: int | None = None,
        swmr: bool = False,
        *,
        locking: bool | str | None = None,
        track_order: bool | None = None,
        track_times: bool | None = None,
        fs_strategy: str | None = None,
        fs_persist: bool = False,
        fs_threshold: int = 1,
        fs_page_size: int | None = None,
        alignment_threshold: int = 1,
        alignment_interval: int = 1,
        backing_store: bool | None = None,
        threads: int | None = None,
        sync: str | bool | None = None,
        layout: str | None = None,
        page_size: int | None = None,
        alignment: int = 1,
        journal: bool = True,
        guard: bool = False,
        waiting_bytes: int = 64 << 20,
        storage_options: StorageOptions | None = None,
        network: NetworkOptions | None = None,
        **caches: Unpack[CacheOptions],
    ) -> None:
        if mode not in ("w", "w-", "x", "r+", "a"):
            raise ValueError(f"mode must be 'r', 'r+', 'a', 'w', 'w-' or 'x', not {mode!r}")
        if swmr:
            raise UnsupportedError("swmr=True is for reading: set swmr_mode after the datasets are made")
        if unknown := set(caches) - CacheOptions.__optional_keys__:
            raise unexpected_keyword("File", unknown, CreateOptions.__optional_keys__)
        check_cache(caches)
        if driver not in _DRIVERS:
            raise ValueError(f"Unknown driver type {driver!r}")
        if track_times not in (None, True, False):
            raise TypeError("track_times must be either True or False")
        if backing_store is not None and driver != "core":
            raise TypeError('backing_store is for driver="core"')
        paged = _paged(fs_strategy, fs_persist, fs_threshold, fs_page_size)
        if paged is not None:
            if layout is not None or page_size is not None:
                raise TypeError("fs_strategy cannot be combined with layout or page_size, which set the same")
            page_size = paged
        if alignment_interval < 1 or alignment_threshold < 0:
            raise ValueError(
                "alignment_interval must be positive and alignment_threshold not negative, got "
                f"{alignment_interval} and {alignment_threshold}"
            )
        if alignment_interval != 1:
            if alignment != 1:
                raise TypeError("alignment_interval cannot be combined with alignment, which sets the same")
            alignment = alignment_interval
        if sync not in _SYNC:
            raise ValueError(f"sync must be 'commit', 'never' or 'write', not {sync!r}")
        if layout not in (None, "cloud"):
            raise ValueError(f"layout must be 'cloud' or None, not {layout!r}")
        low, high = _bounds(libver)
        options: dict[str, object] = {
            "oldest": _release(low),
            "newest": _release(high),
            "threads": threads or 0,
            "sync": _SYNC[sync],
            "page": (page_size or _FIRST_PAGE_BYTES) if layout == "cloud" or page_size else None,
            "alignment": alignment,
            "alignment_threshold": alignment_threshold if alignment_interval != 1 else 0,
            "replace": mode == "w",
            "journal": journal,
            "waiting_bytes": waiting_bytes,
            "user_block": userblock_size or 0,
            "locking": parse_locking(locking),
            "guard": guard,
        }
        if guard and mode not in ("r+", "a"):
            raise ValueError(f"guard is for the modes 'r+' and 'a', not for {mode!r}: a new file has no readers")
        edits = False
        target, name = None, cast("FileName", local_path(name))
        if mode in ("r+", "a"):
            if hasattr(name, "seek") or driver == "core" or python_source(name) is not None or is_url(to_path(name)):
                raise UnsupportedError(
                    f"cannot open {name!r} with mode {mode!r}: expected a local file; edit a copy and send it back, "
                    "write a new file with mode 'w', or use a sharded store"
                )
        else:
            target = python_target(name, replace=mode == "w")
        if target is not None:
            if storage_options or network:
                raise TypeError(f"storage_options and network are for URLs; {target!r} has options of its own")
            writer = _core.Writer.in_memory(repr(target), **options)
            recipe = Recipe(repr(target), "network", options, target)
        elif hasattr(name, "write") and hasattr(name, "seek"):
            writer = _core.Writer.in_memory(repr(name), **options)
            recipe = Recipe(repr(name), "fileobj", options, name)
        elif driver == "core" and not backing_store:
            writer = _core.Writer.in_memory(to_path(name), **options)
            recipe = Recipe(to_path(name), "core", options)
        elif is_url(path := to_path(name)):
            writer = _core.Writer.create_url(path, network_options(network, storage_options), **options)
            recipe = Recipe(path, "network", options)
        elif storage_options or network:
            raise TypeError(f"storage_options and network are for files over a network, not for {path!r}")
        else:
            path = path.removeprefix("file://")
            if "\0" in path:
                raise ValueError("embedded null byte")
            if mode in ("r+", "a") and Path(path).is_dir():
                folder_error = IsFolderError(f"cannot edit the file: it is a folder (file {path})")
                folder_error.errno = errno.EISDIR
                raise folder_error
            # As in h5py: such a file comes from tempfile, for example.
            is_empty = mode in ("r+", "a") and Path(path).is_file() and Path(path).stat().st_size == 0
            options["replace"] = mode == "w" or is_empty
            edits = not is_empty and (mode == "r+" or (mode == "a" and Path(path).exists()))
            make = _core.Writer.edit if edits else _core.Writer.create
            folder = "" if Path(path).is_absolute() else str(Path.cwd())
            recipe = Recipe(path, "sec2", options, None, folder)
            writer = observing.opened(recipe, lambda _: make(path, **options))
        if edits:
            base = options["user_block"] = _base(path)
            if userblock_size is not None and userblock_size != base:
                writer.discard()
                raise ValueError(
                    f"Requested userblock size ({userblock_size}) does not match that of existing file ({base})"
                )
        if track_order and not edits:
            writer.track_root_order(True)
        if track_times and not edits:
            writer.root.track_times()
        opened = Writing(writer, recipe)
        super(_Named, self).__init__(opened, writer.root, "/")

    @property
    def userblock_size(self) -> int:
        """Size in bytes of the user block before the HDF5 data."""
        self._opened.need()
        size = self._opened.recipe.options["user_block"]
        assert isinstance(size, int)
        return size

    @property
    def mode(self) -> str:
        """Always ``"r+"``, as h5py has it for writable files."""
        self._opened.need()
        return "r+"

    @property
    def libver(self) -> tuple[str, str]:
        """Oldest release of HDF5 that can read the file, and newest whose format may be used where it is needed."""
        self._opened.need()
        options = self._opened.recipe.options
        oldest, newest = str(options["oldest"]), str(options.get("newest", "v200"))
        return ({"v18": "earliest"}.get(oldest, oldest), newest)

    @property
    def swmr_mode(self) -> bool:
        """True in SWMR mode. Set it to True after all objects are made, in a file with ``libver="latest"``: readers
        that opened the file with ``swmr=True``, h5py's too, then see flushed data after their `refresh()`. Objects
        and attributes that are made afterwards are seen when the file is closed.

        Raises:
            UnsupportedError: The file, or one of its datasets, cannot be written in SWMR mode; the message says why.
        """
        self._opened.need()
        return self._writing.writer.is_swmr

    @swmr_mode.setter
    def swmr_mode(self, value: bool) -> None:
        writer = self._writing.writer
        if not value:
            raise ValueError("It is not possible to forcibly switch SWMR mode off.")
        if self._opened.recipe.driver != "sec2":
            raise UnsupportedError(f"cannot write in SWMR mode: expected a local file, got {self.filename}")
        writer.begin_swmr()

    def flush(self) -> None:
        """Commits the data written until now: readers that open the file from now on find this complete state, until
        the next commit, even if this program is killed. Each commit takes space for the structure.
        """
        with observing.work("commit", self._opened.filename):
            self._writing.writer.flush()

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Commits all changes of a block at its end, or none of them: after an exception, the file is in the state of
        the block's beginning. Changes made before the block are committed first.

        Objects that were made in a block that failed cannot be used after it; others show the file as it was. While the
        block runs, no other thread may use the file, and :meth:`flush` and :meth:`close` are errors.

        Raises:
            UnsupportedError: The file is new: only files opened with mode ``"r+"``, or ``"a"`` if they existed, have
                transactions.
            InvalidError: A transaction is open already.

        Example:
            >>> hyperchunk.open("a.h5", "w").close()
            >>> with hyperchunk.open("a.h5", "r+") as file:
            ...     try:
            ...         with file.transaction():
            ...             file.attrs["step"] = 1
            ...             raise RuntimeError("stop")
            ...     except RuntimeError:
            ...         "step" in file.attrs
            False
        """
        writer = self._writing.writer
        writer.begin()
        try:
            yield self
        except BaseException:
            writer.rollback()
            observing.LOG.info("commit of %s: a transaction was undone", observing.shown(self._opened.filename))
            raise
        try:
            with observing.work("commit", self._opened.filename) as facts:
                facts["transaction"] = True
                writer.end()
        except BaseException:
            # If the commit is in the journal, it has happened, even if the file could not be updated yet.
            if writer.is_in_transaction():
                writer.rollback()
            raise

    def close(self) -> None:
        """Commits the file and closes it; no object of it can be used after that."""
        self._opened.close()

    def discard(self) -> None:
        """Closes the file without the changes since the last commit. A new file that was never committed is removed.

        Example:
            >>> hyperchunk.open("a.h5", "w").close()
            >>> file = hyperchunk.open("a.h5", "r+")
            >>> file["x"] = 1
            >>> file.discard()
            >>> list(hyperchunk.open("a.h5"))
            []
        """
        if self._opened.is_open:
            self._writing.discard()

    def stored(self) -> tuple[int, str | None] | None:
        """Returns the size and ETag of the object that was stored, for a file in an object store; None before it is
        closed, and for other files.
        """
        assert isinstance(self._opened, Writing)
        return self._opened.stored()

    def getbuffer(self) -> bytes:
        """Returns the bytes of a file in memory (``driver="core"``) as of its last commit."""
        data = self._writing.writer.bytes()
        if data is None:
            raise UnsupportedError("getbuffer() is for files in memory: create the file with driver='core'")
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._opened.recipe.driver == "network" and isinstance(self._opened, Writing):
            self._opened.discard()
        elif self._opened.is_open:
            self.close()

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 file>"
        return f'<HDF5 file "{Path(self.filename).name}" (mode {self.mode})>'


def _base(path: str) -> int:
    """Returns the size of the user block of an HDF5 file: the offset of its signature."""
    with Path(path).open("rb") as file:
        size, offset = file.seek(0, 2), 0
        while offset < size:
            file.seek(offset)
            if file.read(len(_SIGNATURE)) == _SIGNATURE:
                return offset
            offset = 2 * offset or _FIRST_BLOCK_BYTES
    return 0


def _paged(strategy: str | None, persist: bool, threshold: int, size: int | None) -> int | None:
    """Returns the page size for h5py's free-space options."""
    if strategy in _OTHER_STRATEGIES:
        raise UnsupportedError(f"fs_strategy={strategy!r}: files are written with 'fsm' or 'page'")
    if strategy not in (None, "fsm", "page"):
        raise ValueError("Invalid file space strategy type")
    if persist:
        raise UnsupportedError("fs_persist is not supported: the list of free space is not stored in the file")
    if threshold != 1:
        raise UnsupportedError("fs_threshold is not supported: free space of any size is reused")
    if size is not None and strategy != "page":
        raise ValueError("fs_page_size needs fs_strategy='page'")
    return (size or _FS_PAGE_BYTES) if strategy == "page" else None


def _bounds(libver: str | tuple[str, str] | None) -> tuple[str, str]:
    if libver is None or libver == "earliest":
        return "earliest", "latest"
    return (libver, libver) if isinstance(libver, str) else (libver[0], libver[1])


def _release(name: str) -> str:
    """Returns the name of a release of HDF5 for `_core`."""
    if name not in _OLDEST:
        raise ValueError(f"libver must be of {', '.join(_OLDEST)}, not {name!r}")
    return _OLDEST[name]
