"""Batches of rows for training: shuffled by chunks, and read ahead."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np

from hyperchunk.typing import Array

if TYPE_CHECKING:
    from hyperchunk.dataset import Dataset

#: Default memory of a window of shuffled chunks, in bytes.
WINDOW_BYTES = 64 << 20


class Batches:
    """The rows of a dataset in batches, as NumPy arrays: made by :meth:`Dataset.batches`. Each iteration is an epoch:
    it has each row once, in a different order if the rows are shuffled.
    """

    def __init__(
        self, dataset: Dataset, size: int, shuffle: int | None, axis: int, *, drop_last: bool, window: int | None
    ) -> None:
        shape = dataset.shape
        if not shape:
            raise TypeError(f"cannot make batches: expected a dataset with dimensions, got {dataset!r}")
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"axis {axis} is out of bounds for array of dimension {len(shape)}")
        if size < 1:
            raise ValueError(f"cannot make batches of {size} rows; expected 1 or more")
        if window is not None and window < 1:
            raise ValueError(f"cannot shuffle in windows of {window} rows; expected 1 or more")
        self.dataset = dataset
        self.size = size
        self.axis = axis % len(shape)
        self.drop_last = drop_last
        self.seed = shuffle
        #: Number of iterations that were started. The order of the next one depends on it and on the seed.
        self.epoch = 0
        self.length = length = shape[self.axis]
        row = max(1, dataset.nbytes // max(length, 1))
        #: Number of rows that are read together: the rows of a chunk, or of a batch if the layout is not chunked.
        self.block = min(
            dataset.chunks[self.axis] if dataset.chunks else max(1, min(size, WINDOW_BYTES // row)), length
        )
        rows = max(size, WINDOW_BYTES // row) if window is None else window
        #: Number of blocks that are in memory to be shuffled together.
        self.blocks = max(1, math.ceil(rows / max(self.block, 1)))

    def __len__(self) -> int:
        """Number of batches."""
        whole, rest = divmod(self.length, self.size)
        return whole + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> Iterator[Array]:
        epoch = self.epoch
        self.epoch += 1
        return self._batches(None if self.seed is None else np.random.default_rng((self.seed, epoch)))

    def _batches(self, random: np.random.Generator | None) -> Iterator[Array]:
        """Yields the batches of an epoch. Two windows are in memory, the current and the next one, and one batch."""
        kept: deque[Array] = deque()
        have = 0
        for window in self._windows(random):
            kept.append(window)
            have += window.shape[self.axis]
            while have >= self.size:
                yield self._take(kept, self.size)
                have -= self.size
        if have and not self.drop_last:
            yield self._take(kept, have)

    def _take(self, kept: deque[Array], count: int) -> Array:
        """Removes rows from the front of the windows, and returns them in a new array."""
        parts = []
        while count:
            front = kept.popleft()
            some = min(count, front.shape[self.axis])
            parts.append(front[self._rows(slice(0, some))])
            if some < front.shape[self.axis]:
                kept.appendleft(front[self._rows(slice(some, None))])
            count -= some
        return parts[0].copy() if len(parts) == 1 else np.concatenate(parts, axis=self.axis)

    def _windows(self, random: np.random.Generator | None) -> Iterator[Array]:
        """Yields the rows of each window in their order in the epoch; reads the next one in the background."""
        from hyperchunk.batches import submit

        if not self.length:
            return
        starts = np.arange(0, self.length, self.block)
        if random is not None:
            random.shuffle(starts)
        groups = [starts[at : at + self.blocks] for at in range(0, len(starts), self.blocks)]
        ahead: Future[Array] | None = submit(self._read, groups[0])
        try:
            for number in range(len(groups)):
                assert ahead is not None
                window, ahead = ahead.result(), None
                if number + 1 < len(groups):
                    ahead = submit(self._read, groups[number + 1])
                yield (
                    window
                    if random is None
                    else np.take(window, random.permutation(window.shape[self.axis]), self.axis)
                )
        finally:
            if ahead is not None:
                ahead.cancel()

    def _read(self, starts: Array) -> Array:
        """Reads the blocks that begin at some rows, with one read."""
        rows = np.concatenate([np.arange(start, min(start + self.block, self.length)) for start in starts])
        first, last = int(rows[0]), int(rows[-1])
        if last - first + 1 == len(rows) and (np.diff(starts) > 0).all():
            found = self.dataset[self._rows(slice(first, last + 1))]
        else:
            rows.sort()
            found = self.dataset[self._rows(rows)]
        assert isinstance(found, np.ndarray)
        return found

    def _rows(self, rows: slice | Array) -> tuple[slice | Array, ...]:
        return (slice(None),) * self.axis + (rows,)

    def __repr__(self) -> str:
        order = "in order" if self.seed is None else f"shuffled by {self.seed}"
        return f"<{len(self)} batches of {self.size} rows, {order}, of {self.dataset!r}>"


__all__ = ["Batches"]
