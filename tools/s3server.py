"""A real S3 server on this machine, and our proxy in front of it, for tests, measurements and the demo.

    .venv/bin/python tools/s3server.py build                             # once; minutes
    .venv/bin/python tools/s3server.py serve FOLDER [--latency 25ms …]   # until interrupted

The server is versitygw (Apache-2.0), built by `go install` into the cache folder; a bucket is a folder, an object
a file. The proxy is `tools/s3proxy`: latency, bandwidth, faults, counts. Standard library only."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import native

VERSION = "v1.8.0"
MODULE = "github.com/versity/versitygw/cmd/versitygw"
KEY, SECRET, REGION = "benchkey", "benchsecret", "us-east-1"
ROOT = Path(__file__).resolve().parent.parent


class UnavailableError(Exception):
    """The S3 server or its proxy cannot run on this machine."""


def cache() -> Path:
    """Returns the folder for results of long builds."""
    folder = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(folder) / "hyperchunk"


def server_program() -> Path:
    """Returns the path of versitygw, built or not."""
    return cache() / f"go-versitygw-{VERSION}" / "versitygw"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a folder, so that only one process builds into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_server(*, timeout: float = 1800) -> Path:
    """Builds versitygw if necessary."""
    program = server_program()
    if program.exists():
        return program
    with locked(program.parent):
        if program.exists():
            return program
        go = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/go/bin"]))
        if go is None:
            raise UnavailableError("Go is not installed: no S3 server for tests (https://go.dev/dl, 1.25 or newer)")
        print(f"s3server: building versitygw {VERSION}, once (3 to 7 minutes)", file=sys.stderr, flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            command = ["nice", go, "install", "-trimpath", "-ldflags=-s -w", f"{MODULE}@{VERSION}"]
            env = os.environ | {"GOBIN": folder}
            try:
                done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)
            except subprocess.TimeoutExpired:
                raise UnavailableError(f"versitygw was not built within {timeout:.0f} s") from None
            if done.returncode != 0:
                raise UnavailableError(f"the build of versitygw failed: {' / '.join(done.stderr.splitlines()[-3:])}")
            (Path(folder) / program.name).replace(program)
        print(f"s3server: built in {time.monotonic() - start:.0f} s", file=sys.stderr)
    return program


def build_proxy() -> Path:
    """Builds the proxy if it is not up to date."""
    env = native.environment()
    command = ["cargo", "build", "--quiet", "--release", "--locked", "-p", "hyperchunk-s3proxy"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"the build of the proxy failed: {done.stderr}")
    return Path(env["CARGO_TARGET_DIR"]) / "release" / "hyperchunk-s3proxy"


class Running:
    """A program that runs until the end of a `with` block."""

    process: subprocess.Popen[str]

    def close(self) -> None:
        """Stops the program."""
        self.process.terminate()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Server(Running):
    """versitygw over a folder: `folder/BUCKET/KEY`. Its metadata are in a folder beside it, so that any file
    system works."""

    def __init__(self, folder: Path) -> None:
        program = server_program()
        if not program.exists():
            raise UnavailableError("versitygw is not built: run tools/s3server.py build")
        self.folder = folder
        self.meta = folder.with_name(f"meta of {folder.name}")
        log = folder.with_name(f"log of {folder.name}")
        for needed in (folder, self.meta):
            needed.mkdir(parents=True, exist_ok=True)
        for _ in range(5):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.address = f"127.0.0.1:{free.getsockname()[1]}"
            env = os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
            # The server shares this machine's cores with the readers: allocating a MiB for each request, and
            # garbage collection, would take most of the measured time.
            env |= {"GOGC": "off", "GOMEMLIMIT": "256MiB"}
            # With `setpriv`, the server ends with this process, even if this process is killed.
            command = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
            command += [str(program), "--quiet", "--keep-alive", "--region", REGION, "--port", self.address]
            command += ["posix", "--io-buffer-size", "65536", "--sidecar", str(self.meta), str(folder)]
            with log.open("w") as to:
                self.process = subprocess.Popen(command, env=env, stdout=to, stderr=to, text=True)
            if self.answers():
                return
            self.close()
        raise UnavailableError(f"versitygw did not start: {log.read_text()}")

    @property
    def endpoint(self) -> str:
        """URL of the server."""
        return f"http://{self.address}"

    def answers(self) -> bool:
        """Waits until the server answers; returns False if it has ended."""
        for _ in range(400):
            try:
                urllib.request.urlopen(self.endpoint, timeout=1).close()
            except urllib.error.HTTPError as refused:  # expected without a signature
                refused.close()
                return True
            except OSError:
                if self.process.poll() is not None:
                    return False
                time.sleep(0.025)
        return False

    def put(self, bucket: str, key: str, source: Path | bytes) -> str:
        """Creates an object from a file, by a hard link if possible, or from bytes; returns its ETag."""
        target = self.folder / bucket / key
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.fresh")
        fresh.unlink(missing_ok=True)
        if isinstance(source, bytes):
            fresh.write_bytes(source)
            digest = hashlib.md5(source, usedforsecurity=False).hexdigest()
        else:
            try:
                fresh.hardlink_to(source)
            except OSError:
                shutil.copyfile(source, fresh)
            about = source.stat()
            name = f"{about.st_size} {about.st_mtime_ns} {about.st_ino}"
            digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
        meta = self.meta / bucket / key / "meta"
        meta.mkdir(parents=True, exist_ok=True)
        (meta / "etag").write_text(f'"{digest}"')
        fresh.replace(target)
        return digest


class Proxy(Running):
    """Our proxy in front of a server, or a plain web server for a folder."""

    def __init__(
        self, upstream: str | None, folder: Path | None = None, program: Path | None = None, **settings: object
    ):
        command = [str(program or build_proxy()), "--until-stdin-ends"]
        command += [] if upstream is None else ["--upstream", upstream]
        command += [] if folder is None else ["--folder", str(folder)]
        for name, value in settings.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise UnavailableError("the proxy did not start")

    @property
    def endpoint(self) -> str:
        """URL of the proxy."""
        return f"http://{self.address}"

    def ask(self, path: str) -> Any:
        """Returns the JSON answer of a control path."""
        try:
            with urllib.request.urlopen(f"{self.endpoint}/{path}", timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                raise ValueError(refused.read().decode()) from None

    def set(self, **settings: object) -> None:
        """Changes settings: `latency="25ms"`, `bandwidth=80`, `faults="503:0.1"`, `script="ok,429"` …."""
        pairs = {name.replace("_", "-"): str(value) for name, value in settings.items()}
        self.ask(f"__set?{urllib.parse.urlencode(pairs)}")

    def reset(self) -> None:
        """Resets counts and log."""
        self.ask("__reset")

    def stats(self) -> dict[str, int]:
        """Returns the counts since the last reset."""
        counts: dict[str, int] = self.ask("__stats")
        return counts

    def log(self) -> list[dict[str, Any]]:
        """Returns every request since the last reset."""
        entries: list[dict[str, Any]] = self.ask("__log")
        return entries


def storage_options(endpoint: str) -> dict[str, Any]:
    """Returns the options of `hyperchunk.open` for our server."""
    return {"endpoint": endpoint, "key": KEY, "secret": SECRET, "region": REGION, "allow_http": True}


def serve(arguments: argparse.Namespace) -> None:
    """Runs the server and the proxy until interrupted."""
    settings = {
        name: getattr(arguments, name) for name in ("latency", "bandwidth", "faults") if getattr(arguments, name)
    }
    with (
        Server(arguments.folder) as server,
        Proxy(server.address, arguments.folder, listen=arguments.listen, **settings) as proxy,
        contextlib.suppress(KeyboardInterrupt),
    ):
        print(f"server {server.endpoint}\nproxy  {proxy.endpoint}\nkey    {KEY}\nsecret {SECRET}", flush=True)
        server.process.wait()


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    building = commands.add_parser("build", help="builds server and proxy")
    building.set_defaults(run=lambda _: (build_server(), build_proxy()))
    serving = commands.add_parser("serve", help="starts both over a folder of buckets")
    serving.add_argument("folder", type=Path)
    serving.add_argument("--listen", default="127.0.0.1:0")
    serving.add_argument("--latency", default="0")
    serving.add_argument("--bandwidth")
    serving.add_argument("--faults")
    serving.set_defaults(run=serve)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except UnavailableError as reason:
        sys.exit(f"s3server: {reason}")


if __name__ == "__main__":
    main()
