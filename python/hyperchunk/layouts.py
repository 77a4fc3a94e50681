"""Alternative layouts of a dataset, stored beside its file: transposed, with other chunks, with other filters.

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
from typing import TypeAlias, TypedDict

from hyperchunk import _core, executors, observing
from hyperchunk.exceptions import HyperchunkError
from hyperchunk.file import is_url
from hyperchunk.progress import Progress, ProgressLike, is_wanted
from hyperchunk.typing import PathLike

#: Shape of a chunk, or ``{"target_mb": 8, "favor": [1]}``: its size, and the dimensions along which it is long.
ChunkShape: TypeAlias = Sequence[int] | Mapping[str, object]


class RestructureOptions(TypedDict, total=False):
    """Options of :func:`restructure`."""

    order: str | Sequence[int]
    chunk: ChunkShape | None
    codec: str
    memory: int | str
    epoch: int | None
    keep: bool
    output: PathLike | None
    executor: executors.ExecutorLike
    workers: int | None
    threads: int
    sync: bool
    progress: ProgressLike


@dataclass(frozen=True)
class Layout:
    """A layout of a dataset."""

    #: Name, derived from the request and the version of the file.
    id: str
    #: The request.
    request: dict[str, object]
    #: Path of the file, or of the folder if the layout is not finished.
    path: Path
    #: ``"used"``; ``"unfinished"``: being made, or interrupted; ``"stale"``: made from an earlier version of the
    #: file.
    state: str
    #: Size of its files in bytes.
    bytes: int


@dataclass(frozen=True)
class Estimate:
    """Plan of a layout, and its cost."""

    #: Name of the layout.
    id: str
    #: Shape of the chunks.
    chunk: tuple[int, ...]
    #: Size of the dataset in bytes.
    bytes: int
    #: Number of tasks.
    tasks: int
    #: Maximum memory of a process in bytes.
    memory: int
    #: Each pass: its tiles, and the bytes and operations of its reads and writes.
    passes: list[dict[str, object]]
    #: Path of the future layout.
    path: Path
    #: Request in its canonical form, from which the name is derived.
    request: str


@dataclass(frozen=True)
class RestructureResult:
    """Result of :func:`restructure`: a finished layout."""

    #: Name of the layout.
    id: str
    #: Path of its file.
    path: Path
    #: Shape of the chunks.
    chunk: tuple[int, ...]
    #: Number of tasks done by this call.
    done: int
    #: Number of tasks done before.
    skipped: int
    #: Attributes that refer to other parts of the file, and were not copied.
    left_out: tuple[str, ...] = ()


def _request(
    dataset: str,
    order: str | Sequence[int],
    chunk: ChunkShape | None,
    codec: str,
    memory: int | str,
    epoch: int | None,
    keep: bool = True,
) -> str:
    fields: dict[str, object] = {
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
    """Runs some tasks of a pass, in any process."""
    job = _core.LayoutJob(file, request, output)
    if job.id != name:
        raise HyperchunkError(f"cannot restructure {file}: it was changed since the start; run restructure again")
    return job.work(number, first, end, threads)


def restructure(
    file: PathLike,
    dataset: str,
    *,
    order: str | Sequence[int] = "row",
    chunk: ChunkShape | None = None,
    codec: str = "none",
    memory: int | str = "256MiB",
    epoch: int | None = None,
    keep: bool = True,
    output: PathLike | None = None,
    executor: executors.ExecutorLike = None,
    workers: int | None = None,
    threads: int = 0,
    sync: bool = True,
    progress: ProgressLike = None,
) -> RestructureResult:
    """Makes another layout of a dataset. To resume an interrupted run, make the same request again.

    Args:
        file: Path of the file.
        dataset: Path of the dataset.
        order: ``"row"``, ``"column"``, ``"hilbert"``, or all dimensions from the slowest to the fastest: the order of
            the chunks, and the dimensions along which they are long if no shape is given.
        chunk: A shape, or ``{"target_mb": 8, "favor": [1]}``: about 8 megabytes, longest along dimension 1.
        codec: ``"none"``, ``"gzip:4"``, ``"zstd:3"``, ``"lz4"``, ``"lzf"``, or a preset of ``create_dataset``.
        memory: Memory limit of a process: bytes, or ``"64MiB"``.
        epoch: Epoch of a sharded store; by default the newest.
        keep: Whether the dataset's other layouts stay once this one is finished; the dataset itself always does.
        output: Path of a separate file, instead of a layout in ``FILE.d``.
        executor: Executor for the tasks, as for :func:`hyperchunk.executors.run`; by default threads of this process.
        workers: Number of processes of the executor.
        threads: Number of threads; 0 for one per processor.
        sync: Whether the layout is on disk before it is used.
        progress: Shows the number of tasks: True, a function of the finished part and the total, or a tqdm object
            (:mod:`hyperchunk.progress`).

    Raises:
        FileExistsError: `output` exists.
        LimitError: `memory` is too small; nothing was written.

    Example:
        >>> with hyperchunk.open("run.h5", "w") as file:
        ...     file["t"] = numpy.zeros((100, 100))
        >>> hyperchunk.restructure("run.h5", "/t", chunk=(100, 10), memory="64MiB").chunk
        (100, 10)
    """
    name = os.fspath(file)
    request = _request(dataset, order, chunk, codec, memory, epoch, keep)
    target = None if output is None else os.fspath(output)
    if executor is not None:
        # Workers may have another working directory.
        name = name if is_url(name) else str(Path(name).absolute())
        target = None if target is None else str(Path(target).absolute())
    if target is not None and Path(target).exists():
        raise FileExistsError(f"cannot write {target}: it exists")
    job = _core.LayoutJob(name, request, target)
    job.start()
    total = sum(job.tasks)
    done = skipped = 0

    def each(result: tuple[int, int]) -> None:
        nonlocal done, skipped
        done, skipped = done + result[0], skipped + result[1]
        shown.add(sum(result))

    # With an executor, each process uses one thread.
    own = threads if executor is None else (threads or 1)
    with observing.work("restructure", name), Progress(progress, total, "tasks") as shown:
        for number, tasks in enumerate(job.tasks):
            work: Callable[[int, int], tuple[int, int]]
            if executor is None:
                work = functools.partial(_here, job, number, own)
                step = max(1, -(-tasks // 100)) if is_wanted(progress) else tasks
                for first in range(0, tasks, max(1, step)):
                    each(work(first, min(tasks, first + step)))
            else:
                work = functools.partial(_work, name, request, target, job.id, number, own)
                executors.run(work, tasks, executor=executor, workers=workers, each=each)
    left_out = job.commit("epoch" if sync else "never")
    chunk_made = tuple(json.loads(job.describe(threads))["chunk"])
    return RestructureResult(job.id, job.path, chunk_made, done, skipped, tuple(left_out))


def _here(job: _core.LayoutJob, number: int, threads: int, first: int, end: int) -> tuple[int, int]:
    return job.work(number, first, end, threads)


def estimate(
    file: PathLike,
    dataset: str,
    *,
    order: str | Sequence[int] = "row",
    chunk: ChunkShape | None = None,
    codec: str = "none",
    memory: int | str = "256MiB",
    epoch: int | None = None,
    output: PathLike | None = None,
    threads: int = 0,
) -> Estimate:
    """Plans a :func:`restructure`. Writes nothing.

    Args:
        file: Path of the file.
        dataset: Path of the dataset.
        order, chunk, codec, memory, epoch, output, threads: As for :func:`restructure`.

    Example:
        >>> with hyperchunk.open("run.h5", "w") as file:
        ...     file["t"] = numpy.zeros((100, 100))
        >>> hyperchunk.layouts.estimate("run.h5", "/t", order="column").bytes
        80000
    """
    request = _request(dataset, order, chunk, codec, memory, epoch)
    job = _core.LayoutJob(os.fspath(file), request, None if output is None else os.fspath(output))
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


def of(file: PathLike) -> list[Layout]:
    """Lists the layouts of a file's datasets.

    Example:
        >>> with hyperchunk.open("run.h5", "w") as file:
        ...     file["t"] = numpy.zeros((100, 100))
        >>> made = hyperchunk.restructure("run.h5", "/t", order="column")
        >>> [layout.state for layout in hyperchunk.layouts.of("run.h5")]
        ['used']
    """
    return [
        Layout(name, json.loads(request), path, state, size)
        for name, request, path, size, state in _core.layouts(os.fspath(file))
    ]


def remove(file: PathLike, layout: str | Layout) -> None:
    """Deletes a layout; the file itself stays unchanged.

    Args:
        file: Path of the file.
        layout: The layout, or its name.

    Example:
        >>> with hyperchunk.open("run.h5", "w") as file:
        ...     file["t"] = numpy.zeros((100, 100))
        >>> made = hyperchunk.restructure("run.h5", "/t", order="column")
        >>> hyperchunk.layouts.remove("run.h5", made.id)
        >>> hyperchunk.layouts.of("run.h5")
        []
    """
    _core.remove_layout(os.fspath(file), layout.id if isinstance(layout, Layout) else layout)
