"""A writer of a random history, and its operations."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
from hypothesis import note

from store.model_tree import Commit, Entry, Op, Tree, apply, dataset, empty
from store.model_worker import Session


def blank(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns an empty mask of the bytes of all elements."""
    return np.zeros((*values.shape, values.dtype.itemsize), bool)


def of_member(dtype: np.dtype[Any], member: str | None) -> np.ndarray[Any, Any]:
    """Returns a mask of the bytes of one element that belong to a member, or of all of it."""
    mask = np.ones(dtype.itemsize, bool)
    if member is not None:
        assert dtype.fields is not None
        kind, offset = dtype.fields[member][:2]
        mask[:] = False
        mask[offset : offset + kind.itemsize] = True
    return mask


class Local:
    """A session in this process, with the interface of one in another process."""

    def __init__(self) -> None:
        self._session = Session()

    def __call__(self, name: str, *arguments: Any, **named: Any) -> Any:
        return getattr(self._session, name)(*arguments, **named)

    def end(self) -> None:
        """Does nothing: the session is dropped."""


class Making:
    """A writer, and its operations."""

    numbers = itertools.count()

    def __init__(self, kind: str, remote: Any, tree: Tree, *, anew: bool = False, priority: int = 0) -> None:
        self.kind, self.remote, self.anew, self.priority = kind, remote, anew, priority
        self.id = ""
        #: Its number, in the order in which writers began.
        self.began = next(Making.numbers)
        #: Epoch at its start.
        self.base = 0
        #: That epoch, or the newest that contains data of this writer.
        self.seen = 0
        #: Writers that are not, or not completely, in that epoch.
        self.others: list[Making] = []
        #: Its writes and extents: origins of the dataset, extent, index, value, and member.
        self.writes: list[tuple[frozenset[tuple[str, str]], tuple[int, ...], Any, Any, str | None]] = []
        self.view: Tree = empty() if anew else copy.deepcopy(tree)
        for entry in self.view.values():
            entry.mask = None if entry.values is None else blank(entry.values)
        self.made: set[str] = set()
        self.ops: list[Op] = []
        self.flushed = self.committed = 0
        #: True also if there was nothing to flush: a file may have been overwritten by a new one.
        self.has_flushed = False
        self.extents = {path: entry.values.shape for path, entry in self.view.items() if entry.values is not None}
        #: All names of each dataset, by each of them.
        self.cells: dict[str, set[str]] = {}
        for path, entry in self.view.items():
            if entry.values is not None:
                same = next((self.cells[one] for one in self.cells if self.view[one] is entry), set())
                self.cells[path] = same | {path}
                for one in same:
                    self.cells[one] = self.cells[path]
        #: Names by which its writer knows datasets.
        self.names = set(self.extents)
        self.edits = False
        self.state = "open"
        self.ticket: bytes | None = None

    def knows(self, path: str) -> bool:
        """True if an API writer knows a dataset by that name."""
        return path in self.names

    def do(self, op: Op) -> None:
        """Performs an operation, in the session and in the model."""
        if op[0] == "small":
            # True if it is created or, by the API, assigned; false if it replaces a known one. An assignment by the
            # API changes the object of that name, under all its names.
            op = (*op, self.kind == "api" or op[1] not in self.view)
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
            entry.mask = blank(entry.values) if entry.mask is None else entry.mask
        if verb == "write":
            assert entry is not None
            assert entry.values is not None
            entry.values[rest[0]] = rest[1]
            self.wrote(entry, rest[0], rest[1])
        elif verb == "member":
            assert entry is not None
            assert entry.values is not None
            entry.values[rest[1]][rest[0]] = rest[2]
            self.wrote(entry, rest[0], rest[2], rest[1])
        elif verb == "resize":
            assert entry is not None
            assert entry.values is not None
            old, grown = entry.values, dataset({**entry.spec, "shape": rest[0]}).values  # type: ignore[dict-item]
            assert grown is not None
            both = tuple(slice(min(pair)) for pair in zip(old.shape, rest[0], strict=True))
            grown[both] = old[both]
            mask = np.zeros((*rest[0], old.dtype.itemsize), bool)
            assert entry.mask is not None
            mask[both] = entry.mask[both]
            entry.values, entry.mask = grown, mask
            self.writes.append((entry.origins, rest[0], None, None, None))

    def wrote(self, entry: Entry, index: Any, value: Any, member: str | None = None) -> None:
        """Marks the bytes that the session has written."""
        assert entry.values is not None
        assert entry.mask is not None
        entry.mask[index] |= of_member(entry.values.dtype, member)
        self.writes.append((entry.origins, entry.values.shape, index, np.copy(value), member))

    def take(self, upto: int) -> Commit:
        """Returns the operations for a commit that ends at `upto`."""
        ops, extents = self.ops[self.committed : upto], dict(self.extents)
        self.committed = upto
        for op in ops:
            self.follow(op)
        return ops, extents, self.priority, self.began

    def follow(self, op: Op) -> None:
        """Keeps the extents of a session that goes on after its commit, under all names of a dataset."""
        verb, path, *rest = op
        if verb == "dataset":
            self.cells.setdefault(path, {path})
        elif verb == "hard" and rest[0] in self.cells:
            self.cells.setdefault(path, self.cells[rest[0]]).add(path)
            if rest[0] in self.extents:
                self.extents[path] = self.extents[rest[0]]
        elif verb in ("move", "delete", "copy"):
            for one in [one for one in self.cells if one == path or one.startswith(path + "/")]:
                extent = self.extents.get(one)
                names = self.cells[one] if verb == "copy" else self.cells.pop(one)
                if verb != "copy":
                    names.discard(one)
                    self.extents.pop(one, None)
                if verb != "delete":
                    new = rest[0] + one[len(path) :]
                    self.cells[new] = {new} if verb == "copy" else names
                    self.cells[new].add(new)
                    if extent is not None:
                        self.extents[new] = extent
        elif verb == "resize":
            for one in self.cells.get(path, {path}):
                self.extents[one] = rest[0]
