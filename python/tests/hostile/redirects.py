"""A web server that redirects its reader to an address of the reader's machine that looks public. For the jail."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import jail

PORT = 8090
HOSTS = {"address": jail.OWN_PUBLIC, "mapped": f"[::ffff:{jail.OWN_PUBLIC}]", "loopback": "127.0.0.1"}
SECRET = b"what only this machine may read."


class Handler(BaseHTTPRequestHandler):
    """Redirects, or serves the secret."""

    def log_message(self, *_: object) -> None:
        """Suppresses logging."""

    def do_GET(self) -> None:
        """Notes the request and answers it."""
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        target = HOSTS.get(self.path.strip("/"))
        self.send_response(302 if target else 200)
        if target:
            self.send_header("Location", f"http://{target}:{PORT}/secret")
        self.send_header("Content-Length", "0" if target else str(len(SECRET)))
        self.end_headers()
        if not target:
            self.wfile.write(SECRET)


def serve(host: str, port: int) -> Any:
    """Starts a server."""
    server = ThreadingHTTPServer((host, port), Handler)
    server.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Opens each, with the default policy and, as a control, with any redirect allowed."""
    jail.require_confined()
    import hyperchunk

    inside = serve("0.0.0.0", PORT)
    outside = serve("127.0.0.1", 0)
    report: dict[str, Any] = {}
    for name in HOSTS:
        for policy in ("public", "any"):
            before = len(inside.asked)
            try:
                hyperchunk.open(f"http://127.0.0.1:{outside.server_port}/{name}", storage_options={"redirects": policy})
                said = "opened"
            except (OSError, hyperchunk.HyperchunkError) as error:
                said = str(error)
            report[f"{name} {policy}"] = [said, len(inside.asked) - before]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
