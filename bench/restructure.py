"""Restructuring: rows become columns in bounded memory, against a plain copy, h5repack and rechunker; the cost of
reading afterwards; and runs that are killed repeatedly.

    .venv/bin/python bench/restructure.py                          # all of it, then docs/results/restructure.md
    .venv/bin/python bench/restructure.py --mib 64 --rounds 1 --no-page
    .venv/bin/python bench/restructure.py --only kills --kills 100 --no-page

rechunker runs in a separate environment, made once (`--no-rivals` omits it and h5repack). The written data are
compared with the source, outside the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
from hyperchunk import layouts

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results" / "restructure.md"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperchunk"
COMMAND = Path(sys.executable).with_name("hyperchunk")
MEMORY = "64MiB"

RECHUNKER = """
import sys, rechunker, zarr, dask
source, target, between, rows, columns = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
plan = rechunker.rechunk(zarr.open(source), (rows, columns), "64MiB", target, temp_store=between)
with dask.config.set(scheduler="threads", num_workers=2):
    plan.execute()
"""
MAKE_ZARR = """
import sys, h5py, zarr
side = int(sys.argv[3])
with h5py.File(sys.argv[1]) as file:
    rows = max(1, (1 << 20) // (4 * side))
    made = zarr.open(sys.argv[2], mode="w", shape=(side, side), chunks=(rows, side), dtype="f4", compressor=None)
    for row in range(0, side, 256):
        made[row : row + 256] = file["x"][row : row + 256]
"""
CHECK_ZARR = """
import sys, h5py, zarr
with h5py.File(sys.argv[1]) as file:
    found = zarr.open(sys.argv[2], mode="r")
    for column in range(0, found.shape[1], 512):
        assert (found[:, column : column + 512] == file["x"][:, column : column + 512]).all()
"""


@dataclass
class Run:
    """Resources used by a process."""

    seconds: float
    processor: float
    peak: int


def high_water(pid: int) -> int:
    """Returns the peak memory of a process until now."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def measured(words: list[Any], timeout: float = 1800) -> Run:
    """Runs a command; its peak memory is in bytes."""
    started = time.perf_counter()
    process = subprocess.Popen([*map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end, peak = time.monotonic() + timeout, 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        # wait4 reports at least this process's own size at the time of the start.
        peak = max(peak, high_water(process.pid))
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.002)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{words[0]}: {process.stderr.read().decode()[-2000:] if process.stderr else ''}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, peak)


def make(path: Path, side: int) -> None:
    draw = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (side, side), "f4")
        for row in range(0, side, 256):
            made[row : row + 256] = draw.random((min(256, side - row), side), dtype="f4")


def same(one: Path, other: Path) -> None:
    with hyperchunk.open(one, layouts=False) as first, hyperchunk.open(other) as second:
        for column in range(0, first["x"].shape[1], 512):
            np.testing.assert_array_equal(first["x"][:, column : column + 512], second["x"][:, column : column + 512])


def environment() -> Path | None:
    """Returns a Python that has rechunker."""
    folder = CACHE / "bench-restructure"
    python = folder / "bin" / "python"
    if not (folder / ".made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        wanted = ["rechunker", "zarr<3", "numcodecs<0.16", "dask[array]", "h5py"]
        done = subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=False)
        if done.returncode:
            return None
        (folder / ".made").touch()
    return python


def row(name: str, runs: list[Run], ratios: list[float]) -> str:
    spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    seconds, processor = (statistics.median(getattr(run, what) for run in runs) for what in ("seconds", "processor"))
    return f"| {name} | {seconds:.2f} | {processor:.2f} | {spread} | {max(run.peak for run in runs) / (1 << 20):.0f} |"


def columns(folder: Path, path: Path, side: int, rounds: int, rivals: bool) -> str:
    chunk = f"{side}x{max(1, (1 << 20) // (4 * side))}"
    wide = int(chunk.split("x")[1])
    out = folder / "out.h5"
    ours = [COMMAND, "restructure", path, "/x", "--order", "column", "--memory", MEMORY, "--no-sync", "--output", out]
    ways: dict[str, list[Any]] = {
        "`cp`": ["cp", "--reflink=never", "--sparse=never", path, out],
        f"`hyperchunk restructure --order column --memory {MEMORY}`": ours,
        "the same, one thread": [*ours, "--threads", "1"],
        "the same, through `--codec fast`": [*ours, "--codec", "fast"],
    }
    python = None
    if rivals:
        if shutil.which("h5repack"):
            ways["`h5repack -l x:CHUNK=…`"] = ["h5repack", "-l", f"x:CHUNK={chunk}", path, out]
        python = environment()
        if python is not None:
            source, between = folder / "source.zarr", folder / "between.zarr"
            subprocess.run([python, "-c", MAKE_ZARR, path, source, str(side)], check=True)
            ways["rechunker, two threads"] = [python, "-c", RECHUNKER, source, out, between, side, wide]
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        base = 0.0
        for name, words in ways.items():
            shutil.rmtree(folder / "between.zarr", ignore_errors=True)
            done = measured(words)
            base = base or done.seconds
            if number == 0:
                if out.is_dir():
                    subprocess.run([python, "-c", CHECK_ZARR, path, out], check=True)
                else:
                    same(path, out)
            else:
                runs[name].append(done)
                ratios[name].append(done.seconds / base)
            if out.is_dir():
                shutil.rmtree(out)
            else:
                out.unlink()
            print(f"  {name}: {done.seconds:.2f} s, {done.seconds / base:.2f}", flush=True)
    size = path.stat().st_size / (1 << 20)
    legend = f"{size:.0f} MiB, {side} x {side}, into chunks of {side} x {wide}; {rounds} rounds, the first is dropped."
    lines = ["| | s | processor s | to `cp` | peak, MiB |", "|---|---|---|---|---|"]
    lines += [row(name, runs[name], ratios[name]) for name in ways]
    return "\n".join([*lines, "", legend])


READ = """
import sys, hyperchunk
file = hyperchunk.open(sys.argv[1], layouts=sys.argv[3] == "True")
dataset = file["x"]
dataset[0, 0]
count = lambda: [int(line.split()[1]) for line in open("/proc/self/io")][:3:2]
before = count(); before = count()
part = eval("dataset[" + sys.argv[2] + "]")
after = count()
print(after[1] - before[1] - 1, after[0] - before[0])
"""


def reads(path: Path, side: int) -> str:
    hyperchunk.restructure(path, "/x", order="column", memory=MEMORY, sync=False)
    lines = ["| selection | from | requests | bytes |", "|---|---|---|---|"]
    for where in (
        f":, {side // 3}",
        f":, {side // 3}:{side // 3 + 16}",
        f"{side // 3}, :",
        f"{side // 3}:{side // 3 + 16}, :",
    ):
        for other in (False, True):
            words = [sys.executable, "-c", READ, str(path), where, str(other)]
            calls, size = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
            name = "what costs less" if other else "the file itself"
            lines.append(f"| `x[{where}]` | {name} | {int(calls):,} | {int(size):,} |")
    for layout in layouts.of(path):
        layouts.remove(path, layout)
    return "\n".join(lines)


def request(folder: Path) -> str:
    sizes = []
    for rows in (1_000, 1_000_000):
        path = folder / f"{rows}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("x", (rows, 100), "f4")
        made = layouts.estimate(path, "/x", order="column", chunk={"target_mb": 8}, codec="zstd:3", memory=MEMORY)
        sizes.append((made.bytes, len(made.request), made.tasks))
        path.unlink()
    lines = ["| dataset, bytes | request, bytes | tasks |", "|---|---|---|"]
    return "\n".join(lines + [f"| {size:,} | {length} | {tasks} |" for size, length, tasks in sizes])


def kills(folder: Path, wanted: int) -> str:
    """Kills runs at random until each has been killed at least once and `wanted` kills are counted."""
    path = folder / "killed.h5"
    make(path, 6000)
    dice = random.Random(11)
    killed = layouts_made = resumed = 0
    whole = measured([COMMAND, "restructure", path, "/x", "--memory", "16MiB", "--output", folder / "whole.h5"]).seconds
    while killed < wanted:
        options = [
            "--order",
            dice.choice(["column", "hilbert"]),
            "--chunk",
            f"{dice.randint(50, 6000)}x{dice.randint(20, 400)}",
        ]
        options += [
            "--codec",
            dice.choice(["none", "none", "gzip:1", "zstd:1"]),
            "--memory",
            f"{dice.choice([16, 24, 64])}MiB",
        ]
        words = [str(COMMAND), "restructure", str(path), "/x", *options, "--json"]
        stopped, refused = 0, False
        while True:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                output, errors = process.communicate(timeout=whole * dice.uniform(0.3, 1.3))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                output, errors = process.communicate()
            if process.returncode == 0:
                break
            if process.returncode != -signal.SIGKILL:
                # A tile of that order and chunk may not fit into the memory that was drawn.
                refused = "of memory are not enough" in errors
                if refused:
                    break
                raise RuntimeError(errors)
            stopped += 1
            if stopped > 40:
                output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
                break
        if refused:
            killed += stopped
            continue
        told = json.loads(output)
        killed, layouts_made, resumed = killed + stopped, layouts_made + 1, resumed + told["skipped"]
        same(path, Path(told["path"]))
        for layout in layouts.of(path):
            layouts.remove(path, layout)
    return (
        f"{layouts_made} layouts of 144 MB, of random orders, chunks, filters and memory; {killed} runs ended "
        f"by SIGKILL at random times; {resumed} tasks were found done by the run that ended. All values are equal."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="the size of the dataset")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm") if Path("/dev/shm").is_dir() else None)
    parser.add_argument("--only", choices=("columns", "reads", "request", "kills"))
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--no-page", action="store_true")
    given = parser.parse_args()
    side = int((given.mib * (1 << 20) / 4) ** 0.5)
    parts = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        path = folder / "rows.h5"
        if given.only in (None, "columns", "reads"):
            make(path, side)
        jobs = {
            "columns": lambda: columns(folder, path, side, given.rounds, not given.no_rivals),
            "reads": lambda: reads(path, side),
            "request": lambda: request(folder),
            "kills": lambda: kills(folder, given.kills),
        }
        for part, job in jobs.items():
            if given.only in (None, part):
                parts[part] = job()
                print(f"\n{parts[part]}\n", flush=True)
    if given.only is None and not given.no_page:
        version = f"h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}"
        machine = f"{os.cpu_count()} processors, {platform.machine()}, {version}."
        where = (
            "`/dev/shm` (memory)" if str(given.folder) == "/dev/shm" else f"`{given.folder or tempfile.gettempdir()}`"
        )
        text = (HERE / "restructure.md").read_text()
        for part, value in {**parts, "machine": machine, "folder": where}.items():
            text = text.replace("{" + part + "}", value)
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
