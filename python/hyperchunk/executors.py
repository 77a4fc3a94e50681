"""Execution of many independent tasks, in this process, in others, or on an executor's workers.

Hyperchunk has no scheduler of its own. Tasks are numbered, and each may run anywhere, more than once; so any executor
can run them: ``dask.distributed.Client``, ``concurrent.futures.Executor``, any object with ``submit``.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class FutureLike(Protocol[T_co]):
    """Result of a task that may still run."""

    def result(self) -> T_co:
        """Waits for the task, and returns its result or raises its error."""

    def cancel(self) -> object:
        """Cancels the task if it has not started."""


class Submitter(Protocol):
    """An executor: a Dask client, an executor of ``concurrent.futures``, or any other with this method."""

    def submit(self, work: Callable[..., T], /, *args: int) -> FutureLike[T]:
        """Schedules ``work(*args)``, and returns its future."""


#: Where tasks run: an executor, processes of this machine, or None for this process.
ExecutorLike: TypeAlias = Submitter | Literal["processes"] | None

#: Number of ranges per worker, for load balancing.
_PARTS = 4


def run(
    work: Callable[[int, int], T],
    tasks: int,
    *,
    executor: ExecutorLike = None,
    workers: int | None = None,
    each: Callable[[T], None] | None = None,
) -> list[T]:
    """Runs tasks ``0`` to ``tasks - 1``: calls ``work(first, end)`` for ranges that together cover all of them.

    Args:
        work: The function; must be picklable, unless it runs here.
        tasks: Number of tasks.
        executor: A Dask client, an executor of ``concurrent.futures``, or any other object whose ``submit`` returns
            futures; ``"processes"`` starts `workers` processes; None runs everything here. If a worker dies, Dask
            reruns its range on another one.
        workers: Number of workers; by default the executor's, or the number of processors.
        each: Called with each result, in the order of the ranges.

    Returns:
        The results in the order of the ranges.

    Raises:
        Exception: The error of the first range, in order, that failed; ranges that have not started are cancelled.

    Example:
        >>> hyperchunk.executors.run(lambda first, end: sum(range(first, end)), 10)
        [45]
    """
    if executor is None:
        results = [work(0, tasks)] if tasks else []
        for result in results:
            if each is not None:
                each(result)
        return results
    if executor == "processes":
        count = min(workers or os.cpu_count() or 1, max(tasks, 1))
        with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
            return run(work, tasks, executor=pool, workers=count, each=each)
    count = workers or _size(executor)
    options: dict[str, object] = {"pure": False, "retries": 3} if _is_dask(executor) else {}
    futures = [executor.submit(work, first, end, **options) for first, end in _ranges(tasks, count * _PARTS)]
    results = []
    try:
        for future in futures:
            results.append(future.result())
            if each is not None:
                each(results[-1])
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return results


def _is_dask(executor: object) -> bool:
    return type(executor).__module__.partition(".")[0] == "distributed"


def _size(executor: Submitter) -> int:
    """Returns the number of workers of an executor."""
    if _is_dask(executor):
        threads: int = sum(executor.nthreads().values())  # type: ignore[attr-defined]
        return max(1, threads)
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


def _ranges(tasks: int, parts: int) -> Iterator[tuple[int, int]]:
    parts = max(1, min(tasks, parts))
    for part in range(parts):
        first, end = tasks * part // parts, tasks * (part + 1) // parts
        if first < end:
            yield first, end
