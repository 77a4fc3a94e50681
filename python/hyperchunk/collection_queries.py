"""Queries of collections: the matching values of all files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk import _core
from hyperchunk.collection_reads import in_order
from hyperchunk.exceptions import InvalidError
from hyperchunk.objects import encode
from hyperchunk.progress import Progress, ProgressLike
from hyperchunk.queries import BoxLike, Indices, parse_box
from hyperchunk.typing import Array

if TYPE_CHECKING:
    from hyperchunk.collection_dataset import CollectionDataset

_Box = tuple[list[int], list[int]]


@dataclass(frozen=True)
class FileMatches:
    """Matching values of one file."""

    #: Path or URL of the file, and its number.
    file: str
    number: int
    #: Indices of the values in the file's own dataset, a row each.
    indices: Indices
    #: The values.
    values: Array


class CollectionQuery:
    """A query of a dataset of a collection. Iteration reads the files that may have matches, and yields
    :class:`FileMatches` of each file that has some.

    Example:
        >>> for number in range(3):
        ...     with hyperchunk.create(f"part{number}.h5") as file:
        ...         file["x"] = [number, 10 * number]
        >>> query = hyperchunk.open_collection("part?.h5", concat=0).query("x", "value > 8")
        >>> [(found.file[-8:], found.indices.tolist(), found.values.tolist()) for found in query]
        [('part1.h5', [[1]], [10]), ('part2.h5', [[1]], [20])]
        >>> indices, values = query.read()
        >>> indices.tolist(), values.tolist()
        ([[3], [5]], [10, 20])
    """

    def __init__(self, dataset: CollectionDataset, predicate: str, box: BoxLike = None) -> None:
        first = dataset.first
        size = np.dtype(first.dtype).itemsize
        # Raises an error if the predicate cannot be parsed, or the elements are not numbers.
        _core.value_matches(first._readable, predicate, bytes(size))
        self._dataset = dataset
        self._shape = dataset.shape
        self._box = parse_box(self._shape, box)
        #: Predicate of the query.
        self.predicate = predicate
        all_parts = self._parts()
        dataset.check_units([number for number, _ in all_parts])
        parts = self._possible(all_parts)
        #: Paths or URLs of the files that may have matches, which iteration reads.
        self.files = [dataset.file_name(number) for number, _ in parts]
        self._candidates = parts
        candidates = {number for number, _ in parts}
        self._ruled_out = [number for number, _ in all_parts if number not in candidates]
        #: Size in bytes of the elements and of the statistics in companion files that the last iteration read.
        self.bytes_scanned = 0
        #: Size of the queried box in bytes.
        self.total = _elements(self._box) * size

    def _parts(self) -> list[tuple[int, _Box]]:
        """Divides the box by file: returns the number of each file, and its part of the box in its own indices."""
        start, count = self._box
        if 0 in count:
            return []
        axis = self._dataset.axis
        if axis is None:
            return [(0, self._box)]
        parts = []
        begin, stop = start[axis], start[axis] + count[axis]
        spans = self._dataset.spans()
        for number in range(int(np.searchsorted(self._dataset.ends, begin, side="right")), len(spans)):
            first, end = spans[number]
            if first >= stop:
                break
            low, high = max(begin, first), min(stop, end)
            if low < high:
                parts.append((number, (_put(start, axis, low - first), _put(count, axis, high - low))))
        return parts

    def _possible(self, parts: list[tuple[int, _Box]]) -> list[tuple[int, _Box]]:
        """Returns the parts that the collection's statistics do not rule out."""
        dataset, axis = self._dataset, self._dataset.axis
        if axis is None:
            return parts
        others = 1
        for length in _put(list(self._shape), axis, 1):
            others *= length
        spans = dataset.spans()
        counts = [(number, (spans[number][1] - spans[number][0]) * others) for number, _ in parts]
        core = dataset._collection._core
        possible = core.may_match(encode(dataset.name), dataset.first._readable, self.predicate, counts)
        return parts if possible is None else [part for part, may in zip(parts, possible, strict=True) if may]

    def __iter__(self) -> Iterator[FileMatches]:
        self.bytes_scanned = 0
        for found, scanned in self._results():
            self.bytes_scanned += scanned
            if len(found.values):
                yield found

    def _results(self) -> Iterator[tuple[FileMatches, int]]:
        """Reads the files; yields the matches of each, and the bytes that were read."""
        # The statistics that ruled files out hold only for the versions that were collected.
        self._dataset.open_files.check(self._ruled_out)
        return in_order(self._dataset._collection, self._read, self._candidates)

    def _read(self, part: tuple[int, _Box]) -> tuple[FileMatches, int]:
        number, (start, count) = part
        dataset = self._dataset._dataset(number)
        axis, dtype, shape = self._dataset.axis, np.dtype(self._dataset.dtype), dataset.shape or ()
        name = self._dataset.file_name(number)
        fixed = [*self._shape] if axis is None else _put(list(self._shape), axis, 0)
        if dataset.dtype != dtype or ([*shape] if axis is None else _put(list(shape), axis, 0)) != fixed:
            raise InvalidError(
                f"cannot query {self._dataset.name}: expected the datatype and the extent {self._shape} of the "
                f"collection, got {shape} in {name}; collect the files again"
            )
        indices: list[Array] = []
        values: list[Array] = []
        stored = count
        if axis is not None:
            # A variable may have fewer rows than its unlimited dimension; the others are fill values.
            stored = _put(count, axis, max(0, min(count[axis], shape[axis] - start[axis])))
        scanned = 0
        if 0 not in stored:
            query = _core.Query(dataset._readable, self.predicate, (start, stored), True)
            matches = query.matches()
            while (found := matches.next()) is not None:
                values.append(np.frombuffer(found[1], dtype))
                indices.append(np.frombuffer(found[0], np.uint64).reshape(len(values[-1]), len(shape)))
            scanned = query.bytes[0] + matches.bytes_scanned
        if axis is not None and stored[axis] < count[axis]:
            fill = np.asarray(dataset.fillvalue, dtype)
            if _core.value_matches(dataset._readable, self.predicate, fill.tobytes()):
                missing = _put(count, axis, count[axis] - stored[axis])
                begin = _put(start, axis, start[axis] + stored[axis])
                offsets = np.indices(missing, np.uint64).reshape(len(shape), -1).T
                indices.append(offsets + np.array(begin, np.uint64))
                values.append(np.full(len(indices[-1]), fill, dtype))
        all_indices = np.concatenate(indices) if indices else np.empty((0, len(shape)), np.uint64)
        all_values = np.concatenate(values) if values else np.empty(0, dtype)
        return FileMatches(name, number, all_indices, all_values), scanned

    def read(self, *, progress: ProgressLike = None) -> tuple[Indices, Array]:
        """Returns the indices of all matching values in the joined dataset, a row each, and the values: file by file,
        and in each file in the order of its boxes, as :meth:`Query.read`.

        Args:
            progress: Shows the number of files: True, a function of the finished part and the total, or a tqdm object
                (:mod:`hyperchunk.progress`).
        """
        parts = []
        self.bytes_scanned = 0
        axis, ends = self._dataset.axis, self._dataset.ends
        with Progress(progress, len(self._candidates), "files") as shown:
            for found, scanned in self._results():
                self.bytes_scanned += scanned
                shown.add(1)
                indices = found.indices.copy()
                if axis is not None and found.number:
                    indices[:, axis] += np.uint64(ends[found.number - 1])
                parts.append((indices, found.values))
        if not parts:
            return np.empty((0, len(self._shape)), np.uint64), np.empty(0, np.dtype(self._dataset.dtype))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def __len__(self) -> int:
        return len(self._candidates)

    def __repr__(self) -> str:
        count = len(self._dataset.ends) if self._dataset.axis is not None else 1
        return f"<{len(self._candidates)} of {count} files may hold {self.predicate!r}>"


def _put(values: list[int], axis: int, value: int) -> list[int]:
    return [*values[:axis], value, *values[axis + 1 :]]


def _elements(box: _Box) -> int:
    elements = 1
    for count in box[1]:
        elements *= count
    return elements
