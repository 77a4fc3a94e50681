"""Ways to write one logical file from many processes: a class each, with the reader for its files.

All of this is our own code over public interfaces. *The paper's layout* imitates the files and directories that the
PLFS plugin makes according to the paper; it is not PLFS's code, has no checksums, and is a lower bound of its cost.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import fcntl
import itertools
import os
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import h5py
import numpy as np
from pattern import Array, Pattern, Transfer

Done = Callable[[Transfer, Array], None]


@dataclass
class Case:
    """One rank's part in a measurement."""

    comm: Any
    pattern: Pattern
    folder: Path
    transfers: list[Transfer]
    scratch: Array = field(init=False)

    def __post_init__(self) -> None:
        self.scratch = np.ones(self.pattern.count, self.pattern.dtype)

    @property
    def rank(self) -> int:
        """Rank of this process."""
        return int(self.comm.rank)

    def offset(self, transfer: Transfer) -> int:
        """Returns the byte offset of a transfer if the datasets are contiguous."""
        return (transfer.dataset * self.pattern.length + transfer.start) * self.pattern.dtype.itemsize

    def names(self) -> Iterator[str]:
        """Yields the names of the datasets."""
        return (f"v{number}" for number in range(self.pattern.datasets))


class Peer:
    """A way to write. `floor` is the reference for the others."""

    label: ClassVar[str]
    all: ClassVar[dict[str, type[Peer]]] = {}

    def __init_subclass__(cls, key: str = "", label: str = "") -> None:
        if key:
            cls.label = label
            Peer.all[key] = cls

    def __init__(self, case: Case) -> None:
        self.case = case

    def write(self) -> tuple[float, float] | None:
        """Opens, writes this rank's transfers, closes. Returns start and end times if another process did it."""
        raise NotImplementedError

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        """Opens, reads transfers of `rank` to the scratch buffer, calls `done` after each, closes."""
        raise NotImplementedError

    def close(self) -> None:
        """Cleans up after the last round."""


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Opens a file descriptor."""
    descriptor = os.open(path, flags, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


NEW = os.O_CREAT | os.O_WRONLY | os.O_TRUNC


def touch(path: Path) -> None:
    """Creates an empty file."""
    os.close(os.open(path, NEW, 0o644))


def write_all(descriptor: int, array: Array) -> None:
    """Writes a whole array."""
    rest = memoryview(array).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class Floor(Peer, key="floor", label="raw, a file each (the floor)"):
    """Every process only appends to a file of its own."""

    def write(self) -> None:
        with opened(self.case.folder / f"raw{self.case.rank}", NEW) as file:
            for transfer in self.case.transfers:
                write_all(file, transfer.array)

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        scratch = self.case.scratch
        with opened(self.case.folder / f"raw{rank}", os.O_RDONLY) as file:
            for transfer in transfers:
                os.readv(file, [scratch])
                done(transfer, scratch)


class Shared(Peer, key="shared", label="raw, one shared file"):
    """Uses `pwrite` on one file."""

    def write(self) -> None:
        path = self.case.folder / "shared"
        with opened(path, os.O_CREAT | os.O_WRONLY) as file:
            for transfer in self.case.transfers:
                os.pwrite(file, transfer.array, self.case.offset(transfer))

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        scratch = self.case.scratch
        with opened(self.case.folder / "shared", os.O_RDONLY) as file:
            for transfer in transfers:
                os.preadv(file, [scratch], self.case.offset(transfer))
                done(transfer, scratch)


class PaperLayout(Peer, key="paper", label="the paper's layout"):
    """A directory for each dataset, and in it for each process a file of data and one of index records."""

    ENTRY = struct.Struct("<qqqddq")  # logical offset, physical offset, length, two times, process: 48 bytes

    def write(self) -> None:
        item, rank = self.case.pattern.dtype.itemsize, self.case.rank
        root = self.case.folder / "Sample.h5"
        if not root.exists():
            with contextlib.suppress(FileExistsError):
                root.mkdir()
        containers = [self.container(root / name) for name in self.case.names()]
        for transfer in self.case.transfers:
            container = containers[transfer.dataset]
            write_all(container.data, transfer.array)
            size = transfer.array.nbytes
            container.index.append(self.ENTRY.pack(transfer.start * item, container.position, size, 0.0, 0.0, rank))
            container.position += size
        for container in containers:
            self.finish(container)

    @dataclass
    class Container:
        """An open dataset."""

        path: Path
        data: int
        entries: int
        index: list[bytes] = field(default_factory=list)
        position: int = 0

    def container(self, path: Path) -> Container:
        """Opens a container; the process that finds no access file makes the missing directories and attributes, a
        file each.
        """
        rank = self.case.rank
        if not (path / ".plfsaccess").exists():
            made = False
            for folder in (path, path / "meta", path / "hostdir.0"):
                with contextlib.suppress(FileExistsError):
                    folder.mkdir()
                    made = made or folder == path
            if made:
                for key, value in (("dims", str(self.case.pattern.length)), ("type", self.case.pattern.dtype.str)):
                    with opened(path / "meta" / f"xattr.{key}", NEW) as file:
                        os.write(file, value.encode())
                touch(path / ".plfsaccess")
        touch(path / "meta" / f"open.{rank}")
        droppings = [os.open(path / "hostdir.0" / f"dropping.{kind}.{rank}", NEW, 0o644) for kind in ("data", "index")]
        return self.Container(path, *droppings)

    def finish(self, container: Container) -> None:
        """Closes a container: writes its index and its size, and removes the open mark."""
        rank = self.case.rank
        os.write(container.entries, b"".join(container.index))
        os.close(container.entries)
        os.close(container.data)
        touch(container.path / "meta" / f"{self.case.pattern.length}.{container.position}.{rank}")
        (container.path / "meta" / f"open.{rank}").unlink()

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        item = self.case.pattern.dtype.itemsize
        whole = memoryview(self.case.scratch).cast("B")
        index: dict[int, list[tuple[int, int, int, int]]] = {}
        data: dict[tuple[int, int], int] = {}
        hosts = [self.case.folder / "Sample.h5" / name / "hostdir.0" for name in self.case.names()]
        for transfer in transfers:
            number = transfer.dataset
            if number not in index:
                index[number] = self.index(hosts[number])
            at, end = transfer.start * item, (transfer.start + transfer.array.size) * item
            first = max(bisect.bisect(index[number], (at, sys.maxsize)) - 1, 0)
            for logical, physical, length, writer in itertools.islice(index[number], first, None):
                if logical >= end:
                    break
                if (number, writer) not in data:
                    data[number, writer] = os.open(hosts[number] / f"dropping.data.{writer}", os.O_RDONLY)
                skip, place = max(at - logical, 0), max(logical - at, 0)
                size = min(length - skip, end - at - place)
                os.preadv(data[number, writer], [whole[place : place + size]], physical + skip)
            done(transfer, self.case.scratch)
        for descriptor in data.values():
            os.close(descriptor)

    def index(self, host: Path) -> list[tuple[int, int, int, int]]:
        """Returns the index records of every process for a dataset, in order."""
        found = []
        for path in host.iterdir():
            if path.name.startswith("dropping.index."):
                with opened(path, os.O_RDONLY) as file:
                    for logical, physical, length, _, _, writer in self.ENTRY.iter_unpack(os.read(file, 1 << 24)):
                        found.append((logical, physical, length, writer))
        return sorted(found)


class MpiIndependent(Peer, key="mpiio", label="MPI-IO, independent"):
    """ROMIO of the running MPI."""

    collective: ClassVar[bool] = False

    def open(self, mode: str) -> Any:
        """Opens the shared file."""
        from mpi4py import MPI

        flags = MPI.MODE_CREATE | MPI.MODE_WRONLY if mode == "w" else MPI.MODE_RDONLY
        return MPI.File.Open(self.case.comm, str(self.case.folder / "mpiio"), flags)

    def write(self) -> None:
        file = self.open("w")
        write = file.Write_at_all if self.collective else file.Write_at
        for transfer in self.case.transfers:
            write(self.case.offset(transfer), transfer.array.view("u1"))
        file.Close()

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        file = self.open("r")
        read = file.Read_at_all if self.collective else file.Read_at
        scratch = self.case.scratch
        for transfer in transfers:
            read(self.case.offset(transfer), scratch.view("u1"))
            done(transfer, scratch)
        file.Close()


class MpiCollective(MpiIndependent, key="mpiio-collective", label="MPI-IO, collective"):
    """The same with two-phase I/O."""

    collective = True


class H5pyLock(Peer, key="h5py-lock", label="h5py, in turn under a lock"):
    """The usual way without MPI: take a lock, open, write all, close."""

    def create(self) -> None:
        """Creates the file in the first process."""
        if self.case.rank == 0:
            with h5py.File(self.case.folder / "s.h5", "w", libver="latest") as file:
                for name in self.case.names():
                    file.create_dataset(name, (self.case.pattern.length,), self.case.pattern.dtype)
        self.case.comm.Barrier()

    @contextlib.contextmanager
    def turn(self) -> Iterator[h5py.File]:
        """Opens the file under the exclusive lock."""
        with opened(self.case.folder / "lock", os.O_CREAT | os.O_WRONLY) as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            with h5py.File(self.case.folder / "s.h5", "r+", libver="latest") as file:
                yield file

    def write(self) -> None:
        self.create()
        with self.turn() as file:
            for transfer in self.case.transfers:
                file[f"v{transfer.dataset}"][transfer.start : transfer.start + transfer.array.size] = transfer.array

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        with h5py.File(self.case.folder / "s.h5") as file:
            read_h5(file, transfers, self.case.scratch, done)


def read_h5(file: Any, transfers: list[Transfer], scratch: Array, done: Done) -> None:
    """Reads transfers from an h5py file, or one of ours, to the scratch buffer."""
    open_sets: dict[int, Any] = {}
    for transfer in transfers:
        made = open_sets.get(transfer.dataset)
        if made is None:
            made = open_sets[transfer.dataset] = file[f"v{transfer.dataset}"]
        made.read_direct(scratch, np.s_[transfer.start : transfer.start + transfer.array.size])
        done(transfer, scratch)


class H5pyLockBlock(H5pyLock, key="h5py-lock-block", label="h5py, a lock for every block"):
    """As in Dask: lock, open, write one block, close."""

    def write(self) -> None:
        self.create()
        for transfer in self.case.transfers:
            with self.turn() as file:
                file[f"v{transfer.dataset}"][transfer.start : transfer.start + transfer.array.size] = transfer.array


class H5pyEach(Peer, key="h5py-each", label="h5py, a file each"):
    """One HDF5 file for each process; merging them is not included."""

    def write(self) -> None:
        pattern = self.case.pattern
        with h5py.File(self.case.folder / f"p{self.case.rank}.h5", "w", libver="latest") as file:
            size = pattern.transfers * pattern.count
            made = [file.create_dataset(name, (size,), pattern.dtype) for name in self.case.names()]
            at = [0] * pattern.datasets
            for transfer in self.case.transfers:
                first = at[transfer.dataset]
                at[transfer.dataset] = end = first + transfer.array.size
                made[transfer.dataset][first:end] = transfer.array

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        at = [0] * self.case.pattern.datasets
        with h5py.File(self.case.folder / f"p{rank}.h5") as file:
            made = [file[name] for name in self.case.names()]
            for transfer in transfers:
                first = at[transfer.dataset]
                at[transfer.dataset] = end = first + transfer.array.size
                made[transfer.dataset].read_direct(self.case.scratch, np.s_[first:end])
                done(transfer, self.case.scratch)


class Bp5(Peer, key="bp5", label="ADIOS2 BP5, a file each"):
    """The wheel from PyPI, which has no MPI, so each process writes a separate file."""

    settings: ClassVar[dict[str, str]] = {"AsyncOpen": "false", "AsyncWrite": "false"}

    def engine(self, rank: int, mode: str) -> tuple[Any, ...]:
        """Returns an open BP5 file with its owner."""
        import adios2.bindings as adios

        system = adios.ADIOS()
        io = system.DeclareIO(mode)
        io.SetEngine("BP5")
        io.SetParameters(self.settings)
        engine = io.Open(str(self.case.folder / f"r{rank}.bp"), adios.Mode.Write if mode == "w" else adios.Mode.Read)
        engine.BeginStep()
        return system, io, engine, adios.Mode

    def write(self) -> None:
        _system, io, engine, mode = self.engine(self.case.rank, "w")
        pattern = self.case.pattern
        one = np.empty(1, pattern.dtype)
        made = [io.DefineVariable(name, one, [pattern.length], [0], [1], False) for name in self.case.names()]
        for transfer in self.case.transfers:
            made[transfer.dataset].SetSelection([[transfer.start], [transfer.array.size]])
            engine.Put(made[transfer.dataset], transfer.array, mode.Deferred)
        engine.EndStep()
        engine.Close()

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        _system, io, engine, mode = self.engine(rank, "r")
        made = [io.InquireVariable(name) for name in self.case.names()]
        for transfer in transfers:
            made[transfer.dataset].SetSelection([[transfer.start], [transfer.array.size]])
            engine.Get(made[transfer.dataset], self.case.scratch, mode.Sync)
            done(transfer, self.case.scratch)
        engine.EndStep()
        engine.Close()


class Bp5Plain(Bp5, key="bp5-plain", label="ADIOS2 BP5, a file each, no statistics"):
    """The same without minimum and maximum."""

    settings: ClassVar[dict[str, str]] = {**Bp5.settings, "StatsLevel": "0"}


class ParallelHdf5(Peer, key="phdf5", label="parallel HDF5 2.2.0, independent"):
    """From C (parallel_hdf5.c): no wheel of h5py has MPI."""

    collective: ClassVar[bool] = False
    loaded: ClassVar[ctypes.CDLL | None] = None

    class Listed(ctypes.Structure):
        """A transfer as a C structure."""

        _fields_: ClassVar = [
            ("dataset", ctypes.c_int64),
            ("start", ctypes.c_uint64),
            ("count", ctypes.c_uint64),
            ("memory", ctypes.c_void_p),
        ]

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        import parallel_hdf5

        if ParallelHdf5.loaded is None:
            built = parallel_hdf5.library() if case.rank == 0 else None
            ParallelHdf5.loaded = ctypes.CDLL(str(case.comm.bcast(built)))
        self.path = os.fsencode(case.folder / "parallel.h5")
        self.comm = ctypes.c_int(case.comm.py2f())
        self.list = self.listed(case.transfers, None)

    def listed(self, transfers: list[Transfer], to: Array | None) -> Any:
        """Converts transfers to C structures: from their own memory, or all to one buffer."""
        rows = [(t.dataset, t.start, t.array.size, (t.array if to is None else to).ctypes.data) for t in transfers]
        return (self.Listed * len(rows))(*rows)

    def write(self) -> None:
        assert self.loaded is not None
        pattern = self.case.pattern
        length, item = ctypes.c_uint64(pattern.length), pattern.dtype.itemsize
        rest = (int(self.collective), item, pattern.datasets, length, len(self.list), self.list)
        if self.loaded.phdf5_write(self.path, self.comm, *rest):
            raise OSError("parallel HDF5 could not write")

    def read(self, rank: int, transfers: list[Transfer], done: Done) -> None:
        assert self.loaded is not None
        into = self.listed(transfers, self.case.scratch)
        told = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: done(transfers[number], self.case.scratch))
        item = self.case.pattern.dtype.itemsize
        if self.loaded.phdf5_read(self.path, self.comm, item, len(transfers), into, told):
            raise OSError("parallel HDF5 could not read")


class ParallelHdf5Collective(ParallelHdf5, key="phdf5-collective", label="parallel HDF5 2.2.0, collective"):
    """The same with collective writes."""

    collective = True
