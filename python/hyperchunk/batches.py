"""Batched reads, and reads in the background."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, overload

from hyperchunk import _core, selections
from hyperchunk.dataset import Dataset
from hyperchunk.objects import HLObject, encode
from hyperchunk.typing import Array, Index, Values
from hyperchunk.values import Plan

if TYPE_CHECKING:
    from hyperchunk.group import Group

T = TypeVar("T")
R = TypeVar("R")

#: A dataset to read: its path or itself, and maybe an index.
Wanted: TypeAlias = "str | bytes | Dataset | tuple[str | bytes | Dataset, Index]"
# Maximum number of background reads. They mostly wait for the network.
_BACKGROUND = 32


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


def _plan(dataset: Dataset, index: Index) -> _Planned | None:
    """Plans the read of an index; None if it selects more than elements: fields, references, null dataspaces."""
    args = index if isinstance(index, tuple) else (index,)
    dims = dataset.shape
    if dims is None or not all(_is_plain(arg) for arg in args):
        return None
    whole = args == () or (len(args) == 1 and args[0] is Ellipsis)
    if dims == () and not whole:
        return None
    selection = selections.everything(dims) if whole else selections.select(dims, args)
    plan = dataset._reading()
    return _Planned(dataset, selection, plan, plan.empty(selection.read_shape), whole and args != ())


def _is_plain(arg: object) -> bool:
    from hyperchunk.references import Reference

    return arg is not None and not isinstance(arg, str | Reference)


def _read(wanted: list[tuple[Dataset, Index]]) -> list[Values]:
    planned = [_plan(dataset, index) for dataset, index in wanted]
    reads = [
        (plan.dataset._readable, plan.selection.choice, plan.plan.conversion, plan.out)
        for plan in planned
        if plan is not None and plan.out.size
    ]
    _core.read_many(reads)
    return [
        dataset[index] if plan is None else plan.finish()
        for plan, (dataset, index) in zip(planned, wanted, strict=True)
    ]


def read_slices(dataset: Dataset, indices: Iterable[Index]) -> list[Values]:
    """Reads one dataset by several indices."""
    return _read([(dataset, index) for index in indices])


@overload
def read_many(group: Group, wanted: Mapping[str, Index]) -> dict[str, Values]: ...
@overload
def read_many(group: Group, wanted: Sequence[Wanted]) -> list[Values]: ...
def read_many(group: Group, wanted: Mapping[str, Index] | Sequence[Wanted]) -> dict[str, Values] | list[Values]:
    """Reads from several datasets: see :meth:`Group.read_many`."""
    if isinstance(wanted, Mapping):
        return dict(zip(wanted, read_many(group, list(wanted.items())), strict=True))
    pairs: list[tuple[str | bytes | Dataset, Index]] = [
        item if isinstance(item, tuple) else (item, ...) for item in wanted
    ]
    whole = sum(index is Ellipsis or (isinstance(index, tuple) and not index) for _, index in pairs)
    datasets = _datasets(group, [what for what, _ in pairs], whole)
    return _read([(dataset, index) for dataset, (_, index) in zip(datasets, pairs, strict=True)])


def _datasets(group: Group, wanted: list[str | bytes | Dataset], whole: int) -> list[Dataset]:
    """Finds the datasets of several paths together; the first `whole` of them will be read whole."""
    core = group._opened.need()
    if isinstance(core, _core.File) and core.is_remote:
        # An error of one path is raised when it is opened by itself.
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
