"""Web servers that ignore ranges or send encoded bytes, proxies that are not used, endpoints in AWS's files."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
import range_server
from hyperchunk.exceptions import ReadError, UnsupportedError
from hyperchunk.typing import NetworkOptions

Handler = http.server.BaseHTTPRequestHandler
Answer = Callable[[Handler, bytes], None]


def until_the_end(handler: Handler, body: bytes) -> None:
    """Sends the whole file without its length, and closes the connection."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(body)


def in_chunks(handler: Handler, body: bytes) -> None:
    """Sends the whole file in chunks of HTTP."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for start in range(0, len(body), 70_000):
        part = body[start : start + 70_000]
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
    handler.wfile.write(b"0\r\n\r\n")


def compressed(handler: Handler, body: bytes) -> None:
    """Sends the whole file, compressed."""
    packed = gzip.compress(body)
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", str(len(packed)))
    handler.end_headers()
    handler.wfile.write(packed)


def compressed_in_chunks(handler: Handler, body: bytes) -> None:
    """Sends the whole file, compressed while it is sent."""
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(gzip.compress(body))


@contextlib.contextmanager
def serve(answer: Answer, body: bytes, protocol: str) -> Iterator[str]:
    """Serves one file; yields its URL."""

    class OneFile(http.server.BaseHTTPRequestHandler):
        protocol_version = protocol

        def do_GET(self) -> None:
            answer(self, body)

        def log_message(self, *_: object) -> None:
            pass

    with range_server.Listening(("127.0.0.1", 0), OneFile) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_address[1]}/a.h5"
        finally:
            listening.shutdown()
            thread.join()


def made(path: Path, elements: int) -> bytes:
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(elements)
    return path.read_bytes()


WAYS = [(until_the_end, "HTTP/1.0"), (until_the_end, "HTTP/1.1"), (in_chunks, "HTTP/1.1")]


@pytest.mark.parametrize(("answer", "protocol"), WAYS)
@pytest.mark.parametrize("elements", [10, 1_000_000])
def test_whole_file_of_unknown_length(tmp_path: Path, answer: Answer, protocol: str, elements: int) -> None:
    body = made(tmp_path / "a.h5", elements)
    with serve(answer, body, protocol) as url, hyperchunk.open(url) as file:
        np.testing.assert_array_equal(file["x"][:], np.arange(elements))
        stats = file.stats()
        assert stats is not None
        assert stats.requests == 1


@pytest.mark.parametrize(("answer", "protocol"), WAYS)
def test_large_file_of_unknown_length(tmp_path: Path, answer: Answer, protocol: str) -> None:
    body = made(tmp_path / "a.h5", 2_000_000)
    with serve(answer, body, protocol) as url, pytest.raises(ReadError, match="ignores ranges"):
        hyperchunk.open(url)


@pytest.mark.parametrize("answer", [compressed, compressed_in_chunks])
def test_encoded_file(tmp_path: Path, answer: Answer) -> None:
    body = made(tmp_path / "a.h5", 1000)
    with serve(answer, body, "HTTP/1.1") as url, pytest.raises(UnsupportedError, match="Content-Encoding: gzip"):
        hyperchunk.open(url)


@pytest.mark.parametrize("excluded", ["*", "a.org, *", "127.0.0.1", ""])
def test_proxy_is_not_used_for_excluded_addresses(tmp_path: Path, excluded: str) -> None:
    made(tmp_path / "a.h5", 10)
    program = (
        "import sys, hyperchunk\n"
        "network = {'retries': 0}\n"
        "print(hyperchunk.open(sys.argv[1], network=network)['x'][9])\n"
        "options = {'endpoint': sys.argv[2], 'anonymous': True}\n"
        "print(hyperchunk.open('s3://files/a.h5', storage_options=options, network=network)['x'][9])\n"
    )
    proxy = "http://127.0.0.1:1"
    names = {"NO_PROXY": excluded, "no_proxy": excluded, "HTTP_PROXY": proxy, "http_proxy": proxy}
    with range_server.serve(files=tmp_path) as server:
        words = [sys.executable, "-c", program, f"{server.url}/files/a.h5", server.url]
        done = subprocess.run(words, env=os.environ | names, capture_output=True, text=True, check=False)
        assert done.stdout.split() == (["9", "9"] if excluded else [])
        assert bool(server.asked) == bool(excluded), done.stderr


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("how", ["option", "environment"])
def test_endpoint_in_a_section_of_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, general: bool, how: str
) -> None:
    made(tmp_path / "a.h5", 10)
    with range_server.serve(bucket=tmp_path) as server:
        config = tmp_path / "aws-config"
        config.write_text(
            "[profile mine]\nservices = here\naws_access_key_id = k\naws_secret_access_key = s\nregion = eu\n"
            + ("endpoint_url = http://127.0.0.1:1\n" if general else "")
            + f"[services here]\ndynamodb =\n  endpoint_url = http://127.0.0.1:1\ns3 =\n  endpoint_url = {server.url}\n"
        )
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
        if how == "environment":
            monkeypatch.setenv("AWS_PROFILE", "mine")
        options = {"profile": "mine"} if how == "option" else {}
        network: NetworkOptions = {"retries": 0}
        with hyperchunk.open("s3://bucket/a.h5", storage_options=options, network=network) as file:
            assert file["x"][9] == 9
        assert {name for name, _ in server.asked} == {"/bucket/a.h5"}
        # Options take precedence.
        before, options = len(server.asked), options | {"endpoint": "http://127.0.0.1:1"}
        with pytest.raises(ReadError):
            hyperchunk.open("s3://bucket/a.h5", storage_options=options, network=network)
        assert len(server.asked) == before
