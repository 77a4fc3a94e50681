"""NeXus: the plot that a file shows by default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk.exceptions import InvalidError
from hyperchunk.frames import attributes
from hyperchunk.frames.model import Field, Source, Unique, Values

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.group import Group

#: Maximum number of groups that `default` attributes lead through.
_MAX_STEPS = 32


def default(group: Group) -> Group | None:
    """Returns the `NXdata` group that is shown by default: the one to which the attributes `default` lead from a file
    or a group, or else the first one of the first entry; None if there is none.
    """
    from hyperchunk.group import Group

    at = group
    for _ in range(_MAX_STEPS):
        if attributes.text(at, "NX_class") == "NXdata":
            return at
        name = attributes.text(at, "default")
        found = at.get(name) if name else None
        if not isinstance(found, Group):
            found = _first(at, ("NXdata", "NXentry", "NXsubentry"))
        if found is None:
            return None
        at = found
    return None


def _first(group: Group, kinds: tuple[str, ...]) -> Group | None:
    """Returns the first member of a class, for the classes in their order."""
    from hyperchunk.group import Group

    members = [member for member in group.values() if isinstance(member, Group)] if len(group) <= 10_000 else []
    for kind in kinds:
        for member in members:
            if attributes.text(member, "NX_class") == kind:
                return member
    return None


def source(group: Group) -> Source:
    """Returns the columns of the plot of a group or file.

    Raises:
        InvalidError: There is no plot.
    """
    found = default(group)
    if found is None:
        raise InvalidError(
            f"expected an NXdata group or a `default` that leads to one, got none ({attributes.where(group)})"
        )
    return PlotSource(found)


class PlotSource(Source):
    """A plot as columns: the axis of the first dimension, and the signals. Of bins' bounds, it has the lower ones."""

    format = "nexus"

    def __init__(self, group: Group) -> None:
        signal = self._signal(group)
        if signal is None:
            raise InvalidError(
                f"expected an attribute 'signal' that names a dataset, got none ({attributes.where(group)})"
            )
        self.group = group
        rows = signal[1].shape[0] if signal[1].shape else 1
        found = [(name, data) for name, data in [*self._axes(group, signal), signal, *self._auxiliary(group)]]
        self.columns = [
            (name, data)
            for name, data in found
            if data.shape and data.shape[0] in (rows, rows + (name in _bounds(found, signal)))
        ]
        self.num_rows = rows
        self.chunk_rows = signal[1].chunks[0] if signal[1].chunks else 1
        unique = Unique()
        self.fields = [Field(unique.name(name, name), name, is_index=False) for name, _ in self.columns]

    def _signal(self, group: Group) -> tuple[str, Dataset] | None:
        from hyperchunk.dataset import Dataset

        name = attributes.text(group, "signal")
        if name is not None:
            found = group.get(name)
            return (name, found) if isinstance(found, Dataset) else None
        for name, member in group.items():
            # Older files mark the dataset.
            if isinstance(member, Dataset) and member.attrs.get("signal") is not None:
                return name, member
        return None

    def _axes(self, group: Group, signal: tuple[str, Dataset]) -> list[tuple[str, Dataset]]:
        from hyperchunk.dataset import Dataset

        names = attributes.texts(group, "axes") or attributes.texts(signal[1], "axes") or []
        if len(names) == 1:
            names = names[0].replace("[", "").replace("]", "").replace(":", ",").split(",")
        first = names[0].strip() if names else ""
        found = group.get(first) if first and first != "." else None
        return [(first, found)] if isinstance(found, Dataset) else []

    def _auxiliary(self, group: Group) -> list[tuple[str, Dataset]]:
        from hyperchunk.dataset import Dataset

        names = attributes.texts(group, "auxiliary_signals") or []
        found = [(name, group.get(name)) for name in names]
        for name, _ in list(found):
            errors = f"{name}_errors"
            if errors in group:
                found.append((errors, group.get(errors)))
        return [(name, data) for name, data in found if isinstance(data, Dataset)]

    def read(self, numbers: Sequence[int], start: int, stop: int) -> list[Values]:
        return [Values(np.asarray(self.columns[number][1][start:stop])) for number in numbers]


def _bounds(found: Sequence[tuple[str, Dataset]], signal: tuple[str, Dataset]) -> set[str]:
    """Returns the names of axes that have one value more than the signal has rows: the bounds of bins."""
    return {
        name
        for name, data in found
        if name != signal[0] and data.shape and signal[1].shape and data.shape[0] == signal[1].shape[0] + 1
    }
