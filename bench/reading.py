"""Read speed, against h5py and the physical floor, in the same loop.

    .venv/bin/python bench/reading.py                # the table
    .venv/bin/python bench/reading.py -h             # sizes, rounds, jobs
    .venv/bin/python bench/reading.py --rivals PATH  # the Rust readers of bench/rivals against our engine in Rust

Every round runs each reader once, in turn; the table has medians of the rounds' ratios. Files are in the page cache.
Peak memory is from a separate process that does the job once.
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


def make(folder: Path, mebibytes: int, datasets: int) -> None:
    """Makes the files."""
    import h5py

    rng = np.random.default_rng(SEED)
    side = int((mebibytes * 2**20 / 4) ** 0.5) // 256 * 256
    # Data as from a detector or a model: smooth, with noise in the lower bits.
    rows = np.arange(side, dtype=np.float32)[:, None]
    data = (np.sin(rows / 97) * 1000 + np.cos(np.arange(side, dtype=np.float32) / 61) * 500).round(1)
    data += rng.integers(0, 8, (side, side)).astype(np.float32) / 8
    with h5py.File(folder / "data.h5", "w") as f:
        f.create_dataset("deflate", data=data, chunks=(256, 256), shuffle=True, compression="gzip", compression_opts=4)
        f.create_dataset("contiguous", data=data)
        f.create_dataset("chunked", data=data, chunks=(256, 256))
    with h5py.File(folder / "many.h5", "w", libver="latest") as f:
        for number in range(datasets):
            f.create_dataset(f"group{number // 1000}/dataset{number:05}", data=np.arange(number % 50))
    (folder / "corners.json").write_text(json.dumps(corners(side, 100)))


def corners(side: int, count: int) -> list[tuple[int, int]]:
    """Returns random positions of small slices."""
    rng = np.random.default_rng(SEED)
    return [(int(a), int(b)) for a, b in rng.integers(0, side - 8, (count, 2))]


def whole(open_file: Callable[..., object], folder: Path, name: str) -> None:
    with open_file(folder / "data.h5", "r") as f:  # type: ignore[attr-defined]
        f[name][...]


def slices(open_file: Callable[..., object], folder: Path, name: str) -> None:
    with open_file(folder / "data.h5", "r") as f:  # type: ignore[attr-defined]
        dataset = f[name]
        for row, column in corners(dataset.shape[0], 100):
            dataset[row : row + 8, column : column + 8]


def listing(open_file: Callable[..., object], folder: Path, name: str) -> None:
    found = 0
    with open_file(folder / "many.h5", "r") as f:  # type: ignore[attr-defined]
        for group in f.values():
            for dataset in group.values():
                found += len(dataset.name) + len(dataset.shape)
    assert found


JOBS: dict[str, tuple[Callable[..., None], str]] = {
    "shuffle + deflate": (whole, "deflate"),
    "chunked, no filter": (whole, "chunked"),
    "contiguous": (whole, "contiguous"),
    "names and shapes": (listing, ""),
    "100 slices, contiguous": (slices, "contiguous"),
    "100 slices, chunked": (slices, "chunked"),
    "100 slices, deflate": (slices, "deflate"),
}


def pread(folder: Path) -> None:
    """Reads the bytes of the contiguous dataset into a new array, as the floor."""
    import h5py

    with h5py.File(folder / "data.h5") as f:
        offset, shape = f["contiguous"].id.get_offset(), f["contiguous"].shape
    array = np.empty(shape, np.float32)
    descriptor = os.open(folder / "data.h5", os.O_RDONLY)
    start = time.perf_counter()
    view, done = memoryview(array).cast("B"), 0
    while done < len(view):
        done += os.preadv(descriptor, [view[done:]], offset + done)
    elapsed = time.perf_counter() - start
    os.close(descriptor)
    pread.elapsed = elapsed  # type: ignore[attr-defined]


def opener(reader: str) -> Callable[..., object]:
    if reader == "h5py":
        import h5py

        return h5py.File  # type: ignore[no-any-return]
    import hyperchunk

    return hyperchunk.open


def once(job: str, reader: str, folder: Path) -> float:
    work, name = JOBS[job]
    open_file = opener(reader)
    start = time.perf_counter()
    work(open_file, folder, name)
    return time.perf_counter() - start


def rounds(job: str, folder: Path, count: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"h5py": [], "hyperchunk": []}
    for reader in times:
        once(job, reader, folder)
    if job == "contiguous":
        times["pread"] = []
    for number in range(count):
        order = list(times) if number % 2 else list(reversed(times))
        for reader in order:
            if reader == "pread":
                pread(folder)
                times[reader].append(pread.elapsed)  # type: ignore[attr-defined]
            else:
                times[reader].append(once(job, reader, folder))
    return times


def measured(arguments: argparse.Namespace, folder: Path, job: str, *, cores: str | None) -> dict[str, list[float]]:
    """Returns the times of a job, from a separate process, on these cores."""
    command = [sys.executable, __file__, "--child", job, "--folder", str(folder), "--rounds", str(arguments.rounds)]
    if cores is not None:
        command = ["taskset", "-c", cores, *command]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def peak(folder: Path, job: str, reader: str) -> float:
    """Returns the peak memory of a process that does a job once, in MiB."""
    command = [sys.executable, __file__, "--peak", job, reader, "--folder", str(folder)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def resident_peak() -> float:
    """Returns the peak of this process's memory in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


Times = dict[str, dict[str, list[float] | str]]


def rival_times(arguments: argparse.Namespace, folder: Path, *, cores: str | None) -> Times:
    """Returns the times of bench/rivals' readers on these cores: job -> reader -> seconds, or the reason why there
    are none.
    """
    command = [arguments.rivals, str(folder), str(arguments.rounds), *(arguments.jobs or [])]
    if cores is not None:
        command = ["taskset", "-c", cores, *command]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def against_rivals(arguments: argparse.Namespace, folder: Path) -> None:
    """Prints the rivals' times relative to our engine."""
    ours, ready = "hyperchunk", ", ready"
    wrong = []
    for cores, label in ((None, str(os.cpu_count())), ("0", "1")):
        for number, (job, readers) in enumerate(rival_times(arguments, folder, cores=cores).items()):
            if number == 0:
                print(f"\n| job | cores | {' | '.join(readers)} |\n|---|---|{'---|' * len(readers)}")
            cells = [job, label]
            for reader, seconds in readers.items():
                base = readers[ours + ready if reader.endswith(ready) else ours]
                if isinstance(seconds, str):
                    wrong.append(f"{job}, {reader}: {seconds}")
                    cells.append("-")
                elif seconds is base:
                    cells.append(f"{statistics.median(seconds) * 1e3:.2f} ms")
                else:
                    ratios = [theirs / mine for theirs, mine in zip(seconds, base, strict=True)]
                    cells.append(f"{statistics.median(ratios):.2f}")
            print(f"| {' | '.join(cells)} |", flush=True)
    print("\n".join(["", *dict.fromkeys(wrong)]))


def report(arguments: argparse.Namespace, folder: Path) -> None:
    if arguments.rivals:
        against_rivals(arguments, folder)
        return
    median = statistics.median
    print("| job | cores | h5py ms | hyperchunk ms | h5py / hyperchunk | peak MiB h5py | hyperchunk |")
    print("|---|---|---|---|---|---|---|")
    for job in arguments.jobs or JOBS:
        for cores, label in ((None, str(os.cpu_count())), ("0", "1")):
            if cores is not None and job != "shuffle + deflate":
                continue
            times = measured(arguments, folder, job, cores=cores)
            theirs, ours = times["h5py"], times["hyperchunk"]
            ratio = median([a / b for a, b in zip(theirs, ours, strict=True)])
            memory = (
                [f"{peak(folder, job, reader):.0f}" for reader in ("h5py", "hyperchunk")] if not cores else ["", ""]
            )
            cells = [job, label, f"{median(theirs) * 1e3:.1f}", f"{median(ours) * 1e3:.1f}", f"{ratio:.2f}", *memory]
            print(f"| {' | '.join(cells)} |", flush=True)
            if "pread" in times:
                floor = median([a / b for a, b in zip(ours, times["pread"], strict=True)])
                print(f"| … over `pread` of the same bytes | {label} | | | {floor:.3f} | | |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=64, help="size of each array (default 64)")
    parser.add_argument("--datasets", type=int, default=10_000, help="datasets to list (default 10,000)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", nargs="*", choices=list(JOBS), help="only these")
    parser.add_argument("--rivals", help="the program that bench/rivals builds: compares with it, not with h5py")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(rounds(arguments.child, arguments.folder, arguments.rounds)))
    elif arguments.peak:
        once(arguments.peak[0], arguments.peak[1], arguments.folder)
        print(resident_peak())
    elif arguments.folder:
        report(arguments, arguments.folder)
    else:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), arguments.mebibytes, arguments.datasets)
            report(arguments, Path(folder))


if __name__ == "__main__":
    main()
