"""Processor time of decoding, against h5py with hdf5plugin: thin chunks, bitshuffle and ZFP.

    .venv/bin/python bench/filters.py             # the table
    .venv/bin/python bench/filters.py --mebibytes 1 --rounds 1

Readers take turns in every round; every figure is processor seconds of all threads, so that other programs matter
little; medians of the rounds. Values are compared once, outside the clock. Without hdf5plugin its filters are left out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np

SEED = 7
# Filters of hdf5plugin: label, class, arguments, dtype.
PLUGINS: list[tuple[str, str, dict[str, Any], str]] = [
    ("bitshuffle", "Bitshuffle", {"cname": "none"}, "f4"),
    ("bitshuffle + LZ4", "Bitshuffle", {"cname": "lz4"}, "f4"),
    ("bitshuffle + LZ4, u2", "Bitshuffle", {"cname": "lz4"}, "u2"),
    ("bitshuffle + Zstandard", "Bitshuffle", {"cname": "zstd"}, "f4"),
    ("ZFP, rate 16", "Zfp", {"rate": 16}, "f4"),
    ("ZFP, accuracy 0.01", "Zfp", {"accuracy": 0.01}, "f4"),
    ("ZFP, reversible, f8", "Zfp", {"reversible": True}, "f8"),
]


def make(path: Path, mebibytes: int) -> list[str]:
    """Makes the datasets; returns their names."""
    columns = 512
    rows = max(64, mebibytes * (1 << 20) // (4 * columns) // 64 * 64)
    place = np.arange(rows, dtype="f8")[:, None]
    values = np.sin(place / 97) * 1000 + np.cos(np.arange(columns) / 61) * 500
    values += np.random.default_rng(SEED).integers(0, 8, (rows, columns)) / 8
    with h5py.File(path, "w") as f:
        data = values.astype("f4")
        f.create_dataset("thin chunks", data=data, chunks=(rows, 1))
        f.create_dataset(
            "thin chunks of three axes", data=data.reshape(rows // 8, 8, columns), chunks=(rows // 8, 8, 1)
        )
        f.create_dataset("thin chunks, deflate", data=data, chunks=(rows, 1), compression=1)
        try:
            import hdf5plugin
        except ImportError as error:
            print(f"bench: left out: {', '.join(name for name, *_ in PLUGINS)}: {error}", file=sys.stderr)
            return list(f)
        for name, kind, options, dtype in PLUGINS:
            stored = np.abs(values).astype(dtype)
            compression = getattr(hdf5plugin, kind)(**options)
            f.create_dataset(name, data=stored, chunks=(64, columns), compression=compression)
        return list(f)


def measured(path: Path, name: str, rounds: int) -> tuple[float, float]:
    """Returns the processor seconds of h5py and of Hyperchunk."""
    times: dict[str, list[float]] = {"h5py": [], "hyperchunk": []}
    openers: dict[str, Callable[..., Any]] = {"h5py": h5py.File, "hyperchunk": hyperchunk.open}
    with h5py.File(path) as theirs, hyperchunk.open(path) as ours:
        np.testing.assert_array_equal(theirs[name][...], ours[name][...])
    for number in range(rounds):
        for reader in sorted(openers, reverse=bool(number % 2)):
            # Opened for each read: h5py keeps decoded chunks, up to 8 MiB of them.
            with openers[reader](path, "r") as file:
                dataset = file[name]
                start = time.process_time()
                dataset[...]
                times[reader].append(time.process_time() - start)
    return statistics.median(times["h5py"]), statistics.median(times["hyperchunk"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=16, help="size of each array (default 16)")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "filters.h5"
        names = make(path, arguments.mebibytes)
        print("| dataset | h5py, processor ms | hyperchunk | hyperchunk / h5py |\n|---|---|---|---|")
        for name in names:
            theirs, ours = measured(path, name, arguments.rounds)
            print(f"| {name} | {theirs * 1e3:.1f} | {ours * 1e3:.1f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
