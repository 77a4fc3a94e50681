"""Groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from hyperchunk import Group
from hyperchunk.exceptions import HyperchunkError, InvalidError, ObjectNotFoundError, also
from hyperchunk.h5py import h5l
from hyperchunk.h5py._objects import Location, LocationID, R, missing, writable

if TYPE_CHECKING:
    from hyperchunk.h5py import h5p
    from hyperchunk.write.group import WritableGroup

UNKNOWN, GROUP, DATASET, TYPE, LINK = -1, 0, 1, 2, 3
# HDF5's type of a link that is neither hard nor soft.
_OTHER_LINK = 4
LINK_ERROR, LINK_HARD, LINK_SOFT = -1, 0, 1
CRT_ORDER_TRACKED = 1


class GroupStat(NamedTuple):
    """Description of an object."""

    fileno: tuple[int, int]
    objno: tuple[int, int]
    nlink: int
    type: int
    mtime: int
    linklen: int


class GroupID(LocationID[Group]):
    """A group."""

    @property
    def _written(self) -> WritableGroup:
        """Hyperchunk's object, of a file that is being written; an error if the file is open for reading."""
        return cast("WritableGroup", writable(self._hc))

    @property
    def links(self) -> h5l.LinkProxy:
        """The links of the group."""
        return h5l.LinkProxy(self)

    def link(
        self,
        current_name: bytes,
        new_name: bytes,
        link_type: int = LINK_HARD,
        remote: GroupID | None = None,
        *,
        old_name: bytes | None = None,
    ) -> None:
        """Creates a hard or soft link."""
        target = self if remote is None else remote
        if link_type == LINK_SOFT:
            target.links.create_soft(new_name, current_name)
        else:
            target.links.create_hard(new_name, self, current_name)

    def unlink(self, name: bytes) -> None:
        """Removes a link."""
        del self._hc[name]

    def move(self, current_name: bytes, new_name: bytes, remote: GroupID | None = None) -> None:
        """Renames a link."""
        self.links.move(current_name, self if remote is None else remote, new_name)

    def get_num_objs(self) -> int:
        """Returns the number of links."""
        return len(self._hc)

    def get_objname_by_idx(self, idx: int) -> bytes:
        """Returns the name of a link by its number."""
        return self.links._name(None, idx)

    def get_objtype_by_idx(self, idx: int) -> int:
        """Returns the type of an object by its number."""
        return get_objinfo(self, self.get_objname_by_idx(idx)).type

    def get_linkval(self, name: bytes) -> bytes:
        """Returns the target of a soft link."""
        found = self.links.get_val(name)
        assert isinstance(found, bytes)
        return found

    def get_create_plist(self) -> h5p.PropGCID:
        """Returns the creation properties."""
        from hyperchunk.h5py import _plists

        return _plists.group_plist(self)

    def set_comment(self, name: bytes, comment: bytes) -> None:
        """Stores a comment with an object."""
        self._written[name]._node.set_comment(comment)

    def get_comment(self, name: bytes) -> bytes:
        """Returns the comment of an object."""
        found = self._hc[name]._object.comment
        return b"" if found is None else found.encode("utf-8", "surrogateescape")

    def __contains__(self, name: str | bytes) -> bool:
        return name in self._hc

    def __iter__(self) -> Iterator[bytes]:
        return (name.encode("utf-8", "surrogateescape") for name in self._hc)

    def __len__(self) -> int:
        return len(self._hc)


def create(
    loc: GroupID, name: bytes | None, lcpl: h5p.PropLCID | None = None, gcpl: h5p.PropGCID | None = None
) -> GroupID:
    """Creates a group, anonymous without a name. Creates missing groups of its path only if `lcpl` says so."""
    above = b"" if name is None else name.rstrip(b"/").rpartition(b"/")[0]
    if above and not (lcpl is not None and lcpl.get_create_intermediate_group()) and above not in loc:
        raise InvalidError(f"Unable to create group (component not found: {above!r})")
    order = None if gcpl is None else bool(gcpl.get_link_creation_order())
    return GroupID(loc._hc.create_group(name, track_order=order), loc._handle)


def open(loc: Location, name: bytes) -> GroupID:
    """Opens a group."""
    from hyperchunk.h5py import h5o

    try:
        found = h5o.open(loc, name)
    except HyperchunkError as error:
        raise also(error, ValueError) from None
    if not isinstance(found, GroupID):
        raise ValueError(f"Unable to open group ({name!r} is not a group)")
    return found


def iterate(loc: GroupID, func: Callable[..., R | None], startidx: int = 0, *, obj_name: bytes = b".") -> R | None:
    """Calls a function with the name of each link until it returns a value."""
    return h5l.LinkProxy(loc).iterate(func, startidx=startidx, obj_name=obj_name)[0]


def get_objinfo(obj: GroupID, name: bytes = b".", follow_link: bool = True) -> GroupStat:
    """Returns the description of an object or, without `follow_link`, of a link."""
    from hyperchunk.h5py import h5o

    if not follow_link and name not in (b".", b"/"):
        try:
            info = obj.links.get_info(name)
        except KeyError as error:
            raise _no_info(error) from None
        if info.type != h5l.TYPE_HARD:
            # HDF5 has the size of a soft link only.
            is_soft = info.type == h5l.TYPE_SOFT
            return GroupStat((0, 0), (0, 0), 0, LINK if is_soft else _OTHER_LINK, 0, info.u if is_soft else 0)
    try:
        found = obj if name == b"." else h5o.open(obj, name)
    except HyperchunkError as error:
        raise _no_info(error) from None
    about = h5o.get_info(found)
    return GroupStat((about.fileno, 0), (about.addr, 0), about.rc, about.type, about.mtime, 0)


def _no_info(error: Exception) -> HyperchunkError:
    """Returns the error for an object without a description, as h5py raises it and as a KeyError."""
    known = error if isinstance(error, HyperchunkError) else ObjectNotFoundError(str(error.args[0]))
    return also(known, RuntimeError)


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
