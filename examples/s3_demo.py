"""S3 part of the demo: the same file read from a real S3 server, 25 ms away, by Hyperchunk and by h5py with s3fs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from s3_scene import BUCKET, NAME, WINDOW, make

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import s3server  # noqa: E402

LATENCY = "25ms"
LIBRARIES = {"h5py": "h5py + s3fs", "hyperchunk": "Hyperchunk"}


@dataclass
class Read:
    """Result of one library."""

    library: str
    seconds: float
    counts: dict[str, int]
    log: list[dict[str, Any]]
    values: np.ndarray


def expected(path: Path) -> np.ndarray:
    """Returns the same NDVI from the local file."""
    with h5py.File(path) as file:
        red, nir = file["Red"][WINDOW].astype("f4"), file["NIR"][WINDOW].astype("f4")
    values: np.ndarray = (nir - red) / (nir + red)
    return values


def read(library: str, proxy: s3server.Proxy, output: Path) -> Read:
    """Does three reads, each in a separate process; returns the one of median time."""
    reads = []
    for _ in range(3):
        proxy.reset()
        command = [sys.executable, str(HERE / "read_s3.py"), library, proxy.endpoint, str(output)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            sys.exit(f"demo: {library} can't read from the S3 server: {done.stderr}")
        reads.append(Read(library, float(done.stdout), proxy.stats(), proxy.log(), np.load(output)))
    return sorted(reads, key=lambda one: one.seconds)[1]


def act(bands: dict[str, np.ndarray], folder: Path) -> tuple[list[Read], np.ndarray, int] | None:
    """Returns the reads, the expected values and the size of the file; None without an S3 server, after printing the
    reason.
    """
    path = folder / NAME
    try:
        with (
            s3server.Server(folder / "s3") as server,
            s3server.Proxy(server.address, server.folder, latency=LATENCY) as proxy,
        ):
            size = make(path, bands)
            server.put(BUCKET, NAME, path)
            reads = [read(library, proxy, folder / f"s3_{library}.npy") for library in LIBRARIES]
    except s3server.UnavailableError as reason:
        print(f"\nThe S3 act is left out: {reason}")
        return None
    print(
        f"\nThe scene as a mosaic of {size / 1e6:.0f} MB, in an S3 server (versitygw), {LATENCY} before each request:"
    )
    print("NDVI of a window of 8 km   requests         MB   in sequence        s")
    for one in reads:
        counts = f"{one.counts['requests']:>8} {one.counts['bytes'] / 1e6:>10.1f} {one.counts['chain']:>13}"
        print(f"{LIBRARIES[one.library]:<26} {counts} {one.seconds:>8.2f}")
    return reads, expected(path), size
