"""Granted connections of functions, in each language; others are refused."""

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import pytest
from people import A, Person, read, refused

# A web server that also speaks a line protocol; a separate process, since h5py holds the GIL.
SERVER = """
import socket, ssl, sys, threading, time

def answer(connection):
    request = connection.recv(4096)
    if request.startswith(b"GET /slow"):
        time.sleep(60)
    elif request.startswith(b"GET /moved"):
        connection.sendall(b"HTTP/1.1 302 Found\\r\\nLocation: http://127.0.0.1:1/\\r\\nContent-Length: 0\\r\\n\\r\\n")
    elif request.startswith(b"GET "):
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n42")
    elif request:
        connection.sendall(b"first line\\r\\n41.5\\n")
    connection.close()

server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
context = None
if sys.argv[1:]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[1:])
count = 0
while True:
    connection, _ = server.accept()
    if context:
        try:
            connection = context.wrap_socket(connection, server_side=True)
        except OSError:
            continue
    threading.Thread(target=answer, args=(connection,), daemon=True).start()
"""
SOURCES = {
    "py": """
def dynamic_dataset():
    connection = lib.connect("{target}")
    connection.sendall(b"hello\\n")
    with connection.makefile("rb") as lines:
        assert lines.readline() == b"first line\\r\\n"
        lib.getData("out")[0] = float(lines.readline()) + 0.5
""",
    "lua": """
function dynamic_dataset()
  local connection = lib.connect("{target}")
  connection:send("hello\\n")
  assert(connection:receive("*l") == "first line")
  assert(connection:receive(3) == "41.")
  lib.getData("out")[1] = 37 + tonumber(connection:receive("*l"))
  assert(connection:receive("*l") == nil and connection:receive(1) == nil and connection:receive("*a") == "")
  connection:close()
end
""",
    "cpp": """
#include <sys/socket.h>
#include <unistd.h>
extern "C" void dynamic_dataset() {{
    int fd = lib.connect("{target}");
    char text[64] = {{0}};
    if (write(fd, "hello\\n", 6) != 6) throw std::runtime_error("write");
    for (ssize_t n = 0, more = 1; more > 0; n += more)
        if ((more = recv(fd, text + n, sizeof text - 1 - n, 0)) < 0) throw std::runtime_error("recv");
    close(fd);
    lib.getData<double>("out")[0] = atof(strchr(text, '\\n')) + 0.5;
}}
""",
}


@contextlib.contextmanager
def serving(*arguments: object) -> Iterator[int]:
    """Starts a server on the loopback; yields its port."""
    words = [sys.executable, "-c", SERVER, *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline())
        finally:
            server.kill()


@pytest.fixture
def port() -> Iterator[int]:
    """Port of a server on the loopback."""
    with serving() as number:
        yield number


@pytest.fixture
def trusted(ada: Person, command: Any, profile: Any) -> Any:
    """Puts Ada's key into a profile `lab` with these lines."""

    def trust(text: str) -> None:
        profile("lab", text)
        command("trust", "move", ada.fingerprint, "lab")
        assert command("trust", "add", ada.fingerprint, "--profile", "lab").returncode == 0

    return trust


@pytest.mark.parametrize("language", ["py", "lua", "cpp"])
def test_a_granted_endpoint_is_connected_and_no_other(
    language: str, ada: Person, adas: Any, command: Any, profile: Any, port: int
) -> None:
    path = adas(language, SOURCES[language].format(target=f"127.0.0.1:{port}"))
    assert command("trust", "add", ada.fingerprint, "--profile", "default").returncode == 0
    refused(path, "the profile grants no connections", "profile default")
    profile("lab", f"[grant]\nconnect = ['127.0.0.1:{port}']")
    assert command("trust", "move", ada.fingerprint, "lab").returncode == 0
    assert read(path)[0] == 42
    with hyperchunk.open(path) as file:
        assert file["out"][0] == 42
    for other in (f"127.0.0.1:{port + 1}", f"localhost:{port}", f"127.0.0.2:{port}"):
        profile("lab", f"[grant]\nconnect = ['{other}']")
        refused(path, f"profile lab does not grant 127.0.0.1:{port}", "connect")
    told = command("udf", "explain", f"{path}:/out").stdout
    assert f"connect to 127.0.0.2:{port}" in told
    profile("lab", "")
    refused(path, "the profile grants no connections")
    assert command("trust", "rm", ada.fingerprint).returncode == 0
    if language != "cpp":
        refused(path, "the profile grants no connections", "profile untrusted")


def test_http(adas: Any, trusted: Any, port: int) -> None:
    text = f"""
def dynamic_dataset():
    out = lib.getData("out")
    out[0] = float(lib.http_get("http://127.0.0.1:{port}/value?a=b"))
    for url, reason in (
        ("http://127.0.0.1:{port}/moved", "302"),
        ("http://127.0.0.1:{port + 1}/", "does not grant"),
        ("ftp://127.0.0.1:{port}/", "not an http"),
    ):
        try:
            lib.http_get(url)
        except (ConnectionError, ValueError) as error:
            assert reason in str(error), error
        else:
            raise AssertionError(url)
"""
    path = adas("py", text)
    trusted(f"[grant]\nconnect = ['127.0.0.1:{port}']")
    assert read(path)[0] == 42


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_tls(adas: Any, trusted: Any, data: Path) -> None:
    make = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    files = [data / "key.pem", data / "cert.pem"]
    subprocess.run(["openssl", *make.split(), "-keyout", files[0], "-out", files[1]], check=True, capture_output=True)
    with serving(files[1], files[0]) as port:
        text = f"""
def dynamic_dataset():
    import ssl

    context = ssl.create_default_context(cafile={str(files[1])!r})
    connection = lib.connect("localhost:{port}", tls=context)
    connection.settimeout(5)
    connection.sendall(b"hello\\n")
    lib.getData("out")[0] = float(connection.makefile("rb").read().split()[-1])
    try:
        lib.connect("localhost:{port}", tls=True)
    except ssl.SSLError as error:
        assert "CERTIFICATE_VERIFY_FAILED" in str(error), error
        return
    raise AssertionError("an unknown certificate was taken")
"""
        path = adas("py", text)
        trusted(f"[grant]\nconnect = ['localhost:{port}']\nread = ['{files[1]}']")
        assert read(path)[0] == 41.5


def test_connections_take_of_the_functions_time(adas: Any, trusted: Any, port: int) -> None:
    text = f"""
def dynamic_dataset():
    lib.http_get("http://127.0.0.1:{port}/slow")
"""
    path = adas("py", text)
    trusted(f"[grant]\nconnect = ['127.0.0.1:{port}']\n[limits]\nwall_s = 2")
    start = time.monotonic()
    refused(path, "longer than the limit of 2 s")
    assert time.monotonic() - start < 20


def test_a_server_that_is_not_there(adas: Any, trusted: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    text = f"""
def dynamic_dataset():
    try:
        lib.connect("127.0.0.1:{port}")
    except ConnectionError as error:
        assert "refused" in str(error), error
        lib.getData("out")[0] = 3
"""
    path = adas("py", text)
    trusted(f"[grant]\nconnect = ['127.0.0.1:{port}']")
    assert read(path)[0] == 3


def test_connections_are_made_while_the_function_runs(tmp_path: Path, source: Any, config: Path, port: int) -> None:
    own = config / "hyperchunk" / "profiles" / "self" / "profile.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(f"version = 1\n[grant]\nconnect = ['127.0.0.1:{port}']\n")
    path = tmp_path / "early.h5"
    with h5py.File(path, "w") as file:
        file["a"] = A
    early = source("py", f'lib.connect("127.0.0.1:{port}")\ndef dynamic_dataset():\n    lib.getData("out")[0] = 1\n')
    with pytest.raises(hyperchunk.exceptions.UdfError, match="while dynamic_dataset runs"):
        hyperchunk.udf.attach(path, early, "out:1:double")
    text = f"""
kept = []

def dynamic_dataset():
    if not kept:
        kept.append(lib.connect("127.0.0.1:{port}"))
        kept[0].sendall(b"hello")
        kept.append(float(kept[0].makefile("rb").read().split()[-1]))
    lib.array("out")[...] = kept[1]
"""
    hyperchunk.udf.attach(path, source("py", text), "out:8:double", chunks=(2,))
    with h5py.File(path) as file:
        assert file["out"][...].tolist() == [41.5] * 8
