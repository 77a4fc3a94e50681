"""Edits of existing files, against h5py in the same run: cost of an attribute, of appending, and growth.

    .venv/bin/python bench/editing.py               # all tables, in the folder for temporary files
    .venv/bin/python bench/editing.py --folder DIR --rounds 1

h5py never waits for the disk; Hyperchunk does at each commit, which makes commits survive a power failure. Rows with
`sync="never"` leave that out, so that they compare the work itself. Processor seconds are those of all threads;
medians of the rounds. The results of both are compared, outside the clock. System calls are counted by `strace`, if
it is installed.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import statistics
import subprocess
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
MIB = 1 << 20
FRAME = (256, 256)
Opener = Callable[[Path], Any]


def with_h5py(path: Path) -> Any:
    """Opens a file with h5py."""
    return h5py.File(path, "r+")


def with_sync(path: Path) -> Any:
    """Opens a file with Hyperchunk as users do."""
    return hyperchunk.open(path, "r+")


def without_sync(path: Path) -> Any:
    """Opens a file with Hyperchunk, without waiting for the disk."""
    return hyperchunk.open(path, "r+", sync="never")


EDITORS: dict[str, Opener] = {
    "h5py": with_h5py,
    "hyperchunk": with_sync,
    'hyperchunk, `sync="never"`': without_sync,
}


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Table:
    """Prints rows of a Markdown table."""

    def __init__(self, *head: str) -> None:
        print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))

    def row(self, *cells: object) -> None:
        print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def medians(rounds: int, make: Callable[[Path], None], edit: Callable[[Any], None], folder: Path) -> dict[str, Any]:
    """Runs an edit with each editor in turn; returns its elapsed and processor seconds and the file's size."""
    times: dict[str, list[tuple[float, float, int]]] = {name: [] for name in EDITORS}
    for _ in range(rounds):
        results = []
        for name, opener in EDITORS.items():
            path = folder / "edited.h5"
            make(path)
            start, used = time.perf_counter(), processor_seconds()
            with opener(path) as file:
                edit(file)
            elapsed, used = time.perf_counter() - start, processor_seconds() - used
            times[name].append((elapsed, used, path.stat().st_size))
            with h5py.File(path) as file:
                results.append(file["x"][...].tobytes())
            path.unlink()
        assert len(set(results)) == 1, "the editors wrote different values"
    return {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in times.items()}


# --- One attribute of a large file ---

ATTRIBUTE = """
import sys, time, h5py, hyperchunk
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import editing
path, name = Path(sys.argv[2]), sys.argv[3]
with editing.EDITORS[name](path) as file:
    file["x"].attrs["warm"] = time.time()
used = editing.processor_seconds()
print("begin", file=sys.stderr, flush=True)
with editing.EDITORS[name](path) as file:
    file["x"].attrs["calibrated"] = time.time()
print("end", file=sys.stderr, flush=True)
print(editing.processor_seconds() - used)
"""


def traced(path: Path, name: str) -> tuple[int, int] | None:
    """Returns the bytes that an attribute's edit writes and the times that it waits for the disk."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    log = path.with_name("calls")
    calls = "write,pwrite64,pwritev,fsync,fdatasync"
    command = [strace, "-f", "-o", str(log), "-e", f"trace={calls}", sys.executable, "-c", ATTRIBUTE]
    subprocess.run([*command, str(Path(__file__).parent), str(path), name], capture_output=True, check=True)
    between = log.read_text(encoding="utf-8").partition('"begin')[2].partition('"end')[0].splitlines()[1:-1]
    log.unlink()
    wrote = [re.search(r"(?:\bp?write(?:64|v)?\(| resumed>).* = (\d+)$", line) for line in between]
    synced = [line for line in between if re.search(r"\b(fsync|fdatasync)\(", line)]
    return sum(int(match[1]) for match in wrote if match), len(synced)


def attribute(folder: Path, rounds: int) -> None:
    """Sets an attribute in files of 1 MiB and of 1 TiB, which is sparse."""
    table = Table("one attribute of a file of", "editor", "processor ms", "bytes written", "waits for the disk")
    for size in (MIB, 1 << 40):
        for name in EDITORS:
            path = folder / "large.h5"
            with h5py.File(path, "w") as file:
                data = file.create_dataset("x", (size // 8,), "f8")
                data[0], data[-1] = 1, 2
            command = [sys.executable, "-c", ATTRIBUTE, str(Path(__file__).parent), str(path), name]
            used = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(rounds)]
            calls = traced(path, name) or ("", "")
            with h5py.File(path) as file:
                assert file["x"].attrs["calibrated"] > 0
                assert (file["x"][0], file["x"][-1]) == (1, 2)
            label = "1 TiB" if size > MIB else "1 MiB"
            table.row(label, name, f"{1000 * statistics.median(used):.2f}", *calls)
            path.unlink()


# --- Appending and overwriting ---


def appending(folder: Path, rounds: int) -> None:
    """Appends 1,000 frames of 128 KiB to a dataset, with a flush after each."""
    frames = np.random.default_rng(SEED).poisson(3, (8, *FRAME)).astype("u2")

    def append(file: Any) -> None:
        data = file["x"]
        for number in range(1000):
            data.resize(number + 1, axis=0)
            data[number] = frames[number % 8]
            file.flush()

    table = Table("1,000 frames, a flush each", "editor", "s", "processor s", "file, MiB")
    for label, compression in (("as they are", None), ("gzip", "gzip")):

        def make(path: Path, compression: str | None = compression) -> None:
            with h5py.File(path, "w") as file:
                shape = {"shape": (0, *FRAME), "maxshape": (None, *FRAME), "chunks": (1, *FRAME)}
                file.create_dataset("x", dtype="u2", compression=compression, **shape)

        for name, (elapsed, used, size) in medians(rounds, make, append, folder).items():
            table.row(label, name, f"{elapsed:.2f}", f"{used:.2f}", f"{size / MIB:.1f}")


def overwriting(folder: Path, rounds: int, edits: int, plain: bool) -> None:
    """Overwrites a dataset of 1 MiB again and again, with a flush after each."""

    def edit(file: Any) -> None:
        data, values = file["x"], np.zeros(MIB // 8)
        for number in range(edits):
            values[:] = number
            data[...] = values
            file.flush()

    table = Table(f"{edits:,} times 1 MiB, a flush each", "editor", "s", "processor s", "file, MiB")
    kinds: dict[str, dict[str, Any]] = {
        "contiguous": {},
        "chunks of 128 KiB": {"chunks": (1 << 14,)},
        "the same, gzip": {"chunks": (1 << 14,), "compression": "gzip"},
    }
    for label, options in kinds.items():
        if plain and "compression" in options:
            continue

        def make(path: Path, options: dict[str, Any] = options) -> None:
            with h5py.File(path, "w") as file:
                file.create_dataset("x", data=np.random.default_rng(SEED).random(MIB // 8), **options)

        for name, (elapsed, used, size) in medians(rounds, make, edit, folder).items():
            table.row(label, name, f"{elapsed:.2f}", f"{used:.2f}", f"{size / MIB:.2f}")


def sessions(folder: Path, count: int) -> None:
    """Appends a row in each of many short sessions."""
    table = Table(f"{count:,} sessions, each appends a row of 800 bytes", "editor", "s", "processor s", "file, MiB")
    for name, opener in EDITORS.items():
        path = folder / "sessions.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("x", (0, 100), "f8", maxshape=(None, 100), chunks=(1, 100))
        start, used = time.perf_counter(), processor_seconds()
        for number in range(count):
            with opener(path) as file:
                data = file["x"]
                data.resize(number + 1, axis=0)
                data[number] = number
        elapsed, used = time.perf_counter() - start, processor_seconds() - used
        with h5py.File(path) as file:
            assert (file["x"][:, 0] == np.arange(count)).all()
        table.row("", name, f"{elapsed:.2f}", f"{used:.2f}", f"{path.stat().st_size / MIB:.2f}")
        path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder for the files; by default the one for temporary files")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds of each measurement")
    parser.add_argument("--edits", type=int, default=1000, help="number of times a dataset is overwritten")
    parser.add_argument("--sessions", type=int, default=1000, help="number of short sessions")
    parser.add_argument("--plain", action="store_true", help="overwrite datasets without compression only")
    parser.add_argument("--table", choices=["attribute", "append", "overwrite", "sessions"], help="one table only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as text:
        folder = Path(text)
        tables: dict[str, Callable[[], None]] = {
            "attribute": lambda: attribute(folder, options.rounds),
            "append": lambda: appending(folder, options.rounds),
            "overwrite": lambda: overwriting(folder, options.rounds, options.edits, options.plain),
            "sessions": lambda: sessions(folder, options.sessions),
        }
        for name, print_table in tables.items():
            if options.table in (None, name):
                print_table()


if __name__ == "__main__":
    main()
