"""Datasets of objects in a store, and on a web server, that are replaced by longer ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server
from cloud.conftest import BUCKET
from hyperchunk.exceptions import ChangedError, NotFoundError


def make(path: Path, rows: int, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        data = np.arange(rows)[:, None] * 7 + np.arange(4)
        file.create_dataset("x", data=data, maxshape=(None, 4), chunks=(5, 4), **options)
    return path


def test_object_that_is_replaced(
    server: s3server.Server, proxy: s3server.Proxy, open_s3: Callable[..., hyperchunk.File], tmp_path: Path
) -> None:
    server.put(BUCKET, "grows.h5", make(tmp_path / "a.h5", 3))

    def write() -> None:
        for rows in range(4, 24):
            server.put(BUCKET, "grows.h5", make(tmp_path / "a.h5", rows, compression="gzip"))
            time.sleep(0.05)

    x = open_s3("grows.h5")["x"]
    thread = threading.Thread(target=write)
    thread.start()
    follower = x.follow(start=1, timeout=10, poll=0.02)
    blocks = 0
    for block in follower:
        first = follower.position - len(block)
        np.testing.assert_array_equal(block, np.arange(first, follower.position)[:, None] * 7 + np.arange(4))
        blocks += 1
        if follower.position == 23:
            follower.stop()
    thread.join()
    assert follower.position == 23
    assert blocks > 5
    proxy.reset()
    started = time.monotonic()
    assert list(x.follow(start=23, timeout=0.5, poll=0.1)) == []
    assert 0.4 < time.monotonic() - started < 20
    # A look at an object that has not changed is a request or two.
    assert 1 <= proxy.stats()["requests"] <= 16
    server.put(BUCKET, "grows.h5", make(tmp_path / "a.h5", 2))
    with pytest.raises(ChangedError, match="became shorter"):
        next(x.follow(start=23, poll=0.02))
    gone = x.follow(poll=0.02, patience=0.3)
    (server.folder / BUCKET / "grows.h5").unlink()
    with pytest.raises(NotFoundError, match="beyond row"):
        next(gone)


def test_file_on_a_web_server(server: s3server.Server, tmp_path: Path) -> None:
    with s3server.Proxy(None, server.folder) as web:
        server.put(BUCKET, "web.h5", make(tmp_path / "a.h5", 3))
        with hyperchunk.open(f"{web.endpoint}/{BUCKET}/web.h5", storage_options={"allow_http": True}) as file:
            follower = file["x"].follow(poll=0.02, timeout=10)
            server.put(BUCKET, "web.h5", make(tmp_path / "b.h5", 8))
            assert next(follower).tolist() == (np.arange(3, 8)[:, None] * 7 + np.arange(4)).tolist()
