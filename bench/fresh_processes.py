"""Variation of read times between processes: histograms over many fresh processes.

    .venv/bin/python bench/fresh_processes.py                       # 50 processes, 48 MiB
    .venv/bin/python bench/fresh_processes.py --build before=FOLDER # alternating with another build of the package

A process can be slow for its whole life: the location of its memory and its first measurements differ from the next
one's. Each process reads the same contiguous array with `pread` and with Hyperchunk, and the same chunks (shuffle and
deflate) with h5py and with Hyperchunk, in turns; every reader allocates a new array of its own, inside the clock. A
process counts with the medians of its rounds. Files are in the page cache. Besides elapsed time, which other programs
disturb, the processor seconds of all threads are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SEED = 7
Times = dict[str, list[tuple[float, float]]]


def make(folder: Path, mebibytes: int) -> None:
    """Makes the file: smooth values with noise in the lower bits, contiguous and compressed."""
    import h5py

    side = max(256, int((mebibytes * 2**20 / 4) ** 0.5) // 256 * 256)
    noise = np.random.default_rng(SEED).integers(0, 8, (side, side)).astype(np.float32) / 8
    rows = np.arange(side, dtype=np.float32)
    data = (np.sin(rows / 97)[:, None] * 1000 + np.cos(rows / 61) * 500).round(1).astype(np.float32) + noise
    with h5py.File(folder / "data.h5", "w") as f:
        f.create_dataset("contiguous", data=data)
        f.create_dataset("deflate", data=data, chunks=(256, 256), shuffle=True, compression="gzip", compression_opts=4)


def make_pread(path: Path) -> Callable[[], object]:
    """Returns the floor: a function that reads the bytes of the contiguous dataset into a new array."""
    import h5py

    with h5py.File(path) as f:
        offset, shape = f["contiguous"].id.get_offset(), f["contiguous"].shape
    descriptor = os.open(path, os.O_RDONLY)

    def read() -> object:
        array = np.empty(shape, np.float32)
        view, done = memoryview(array).cast("B"), 0
        while done < len(view):
            done += os.preadv(descriptor, [view[done:]], offset + done)
        return array

    return read


def child(path: Path, rounds: int) -> Times:
    """Returns the elapsed and processor seconds of each reader in this process, for every round."""
    import h5py
    import hyperchunk

    theirs, ours = h5py.File(path, "r"), hyperchunk.open(path)
    readers: dict[str, Callable[[], object]] = {
        "pread": make_pread(path),
        "contiguous": lambda: ours["contiguous"][...],
        "h5py deflate": lambda: theirs["deflate"][...],
        "deflate": lambda: ours["deflate"][...],
    }
    times: Times = {name: [] for name in readers}
    for number in range(rounds):
        names = list(readers)
        for name in names if number % 2 else reversed(names):
            wall, cpu = time.perf_counter(), time.process_time()
            result = readers[name]()
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
            del result
    return times


def ratios(times: Times, above: str, below: str) -> tuple[float, float]:
    """Returns the ratios of elapsed and processor time of two readers: medians of a process's rounds."""
    pairs = list(zip(times[above], times[below], strict=True))
    wall, cpu = (statistics.median(a[kind] / b[kind] for a, b in pairs) for kind in (0, 1))
    return wall, cpu


def histogram(title: str, values: list[float], width: float) -> None:
    """Prints a histogram of the processes' ratios."""
    ordered = sorted(values)
    print(f"\n{title}: {ordered[0]:.2f} to {ordered[-1]:.2f}, median {statistics.median(ordered):.2f}")
    counts: dict[int, int] = {}
    for value in ordered:
        counts[int(value / width)] = counts.get(int(value / width), 0) + 1
    for number, count in counts.items():
        print(f"  {number * width:5.2f} to {(number + 1) * width:5.2f} | {'#' * count}")


def report(arguments: argparse.Namespace, path: Path) -> None:
    """Runs the processes and prints the histograms of each build."""
    builds = {"this build": "", **dict(text.split("=", 1) for text in arguments.build)}
    found: dict[str, list[Times]] = {name: [] for name in builds}
    for _ in range(arguments.processes):
        for name, folder in builds.items():
            environment = dict(os.environ)
            if folder:
                environment["PYTHONPATH"] = folder
            command = [sys.executable, __file__, "--child", str(path), "--rounds", str(arguments.rounds)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            found[name].append(json.loads(done.stdout))
    print(
        f"{arguments.processes} fresh processes of {arguments.rounds} rounds, {path.stat().st_size >> 20} MiB of file"
    )
    for name, processes in found.items():
        contiguous = [ratios(times, "contiguous", "pread") for times in processes]
        deflate = [ratios(times, "h5py deflate", "deflate") for times in processes]
        print(f"\n== {name}")
        for kind, label in enumerate(("elapsed", "processor time")):
            histogram(f"contiguous / pread, {label}", [each[kind] for each in contiguous], 0.1)
        for kind, label in enumerate(("elapsed", "processor time")):
            histogram(f"h5py / Hyperchunk, shuffle + deflate, {label}", [each[kind] for each in deflate], 0.25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=50)
    parser.add_argument("--mebibytes", type=int, default=48, help="size of the array (default 48)")
    parser.add_argument("--rounds", type=int, default=9, help="in each process (default 9)")
    parser.add_argument(
        "--build", action="append", default=[], metavar="NAME=FOLDER", help="another build, in turns with this one"
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child, arguments.rounds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), arguments.mebibytes)
        report(arguments, Path(folder) / "data.h5")


if __name__ == "__main__":
    main()
