"""Sessions in separate processes: a program with h5py and Hyperchunk loaded, which forks for each of them.

``python model_worker.py SOCKET``: each connection is a process, which executes requests until the connection ends.
The environment (with or without the connector) applies to all of them.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import traceback
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import hyperchunk.store
import hyperchunk.write

if __package__:
    from store import model_read
    from store.model_tree import Op, dtype
else:
    import model_read
    from model_tree import Op, dtype


def keywords(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of ``create_dataset`` for a dataset."""
    found = {"maxshape": spec["maxshape"], "chunks": spec["chunks"], "compression": spec["compression"]}
    if spec["fill"] is not None:
        found["fillvalue"] = spec["fill"]
    if spec["maxshape"] == spec["shape"]:
        del found["maxshape"]
    return {name: value for name, value in found.items() if value is not None}


def perform(library: Any, file: Any, op: Op) -> None:
    """Performs an operation on an open file, with h5py's interface."""
    verb, path, *rest = op
    if verb == "group":
        file.require_group(path)
    elif verb == "dataset":
        file.create_dataset(path, rest[0]["shape"], dtype(rest[0]["dtype"]), **keywords(rest[0]))
    elif verb == "small":
        if path in file:
            attrs = dict(file[path].attrs)
            del file[path]
            file[path] = rest[0]
            file[path].attrs.update(attrs)
        else:
            file[path] = rest[0]
    elif verb == "type":
        file[path] = dtype(rest[0])
    elif verb == "soft":
        file[path] = library.SoftLink(rest[0])
    elif verb == "external":
        file[path] = library.ExternalLink(*rest)
    elif verb == "hard":
        file[path] = file[rest[0]]
    elif verb == "attr":
        file[path].attrs[rest[0]] = rest[1]
    elif verb == "delattr":
        del file[path].attrs[rest[0]]
    elif verb == "delete":
        del file[path]
    elif verb == "move":
        file.move(path, rest[0])
    elif verb == "copy":
        file.copy(path, rest[0])
    elif verb == "write":
        file[path][rest[0]] = rest[1]
    elif verb == "member":
        file[path][(*rest[0], rest[1])] = rest[2]
    elif verb == "resize":
        file[path].resize(rest[0])
    else:
        raise AssertionError(verb)


def perform_writer(writer: Any, op: Op) -> None:
    """Performs an operation through a writer of the API."""
    verb, path, *rest = op
    if verb == "group":
        writer.create_group(path)
    elif verb == "dataset":
        writer.create_dataset(path, rest[0]["shape"], dtype(rest[0]["dtype"]), **keywords(rest[0]))
    elif verb == "write":
        writer[path][rest[0]] = rest[1]
    elif verb == "resize":
        writer[path].resize(rest[0])
    elif verb == "append":
        writer[path].append(rest[0])
    elif verb == "attr" and path != "/":
        inside = writer.structure
        found = writer[path] if path in writer else inside[path] if path in inside else inside.require_group(path)
        found.attrs[rest[0]] = rest[1]
    elif verb == "attr":
        writer.attrs[rest[0]] = rest[1]
    else:
        perform(hyperchunk, writer.structure, op)


class Session:
    """Requests of one connection."""

    def __init__(self) -> None:
        self.file: Any = None
        self.writer: Any = None

    def open(self, path: str, mode: str) -> None:
        """Opens a file with h5py."""
        self.file = h5py.File(path, mode)

    def begin(self, store: Any, **options: Any) -> str:
        """Starts a writer of the API."""
        self.writer = store.writer(**options)
        return self.writer.id  # type: ignore[no-any-return]

    def do(self, op: Op) -> None:
        """Performs an operation."""
        if self.writer is None:
            perform(h5py, self.file, op)
        else:
            perform_writer(self.writer, op)

    def known(self, paths: list[str]) -> list[str]:
        """Returns the names among `paths` by which an API writer has a dataset."""
        return [path for path in paths if path in self.writer]

    def shape(self, path: str) -> tuple[int, ...]:
        """Returns the extent of a dataset in this session."""
        return tuple((self.writer or self.file)[path].shape)

    def flush(self) -> bytes | None:
        """Flushes; returns an API writer's ticket."""
        return (self.writer or self.file).flush()  # type: ignore[no-any-return]

    def close(self) -> bytes | None:
        """Closes; returns an API writer's ticket."""
        return (self.writer or self.file).close()  # type: ignore[no-any-return]

    def contents(self) -> dict[str, Any]:
        """Returns the contents of the open file in this session."""
        return model_read.contents(h5py, self.file)

    def read(self, path: str) -> dict[str, Any]:
        """Returns the contents of a file as read by h5py."""
        return model_read.tree(h5py, path)

    def chdir(self, path: str) -> None:
        """Changes the working folder."""
        os.chdir(path)

    def pid(self) -> int:
        """Returns the process number."""
        return os.getpid()


def serve(connection: Connection) -> None:
    """Executes requests until the connection ends."""
    session = Session()
    while True:
        try:
            name, arguments, named = connection.recv()
        except EOFError:
            return
        try:
            answer = (True, getattr(session, name)(*arguments, **named))
        except BaseException:
            answer = (False, traceback.format_exc())
        connection.send(answer)


def prepare() -> None:
    """Imports what sessions need, which takes longer than most of them, and hides it from their garbage collectors."""
    for name in ("concurrent.futures.process", "difflib", "numpy.typing"):
        importlib.import_module(name)
    for package in (hyperchunk.store, hyperchunk.write):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def main(address: str) -> None:
    """Forks a process for each connection."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    prepare()
    with Listener(address, "AF_UNIX") as listener:
        print("ready", flush=True)
        while True:
            connection = listener.accept()
            if os.fork() == 0:
                listener.close()
                serve(connection)
                return
            connection.close()


class RemoteError(Exception):
    """An error reported by a session."""


class Remote:
    """A session in another process."""

    def __init__(self, address: str) -> None:
        self._connection = Client(address, "AF_UNIX")
        self.process: int = self("pid")

    def __call__(self, name: str, *arguments: Any, **named: Any) -> Any:
        try:
            self._connection.send((name, arguments, named))
            good, answer = self._connection.recv()
        except (EOFError, ConnectionError, BrokenPipeError) as error:
            raise RemoteError(f"{name}{arguments}: its process is gone") from error
        if not good:
            raise RemoteError(f"{name}{arguments}:\n{answer}")
        return answer

    def kill(self) -> None:
        """Kills the session."""
        os.kill(self.process, signal.SIGKILL)
        self.end()

    def end(self) -> None:
        """Ends the session in order: open files are closed at its exit. Returns when the process is gone."""
        self._connection.close()


class Zygote:
    """The program that forks sessions."""

    def __init__(self, env: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.address = str(Path(self._folder.name) / "socket")
        words = [sys.executable, __file__, self.address]
        self.errors = (Path(self._folder.name) / "stderr").open("w+")
        self._process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", Path(self.errors.name).read_text()

    def session(self) -> Remote:
        """Starts a session in a new process."""
        return Remote(self.address)

    def stop(self) -> None:
        """Ends the program; its sessions end with their connections."""
        self._process.kill()
        self._process.wait()
        self.errors.close()
        self._folder.cleanup()


if __name__ == "__main__":
    main(sys.argv[1])
