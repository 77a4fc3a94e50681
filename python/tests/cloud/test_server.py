"""Checks of the tests' own server and proxy."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest
import s3server


def test_the_server_wants_a_signature(server: s3server.Server, proxy: s3server.Proxy) -> None:
    server.put("tests", "a/b.bin", b"0123456789")
    for endpoint in (server.endpoint, proxy.endpoint):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{endpoint}/tests/a/b.bin")
        caught.value.close()
        assert caught.value.code == 403
    assert proxy.stats()["requests"] == 1
    assert proxy.log()[0]["target"] == "/tests/a/b.bin"


def test_a_change_is_a_new_etag(server: s3server.Server, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"one")
    first = server.put("tests", "x", path)
    path = tmp_path / "y"
    path.write_bytes(b"two")
    assert server.put("tests", "x", path) != first
    assert server.put("tests", "x", b"one") == server.put("tests", "x", b"one") != server.put("tests", "x", b"two")


def test_settings_are_checked(proxy: s3server.Proxy) -> None:
    with pytest.raises(ValueError, match="no fault nothing"):
        proxy.set(faults="nothing:1")
