"""Pools of shared memory: processes of one machine hand each other arrays and Arrow tables without copying.

An object is made, *sealed*, and read by anybody; its memory is used again when it is deleted. There is no server::

    from hyperchunk import pool

    shared = pool.open("run", quota=4 << 30)    # in any process
    shared.put("step-1", table)                  # an Arrow table, or bytes
    shared.table("step-1")                       # in another process: nothing is copied

What a process made and did not seal is never seen by others, and its memory comes back when the process is gone. What
somebody reads stays as it is, also if it is deleted in the meantime.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperchunk import _core

if TYPE_CHECKING:
    from hyperchunk._core import PoolObject, PoolWriter

__all__ = ["Entry", "Pool", "Stats", "create", "open", "pools", "remove"]


@dataclass(frozen=True)
class Entry:
    """An object of a pool."""

    name: str
    length: int
    #: Whether it is in a file, not in memory.
    spilled: bool


@dataclass(frozen=True)
class Stats:
    """What a pool has, in bytes and objects."""

    #: How much memory it may take, takes, and how much of that waits to be used again.
    quota: int
    memory: int
    free: int
    #: Objects in memory.
    objects: int
    bytes: int
    #: Objects that are being made, and objects that are deleted and still read.
    unsealed: int
    deleted: int
    #: Objects in files.
    spilled: int
    spilled_bytes: int


class Pool:
    """A pool of shared memory; made by :func:`open` or :func:`create`. It pickles."""

    def __init__(self, name: str, core: _core.Pool) -> None:
        self.name = name
        self._core = core

    @property
    def folder(self) -> Path:
        """Where its memory is."""
        return self._core.folder

    def put(self, name: str, data: Any) -> None:
        """Makes an object of bytes (anything with a buffer: an array, ``bytes``), or of Arrow's data (a table, a batch,
        a reader, a data frame of polars), as an IPC stream that :meth:`table` reads.

        It is a :class:`~hyperchunk.exceptions.LimitError` if the quota is reached, and an ``OSError`` if there is an
        object of that name."""
        if not hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__arrow_c_array__"):
            self._core.put(name, data)
            return
        import pyarrow as pa

        table = data if isinstance(data, pa.Table) else pa.table(data)
        measure = pa.MockOutputStream()
        options = pa.ipc.IpcWriteOptions()
        with pa.ipc.new_stream(measure, table.schema, options=options) as writer:
            writer.write_table(table)
        made = self.begin(name, measure.size())
        try:
            sink = pa.FixedSizeBufferWriter(pa.py_buffer(made))
            with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
                writer.write_table(table)
            sink.close()
            del sink, writer
            made.seal()
        except BaseException:
            del made
            raise

    def begin(self, name: str, size: int) -> PoolWriter:
        """Begins an object of `size` bytes: a writable buffer (``numpy.frombuffer(made, "f8")``), which nobody sees
        before its ``seal()``; ``abort()`` gives it up. Its memory is what an earlier object left there."""
        return self._core.begin(name, size)

    def get(self, name: str) -> PoolObject:
        """An object's bytes: a buffer (``memoryview(found)``, ``numpy.frombuffer(found, "f8")``). Nothing is copied;
        the bytes stay as long as the buffer is used. It is an :class:`~hyperchunk.exceptions.ObjectNotFoundError` if
        there is none of that name."""
        return self._core.get(name)

    def table(self, name: str) -> Any:
        """An Arrow table that :meth:`put` made, as ``pyarrow.Table``. Nothing is copied."""
        import pyarrow as pa

        return pa.ipc.open_stream(pa.py_buffer(self.get(name))).read_all()

    def delete(self, name: str) -> bool:
        """Deletes an object; False if there is none of that name. Who reads it goes on."""
        return self._core.delete(name)

    def list(self) -> list[Entry]:
        """Its objects, by their names."""
        return [Entry(*entry) for entry in self._core.list()]

    def stats(self) -> Stats:
        """What it has."""
        return Stats(*self._core.stats())

    def __contains__(self, name: object) -> bool:
        return any(entry.name == name for entry in self.list())

    def __iter__(self) -> Iterator[str]:
        return iter([entry.name for entry in self.list()])

    def __len__(self) -> int:
        return len(self.list())

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.name,)

    def __repr__(self) -> str:
        return f"<pool {self.name!r}>"


def _reopened(name: str) -> Pool:
    return Pool(name, _core.Pool.open(name))


def create(name: str, *, quota: int | None = None, spill: str | os.PathLike[str] | None = None) -> Pool:
    """Makes a pool that may take `quota` bytes of memory, half of the machine's if nothing is said. When they are
    taken, objects that nobody used for the longest time go to files in the folder `spill`, and are read from there;
    without it, that is an error."""
    return Pool(name, _core.Pool.create(name, quota, None if spill is None else str(spill)))


def open(name: str, *, quota: int | None = None, spill: str | os.PathLike[str] | None = None) -> Pool:
    """The pool of that name. If `quota` or `spill` is given and there is none, it is made."""
    try:
        return _reopened(name)
    except FileNotFoundError:
        if quota is None and spill is None:
            raise
    try:
        return create(name, quota=quota, spill=spill)
    except OSError:
        # Somebody was faster.
        return _reopened(name)


def remove(name: str) -> None:
    """Takes a pool away, with all of its objects in memory. Who reads one goes on."""
    _core.Pool.remove(name)


def pools() -> list[str]:
    """The names of this user's pools."""
    return _core.Pool.all()
