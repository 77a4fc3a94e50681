"""Links."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

from hyperchunk import ExternalLink, Group, SoftLink
from hyperchunk.dtypes import Description
from hyperchunk.h5py._objects import R, missing

if TYPE_CHECKING:
    from hyperchunk.h5py.h5g import GroupID

TYPE_HARD, TYPE_SOFT, TYPE_EXTERNAL = 0, 1, 64
# `_core`'s numbers for the kinds of links.
_HARD, _SOFT, _EXTERNAL = range(3)
_TYPES = {_HARD: TYPE_HARD, _SOFT: TYPE_SOFT, _EXTERNAL: TYPE_EXTERNAL}


class LinkInfo(NamedTuple):
    """Description of a link."""

    type: int
    corder_valid: bool
    corder: int
    #: Character set of the name.
    cset: int
    #: Address of the object, or size of the value.
    u: int


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


class LinkProxy:
    """The links of a group."""

    def __init__(self, group: GroupID) -> None:
        self.id = group

    @property
    def _hc(self) -> Group:
        return self.id._hc

    def _name(self, name: bytes | None, index: int) -> bytes:
        if name is not None:
            return name
        names = self._hc._object.link_names()
        if not 0 <= index < len(names):
            raise KeyError(f"Unable to get link info (no link with the number {index})")
        return _bytes(names[index])

    def _target(self, name: bytes) -> Description:
        found = self._hc._object.link(name) if name not in (b"/", b".") else None
        if found is None:
            raise KeyError(f"Unable to get link info (no link {name!r})")
        return found

    def create_hard(
        self, new_name: bytes, cur_loc: GroupID, cur_name: bytes, lcpl: object = None, lapl: object = None
    ) -> None:
        """Creates a hard link to an object of the same file."""
        self._hc[new_name] = cur_loc._hc[cur_name]

    def create_soft(self, new_name: bytes, target: bytes, lcpl: object = None, lapl: object = None) -> None:
        """Creates a soft link."""
        self._hc[new_name] = SoftLink(target)

    def create_external(
        self, link_name: bytes, file_name: bytes, obj_name: bytes, lcpl: object = None, lapl: object = None
    ) -> None:
        """Creates an external link."""
        self._hc[link_name] = ExternalLink(file_name, obj_name)

    def get_val(self, name: bytes, lapl: object = None) -> bytes | tuple[bytes, bytes]:
        """Returns the target of a soft link, or the file and the target of an external link."""
        target = self._target(name)
        if target[0] == _HARD:
            raise TypeError("Link must be either a soft or external link")
        return _bytes(target[1]) if target[0] == _SOFT else (_bytes(target[1]), _bytes(target[2]))

    def move(
        self, src_name: bytes, dst_loc: GroupID, dst_name: bytes, lcpl: object = None, lapl: object = None
    ) -> None:
        """Renames a link, or moves it into another group."""
        here, there = self._hc, dst_loc._written
        link = here.get(src_name, getlink=True) if self.exists(src_name) else None
        if link is None:
            raise KeyError(f"Unable to move link (no link {src_name!r})")
        if isinstance(link, SoftLink | ExternalLink):
            there[dst_name] = link
        else:
            there._check_outside(here[src_name], dst_name)
            there[dst_name] = here[src_name]
        del here[src_name]

    def exists(self, name: bytes, lapl: object = None) -> bool:
        """Returns whether a link exists, even if it is dangling."""
        if name in (b"/", b"."):
            return name == b"/"
        return self._hc._object.link(name) is not None

    def get_info(
        self, name: bytes | None = None, index: int = -1, *, obj_name: bytes = b".", **orders: object
    ) -> LinkInfo:
        """Returns the description of a link."""
        if obj_name != b".":
            return LinkProxy(_group(self.id, obj_name)).get_info(name, index)
        name = self._name(name, index)
        target = self._target(name)
        kind = _TYPES[target[0]] if target[0] in _TYPES else int(target[1])
        if kind == TYPE_HARD:
            size = target[1]
        elif kind == TYPE_SOFT:
            size = len(_bytes(target[1])) + 1
        elif kind == TYPE_EXTERNAL:
            size = 1 + sum(len(_bytes(part)) + 1 for part in target[1:3])
        else:
            size = len(target[2])
        # The order of creation is known only from the order of the names.
        return LinkInfo(kind, False, 0, int(not name.isascii()), size)

    def visit(
        self, func: Callable[..., R | None], *, info: bool = False, obj_name: bytes = b".", **orders: object
    ) -> R | None:
        """Calls a function with the path of each link below the group (and its description, with `info`) until it
        returns a value.
        """
        if obj_name != b".":
            return LinkProxy(_group(self.id, obj_name)).visit(func, info=info)

        def call(name: str) -> R | None:
            raw = _bytes(name)
            return func(raw, self.get_info(raw)) if info else func(raw)

        return self._hc.visit_links(call)

    def iterate(
        self,
        func: Callable[..., R | None],
        *,
        info: bool = False,
        obj_name: bytes = b".",
        startidx: int = 0,
        **_: object,
    ) -> tuple[R | None, int]:
        """Calls a function with the name of each link (and its description, with `info`) until it returns a value.
        Returns that value, and the number of the next link.
        """
        if obj_name != b".":
            return LinkProxy(_group(self.id, obj_name)).iterate(func, info=info, startidx=startidx)
        names = self._hc._object.link_names()
        for index, name in enumerate(names[startidx:], startidx):
            raw = _bytes(name)
            found = func(raw, self.get_info(raw)) if info else func(raw)
            if found is not None:
                return found, index + 1
        return None, len(names)


def _group(loc: GroupID, name: bytes) -> GroupID:
    from hyperchunk.h5py import h5o

    return cast("GroupID", h5o.open(loc, name))


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
