"""Files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, cast

from hyperchunk.exceptions import UnsupportedError
from hyperchunk.h5py import _files, h5a, h5f, h5i, h5p
from hyperchunk.h5py._hl import attrs
from hyperchunk.h5py._hl.group import Group
from hyperchunk.h5py._objects import LocationID, ObjectID
from hyperchunk.h5py.h5 import get_config
from hyperchunk.typing import AnyModeOptions, FileName
from hyperchunk.write.file import _release

if TYPE_CHECKING:
    from typing_extensions import Buffer

mpi = ros3 = direct_vfd = False
hdf5_version = (2, 0, 0)
_KNOWN = ("sec2", "stdio", "core", "fileobj", "direct", "windows", "ros3")
_ABSENT = ("split", "family", "mpio")
#: Functions of drivers that programs registered, by name.
_registered: dict[str, Callable[..., None]] = {}
_MODES = ("r", "r+", "w", "w-", "x", "a")
_STRATEGIES = {"fsm": 0, "page": 1, "aggregate": 2, "none": 3}


def _set_usual(plist: h5p.PropFAID, **_: object) -> None:
    plist.set_fapl_sec2()


#: Functions of the built-in drivers that a registered one may call.
_drivers: dict[str, Callable[..., None]] = {
    "sec2": _set_usual,
    "stdio": lambda plist, **_: plist.set_fapl_stdio(),
    "core": lambda plist, **options: plist.set_fapl_core(**options),
}


def register_driver(name: str, set_fapl: Callable[..., None]) -> None:
    """Registers a driver: a function that sets a file access property list, in which it may choose the driver in
    memory or the default one.
    """
    _registered[name] = set_fapl


def unregister_driver(name: str) -> None:
    """Removes a registered driver."""
    del _registered[name]


def registered_drivers() -> frozenset[str]:
    """Returns the names of drivers."""
    return frozenset((*_registered, *(set(_KNOWN) - {"direct", "windows", "ros3"}), "split", "family"))


class File(Group):
    """An HDF5 file, with h5py's arguments.

    Args:
        name: Path, URL, or file-like object.
        mode: ``"r"``, ``"r+"``, ``"w"``, ``"w-"``, ``"x"`` or ``"a"``.
        driver, libver, userblock_size, swmr, track_order, locking, alignment_threshold, alignment_interval: h5py's.
        rdcc_nslots, rdcc_nbytes, rdcc_w0, page_buf_size, min_meta_keep, min_raw_keep, meta_block_size: Settings of
            libhdf5's caches: checked, and without effect.
        fs_strategy, fs_persist, fs_threshold, fs_page_size: Management of free space, for new files.
        track_times: Store times of the root group.
        kwds: Options of the driver (``backing_store`` and ``block_size`` of ``"core"``).

    Example:
        >>> import hyperchunk.h5py as h5py
        >>> with h5py.File("a.h5", "w") as file:
        ...     file["x"] = [1, 2, 3]
        >>> with h5py.File("a.h5") as file:
        ...     file["x"]
        <HDF5 dataset "x": shape (3,), type "<i8">
    """

    _id: h5f.FileID

    if TYPE_CHECKING:

        @property
        def id(self) -> h5f.FileID: ...

    def __init__(
        self,
        name: FileName | ObjectID,
        mode: str = "r",
        driver: str | None = None,
        libver: str | tuple[str, str] | None = None,
        userblock_size: int | None = None,
        swmr: bool = False,
        rdcc_nslots: int | None = None,
        rdcc_nbytes: int | None = None,
        rdcc_w0: float | None = None,
        track_order: bool | None = None,
        fs_strategy: str | None = None,
        fs_persist: bool = False,
        fs_threshold: int = 1,
        fs_page_size: int | None = None,
        page_buf_size: int | None = None,
        min_meta_keep: int = 0,
        min_raw_keep: int = 0,
        locking: bool | str | None = None,
        alignment_threshold: int = 1,
        alignment_interval: int = 1,
        meta_block_size: int | None = None,
        *,
        track_times: bool = False,
        **kwds: Any,
    ) -> None:
        if isinstance(name, ObjectID):
            if not isinstance(name, LocationID | h5a.AttrID):
                raise ValueError("Not an id of a file object (not an ID of a file object)")
            super().__init__(h5i.get_file_id(name))
            return
        if mode not in _MODES:
            raise ValueError("Invalid mode; must be one of r, r+, w, w-, x, a")
        if userblock_size is not None and not isinstance(userblock_size, int):
            raise ValueError(f"User block size must be an integer, got {userblock_size!r}")
        if userblock_size is not None and mode in ("r", "r+"):
            raise ValueError("User block may only be specified when creating a file")
        releases = None if libver is None else _releases(libver)
        new = mode in ("w", "w-", "x", "a")
        if fs_strategy is not None and (not new or (mode == "a" and _exists(name))):
            raise ValueError("Unable to set file space strategy of an existing file")
        given: dict[str, object] = {
            "libver": libver,
            "userblock_size": userblock_size,
            "rdcc_nslots": rdcc_nslots,
            "rdcc_nbytes": rdcc_nbytes,
            "rdcc_w0": rdcc_w0,
            "page_buf_size": page_buf_size,
            "min_meta_keep": min_meta_keep or None,
            "min_raw_keep": min_raw_keep or None,
            "locking": locking,
            "meta_block_size": meta_block_size,
        }
        if new:
            order = get_config().track_order if track_order is None else track_order
            given |= {
                "track_order": order or None,
                "track_times": track_times or None,
                "fs_strategy": fs_strategy,
                "fs_persist": fs_persist or None,
                "fs_threshold": fs_threshold if fs_threshold != 1 else None,
                "fs_page_size": fs_page_size,
            }
        if mode != "r":
            given["alignment_threshold"] = alignment_threshold if alignment_interval != 1 else None
            given["alignment_interval"] = alignment_interval if alignment_interval != 1 else None
        elif swmr:
            given["swmr"] = True
        options = _with_values(given)
        options |= _of_driver(name, driver, mode, kwds)
        handle = _files.open_file(name, mode, options)
        settings = handle.session.settings
        if any(option in options for option in ("rdcc_nslots", "rdcc_nbytes", "rdcc_w0")):
            settings["cache"] = (
                0,
                8191 if rdcc_nslots is None else rdcc_nslots,
                8388608 if rdcc_nbytes is None else rdcc_nbytes,
                0.75 if rdcc_w0 is None else rdcc_w0,
            )
        if alignment_interval != 1:
            settings["alignment"] = (alignment_threshold, alignment_interval)
        if meta_block_size is not None:
            settings["meta_block"] = meta_block_size
        if page_buf_size is not None:
            settings["pages"] = (page_buf_size, min_meta_keep, min_raw_keep)
        if fs_strategy is not None:
            settings["strategy"] = (_STRATEGIES[fs_strategy], fs_persist, fs_threshold)
            if fs_page_size:
                settings["page"] = fs_page_size
        if releases is not None:
            settings["libver_names"] = releases
        if locking is not None:
            settings["locking_option"] = locking
        if locking is not None and (not isinstance(locking, str) or locking != "best-effort"):
            settings["locking"] = (locking in (True, "true"), False)
        super().__init__(h5f.FileID(handle))

    @classmethod
    def in_memory(cls, file_image: Buffer | None = None, **kwargs: Unpack[AnyModeOptions]) -> Self:
        """Creates a file in memory, or opens a file image for editing."""
        made = object.__new__(cls)
        kwargs.pop("block_size", None)
        handle = (
            _files.edit_image(bytes(file_image), "<memory>", kwargs)
            if file_image
            else _files.open_file("<memory>", "w", {**kwargs, "driver": "core"})
        )
        Group.__init__(made, h5f.FileID(handle))
        return made

    @property
    def attrs(self) -> attrs.AttributeManager:
        """Attributes of the root group."""
        return attrs.AttributeManager(self)

    @property
    def filename(self) -> str:
        """Path by which the file was opened."""
        return os.fsdecode(self._id.name)

    @property
    def driver(self) -> str:
        """Access method: ``"sec2"``, ``"core"``, ``"fileobj"``, …"""
        self._hc  # noqa: B018 - raises an error if the file is closed
        return self._id._handle.session.driver

    @property
    def mode(self) -> str:
        """``"r"``, or ``"r+"`` for a file that is written."""
        return "r+" if self._id.get_intent() & h5f.ACC_RDWR else "r"

    @property
    def libver(self) -> tuple[str, str]:
        """Oldest and newest release whose format is used."""
        self._hc  # noqa: B018 - raises an error if the file is closed
        names = self._id._handle.session.settings.get("libver_names")
        if names is not None:
            return names
        return self._id._native.libver

    @property
    def userblock_size(self) -> int:
        """Size of the user block in bytes."""
        return int(self._id._native.userblock_size)

    @property
    def meta_block_size(self) -> int:
        """libhdf5's unit of allocation for structure."""
        return int(self._id.get_access_plist().get_meta_block_size())

    @property
    def swmr_mode(self) -> bool:
        """True in SWMR mode. Set it to True after the datasets are made: readers then see flushed data."""
        return bool(self._id._native.swmr_mode)

    @swmr_mode.setter
    def swmr_mode(self, value: bool) -> None:
        if not value:
            raise ValueError("It is not possible to forcibly switch SWMR mode off.")
        self._id.start_swmr_write()

    def close(self) -> None:
        """Closes the file and all its objects."""
        if self._id.valid:
            self._id.close()

    def flush(self) -> None:
        """Commits the data written until now."""
        h5f.flush(self._id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._id:
            self.close()

    def __repr__(self) -> str:
        if not self._id:
            return "<Closed HDF5 file>"
        return f'<HDF5 file "{Path(self.filename).name}" (mode {self.mode})>'


def _releases(libver: str | tuple[str, str]) -> tuple[str, str]:
    low, high = (libver, "latest") if isinstance(libver, str) else libver
    for name in (low, high):
        _release(name)
    return ("v200" if low == "latest" else low, "v200" if high == "latest" else high)


def _exists(name: FileName) -> bool:
    return not _files.is_fileobj(name) and Path(os.fsdecode(cast("str | bytes | os.PathLike[str]", name))).exists()


#: Options of the driver ros3, and those of object stores.
_ROS3_OPTIONS = (("aws_region", "region"), ("secret_id", "key"), ("secret_key", "secret"), ("session_token", "token"))


def _of_driver(name: FileName, driver: str | None, mode: str, kwds: dict[str, Any]) -> AnyModeOptions:
    """Returns the options of Hyperchunk's files for a driver and its options."""
    if driver in _registered:
        plist = h5p.PropFAID()
        _registered[driver](plist, **kwds)
        return plist._options()
    if driver in _ABSENT:
        raise _files.unsupported_driver(str(driver))
    if _files.is_fileobj(name) and driver not in (None, "fileobj"):
        raise ValueError(f"Driver must be 'fileobj' for file-like object if specified, got {driver!r}")
    if driver == "fileobj" and not _files.is_fileobj(name):
        raise ValueError(f"driver 'fileobj' needs a file-like object, got {name!r}")
    if driver is not None and driver not in _KNOWN:
        raise ValueError(f"Unknown driver type {driver!r}")
    options: AnyModeOptions = {} if driver in (None, "fileobj", "ros3") else {"driver": driver}
    if driver == "core":
        kwds.pop("block_size", None)
        backs = kwds.pop("backing_store", True)
        if mode != "r":
            options["backing_store"] = backs
    elif driver == "ros3":
        given = {ours: os.fsdecode(kwds.pop(theirs, None) or "") for theirs, ours in _ROS3_OPTIONS}
        store = {setting: value for setting, value in given.items() if value}
        if not (os.fsdecode(name) if isinstance(name, bytes) else str(name)).startswith("s3:"):
            # Without keys, requests are not signed, and a region has no meaning.
            store.pop("region", None)
            if store:
                raise UnsupportedError(
                    f"cannot sign requests to {name!s}: expected an s3:// URL with secret_id and secret_key; use "
                    "s3://BUCKET/KEY"
                )
        options["storage_options"] = store or None
    if kwds:
        unknown = next(iter(kwds))
        raise TypeError(f"File() got an unexpected keyword argument {unknown!r}")
    return _with_values(options)


def _with_values(options: Mapping[str, object]) -> AnyModeOptions:
    """Returns the options that are not None."""
    return cast("AnyModeOptions", {option: value for option, value in options.items() if value is not None})


def make_fapl(driver: str | None, **kwds: object) -> h5p.PropFAID:
    """Returns the file access property list for a driver."""
    plist = h5p.PropFAID()
    if driver in (*_ABSENT, "ros3"):
        raise _files.unsupported_driver(str(driver))
    if driver is not None:
        {**_drivers, **_registered}[driver](plist)
    return plist


def make_fid(*_: object, **__: object) -> NoReturn:
    """Raises an error: :class:`File` opens files."""
    raise UnsupportedError("_hl.files.make_fid: files are opened by File()")
