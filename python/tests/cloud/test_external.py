"""References from a file on a web server to other files."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import h5py
import hyperchunk
import pytest
from hyperchunk.exceptions import InvalidError

SECRET = b"what only this machine may read."


class Handler(BaseHTTPRequestHandler):
    """Serves bytes by path, and redirects."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes | str]

    def log_message(self, *_: object) -> None:
        """Suppresses logging."""

    def do_GET(self) -> None:
        """Returns a range, or a redirect."""
        found = self.files.get(self.path)
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if not isinstance(found, bytes):
            self.send_response(302 if found else 404)
            if found:
                self.send_header("Location", found)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start, end = self.headers["Range"].removeprefix("bytes=").split("-")
        part = found[int(start) : int(end) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{int(start) + len(part) - 1}/{len(found)}")
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)


def serve(files: dict[str, bytes | str]) -> ThreadingHTTPServer:
    """Starts a server of these files."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"files": files}))
    server.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def inside() -> Iterator[ThreadingHTTPServer]:
    """A service that only this machine can reach."""
    server = serve({"/secret": SECRET})
    yield server
    server.shutdown()
    server.server_close()


def leading(path: Path, target: str) -> bytes:
    """Makes a file whose data are external."""
    with h5py.File(path, "w") as file:
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_external(target.encode(), 0, len(SECRET))
        space = h5py.h5s.create_simple((len(SECRET),))
        h5py.h5d.create(file.id, b"in", h5py.h5t.STD_U8LE, space, create)
    return path.read_bytes()


@pytest.mark.parametrize("external", ["anywhere", "beside"])
def test_redirects_do_not_lead_inside(tmp_path: Path, inside: ThreadingHTTPServer, external: str) -> None:
    there = f"http://127.0.0.1:{inside.server_port}/secret"
    files: dict[str, bytes | str] = {
        "/d/a.h5": leading(tmp_path / "a.h5", "raw"),
        "/d/raw": there,
        "/d/b.h5": leading(tmp_path / "b.h5", "by_name"),
        "/d/by_name": there.replace("127.0.0.1", "localhost"),
        "/d/c.h5": leading(tmp_path / "c.h5", "round"),
        "/d/round": "/d/round",
        "/d/d.h5": there,
    }
    server = serve(files)
    url = f"http://127.0.0.1:{server.server_port}/d"
    for name in ("a.h5", "b.h5", "c.h5", "d.h5"):
        with pytest.raises(InvalidError, match="redirect"):
            hyperchunk.open(f"{url}/{name}", external=external)["in"][...]
    assert inside.asked == []  # type: ignore[attr-defined]
    assert server.asked.count("/d/round") == 1  # type: ignore[attr-defined]
    # Control: with redirects allowed, it is read.
    file = hyperchunk.open(f"{url}/a.h5", external=external, storage_options={"redirects": "any"})
    assert bytes(file["in"][...]) == SECRET
    server.shutdown()
    server.server_close()


def test_beside_is_not_above(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {"/secret/raw": SECRET, "/d/sub/raw": SECRET}
    server = serve(files)
    url = f"http://127.0.0.1:{server.server_port}/d"
    for number, (target, allowed) in enumerate(
        [("../secret/raw", False), ("sub/../../secret/raw", False), ("sub/raw", True)]
    ):
        files[f"/d/{number}.h5"] = leading(tmp_path / f"{number}.h5", target)
        assert bytes(hyperchunk.open(f"{url}/{number}.h5")["in"][...]) == SECRET
        file = hyperchunk.open(f"{url}/{number}.h5", external="beside")
        if allowed:
            assert bytes(file["in"][...]) == SECRET
        else:
            with pytest.raises(InvalidError, match="outside this file's folder"):
                file["in"][...]
    server.shutdown()
    server.server_close()


def test_objects_of_other_files_are_pickled_as_their_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["link"] = h5py.ExternalLink("b.h5", "/x")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = [7, 8, 9]
    server = serve({f"/d/{name}": (tmp_path / name).read_bytes() for name in ("a.h5", "b.h5")})
    url = f"http://127.0.0.1:{server.server_port}/d"
    # A local file at the path that is left of a URL without one of its slashes.
    decoy = tmp_path / "decoy" / f"http:/127.0.0.1:{server.server_port}/d"
    decoy.mkdir(parents=True)
    with h5py.File(decoy / "b.h5", "w") as file:
        file["x"] = [666]
    monkeypatch.chdir(tmp_path / "decoy")
    with hyperchunk.open(f"{url}/a.h5") as opened:
        found = opened["link"]
        assert found.file.filename == f"{url}/b.h5"
        for copy in (pickle.loads(pickle.dumps(found)), pickle.loads(pickle.dumps(found.file))["x"]):
            assert copy[...].tolist() == [7, 8, 9]
    server.shutdown()
    server.server_close()
