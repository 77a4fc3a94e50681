"""Fixtures: a real S3 server, our proxy before it, files in a bucket. Skips where Go is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server

BUCKET = "tests"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3server.Server]:
    """A real S3 server."""
    try:
        running = s3server.Server(tmp_path_factory.mktemp("s3") / "buckets")
    except s3server.UnavailableError as reason:
        pytest.skip(str(reason))
    with running:
        yield running


@pytest.fixture(scope="session")
def shared_proxy(server: s3server.Server) -> Iterator[s3server.Proxy]:
    with s3server.Proxy(server.address, server.folder) as running:
        yield running


@pytest.fixture
def proxy(shared_proxy: s3server.Proxy) -> Iterator[s3server.Proxy]:
    """The proxy before the server, without latency or faults unless a test sets some."""
    calm = {"latency": 0, "bandwidth": 0, "faults": "", "script": "", "stall": "20s", "retry_after": 0, "seed": 1}
    shared_proxy.set(**calm)
    shared_proxy.reset()
    yield shared_proxy
    shared_proxy.set(**calm)


@pytest.fixture
def put(server: s3server.Server, tmp_path: Path) -> Callable[..., Path]:
    """Makes an object of a new file: ``put("a.h5", {"chunks": …}, name=array, …)``; returns the local file."""

    def make(key: str, options: dict[str, Any] | None = None, **datasets: Any) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}-{key}"
        with h5py.File(path, "w") as file:
            for name, data in datasets.items():
                fits = options is not None and len(options["chunks"]) == np.ndim(data)
                file.create_dataset(name, data=data, **(options if options and fits else {}))
        server.put(BUCKET, key, path)
        return path

    return make


@pytest.fixture
def open_s3(proxy: s3server.Proxy) -> Iterator[Callable[..., hyperchunk.File]]:
    """Opens an object through the proxy: ``open_s3("a.h5", timeout=1)``."""
    with contextlib.ExitStack() as files:

        def start(key: str, **network: Any) -> hyperchunk.File:
            options = s3server.storage_options(proxy.endpoint)
            return files.enter_context(
                hyperchunk.open(f"s3://{BUCKET}/{key}", storage_options=options, network=network)
            )

        yield start


@pytest.fixture(scope="session")
def numbers() -> dict[str, np.ndarray]:
    """Arrays of some hundred kilobytes that compress poorly."""
    random = np.random.default_rng(4)
    return {
        "chunked": random.integers(0, 2**31, (200, 300), dtype="i4"),
        "contiguous": random.random(40_000),
        "small": np.arange(10.0),
    }
