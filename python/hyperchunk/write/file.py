"""Files that are being written."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hyperchunk import _core
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.file import _TUNING, File, is_url, locking_of, store_options
from hyperchunk.objects import Recipe
from hyperchunk.write.group import WritableGroup
from hyperchunk.write.opened import Writing

# The oldest release of HDF5 that must be able to read a file, by h5py's names for bounds.
_OLDEST = {
    "earliest": "v18",
    "v108": "v18",
    "v110": "v110",
    "v112": "v110",
    "v114": "v110",
    "v200": "v200",
    "latest": "v200",
}
# The first page of a file for object stores, where nothing else is said.
_PAGE = 1 << 20
_SYNC = {None: "commit", "commit": "commit", "never": "never", "write": "write", False: "never", True: "commit"}


class WritableFile(WritableGroup, File):
    """A new HDF5 file, and its root group.

    `name` is a path, or a binary file-like object that gets the bytes at the end. The file is whole when it is flushed
    or closed, and has its name from then on; before that it is ``NAME.partial``. ``"w"`` replaces a file that is
    there, ``"x"`` (or ``"w-"``) does not.

    `libver` is the oldest release of HDF5 that must be able to read it: ``"v108"``, ``"v110"``, ``"v200"`` or
    ``"latest"``. Without it, or with ``"earliest"``, that is 1.8, except for what no format of 1.8 has, such as chunks
    of 4 GiB and more: then a :class:`NewerFormatWarning` says so. A pair has that oldest release, and the newest whose
    format may be used where it is needed. `sync` says when data must have reached the disk: ``"commit"``,
    ``"never"`` or ``"write"`` (each write). ``layout="cloud"`` puts all structure into a first page of `page_size`
    bytes, so that a reader over a network fetches it with one request. Chunks begin at multiples of `alignment` bytes.
    `threads` bounds how many processors compress. `journal` keeps what ``hyperchunk recover`` needs if this program is
    killed. `locking` says whether it is locked, as for reading: others can read what was flushed, and not write it.
    `waiting_bytes` bounds what waits in memory of chunks that are written in part."""

    __slots__ = ()

    def __init__(
        self,
        name: Any,
        mode: str = "w",
        driver: str | None = None,
        libver: str | tuple[str, str] | None = None,
        userblock_size: int | None = None,
        swmr: bool = False,
        *,
        locking: bool | str | None = None,
        track_order: bool | None = None,
        threads: int | None = None,
        sync: str | bool | None = None,
        layout: str | None = None,
        page_size: int | None = None,
        alignment: int = 1,
        journal: bool = True,
        waiting_bytes: int = 64 << 20,
        storage_options: dict[str, Any] | None = None,
        network: dict[str, Any] | None = None,
        **tuning: Any,
    ) -> None:
        if mode not in ("w", "w-", "x"):
            raise ValueError("a file is made with mode w, w- or x")
        if swmr:
            raise UnsupportedError("swmr: flush() commits what was written; readers open the file again to see it")
        if unknown := set(tuning) - _TUNING:
            raise TypeError(f"File() got an unexpected keyword argument {sorted(unknown)[0]!r}")
        if sync not in _SYNC:
            raise ValueError(f"sync must be 'commit', 'never' or 'write', not {sync!r}")
        if layout not in (None, "cloud"):
            raise ValueError(f"layout must be 'cloud' or None, not {layout!r}")
        low, high = _bounds(libver)
        options: dict[str, Any] = {
            "oldest": _release(low),
            "newest": _release(high),
            "threads": threads or 0,
            "sync": _SYNC[sync],
            "page": (page_size or _PAGE) if layout == "cloud" or page_size else None,
            "alignment": alignment,
            "replace": mode == "w",
            "journal": journal,
            "waiting_bytes": waiting_bytes,
            "user_block": userblock_size or 0,
            "locking": locking_of(locking),
        }
        if hasattr(name, "write") and hasattr(name, "seek"):
            writer = _core.Writer.in_memory(repr(name), **options)
            recipe = Recipe(repr(name), "fileobj", options, name)
        elif driver == "core":
            writer = _core.Writer.in_memory(os.fsdecode(name), **options)
            recipe = Recipe(os.fsdecode(name), "core", options)
        elif is_url(path := os.fsdecode(name)):
            settings = (network or {}) | {"store": store_options(storage_options or {})}
            writer = _core.Writer.create_url(path, settings, **options)
            recipe = Recipe(path, "network", options)
        elif storage_options or network:
            raise TypeError(f"storage_options and network are for files over a network, not for {path!r}")
        else:
            path = path.removeprefix("file://")
            writer = _core.Writer.create(path, **options)
            recipe = Recipe(path, "sec2", options)
        if track_order:
            writer.track_root_order(True)
        opened = Writing(writer, recipe)
        super(File, self).__init__(opened, writer.root, "/")

    @property
    def mode(self) -> str:
        """Always ``"r+"``, as h5py has it for what can be changed."""
        self._opened.need()
        return "r+"

    @property
    def libver(self) -> tuple[str, str]:
        """The oldest release of HDF5 that can read it, and the newest whose format may be used where that is needed."""
        self._opened.need()
        options = self._opened.recipe.options
        return ({"v18": "earliest"}.get(options["oldest"], options["oldest"]), options["newest"])

    @property
    def swmr_mode(self) -> bool:
        """Never: see :meth:`flush`."""
        self._opened.need()
        return False

    def flush(self) -> None:
        """Commits what was written so far: whoever opens the file from now on finds this state, whole, until the next
        commit, also if this program is killed. Costs space for the structure each time."""
        self._writing.writer.flush()

    def close(self) -> None:
        """Commits the file and closes it; nothing that comes from it can be used after that."""
        self._opened.close()

    def stored(self) -> tuple[int, str | None] | None:
        """The size and ETag of the object that a file in a store became; None before it is closed, and for others."""
        assert isinstance(self._opened, Writing)
        return self._opened.stored()

    def getbuffer(self) -> bytes:
        """The bytes of a file in memory (``driver="core"``) as they were last committed."""
        data = self._writing.writer.bytes()
        if data is None:
            raise UnsupportedError("the file does not lie in memory")
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


def _bounds(libver: str | tuple[str, str] | None) -> tuple[str, str]:
    if libver is None or libver == "earliest":
        return "earliest", "latest"
    return (libver, libver) if isinstance(libver, str) else (libver[0], libver[1])


def _release(name: str) -> str:
    if name not in _OLDEST:
        raise ValueError(f"libver must be of {', '.join(_OLDEST)}, not {name!r}")
    return _OLDEST[name]
