"""Objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast

from hyperchunk import Dataset, Group
from hyperchunk.exceptions import HyperchunkError, UnsupportedError, also
from hyperchunk.h5py import _headers
from hyperchunk.h5py._objects import Location, R, identifier, missing
from hyperchunk.h5py.h5g import GroupID

if TYPE_CHECKING:
    from hyperchunk.h5py.h5d import DatasetID
    from hyperchunk.h5py.h5p import PropCopyID
    from hyperchunk.h5py.h5t import TypeID

TYPE_GROUP, TYPE_DATASET, TYPE_NAMED_DATATYPE = 0, 1, 2
COPY_SHALLOW_HIERARCHY_FLAG, COPY_EXPAND_SOFT_LINK_FLAG, COPY_EXPAND_EXT_LINK_FLAG = 1, 2, 4
COPY_EXPAND_REFERENCE_FLAG, COPY_WITHOUT_ATTR_FLAG, COPY_PRESERVE_NULL_FLAG = 8, 16, 32


class ObjInfo:
    """Description of an object. Times and the number of links are read from its header on first use."""

    def __init__(self, oid: Location) -> None:
        hc = oid._hc
        self._oid = oid
        self._header: _headers.Header | None = None
        #: Number of the file.
        self.fileno: int = oid.fileno
        #: Address in the file.
        self.addr: int = hc._object.address
        #: Type of the object.
        self.type: int = hc._object.kind
        #: Number of attributes.
        self.num_attrs: int = hc._object.attribute_count()

    @property
    def _stored(self) -> _headers.Header:
        if self._header is None:
            self._header = _headers.of(self._oid)
        return self._header

    @property
    def rc(self) -> int:
        """Number of hard links."""
        return self._stored.links

    @property
    def atime(self) -> int:
        """Time of the last access, in seconds since 1970; 0 if it is not tracked."""
        return self._stored.times[0]

    @property
    def mtime(self) -> int:
        """Time of the last change of data, in seconds since 1970; 0 if it is not tracked."""
        return self._stored.times[1]

    @property
    def ctime(self) -> int:
        """Time of the last change of the header, in seconds since 1970; 0 if it is not tracked."""
        return self._stored.times[2]

    @property
    def btime(self) -> int:
        """Time of creation, in seconds since 1970; 0 if it is not tracked."""
        return self._stored.times[3]

    def _identity(self) -> tuple[int, int]:
        return self.fileno, self.addr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjInfo) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __copy__(self) -> ObjInfo:
        return ObjInfo(self._oid)


def get_info(
    loc: Location, name: bytes | None = None, index: int = -1, *, obj_name: bytes = b".", **_: object
) -> ObjInfo:
    """Returns the description of an object: of `loc`, or of a member by its name or number."""
    if obj_name != b".":
        loc = open(loc, obj_name)
    if name is None and index >= 0:
        if not isinstance(loc, GroupID):
            raise RuntimeError("Can't get info for object (no members: not a group)")
        name = loc.links._name(None, index)
    return ObjInfo(loc if name is None or name == b"." else open(loc, name))


def open(loc: Location, name: bytes, lapl: object = None) -> GroupID | DatasetID | TypeID:
    """Opens an object by its path."""
    hc = loc._hc
    if name == b".":
        return identifier(hc, loc._handle)
    try:
        return identifier(hc._member(name) if isinstance(hc, Group) else hc.file[name], loc._handle)
    except HyperchunkError as error:
        raise also(error, KeyError) from None


def exists_by_name(loc: GroupID, name: str | bytes, lapl: object = None) -> bool:
    """Returns whether a path leads to an object."""
    return name in loc._hc


def link(obj: Location, loc: GroupID, name: bytes, lcpl: object = None, lapl: object = None) -> None:
    """Creates a hard link to an object."""
    loc._hc[name] = obj._hc


def copy(
    src_loc: GroupID,
    src_name: bytes,
    dst_loc: GroupID,
    dst_name: bytes,
    copypl: PropCopyID | None = None,
    lcpl: object = None,
) -> None:
    """Copies an object."""
    flags = 0 if copypl is None else copypl.get_copy_object()
    src_loc._hc.copy(
        src_name if src_name != b"." else src_loc._hc,
        dst_loc._hc,
        dst_name,
        shallow=bool(flags & COPY_SHALLOW_HIERARCHY_FLAG),
        expand_soft=bool(flags & COPY_EXPAND_SOFT_LINK_FLAG),
        expand_external=bool(flags & COPY_EXPAND_EXT_LINK_FLAG),
        expand_refs=cast("Literal[False]", bool(flags & COPY_EXPAND_REFERENCE_FLAG)),
        without_attrs=bool(flags & COPY_WITHOUT_ATTR_FLAG),
    )


def set_comment(loc: Location, comment: bytes, *, obj_name: bytes = b".", lapl: object = None) -> None:
    """Stores a comment with an object."""
    open(loc, obj_name)._written._node.set_comment(comment)


def get_comment(loc: Location, comment: object = None, *, obj_name: bytes = b".", lapl: object = None) -> bytes:
    """Returns the comment of an object."""
    found = open(loc, obj_name)._hc._object.comment
    return b"" if found is None else found.encode("utf-8", "surrogateescape")


def visit(
    loc: Location, func: Callable[..., R | None], *, info: bool = False, obj_name: bytes = b".", **_: object
) -> R | None:
    """Calls a function with the path of each object (and its description, with `info`) until it returns a value."""
    start = open(loc, obj_name)
    if isinstance(start._hc, Dataset):
        raise UnsupportedError("h5o.visit: expected a group, got a dataset")

    def call(name: str) -> R | None:
        raw = name.encode("utf-8", "surrogateescape")
        return func(raw, get_info(start, raw)) if info else func(raw)

    return cast("GroupID", start)._hc.visit(call)


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
