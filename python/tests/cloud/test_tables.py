"""Tables over files in an object store: equal values, in few requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import polars as pl
import pyarrow.compute as pc
import pytest
import s3server

OpenS3 = Callable[..., hyperchunk.File]
ROWS = 200_000


@pytest.fixture
def stored(server: s3server.Server, tmp_path: Path) -> dict[str, np.ndarray]:
    """A group with eight columns: contiguous, chunked, compressed."""
    random = np.random.default_rng(8)
    columns: dict[str, np.ndarray] = {}
    with h5py.File(tmp_path / "table.h5", "w") as file:
        group = file.create_group("g", track_order=True)
        for number in range(8):
            columns[f"c{number}"] = random.integers(0, 1000, ROWS).astype(("i4", "f8")[number % 2])
            options = ({}, {"chunks": (20_000,)}, {"chunks": (15_000,), "compression": "gzip"})[number % 3]
            group.create_dataset(f"c{number}", data=columns[f"c{number}"], **options)
    server.put("tests", "table.h5", tmp_path / "table.h5")
    return columns


def test_values_and_requests(stored: dict[str, np.ndarray], open_s3: OpenS3, proxy: s3server.Proxy) -> None:
    file = open_s3("table.h5")
    proxy.reset()
    table = file.table("g")
    assert table.num_rows == ROWS
    opened = proxy.stats()["requests"]
    assert opened <= 8
    assert not table.is_zero_copy
    for name, values in table.to_numpy().items():
        np.testing.assert_array_equal(values, stored[name])
    total = sum(values.nbytes for values in stored.values())
    stats = proxy.stats()
    # Few large requests, and nothing is fetched twice.
    assert stats["requests"] <= 40
    assert stats["bytes"] <= 1.3 * total


def test_columns_and_rows_are_all_that_is_fetched(
    stored: dict[str, np.ndarray], open_s3: OpenS3, proxy: s3server.Proxy
) -> None:
    file = open_s3("table.h5", gap=0, over_read=0.0)
    table = file.table("g")
    # The chunk index is fetched once.
    table.select(["c3", "c5"])[:1].to_pyarrow()
    proxy.reset()
    part = table.select(["c3", "c5"])[100_000:120_000].to_numpy()
    for name in ("c3", "c5"):
        np.testing.assert_array_equal(part[name], stored[name][100_000:120_000])
    stats = proxy.stats()
    assert stats["requests"] <= 6
    # 160 kB of the contiguous one, two or three compressed chunks of the other.
    assert stats["bytes"] < 700_000


def test_scans(stored: dict[str, np.ndarray], open_s3: OpenS3, proxy: s3server.Proxy) -> None:
    file = open_s3("table.h5")
    expected = stored["c1"][stored["c0"] > 990].sum()
    lazy = hyperchunk.scan_hyperchunk(file, "g").filter(pl.col("c0") > 990).select(pl.col("c1").sum())
    proxy.reset()
    assert lazy.collect().item() == expected
    assert proxy.stats()["bytes"] < 0.6 * sum(values.nbytes for values in stored.values())
    dataset = file.table("g").to_dataset()
    found = dataset.to_table(columns=["c1"], filter=pc.field("c0") > 990)
    assert found["c1"].to_numpy().sum() == expected
    options = s3server.storage_options(proxy.endpoint)
    lazy = hyperchunk.scan_hyperchunk("s3://tests/table.h5", "g", columns=["c0", "c7"], storage_options=options)
    np.testing.assert_array_equal(lazy.select("c7").collect()["c7"].to_numpy(), stored["c7"])


def test_faults_are_errors(stored: dict[str, np.ndarray], open_s3: OpenS3, proxy: s3server.Proxy) -> None:
    assert stored
    file = open_s3("table.h5", retries=0)
    table = file.table("g")
    reader = table.to_reader()
    proxy.set(faults="denied")
    with pytest.raises(OSError, match=r"table\.h5"):
        reader.read_all()
