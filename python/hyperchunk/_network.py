"""Network access for Python functions, loaded before the sandbox closes if a profile grants it."""

from __future__ import annotations

import encodings.idna  # noqa: F401  Imported early: `ssl` would import it inside the sandbox.
import http.client
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Usual paths of a single file of the system's trusted certificates: the sandbox would keep a folder from being read.
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Network:
    """Makes connections through the host, which checks the grants of the profile."""

    def __init__(self, connect: Callable[[str], int]) -> None:
        self._connect = connect
        self._context = ssl.create_default_context()
        own = ssl.get_default_verify_paths().cafile
        for bundle in (own, *BUNDLES):
            if bundle and Path(bundle).is_file():
                self._context.load_verify_locations(bundle)
                break

    def connect(self, target: str, tls: bool | ssl.SSLContext = False) -> socket.socket:
        """Returns a connected socket for ``"host:port"``."""
        plain = socket.socket(fileno=self._connect(target))
        if not tls:
            return plain
        context = self._context if tls is True else tls
        host = target.rpartition(":")[0].strip("[]")
        try:
            return context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    def http_get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        """Returns the body of an ``http://`` or ``https://`` address. Any status but success, including a
        redirection, is an error.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"lib.http_get: {url!r} is not an http:// or https:// address")
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        connection = http.client.HTTPConnection(parts.hostname, port)
        connection.default_port = 443 if secure else 80
        connection.sock = self.connect(f"{host}:{port}", secure)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", path, headers={"User-Agent": "hyperchunk", **(headers or {})})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            more = answer.getheader("Location")
            where = f" (to {more})" if more else ""
            raise ConnectionError(f"{url}: {answer.status} {answer.reason}{where}")
        return body
