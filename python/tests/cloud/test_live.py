"""Live datasets in object stores: computed locally, from fetched inputs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
import s3server
from programs import ndvi


@pytest.mark.parametrize("chunks", [None, "20x300"])
def test_values(
    chunks: str | None,
    server: s3server.Server,
    put: Callable[..., Any],
    open_s3: Callable[..., hyperchunk.File],
    attach: Callable[..., Any],
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(2)
    red, nir = (random.random((200, 300), dtype="f4") for _ in range(2))
    stored = put("bands.h5", {"chunks": (50, 100), "compression": "gzip"}, Red=red, NIR=nir)
    # The store has a hard link to it.
    path = tmp_path / "local.h5"
    path.write_bytes(stored.read_bytes())
    attach(path, "lua", ndvi("lua"), chunks=chunks)
    key = f"live-{chunks}.h5"
    server.put("tests", key, path)
    expected = ((nir.astype("f8") - red) / (nir.astype("f8") + red)).astype("f4")
    opened = open_s3(key)
    np.testing.assert_array_max_ulp(opened["NDVI"][...], expected, maxulp=1)
    again = open_s3(key, read_ahead=0)
    np.testing.assert_array_max_ulp(again["NDVI"][30:35, 7], expected[30:35, 7], maxulp=1)
    if chunks:
        # Only the inputs of the block are fetched: two chunks of 50 x 100 in each of three columns.
        assert again.stats().bytes < path.stat().st_size / 2
    values, bands = again.read_many(["NDVI", "Red"])
    assert np.array_equal(bands, red)
    with h5py.File(path) as local:
        assert np.array_equal(local["NDVI"][...], values)
