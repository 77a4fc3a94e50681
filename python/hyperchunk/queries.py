"""Queries by value: statistics exclude zones first, and only the remaining ones are read.

Statistics come from the writers of a store (``statistics=True``) or from ``hyperchunk analyze``::

    waves = hyperchunk.query("run.h5", "/ocean/h", "value > 12")
    waves.boxes                      # may hold such values; the rest does not
    indices, heights = waves.read()  # reads those boxes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
import numpy.typing as npt

from hyperchunk import _core, observing
from hyperchunk.progress import Progress, ProgressLike
from hyperchunk.typing import Array, OpenOptions, PathLike

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset

#: A box: a slice for each dimension, ``(start, stop)`` pairs, or a NumPy index.
BoxLike = Sequence[slice | tuple[int, int] | int] | slice | int | None
Indices = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Summary:
    """Statistics of elements."""

    #: Number of elements, and number of NaN among them.
    count: int
    nan: int
    #: Exact minimum and maximum of the numbers; None without any number.
    min: float | int | None
    max: float | int | None
    #: Sum of the numbers.
    sum: float

    @property
    def mean(self) -> float:
        """Mean of the numbers; NaN without any number."""
        return self.sum / (self.count - self.nan) if self.count > self.nan else float("nan")


@dataclass(frozen=True)
class Zone:
    """A zone of a dataset, with its statistics."""

    #: Boxes of the zone that are visible.
    boxes: list[tuple[slice, ...]]
    #: Statistics; None if none were recorded.
    summary: Summary | None
    #: True if `summary` covers exactly these boxes; otherwise a part of the zone was overwritten, and it only
    #: bounds the values.
    exact: bool
    #: In a store: the writer of the zone, and its epoch.
    writer: str | None
    epoch: int | None


@dataclass(frozen=True)
class ZoneStats:
    """A top-ranked zone of a dataset."""

    #: Value by which zones were ranked.
    value: float | int
    #: Index of the value, if it is a maximum or minimum.
    index: tuple[int, ...] | None
    #: Box of the zone.
    box: tuple[slice, ...]
    #: Statistics of its elements.
    summary: Summary
    #: In a store: the writer of the zone, and its epoch.
    writer: str | None
    epoch: int | None


class Top(list[ZoneStats]):
    """Top-ranked zones, and the cost of finding them."""

    #: Size in bytes of the scanned elements and statistics, and of the queried box.
    bytes_scanned: int = 0
    total: int = 0


class Query:
    """A query of a dataset. Iteration reads the matches part by part, and yields their indices and values.

    Args:
        dataset: The dataset.
        predicate: A condition on its values, such as ``"value > 12"``.
        box: A part of the dataset; by default all.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"] = numpy.arange(10.0)
        >>> statistics = hyperchunk.analyze("a.h5")
        >>> with hyperchunk.open("a.h5") as file:
        ...     indices, values = file["x"].query("value > 7").read()
        >>> indices.tolist(), values.tolist()
        ([[8], [9]], [8.0, 9.0])
    """

    def __init__(self, dataset: Dataset, predicate: str, box: BoxLike = None) -> None:
        self._dataset = dataset
        self._core = _core.Query(dataset._readable, predicate, _box(dataset, box))
        #: Predicate of the query.
        self.predicate = self._core.predicate
        #: Boxes that may hold matching values, merged and in order. The rest of the dataset has no such value.
        self.boxes = [_slices(start, count) for start, count in self._core.boxes]
        #: Sizes in bytes: of the statistics, and elements, that were read until now; of `boxes`; of the boxes
        #: without statistics; and of the whole queried box.
        self.bytes_scanned, self.bytes_candidate, self.unknown, self.total = self._core.bytes

    def __iter__(self) -> Iterator[tuple[Indices, Array]]:
        matches = self._core.matches()
        rank, before, dtype = self._dataset.ndim, self.bytes_scanned, np.dtype(self._dataset.dtype)
        while (found := matches.next()) is not None:
            self.bytes_scanned = before + matches.bytes_scanned
            values = np.frombuffer(found[1], dtype)
            yield np.frombuffer(found[0], np.uint64).reshape(len(values), rank), values
        self.bytes_scanned = before + matches.bytes_scanned

    def read(self, *, progress: ProgressLike = None) -> tuple[Indices, Array]:
        """Returns the indices of all matching values, a row each, and the values, in the order of the boxes.

        Args:
            progress: Shows the bytes of the boxes: True, a function of the finished part and the total, or a tqdm
                object (:mod:`hyperchunk.progress`).
        """
        parts = []
        before = self.bytes_scanned
        with Progress(progress, self.bytes_candidate, "B") as shown:
            for part in self:
                parts.append(part)
                shown.add(min(self.bytes_scanned - before, shown.total) - shown.done)
            shown.add(shown.total - shown.done)
        if not parts:
            return np.empty((0, self._dataset.ndim), np.uint64), np.empty(0, np.dtype(self._dataset.dtype))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def __len__(self) -> int:
        return len(self.boxes)

    def __repr__(self) -> str:
        return (
            f"<{len(self.boxes)} boxes that may hold {self.predicate!r}: {self.bytes_candidate} of {self.total} bytes, "
            f"{self.bytes_scanned} scanned>"
        )

    def _repr_html_(self) -> str:
        """Returns the query for a notebook."""
        from hyperchunk.notebook_parts import render_query

        return render_query(self)


class Zones:
    """Zones of a dataset, for iteration or for :meth:`top`.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"] = [1.0, 9.0, 4.0]
        >>> statistics = hyperchunk.analyze("a.h5")
        >>> with hyperchunk.open("a.h5") as file:
        ...     largest = file["x"].zones().top(1)[0]
        >>> largest.value, largest.index
        (9.0, (1,))
    """

    def __init__(self, dataset: Dataset, box: BoxLike = None) -> None:
        self._dataset = dataset
        self._box = _box(dataset, box)

    def __repr__(self) -> str:
        inside = "" if self._box is None else f" in {self._box}"
        return f"<Zones of {self._dataset.name}{inside}: iterate over them, or call top()>"

    def top(self, count: int = 1, *, by: str = "max") -> Top:
        """Returns the first `count` zones, ranked `by` ``"max"``, ``"min"``, ``"sum"``, ``"mean"``, ``"nan"`` or
        ``"range"``: ``top(1)[0]`` holds the largest value and its index. Data that were never written form no zone.
        """
        found, bytes_scanned, total = _core.query_top(self._dataset._readable, count, by, self._box)
        top = Top(
            ZoneStats(value, None if index is None else tuple(index), _slices(*box), Summary(*summary), writer, epoch)
            for box, value, index, summary, writer, epoch in found
        )
        top.bytes_scanned, top.total = bytes_scanned, total
        return top

    def __iter__(self) -> Iterator[Zone]:
        for boxes, summary, exact, writer, epoch in _core.query_zones(self._dataset._readable, self._box):
            known = None if summary is None else Summary(*summary)
            yield Zone([_slices(start, count) for start, count in boxes], known, exact, writer, epoch)

    def _repr_html_(self) -> str:
        """Returns the zones for a notebook."""
        from hyperchunk.notebook_parts import render_zones

        return render_zones(self)


def query(file: PathLike, path: str, predicate: str, box: BoxLike = None, **options: Unpack[OpenOptions]) -> Query:
    """Finds the values of a dataset that satisfy a condition. Zones that statistics rule out are not read.

    Args:
        file: Path or URL of the file.
        path: Path of the dataset.
        predicate: The condition: ``"value > 12"``, ``"0 <= value < 5 or isnan(value)"``.
        box: Part of the dataset: a slice without a step for each dimension; by default all.
        options: As for :func:`hyperchunk.open`.

    Returns:
        The query: its boxes, and by :meth:`Query.read` the indices and values.

    Raises:
        NotFoundError: There is no such file.
        KeyError: There is no such dataset.
        UnsupportedError: There are no statistics: make them by :func:`analyze`.
        ValueError: The condition cannot be parsed.

    Example:
        >>> with hyperchunk.open("run.h5", "w") as file:
        ...     file["ocean/h"] = numpy.array([[3.0, 14.0], [1.0, 2.0]])
        >>> statistics = hyperchunk.analyze("run.h5")
        >>> indices, heights = hyperchunk.query("run.h5", "/ocean/h", "value > 12").read()
        >>> indices.tolist(), heights.tolist()
        ([[0, 1]], [14.0])
    """
    import hyperchunk

    return hyperchunk.open(file, **options).dataset(path).query(predicate, box)


@dataclass(frozen=True)
class StoredStatistics:
    """Statistics of a file, stored by :func:`analyze`."""

    #: File of the statistics.
    path: Path
    #: Number of zones of each dataset.
    datasets: dict[str, int]
    #: Datasets that were skipped, and the reasons.
    left_out: dict[str, str]
    #: Bytes scanned.
    bytes_scanned: int


def analyze(file: PathLike, datasets: Sequence[str] | None = None, **options: Unpack[OpenOptions]) -> StoredStatistics:
    """Stores statistics of a plain HDF5 file beside it, for :func:`query`: reads all values once, on all processors.
    They are valid until the file changes.

    Args:
        file: Path of the file.
        datasets: Paths of datasets; by default all numeric ones.
        options: As for :func:`hyperchunk.open`.

    Returns:
        Path of the statistics, number of zones of each dataset, and the datasets that were skipped.

    Raises:
        NotFoundError: There is no such file.
        ReadError: The file cannot be read, or the statistics cannot be written.

    Example:
        >>> with hyperchunk.open("run.h5", "w") as file:
        ...     file["h"] = numpy.arange(10.0)
        >>> hyperchunk.analyze("run.h5").datasets
        {'/h': 1}
    """
    import hyperchunk

    with hyperchunk.open(file, **options) as opened:
        names = ["/" + name.strip("/") for name in datasets or ()]
        core = opened._opened.need()
        if not isinstance(core, _core.File):
            raise ValueError("cannot analyze a file that is being written")
        with observing.work("analyze", opened.filename) as facts:
            path, found, left, bytes_scanned = _core.analyze(core, names)
            facts["datasets"], facts["scanned bytes"] = len(found), bytes_scanned
    return StoredStatistics(path, dict(found), dict(left), bytes_scanned)


def _slices(start: Sequence[int], count: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(begin, begin + length) for begin, length in zip(start, count, strict=True))


def _box(dataset: Dataset, box: BoxLike) -> tuple[list[int], list[int]] | None:
    return None if box is None else parse_box(dataset.shape or (), box)


def parse_box(shape: tuple[int, ...], box: BoxLike) -> tuple[list[int], list[int]]:
    """Returns the first index and the extent of a box of a dataset, or of all of it."""
    given = [] if box is None else list(box) if isinstance(box, Sequence) else [box]
    if len(given) > len(shape):
        raise ValueError(f"expected a box of at most {len(shape)} dimensions, got {len(given)}")
    start, count = [], []
    for axis, dim in zip([*given, *[slice(None)] * (len(shape) - len(given))], shape, strict=True):
        if isinstance(axis, tuple):
            axis = slice(*axis)
        if isinstance(axis, slice):
            begin, end, step = axis.indices(dim)
            if step != 1:
                raise ValueError("a box takes only slices without a step")
        else:
            begin = axis.__index__()
            begin += dim if begin < 0 else 0
            if not 0 <= begin < dim:
                raise IndexError(f"index {axis} is out of the range of {dim}")
            end = begin + 1
        start.append(begin)
        count.append(max(end - begin, 0))
    return start, count
