"""Flight server in a separate process, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow.flight as fl
from fresh import HYPERCHUNK


class Server:
    """`hyperchunk serve --flight` over some paths; `url` is its address."""

    def __init__(self, *paths: Path, options: tuple[str, ...] = (), token: str | None = None) -> None:
        if not any(option.startswith("--listen") for option in options):
            options = ("--listen=grpc://127.0.0.1:0", *options)
        environment = {name: value for name, value in os.environ.items() if name != "HYPERCHUNK_TOKEN"}
        if token is not None:
            environment["HYPERCHUNK_TOKEN"] = token
        elif "--no-token" not in options and not any(option.startswith("--token-file") for option in options):
            options = (*options, "--no-token")
        self.process = subprocess.Popen(
            [HYPERCHUNK, "serve", "--flight", *options, *paths],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("serving at "):
            _, message = self.process.communicate(timeout=10)
            raise RuntimeError(message)
        self.url = line.split()[-1]

    def client(self, token: str | None = None, **options: object) -> fl.FlightClient:
        """Returns a pyarrow client; with a token, all calls send it."""
        if token is not None:
            options["middleware"] = [Showing(token)]
        return fl.FlightClient(self.url, **options)

    def resident(self) -> int:
        """Returns the resident memory of the server in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stops the server; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            for pipe in (self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()

    def is_alive(self) -> bool:
        """True while the server runs."""
        time.sleep(0.01)
        return self.process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Showing(fl.ClientMiddlewareFactory):  # type: ignore[misc]
    """Sends a token with each call."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def start_call(self, info: object) -> fl.ClientMiddleware:
        """Makes the headers of a call."""
        return _Header(self.token)


class _Header(fl.ClientMiddleware):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}


def ticket(file: str = "a.h5", table: str = "particles", **more: Any) -> fl.Ticket:
    """Makes a ticket."""
    return fl.Ticket(json.dumps({"file": file, "table": table} | more))
