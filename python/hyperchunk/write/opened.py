"""Open files that are being written."""

from __future__ import annotations

import os
import weakref
from typing import Any

from hyperchunk import _core
from hyperchunk.exceptions import ClosedError, UnsupportedError
from hyperchunk.objects import Opened, Recipe


class Writing(Opened):
    """A file that is being written, shared by all objects that come from it. It is committed when it is closed; at the
    latest when nothing of it is used any more, or the program ends."""

    __slots__ = ("_close", "_stored")

    def __init__(self, writer: _core.Writer, recipe: Recipe) -> None:
        super().__init__(writer, recipe)
        end = _give_up if recipe.driver == "network" else _commit
        self._close = weakref.finalize(self, end, writer, recipe.source, os.getpid())

    @property
    def writer(self) -> _core.Writer:
        """What `_core` has of it, or an error if it is closed."""
        core = self._core
        if core is None:
            raise ClosedError(f"the file is closed (file {self.filename})")
        assert isinstance(core, _core.Writer)
        return core

    def need(self) -> _core.Writer:
        """The same."""
        return self.writer

    def close(self) -> None:
        """Commits and closes it. If that fails, it stays open, and is not tried again when the program ends."""
        if self._closed:
            return
        writer = self.writer
        self._close.detach()
        writer.close()
        _deliver(writer, self.recipe.source)
        self._stored = writer.stored()
        super().close()

    def discard(self) -> None:
        """Gives the file up, and closes it."""
        self._close.detach()
        self._stored = None
        self.writer.discard()
        super().close()

    def stored(self) -> tuple[int, str | None] | None:
        """What the store says about the object that it became."""
        return self._stored if self._closed else self.writer.stored()

    def renew(self) -> None:
        """What is written is what it is."""
        self.need()

    def portable(self) -> Recipe:
        """Files that are being written stay where they are."""
        raise TypeError("files that are being written cannot be pickled")


def _commit(writer: _core.Writer, target: Any, process: int) -> None:
    # A copy of the process must not commit what its parent still writes.
    if os.getpid() == process:
        writer.close()
        _deliver(writer, target)


def _give_up(writer: _core.Writer, target: Any, process: int) -> None:
    # What is streamed to a store and was never closed may lack anything.
    del target
    if os.getpid() == process:
        writer.discard()


def _deliver(writer: _core.Writer, target: Any) -> None:
    """Gives a file that was made in memory to the object that wants it."""
    data = writer.bytes()
    if data is None or target is None:
        return
    target.seek(0)
    target.write(data)
    target.truncate()


def same_file(opened: Opened, other: Opened) -> bool:
    """Whether objects of both are of one file."""
    return opened is other


def writing(opened: Opened) -> Writing:
    """It, where it is being written."""
    if not isinstance(opened, Writing):
        raise UnsupportedError("the object is of a file that is not being written")
    return opened
