"""A dataset streamed to an S3 server: time, memory, and completeness.

    .venv/bin/python bench/stream_to_s3.py [--gib 2] [--deflate]

A separate process writes frame after frame to `s3://`, to a real S3 server on this machine (`tools/s3server.py`);
the system reports its peak resident memory. Then h5py reads the object as a file, Hyperchunk reads it from the server,
and every value is compared."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import s3server  # noqa: E402

URL = "s3://bench/stream.h5"
SIDE = 1024


def frame(number: int) -> np.ndarray:
    """Returns 4 MiB that differ from frame to frame."""
    base = np.arange(SIDE * SIDE, dtype="u4").reshape(SIDE, SIDE)
    return ((base * np.uint32(2654435761)) ^ np.uint32(number * 40503)) >> np.uint32(8)


def write(frames: int, deflate: bool, options: dict[str, Any]) -> dict[str, Any]:
    """Streams frames."""
    ready = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    filters = {"compression": "gzip", "compression_opts": 1} if deflate else {}
    start = time.monotonic()
    file: Any = hyperchunk.open(URL, "w", storage_options=options)
    with file:
        dataset = file.create_dataset("frames", (frames, SIDE, SIDE), "u4", chunks=(1, SIDE, SIDE), **filters)
        for number in range(frames):
            dataset[number] = frame(number)
        file.attrs["frames"] = frames
    stored = file.stored()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": time.monotonic() - start,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss_mib": usage.ru_maxrss / 1024,
        "rss_before_mib": ready / 1024,
        "size": stored[0] if stored else None,
        "etag": stored[1] if stored else None,
    }


def compare(dataset: Any, frames: int) -> int:
    """Returns the number of correct frames."""
    return sum(int(np.array_equal(dataset[number], frame(number))) for number in range(frames))


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--deflate", action="store_true", help="compress")
    parser.add_argument("--folder", type=Path, help="where the server keeps objects")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    frames = round(arguments.gib * 2**30 / (SIDE * SIDE * 4))
    if arguments.child:
        json.dump(write(frames, arguments.deflate, json.loads(arguments.child)), sys.stdout)
        return
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
        s3server.Server(Path(folder) / "buckets") as server,
    ):
        (server.folder / "bench").mkdir()
        options = s3server.storage_options(server.endpoint)
        command = [sys.executable, __file__, "--gib", str(arguments.gib), "--child", json.dumps(options)]
        command += ["--deflate"] if arguments.deflate else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures = json.loads(done.stdout)
        with h5py.File(server.folder / "bench" / "stream.h5") as file:
            figures["frames_right_h5py"] = compare(file["frames"], frames)
        with hyperchunk.open(URL, storage_options=options) as file:
            figures["frames_right_in_place"] = compare(file["frames"], frames)
        figures["frames"] = frames
        figures["mib_per_second"] = frames * 4 / figures["seconds"]
    json.dump(figures, sys.stdout, indent=2)
    print()
    sys.exit(0 if figures["frames_right_h5py"] == figures["frames_right_in_place"] == frames else 1)


if __name__ == "__main__":
    main()
