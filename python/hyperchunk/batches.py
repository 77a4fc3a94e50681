"""Batched reads, and reads in the background."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np

from hyperchunk import _core, observing, selections
from hyperchunk.dataset import Dataset
from hyperchunk.objects import HLObject, encode
from hyperchunk.progress import Progress, ProgressLike, is_wanted
from hyperchunk.typing import Array, Index, Values
from hyperchunk.values import Plan

if TYPE_CHECKING:
    from hyperchunk.group import Group

T = TypeVar("T")
R = TypeVar("R")

#: A dataset to read: a path or a dataset, or a pair of that and an index.
Wanted: TypeAlias = "str | bytes | Dataset | tuple[str | bytes | Dataset, Index]"
#: Approximate size in bytes of the pieces between which progress is shown.
_PIECE_BYTES = 64 << 20
# Maximum number of background reads. They mostly wait for the network.
_BACKGROUND = 32


_Read: TypeAlias = "tuple[_core.Dataset, _core.Selection, _core.Conversion | None, Array]"


class _Planned(NamedTuple):
    """A planned read, with its array allocated but not filled."""

    dataset: Dataset
    selection: selections.Selection
    plan: Plan
    out: Array
    #: True if a zero-dimensional array stays an array, as for ``[...]``.
    whole: bool

    def finish(self) -> Values:
        out = self.plan.finish(self.dataset._opened.need(), self.out)
        if self.selection.after is not None:
            out = self.selection.after.apply(out)
        return out if out.ndim or self.whole else out[()]


def planned_read(dataset: Dataset, index: Index, plan: Plan | None = None) -> _Planned | None:
    """Plans the read of an index; None if it has names of members or references, or the dataspace is null or scalar."""
    args = index if isinstance(index, tuple) else (index,)
    dims = dataset.shape
    if dims is None or not all(_is_plain(arg) for arg in args):
        return None
    whole = args == () or (len(args) == 1 and args[0] is Ellipsis)
    if dims == () and not whole:
        return None
    selection = selections.everything(dims) if whole else selections.select(dims, args)
    if plan is None:
        plan = dataset._reading()
    return _Planned(dataset, selection, plan, plan.empty(selection.read_shape), whole and args != ())


def _is_plain(arg: object) -> bool:
    from hyperchunk.references import Reference

    return arg is not None and not isinstance(arg, str | Reference)


def _read(wanted: list[tuple[Dataset, Index]], progress: ProgressLike = None) -> list[Values]:
    if wanted and (observing.tracer is not None or observing.is_logged(observing.DEBUG)):
        opened = wanted[0][0]._opened
        with observing.reading("read_many", None, opened.core, opened.filename) as facts:
            facts["datasets"] = len(wanted)
            return _read_all(wanted, progress)
    return _read_all(wanted, progress)


def _read_all(wanted: list[tuple[Dataset, Index]], progress: ProgressLike) -> list[Values]:
    with observing.span("plan"):
        planned = [planned_read(dataset, index) for dataset, index in wanted]
    reads = [
        (plan.dataset._readable, plan.selection.native, plan.plan.conversion, plan.out)
        for plan in planned
        if plan is not None and plan.out.size
    ]
    with observing.span("fetch"):
        _fetch(reads, progress)
    with observing.span("convert"):
        return [
            dataset[index] if plan is None else plan.finish()
            for plan, (dataset, index) in zip(planned, wanted, strict=True)
        ]


def _fetch(reads: list[_Read], progress: ProgressLike) -> None:
    if is_wanted(progress):
        with Progress(progress, sum(read[-1].nbytes for read in reads), "B") as shown:
            for some in _pieces(reads):
                _core.read_many(some)
                shown.add(sum(read[-1].nbytes for read in some))
    else:
        _core.read_many(reads)


def _pieces(reads: list[_Read]) -> Iterator[list[_Read]]:
    """Yields groups of consecutive reads; the reads of a group have at least :data:`_PIECE_BYTES` in total."""
    some: list[_Read] = []
    for read in reads:
        some.append(read)
        if sum(one[-1].nbytes for one in some) >= _PIECE_BYTES:
            yield some
            some = []
    if some:
        yield some


def read(dataset: Dataset, index: Index, progress: ProgressLike) -> Values:
    """Reads an index: integers and slices in pieces of whole chunks along the first dimension, others at once."""
    args = index if isinstance(index, tuple) else (index,)
    dims = dataset.shape
    if not is_wanted(progress) or not dims:
        return dataset[index]
    full = [arg for arg in args if arg is not Ellipsis]
    if len(full) < len(args) <= len(full) + 1 and len(full) <= len(dims):
        position = next(number for number, arg in enumerate(args) if arg is Ellipsis)
        args = (*args[:position], *[slice(None)] * (len(dims) - len(full)), *args[position + 1 :])
    elif len(args) == len(full) < len(dims):
        args = (*args, *[slice(None)] * (len(dims) - len(args)))
    found = selections.slab(dims, args)
    if found is None or not math.prod(found[1]):
        values = dataset[index]
        size = int(np.asarray(values).nbytes)
        with Progress(progress, size, "B") as shown:
            shown.add(size)
        return values
    slab, shape = found
    data, plan = dataset._data, dataset._reading()
    out = plan.empty(shape)
    # Pieces of the first dimension that has several elements are contiguous in the array.
    axis = next((number for number in range(len(dims)) if slab[3 * number + 2] > 1), 0)
    start, step, count = slab[3 * axis : 3 * axis + 3]
    rows = out.reshape((count, -1))
    side = dataset.chunks[axis] if dataset.chunks else 1
    most = max(1, _PIECE_BYTES // max(1, out.nbytes // count))
    with Progress(progress, out.nbytes, "B") as shown:
        at = 0
        while at < count:
            end = at + most
            if side > 1:
                # The piece ends at a chunk boundary: the last one before its end, or else the next one.
                border = max((start + end * step) // side, (start + at * step) // side + 1) * side
                end = -(-(border - start) // step)
            end = min(end, count)
            part = [*slab[: 3 * axis], start + at * step, step, end - at, *slab[3 * axis + 3 :]]
            data.read_slab(part, plan.conversion, rows[at:end])
            shown.add(rows[at:end].nbytes)
            at = end
    values = plan.finish(dataset._opened.need(), out)
    return values if values.ndim else values[()]


def watched_read(dataset: Dataset, args: selections.Args, plan: Plan | None) -> Values:
    """Reads an index, with spans and a log record of the steps."""
    opened, data = dataset._opened, dataset._data
    with observing.reading("read", dataset, opened.core, opened.filename) as facts:
        with observing.span("plan"):
            planned = planned_read(dataset, args, plan)
        if planned is None:
            with observing.span("fetch"):
                return dataset._read_plain(args, plan)
        facts["shape"], facts["bytes"] = planned.selection.read_shape, planned.out.nbytes
        with observing.span("fetch"):
            if planned.out.size:
                data.read(planned.selection.native, planned.plan.conversion, planned.out)
        with observing.span("convert"):
            return planned.finish()


def read_slices(dataset: Dataset, indices: Iterable[Index]) -> list[Values]:
    """Reads one dataset by several indices."""
    return _read([(dataset, index) for index in indices])


@overload
def read_many(group: Group, wanted: Mapping[str, Index], progress: ProgressLike = None) -> dict[str, Values]: ...
@overload
def read_many(group: Group, wanted: Sequence[Wanted], progress: ProgressLike = None) -> list[Values]: ...
def read_many(
    group: Group, wanted: Mapping[str, Index] | Sequence[Wanted], progress: ProgressLike = None
) -> dict[str, Values] | list[Values]:
    """Reads from several datasets: see :meth:`Group.read_many`."""
    if isinstance(wanted, Mapping):
        return dict(zip(wanted, read_many(group, list(wanted.items()), progress), strict=True))
    pairs: list[tuple[str | bytes | Dataset, Index]] = [
        item if isinstance(item, tuple) else (item, ...) for item in wanted
    ]
    whole = sum(index is Ellipsis or (isinstance(index, tuple) and not index) for _, index in pairs)
    datasets = _datasets(group, [what for what, _ in pairs], whole)
    return _read([(dataset, index) for dataset, (_, index) in zip(datasets, pairs, strict=True)], progress)


def _datasets(group: Group, wanted: list[str | bytes | Dataset], whole: int) -> list[Dataset]:
    """Opens the datasets of several paths in one batch. `whole` of them are read completely: the more, the more bytes
    around their structure are prefetched.
    """
    core = group._opened.need()
    if isinstance(core, _core.File) and core.is_remote:
        # An error for one path is raised below, where it is opened alone.
        paths = [encode(what) for what in wanted if not isinstance(what, HLObject)]
        core.open_many(group._object, paths, whole)
    found = []
    for what in wanted:
        dataset = what if isinstance(what, HLObject) else group[what]
        if not isinstance(dataset, Dataset):
            raise TypeError(f"{dataset.name!r} is a {type(dataset).__name__}, not a Dataset")
        found.append(dataset)
    return found


class _Background:
    """Thread pool for background reads, created on first use, and again in a forked child."""

    def __init__(self) -> None:
        self.executor: ThreadPoolExecutor | None = None

    def get(self) -> ThreadPoolExecutor:
        if self.executor is None:
            self.executor = ThreadPoolExecutor(_BACKGROUND, "hyperchunk-background")
        return self.executor

    def forget(self) -> None:
        self.executor = None


_background = _Background()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.forget)


def submit(work: Callable[[T], R], argument: T) -> Future[R]:
    """Runs a function in the background."""
    return _background.get().submit(work, argument)
