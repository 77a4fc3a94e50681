"""Cost of reading a live dataset, against a plain contiguous read of the same shape in the same loop.

    make bench                                    # the table
    .venv/bin/python bench/live_datasets.py -h    # sizes and rounds

CPU includes this process and its workers. Every round reads the plain dataset and
each variant in turn; the table has medians of times, and of the rounds' ratios. The destination is a new NumPy array
each time. The reader is h5py with the plugin, and for some variants `hyperchunk.open` (`, open`), against the same
plain read of h5py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent

SLICES = 10

# Label, source, options of attach, target for the ratio of a whole read.
VARIANTS = [
    ("empty C++ auto", "empty.cpp", "auto", 1.2),
    ("empty Lua auto", "empty.lua", "auto", 1.2),
    ("empty wasm auto", "empty.cpp", "auto", 1.2),
    ("empty NumPy auto", "empty.py", "auto", None),
    ("NDVI C++ auto", "ndvi.cpp", "auto", 2.2),
    ("NDVI Lua auto", "ndvi.lua", "auto", 4),
    ("NDVI wasm auto", "ndvi.cpp", "auto", 2.2),
    ("NDVI NumPy auto", "ndvi.py", "auto", 4),
    ("NDVI expression", "ndvi.expr", "auto", None),
    ("NDVI C++ whole", "ndvi.cpp", None, 4),
    ("NDVI Lua whole", "ndvi.lua", None, 4),
    ("NDVI wasm whole", "ndvi.cpp", None, 4),
    ("NDVI NumPy whole", "ndvi.py", None, 4),
]


# Variants also read by `hyperchunk.open`, on all processors: target for the ratio of wall times.
OPENED = {
    "NDVI C++ auto": 1.3,
    "NDVI Lua auto": None,
    "NDVI wasm auto": 1.3,
    "NDVI NumPy auto": None,
    "NDVI expression": None,
}

# Functions of 16 elements, to measure the start of a worker. An expression starts none: its first read is the common
# rest.
SMALL = {"expression": "small.expr", "C++": "empty.cpp", "Lua": "empty.lua", "wasm": "empty.cpp", "NumPy": "empty.py"}


def descendants() -> list[int]:
    """Returns the descendants of this process."""
    found, todo = [], [os.getpid()]
    while todo:
        for children in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
            try:
                pids = [int(p) for p in children.read_text().split()]
            except OSError:
                continue
            found += pids
            todo += pids
    return found


def clocks(pids: list[int]) -> float:
    """Returns the CPU seconds of other processes: living ones, and those reaped by this one."""
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = reaped.ru_utime + reaped.ru_stime
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~pid << 3) | 2)
    return total


def make(folder: Path, size: int) -> Path:
    """Makes one file with two inputs, a plain dataset and live datasets: one for each variant, and a small one for
    each language.
    """
    import h5py
    import numpy as np

    path = folder / "bench.h5"
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as f:
        for name in ("NIR", "Red", "plain"):
            f[name] = rng.random((size, size), dtype="f4") + np.float32(0.1)
        f["small"] = np.zeros((4, 4), "f4")
    env = dict(os.environ, XDG_CONFIG_HOME=str(folder / "config"))
    command = str(Path(sys.executable).parent / "hyperchunk")
    subprocess.run([command, "key", "new"], env=env, check=True, stdout=subprocess.DEVNULL)
    made = [(label, source, chunks, f"{size}x{size}") for label, source, chunks, _ in VARIANTS]
    made += [(f"small {language}", source, None, "4x4") for language, source in SMALL.items()]
    for label, source, chunks, shape in made:
        extra = ["--chunks", chunks] if chunks else []
        extra += ["--backend", "wasm"] if "wasm" in label else []
        function = str(HERE / "udf" / source)
        arguments = [command, "udf", "attach", str(path), function, f"NDVI:{shape}:float", *extra]
        subprocess.run(arguments, env=env, check=True, stdout=subprocess.DEVNULL)
        with h5py.File(path, "r+") as f:
            f.move("NDVI", label)
    # Otherwise write-back would run in the background of the measurement.
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return path


def measure(path: Path, size: int, rounds: int) -> list[dict[str, object]]:
    """Returns a row for each variant: reads the plain dataset and the variant in turn, then slices of the variant."""
    import h5py
    import hyperchunk
    import numpy as np

    file = h5py.File(path)
    red, nir = file["Red"][...], file["NIR"][...]
    expected = (nir - red) / (nir + red)
    rows: list[dict[str, object]] = []
    both = [timed(lambda: (file["Red"][...], file["NIR"][...])) for _ in range(rounds)]
    print(f"both inputs by h5py: {1e3 * statistics.median(cpu for cpu, _ in both):.1f} ms of CPU")
    named = {label: (source, limit) for label, source, _, limit in VARIANTS}
    readers = [(label, "", file) for label in named] + [(label, ", open", hyperchunk.open(path)) for label in OPENED]
    for label, suffix, opened in readers:
        source, limit = named[label]
        got = opened[label][...]
        if source.startswith("empty"):
            assert not got.any(), label
        else:
            # Lua computes in double precision: more exact than the float32 of NumPy and C++.
            np.testing.assert_array_max_ulp(got, expected, maxulp=2 if source.endswith(".lua") else 1)
        del got
        plain, live, slices = [], [], []
        for _ in range(rounds):
            plain.append(timed(lambda: file["plain"][...]))
            live.append(timed(lambda label=label, opened=opened: opened[label][...]))
        # Each slice uses another band: HDF5 caches the chunks of an open dataset. Several are timed together, since
        # reading the clocks costs as much as a slice.
        for n in range(rounds):
            rows_read = [(size // 2 + 64 * (n * SLICES + k)) % size for k in range(SLICES)]
            spent = timed(lambda label=label, opened=opened, at=rows_read: [opened[label][row, 100:200] for row in at])
            slices.append((spent[0] / SLICES, spent[1] / SLICES))
        base, cost, cut = (
            [statistics.median(column) for column in zip(*times, strict=True)] for times in (plain, live, slices)
        )
        rows.append(
            {
                "variant": label + suffix,
                "plain_cpu_ms": 1e3 * base[0],
                "cpu_ms": 1e3 * cost[0],
                "cpu_ratio": ratio(live, plain, 0),
                "wall_ratio": ratio(live, plain, 1),
                "slice_ms": 1e3 * cut[0],
                "slice_gain": cost[0] / cut[0],
                "limit": None if suffix else limit,
                "wall_limit": OPENED[label] if suffix else None,
            }
        )
    return rows


def ratio(live: list[tuple[float, float]], plain: list[tuple[float, float]], column: int) -> float:
    """Returns the median of the rounds' ratios: both reads of a round see the machine in the same state."""
    return statistics.median(one[column] / other[column] for one, other in zip(live, plain, strict=True))


def timed(read: Callable[[], object]) -> tuple[float, float]:
    """Returns CPU and wall seconds of `read`, including its workers."""
    # Listing processes costs CPU itself, so it is done outside: our own clocks are the last and first to be read.
    pids = descendants()
    others = clocks(pids)
    wall, own = time.perf_counter(), time.process_time()
    kept = read()
    own, wall = time.process_time() - own, time.perf_counter() - wall
    del kept
    return own + clocks(pids) - others, wall


MEMORY = """
import os, sys, h5py
from pathlib import Path
path, names = sys.argv[1], sys.argv[2].split(",")
with h5py.File(path) as f:
    kept = [f[n][...] for n in names]
    peak = own = 0
    pids = ["self"] + [p for t in Path("/proc/self/task").iterdir() for p in (t / "children").read_text().split()]
    for pid in pids:
        rows = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
        row = {r[0]: int(r[1]) for r in rows if r[-1] == "kB"}
        peak += row["VmHWM:"]
        own += row["RssAnon:"] + row["RssShmem:"]
print(peak, own)
"""


def memory(path: Path) -> dict[str, tuple[float, float]]:
    """Returns MiB of a fresh reader and its workers: the peak resident size, and the anonymous part at the end."""

    def measured(names: str) -> tuple[float, float]:
        arguments = [sys.executable, "-c", MEMORY, str(path), names]
        done = subprocess.run(arguments, check=True, capture_output=True, text=True)
        peak, own = done.stdout.split()
        return int(peak) / 1024, int(own) / 1024

    names = ("plain", "plain,NIR,Red", "NDVI C++ auto", "NDVI wasm auto", "NDVI NumPy auto", "NDVI C++ whole")
    return {name: measured(name) for name in names}


START = """
import sys, time, h5py
path, languages = sys.argv[1], sys.argv[2].split(",")
with h5py.File(path) as f:
    f["NDVI expression"][0, :4]
    for language in languages:
        times = []
        for _ in range(12):
            dataset = f["small " + language]
            start = time.perf_counter()
            dataset[...]
            times.append(time.perf_counter() - start)
            del dataset
        print(times[0], sorted(times[1:])[5])
"""


def starting(path: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Returns milliseconds of the first read of 16 elements, which starts a worker if needed, and of a later one."""
    times: dict[str, list[tuple[float, float]]] = {language: [] for language in SMALL}
    # OpenBLAS, loaded by NumPy, spins on the other processor for its first tenth of a second.
    env = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    for _ in range(rounds):
        arguments = [sys.executable, "-c", START, str(path), ",".join(SMALL)]
        done = subprocess.run(arguments, check=True, capture_output=True, text=True, env=env)
        for language, line in zip(SMALL, done.stdout.splitlines(), strict=True):
            first, warm = map(float, line.split())
            times[language].append((1e3 * first, 1e3 * warm))
    return {
        language: (statistics.median(f for f, _ in rows), statistics.median(w for _, w in rows))
        for language, rows in times.items()
    }


def alone(rounds: int) -> dict[str, float]:
    """Returns milliseconds until a new worker is locked down and has loaded its function, by `hyperchunk doctor`."""
    command = [str(Path(sys.executable).parent / "hyperchunk"), "doctor"]
    line = re.compile(r"^self +(\S+) +runs, .*; a worker starts in ([0-9.]+) ms$", re.MULTILINE)
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for language, milliseconds in line.findall(told):
            times.setdefault(language, []).append(float(milliseconds))
    names = {"c++": "C++", "lua": "Lua", "wasm": "wasm", "python": "NumPy"}
    return {names[language]: statistics.median(all_) for language, all_ in times.items() if language in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4000, help="rows and columns (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hyperchunk-bench-") as name:
        folder = Path(name)
        os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
        import hyperchunk

        os.environ["HDF5_PLUGIN_PATH"] = str(hyperchunk.plugins.folder())
        path = make(folder, arguments.size)
        peaks = memory(path)
        starts = starting(path, arguments.rounds)
        workers = alone(arguments.rounds)
        rows = measure(path, arguments.size, arguments.rounds)
    report(arguments, rows, peaks, starts, workers)


def report(
    arguments: argparse.Namespace,
    rows: list[dict[str, object]],
    peaks: dict[str, tuple[float, float]],
    starts: dict[str, tuple[float, float]],
    workers: dict[str, float],
) -> None:
    """Prints the table."""
    print(f"\n{arguments.size} x {arguments.size} float32, medians of {arguments.rounds} rounds, warm page cache\n")
    names = ("plain ms", "CPU ms", "x plain", "limit", "wall x", "limit", "slice ms", "gain")
    print(f"{'variant':24}" + "".join(f" {name:>8}" for name in names))
    for row in rows:
        figures = (
            f"{row['plain_cpu_ms']:.1f}",
            f"{row['cpu_ms']:.1f}",
            f"{row['cpu_ratio']:.2f}",
            "" if row["limit"] is None else f"{row['limit']}",
            f"{row['wall_ratio']:.2f}",
            "" if row["wall_limit"] is None else f"{row['wall_limit']}",
            f"{row['slice_ms']:.3f}",
            f"{row['slice_gain']:.0f}",
        )
        print(f"{row['variant']:24}" + "".join(f" {figure:>8}" for figure in figures))
    print("\n16 elements, ms: starting a worker (limit 4), the first read, of that with the worker, again")
    without = starts["expression"][0]
    for language, (first, warm) in starts.items():
        start = f"{'':8}" if language == "expression" else f"{workers[language]:8.1f}"
        print(f"{language:18} {start} {first:8.2f} {first - without:8.2f} {warm:8.2f}")
    print("\nmemory of reader and workers, MiB: peak of what is resident, and what of it is no file's at the end")
    for label, (peak, own) in peaks.items():
        print(f"{label:18} {peak:8.0f} {own:8.0f}")
    if arguments.json:
        found = {"rows": rows, "memory": peaks, "start": starts, "worker": workers}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
