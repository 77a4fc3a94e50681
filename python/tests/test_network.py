"""Time-outs and interrupts while waiting for a network."""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import hyperchunk
import pytest
from hyperchunk.exceptions import InvalidError


@pytest.fixture
def silent() -> Iterator[str]:
    """URL of a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x.h5"


@pytest.fixture
def heard() -> Iterator[None]:
    """Enables Ctrl-C, also in background jobs of a shell, which ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_ends_it(silent: str) -> None:
    press = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    press.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hyperchunk.open(silent)
    press.join()
    assert time.monotonic() - start < 20


def test_silence_ends_it(silent: str) -> None:
    start = time.monotonic()
    with pytest.raises(hyperchunk.exceptions.ReadError, match=r"sent nothing for 0\.3 s; repeated once"):
        hyperchunk.open(silent, network={"timeout": 0.3, "retries": 1})
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", 0),
        ("timeout", float("nan")),
        ("timeout", 1e300),
        ("connect_timeout", 0),
        ("connect_timeout", -1),
        ("retries", -1),
        ("retries", 1 << 32),
        ("retry_timeout", -0.1),
        ("concurrency", 0),
        ("concurrency", 1 << 70),
        ("first_read", -1),
        ("read_ahead", -1),
        ("block", 0),
        ("gap", -1),
        ("largest_request", 0),
        ("part", 1),
        ("part", 2 << 30),
        ("parts_at_once", 0),
        ("over_read", -1),
        ("over_read", float("nan")),
    ],
)
def test_settings_out_of_range(name: str, value: float) -> None:
    network: Any = {name: value}
    expected = rf"network setting `{name}`: expected .* from .* to .*, got {re.escape(repr(value))}"
    with pytest.raises(InvalidError, match=expected):
        hyperchunk.open("http://127.0.0.1:1/x.h5", network=network)


@pytest.mark.parametrize(
    ("name", "value"),
    [("timeout", "1 s"), ("retries", 1.5), ("block", "1MiB"), ("part", None), ("over_read", "0.9")],
)
def test_settings_of_a_wrong_type(name: str, value: object) -> None:
    network: Any = {name: value}
    with pytest.raises(TypeError, match=rf"network setting `{name}`: expected .*, got {re.escape(repr(value))}"):
        hyperchunk.open("http://127.0.0.1:1/x.h5", network=network)


def test_passwords_are_not_shown(silent: str) -> None:
    url = silent.replace("//", "//me:secret@") + "?sig=secret"
    with pytest.raises(hyperchunk.exceptions.ReadError) as raised:
        hyperchunk.open(url, network={"timeout": 0.1, "retries": 0})
    assert "secret" not in str(raised.value)
