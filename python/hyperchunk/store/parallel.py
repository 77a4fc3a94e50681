"""Stores with Dask and MPI."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from hyperchunk.file import is_url
from hyperchunk.store import schema
from hyperchunk.store.analysis import Analysis
from hyperchunk.store.handle import Epoch, Store, create
from hyperchunk.store.schema import Dataset
from hyperchunk.typing import Attributes, DatasetOptions, NetworkOptions, PathLike, StorageOptions

if TYPE_CHECKING:
    import dask.array
    from dask.delayed import Delayed

    from hyperchunk.store.writer import Writer


class Request(Protocol):
    """A message that may not have been sent yet."""

    def wait(self) -> object:
        """Waits until the message is sent."""


class Communicator(Protocol):
    """The methods of an mpi4py communicator that are used here."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def iprobe(self, source: int, tag: int) -> bool:
        """Returns whether a message has arrived."""

    def recv(self, *, source: int, tag: int) -> Store | BaseException:
        """Receives an object."""

    def isend(self, obj: object, dest: int, tag: int) -> Request:
        """Starts sending an object."""

    def gather(self, sendobj: T, root: int) -> list[T] | None:
        """Collects an object of each rank."""

    def bcast(self, obj: T, root: int) -> T:
        """Returns the object of a rank on all ranks."""


class ToStoreOptions(TypedDict, total=False):
    """Options of :func:`create`, without those that :func:`to_hyperchunk` has itself."""

    groups: Mapping[str, Attributes] | None
    checksum: bool
    statistics: bool
    sync: str
    codec: str
    segments: str
    analyses: Sequence[Analysis | bytes]
    storage_options: StorageOptions | None
    network: NetworkOptions | None


class StoreOptions(ToStoreOptions, total=False):
    """Options of :func:`create`."""

    attrs: Attributes | None
    overwrite: bool


class CommitOptions(TypedDict, total=False):
    """Options of :meth:`Store.commit`."""

    on_conflict: Literal["error", "warn"]
    data_only: bool
    salvage: bool
    flushed: bool
    link: str
    sync: str | None


T = TypeVar("T")
_WRITERS: dict[tuple[str, schema.Known | None, int], Writer] = {}
_LOCK = threading.Lock()


# Message tag reserved for stores.
_MPI_TAG = 0x4843
_POLL_SECONDS = 5e-5


def create_all(
    comm: Communicator,
    path: PathLike,
    datasets: Mapping[str, Dataset] | None = None,
    **options: Unpack[StoreOptions],
) -> Store:
    """Creates a store for all ranks of an mpi4py communicator. Collective.

    Rank 0 creates it; the other ranks get it as soon as it has an id, and may write while the file is still being
    created. Waiting ranks sleep: MPI's own calls would busy-wait and take cores from working ranks.

    Args:
        comm: The communicator.
        path, datasets, options: As for :func:`create`.

    Raises:
        OSError: The file exists, or its folder cannot be written: on all ranks. Later errors are raised on rank 0 only.

    Example:
        >>> run = create_all(MPI.COMM_WORLD, "run.h5", {"/energy": Dataset((8_000_000,), "f4")})  # doctest: +SKIP
    """
    if comm.rank:
        while not comm.iprobe(source=0, tag=_MPI_TAG):
            time.sleep(_POLL_SECONDS)
        found: Store | BaseException = comm.recv(source=0, tag=_MPI_TAG)
        if isinstance(found, BaseException):
            raise found
        return found
    sent: list[Request] = []

    def tell(what: Store | BaseException) -> None:
        sent.extend(comm.isend(what, rank, tag=_MPI_TAG) for rank in range(1, comm.size))

    try:
        return create(path, datasets, **options, _tell=tell)
    except Exception as error:
        if not sent:
            tell(error)
        raise
    finally:
        for request in sent:
            request.wait()


def commit_all(store: Store, comm: Communicator, ticket: bytes, **options: Unpack[CommitOptions]) -> Epoch | None:
    """Commits the data of all ranks of an mpi4py communicator: gathers a ticket from each rank, then rank 0 commits.
    Collective.

    Args:
        store: The store.
        comm: The communicator.
        ticket: Ticket of this rank's writer.
        options: As for :meth:`Store.commit`.

    Returns:
        The epoch, on all ranks; None if there is nothing new.

    Example:
        >>> commit_all(run, MPI.COMM_WORLD, writer.close())  # doctest: +SKIP
    """
    tickets = comm.gather(ticket, root=0)
    epoch: Epoch | None = None
    failed: BaseException | None = None
    if comm.rank == 0:
        try:
            epoch = store.commit(tickets, **options)
        except Exception as error:  # raised on all ranks
            failed = error
    epoch, failed = comm.bcast((epoch, failed), root=0)
    if failed is not None:
        raise failed
    return epoch


def to_hyperchunk(
    arrays: dask.array.Array | Mapping[str, dask.array.Array],
    path: PathLike,
    *,
    name: str = "data",
    overwrite: bool = False,
    compute: bool = True,
    attrs: Attributes | None = None,
    options: DatasetOptions | None = None,
    **store_options: Unpack[ToStoreOptions],
) -> Epoch | Delayed | None:
    """Writes Dask arrays to one HDF5 file, from all workers in parallel: the task that computes a block writes it to
    the log of the worker's process. Tasks return tickets, and the last task commits.

    Args:
        arrays: One array, or arrays by the paths of their datasets.
        path: Path or URL of the file.
        name: Path of the dataset, for one array.
        overwrite, attrs, store_options: As for :func:`create`.
        compute: Whether to write now.
        options: Options of the datasets, as for ``create_dataset``.

    Returns:
        The epoch; without `compute`, a delayed object whose result it is.

    Raises:
        ValueError: An array has an unknown shape.

    Example:
        >>> to_hyperchunk(dask.array.ones((1000, 1000)), "ones.h5", name="/ones")  # doctest: +SKIP
    """
    from dask.array.core import slices_from_chunks
    from dask.delayed import delayed

    given = dict(arrays) if isinstance(arrays, Mapping) else {name: arrays}
    for path_in, array in given.items():
        if any(np.isnan(length) for length in array.shape):
            raise ValueError(f"{path_in}: the array has an unknown shape: call compute_chunk_sizes() first")
    datasets = {
        where: Dataset(tuple(int(length) for length in array.shape), array.dtype, **(options or {}))
        for where, array in given.items()
    }
    store = create(path, datasets, overwrite=overwrite, attrs=attrs, **store_options)
    write = delayed(_write_block, pure=False)
    tasks = []
    for where, array in given.items():
        blocks = array.to_delayed().ravel()  # type: ignore[no-untyped-call]
        indices = slices_from_chunks(array.chunks)  # type: ignore[no-untyped-call]
        for block, index in zip(blocks, indices, strict=True):
            tasks.append(write(store, where, tuple(part.start for part in index), block))
    done = delayed(_commit, pure=False)(store, tasks)
    result: Epoch | Delayed | None = done.compute() if compute else done
    return result


def _write_block(store: Store, name: str, start: tuple[int, ...], block: npt.ArrayLike) -> bytes:
    if is_url(store.path):
        # In an object store, each flush makes an object; a commit finds the object of a separate writer at once.
        with store.writer() as writer:
            writer.write(name, start, block)
            return writer.close()
    writer = _writer(store)
    writer.write(name, start, block)
    return writer.flush()


def _commit(store: Store, tickets: list[bytes]) -> Epoch | None:
    # A writer's ticket with the largest offset includes its others; the offset follows the writer's 16-byte id.
    last: dict[bytes, bytes] = {}
    for ticket in tickets:
        writer = ticket[:16]
        if writer not in last or _offset(last[writer]) < _offset(ticket):
            last[writer] = ticket
    epoch = store.commit(last.values())
    # After the commit, the caller may move or delete the store.
    with _LOCK:
        own = _WRITERS.pop(_key(store), None)
    if own is not None:
        own.close()
    return epoch


def _offset(ticket: bytes) -> int:
    return int.from_bytes(ticket[16:24], "little")


def _key(store: Store) -> tuple[str, schema.Known | None, int]:
    return store.path, store._known, os.getpid()


def _writer(store: Store) -> Writer:
    """Returns the writer of this process for a store, shared by all tasks of a worker."""
    key = _key(store)
    with _LOCK:
        found = _WRITERS.get(key)
        if found is None:
            found = _WRITERS[key] = store.writer()
        return found


@atexit.register
def _close() -> None:
    for key, writer in list(_WRITERS.items()):
        if key[-1] == os.getpid():
            writer.close()
