"""A web server on this machine that answers range requests, counts them, and takes results that pages send."""

from __future__ import annotations

import contextlib
import http.server
import queue
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TYPES = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"}


@dataclass
class RangeServer:
    """Folders by the first part of a path, texts by their path, and what was asked for."""

    folders: dict[str, Path]
    pages: dict[str, str] = field(default_factory=dict)
    #: Path and range of each request, in bytes; ``None`` for a request without a range.
    asked: list[tuple[str, tuple[int, int] | None]] = field(default_factory=list)
    #: Texts that pages sent.
    results: queue.Queue[str] = field(default_factory=queue.Queue)
    #: Ignores ranges, as simple servers do.
    no_ranges: bool = False
    #: Versions of files that differ from the one on disk.
    versions: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def requests(self, name: str) -> list[tuple[int, int] | None]:
        """Returns the ranges that were asked of a file."""
        return [asked for path, asked in self.asked if path == name]


def handler(server: RangeServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_POST(self) -> None:
            server.results.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.answer(200, b"", {})

        def do_GET(self) -> None:
            name = self.path.partition("?")[0]
            if name in server.pages:
                self.answer(
                    200, server.pages[name].encode(), {"Content-Type": TYPES.get(Path(name).suffix, "text/html")}
                )
                return
            first, _, rest = name.strip("/").partition("/")
            path = server.folders.get(first, Path("/nowhere")) / rest
            if not path.is_file():
                server.asked.append((name, None))
                self.answer(404, b"", {})
                return
            size = path.stat().st_size
            wanted = None if server.no_ranges else re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            start, last = (int(wanted[1]), min(int(wanted[2]), size - 1)) if wanted else (0, size - 1)
            server.asked.append((name, (start, last + 1) if wanted else None))
            with path.open("rb") as file:
                file.seek(start)
                body = file.read(last + 1 - start)
            headers = {
                "Content-Type": TYPES.get(path.suffix, "application/octet-stream"),
                "ETag": server.versions.get(name, f'"{path.stat().st_mtime_ns:x}"'),
            }
            if wanted:
                headers["Content-Range"] = f"bytes {start}-{last}/{size}"
            self.answer(206 if wanted else 200, body, headers)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class Listening(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Ignores connections that a client drops: the tests look at the client."""


@contextlib.contextmanager
def serve(**folders: Path) -> Iterator[RangeServer]:
    """Serves folders on a free port until the block ends."""
    server = RangeServer(folders)
    with Listening(("127.0.0.1", 0), handler(server)) as listening:
        server.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
