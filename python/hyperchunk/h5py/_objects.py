"""Identifiers of objects, and the lock under h5py's name."""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, TypeAlias, TypeVar, cast

from hyperchunk.exceptions import ClosedError, UnsupportedError
from hyperchunk.objects import refusal

if TYPE_CHECKING:
    from hyperchunk import Datatype
    from hyperchunk.h5py._files import Handle
    from hyperchunk.h5py.h5d import DatasetID
    from hyperchunk.h5py.h5g import GroupID
    from hyperchunk.h5py.h5t import TypeID
    from hyperchunk.objects import HLObject
    from hyperchunk.write.objects import WritableObject

P = ParamSpec("P")
R = TypeVar("R")
#: Class of Hyperchunk's object.
Found = TypeVar("Found", bound="HLObject", covariant=True)
#: Identifier of a file, a group, a dataset or a datatype.
Location: TypeAlias = "LocationID[HLObject]"

#: h5py's global lock, for programs that take it. Calls of this package do not need it.
phil = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=phil.acquire, after_in_parent=phil.release, after_in_child=phil.release)
_numbers = itertools.count(1 << 56)


def with_phil(func: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function that holds :data:`phil` while it runs."""

    @functools.wraps(func)
    def locked(*args: P.args, **keywords: P.kwargs) -> R:
        with phil:
            return func(*args, **keywords)

    return locked


def missing(module: str) -> Callable[[str], NoReturn]:
    """Returns a module's ``__getattr__``, which raises an error that names the missing function."""

    def find(name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise MissingError(f"{module.removeprefix('hyperchunk.')}.{name}")

    return find


class MissingError(UnsupportedError, AttributeError):
    """A name of libhdf5's interface without an equivalent. ``hasattr`` is False for it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name}: hyperchunk has no libhdf5 below it, and no equivalent of this; see 'Moving from h5py' in the "
            "documentation"
        )


class ObjectID:
    """An identifier of libhdf5's interface: of a file, an object, a datatype, a dataspace or a property list."""

    def __init__(self, id_: int | None = None) -> None:
        self._closed = False
        self._number = id_

    @property
    def id(self) -> int:
        """Number of the identifier; 0 once it is closed."""
        if not self.valid:
            return 0
        if self._number is None:
            self._number = next(_numbers)
        return self._number

    @property
    def valid(self) -> int:
        """1 until it is closed, then 0."""
        return int(not self._closed)

    @property
    def locked(self) -> bool:
        """True for an identifier that libhdf5 would never close."""
        return False

    def close(self) -> None:
        """Closes the identifier."""
        self._closed = True

    def _close(self) -> None:
        self.close()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectID) and self.id == other.id

    def __hash__(self) -> int:
        raise TypeError("Objects of this kind are unhashable")

    def __bool__(self) -> bool:
        return bool(self.valid)

    def __copy__(self) -> ObjectID:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("h5py objects cannot be pickled")

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise MissingError(f"{type(self).__module__.removeprefix('hyperchunk.')}.{type(self).__name__}.{name}")


class LocationID(ObjectID, Generic[Found]):
    """An identifier of a file, a group, a dataset or a committed datatype.

    `found` is Hyperchunk's object, `handle` the open file through which it was found; both are None for a datatype in
    memory.
    """

    def __init__(self, found: Found | None, handle: Handle | None) -> None:
        super().__init__()
        self._found = cast("Found", found)
        self._opened_by = handle

    @property
    def _handle(self) -> Handle:
        """Open file; an error for a datatype in memory."""
        if self._opened_by is None:
            raise AttributeError(f"{type(self).__name__!r} object has no file")
        return self._opened_by

    @property
    def valid(self) -> int:
        """1 until it, or its file, is closed, then 0."""
        return int(not self._closed and self._handle.is_open)

    @property
    def _hc(self) -> Found:
        """Hyperchunk's object; an error if it is closed."""
        if self._closed or not self._handle.is_open:
            raise ClosedError("Invalid location identifier (invalid identifier: the object or its file is closed)")
        return self._found

    @property
    def _written(self) -> WritableObject:
        """Hyperchunk's object, of a file that is being written; an error if the file is open for reading."""
        return cast("WritableObject", writable(self._hc))

    @property
    def fileno(self) -> int:
        """Number of the open file."""
        return self._handle.number

    def _identity(self) -> tuple[int, int]:
        return (self._handle.number, self._found._object.address)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocationID):
            return NotImplemented
        if self is other:
            return True
        return bool(self.valid and other.valid and self._identity() == other._identity())

    def __hash__(self) -> int:
        if not self.valid:
            raise TypeError("Objects are unhashable once they are closed")
        return hash(self._identity())


def writable(found: HLObject) -> HLObject:
    """Returns an object if its file is being written.

    Raises:
        ReadOnlyError: the file is open for reading.
    """
    from hyperchunk.write.objects import WritableObject

    if not isinstance(found, WritableObject):
        raise refusal()
    return found


def identifier(found: HLObject, handle: Handle) -> GroupID | DatasetID | TypeID:
    """Returns the identifier of one of Hyperchunk's objects."""
    from hyperchunk import Dataset, Group
    from hyperchunk.h5py import h5d, h5g, h5t

    handle = handle.of(found)
    kinds = type(found).__mro__
    if Group in kinds:
        return h5g.GroupID(cast("Group", found), handle)
    if Dataset in kinds:
        return h5d.DatasetID(cast("Dataset", found), handle)
    return h5t.committed_type(cast("Datatype", found), handle)
