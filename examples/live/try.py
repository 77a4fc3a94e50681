"""Tries the functions in `sources/`: makes their inputs, attaches them, reads the datasets, compares with the source.

    python examples/live/try.py [csv|geotiff|postgres|http|reproject …] [--folder FOLDER]

Everything happens in one folder, with a separate key and profile: your keys and profiles are not touched. Servers
are started on the loopback and stopped again. An example reports a missing requirement (exit status 77 if all do).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np

SOURCES = Path(__file__).resolve().parent / "sources"
COMMAND = [sys.executable, "-c", "from hyperchunk._command import main; main()"]
FEED = """
import http.server, json

class Feed(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        Feed.count += 1
        rows = [{"station": s, "count": Feed.count, "temperature": n + Feed.count / 8} for n, s in enumerate("ABC")]
        body = json.dumps(rows).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Feed)
print(server.server_port, flush=True)
server.serve_forever()
"""


class MissingError(Exception):
    """A requirement of an example is missing."""


def need(*modules: str) -> None:
    """Raises an error if one of these modules cannot be imported."""
    lacking = [m for m in modules if importlib.util.find_spec(m) is None]
    if lacking:
        raise MissingError(f"pip install {' '.join(lacking)}")


def grant(**lists: list[Any]) -> None:
    """Writes the grants for functions signed with this folder's key."""
    lines = [f"{key} = {json.dumps([str(v) for v in values])}" for key, values in lists.items()]
    profile = Path(os.environ["XDG_CONFIG_HOME"], "hyperchunk", "profiles", "self", "profile.toml")
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text("\n".join(["version = 1", "[grant]", *lines, ""]))


def new_file(folder: Path, **datasets: Any) -> Path:
    """Makes an HDF5 file with these datasets."""
    path = folder / "live.h5"
    with h5py.File(path, "w") as file:
        for name, data in datasets.items():
            file[name] = data
    return path


def values(path: Path, name: str) -> Any:
    """Returns a dataset's values, read by h5py and by Hyperchunk's own reader, which must agree."""
    with hyperchunk.open(path) as file:
        own = file[name][...]
    with h5py.File(path) as file:
        data = file[name][...]
    if name != "Latest":
        np.testing.assert_array_equal(data, own)
    return data


def from_csv(folder: Path) -> str:
    """Reads a CSV file as a live dataset."""
    rows = [(n, f"Station {n}, Nürnberg", 49 + n / 100, 11 - n / 100) for n in range(200)]
    with (folder / "stations.csv").open("w", newline="", encoding="utf-8") as text:
        csv.writer(text).writerows([("id", "name", "latitude", "longitude"), *rows])
    path = new_file(folder)
    grant(read=[folder])
    members = "id:uint16,name:string(24),latitude:double,longitude:double"
    hyperchunk.udf.attach(path, SOURCES / "from_csv.py", f"Stations:{{{members}}}:{len(rows)}")
    stations = values(path, "Stations")
    assert [(int(s["id"]), s["name"].decode(), s["latitude"], s["longitude"]) for s in stations] == rows
    return f"{len(rows)} rows; the first: {stations[0]}"


def from_geotiff(folder: Path) -> str:
    """Reads a GeoTIFF as live datasets."""
    need("tifffile")
    import tifffile

    pixels = np.add.outer(np.arange(120), np.arange(160)).astype("i2")
    tags = [(33550, "d", 3, (30.0, 30.0, 0.0), True), (33922, "d", 6, (0.0, 0.0, 0.0, 600000.0, 5500000.0, 0.0), True)]
    tifffile.imwrite(folder / "elevation.tif", pixels, extratags=tags, compression="zlib", tile=(64, 64))
    path = new_file(folder)
    grant(read=[folder], imports=["tifffile"])
    hyperchunk.udf.attach(path, SOURCES / "from_geotiff.py", ["elevation:120x160:int16", "transform:6:double"])
    np.testing.assert_array_equal(values(path, "elevation"), pixels)
    transform = values(path, "transform").tolist()
    assert transform == [600000.0, 30.0, 0.0, 5500000.0, 0.0, -30.0]
    return f"120 x 160 pixels, the upper left corner at {transform[0]:.0f} E, {transform[3]:.0f} N"


def from_http(folder: Path) -> str:
    """Reads a live feed: each read of the dataset returns the service's current data."""
    with subprocess.Popen([sys.executable, "-c", FEED], stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            server = f"127.0.0.1:{service.stdout.readline().strip()}"
            path = new_file(folder, server=np.array([server], "S40"))
            grant(connect=[server])
            members = "station:string(8),count:uint32,temperature:float"
            hyperchunk.udf.attach(path, SOURCES / "from_http.py", f"Latest:{{{members}}}:3")
            counts = []
            for _ in range(3):
                latest = values(path, "Latest")
                counts.append(int(latest["count"][0]))
                assert latest["station"].tolist() == [b"A", b"B", b"C"]
                assert latest["temperature"].tolist() == [n + counts[-1] / 8 for n in range(3)]
            assert counts == sorted(set(counts))
            with urllib.request.urlopen(f"http://{server}/latest") as answer:
                assert json.load(answer)[0]["count"] == counts[-1] + 1
        finally:
            service.kill()
    return f"read three times, reports number {', '.join(map(str, counts))}"


def reproject(folder: Path) -> str:
    """Reprojects a grid."""
    need("pyproj")
    import pyproj

    lon, lat = np.linspace(10, 20, 101), np.linspace(55, 45, 101)
    x, y = np.arange(300_000, 700_000, 10_000.0), np.arange(5_900_000, 5_200_000, -10_000.0)
    # Bilinear interpolation is exact for this one.
    path = new_file(folder, temperature=np.add.outer(3 * lat, -2 * lon), lon=lon, lat=lat, x=x, y=y)
    grant(read=[pyproj.datadir.get_data_dir()], imports=["pyproj"])
    hyperchunk.udf.attach(path, SOURCES / "reproject.py", f"utm:{y.size}x{x.size}:double")
    utm = values(path, "utm")
    there = pyproj.Transformer.from_crs("EPSG:32633", "EPSG:4326", always_xy=True)
    longitude, latitude = there.transform(*np.meshgrid(x, y))
    np.testing.assert_allclose(utm, 3 * latitude - 2 * longitude, atol=1e-9)
    off = np.abs(utm - (3 * latitude - 2 * longitude)).max()
    return f"{y.size} x {x.size} points of UTM zone 33, as pyproj says to within {off:.1e}"


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Any]:
    """Starts a PostgreSQL server for this example; yields a function that runs a statement, and the port."""
    found = [shutil.which("initdb"), *map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    initdb = next((Path(f).resolve() for f in reversed(found) if f), None)
    if initdb is None or shutil.which("psql") is None:
        raise MissingError("a PostgreSQL server (Debian: apt-get install postgresql)")
    # PostgreSQL refuses to run as root.
    user: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    base = Path(tempfile.mkdtemp(prefix="hyperchunk-pg-"))
    if user:
        os.chown(base, 65534, 65534)
    password = secrets.token_hex(8)
    (base / "password").write_text(password)
    (base / "password").chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    more = {"cwd": base, "check": True, "capture_output": True, **user}
    words = [initdb, "-D", base / "data", "-U", "reader", "-A", "scram-sha-256", "--pwfile", base / "password", "-N"]
    subprocess.run(list(map(str, [*words, "--locale=C", "-E", "UTF8"])), **more)
    settings = f"port={port} listen_addresses=127.0.0.1 unix_socket_directories= fsync=off max_connections=10".split()
    options = [word for setting in settings for word in ("-c", setting)]
    server = subprocess.Popen(
        [str(initdb.with_name("postgres")), "-D", str(base / "data"), *options],
        cwd=base,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **user,
    )
    (folder / "pgpass").write_text(f"127.0.0.1:{port}:postgres:reader:{password}\n")
    (folder / "pgpass").chmod(0o600)

    def run(statement: str) -> str:
        words = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "reader", "-d", "postgres", "-qAtc", statement]
        environment = os.environ | {"PGPASSFILE": str(folder / "pgpass")}
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout

    try:
        for attempt in range(100):
            try:
                run("SELECT 1")
                break
            except subprocess.CalledProcessError:
                if attempt == 99 or server.poll() is not None:
                    raise
                time.sleep(0.1)
        yield run, port
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
        shutil.rmtree(base, ignore_errors=True)


def from_postgres(folder: Path) -> str:
    """Reads a table of a PostgreSQL server as a live dataset."""
    need("pg8000")
    with postgres(folder) as (run, port):
        run("CREATE TABLE quakes (id integer, place text, magnitude double precision)")
        run("INSERT INTO quakes SELECT n, 'Place ' || n || ' ä', n / 16.0 FROM generate_series(1, 100) n")
        server = f"127.0.0.1:{port}"
        path = new_file(folder, server=np.array([server], "S40"))
        grant(read=[folder], connect=[server], imports=["pg8000.native"])
        members = "id:int32,place:string(24),magnitude:double"
        hyperchunk.udf.attach(path, SOURCES / "from_postgres.py", f"Quakes:{{{members}}}:100")

        def same() -> Any:
            table = [r.split("|") for r in run("SELECT * FROM quakes ORDER BY id LIMIT 100").splitlines()]
            quakes = values(path, "Quakes")
            assert [(str(q["id"]), q["place"].decode(), float(q["magnitude"])) for q in quakes] == [
                (number, place, float(magnitude)) for number, place, magnitude in table
            ]
            return quakes[0]

        before = same()
        run("UPDATE quakes SET magnitude = 9.5, place = 'Valdivia' WHERE id = 1")
        after = same()
    return f"100 rows; the first was {before}, and after an UPDATE is {after}"


EXAMPLES = {
    "csv": from_csv,
    "geotiff": from_geotiff,
    "postgres": from_postgres,
    "http": from_http,
    "reproject": reproject,
}


def main() -> int:
    """Runs the requested examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", nargs="*", metavar="EXAMPLE", help=", ".join(EXAMPLES))
    parser.add_argument("--folder", type=Path, help="where to make the files (else a new temporary folder)")
    asked = parser.parse_args()
    unknown = set(asked.example) - set(EXAMPLES)
    if unknown:
        parser.error(f"there is no example {', '.join(sorted(unknown))}")
    base = (asked.folder or Path(tempfile.mkdtemp(prefix="hyperchunk-live-"))).resolve()
    os.environ["XDG_CONFIG_HOME"] = str(base / "config")
    hyperchunk.plugins.enable()
    subprocess.run([*COMMAND, "key", "new"], check=True, capture_output=True)
    names = asked.example or list(EXAMPLES)
    missing = 0
    for name in names:
        folder = base / name
        folder.mkdir(parents=True)
        try:
            print(f"{name}: {EXAMPLES[name](folder)}\n  {folder / 'live.h5'}", flush=True)
        except MissingError as what:
            missing += 1
            print(f"{name}: left out, it needs: {what}", flush=True)
    return 77 if missing == len(names) else 0


if __name__ == "__main__":
    sys.exit(main())
