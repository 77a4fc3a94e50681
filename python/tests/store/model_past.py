"""Epochs of a random history: they are replayed if a salvaged writer belongs below some of them."""

from __future__ import annotations

from dataclasses import dataclass

from store.model_tree import Commit, Tree, empty, merge

Parts = list[Commit]


@dataclass
class Epoch:
    """A commit, and the resulting file."""

    number: int
    parts: Parts
    #: True if the file was overwritten by a new one.
    anew: bool
    tree: Tree


class Past:
    """All epochs of a store, oldest first."""

    def __init__(self, tree: Tree) -> None:
        self.epochs = [Epoch(0, [], False, tree)]

    @property
    def tree(self) -> Tree:
        """Contents of the newest epoch."""
        return self.epochs[-1].tree

    def add(self, number: int, parts: Parts, *, anew: bool) -> dict[str, set[str]]:
        """Adds an epoch; returns the conflicts found by :func:`merge`."""
        tree, conflicts = merge(empty() if anew else self.tree, parts)
        self.epochs.append(Epoch(number, parts, anew, tree))
        return conflicts

    def add_below(self, seen: int, parts: Parts) -> None:
        """Adds the operations of stopped writers that know the epochs up to `seen`, below the later epochs."""
        after = max(at for at, epoch in enumerate(self.epochs) if epoch.number <= seen)
        later = self.epochs[after + 1 :]
        del self.epochs[after + 1 :]
        self.add(seen, parts, anew=False)
        for epoch in later:
            self.add(epoch.number, epoch.parts, anew=epoch.anew)
