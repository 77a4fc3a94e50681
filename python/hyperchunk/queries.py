"""Where values lie that are asked for: by statistics first, then by reading what is left, and nothing else.

Statistics come from the writers of a store (``statistics=True``) or from ``hyperchunk analyze``::

    waves = hyperchunk.query("run.h5", "/ocean/h", "value > 12")
    waves.boxes                      # where such values may lie; nowhere else are any
    indices, heights = waves.read()  # reads those boxes
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperchunk import _core

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset

#: What a box may be given as: a slice for each dimension, ``(start, stop)`` pairs, or what NumPy indexes with.
BoxLike = Sequence[slice | tuple[int, int] | int] | slice | int | None
_Indices = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Summary:
    """What elements are like."""

    #: How many there are, and how many are not a number.
    count: int
    nan: int
    #: The smallest and the largest of the others, exact; None if there are none.
    min: float | int | None
    max: float | int | None
    #: The sum of the others.
    sum: float

    @property
    def mean(self) -> float:
        """The mean of the numbers."""
        return self.sum / (self.count - self.nan) if self.count > self.nan else float("nan")


@dataclass(frozen=True)
class Zone:
    """A part of a dataset, and what its elements are like."""

    #: Its boxes: what is seen of it.
    boxes: list[tuple[slice, ...]]
    #: What it is like; None where nothing is known.
    summary: Summary | None
    #: Whether `summary` is just of those boxes; else a part of the zone is written over, and it only bounds the values.
    exact: bool
    #: In a store: who wrote it, and in which epoch.
    writer: str | None
    epoch: int | None


@dataclass(frozen=True)
class Shard:
    """One of the first zones of a dataset."""

    #: By what it was put in order.
    value: float | int
    #: Where that is, if it is a largest or smallest value.
    index: tuple[int, ...] | None
    #: The zone's box.
    box: tuple[slice, ...]
    #: What its elements are like.
    summary: Summary
    #: In a store: who wrote it, and in which epoch.
    writer: str | None
    epoch: int | None


class Top(list[Shard]):
    """The first zones, and what finding them cost."""

    #: How many bytes were looked at, and how many were asked about.
    looked_at: int = 0
    total: int = 0


class Query:
    """What was asked of a dataset, and where the answer lies. Iterating reads it part by part: indices and values."""

    def __init__(self, dataset: Dataset, predicate: str, box: BoxLike = None) -> None:
        self._dataset = dataset
        self._core = _core.Query(dataset._readable, predicate, _box(dataset, box))
        #: The predicate.
        self.predicate = self._core.predicate
        #: Boxes that may hold such values, merged and in order. Nowhere else are any.
        self.boxes = [_slices(start, count) for start, count in self._core.boxes]
        #: How many bytes were looked at until now: statistics, and elements once they are read.
        self.looked_at, self.left, self.unknown, self.total = self._core.bytes

    def __iter__(self) -> Iterator[tuple[_Indices, npt.NDArray[Any]]]:
        matches = self._core.matches()
        rank, before, dtype = self._dataset.ndim, self.looked_at, np.dtype(self._dataset.dtype)
        while (found := matches.next()) is not None:
            self.looked_at = before + matches.looked_at
            values = np.frombuffer(found[1], dtype)
            yield np.frombuffer(found[0], np.uint64).reshape(len(values), rank), values
        self.looked_at = before + matches.looked_at

    def read(self) -> tuple[_Indices, npt.NDArray[Any]]:
        """The index of each value that is what was asked for, a row each, and the values, in the order of the boxes."""
        parts = list(self)
        if not parts:
            return np.empty((0, self._dataset.ndim), np.uint64), np.empty(0, np.dtype(self._dataset.dtype))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def __len__(self) -> int:
        return len(self.boxes)

    def __repr__(self) -> str:
        return (
            f"<{len(self.boxes)} boxes that may hold {self.predicate!r}: {self.left} of {self.total} bytes, "
            f"{self.looked_at} looked at>"
        )


class Shards:
    """The zones of a dataset: iterate over them, or ask for the :meth:`top`."""

    def __init__(self, dataset: Dataset, box: BoxLike = None) -> None:
        self._dataset = dataset
        self._box = _box(dataset, box)

    def top(self, count: int = 1, *, by: str = "max") -> Top:
        """The first `count` zones `by` their ``"max"``, ``"min"``, ``"sum"``, ``"mean"``, ``"nan"`` or ``"range"``: for
        the largest value and where it is, ``top(1)[0]``. What nobody wrote is no zone."""
        found, looked_at, total = _core.query_top(self._dataset._readable, count, by, self._box)
        top = Top(
            Shard(value, None if index is None else tuple(index), _slices(*box), Summary(*summary), writer, epoch)
            for box, value, index, summary, writer, epoch in found
        )
        top.looked_at, top.total = looked_at, total
        return top

    def __iter__(self) -> Iterator[Zone]:
        for boxes, summary, exact, writer, epoch in _core.query_zones(self._dataset._readable, self._box):
            known = None if summary is None else Summary(*summary)
            yield Zone([_slices(start, count) for start, count in boxes], known, exact, writer, epoch)


def query(file: str | os.PathLike[str], path: str, predicate: str, box: BoxLike = None, **options: Any) -> Query:
    """Where the values of the dataset at `path` of a file lie that `predicate` asks for, such as ``"value > 12"``,
    ``"0 <= value < 5 or isnan(value)"``. `options` are those of :func:`hyperchunk.open`."""
    import hyperchunk

    dataset: Dataset = hyperchunk.open(file, **options)[path]
    return dataset.query(predicate, box)


@dataclass(frozen=True)
class Analyzed:
    """What :func:`analyze` looked at."""

    #: The file with the statistics.
    path: Path
    #: The datasets, each with how many zones it has.
    datasets: dict[str, int]
    #: Datasets that were left out, and why.
    left_out: dict[str, str]
    #: How many bytes were looked at.
    looked_at: int


def analyze(file: str | os.PathLike[str], datasets: Sequence[str] | None = None, **options: Any) -> Analyzed:
    """Looks at all values of a plain HDF5 file once, on all processors, and keeps what they are like beside it. It
    can be asked then (:func:`query`), until it changes. `datasets` are paths; without them, all that have numbers.
    `options` are those of :func:`hyperchunk.open`."""
    import hyperchunk

    with hyperchunk.open(file, **options) as opened:
        names = ["/" + name.strip("/") for name in datasets or ()]
        core = opened._opened.need()
        if not isinstance(core, _core.File):
            raise ValueError("a file that is being written is not analysed")
        path, found, left, looked_at = _core.analyze(core, names)
    return Analyzed(path, dict(found), dict(left), looked_at)


def _slices(start: Sequence[int], count: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(begin, begin + length) for begin, length in zip(start, count, strict=True))


def _box(dataset: Dataset, box: BoxLike) -> tuple[list[int], list[int]] | None:
    if box is None:
        return None
    given = list(box) if isinstance(box, Sequence) else [box]
    shape = dataset.shape or ()
    if len(given) > len(shape):
        raise ValueError(f"a box of {len(given)} dimensions in a dataset of {len(shape)}")
    start, count = [], []
    for axis, dim in zip([*given, *[slice(None)] * (len(shape) - len(given))], shape, strict=True):
        if isinstance(axis, tuple):
            axis = slice(*axis)
        if isinstance(axis, slice):
            begin, end, step = axis.indices(dim)
            if step != 1:
                raise ValueError("a box has no steps")
        else:
            begin = axis.__index__()
            begin += dim if begin < 0 else 0
            if not 0 <= begin < dim:
                raise IndexError(f"index {axis} is out of the range of {dim}")
            end = begin + 1
        start.append(begin)
        count.append(max(end - begin, 0))
    return start, count
