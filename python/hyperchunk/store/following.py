"""Standing queries, which examine data as writers flush them."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hyperchunk import _core
from hyperchunk.typing import Array, Dtype


@dataclass(frozen=True)
class Matches:
    """Matching values of a flush."""

    #: Indices of the values, a row each.
    indices: npt.NDArray[np.uint64]
    values: Array
    #: Id of the writer.
    writer: str
    #: True for rows to be appended: their indices count from the writer's first row.
    appended: bool


def follow(
    path: str | os.PathLike[str],
    dataset: str,
    predicate: str,
    dtype: Dtype,
    rank: int,
    *,
    interval: float = 0.1,
    until_done: bool = False,
    timeout: float | None = None,
) -> Iterator[Matches]:
    """Implements :meth:`hyperchunk.store.Store.follow`."""
    # Created before the first iteration, so that commits from now on are followed.
    core = _core.StoreFollow(os.fspath(path), "/" + dataset.strip("/"), predicate)
    return _polled(os.fspath(path), core, dtype, rank, interval, until_done, timeout)


def _polled(
    path: str,
    core: _core.StoreFollow,
    dtype: Dtype,
    rank: int,
    interval: float,
    until_done: bool,
    timeout: float | None,
) -> Iterator[Matches]:
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        found, _, _, done, stopped = core.poll()
        for writer, appended, indices, values in found:
            read = np.frombuffer(values, dtype)
            yield Matches(np.frombuffer(indices, np.uint64).reshape(len(read), rank), read, writer, appended)
        if done and until_done:
            from hyperchunk.store.handle import StoreWarning

            for writer in stopped:
                warnings.warn(
                    f"{path}: the process of writer {writer} ended without closing its log, so data that it did not "
                    "flush were not followed; commit the complete writes with `hyperchunk store recover`",
                    StoreWarning,
                    stacklevel=2,
                )
            return
        if end is not None and time.monotonic() >= end:
            return
        if not found:
            time.sleep(interval)
