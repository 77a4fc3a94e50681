"""Unmodified programs read objects of a bucket through the VOL connector: correctness and cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperchunk
import numpy as np
import pytest
import s3server
from vol import helpers

READ = """
    import sys
    import h5py
    import numpy as np
    with h5py.File(sys.argv[1], "r") as file:
        file.visititems(lambda name, thing: dict(thing.attrs))
        for name in sys.argv[2:]:
            np.save(name, file[name][...])
"""


def environment(proxy: s3server.Proxy) -> dict[str, str]:
    """Environment with the connector, and AWS's own variables for reaching the server."""
    keys = {"AWS_ACCESS_KEY_ID": s3server.KEY, "AWS_SECRET_ACCESS_KEY": s3server.SECRET, "AWS_REGION": s3server.REGION}
    return hyperchunk.plugins.environment() | keys | {"AWS_ENDPOINT_URL": proxy.endpoint}


def read(proxy: s3server.Proxy, url: str, *names: str, folder: Path) -> None:
    """Reads datasets into files of the folder."""
    helpers.finish(helpers.start(READ, url, *names, folder=folder, env=environment(proxy)))


@pytest.fixture
def big() -> dict[str, Any]:
    """Two arrays of some megabytes."""
    random = np.random.default_rng(2)
    return {"chunked": random.integers(0, 2**31, (1000, 1000), dtype="i4"), "contiguous": random.random(1_000_000)}


def test_objects_are_read(proxy: s3server.Proxy, put: Callable[..., Path], big: dict[str, Any], tmp_path: Path) -> None:
    groups = {f"g{number}": np.arange(3) for number in range(100)}
    put("c.h5", {"chunks": (100, 100), "compression": "gzip"}, **big, **groups)
    proxy.set(latency="20ms")
    read(proxy, "s3://tests/c.h5", *big, folder=tmp_path)
    for name, expected in big.items():
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), expected)
    # libhdf5 makes hundreds of reads; the requests are few and their rounds fewer.
    assert proxy.stats()["requests"] < 60
    assert proxy.stats()["chain"] < 30


def test_web_servers(proxy: s3server.Proxy, put: Callable[..., Path], tmp_path: Path) -> None:
    path = put("w.h5", None, x=np.arange(1000.0))
    with s3server.Proxy(None, path.parent) as web:
        read(web, f"{web.endpoint}/{path.name}", "x", folder=tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.arange(1000.0))


def test_an_object_that_changes(proxy: s3server.Proxy, put: Callable[..., Path], tmp_path: Path) -> None:
    put("v.h5", None, x=np.zeros(1_000_000))
    code = """
        import h5py, sys
        with h5py.File("s3://tests/v.h5", "r") as file:
            print(file["x"][0], flush=True)
            sys.stdin.readline()
            try:
                file["x"][500_000:]
            except OSError as error:
                print("failed:", error)
    """
    program = helpers.start(code, folder=tmp_path, env=environment(proxy))
    assert program.stdout is not None
    program.stdout.readline()
    put("v.h5", None, x=np.ones(1_000_000))
    out, err = program.communicate("go\n", timeout=60)
    assert "failed" in out, out + err


def test_credentials_that_are_wrong(proxy: s3server.Proxy, put: Callable[..., Path], tmp_path: Path) -> None:
    put("k.h5", None, x=np.zeros(3))
    env = environment(proxy) | {"AWS_SECRET_ACCESS_KEY": "another"}
    program = helpers.start(READ, "s3://tests/k.h5", folder=tmp_path, env=env)
    _, err = program.communicate(timeout=60)
    assert program.returncode != 0
    assert "s3://tests/k.h5" in err
