"""Properties of objects that only their headers hold: numbers of links, times, flags of filters.

Source: the HDF5 file format specification, sections IV.A.1 (object headers) and IV.A.2 (messages).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict, cast

from hyperchunk import File
from hyperchunk.exceptions import CorruptError, UnsupportedError

if TYPE_CHECKING:
    from hyperchunk.dtypes import Description
    from hyperchunk.h5py._files import Session
    from hyperchunk.h5py._objects import Location
    from hyperchunk.h5py.h5d import DatasetID
    from hyperchunk.objects import HLObject

# Message types of fill values and filters, which may be in a shared message instead.
_FILL, _FILTERS = 5, 11
# Maximum number of header blocks, and of bytes in one.
_MOST_BLOCKS, _MOST_BYTES = 1000, 1 << 24
# Bits of an object header's flags.
_HAS_ORDER, _HAS_PHASES, _HAS_TIMES = 4, 16, 32
_SHARED = 2
# Address of elements that are not allocated.
_UNDEFINED = 2**64 - 1
_STRATEGIES = range(4)
# Strategies in files of HDF5 1.10.0, as the current ones with the flag for persistent free space.
_FIRST_STRATEGIES = {1: (0, True), 2: (0, False), 3: (2, False), 4: (3, False)}


class Filter(NamedTuple):
    """A filter of a dataset."""

    number: int
    flags: int
    values: tuple[int, ...]


class Header(NamedTuple):
    """Properties that an object header holds."""

    #: Number of hard links.
    links: int = 1
    #: Access, modification, change and birth, in seconds since 1970; 0 if they are not tracked.
    times: tuple[int, int, int, int] = (0, 0, 0, 0)
    filters: tuple[Filter, ...] = ()
    #: Allocation time, time of writing the fill value, and whether it is defined; None without a fill value message.
    fill: tuple[int, int, bool] | None = None
    #: Flags of the order of creation of attributes and of links: 1 for tracked, 2 for indexed.
    attribute_order: int = 0
    link_order: int = 0
    #: Numbers of attributes at which their storage changes between compact and dense.
    phases: tuple[int, int] = (8, 6)
    #: Address of the elements of a contiguous dataset, relative to the base of the file.
    data: int | None = None
    #: Management of free space, in the superblock's extension: strategy, persistence, smallest size, page size.
    space: tuple[int, bool, int, int] | None = None


class _Parts(TypedDict, total=False):
    """Fields of a `Header` that were found."""

    links: int
    times: tuple[int, int, int, int]
    filters: tuple[Filter, ...]
    fill: tuple[int, int, bool] | None
    attribute_order: int
    link_order: int
    phases: tuple[int, int]
    data: int | None
    space: tuple[int, bool, int, int] | None


#: Reads bytes at an address.
ByteReader: TypeAlias = Callable[[int, int], bytes]


class Superblock(NamedTuple):
    """Properties of a file that its superblock holds."""

    version: int
    #: As in the extension's header; None for HDF5's defaults.
    space: tuple[int, bool, int, int] | None = None


def of(oid: Location) -> Header:
    """Returns the header of an object in a local file that is open for reading, or was committed.

    Raises:
        UnsupportedError: The file is not local, or the object is not in it yet.
    """
    hc = oid._hc
    session = oid._handle.session
    if session.writes:
        return _of_written(oid)
    with _byte_readers(session) as read:
        return _parse(read, hc._object.address, f"{hc.name}, file {session.name}")


def superblock(session: Session) -> Superblock:
    """Returns the properties of a file: of one that is edited, as of its last commit.

    Raises:
        UnsupportedError: The file exists already, and is not local.
    """
    if session.writes and not session.edits:
        return Superblock(2 if session.native.libver[0] in ("earliest", "v108") else 3)
    with _byte_readers(session) as read:
        start = read(0, 48)
        version = start[8] if start[:8] == b"\x89HDF\r\n\x1a\n" and len(start) == 48 else None
        if version is None:
            raise CorruptError(f"cannot read the superblock: expected HDF5's signature (file {session.name})")
        if version < 2 or start[9] != 8:
            return Superblock(version)
        (address,) = struct.unpack_from("<Q", start, 20)
        if address == _UNDEFINED:
            return Superblock(version)
        return Superblock(version, _parse(read, address, f"extension of the superblock, file {session.name}").space)


@contextmanager
def _byte_readers(session: Session) -> Iterator[ByteReader]:
    """Yields a function that reads bytes of a local file or a file-like object, at an address."""
    # `_core` counts from the first byte of a file that it writes.
    base = session.native.userblock_size if session.writes else session.opened.need().base
    path = Path(session.opened.filename)
    source = session.source
    if source is None and not path.is_file():
        raise UnsupportedError(f"cannot read the header of an object: expected a local file (file {session.name})")
    with path.open("rb") if source is None else nullcontext(source) as file:
        before = file.tell()

        def read(address: int, length: int) -> bytes:
            file.seek(base + address)
            return file.read(length)

        try:
            yield read
        finally:
            file.seek(before)


def _of_written(oid: Location) -> Header:
    """Returns the properties of an object in a file that is being written, from its tree of links."""
    hc, found = oid._hc, 0
    address = hc._object.address

    def count(_: str, target: Description) -> None:
        nonlocal found
        found += target[0] == 0 and target[1] == address

    root = hc.file
    root._visit_links(count)
    tracked = int(hc._object.attribute_order_tracked)
    order = 3 * tracked
    return Header(links=found + (root._object.address == address), attribute_order=order, link_order=order)


def _parse(read: ByteReader, address: int, what: str) -> Header:
    start = read(address, 16)
    if start[:4] == b"OHDR":
        return _second(read, address, what)
    if len(start) < 16 or start[0] != 1:
        raise CorruptError(f"cannot read an object header: expected version 1 or 2 at {address} ({what})")
    links, size = struct.unpack_from("<II", start, 4)
    found: _Parts = {"links": links}
    blocks, done = [(address + 16, size)], 0
    while blocks:
        at, length = blocks.pop(0)
        done += 1
        if done > _MOST_BLOCKS or length > _MOST_BYTES:
            raise CorruptError(f"cannot read an object header: too many blocks at {address} ({what})")
        data, offset = read(at, length), 0
        while offset + 8 <= len(data):
            kind, size, flags = struct.unpack_from("<HHB", data, offset)
            body = data[offset + 8 : offset + 8 + size]
            offset += 8 + size
            _message(kind, flags, body, found, blocks)
    return Header(**found)


def _second(read: ByteReader, address: int, what: str) -> Header:
    flags = read(address + 5, 1)[0]
    at = address + 6
    found: _Parts = {}
    if flags & _HAS_TIMES:
        found["times"] = struct.unpack("<4I", read(at, 16))
        at += 16
    if flags & _HAS_PHASES:
        found["phases"] = struct.unpack("<2H", read(at, 4))
        at += 4
    width = 1 << (flags & 3)
    blocks = [(at + width, int.from_bytes(read(at, width), "little"))]
    prefix, done = 6 if flags & _HAS_ORDER else 4, 0
    while blocks:
        at, length = blocks.pop(0)
        done += 1
        if done > _MOST_BLOCKS or length > _MOST_BYTES:
            raise CorruptError(f"cannot read an object header: too many blocks at {address} ({what})")
        data, offset = read(at, length), 0
        if done > 1:
            if data[:4] != b"OCHK":
                raise CorruptError(f"cannot read an object header: expected a continuation at {at} ({what})")
            data = data[4:-4]
        while offset + prefix <= len(data):
            kind, size, message_flags = struct.unpack_from("<BHB", data, offset)
            body = data[offset + prefix : offset + prefix + size]
            offset += prefix + size
            _message(kind, message_flags, body, found, blocks)
    return Header(**found)


def _message(kind: int, flags: int, body: bytes, found: _Parts, blocks: list[tuple[int, int]]) -> None:
    if flags & _SHARED and kind in (_FILTERS, _FILL):
        return
    match kind:
        case 16:  # continuation
            blocks.append(struct.unpack_from("<QQ", body))
        case 22:  # number of links
            found["links"] = struct.unpack_from("<I", body, 1)[0]
        case 18:  # time of modification
            seconds = struct.unpack_from("<I", body, 4)[0]
            found["times"] = (0, 0, seconds, 0)
        case 21:  # attribute info
            found["attribute_order"] = body[1] & 3
        case 2:  # link info
            found["link_order"] = body[1] & 3
        case 5:  # fill value
            if body[0] == 3:
                found["fill"] = (body[1] & 3, body[1] >> 2 & 3, bool(body[1] & 32))
            else:
                has_value = len(body) >= 8 and int.from_bytes(body[4:8], "little", signed=True) > 0
                found["fill"] = (body[1], body[2], bool(body[3]) and has_value)
        case 8 if body[0] == 3 and body[1] == 1:  # contiguous layout
            address = struct.unpack_from("<Q", body, 2)[0]
            found["data"] = None if address == _UNDEFINED else address
        case 8 if body[0] < 3 and body[2] == 1:
            address = struct.unpack_from("<Q", body, 8)[0]
            found["data"] = None if address == _UNDEFINED else address
        case 23:  # file space info
            found["space"] = _space(body)
        case 11:  # filters
            found["filters"] = tuple(_filters(body))


def _space(body: bytes) -> tuple[int, bool, int, int]:
    first = body[:1] == b"\0"
    if len(body) < (10 if first else 19) or body[1] not in (_FIRST_STRATEGIES if first else _STRATEGIES):
        raise CorruptError(f"cannot read the management of free space: expected a strategy, got {body[:19].hex()}")
    if first:
        return *_FIRST_STRATEGIES[body[1]], struct.unpack_from("<Q", body, 2)[0], 4096
    threshold, page = struct.unpack_from("<QQ", body, 3)
    return body[1], bool(body[2]), threshold, page


def _filters(body: bytes) -> Iterator[Filter]:
    version, count = body[0], body[1]
    at = 8 if version == 1 else 2
    for _ in range(count):
        number = struct.unpack_from("<H", body, at)[0]
        at += 2
        name_bytes = 0
        if version == 1 or number >= 256:
            name_bytes = struct.unpack_from("<H", body, at)[0]
            at += 2
        flags, values = struct.unpack_from("<HH", body, at)
        at += 4 + (-(-name_bytes // 8) * 8 if version == 1 else name_bytes)
        yield Filter(number, flags, struct.unpack_from(f"<{values}I", body, at))
        at += 4 * (values + (values & 1 if version == 1 else 0))


def place(oid: DatasetID) -> int | None:
    """Returns the offset of the elements of a contiguous dataset in the file; None if they are not allocated.

    Raises:
        UnsupportedError: The file is not local, or is being written.
    """
    hc = oid._hc
    session = oid._handle.session
    if session.writes and session.opened.driver == "sec2":
        session.flush()
        with File(session.opened.filename, locking=False) as committed:
            from hyperchunk.h5py import _files

            return _place(_files.wrap_native(committed).session, committed[cast("str", hc.name)])
    if hc.shape is None:
        return None
    if session.writes:
        raise UnsupportedError(f"h5d.DatasetID.get_offset: the file is being written ({session.name})")
    return _place(session, hc)


def _place(session: Session, hc: HLObject) -> int | None:
    with _byte_readers(session) as read:
        found = _parse(read, hc._object.address, f"{hc.name}, file {session.name}").data
    base = hc._opened.need().base
    return None if found is None else found + base
