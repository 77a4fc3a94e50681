"""Other layouts of a dataset: rows as columns, other chunks, other filters, beside the file that they are of.

::

    import hyperchunk

    hyperchunk.restructure("run.h5", "/t", order="column", memory="64MiB")
    hyperchunk.open("run.h5")["t"][:, 17]       # reads from the layout: it costs less
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperchunk import _core, executors
from hyperchunk.exceptions import HyperchunkError
from hyperchunk.file import is_url


@dataclass(frozen=True)
class Layout:
    """A layout of a dataset."""

    #: Its name, which follows from the request and the version of the file.
    id: str
    #: What was asked for.
    request: dict[str, Any]
    #: Its file, or the folder of one that is not finished.
    path: Path
    #: ``"used"``; ``"unfinished"``: being made, or stopped; ``"stale"``: of what the file was before.
    state: str
    #: How many bytes its files have.
    bytes: int


@dataclass(frozen=True)
class Estimate:
    """How a layout would be made, and what that costs."""

    #: Its name.
    id: str
    #: The shape of its chunks.
    chunk: tuple[int, ...]
    #: How many bytes the dataset has.
    bytes: int
    #: How many tasks there are.
    tasks: int
    #: At most so many bytes of memory are used by a process.
    memory: int
    #: Each pass: its tiles, and what is read and written in how many operations.
    passes: list[dict[str, Any]]
    #: Where it would lie.
    path: Path
    #: The request, in the words that its name follows from.
    request: str


@dataclass(frozen=True)
class Restructured:
    """A layout that was made."""

    #: Its name.
    id: str
    #: Its file.
    path: Path
    #: The shape of its chunks.
    chunk: tuple[int, ...]
    #: How many tasks were done by this call.
    done: int
    #: How many were done before.
    skipped: int
    #: Attributes that lead to other places of the file, and were not copied.
    left_out: tuple[str, ...] = ()


def _request(
    dataset: str,
    order: str | Sequence[int],
    chunk: Sequence[int] | Mapping[str, Any] | None,
    codec: str,
    memory: int | str,
    epoch: int | None,
    keep: bool = True,
) -> str:
    fields: dict[str, Any] = {
        "dataset": dataset,
        "order": order if isinstance(order, str) else list(order),
        "codec": codec,
        "memory": memory,
    }
    if chunk is not None:
        fields["chunk"] = dict(chunk) if isinstance(chunk, Mapping) else list(chunk)
    if epoch is not None:
        fields["epoch"] = epoch
    if not keep:
        fields["keep"] = False
    return json.dumps(fields)


def _work(
    file: str, request: str, output: str | None, name: str, number: int, threads: int, first: int, end: int
) -> tuple[int, int]:
    """Some tasks of a pass, in whatever process this is."""
    job = _core.Restructuring(file, request, output)
    if job.id != name:
        raise HyperchunkError(f"{file}: the file was written to while it was restructured: begin anew")
    return job.work(number, first, end, threads)


def restructure(
    file: str | os.PathLike[str],
    dataset: str,
    *,
    order: str | Sequence[int] = "row",
    chunk: Sequence[int] | Mapping[str, Any] | None = None,
    codec: str = "none",
    memory: int | str = "256MiB",
    epoch: int | None = None,
    keep: bool = True,
    output: str | os.PathLike[str] | None = None,
    executor: Any = None,
    workers: int | None = None,
    threads: int = 0,
    sync: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Restructured:
    """Makes another layout of a dataset. A run that was stopped goes on where it was when the same is asked for again.

    - `order`: ``"row"``, ``"column"``, ``"hilbert"``, or all dimensions from the slowest to the fastest: in which order
      chunks lie, and along which dimensions they are long if no shape is given.
    - `chunk`: a shape, or ``{"target_mb": 8, "favor": [1]}``: about so many megabytes, longest along dimension 1.
    - `codec`: ``"none"``, ``"gzip:4"``, ``"zstd:3"``, ``"lz4"``, ``"lzf"``, or a preset of :func:`hyperchunk.open`.
    - `memory`: what a process may use. What is not enough is an error before anything is written.
    - `epoch`: of a sharded store; the newest without it.
    - `keep`: whether the dataset's other layouts stay once this one is whole; the dataset itself always does.
    - `output`: a file of its own in place of a layout in ``FILE.d``.
    - `executor`: who does the tasks, as for :func:`hyperchunk.executors.run`; threads of this process without one.
    - `progress` is called with how many tasks are done, and how many there are.

    >>> restructure("run.h5", "/t", order="column", memory="64MiB")  # doctest: +SKIP
    """
    name = os.fspath(file)
    request = _request(dataset, order, chunk, codec, memory, epoch, keep)
    target = None if output is None else os.fspath(output)
    if executor is not None:
        # Others may be elsewhere.
        name = name if is_url(name) else str(Path(name).absolute())
        target = None if target is None else str(Path(target).absolute())
    if target is not None and Path(target).exists():
        raise FileExistsError(f"{target} exists")
    job = _core.Restructuring(name, request, target)
    job.start()
    total = sum(job.tasks)
    done = skipped = 0

    def each(result: tuple[int, int]) -> None:
        nonlocal done, skipped
        done, skipped = done + result[0], skipped + result[1]
        if progress is not None:
            progress(done + skipped, total)

    # A process of many has one thread for this.
    own = threads if executor is None else (threads or 1)
    for number, tasks in enumerate(job.tasks):
        work: Callable[[int, int], tuple[int, int]]
        if executor is None:
            work = functools.partial(_here, job, number, own)
            step = tasks if progress is None else max(1, -(-tasks // 100))
            for first in range(0, tasks, max(1, step)):
                each(work(first, min(tasks, first + step)))
        else:
            work = functools.partial(_work, name, request, target, job.id, number, own)
            executors.run(work, tasks, executor=executor, workers=workers, each=each)
    left_out = job.commit("epoch" if sync else "never")
    chunk_made = tuple(json.loads(job.describe(threads))["chunk"])
    return Restructured(job.id, job.path, chunk_made, done, skipped, tuple(left_out))


def _here(job: _core.Restructuring, number: int, threads: int, first: int, end: int) -> tuple[int, int]:
    return job.work(number, first, end, threads)


def estimate(
    file: str | os.PathLike[str],
    dataset: str,
    *,
    order: str | Sequence[int] = "row",
    chunk: Sequence[int] | Mapping[str, Any] | None = None,
    codec: str = "none",
    memory: int | str = "256MiB",
    epoch: int | None = None,
    output: str | os.PathLike[str] | None = None,
    threads: int = 0,
) -> Estimate:
    """What :func:`restructure` would do. Nothing is written."""
    request = _request(dataset, order, chunk, codec, memory, epoch)
    job = _core.Restructuring(os.fspath(file), request, None if output is None else os.fspath(output))
    found = json.loads(job.describe(threads))
    return Estimate(
        id=job.id,
        chunk=tuple(found["chunk"]),
        bytes=found["bytes"],
        tasks=found["tasks"],
        memory=found["memory"],
        passes=found["passes"],
        path=job.path,
        request=job.request,
    )


def of(file: str | os.PathLike[str]) -> list[Layout]:
    """The layouts that there are of the datasets of a file."""
    return [
        Layout(name, json.loads(request), path, state, size)
        for name, request, path, size, state in _core.layouts(os.fspath(file))
    ]


def remove(file: str | os.PathLike[str], layout: str | Layout) -> None:
    """Deletes a layout; the file itself stays as it is."""
    _core.remove_layout(os.fspath(file), layout.id if isinstance(layout, Layout) else layout)
