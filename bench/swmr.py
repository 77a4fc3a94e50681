"""Readers that follow a detector's file while it is written: Hyperchunk beside h5py, in the same runs.

    .venv/bin/python bench/swmr.py --page # docs/results/following.md; minutes
    .venv/bin/python bench/swmr.py -h     # frames, rates, refreshes, folder

A writer, as areaDetector's HDF5 plugin, appends frames and their numbers to datasets and flushes them. Readers in other
processes check every value that they see: `Dataset.refresh()` of both libraries, and `Dataset.follow()`. The writer
notes when each flush returned, the readers when they had each frame's values in memory. Some writers are killed.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import os
import platform
import random
import re
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import hyperchunk
import numpy as np

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "following.md"
SIDE = 128
FORK = multiprocessing.get_context("fork")


class Times:
    """Times of up to `count` frames, shared between processes."""

    def __init__(self, count: int) -> None:
        self.values = np.frombuffer(mmap.mmap(-1, count * 8), "f8")


def frame(number: int) -> Any:
    return (np.arange(SIDE * SIDE, dtype="u4") * 2654435761 + number * 40503).astype("u2").reshape(SIDE, SIDE)


def h5py_swmr(path: Path, frames: int, period: float, flushed: Times, ready: Event) -> None:
    """Writes frames as areaDetector does: SWMR mode, a chunk for each frame, numbers in larger chunks."""
    with h5py.File(path, "w", libver="latest") as file:
        shape: dict[str, Any] = {"shape": (0, SIDE, SIDE), "maxshape": (None, SIDE, SIDE), "chunks": (1, SIDE, SIDE)}
        data = file.create_dataset("entry/data", dtype="u2", compression="gzip", compression_opts=1, **shape)
        ids = file.create_dataset("entry/id", (0,), "i8", maxshape=(None,), chunks=(64,), compression="gzip")
        # Written with each frame, too: the other indexes of chunks, and one without a filter.
        fixed = file.create_dataset("entry/fixed", (0,), "i8", maxshape=(frames,), chunks=(16,))
        tree = file.create_dataset("entry/tree", (0, 2), "i8", maxshape=(None, None), chunks=(8, 2))
        file.swmr_mode = True
        ready.set()
        start = time.monotonic()
        for number in range(frames):
            for dataset in (data, ids, fixed, tree):
                dataset.resize(number + 1, 0)
            data[number], ids[number], fixed[number], tree[number] = frame(number), number, number, number
            for dataset in (fixed, tree, data, ids):
                dataset.flush()
            flushed.values[number] = time.monotonic()
            time.sleep(max(0.0, start + (number + 1) * period - time.monotonic()))


def plain(path: Path, frames: int, period: float, flushed: Times, ready: Event) -> None:
    """Writes a plain file of h5py, without locks, and flushes it after each frame."""
    with h5py.File(path, "w", locking=False) as file:
        shape: dict[str, Any] = {"shape": (0, SIDE, SIDE), "maxshape": (None, SIDE, SIDE), "chunks": (1, SIDE, SIDE)}
        data = file.create_dataset("entry/data", dtype="u2", compression="gzip", compression_opts=1, **shape)
        ids = file.create_dataset("entry/id", (0,), "i8", maxshape=(None,), chunks=(64,), compression="gzip")
        file.flush()
        ready.set()
        start = time.monotonic()
        for number in range(frames):
            data.resize(number + 1, 0)
            ids.resize(number + 1, 0)
            data[number], ids[number] = frame(number), number
            file.flush()
            flushed.values[number] = time.monotonic()
            time.sleep(max(0.0, start + (number + 1) * period - time.monotonic()))


def ours(path: Path, frames: int, period: float, flushed: Times, ready: Event) -> None:
    """Writes with Hyperchunk's writer, and commits each frame."""
    with hyperchunk.open(path, "w", sync="never") as file:
        shape: dict[str, Any] = {"shape": (0, SIDE, SIDE), "maxshape": (None, SIDE, SIDE), "chunks": (1, SIDE, SIDE)}
        data = file.create_dataset("entry/data", dtype="u2", compression="gzip", compression_opts=1, **shape)
        ids = file.create_dataset("entry/id", (0,), "i8", maxshape=(None,), chunks=(64,), compression="gzip")
        file.flush()
        ready.set()
        start = time.monotonic()
        for number in range(frames):
            data.append(frame(number)[None])
            ids.append(np.array([number]))
            file.flush()
            flushed.values[number] = time.monotonic()
            time.sleep(max(0.0, start + (number + 1) * period - time.monotonic()))


def ours_swmr(path: Path, frames: int, period: float, flushed: Times, ready: Event) -> None:
    """Writes with Hyperchunk's writer in SWMR mode."""
    with hyperchunk.open(path, "w", libver="latest", sync="never") as file:
        shape: dict[str, Any] = {"shape": (0, SIDE, SIDE), "maxshape": (None, SIDE, SIDE), "chunks": (1, SIDE, SIDE)}
        data = file.create_dataset("entry/data", dtype="u2", compression="gzip", compression_opts=1, **shape)
        ids = file.create_dataset("entry/id", (0,), "i8", maxshape=(None,), chunks=(64,), compression="gzip")
        fixed = file.create_dataset("entry/fixed", (0,), "i8", maxshape=(frames,), chunks=(16,))
        file.swmr_mode = True
        ready.set()
        start = time.monotonic()
        for number in range(frames):
            data.append(frame(number)[None])
            ids.append(np.array([number]))
            fixed.append(np.array([number]))
            file.flush()
            flushed.values[number] = time.monotonic()
            time.sleep(max(0.0, start + (number + 1) * period - time.monotonic()))


class Seen(NamedTuple):
    """Observations of a reader."""

    refreshes: int
    wrong: int
    frames: int
    errors: list[str]
    #: Time when the dataset was open: what was flushed before is not timed.
    opened: float


def wrong_values(values: Any, first: int) -> int:
    """Returns the number of rows of a block that do not have their values."""
    numbers = range(first, first + len(values))
    if values.ndim == 3:
        return sum(not np.array_equal(value, frame(number)) for value, number in zip(values, numbers, strict=True))
    expected = np.array(numbers)
    return int(np.count_nonzero((values if values.ndim == 1 else values[:, 0]) != expected))


def refreshing(library: Any, name: str, path: Path, frames: int, seen: Times, until: float) -> Seen:
    """Calls `refresh()` all the time, and reads new rows, or else the last one, after each."""
    count = wrong = rows = 0
    errors: list[str] = []
    with library.File(path, "r", swmr=True) as file:
        data = file[name]
        opened = time.monotonic()
        while (rows < frames or count < 1000) and time.monotonic() < until:
            try:
                data.refresh()
                now = len(data)
                first = min(rows, max(now - 1, 0))
                values = data[first:now]
            except (OSError, RuntimeError, KeyError) as error:
                errors.append(f"{name}: {error}")
                if len(errors) > 20:
                    break
                continue
            count += 1
            wrong += wrong_values(values, first) + (now < rows)
            if now > rows:
                seen.values[rows:now] = time.monotonic()
                rows = now
    return Seen(count, wrong, rows, errors, opened)


def opened_dataset(path: Path, name: str, options: dict[str, Any]) -> hyperchunk.Dataset:
    """Opens a dataset of a file that changes meanwhile."""
    while True:
        try:
            found: hyperchunk.Dataset = hyperchunk.open(path, **options)[name]
            len(found)
        except hyperchunk.exceptions.ChangedError:
            continue
        return found


def following(name: str, path: Path, frames: int, seen: Times, until: float, **options: Any) -> Seen:
    """Follows the dataset until its writer has closed the file."""
    wrong = rows = blocks = 0
    errors: list[str] = []
    data = opened_dataset(path, name, options)
    opened = time.monotonic()
    try:
        with data.file:
            for block in data.follow(start=0, timeout=min(10.0, max(until - time.monotonic(), 1.0))):
                wrong += wrong_values(block, rows)
                seen.values[rows : rows + len(block)] = time.monotonic()
                rows += len(block)
                blocks += 1
    except (OSError, RuntimeError, KeyError) as error:
        errors.append(f"{name}: {error}")
    return Seen(blocks, wrong, rows, errors, opened)


def in_process(work: Callable[..., Seen], *arguments: Any, **options: Any) -> tuple[BaseProcess, Any]:
    own, other = FORK.Pipe()

    def run() -> None:
        other.send(work(*arguments, **options))

    process = FORK.Process(target=run)
    process.start()
    other.close()
    return process, own


def run(
    write: Callable[..., None],
    readers: dict[str, Callable[[Path, int, Times, float], tuple[BaseProcess, Any]]],
    frames: int,
    period: float,
    folder: Path,
    kill: float | None = None,
) -> dict[str, tuple[Seen, list[float]]]:
    """Runs a writer with readers. Returns, for each reader, its observations and the milliseconds from flushes."""
    path = folder / "run.h5"
    for left in (path, path.with_name("run.h5.journal")):
        left.unlink(missing_ok=True)
    flushed, ready = Times(frames), FORK.Event()
    writer = FORK.Process(target=write, args=(path, frames, period, flushed, ready))
    writer.start()
    assert ready.wait(60)
    until = time.monotonic() + frames * period * 4 + 60
    started = {}
    for name, start in readers.items():
        times = Times(frames)
        started[name] = (start(path, frames, times, until if kill is None else time.monotonic() + kill + 1), times)
    if kill is not None:
        time.sleep(kill)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
    results = {}
    for name, ((process, pipe), times) in started.items():
        found = pipe.recv()
        process.join()
        late = [
            (at - done) * 1000
            for at, done in zip(times.values, flushed.values, strict=True)
            if at > 0 and done > found.opened
        ]
        results[name] = (found, late)
    writer.join()
    return results


def reader(library: Any, name: str) -> Callable[[Path, int, Times, float], tuple[BaseProcess, Any]]:
    return lambda path, frames, times, until: in_process(refreshing, library, name, path, frames, times, until)


def follower(name: str, **options: Any) -> Callable[[Path, int, Times, float], tuple[BaseProcess, Any]]:
    return lambda path, frames, times, until: in_process(following, name, path, frames, times, until, **options)


def percentiles(late: list[float]) -> str:
    if not late:
        return "- | - | -"
    # A frame may be read before its flush returned.
    return " | ".join(f"{max(float(at), 0.0):.1f}" for at in np.percentile(late, [50, 95, 99]))


def table(results: dict[str, list[tuple[Seen, list[float]]]]) -> str:
    lines = [
        "| writer; reader | frames | refreshes, or blocks | wrong | errors | median, ms | 95 %, ms | 99 %, ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, runs in results.items():
        frames, looked, wrong, errors = (
            sum(seen.frames for seen, _ in runs),
            sum(seen.refreshes for seen, _ in runs),
            sum(seen.wrong for seen, _ in runs),
            sum(len(seen.errors) for seen, _ in runs),
        )
        late = [at for _, times in runs for at in times]
        lines.append(f"| {name} | {frames:,} | {looked:,} | {wrong} | {errors} | {percentiles(late)} |")
    return "\n".join(lines)


def collect(into: dict[str, list[tuple[Seen, list[float]]]], found: dict[str, tuple[Seen, list[float]]]) -> None:
    for name, seen in found.items():
        into.setdefault(name, []).append(seen)
        for error in seen[0].errors[:2]:
            print(f"{name}: {error}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1000, help="frames of a run")
    parser.add_argument("--rate", type=float, default=100.0, help="frames per second")
    parser.add_argument("--refreshes", type=int, default=1_000_000, help="refreshes of Hyperchunk's readers in all")
    parser.add_argument("--kills", type=int, default=20, help="runs whose writer is killed")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="folder of the files")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args()
    generator = random.Random(5)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder, frames, period = Path(name), options.frames, 1 / options.rate
        ids: dict[str, list[tuple[Seen, list[float]]]] = {}
        ours_first, theirs_first = "h5py in SWMR mode; Hyperchunk", "h5py in SWMR mode; h5py"
        # A writer and one reader at a time: two processors are for these.
        turns: list[tuple[str, Callable[..., None], Any, str]] = [
            (label, write, library, kind)
            for label, write, library, kinds in (
                (ours_first, h5py_swmr, hyperchunk, ("entry/id", "entry/fixed", "entry/tree")),
                (theirs_first, h5py_swmr, h5py, ("entry/id", "entry/fixed", "entry/tree")),
                ("Hyperchunk in SWMR mode; Hyperchunk", ours_swmr, hyperchunk, ("entry/id", "entry/fixed")),
                ("Hyperchunk in SWMR mode; h5py", ours_swmr, h5py, ("entry/id", "entry/fixed")),
            )
            for kind in kinds
        ]
        while turns or sum(seen.refreshes for seen, _ in ids[ours_first]) < options.refreshes:
            looked = len(ids.get(ours_first, ()))
            again = (ours_first, h5py_swmr, hyperchunk, ("entry/id", "entry/fixed", "entry/tree")[looked % 3])
            label, write, library, kind = turns.pop(0) if turns else again
            collect(ids, run(write, {label: reader(library, kind)}, frames, period, folder))
            print(table(ids), flush=True)
        images: dict[str, list[tuple[Seen, list[float]]]] = {}
        cases: dict[str, tuple[Callable[..., None], Callable[..., Any]]] = {
            "h5py in SWMR mode; h5py, `refresh()`": (h5py_swmr, reader(h5py, "entry/data")),
            "h5py in SWMR mode; Hyperchunk, `refresh()`": (h5py_swmr, reader(hyperchunk, "entry/data")),
            "h5py in SWMR mode; `follow()`": (h5py_swmr, follower("entry/data", swmr=True)),
            "Hyperchunk in SWMR mode; h5py, `refresh()`": (ours_swmr, reader(h5py, "entry/data")),
            "Hyperchunk in SWMR mode; Hyperchunk, `refresh()`": (ours_swmr, reader(hyperchunk, "entry/data")),
            "Hyperchunk in SWMR mode; `follow()`": (ours_swmr, follower("entry/data", swmr=True)),
            "Hyperchunk, `flush()`; `follow()`": (ours, follower("entry/data")),
            "h5py, plain file, `flush()`; `follow()`": (
                plain,
                follower("entry/data", locking=False, ignore_locks=True),
            ),
        }
        for label, (write, start) in cases.items():
            collect(images, run(write, {label: start}, frames, period, folder))
        print(table(images), flush=True)
        killed: dict[str, list[tuple[Seen, list[float]]]] = {}
        for number in range(options.kills):
            kind = ["entry/data", "entry/id", "entry/fixed"][number % 3]
            for writer, write in (("h5py", h5py_swmr), ("Hyperchunk", ours_swmr)):
                for library, label in ((hyperchunk, "Hyperchunk"), (h5py, "h5py")):
                    wait, name = generator.uniform(0.05, 1.0), f"{writer} in SWMR mode; {label}"
                    collect(killed, run(write, {name: reader(library, kind)}, 100_000, 0.0, folder, kill=wait))
        print(table(killed), flush=True)
    if options.page:
        command = f"python bench/swmr.py --page --frames {frames} --rate {options.rate:g} --kills {options.kills}"
        PAGE.write_text(page(options, command, ids, images, killed), encoding="utf-8")


def page(
    options: argparse.Namespace,
    command: str,
    ids: dict[str, list[tuple[Seen, list[float]]]],
    images: dict[str, list[tuple[Seen, list[float]]]],
    killed: dict[str, list[tuple[Seen, list[float]]]],
) -> str:
    rounds = [seen for seen, _ in ids["h5py in SWMR mode; Hyperchunk"]]
    looks, wrong = sum(seen.refreshes for seen in rounds), sum(seen.wrong for seen in rounds)
    late = [at for _, times in images["h5py in SWMR mode; `follow()`"] for at in times]
    text = f"""\
# Following

Of {looks:,} refreshes of files that h5py writes in SWMR mode, {wrong} returned a wrong value. `follow()` has a frame in
memory {statistics.median(late):.1f} ms after its flush (median).

## Refreshes

A writer appends to datasets with different chunk indexes (extensible arrays with gzip, a fixed array, with h5py also a
version 2 B-tree) and flushes them. The reader calls `refresh()` without a pause on one of them, and reads the new rows,
or else the last one. Times are from the end of the flush until the row is in memory.

{table(ids)}

## Frames

Frames of {SIDE} x {SIDE} 2-byte pixels, a chunk each, gzip. `follow()` looks every millisecond in SWMR mode, and every
20 ms at other files; what it returns of a plain file is what two looks agree on.

{table(images)}

## Killed writers

{options.kills} runs for each pair; the writer, which does not pause, is killed at a random moment of its first
second. The readers go on for a second after that.

{table(killed)}

## Appendix: method and machine

```sh
.venv/bin/{command}
```

{options.rate:g} frames per second, {options.frames} in a run, {options.kills} killed writers. The file is in
`{options.folder}` (memory). Writer and reader are processes of their own; other programs ran at the same time (load
{os.getloadavg()[0]:.0f}): readers that refresh without a pause wait for a processor most of all. {os.cpu_count()}
processors, {platform.machine()}, h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}.
"""
    # A paragraph is a line.
    return re.sub(r"(?<=[^\n|`])\n(?=[A-Za-z0-9`{])(?!```)", " ", text)


if __name__ == "__main__":
    main()
