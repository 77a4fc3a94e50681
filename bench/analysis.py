"""Cost of statistics during writing, against a store without them and a plain file, in the same loop.

    .venv/bin/python bench/analysis.py --page # docs/results/analysis.md
    .venv/bin/python bench/analysis.py -h     # sizes, rounds, folder

Every round writes the same array each way, in turn: to a plain file (the floor: nothing can be faster), to a store with
checksums, and to one with statistics, too. The table has medians of the rounds' ratios. Then it queries the largest
value, and compares that with a full scan. A second table has user functions that see the written data, a third the
output of the examples.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hyperchunk import store

Values = npt.NDArray[Any]
HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results" / "analysis.md"
COMMAND = Path(sys.executable).with_name("hyperchunk")


def make(mebibytes: int, dtype: str) -> Values:
    """Returns data as from a model: smooth, with noise."""
    count = mebibytes * 2**20 // np.dtype(dtype).itemsize
    values = np.sin(np.arange(count) / 1e5) * 100 + np.random.default_rng(3).integers(0, 8, count)
    return values.astype(dtype).reshape(-1, 2**14)


def raw(folder: Path, values: Values, step: int) -> None:
    """Writes a plain file."""
    with (folder / "raw").open("wb", buffering=0) as file:
        for row in range(0, len(values), step):
            file.write(values[row : row + step].data)


def ours(folder: Path, values: Values, step: int, keep: bool) -> store.Store:
    """Writes a store, with or without statistics."""
    run = store.create(
        folder / "a.h5", {"/h": store.Dataset(values.shape, values.dtype)}, statistics=keep, sync="never"
    )
    with run.writer() as writer:
        for row in range(0, len(values), step):
            writer.write("/h", (row, 0), values[row : row + step])
    run.commit([writer.close()])
    return run


def timed(work: Callable[[], Any]) -> float:
    """Returns the elapsed seconds of a call."""
    clock = time.perf_counter()
    work()
    return time.perf_counter() - clock


def have_memory(size: int) -> None:
    """Allocates memory and frees it: on some virtual machines, memory that was free for a while is slow to get."""
    np.ones(2 * size, "u1")


def measure_round(values: Values, step: int, within: Path | None) -> dict[str, float]:
    """Runs one round; returns ratios."""
    folder = Path(tempfile.mkdtemp(dir=within))
    try:
        have_memory(values.nbytes)
        floor = timed(lambda: raw(folder, values, step))
        (folder / "raw").unlink()
        have_memory(values.nbytes)
        plain = timed(lambda: ours(folder, values, step, False))
        shutil.rmtree(folder / "a.h5.d")
        (folder / "a.h5").unlink()
        have_memory(values.nbytes)
        kept = timed(lambda: ours(folder, values, step, True))
        run = store.open(folder / "a.h5")
        asked = timed(lambda: run.zones("/h").top(1))
        read = timed(lambda: run.open()["/h"][...].max())
    finally:
        shutil.rmtree(folder)
    return {"checksum": plain / floor, "statistics": kept / floor, "cost": kept / plain, "asked": read / asked}


PROCESSES = 4


def one_of_four(runs: list[store.Store], rank: int, mebibytes: int, barrier: Any, told: Any) -> None:
    """Runs one process: its rows of each store, hour by hour, after a common start."""
    hours = make(mebibytes // PROCESSES, "f4").reshape(-1, 128, 512)
    for run in runs:
        barrier.wait(120)
        clock = time.perf_counter()
        with run.writer() as writer:
            for hour, height in enumerate(hours):
                writer.write("/ocean/h", (hour, 128 * rank, 0), height[None])
        ticket = writer.close()
        told.put((time.perf_counter() - clock, ticket))
        barrier.wait(120)


def four_processes(within: Path | None, mebibytes: int, rounds: int) -> list[float]:
    """Returns the slowdown of a model by statistics, round by round: 4 processes, a strip of the basin each."""
    spawn = multiprocessing.get_context("spawn")
    barrier, told = spawn.Barrier(PROCESSES + 1), spawn.Queue()
    hours = mebibytes // PROCESSES * 2**20 // (4 * 128 * 512)
    with tempfile.TemporaryDirectory(dir=within) as name:
        ocean = {"/ocean/h": store.Dataset((hours, PROCESSES * 128, 512), "f4")}
        runs = [
            store.create(Path(name) / f"{number}.h5", ocean, statistics=number % 2 == 1, sync="never")
            for number in range(2 * (rounds + 1))
        ]
        given = [(runs, rank, mebibytes, barrier, told) for rank in range(PROCESSES)]
        processes = [spawn.Process(target=one_of_four, args=arguments, daemon=True) for arguments in given]
        for process in processes:
            process.start()
        took = []
        for run in runs:
            barrier.wait(120)
            done = [told.get(timeout=120) for _ in processes]
            barrier.wait(120)
            run.commit([ticket for _, ticket in done])
            took.append(max(seconds for seconds, _ in done))
            shutil.rmtree(f"{run.path}.d")
        for process in processes:
            process.join()
    # The first round is a warm-up.
    return [took[number + 1] / took[number] for number in range(2, len(took), 2)]


FUNCTIONS = {
    "Lua": (
        ".lua",
        """
function on_write(dataset, box, array)
  local largest, sum = -math.huge, 0
  for i = 1, box.size do
    if array[i] > largest then largest = array[i] end
    sum = sum + array[i]
  end
  return {max = largest, sum = sum}
end
""",
    ),
    "NumPy": (
        ".py",
        """
def on_write(dataset, box, array):
    return {"max": array.max(), "sum": float(array.sum(dtype="f8"))}
""",
    ),
    "C++": (
        ".cpp",
        """
hyperchunk::pairs on_write(const std::string &, const hyperchunk::box &box, const hyperchunk::array &array) {
    const float *data = array.data<float>();
    float largest = data[0];
    double sum = 0;
    for (size_t i = 0; i < box.size(); i++) {
        if (data[i] > largest) largest = data[i];
        sum += data[i];
    }
    return {{"max", largest}, {"sum", sum}};
}
""",
    ),
}


def analyses(folder: Path) -> dict[str, bytes]:
    """Returns the records of the functions, signed with a key made for this run."""
    made = {}
    for name, (extension, text) in FUNCTIONS.items():
        path = folder / f"bench{extension}"
        path.write_text(text)
        made[name] = store.Analysis(path, ["/h"], time="30s", failure="raise").record()
        if name == "C++":
            wasm = store.Analysis(path, ["/h"], time="30s", failure="raise", backend="wasm")
            made["WebAssembly (C++)"] = wasm.record()
    return made


def written(folder: Path, values: Values, step: int, looks: bytes | None) -> None:
    """Writes a store with checksums, with or without a function. The worker is started before."""
    given = [] if looks is None else [looks]
    run = store.create(folder / "a.h5", {"/h": store.Dataset(values.shape, values.dtype)}, analyses=given, sync="never")
    with run.writer() as writer:
        writer.write("/h", (0, 0), values[:step])
        clock = time.perf_counter()
        for row in range(0, len(values), step):
            writer.write("/h", (row, 0), values[row : row + step])
        TOOK.append(time.perf_counter() - clock)
    run.commit([writer.close()])
    if looks is not None:
        (found,) = run.results("/h")
        assert not found.failures, found.failures[0]
        largest = max(box.values["max"] for box in found.boxes if box.values is not None)
        assert largest == values.max(), (largest, values.max())
    shutil.rmtree(folder / "a.h5.d")
    (folder / "a.h5").unlink()


#: Seconds of the writes in :func:`written`.
TOOK: list[float] = []


def functions(within: Path | None, mebibytes: int, rounds: int) -> list[list[str]]:
    """Returns rows: a function, and its cost with writes of 1 and of 16 MiB."""
    values = make(mebibytes, "f4")
    cells: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(dir=within) as name:
        folder = Path(name)
        records = analyses(folder)
        for size in (1, 16):
            step = size * 2**20 // values[0].nbytes
            ratios: dict[str, list[float]] = {name: [] for name in records}
            for turn in range(rounds + 1):
                TOOK.clear()
                for looks in (None, *records.values()):
                    written(folder, values, step, looks)
                for name, took in zip(records, TOOK[1:], strict=True):
                    # The first round is a warm-up.
                    ratios[name] += [took / TOOK[0]] if turn else []
            for name, all_ in ratios.items():
                cells.setdefault(name, [name]).append(
                    f"{statistics.median(all_):.2f} ({min(all_):.2f} to {max(all_):.2f})"
                )
    return list(cells.values())


def example(name: str) -> str:
    """Returns the output of an example."""
    command = [sys.executable, HERE.parent / "examples" / "store" / name]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def table(head: list[str], rows: list[list[str]]) -> str:
    """Formats a Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def write_page(given: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    """Writes docs/results/analysis.md."""
    kinds = [
        [row["dtype"].replace(">f4", "f4, big-endian")]
        + [f"{row[name]:.2f}" for name in ("checksum", "statistics", "cost")]
        + [f"{row['asked']:.0f}"]
        for row in found
    ]
    head = [
        "element",
        "checksums / plain file",
        "statistics / plain file",
        "statistics on / off",
        "reading all / asking",
    ]
    users = functions(given.folder, given.mebibytes, 9)
    four = four_processes(given.folder, 4 * given.mebibytes, given.rounds)
    parts = {
        "four": f"{statistics.median(four):.2f} ({min(four):.2f} to {max(four):.2f})",
        "statistics": table(head, kinds),
        "functions": table(["function", "writes of 1 MiB", "writes of 16 MiB"], users),
        "ocean": example("ocean.py").strip(),
        "looked": example("analysis_write.py").strip(),
        "folder": "`/dev/shm` (memory)"
        if str(given.folder) == "/dev/shm"
        else f"`{given.folder or tempfile.gettempdir()}`",
        "size": f"{given.mebibytes} MiB",
        "write": f"{given.write} MiB",
        "rounds": str(given.rounds),
        "machine": f"{os.cpu_count()} processors, {platform.machine()}, NumPy {np.__version__}.",
    }
    text = (HERE / "analysis.md").read_text()
    for name, value in parts.items():
        text = text.replace("{" + name + "}", value)
    PAGE.write_text(text)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=64)
    parser.add_argument("--write", type=int, default=8, help="MiB of each write")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--dtypes", default="f4,f8,i4,i8,u2,>f4")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--page", action="store_true", help="also measure functions, and write docs/results/analysis.md"
    )
    given = parser.parse_args()
    found = []
    for dtype in given.dtypes.split(","):
        values = make(given.mebibytes, dtype)
        step = max(1, given.write * 2**20 // values[0].nbytes)
        ratios: dict[str, list[float]] = {"checksum": [], "statistics": [], "cost": [], "asked": []}
        for _ in range(given.rounds):
            for name, ratio in measure_round(values, step, given.folder).items():
                ratios[name].append(ratio)
        found.append({"dtype": dtype, **{name: statistics.median(all_) for name, all_ in ratios.items()}})
    if given.json:
        print(json.dumps(found))
        return
    print(f"{given.mebibytes} MiB in writes of {given.write} MiB; times of the plain file, medians of {given.rounds}")
    print("dtype  checksums  statistics  with/without  read all/ask")
    for row in found:
        numbers = f"{row['checksum']:9.2f}  {row['statistics']:10.2f}  {row['cost']:12.2f}  {row['asked']:12.0f}"
        print(f"{row['dtype']:5}  {numbers}")
    if given.page:
        with tempfile.TemporaryDirectory() as config:
            # The functions are signed with a key made for this run, not the user's.
            os.environ["XDG_CONFIG_HOME"] = config
            subprocess.run([COMMAND, "key", "new"], check=True, stdout=subprocess.DEVNULL)
            write_page(given, found)


if __name__ == "__main__":
    main()
