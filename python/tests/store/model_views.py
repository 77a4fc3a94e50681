"""View of an open session: exactly its own operations, over the epoch at its start; elements that it did not write
may show writes of others that are not in that epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from store.model_checks import compare
from store.model_session import Making, of_member
from store.model_tree import Entry, fill, shown


def bytes_of(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the bytes of each element."""
    return np.frombuffer(values.tobytes(), np.uint8).reshape(*values.shape, values.dtype.itemsize)


def difference(entry: Entry, found: Any, others: list[Making]) -> str | None:
    """Describes the fault of a dataset as seen by a session."""
    assert entry.spec is not None
    assert entry.values is not None
    kind, (type_, shape, maxshape, data), attrs = found
    if (kind, type_, maxshape, attrs) != (
        "dataset",
        str(entry.values.dtype),
        tuple(entry.spec["maxshape"]),
        tuple(sorted(entry.attrs.items())),
    ):
        return "another kind of dataset"
    written = [one for other in others for one in other.writes if one[0] & entry.origins]
    reach = [entry.values.shape, *(extent for _, extent, _, _, _ in written)]
    if len(shape) != entry.values.ndim or any(
        not own <= seen <= max(extent[axis] for extent in reach)
        for axis, (own, seen) in enumerate(zip(entry.values.shape, shape, strict=True))
    ):
        return f"an extent of {shape}, which is neither its own nor another's of {reach}"
    kind = entry.values.dtype
    values = np.frombuffer(data, np.uint8).reshape(*shape, kind.itemsize)
    own = np.empty(shape, kind)
    own[...] = fill(entry.spec)
    inside = tuple(slice(length) for length in entry.values.shape)
    own[inside] = entry.values
    good = bytes_of(own) == values
    assert entry.mask is not None
    free = np.ones(values.shape, bool)
    free[inside] = ~entry.mask
    for _, extent, index, value, member in written:
        if index is None:
            continue
        canvas, mask = np.zeros(extent, kind), np.zeros((*extent, kind.itemsize), bool)
        (canvas if member is None else canvas[member])[index] = value
        mask[index] = of_member(kind, member)
        both = tuple(slice(min(pair)) for pair in zip(extent, shape, strict=True))
        good[both] |= mask[both] & (bytes_of(canvas)[both] == values[both]) & free[both]
    if good.all():
        return None
    wrong = np.argwhere(~good.all(axis=-1)).tolist()
    return f"elements at {wrong} that are nobody's: {values.view(kind)[..., 0].tolist()}"


def check(session: Making, found: dict[str, Any]) -> None:
    """Checks that a session sees only permitted contents."""
    expected = shown(session.view)
    for path, entry in session.view.items():
        seen = found.get(path)
        if entry.values is None or seen is None or seen == expected[path] or seen[0] != "dataset":
            continue
        wrong = difference(entry, seen, session.others)
        assert wrong is None, (
            f"in session {session.id[:8]}: {path}: {wrong}\n  expected {expected[path]}\n  got      {seen}"
        )
        expected[path] = seen
    compare(expected, found, f"in session {session.id[:8]} itself")
