"""A writer of a random history, and what it did."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from hypothesis import note

from store.model_tree import Op, Tree, apply, dataset, empty
from store.model_worker import Session


class Local:
    """A session in this process, asked as one elsewhere is."""

    def __init__(self) -> None:
        self._session = Session()

    def __call__(self, name: str, *arguments: Any, **named: Any) -> Any:
        return getattr(self._session, name)(*arguments, **named)

    def end(self) -> None:
        """Nothing: what it has is dropped."""


class Making:
    """A writer, and what it did."""

    def __init__(self, kind: str, remote: Any, tree: Tree, *, anew: bool = False, priority: int = 0) -> None:
        self.kind, self.remote, self.anew, self.priority = kind, remote, anew, priority
        self.id = ""
        #: The epoch that it found.
        self.base = 0
        #: Those who are not in that epoch, or not with all that they did.
        self.others: list[Making] = []
        #: What it wrote, and the extents that it set: whose elements, the extent, where and what.
        self.writes: list[tuple[frozenset[tuple[str, str]], tuple[int, ...], Any, Any]] = []
        self.view: Tree = empty() if anew else copy.deepcopy(tree)
        for entry in self.view.values():
            entry.mask = None if entry.values is None else np.zeros(entry.values.shape, bool)
        self.made: set[str] = set()
        self.ops: list[Op] = []
        self.flushed = self.committed = 0
        #: Also if there was nothing to flush: a file may have been begun anew.
        self.has_flushed = False
        self.extents = {path: entry.values.shape for path, entry in self.view.items() if entry.values is not None}
        #: The names by which its writer knows datasets.
        self.names = set(self.extents)
        self.edits = False
        self.state = "open"
        self.ticket: bytes | None = None

    def knows(self, path: str) -> bool:
        """Whether an API writer knows a dataset by that name."""
        return path in self.names

    def do(self, op: Op) -> None:
        """Does it, here and in the model."""
        if op[0] == "small":
            # Whether it is made, and not made anew in place of one that is known.
            op = (*op, op[1] not in self.view)
        note(f"  {op}")
        self.remote("do", op)
        self.ops.append(op)
        apply(self.view, op)
        verb, path, *rest = op
        if verb in ("dataset", "small", "type"):
            self.made.add(path)
        entry = self.view.get(path)
        if verb == "dataset":
            self.names.add(path)
            assert entry is not None
            assert entry.values is not None
            entry.mask = np.zeros(entry.values.shape, bool) if entry.mask is None else entry.mask
        if verb == "write":
            assert entry is not None
            assert entry.values is not None
            assert entry.mask is not None
            entry.values[rest[0]], entry.mask[rest[0]] = rest[1], True
            self.writes.append((entry.origins, entry.values.shape, rest[0], np.copy(entry.values[rest[0]])))
        elif verb == "resize":
            assert entry is not None
            assert entry.values is not None
            old, grown = entry.values, dataset({**entry.spec, "shape": rest[0]}).values  # type: ignore[dict-item]
            assert grown is not None
            both = tuple(slice(min(pair)) for pair in zip(old.shape, rest[0], strict=True))
            grown[both] = old[both]
            mask = np.zeros(rest[0], bool)
            assert entry.mask is not None
            mask[both] = entry.mask[both]
            entry.values, entry.mask = grown, mask
            self.writes.append((entry.origins, rest[0], None, None))

    def take(self, upto: int) -> tuple[list[Op], dict[str, tuple[int, ...]], int]:
        """What a commit takes that ends there."""
        ops, extents = self.ops[self.committed : upto], dict(self.extents)
        self.committed = upto
        for op in ops:
            if op[0] == "resize":
                self.extents[op[1]] = op[2]
        return ops, extents, self.priority
