"""h5bench's kernels, unmodified, with MPI-IO and as stores: the same data by SHA-256, and the times.

    .venv/bin/python bench/sharded/h5bench.py              # fetches and builds h5bench and a libhdf5 with MPI, once
    .venv/bin/python bench/sharded/h5bench.py --page       # writes the table into docs/results/plfs.md
    .venv/bin/python bench/sharded/h5bench.py --small --rounds 1 --source FOLDER_OF_H5BENCH

Both ways take turns in each round. A time is h5bench's own from creating the file until it is closed ("observed"); a
ratio is to MPI-IO of the same round: medians [least..most]. h5bench seeds its random numbers with the clock, which is
stopped for both, so that they write the same.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import report

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tools")]

import hdf5_with_mpi  # noqa: E402
import hyperchunk  # noqa: E402

ADDRESS, COMMIT = "https://github.com/hpc-io/h5bench", "675c86d"
DIMENSIONS = {1: (1 << 20, 1, 1), 2: (2048, 512, 1), 3: (128, 128, 64)}
# Patterns in memory and in the file; interleaved data are a compound.
PATTERNS = {
    "contiguous": ("CONTIG", "CONTIG", (1, 2, 3)),
    "compound": ("INTERLEAVED", "INTERLEAVED", (1, 2)),
    "fields of a compound in the file": ("CONTIG", "INTERLEAVED", (1, 2)),
    "fields of a compound in memory": ("INTERLEAVED", "CONTIG", (1, 2)),
}
CONFIGURATION = """\
IO_OPERATION={operation}
MEM_PATTERN={memory}
FILE_PATTERN={file}
TIMESTEPS=3
DELAYED_CLOSE_TIMESTEPS=0
COLLECTIVE_DATA={collective}
COLLECTIVE_METADATA={collective}
EMULATED_COMPUTE_TIME_PER_TIMESTEP=0 s
NUM_DIMS={axes}
DIM_1={dims[0]}
DIM_2={dims[1]}
DIM_3={dims[2]}
CSV_FILE=out.csv
"""
STOPPED_CLOCK = "#include <time.h>\ntime_t time(time_t *at) { if (at) *at = 1000000; return 1000000; }\n"


def programs(source: Path | None) -> Path:
    """Returns the folder of h5bench_write, h5bench_read and the stopped clock."""
    made = hdf5_with_mpi.build("mpich")
    folder = made / f"h5bench-{COMMIT}"
    if (folder / "built").exists():
        return folder
    folder.mkdir(exist_ok=True)
    if source is None:
        source = folder / "source"
        subprocess.run(["git", "clone", "-q", ADDRESS, source], check=True)
        subprocess.run(["git", "-C", source, "checkout", "-q", COMMIT], check=True)
    compiler = [made / "mpi/bin/mpicc", "-O2", "-w"]
    linked = [f"-I{made / 'hdf5/include'}", f"-L{made / 'hdf5/lib'}", "-lhdf5", "-lm"]
    linked += [f"-Wl,-rpath,{made / 'hdf5/lib'}:{made / 'mpi/lib'}"]
    for name in ("h5bench_write", "h5bench_read"):
        sources = [source / "h5bench_patterns" / f"{name}.c", source / "commons" / "h5bench_util.c"]
        subprocess.run([*compiler, *sources, f"-I{source / 'commons'}", "-o", folder / name, *linked], check=True)
    (folder / "clock.c").write_text(STOPPED_CLOCK)
    subprocess.run([*compiler, "-shared", "-fPIC", folder / "clock.c", "-o", folder / "clock.so"], check=True)
    (folder / "built").touch()
    return folder


def run(folder: Path, program: str, ranks: int, place: Path, name: str, store: bool) -> float:
    """Runs a kernel in `place`; returns its observed seconds."""
    command = [hdf5_with_mpi.folder("mpich") / "mpi/bin/mpiexec", "-n", str(ranks)]
    command += ["env", f"LD_PRELOAD={folder / 'clock.so'}", folder / program, f"../{name}.{program}", f"{name}.h5"]
    variables = os.environ | (hyperchunk.plugins.environment(store=True) if store else {})
    done = subprocess.run(list(map(str, command)), cwd=place, env=variables, capture_output=True, text=True)
    found = re.search(r"Observed (?:read )?completion time: ([0-9.]+) s", done.stdout)
    if done.returncode or found is None:
        sys.exit(f"{name} {program}, store={store}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return float(found[1])


def digest(path: Path) -> str:
    """Returns the SHA-256 of all datasets of a file, with their names and types."""
    whole = hashlib.sha256()
    with hyperchunk.open(path) as file:

        def add(name: str, item: object) -> None:
            if isinstance(item, hyperchunk.Dataset):
                whole.update(f"{name} {item.shape} {item.dtype}".encode())
                whole.update(item[()].tobytes())

        file.visititems(add)
    return whole.hexdigest()


def measure(options: argparse.Namespace, place: Path) -> list[str]:
    """Runs every pattern in every round; returns the rows of the table."""
    folder = programs(options.source)
    ways = {"MPI-IO": False, "store": True}
    kernels = [
        (pattern, axes, collective)
        for pattern, (_, _, all_axes) in PATTERNS.items()
        for axes in all_axes
        for collective in ("YES", "NO")
    ]
    lines = []
    for number, (pattern, axes, collective) in enumerate(kernels):
        memory, file, _ = PATTERNS[pattern]
        dims = DIMENSIONS[axes]
        dims = (dims[0] // 64, *dims[1:]) if options.small else dims
        programs_of_it = ["h5bench_write"] + ["h5bench_read"] * (pattern == "contiguous")
        for program in programs_of_it:
            operation = "WRITE" if program == "h5bench_write" else "READ"
            text = CONFIGURATION.format(
                operation=operation, memory=memory, file=file, collective=collective, axes=axes, dims=dims
            )
            text += "READ_OPTION=FULL\n" if operation == "READ" else ""
            (place / f"{number}.{program}").write_text(text)
        times: dict[tuple[str, str], list[float]] = {}
        for turn in range(options.rounds + 1):
            for way in sorted(ways, reverse=turn % 2 == 1):
                (place / way).mkdir(exist_ok=True)
                subprocess.run(["rm", "-rf", place / way / f"{number}.h5", place / way / f"{number}.h5.d"], check=True)
                for program in programs_of_it:
                    took = run(folder, program, options.ranks, place / way, str(number), ways[way])
                    times.setdefault((program, way), []).append(took)
        if len({digest(place / way / f"{number}.h5") for way in ways}) != 1:
            sys.exit(f"{pattern}, {axes}-D: a store has other data than MPI-IO")
        cells = [pattern, f"{axes}-D", "collective" if collective == "YES" else "independent"]
        for program in ("h5bench_write", "h5bench_read"):
            if program not in programs_of_it:
                cells += ["-", "-"]
                continue
            native, ours = times[program, "MPI-IO"][1:], times[program, "store"][1:]
            ratios = [mine / theirs for mine, theirs in zip(ours, native, strict=True)]
            cells += [f"{statistics.median(native):.2f}", report.shown(ratios)]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
        for way in ways:
            subprocess.run(["rm", "-rf", place / way], check=True)
    return lines


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--small", action="store_true", help="a 64th of the data")
    parser.add_argument("--page", action="store_true", help="put the table into docs/results/plfs.md")
    parser.add_argument("--source", type=Path, help="a folder that has h5bench's sources; else they are fetched")
    parser.add_argument("--folder", default="/dev/shm", help="where the files go")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        lines = measure(options, Path(place))
    head = "| pattern | | transfers | write, MPI-IO, s | as a store, to that | read, MPI-IO, s | as a store, to that |"
    size = "16 Ki" if options.small else "1 Mi"
    text = "\n".join([head, "|---|---|---|---|---|---|---|", *lines])
    text += (
        f"\n\n{options.ranks} ranks with {size} particles of 8 values each, 3 time steps; {options.rounds} rounds,"
        " median [least..most]. All datasets of both have the same SHA-256."
    )
    print(f"\n{text}")
    if options.page:
        report.put("h5bench", text)


if __name__ == "__main__":
    main()
