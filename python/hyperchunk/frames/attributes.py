"""Attributes as PyTables, pandas, anndata and MATLAB read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hyperchunk._printable import printable
from hyperchunk.dtypes import Empty
from hyperchunk.exceptions import CorruptError, HyperchunkError
from hyperchunk.frames.pickles import loads

if TYPE_CHECKING:
    from hyperchunk.objects import HLObject

_ABSENT = object()


def where(found: HLObject) -> str:
    """Returns the names of an object and its file, for messages."""
    return f"object {printable(found.name or '?')}, file {printable(found._opened.filename)}"


def text(found: HLObject, name: str) -> str | None:
    """Returns a string attribute with one element; None if it is absent, unreadable or not a string."""
    try:
        value = found.attrs.get(name)
    except HyperchunkError:
        # An attribute that cannot be decoded is treated as absent.
        return None
    return as_text(value)


def as_text(value: object) -> str | None:
    """Returns a string value, or an array of one string, as text; None for other values."""
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "SUOT":
        value = value.flat[0]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Empty) and value.dtype.kind == "S":
        return ""
    return str(value) if isinstance(value, str) else None


def texts(found: HLObject, name: str) -> list[str] | None:
    """Returns an attribute that is a list of texts, or None."""
    value = found.attrs.get(name)
    if value is None:
        return None
    if isinstance(value, Empty):
        return []
    flat = np.atleast_1d(np.asarray(value, "O")).ravel().tolist()
    found_texts = [as_text(item) for item in flat]
    return [item for item in found_texts if item is not None] if None not in found_texts else None


def pytables(found: HLObject, name: str, default: object = _ABSENT) -> Any:
    """Returns an attribute as PyTables reads it: texts that are pickles become the pickled values.

    Raises:
        CorruptError: There is no such attribute, and no default.
        UnsupportedError: The pickle contains an object of an unsupported type.
    """
    value = found.attrs.get(name, _ABSENT)
    if value is _ABSENT:
        if default is _ABSENT:
            raise CorruptError(f"expected an attribute {printable(repr(name))}, got none ({where(found)})")
        return default
    if isinstance(value, Empty):
        return ""
    if isinstance(value, bytes | str):
        stored = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        if is_pickle(bytes(stored)):
            return loads(stored, f"attribute {name}, {where(found)}")
        return stored.decode("utf-8", "surrogateescape")
    if isinstance(value, np.generic):
        return value.item()
    return value


def is_pickle(stored: bytes) -> bool:
    """Returns whether a string may be a pickle: it ends with the STOP opcode (``.``), and starts with the PROTO opcode
    (protocol 2 or later) or an opcode of protocol 0.
    """
    if not stored.endswith(b"."):
        return False
    if stored[:1] == b"\x80":
        return True
    # Protocol 0: `N.`, or lines of instructions.
    return stored in (b"N.", b"].", b").", b"}.", b"(l.", b"(t.", b"(d.") or (
        stored[:1] in b"cIFLVS(" and b"\n" in stored
    )
