"""Following datasets that another program extends."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from hyperchunk import _core, observing
from hyperchunk.exceptions import (
    ChangedError,
    CorruptError,
    FilterError,
    HyperchunkError,
    InvalidError,
    LimitError,
    LockedError,
    NotFoundError,
    NotHdf5Error,
    ObjectNotFoundError,
    TruncatedError,
    UnsupportedError,
)
from hyperchunk.objects import Opened, Recipe, encode

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset
    from hyperchunk.typing import Array

# Seconds between checks of a file in SWMR mode, of another local file, of an object over a network.
_POLL_SWMR, _POLL_LOCAL, _POLL_REMOTE = 0.001, 0.02, 1.0
# Checks continue for this number of seconds after the file's times changed: later changes within the same tick of the
# system's clock, up to 10 ms, do not change them.
_TICKS = 0.05
# Maximum number of seconds between checks of a file whose times stay the same: network file systems cache them.
_LONGEST_BLIND = 1.0
# Minimum number of seconds between two checks that must agree on rows, if the file may be in the middle of a flush.
_SETTLE = 0.015
# Seconds after which a waiting coroutine notices `stop()`.
_LONGEST_SLEEP = 0.1
# Approximate maximum size of a block in bytes.
_BLOCK_BYTES = 64 << 20

# Errors that may be temporary while a program writes the file.
_TEMPORARY = (
    ChangedError,
    CorruptError,
    FilterError,
    LimitError,
    LockedError,
    NotFoundError,
    NotHdf5Error,
    ObjectNotFoundError,
    TruncatedError,
    UnsupportedError,
)


class _Look(NamedTuple):
    """State of a dataset at one check of the file."""

    #: Time.
    at: float
    core: _core.File
    found: _core.Object
    shape: tuple[int, ...]
    #: True if the file is in a complete state: in SWMR mode, closed after that, or an object in a store.
    is_whole: bool
    #: True if a program is writing the file.
    is_written: bool
    #: Fingerprints of where the chunks with the next rows are stored, by chunk index along the followed axis.
    placement: dict[int, int]


class Follower:
    """New rows of a dataset, as another program writes them: an iterator and an asynchronous iterator of arrays. Made
    by :meth:`hyperchunk.Dataset.follow`.
    """

    def __init__(
        self,
        dataset: Dataset,
        axis: int = 0,
        *,
        start: int | None = None,
        timeout: float | None = None,
        poll: float | None = None,
        patience: float = 10.0,
        max_rows: int | None = None,
    ) -> None:
        shape, name = dataset.shape, dataset.name
        if not shape or not -len(shape) <= axis < len(shape):
            raise InvalidError(f"cannot follow axis {axis} of {name}: expected one of the axes of the shape {shape}")
        if name is None:
            raise InvalidError("cannot follow a dataset without a name: expected one that can be found again")
        for what, number in (("timeout", timeout), ("poll", poll), ("patience", patience)):
            if number is not None and not number >= 0:
                raise ValueError(f"{what} must be a number of seconds, not {number}")
        if max_rows is not None and max_rows < 1:
            raise ValueError(f"max_rows must be positive, not {max_rows}")
        axis %= len(shape)
        if start is None:
            start = shape[axis]
        elif start < 0:
            raise ValueError(f"start must be the index of a row, not {start}")
        core = dataset._opened.need()
        if not isinstance(core, _core.File):
            raise UnsupportedError(f"cannot follow {name}: expected a file opened for reading, got one being written")
        #: Name of the dataset.
        self.name: str = name
        #: Axis whose new indices are returned.
        self.axis: int = axis
        #: Index of the next row; a new follower continues here with it as `start`.
        self.position: int = start
        self._recipe = _recipe(dataset._opened)
        self._is_swmr, self._is_remote = bool(self._recipe.options.get("swmr")), core.is_remote
        self._poll = poll if poll is not None else self._default_poll()
        self._timeout, self._patience = timeout, patience
        #: Number of rows in a chunk; 0 without chunks.
        self._layer = 0 if dataset.chunks is None else dataset.chunks[axis]
        row = dataset.dtype.itemsize * math.prod(length for at, length in enumerate(shape) if at != axis)
        layer = max(self._layer, 1)
        self._max_rows = max_rows or max(_BLOCK_BYTES // max(row, 1) // layer, 1) * layer
        #: Number of rows that the dataset is known to have had.
        self._known = min(start, shape[axis])
        self._stop = Event()
        self._before: _Look | None = None
        self._was_written = self._is_closing = False
        #: Time of the first check, or of the last new rows.
        self._active: float | None = None
        #: Time since which all checks failed, and the last error.
        self._trouble: tuple[float, HyperchunkError] | None = None
        # A file whose size and times stay the same is not opened, unless its data may change without that.
        data = dataset._data
        alone = data.layout != "virtual" and not data.external and not self._is_remote and self._recipe.source is None
        self._watched = Path(self._recipe.filename) if alone else None
        # The flags of this file do not show whether the writers of other files with the data have finished.
        self._ends_with_file = data.layout != "virtual" and not data.external
        self._stamp: tuple[int, ...] = ()
        self._stamped = self._looked = -math.inf
        # The lock of this handle would keep the program that is followed from writing the file.
        core.release_locks()

    def _default_poll(self) -> float:
        if self._is_remote:
            return _POLL_REMOTE
        return _POLL_SWMR if self._is_swmr else _POLL_LOCAL

    def stop(self) -> None:
        """Ends the iteration, also from another thread. A read in progress is completed."""
        self._stop.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- Iteration ---

    def __iter__(self) -> Iterator[Array]:
        return self

    def __next__(self) -> Array:
        while not self._stop.is_set():
            block, wait = self._step()
            if block is not None:
                return block
            self._stop.wait(wait)
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Array:
        from asyncio import sleep, wrap_future

        from hyperchunk.batches import submit

        while not self._stop.is_set():
            block, wait = await wrap_future(submit(Follower._step, self))
            if block is not None:
                return block
            end = time.monotonic() + wait
            while not self._stop.is_set() and (left := end - time.monotonic()) > 0:
                await sleep(min(left, _LONGEST_SLEEP))
        raise StopAsyncIteration

    # --- Checks of the file ---

    def _step(self) -> tuple[Array | None, float]:
        """Returns the next block; or None, and the seconds until the next check."""
        now = time.monotonic()
        if self._active is None:
            self._active = now
        if not self._may_have_changed(now):
            return None, self._until_next(now)
        self._looked = now
        error: HyperchunkError | None = None
        try:
            block = self._examine()
            if block is not None:
                self._trouble, self._active = None, time.monotonic()
                # There may be more rows already.
                self._looked = -math.inf
                return block, 0.0
            if self._is_pending:
                error = ChangedError(
                    f"each check of {self._recipe.filename} found the dataset changed again by its writer"
                )
        except _TEMPORARY as caught:
            if self._stop.is_set():
                raise
            self._before, error = None, caught
        if error is None:
            self._trouble = None
        else:
            if self._trouble is None:
                where = observing.shown(self._recipe.filename)
                observing.LOG.info("follow of %s:%s waits: %s", where, self.name, error)
            since = now if self._trouble is None else self._trouble[0]
            self._trouble = since, error
            if now - since >= self._patience:
                raise self._failure(error, now - since) from None
        return None, self._until_next(now)

    def _until_next(self, now: float) -> float:
        """Returns the seconds until the next check. Stops after `timeout` without new rows."""
        if self._timeout is None or self._active is None:
            return self._poll
        left = self._active + self._timeout - now
        if left > 0 or self._is_pending:
            return min(self._poll, left) if left > 0 else self._poll
        if self._trouble is not None:
            since, error = self._trouble
            raise self._failure(error, now - since)
        self.stop()
        return 0.0

    @property
    def _is_pending(self) -> bool:
        """True if there are new rows that the next check may return, or fewer rows than there were."""
        rows = self._known if self._before is None else self._before.shape[self.axis]
        return rows > self.position or rows < self._known

    def _failure(self, error: HyperchunkError, seconds: float) -> HyperchunkError:
        """Ends the iteration; returns the error to raise for a state that lasted for some seconds."""
        self.stop()
        return type(error)(
            f"{error}; cannot follow {self.name} beyond row {self.position}: expected a file that can be read, got "
            f"this for {seconds:.1f} s; follow it again from start={self.position}, or with more patience"
        )

    def _may_have_changed(self, now: float) -> bool:
        """Returns whether the file may have changed since the last check."""
        if self._watched is None or self._trouble is not None or self._is_pending or self._is_closing:
            return True
        try:
            found = self._watched.stat()
        except OSError:
            return True
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if stamp != self._stamp:
            self._stamp, self._stamped = stamp, now
        return self._looked < self._stamped + _TICKS or now - self._looked >= _LONGEST_BLIND

    def _examine(self) -> Array | None:
        """Checks the file, and returns new rows, or None. Stops if no more will come."""
        look, before = self._look(), self._before
        if before is None or look.at - before.at >= _SETTLE:
            self._before = look
        rows = look.shape[self.axis]
        self._was_written |= look.is_written
        # A program that writes in place may not be done: only rows on which two checks agree are complete.
        agreed = rows if look.is_whole else self._agreed(before, look)
        if rows < self._known:
            if look.is_whole or agreed == rows:
                raise self._shorter(rows)
            return None
        if agreed > self.position:
            self._is_closing = False
            return self._read(look, agreed)
        if rows <= self.position:
            self._note_end(look)
        return None

    def _note_end(self, look: _Look) -> None:
        """Stops if two checks in a row find the file closed: the last rows may be missing from the first of them."""
        is_closed = self._ends_with_file and not look.is_written and (self._is_swmr or self._was_written)
        if is_closed and self._is_closing:
            self.stop()
        self._is_closing = is_closed

    def _shorter(self, rows: int) -> ChangedError:
        self.stop()
        return ChangedError(
            f"cannot follow {self.name}: expected at least {self._known} rows, got {rows}; it became shorter, or "
            f"another file is in its place: follow it again from start=0 (file {self._recipe.filename})"
        )

    def _agreed(self, before: _Look | None, look: _Look) -> int:
        """Returns the end of the rows on which an earlier check agrees."""
        if before is None or look.at - before.at < _SETTLE or len(before.shape) != len(look.shape):
            return 0
        return self._unmoved(before, look)

    def _unmoved(self, before: _Look, look: _Look) -> int:
        """Returns the end of the rows that were stored at the same addresses in two checks."""
        sides = zip(before.shape, look.shape, strict=True)
        if any(one != other for at, (one, other) in enumerate(sides) if at != self.axis):
            return 0
        end = min(before.shape[self.axis], look.shape[self.axis])
        first = self.position // self._layer if self._layer else 0
        indices = {index for index in before.placement.keys() | look.placement.keys() if index >= first}
        moved = [index for index in indices if before.placement.get(index) != look.placement.get(index)]
        return min([end, *(index * self._layer for index in moved)])

    def _look(self) -> _Look:
        """Opens the file in its current state."""
        from hyperchunk.file import open_core

        at, recipe = time.monotonic(), self._recipe
        if recipe.source is not None:
            # A source caches the size and version of its first use; a copy has an empty cache.
            recipe = recipe._replace(source=copy(recipe.source))
        core = open_core(recipe)
        try:
            return self._look_into(core, at)
        finally:
            # A program that is about to write the file must be able to lock it. Reads notice if it does.
            core.release_locks()

    def _look_into(self, core: _core.File, at: float) -> _Look:
        found = core.root.get(encode(self.name))
        assert isinstance(found, _core.Object)
        data = found.dataset()
        assert isinstance(data, _core.Dataset)
        shape = data.shape
        if shape is None or len(shape) <= self.axis:
            self.stop()
            raise ChangedError(
                f"cannot follow {self.name}: expected an axis {self.axis}, got the shape {shape}; another dataset is "
                f"in its place (file {self._recipe.filename})"
            )
        is_written = core.is_written
        is_whole = core.is_followed or self._is_remote or (self._is_swmr and not is_written)
        placement = {}
        if not is_whole and shape[self.axis] > self.position:
            end = min(shape[self.axis], self.position + self._max_rows)
            placement = dict(data.placement(self.axis, self.position, end))
        return _Look(at, core, found, shape, is_whole, is_written, placement)

    def _read(self, look: _Look, end: int) -> Array | None:
        """Reads the next rows, up to `end` at most; None if they were moved meanwhile."""
        from hyperchunk.dataset import Dataset

        aligned = self.position // max(self._layer, 1) * max(self._layer, 1) + self._max_rows
        end = min(end, aligned if aligned > self.position else end, self.position + self._max_rows)
        dataset = Dataset(Opened(look.core, self._recipe), look.found, self.name)
        block: Array = dataset[(slice(None),) * self.axis + (slice(self.position, end),)]
        if not look.is_whole and self._unmoved(look, self._look()) < end:
            return None
        self.position = self._known = end
        return block


def _recipe(opened: Opened) -> Recipe:
    """Returns the recipe by which each check opens the file."""
    if opened.driver == "core" and opened.recipe.source is None and not opened.recipe.folder:
        raise UnsupportedError(f"cannot follow {opened.filename}: expected a file that can change, got one in memory")
    recipe = opened.portable()
    options = dict(recipe.options)
    if options.get("epoch") is not None:
        raise UnsupportedError(f"cannot follow epoch {options['epoch']} of {opened.filename}: open the file without it")
    if options.get("swmr"):
        # As in libhdf5, only the first opening takes the lock; later, flags in the superblock show an active writer.
        options["locking"] = "never"
    elif options.get("locking") == "never":
        # Without locks, the file may change during a read; the comparison of two checks detects that.
        options["ignore_locks"] = True
    return recipe._replace(options=options)
