"""Pools of shared memory, by which processes of one machine exchange arrays and Arrow tables without copying.

An object is created, *sealed*, and read by any process; its memory is reused after it is deleted. There is no
server::

    from hyperchunk import pool

    shared = pool.open("run", quota=4 << 30)    # in any process
    shared.put("step-1", table)                  # an Arrow table, or bytes
    shared.table("step-1")                       # in another process: nothing is copied

Unsealed objects are invisible to other processes, and their memory is freed when the creating process ends. An object
that is being read stays valid, even if it is deleted meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hyperchunk import _core
from hyperchunk.typing import Array, ArrowData

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

    from hyperchunk._core import PoolObject, PoolWriter

__all__ = ["Entry", "Pool", "Stats", "create", "open", "pools", "remove"]


@dataclass(frozen=True)
class Entry:
    """An object of a pool."""

    name: str
    length: int
    #: True if it is in a file, not in memory.
    spilled: bool


@dataclass(frozen=True)
class Stats:
    """Statistics of a pool, in bytes and numbers of objects."""

    #: Memory limit, memory in use, and the part of it that waits for reuse.
    quota: int
    memory: int
    free: int
    #: Objects in memory.
    objects: int
    bytes: int
    #: Objects under construction, and deleted objects that are still being read.
    unsealed: int
    deleted: int
    #: Objects in files.
    spilled: int
    spilled_bytes: int


class Pool:
    """A pool of shared memory; made by :func:`open` or :func:`create`. Picklable.

    Example:
        >>> import os
        >>> shared = hyperchunk.pool.create(f"example-{os.getpid()}", quota=1 << 20)
        >>> shared.put("step-1", numpy.arange(3.0))
        >>> numpy.frombuffer(shared.get("step-1"), "f8").tolist()
        [0.0, 1.0, 2.0]
        >>> list(shared)
        ['step-1']
        >>> hyperchunk.pool.remove(shared.name)
    """

    def __init__(self, name: str, core: _core.Pool) -> None:
        self.name = name
        self._core = core

    @property
    def folder(self) -> Path:
        """Folder of the pool's memory."""
        return self._core.folder

    def put(self, name: str, data: Buffer | Array | ArrowData) -> None:
        """Stores an object.

        Args:
            name: Its name.
            data: Bytes (any object with a buffer: an array, ``bytes``), or Arrow data (a table, a batch, a reader, a
                polars data frame), which :meth:`table` reads.

        Raises:
            LimitError: The quota is reached.
            OSError: An object of that name exists.
        """
        if not hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__arrow_c_array__"):
            self._core.put(name, cast("Buffer | Array", data))
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
        """Creates an object of `size` bytes and returns a writable buffer (``numpy.frombuffer(made, "f8")``). It
        becomes visible with ``seal()``; ``abort()`` discards it. The memory is not cleared: it may hold data of an
        earlier object.
        """
        return self._core.begin(name, size)

    def get(self, name: str) -> PoolObject:
        """Returns an object's bytes as a buffer (``memoryview(found)``, ``numpy.frombuffer(found, "f8")``). Nothing
        is copied; the bytes stay valid while the buffer is used.

        Raises:
            ObjectNotFoundError: There is no object of that name.
        """
        return self._core.get(name)

    def table(self, name: str) -> pa.Table:
        """Returns an Arrow table stored by :meth:`put`, as ``pyarrow.Table``. Nothing is copied."""
        import pyarrow as pa

        return pa.ipc.open_stream(pa.py_buffer(self.get(name))).read_all()

    def delete(self, name: str) -> bool:
        """Deletes an object; returns False if it does not exist. Current readers keep it."""
        return self._core.delete(name)

    def list(self) -> list[Entry]:
        """Lists the objects, by name."""
        return [Entry(*entry) for entry in self._core.list()]

    def stats(self) -> Stats:
        """Returns the statistics of the pool."""
        return Stats(*self._core.stats())

    def __contains__(self, name: object) -> bool:
        return any(entry.name == name for entry in self.list())

    def __iter__(self) -> Iterator[str]:
        return iter([entry.name for entry in self.list()])

    def __len__(self) -> int:
        return len(self.list())

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (self.name,)

    def __repr__(self) -> str:
        return f"<pool {self.name!r}>"


def _reopened(name: str) -> Pool:
    return Pool(name, _core.Pool.open(name))


def create(name: str, *, quota: int | None = None, spill: str | os.PathLike[str] | None = None) -> Pool:
    """Creates a pool.

    Args:
        name: Name of the pool.
        quota: Maximum memory in bytes; by default half of the machine's.
        spill: Folder to which the least recently used objects move when the quota is reached, and from which they are
            read then. Without it, reaching the quota is an error.

    Raises:
        OSError: A pool of that name exists.

    Example:
        >>> shared = hyperchunk.pool.create("run", quota=4 << 30, spill="/scratch")  # doctest: +SKIP
    """
    return Pool(name, _core.Pool.create(name, quota, None if spill is None else str(spill)))


def open(name: str, *, quota: int | None = None, spill: str | os.PathLike[str] | None = None) -> Pool:
    """Opens a pool, in any process. If it does not exist and `quota` or `spill` is given, creates it (:func:`create`).

    Raises:
        FileNotFoundError: There is no pool of that name, and neither `quota` nor `spill` is given.
        OSError: It cannot be created; the message says why.

    Example:
        >>> hyperchunk.pool.open("missing-pool")
        Traceback (most recent call last):
            ...
        hyperchunk.exceptions.NotFoundError: ...
    """
    try:
        return _reopened(name)
    except FileNotFoundError:
        if quota is None and spill is None:
            raise
    try:
        return create(name, quota=quota, spill=spill)
    except OSError as refused:
        try:
            # Another process may have created it in the meantime.
            return _reopened(name)
        except FileNotFoundError:
            raise refused from None


def remove(name: str) -> None:
    """Removes a pool, with all its objects in memory. Current readers keep theirs.

    Raises:
        FileNotFoundError: There is no pool of that name.

    Example:
        >>> hyperchunk.pool.remove("run")  # doctest: +SKIP
    """
    _core.Pool.remove(name)


def pools() -> list[str]:
    """Lists the names of this user's pools.

    Example:
        >>> "missing-pool" in hyperchunk.pool.pools()
        False
    """
    return _core.Pool.all()
