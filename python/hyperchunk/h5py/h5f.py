"""Files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from hyperchunk import File
from hyperchunk import is_hdf5 as _is_hdf5
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.h5py import _files, h5g
from hyperchunk.h5py._objects import Location, LocationID, missing, writable
from hyperchunk.typing import AnyModeOptions, FileName

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from hyperchunk.h5py import h5ac, h5p
    from hyperchunk.h5py.h5a import AttrID
    from hyperchunk.write.file import WritableFile

ACC_RDONLY, ACC_RDWR, ACC_TRUNC, ACC_EXCL, ACC_SWMR_WRITE, ACC_SWMR_READ = 0, 1, 2, 4, 32, 64
CLOSE_DEFAULT, CLOSE_WEAK, CLOSE_SEMI, CLOSE_STRONG = 0, 1, 2, 3
FILE_IMAGE_OPEN_RW = 1
FSPACE_STRATEGY_FSM_AGGR, FSPACE_STRATEGY_PAGE, FSPACE_STRATEGY_AGGR, FSPACE_STRATEGY_NONE = 0, 1, 2, 3
LIBVER_EARLIEST, LIBVER_V18, LIBVER_V110, LIBVER_V112, LIBVER_V114, LIBVER_V200 = 0, 1, 2, 3, 4, 5
LIBVER_LATEST = LIBVER_V200
OBJ_FILE, OBJ_DATASET, OBJ_GROUP, OBJ_DATATYPE, OBJ_ATTR, OBJ_ALL, OBJ_LOCAL = 1, 2, 4, 8, 16, 31, 32
SCOPE_LOCAL, SCOPE_GLOBAL = 0, 1
UNLIMITED = 2**64 - 1

_STRATEGIES = {
    FSPACE_STRATEGY_FSM_AGGR: "fsm",
    FSPACE_STRATEGY_PAGE: "page",
    FSPACE_STRATEGY_AGGR: "aggregate",
    FSPACE_STRATEGY_NONE: "none",
}
_RELEASES = {
    "earliest": LIBVER_EARLIEST,
    "v18": LIBVER_V18,
    "v108": LIBVER_V18,
    "v110": LIBVER_V110,
    "v112": LIBVER_V112,
    "v114": LIBVER_V114,
    "v200": LIBVER_V200,
    "latest": LIBVER_LATEST,
}


class FileID(h5g.GroupID):
    """An open file."""

    def __init__(self, handle: _files.Handle) -> None:
        super().__init__(handle.session.native, handle)

    @property
    def _native(self) -> File:
        """Hyperchunk's file; an error if it is closed."""
        self._hc  # noqa: B018 - raises an error if the file is closed
        return self._handle.session.native

    @property
    def name(self) -> bytes:
        """Path of the file."""
        self._hc  # noqa: B018 - raises an error if the file is closed
        return os.fsencode(self._handle.session.name)

    def close(self) -> None:
        """Closes the file and all its objects."""
        self._handle.close()

    def _close_open_objects(self, types: int) -> None:
        """Does nothing: objects need not be closed."""

    def reopen(self) -> FileID:
        """Returns another identifier of the file."""
        self._hc  # noqa: B018 - raises an error if the file is closed
        return FileID(_files.Handle(self._handle.session))

    def get_intent(self) -> int:
        """Returns ``ACC_RDONLY``, or ``ACC_RDWR`` for a file that is open for writing."""
        self._hc  # noqa: B018 - raises an error if the file is closed
        if self._handle.session.writes:
            return ACC_RDWR | (ACC_SWMR_WRITE if self._native.swmr_mode else 0)
        return ACC_RDONLY | (ACC_SWMR_READ if self._native.swmr_mode else 0)

    def get_filesize(self) -> int:
        """Returns the size of the file in bytes, as of its last commit."""
        session = self._handle.session
        if session.writes:
            session.flush()
        if session.driver in ("core", "fileobj"):
            return len(self.get_file_image())
        return Path(session.opened.filename).stat().st_size

    def get_file_image(self) -> bytes:
        """Returns the bytes of the file, as of its last commit."""
        session = self._handle.session
        if session.writes:
            session.flush()
        if hasattr(session.native, "getbuffer") and session.opened.driver in ("core", "fileobj"):
            image: bytes = session.native.getbuffer()
            return image
        path = Path(session.opened.filename)
        if not path.is_file():
            raise UnsupportedError(f"h5f.FileID.get_file_image: the file is not local ({session.name})")
        return path.read_bytes()

    def get_create_plist(self) -> h5p.PropFCID:
        """Returns the creation properties."""
        from hyperchunk.h5py import _headers, _plists, h5p

        of_root = _plists.group_plist(self)
        plist = h5p.PropFCID(of_root._values)
        plist.set_userblock(self._native.userblock_size)
        settings = self._handle.session.settings
        try:
            found = _headers.superblock(self._handle.session)
        except UnsupportedError:
            found = None
        if found is not None:
            plist._values["version"] = (found.version, 0, 0, 0)
            if found.space is not None:
                plist.set_file_space_strategy(*found.space[:3])
                plist.set_file_space_page_size(found.space[3])
        if "strategy" in settings:
            plist.set_file_space_strategy(*settings["strategy"])
        if "page" in settings:
            plist.set_file_space_page_size(settings["page"])
        return plist

    def get_access_plist(self) -> h5p.PropFAID:
        """Returns the access properties."""
        from hyperchunk.h5py import h5fd, h5p

        session = self._handle.session
        plist = h5p.PropFAID(session.settings)
        drivers = {"sec2": h5fd.SEC2, "stdio": h5fd.STDIO, "core": h5fd.CORE, "fileobj": h5fd.fileobj_driver}
        plist._values["driver"] = drivers.get(session.driver, h5fd.SEC2)
        plist.set_libver_bounds(*(_RELEASES[name] for name in self._native.libver))
        plist.set_fclose_degree(CLOSE_STRONG)
        return plist

    def get_mdc_config(self) -> h5ac.CacheConfig:
        """Returns the settings of libhdf5's metadata cache."""
        return self.get_access_plist().get_mdc_config()

    def set_mdc_config(self, config: h5ac.CacheConfig) -> None:
        """Changes the settings of libhdf5's metadata cache, which have no effect."""
        self._handle.session.settings["mdc"] = config

    def get_freespace(self) -> NoReturn:
        """Raises an error: free space is not counted."""
        raise UnsupportedError("h5f.FileID.get_freespace: free space is not counted")

    def start_swmr_write(self) -> None:
        """Begins to write in SWMR mode: readers see flushed data after they refresh."""
        self._handle.session.flush()
        writable(self._native)
        cast("WritableFile", self._native).swmr_mode = True


def _encoded(name: FileName) -> FileName:
    return name if _files.is_fileobj(name) else os.fsdecode(cast("str | bytes | os.PathLike[str]", name))


def open(name: FileName, flags: int = ACC_RDWR, fapl: h5p.PropFAID | None = None) -> FileID:
    """Opens a file; `flags` is ``ACC_RDONLY`` or ``ACC_RDWR``."""
    options: AnyModeOptions = {} if fapl is None else fapl._options()
    if fapl is not None and "image" in fapl._values:
        return open_file_image(fapl._values["image"], flags)
    if flags & ACC_RDWR:
        mode = "r+"
    else:
        mode = "r"
        if flags & ACC_SWMR_READ:
            options["swmr"] = True
        kept = {name: value for name, value in options.items() if name in ("locking", "swmr", "driver")}
        options = cast("AnyModeOptions", kept)
    return FileID(_files.open_file(_encoded(name), mode, options))


def create(
    name: FileName, flags: int = ACC_TRUNC, fcpl: h5p.PropFCID | None = None, fapl: h5p.PropFAID | None = None
) -> FileID:
    """Creates a file; `flags` is ``ACC_TRUNC`` or ``ACC_EXCL``."""
    options: AnyModeOptions = {} if fapl is None else fapl._options()
    if fcpl is not None:
        if fcpl.get_userblock():
            options["userblock_size"] = fcpl.get_userblock()
        if fcpl.get_link_creation_order():
            options["track_order"] = True
        strategy, persist, threshold = fcpl.get_file_space_strategy()
        if "strategy" in fcpl._values:
            # `open_file` raises an error for unsupported values.
            options |= {"fs_strategy": _STRATEGIES.get(strategy, "?"), "fs_persist": bool(persist)}
            options["fs_threshold"] = threshold
        if strategy == FSPACE_STRATEGY_PAGE:
            options["fs_page_size"] = fcpl.get_file_space_page_size()
    return FileID(_files.open_file(_encoded(name), "x" if flags & ACC_EXCL else "w", options))


def open_file_image(image: Buffer, flags: int = 0) -> FileID:
    """Opens the bytes of a file."""
    data = bytes(image)
    if flags & FILE_IMAGE_OPEN_RW or flags & ACC_RDWR:
        return FileID(_files.edit_image(data, "<image>", {}))
    native = File.from_bytes(data, "<image>")
    return FileID(_files.Handle(_files.Session(native, object(), "<image>", driver="core", writes=False)))


def is_hdf5(name: str | bytes | os.PathLike[str]) -> bool:
    """Returns whether a file exists and has an HDF5 signature."""
    return _is_hdf5(os.fsdecode(name))


def flush(obj: Location | AttrID, scope: int = SCOPE_LOCAL) -> None:
    """Commits the file of an object."""
    if isinstance(obj, LocationID) and obj._opened_by is None:
        raise RuntimeError("Unable to synchronously flush file (not a named datatype)")
    obj._hc  # noqa: B018 - raises an error if the file is closed
    if obj._handle.session.writes:
        obj._handle.session.flush()


def get_name(obj: Location | AttrID) -> bytes:
    """Returns the path of an object's file."""
    return os.fsencode(obj._handle.session.name)


def get_obj_count(where: FileID | int = OBJ_ALL, types: int = OBJ_ALL) -> int:
    """Returns the number of open identifiers: only of files, since objects need not be closed."""
    return len(get_obj_ids(where, types))


def get_obj_ids(where: FileID | int = OBJ_ALL, types: int = OBJ_ALL) -> list[FileID]:
    """Returns the open identifiers: only of files, since objects need not be closed."""
    if not types & OBJ_FILE:
        return []
    if isinstance(where, FileID):
        return [FileID(handle) for handle in where._handle.session.handles if handle.is_open]
    return [
        FileID(handle)
        for sessions in list(_files._sessions.values())
        for session in list(sessions)
        for handle in list(session.handles)
        if handle.is_open
    ]


def mount(*_: object, **__: object) -> NoReturn:
    """Raises an error: mounting is not supported."""
    raise UnsupportedError("h5f.mount: mounting is not supported; use an external link")


unmount = mount
_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
