"""The epochs of a random history: the file is made anew from them if a stopped writer belongs below some of them."""

from __future__ import annotations

from dataclasses import dataclass

from store.model_tree import Extent, Op, Tree, empty, merge

#: What each writer did, the extents that it found, and its priority.
Parts = list[tuple[list[Op], dict[str, Extent], int]]


@dataclass
class Epoch:
    """What was committed together, and the file after it."""

    number: int
    parts: Parts
    #: The file was begun anew.
    anew: bool
    tree: Tree


class Past:
    """All epochs of a store, from the oldest on."""

    def __init__(self, tree: Tree) -> None:
        self.epochs = [Epoch(0, [], False, tree)]

    @property
    def tree(self) -> Tree:
        """The file after the newest epoch."""
        return self.epochs[-1].tree

    def add(self, number: int, parts: Parts, *, anew: bool) -> dict[str, set[str]]:
        """A new epoch; returns what :func:`merge` finds in conflict."""
        tree, conflicts = merge(empty() if anew else self.tree, parts)
        self.epochs.append(Epoch(number, parts, anew, tree))
        return conflicts

    def add_below(self, seen: int, parts: Parts) -> None:
        """What stopped writers did who know the epochs up to `seen`: later ones lie over it."""
        after = max(at for at, epoch in enumerate(self.epochs) if epoch.number <= seen)
        later = self.epochs[after + 1 :]
        del self.epochs[after + 1 :]
        self.add(seen, parts, anew=False)
        for epoch in later:
            self.add(epoch.number, epoch.parts, anew=epoch.anew)
