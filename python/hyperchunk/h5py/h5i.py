"""Identifiers: their type, name and file."""

from __future__ import annotations

from hyperchunk.h5py import h5a, h5d, h5f, h5g, h5p, h5s, h5t
from hyperchunk.h5py._objects import Location, LocationID, ObjectID, missing
from hyperchunk.objects import HLObject, encode

BADID = INVALID_HID = -1
FILE, GROUP, DATATYPE, DATASPACE, DATASET, ATTR = 1, 2, 3, 4, 5, 7
GENPROP_CLS, GENPROP_LST = 10, 11

_TYPES: tuple[tuple[type[ObjectID], int], ...] = (
    (h5f.FileID, FILE),
    (h5g.GroupID, GROUP),
    (h5d.DatasetID, DATASET),
    (h5a.AttrID, ATTR),
    (h5t.TypeID, DATATYPE),
    (h5s.SpaceID, DATASPACE),
    (h5p.PropClassID, GENPROP_CLS),
    (h5p.PropID, GENPROP_LST),
)


def get_type(obj: ObjectID) -> int:
    """Returns the type of an identifier: ``FILE``, ``GROUP``, …"""
    return next((number for kind, number in _TYPES if isinstance(obj, kind)), BADID)


def _is_at(found: HLObject, name: str | None) -> bool:
    """Returns whether a path leads to an object."""
    if name is None or name == "/":
        return True
    try:
        other = found._opened.need().root.get(encode(name))
    except KeyError:
        return False
    return isinstance(other, tuple) or bool(other.address == found._object.address)


def get_name(obj: object) -> bytes | None:
    """Returns the path of an object, or None if it has none."""
    if isinstance(obj, h5a.AttrID):
        return obj.name
    if not isinstance(obj, LocationID) or obj._opened_by is None or not obj.valid:
        # Datatypes in memory have no path.
        return None
    found = obj._hc
    if obj._handle.session.writes and not _is_at(found, found._name):
        # The link that it was found by was moved or removed.
        found._name = None
    name = found.name
    return None if name is None else name.encode("utf-8", "surrogateescape")


def get_file_id(obj: Location | h5a.AttrID) -> h5f.FileID:
    """Returns the identifier of an object's file."""
    if isinstance(obj, h5t.TypeID) and not obj.committed():
        raise ValueError("Invalid location identifier (not a committed datatype)")
    obj._hc  # noqa: B018 - raises an error if the file is closed
    return h5f.FileID(obj._handle)


def get_ref(obj: ObjectID) -> int:
    """Returns the number of references to an identifier: 1, or 0 once it is closed."""
    return int(obj.valid)


def inc_ref(obj: ObjectID) -> None:
    """Does nothing: Python counts the references."""


def dec_ref(obj: ObjectID) -> None:
    """Does nothing: Python counts the references."""


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
