"""Open files that are being written."""

from __future__ import annotations

import os
import weakref
from typing import BinaryIO, cast

from hyperchunk import _core, observing
from hyperchunk.exceptions import ClosedError, UnsupportedError
from hyperchunk.objects import Opened, Recipe
from hyperchunk.sources import Target


class Writing(Opened):
    """A file that is being written, shared by all its objects. Closing commits it. Without that, once no object of it
    is used any more or the program ends, a local file is committed, and one in a store is discarded.
    """

    __slots__ = ("_close", "_stored")

    def __init__(self, writer: _core.Writer, recipe: Recipe) -> None:
        super().__init__(writer, recipe)
        end = _give_up if recipe.driver == "network" else _commit
        self._close = weakref.finalize(self, end, writer, recipe.source, os.getpid())

    @property
    def writer(self) -> _core.Writer:
        """The `_core` writer; raises an error if the file is closed."""
        core = self._core
        if core is None:
            raise ClosedError(f"the file is closed (file {self.filename})")
        assert isinstance(core, _core.Writer)
        return core

    def need(self) -> _core.Writer:
        """Returns the writer."""
        return self.writer

    def close(self) -> None:
        """Commits and closes the file. If that fails, the file stays open, and there is no new attempt at the
        program's end.
        """
        if self._closed:
            return
        writer = self.writer
        self._close.detach()
        with observing.work("commit", self.filename) as facts:
            writer.close()
            _deliver(writer, self.recipe.source)
            facts["closed"] = True
        self._stored = writer.stored()
        super().close()

    def discard(self) -> None:
        """Discards the file and closes it."""
        self._close.detach()
        self._stored = None
        self.writer.discard()
        super().close()

    def stored(self) -> tuple[int, str | None] | None:
        """Returns the size and ETag of the object that was stored."""
        return self._stored if self._closed else self.writer.stored()

    def renew(self) -> None:
        """Does nothing but check that the file is open: a file being written is always current."""
        self.need()

    def portable(self) -> Recipe:
        """Raises an error: a file that is being written cannot move to another process."""
        raise TypeError("files that are being written cannot be pickled")


def _commit(writer: _core.Writer, target: object, process: int) -> None:
    # A forked child must not commit a file that its parent is still writing.
    if os.getpid() == process:
        writer.close()
        _deliver(writer, target)


def _give_up(writer: _core.Writer, target: object, process: int) -> None:
    # A file streamed to a store that was not closed may be incomplete.
    del target
    if os.getpid() == process:
        writer.discard()


def _deliver(writer: _core.Writer, target: object) -> None:
    """Writes a file made in memory to its target object."""
    data = writer.bytes()
    if data is None or target is None:
        return
    if isinstance(target, Target):
        target.deliver(data)
        return
    file = cast("BinaryIO", target)
    file.seek(0)
    file.write(data)
    file.truncate()


def same_file(opened: Opened, other: Opened) -> bool:
    """True if both are the same file."""
    return opened is other


def writing(opened: Opened) -> Writing:
    """Returns the file as one that is being written, or raises an error."""
    if not isinstance(opened, Writing):
        raise UnsupportedError("the file of the object is not open for writing")
    return opened
