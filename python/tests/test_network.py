"""Time-outs and interrupts while waiting for a network."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import hyperchunk
import pytest


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


def test_passwords_are_not_shown(silent: str) -> None:
    url = silent.replace("//", "//me:secret@") + "?sig=secret"
    with pytest.raises(hyperchunk.exceptions.ReadError) as raised:
        hyperchunk.open(url, network={"timeout": 0.1, "retries": 0})
    assert "secret" not in str(raised.value)
