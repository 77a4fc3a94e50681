"""Reads of elements in their stored form, for values that PyTables reads differently from h5py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk.dtypes import Description, to_dtype
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.typing import Array, Dtype
from hyperchunk.values import Part, Plan

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset


def stored_plan(description: Description, members: Sequence[str] | None = None) -> Plan | None:
    """Returns a plan to read elements, or some of their members, as they are stored, if they have times, which NumPy
    has no dtype for, or fixed-length strings, which PyTables reads including the bytes after a null byte; else None.
    """
    memory = description if members is None else _packed(description, members)
    times = has(memory, "time")
    if not times and not has(memory, "string"):
        return None
    if any(has(memory, kind) for kind in ("vlen", "vlen-string", "reference")):
        if not times:
            return None
        raise UnsupportedError("cannot read times beside values of variable length")
    dtype = _stored_dtype(memory)
    return Plan(description, Part(dtype, dtype, memory, None))


def _packed(description: Description, members: Sequence[str]) -> Description:
    """Returns a compound of some members, without gaps between them."""
    wanted, packed, end = set(members), [], 0
    for name, _, member in description[2]:
        if name.decode("utf-8", "surrogateescape") in wanted:
            packed.append((name, end, member))
            end += member[1]
    return ("compound", end, tuple(packed))


def rows_as_stored(dataset: Dataset, members: list[str], start: int, stop: int) -> Array:
    """Returns some members of rows of a table, as they are stored."""
    plan = stored_plan(dataset._data.datatype.description, members)
    if plan is None:
        return np.asarray(dataset.fields(members)[start:stop])
    return np.asarray(dataset._read((slice(start, stop),), plan))


def has(description: Description, kind: str) -> bool:
    """Returns whether a datatype is of a class, or has a part of it."""
    if description[0] == "compound":
        return any(has(member, kind) for _, _, member in description[2])
    if description[0] == kind:
        return True
    return description[0] in ("array", "vlen") and has(description[3 if description[0] == "array" else 2], kind)


def _stored_dtype(description: Description) -> Dtype:
    match description[0]:
        case "time":
            return np.dtype(f"{description[2]}i{description[1]}")
        case "array":
            return np.dtype((_stored_dtype(description[3]), description[2]))
        case "compound" if not is_complex(description):
            return np.dtype(
                {
                    "names": [name.decode("utf-8", "surrogateescape") for name, _, _ in description[2]],
                    "formats": [_stored_dtype(member) for _, _, member in description[2]],
                    "offsets": [offset for _, offset, _ in description[2]],
                    "itemsize": description[1],
                }
            )
    return to_dtype(description)


def is_complex(description: Description) -> bool:
    """Returns whether a compound represents complex numbers, as h5py stores them."""
    members = description[2]
    return [name for name, _, _ in members] == [b"r", b"i"] and all(member[0] == "float" for _, _, member in members)
