"""Warm Python process: imports modules once, and forks a locked-down worker for each session.

The reading process starts it as a program of its own, with a socket as descriptor 3. Each request is one packet of at
least eight bytes: an operation and a process number. Operations: ``F`` fork, after importing the modules whose names
follow; ``S`` return the exit status of a worker; ``A`` adopt the process in which a worker continues
after a fork; ``R`` release a worker whose status will not be requested.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # Importing `signal` takes longer.
import _socket
import gc
import importlib
import importlib.machinery
import io
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, Protocol, TypeAlias

    import numpy.typing as npt

    from hyperchunk._core import FlatBuffer
    from hyperchunk._network import Network
    from hyperchunk._records import Description

    #: Value of an attribute.
    Value: TypeAlias = int | float | str

    class Slot(Protocol):
        """Dataset of a function: the buffer of numbers, or records over its bytes."""

        @property
        def dims(self) -> tuple[int, ...]: ...
        @property
        def datatype(self) -> str: ...
        def __getitem__(self, index: int, /) -> Any: ...


SOCKET = 3
IDLE_SECONDS = 30.0
UNKNOWN = -(2**31)
PACKET_BYTES = 4096
# Modules that Python itself imports on demand. Requests name all others: importing modules that no function uses
# takes longer than the rest of a first read.
ALWAYS = ("encodings.ascii", "encodings.latin_1", "encodings.utf_16", "warnings")
HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120


def load_core() -> ModuleType:
    """Loads the extension module beside this file: the package itself need not be importable."""
    found = sorted(name for name in os.listdir(HERE) if name.startswith("_core") and name.endswith(".so"))  # noqa: PTH208
    if not found:
        raise SystemExit("hyperchunk is not completely installed: its extension module is missing")
    path = os.path.join(HERE, found[0])  # noqa: PTH118
    loader = importlib.machinery.ExtensionFileLoader("hyperchunk._core", path)
    spec = importlib.machinery.ModuleSpec("hyperchunk._core", loader, origin=path)
    module = loader.create_module(spec)
    assert module is not None
    loader.exec_module(module)
    return module


def load_beside(name: str) -> ModuleType:
    """Loads another module beside this file."""
    path = os.path.join(HERE, f"{name}.py")  # noqa: PTH118
    loader = importlib.machinery.SourceFileLoader(f"hyperchunk.{name}", path)
    module = type(sys)(loader.name)
    module.__file__ = path
    loader.exec_module(module)
    return module


records = load_beside("_records")


def load(names: list[str]) -> None:
    """Imports modules that functions of the next worker may need. A missing one is ignored."""
    fresh = [name for name in names if name not in sys.modules]
    for name in fresh:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    if fresh:
        gc.collect()
        gc.freeze()


class Text(bytes):
    """Name of a type or file: bytes, as in HDF5-UDF, that also equal the string."""

    def __new__(cls, text: str) -> Text:
        return super().__new__(cls, text.encode())

    def __eq__(self, other: object) -> bool:
        return bytes(self) == (other.encode() if isinstance(other, str) else other)

    def __hash__(self) -> int:
        return bytes.__hash__(self)

    def __str__(self) -> str:
        return self.decode()


class Ffi:
    """Subset of HDF5-UDF's ``lib.ffi`` that functions use to make NumPy views."""

    @staticmethod
    def buffer(data: Slot, size: int = -1) -> memoryview:
        """Returns the bytes of a dataset's buffer."""
        view: memoryview = records.raw(data)
        return view if size < 0 else view[:size]

    @staticmethod
    def string(data: Any, size: int = -1) -> bytes:
        """Returns the bytes of a string."""
        text: bytes = bytes(data).split(b"\0", 1)[0]
        return text if size < 0 else text[:size]


class Lib:
    """The object ``lib`` that functions use."""

    ffi = Ffi()

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        self._starts: list[tuple[int, ...]] = []
        self._file_path = ""
        self._network: Network | None = None
        self._seed: int | None = None
        self._no_clock: str | None = None
        self._is_legacy = False

    def _name(self, name: str | bytes) -> str:
        text = name.decode() if isinstance(name, bytes) else name
        if text in self._slots:
            return text
        bare = text.lstrip("/")
        for known in self._slots:
            if known.lstrip("/") == bare:
                return known
        raise KeyError(f"no dataset {text!r} was recorded when this function was attached")

    def _find(self, name: str | bytes) -> Slot:
        return self._slots[self._name(name)]

    def getData(self, name: str | bytes) -> Slot:  # noqa: N802
        """Returns the dataset's elements, flat, in row-major order."""
        return self._find(name)

    def getDims(self, name: str | bytes) -> tuple[int, ...]:  # noqa: N802
        """Returns the shape of the dataset's block that the function sees."""
        dims: tuple[int, ...] = self._find(name).dims
        return dims

    getSize = getDims  # noqa: N815

    def getChunk(self) -> tuple[int, ...]:  # noqa: N802
        """Returns the shape of the computed block."""
        dims: tuple[int, ...] = next(iter(self._slots.values())).dims
        return dims

    def getOffset(self, name: str | bytes | None = None) -> tuple[int, ...]:  # noqa: N802
        """Returns the offset of the computed block in its dataset, or of an input's block in the input."""
        return self._starts[0 if name is None else list(self._slots).index(self._name(name))]

    def getType(self, name: str | bytes) -> Text:  # noqa: N802
        """Returns the name of the element type; ``string`` or ``compound`` if it is not a number."""
        return Text(self._find(name).datatype)

    def getAttr(self, object_name: str | bytes, name: str | bytes) -> Value | tuple[Value, ...]:  # noqa: N802
        """Returns an attribute of a dataset or group: a number, a string, or a tuple of them."""
        parts = [part.decode() if isinstance(part, bytes) else part for part in (object_name, name)]
        slot = self._find("@".join(parts))
        count = 1
        for length in slot.dims:
            count *= length
        as_text = slot.datatype == "string"
        values = tuple(records.string(slot[n]) if as_text else slot[n] for n in range(count))
        return values[0] if count == 1 else values

    @staticmethod
    def string(member: object) -> str:
        """Returns the text of a string: an element of a string dataset, or a member."""
        text: str = records.string(member)
        return text

    @staticmethod
    def setString(member: object, text: str | bytes) -> None:  # noqa: N802
        """Sets a string of an output, truncated to its size."""
        records.set_string(member, text)

    def getFilePath(self) -> Text:  # noqa: N802
        """Returns the path by which the reader opened the HDF5 file."""
        return Text(self._file_path)

    def array(self, name: str | bytes) -> npt.NDArray[Any]:
        """Returns the dataset as a NumPy array in the block's shape, over the same memory."""
        import numpy as np

        slot = self._find(name)
        array = np.asarray(slot)
        whole = array.size == np.prod(slot.dims, dtype=object)
        return array.reshape(slot.dims if whole else (*slot.dims, -1))

    def seed(self) -> int:
        """Returns the seed for random numbers in this block: an integer, the same for all readers."""
        if self._seed is None:
            raise RuntimeError("lib.seed: the record has no seed; attach the function again")
        return self._seed

    def clock(self) -> float:
        """Returns seconds since 1970, if the profile grants the clock."""
        if self._no_clock is not None:
            raise RuntimeError(f"lib.clock: {self._no_clock}")
        return time.time()

    def _check_result(self, result: Any) -> None:
        """Fails if ``dynamic_dataset`` returned a generator or a coroutine, whose body has not run at all. Other values
        are ignored, since the function writes to its outputs.
        """
        kind = type(result).__name__
        reasons = {
            "generator": "remove `yield`, with which a call computes nothing",
            "coroutine": "remove `async`, with which a call computes nothing",
            "async_generator": "remove `async` and `yield`, with which a call computes nothing",
        }
        if kind not in reasons or self._is_legacy:
            return
        if kind == "coroutine":
            result.close()
        raise TypeError(f"dynamic_dataset returned a value of the type {kind}: expected None; {reasons[kind]}")

    @staticmethod
    def _fork() -> int:
        """Forks, and suppresses the warning of newer Pythons about running threads."""
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return os.fork()

    @staticmethod
    def _warm(module: str) -> None:
        """Loads, before the sandbox closes, the files that a module would otherwise load later."""
        if module.split(".")[0] == "hyperchunk":
            # Parts of the package are imported on first use.
            for name in (
                "attributes",
                "dataset",
                "dimensions",
                "exceptions",
                "file",
                "group",
                "links",
                "references",
                "views",
            ):
                importlib.import_module(f"hyperchunk.{name}")
        if module == "numba":
            import numba
            import numpy as np

            # Numba resolves the absolute name of the function's file, and the sandbox does not allow `getcwd`.
            os.getcwd = lambda: "/"
            # The first compilation imports the modules that Numba needs for it.
            halves = numba.njit(lambda a, out: [np.sqrt(x) for x in a] + [out.shape[0] / 2])
            halves(np.ones(1), np.ones((1, 1)))

    def _set_seed(self, seed: int, told: bool) -> None:
        """Seeds the random numbers of the next call. `told` is False if the function may not see the seed itself."""
        self._seed = seed if told else None
        if "random" in sys.modules:
            sys.modules["random"].seed(seed)
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            numpy.seed([seed & 0xFFFFFFFF, seed >> 32])

    def connect(self, target: str, tls: bool | ssl.SSLContext = False) -> socket.socket:
        """Returns a connected socket for ``"host:port"``, if granted by the profile; `tls`: True, or a context."""
        return self._granted_network().connect(target, tls)

    def http_get(self, url: str, headers: dict[str, str] | None = None) -> bytes:
        """Returns the body of a URL whose host and port the profile grants."""
        body: bytes = self._granted_network().http_get(url, headers)
        return body

    def _granted_network(self) -> Network:
        if self._network is None:
            raise ConnectionError("lib.connect: the profile grants no connections (`connect`)")
        return self._network

    def _grant_network(self, connect: Callable[[str], int]) -> None:
        """Loads, before the sandbox closes, the modules for connections."""
        self._network = load_beside("_network").Network(connect)

    @staticmethod
    def _slot(buffer: FlatBuffer, kind: str, layout: Description | None) -> Slot:
        """Returns the object that a function gets for a dataset: the buffer of numbers itself, or records over its
        bytes.
        """
        return buffer if layout is None else records.dataset(buffer, kind, layout)


def number(packed: bytes) -> int:
    """Decodes a number of a packet."""
    return int.from_bytes(packed, "little", signed=True)


def number_bytes(value: int) -> bytes:
    """Encodes a number for a packet."""
    return value.to_bytes(4, "little", signed=True)


class Printer(io.RawIOBase):
    """Non-blocking pipe to the host: output that does not fit is dropped, and printing never fails."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def writable(self) -> bool:
        """Returns True."""
        return True

    def write(self, data: Any) -> int:
        """Writes the part that fits, and returns the full length."""
        try:  # noqa: SIM105 (contextlib takes longer to import)
            os.write(self.fd, data)
        except OSError:
            pass  # The pipe is full.
        return len(data)


class Server:
    """Forks workers and remembers their exit statuses."""

    def __init__(self, core: ModuleType, host: _socket.socket) -> None:
        self.core = core
        self.host = host
        self.children: set[int] = set()
        self.released: set[int] = set()

    def fork(self, fds: list[int]) -> int:
        """Forks a worker whose socket, standard output and standard error are ``fds``."""
        if len(fds) != 3:
            return -22
        try:
            pid = os.fork()
        except OSError as error:
            return -(error.errno or 1)
        if pid == 0:
            self.work(fds)
        self.children.add(pid)
        return pid

    def work(self, fds: list[int]) -> None:
        """Runs the worker in the child; never returns."""
        status = 1
        try:
            self.host.detach()
            high = [os.dup2(fd, 100 + n, inheritable=False) for n, fd in enumerate(fds)]
            for target, fd in zip((SOCKET, 1, 2), high, strict=True):
                os.dup2(fd, target)
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(Printer(1)), "utf-8", "replace")
            sys.stderr = io.TextIOWrapper(Printer(2), "utf-8", "replace", write_through=True)
            status = self.core.serve(Lib())
        finally:
            os._exit(status)

    def status(self, pid: int) -> int:
        """Returns the wait status of a worker that has ended or is about to."""
        if pid not in self.children:
            return UNKNOWN
        for _ in range(200):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self.children.discard(pid)
                self.released.discard(pid)
                return status
            time.sleep(0.005)
        return UNKNOWN

    def reap(self) -> None:
        """Reaps released workers."""
        for pid in list(self.released):
            done, _ = os.waitpid(pid, os.WNOHANG)
            if done:
                self.children.discard(pid)
                self.released.discard(pid)

    def adopt(self, pid: int) -> int:
        """Adopts the process in which a worker continues after a fork; this process has become its parent."""
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return -1
        self.children.add(pid)
        return 0

    def answer(self, packet: bytes, fds: list[int]) -> None:
        """Answers one request."""
        operation, pid = packet[:1], number(packet[4:8])
        if operation == b"F":
            load(packet[8:].decode("ascii").split())
            self.host.send(number_bytes(self.fork(fds)))
        elif operation == b"S":
            self.host.send(number_bytes(self.status(pid)))
        elif operation == b"A":
            self.host.send(number_bytes(self.adopt(pid)))
        elif operation == b"R":
            if pid in self.children:
                self.released.add(pid)
            self.reap()

    def run(self) -> None:
        """Serves until the host closes its socket or the process has been idle for `IDLE_SECONDS`."""
        poll = select.poll()
        poll.register(self.host, select.POLLIN)
        last = time.monotonic()
        while True:
            if not poll.poll(1000):
                self.reap()
                if not self.children and time.monotonic() - last > IDLE_SECONDS:
                    return
                continue
            packet, ancillary, _, _ = self.host.recvmsg(PACKET_BYTES, _socket.CMSG_SPACE(16))
            fds = []
            for level, kind, data in ancillary:
                if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                    fds += [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data) // 4 * 4, 4)]
            if not packet:
                return
            try:
                self.answer(packet, fds)
            finally:
                for fd in fds:
                    os.close(fd)
            last = time.monotonic()


def main() -> None:
    """Warms up, reports readiness, and serves."""
    # Inherited descriptors without close-on-exec would keep the host's files open, such as an HDF5 file with its
    # lock.
    os.closerange(SOCKET + 1, 2**31 - 1)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    core = load_core()
    # This process must not outlive the host, whose process number is the last argument.
    core.adopt_orphans(int(sys.argv.pop()))
    load(list(ALWAYS))
    host = _socket.socket(fileno=SOCKET)
    host.send(number_bytes(os.getpid()))
    try:
        Server(core, host).run()
    except ConnectionError:
        return


if __name__ == "__main__":
    main()
    sys.exit(0)
