"""Reads of collections: division of an index by file, and batched reads of the files."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

from hyperchunk import _core, observing, selections
from hyperchunk.exceptions import ClosedError, InvalidError
from hyperchunk.file import is_url
from hyperchunk.objects import encode
from hyperchunk.typing import Array
from hyperchunk.values import Plan

if TYPE_CHECKING:
    from hyperchunk.collection import Collection
    from hyperchunk.collection_dataset import CollectionDataset

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

#: Index of one axis.
Item: TypeAlias = int | slice | Array

#: Maximum number of local files that are open, during a read and after it: systems allow a process 256 at least.
LOCAL_FILES = 64
#: The same for files over a network, which take only memory.
REMOTE_FILES = 1024

#: Number of local files, and of files over a network, that :func:`in_order` reads in parallel.
LOCAL_AHEAD = 2
REMOTE_AHEAD = 16


def in_order(collection: Collection, call: Callable[[_Item], _Found], items: Iterable[_Item]) -> Iterator[_Found]:
    """Yields the results of a function that reads a collection's files, for each item in order. Calls for the next
    items run in the background.
    """
    parallel = REMOTE_AHEAD if any(is_url(name) for name in collection.files) else LOCAL_AHEAD
    waiting: deque[Future[_Found]] = deque()
    executor = ThreadPoolExecutor(parallel, "hyperchunk-collection")
    budget = _core.ReadBudget()
    try:
        for item in items:
            waiting.append(executor.submit(budget.run, call, item))
            if len(waiting) == parallel:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


class OpenFiles:
    """Cache of a collection's open files; the least recently used are closed first."""

    def __init__(self, core: _core.Collection, names: Sequence[str]) -> None:
        self._core = core
        self._names = names
        #: Maximum number of open files.
        self.most = REMOTE_FILES if all(is_url(name) for name in names) else LOCAL_FILES
        self._lock = threading.Lock()
        self._open: OrderedDict[int, _core.File] = OrderedDict()
        self._closed = False

    def close(self) -> None:
        """Releases the files, which are closed unless objects still use them. Later uses raise :class:`ClosedError`."""
        with self._lock:
            self._closed = True
            self._open.clear()

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("the collection is closed")

    def _keep(self, number: int, file: _core.File) -> None:
        with self._lock:
            self._check()
            self._open[number] = file
            self._open.move_to_end(number)
            while len(self._open) > self.most:
                self._open.popitem(last=False)

    def file(self, number: int) -> _core.File:
        """Returns a file, and opens it if it is not open."""
        with self._lock:
            self._check()
            found = self._open.get(number)
        if found is None:
            found = self._core.open_file(number)
        self._keep(number, found)
        return found

    def check(self, numbers: Iterable[int]) -> None:
        """Checks that local files are the versions that were collected. Files over a network get no request.

        Raises:
            ChangedError: A file is another version.
            NotFoundError: A file does not exist.
        """
        for number in numbers:
            self._check()
            if not is_url(self._names[number]):
                # Opening checks the version; the file is closed at once.
                self._core.open_file(number)

    def datasets(self, numbers: list[int], path: bytes, like: _core.Dataset) -> list[tuple[_core.File, _core.Dataset]]:
        """Opens a dataset of several files in parallel."""
        with self._lock:
            self._check()
            known = [self._open.get(number) for number in numbers]
        found = self._core.open_datasets(numbers, known, path, like)
        for number, (file, _) in zip(numbers, found, strict=True):
            self._keep(number, file)
        return found


class _Part(NamedTuple):
    """The selected elements of one file."""

    number: int
    #: Indices of the elements along the joined axis of the result.
    positions: Array
    #: Rows of the elements in the file.
    rows: Array


class _Selected(NamedTuple):
    """A selection of a dataset, and the index to apply to the elements that are read; None if no index is necessary."""

    selection: selections.Selection
    rest: tuple[slice | Array, ...] | None


def read(dataset: CollectionDataset, items: tuple[Item, ...], shape: tuple[int, ...]) -> Array:
    """Reads an index, which has an item for each axis, none of them an integer, from the files that it needs."""
    axis = dataset.axis
    assert axis is not None
    counts = tuple(len(select_rows(item, length)) for item, length in zip(items, shape, strict=True))
    plan = dataset.first._reading()
    out = np.zeros(counts, plan.dtype) if plan.clear else np.empty(counts, plan.dtype)
    if out.size == 0:
        return out
    parts = _parts(dataset.ends, select_rows(items[axis], shape[axis]))
    files = dataset.open_files
    reader = _Reader(dataset, plan, items, shape)
    budget = _core.ReadBudget()
    for start in range(0, len(parts), files.most):
        some = parts[start : start + files.most]
        if observing.tracer is None and not observing.is_logged(observing.DEBUG):
            budget.run(reader.read, some, out)
            continue
        with observing.work("read_collection", dataset.name, observing.DEBUG) as facts:
            facts["files"] = len(some)
            budget.run(reader.read, some, out)
    return out


def _parts(ends: Array, rows: Array) -> list[_Part]:
    """Divides rows of the joined dataset by file."""
    numbers = np.searchsorted(ends, rows, side="right")
    order = np.argsort(numbers, kind="stable")
    borders = np.flatnonzero(np.diff(numbers[order])) + 1
    parts = []
    for positions in np.split(order, borders):
        number = int(numbers[positions[0]])
        parts.append(_Part(number, positions, rows[positions] - (int(ends[number - 1]) if number else 0)))
    return parts


class _Reader:
    """One read of a dataset of a collection."""

    def __init__(self, dataset: CollectionDataset, plan: Plan, items: tuple[Item, ...], shape: tuple[int, ...]) -> None:
        assert dataset.axis is not None
        self._dataset = dataset
        self._axis = dataset.axis
        self._plan = plan
        self._items = items
        self._shape = shape
        self._like = dataset.first._readable
        self._path = encode(dataset.name)
        # Cache of selections by extent and rows, which most files have in common.
        self._selected: dict[tuple[object, ...], _Selected] = {}

    def read(self, parts: list[_Part], out: Array) -> None:
        """Reads parts of files into the result."""
        files = self._dataset.open_files.datasets([part.number for part in parts], self._path, self._like)
        reads = []
        waiting = []
        for part, (file, data) in zip(parts, files, strict=True):
            dims = self._checked(data, part.number)
            positions, rows = part.positions, part.rows
            # A variable may have fewer rows than its unlimited dimension.
            stored = rows < dims[self._axis]
            if not stored.all():
                out[self._at(positions[~stored])] = self._dataset._dataset(part.number).fillvalue
                positions, rows = positions[stored], rows[stored]
            if not rows.size:
                continue
            selected = self._select(dims, rows)
            target = self._target(out, positions, selected)
            array = self._plan.empty(selected.selection.read_shape) if target is None else target
            reads.append((data, selected.selection.native, self._plan.conversion, array))
            if target is None:
                waiting.append((file, positions, selected, array))
        _core.read_many(reads)
        for file, positions, selected, array in waiting:
            values = self._plan.finish(file, array)
            if selected.selection.after is not None:
                values = selected.selection.after.apply(values)
            out[self._at(positions)] = values if selected.rest is None else outer(values, selected.rest)

    def _checked(self, data: _core.Dataset, number: int) -> tuple[int, ...]:
        """Returns the extent of a file's dataset, which must be the first one's except along the joined axis."""
        dims, axis = data.shape, self._axis
        rest = [*self._shape[:axis], *self._shape[axis + 1 :]]
        if dims is None or len(dims) != len(self._shape) or [*dims[:axis], *dims[axis + 1 :]] != rest:
            name = self._dataset.file_name(number)
            raise InvalidError(
                f"cannot read {self._dataset.name}: expected the extent {self._shape} except along axis {axis}, got "
                f"{dims} in {name}; collect the files again"
            )
        return dims

    def _at(self, positions: Array) -> tuple[slice | Array, ...]:
        """Returns the index that selects positions along the joined axis of the result."""
        return (slice(None),) * self._axis + (as_slice(positions),)

    def _target(self, out: Array, positions: Array, selected: _Selected) -> Array | None:
        """Returns the part of the result for a direct read; None if elements must be moved or resolved after it."""
        selection = selected.selection
        if self._axis or self._plan.resolve is not None or selection.after is not None or selected.rest is not None:
            return None
        found = as_slice(positions)
        if not isinstance(found, slice) or found.step not in (None, 1):
            return None
        target = out[found]
        return target if target.shape == selection.read_shape and target.flags.c_contiguous else None

    def _select(self, dims: tuple[int, ...], rows: Array) -> _Selected:
        """Returns the selection of rows of a file."""
        row = as_slice(rows)
        key = (dims, row.start, row.stop, row.step) if isinstance(row, slice) else (dims, rows.tobytes())
        found = self._selected.get(key)
        if found is None:
            items = (*self._items[: self._axis], row, *self._items[self._axis + 1 :])
            found = self._selected[key] = _selected(dims, items)
        return found


def _selected(dims: tuple[int, ...], items: tuple[Item, ...]) -> _Selected:
    """Selects by an item for each axis. Lists after the first one are applied to the elements that are read."""
    index, rest = split(items)
    late = any(not isinstance(item, slice) for item in rest)
    return _Selected(selections.select(dims, index), rest if late else None)


def split(items: tuple[Item, ...]) -> tuple[tuple[Item, ...], tuple[slice | Array, ...]]:
    """Splits an index into one with at most one list, and one to apply to the elements that the first one reads."""
    late = [axis for axis, item in enumerate(items) if not isinstance(item, slice)][1:]
    index = tuple(_bounds(item) if axis in late else item for axis, item in enumerate(items))
    rest = tuple(
        np.asarray(item) - _bounds(item).start if axis in late else slice(None) for axis, item in enumerate(items)
    )
    return index, rest


def _bounds(item: Item) -> slice:
    """Returns the smallest slice that contains the indices of a list."""
    rows = np.asarray(item)
    return slice(int(rows.min()), int(rows.max()) + 1) if rows.size else slice(0, 0)


def outer(values: Array, items: Sequence[Item]) -> Array:
    """Applies an item to each axis independently."""
    for axis, item in enumerate(items):
        values = values[(slice(None),) * axis + (item,)]
    return values


def select_rows(item: Item, length: int) -> Array:
    """Returns the indices along an axis that an item selects."""
    if isinstance(item, slice):
        return np.arange(*item.indices(length))
    return np.asarray(item)


def as_slice(rows: Array) -> slice | Array:
    """Returns a slice if indices have equal, positive distances, else the indices."""
    if rows.size == 0:
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    if rows.size == 1:
        return slice(first, first + 1)
    step = int(rows[1]) - first
    if step > 0 and bool(np.all(np.diff(rows) == step)):
        return slice(first, last + 1, step)
    return rows
