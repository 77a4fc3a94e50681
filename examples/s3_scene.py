"""Test scene of the demo's S3 part: its URL, its creation, and the window to read."""

from __future__ import annotations

import zlib
from pathlib import Path

import h5py
import numpy as np

KEY, SECRET, REGION, BUCKET, NAME = "benchkey", "benchsecret", "us-east-1", "demo", "mosaic.h5"
URL = f"s3://{BUCKET}/{NAME}"
TILES, SIDE = 20, 300
# 8 of 60 km: parts of 16 of the 400 tiles.
WINDOW = np.s_[2810:3610, 3130:3930]


def make(path: Path, bands: dict[str, np.ndarray]) -> int:
    """Makes a mosaic of 20 x 20 copies of the scene, mirrored at each seam, a chunk per tile; returns its size."""
    with h5py.File(path, "w") as file:
        chunks = {}
        for name, values in bands.items():
            counts = np.round(values * 10_000).astype("<u2")
            assert counts.shape == (SIDE, SIDE)
            chunks[name] = [[encoded(counts[::down, ::across]) for across in (1, -1)] for down in (1, -1)]
            options = {"chunks": (SIDE, SIDE), "shuffle": True, "compression": "gzip", "compression_opts": 6}
            dataset = file.create_dataset(name, (TILES * SIDE, TILES * SIDE), "<u2", **options)
            dataset.attrs["units"] = "reflectance x 10000"
        # In an instrument's order: line by line, band by band.
        for row in range(0, TILES * SIDE, SIDE):
            for name, kinds in chunks.items():
                for column in range(0, TILES * SIDE, SIDE):
                    chunk = kinds[row // SIDE % 2][column // SIDE % 2]
                    file[name].id.write_direct_chunk((row, column), chunk)
    return path.stat().st_size


def encoded(counts: np.ndarray) -> bytes:
    """Applies shuffle and deflate to a chunk."""
    planes = np.ascontiguousarray(counts).view("u1").reshape(-1, 2).T.tobytes()
    return zlib.compress(planes, 6)
