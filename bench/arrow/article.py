"""Figure 3 of *HDF5 VOL Connector to Apache Arrow*, reproduced: VPIC-IO writes, BD-CATS-IO reads, native and ours.

    .venv/bin/python bench/arrow/article.py             # measures, draws, writes docs/results/arrow-vol.md
    .venv/bin/python bench/arrow/article.py --patterns  # every access pattern of h5bench once, compared
    .venv/bin/python bench/arrow/article.py --draw      # draws the last measurements
    .venv/bin/python bench/arrow/article.py --small     # kilobytes, one round: a smoke test

1, 2 and 4 Mi particles a process (8 properties, 32 bytes each), the same C programs for all: through parallel HDF5's
MPI-IO, and through Hyperchunk's connector. Two rates: *raw*, the time in H5Dwrite or H5Dread alone, which is what the
article shows, and *observed*, from the file's creation until it is closed; `durable` includes fsync. All
ways take turns in each round; the written data are read back and compared once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import programs

Row = dict[str, Any]
WAYS = {
    "native": ("native HDF5, MPI-IO", None, "#9aa39f"),
    "store": ("Hyperchunk, a store", "hyperchunk store;fsync=never;writers={ranks}", "#2f6f5e"),
    "arrow": (
        "Hyperchunk, a store of Arrow files",
        "hyperchunk store;fsync=never;segments=arrow;writers={ranks}",
        "#7fb069",
    ),
    "memory": ("Hyperchunk, buffered in memory", "hyperchunk store;fsync=never;memory=256M;writers={ranks}", "#c0703a"),
}
INK, QUIET = "#1f2a27", "#66716d"
PAGE = programs.environment.ROOT / "docs" / "results" / "arrow-vol.md"
IMAGES = programs.environment.ROOT / "docs" / "images"


def synced(folder: Path) -> float:
    """Syncs everything below a folder to the disk; returns the seconds."""
    start = time.perf_counter()
    for path in [*folder.rglob("*"), folder]:
        if path.is_file() or path.is_dir():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
    return time.perf_counter() - start


def floor(folder: Path, ranks: int, particles: int) -> Row:
    """Writes the same bytes to a file with plain `write` in one process, and reads them."""
    block, path = os.urandom(1 << 20), folder / "raw"
    count = ranks * particles * 32 >> 20 or 1
    start = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(block)
    written = time.perf_counter() - start
    durable = written + synced(folder)
    buffer = bytearray(1 << 20)
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    read = time.perf_counter() - start
    total = count << 20
    return {
        "write": {"raw": written, "observed": written, "durable": durable, "bytes": total},
        "read": {"raw": read, "observed": read, "bytes": total},
    }


def measure(options: argparse.Namespace) -> None:
    """Runs all rounds; prints a line of JSON for each."""
    ways = options.ways.split(",")
    for particles in options.particles:
        for number in range(options.rounds + 1):
            turn = number % len(ways)
            for way in ["floor", *ways[turn:], *ways[:turn]]:
                with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
                    folder = Path(scratch)
                    row: Row = {"way": way, "particles": particles, "ranks": options.ranks, "round": number}
                    if way == "floor":
                        row |= floor(folder, options.ranks, particles)
                    else:
                        row |= once(way, folder, options.ranks, particles, check=number == 0)
                with options.out.open("a") as file:
                    print(json.dumps(row), file=file)
            print(f"{particles >> 10} Ki particles, round {number} of {options.rounds}", flush=True)


def once(way: str, folder: Path, ranks: int, particles: int, check: bool) -> Row:
    """Writes and reads one file."""
    path = folder / "particles.h5"
    connector = WAYS[way][1]
    connector = connector and connector.format(ranks=ranks)
    written = programs.run("vpic_io", ranks, path, connector, particles=particles)
    written["durable"] = written["observed"] + synced(folder)
    read = programs.run("bdcats_io", ranks, path, connector, check, particles=particles, pattern="full")
    return {"write": written, "read": read}


def all_patterns(options: argparse.Namespace) -> str:
    """Runs every pattern natively and through the connector, read back by h5py without it; returns the page's table."""
    import h5py
    import numpy as np

    particles, ranks = min(options.particles), options.ranks
    lines = ["| pattern | native, s | Hyperchunk, s | ratio |", "|---|---|---|---|"]
    for pattern in programs.WRITE_PATTERNS:
        seconds = []
        for way in ("native", "store"):
            with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
                path = Path(scratch) / "particles.h5"
                connector = WAYS[way][1] and WAYS[way][1].format(ranks=ranks)
                row = programs.run("vpic_io", ranks, path, connector, particles=particles, pattern=pattern)
                seconds.append(row["observed"])
                import hyperchunk

                opened = h5py.File(path, "r") if way == "native" else hyperchunk.open(path)
                with opened as file:
                    group = file["Timestep_0"]
                    ids = group["particles"]["id_1"] if "particles" in group else group["id_1"][...].reshape(-1)
                    if not np.array_equal(ids, np.arange(ranks * particles, dtype="i4")):
                        sys.exit(f"{pattern}, {way}: id_1 reads back wrong")
        lines.append(f"| write, {pattern} | {seconds[0]:.3f} | {seconds[1]:.3f} | {seconds[1] / seconds[0]:.2f} |")
    for pattern in programs.READ_PATTERNS:
        seconds = []
        for way in ("native", "store"):
            with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
                path = Path(scratch) / "particles.h5"
                connector = WAYS[way][1] and WAYS[way][1].format(ranks=ranks)
                made = "2d" if pattern in ("cs", "ldc", "rdc", "prl") else "contiguous"
                programs.run("vpic_io", ranks, path, connector, particles=particles, pattern=made)
                row = programs.run("bdcats_io", ranks, path, connector, True, particles=particles, pattern=pattern)
                seconds.append(row["observed"])
        lines.append(f"| read, {pattern} | {seconds[0]:.3f} | {seconds[1]:.3f} | {seconds[1] / seconds[0]:.2f} |")
    return "\n".join(
        [*lines, "", f"{ranks} processes, {particles >> 10} Ki particles each, one run each; all values compared."]
    )


def rows(path: Path) -> list[Row]:
    """Returns the measurements, without the warm-up rounds."""
    read = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for row in read if row["round"]]


def rates(found: list[Row], way: str, particles: int, what: str, kind: str) -> list[float]:
    """Returns GB/s of the rounds."""
    mine = [row[what] for row in found if row["way"] == way and row["particles"] == particles]
    return [row["bytes"] / 1e9 / row[kind] for row in mine if row.get(kind)]


def shown(values: list[float]) -> str:
    """Formats median [least..most]."""
    return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]" if values else ""


def draw(found: list[Row], path: Path) -> None:
    """Draws both halves of the figure: raw and observed rates of writing and reading."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams["font.family"] = ["DejaVu Sans"]
    sizes = sorted({row["particles"] for row in found})
    ways = [way for way in WAYS if any(row["way"] == way for row in found)]
    figure = plt.figure(figsize=(10.4, 7.4), dpi=100, facecolor="white")
    figure.text(0.03, 0.955, "Figure 3, again: VPIC-IO writes, BD-CATS-IO reads", size=14, weight="bold", color=INK)
    about = (
        f"{found[0]['ranks']} processes on two cores, medians; the dashed line is one process with plain write or read"
    )
    figure.text(0.03, 0.92, about, size=10, color=QUIET)
    panels = [("write", "raw"), ("read", "raw"), ("write", "observed"), ("read", "observed")]
    words = {"raw": "in {} alone", "observed": "from open to close"}
    for number, (what, kind) in enumerate(panels):
        axes = figure.add_axes((0.075 + 0.49 * (number % 2), 0.53 - 0.4 * (number // 2), 0.415, 0.29))
        call = words[kind].format("H5Dwrite" if what == "write" else "H5Dread")
        axes.set_title(f"{what}, {call}", loc="left", size=11, color=INK)
        width = 0.8 / len(ways)
        for place, way in enumerate(ways):
            label, _, colour = WAYS[way]
            values = [statistics.median(rates(found, way, size, what, kind) or [0]) for size in sizes]
            at = [index + (place - (len(ways) - 1) / 2) * width for index in range(len(sizes))]
            axes.bar(at, values, width * 0.92, color=colour, label=label)
        for index, size in enumerate(sizes):
            level = statistics.median(rates(found, "floor", size, what, kind))
            axes.plot([index - 0.45, index + 0.45], [level, level], linestyle="--", color=INK, linewidth=1)
        axes.set_xticks(range(len(sizes)), [f"{size / (1 << 20):g} Mi" for size in sizes])
        axes.tick_params(length=0, labelcolor=QUIET)
        axes.set_ylabel("GB/s", color=QUIET)
        axes.grid(axis="y", color="#e6e9e7")
        axes.set_axisbelow(True)
        for spine in axes.spines.values():
            spine.set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(ways), frameon=False, fontsize=9, labelcolor=INK)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, pil_kwargs={"optimize": True})
    plt.close(figure)


def tables(found: list[Row]) -> str:
    """Returns the measured part of the page."""
    ways = ["floor", *(way for way in WAYS if any(row["way"] == way for row in found))]
    lines = ["![Figure 3, again](../images/arrow-vol-3.png)", ""]
    for what, kinds in (("write", ("raw", "observed", "durable")), ("read", ("raw", "observed"))):
        for kind in kinds:
            title = {"raw": f"H5D{what} alone", "observed": "from open to close", "durable": "until it is on the disk"}[
                kind
            ]
            lines += [f"### {what.capitalize()}, {title}, GB/s", ""]
            names = ["plain system calls, one process" if way == "floor" else WAYS[way][0] for way in ways]
            lines += [f"| particles a process | {' | '.join(names)} |", "|---" * (len(ways) + 1) + "|"]
            for size in sorted({row["particles"] for row in found}):
                cells = [shown(rates(found, way, size, what, kind)) for way in ways]
                lines.append(f"| {size / (1 << 20):g} Mi | {' | '.join(cells)} |")
            lines.append("")
    rounds = max(row["round"] for row in found)
    return "\n".join([*lines, f"Median [least..most] of {rounds} rounds; {found[0]['ranks']} processes."])


def put(name: str, text: str) -> None:
    """Replaces a part of the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}")


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--folder", default=None, help="where to write (default: the folder for temporary files)")
    parser.add_argument("--out", type=Path, default=Path("arrow-article.jsonl"))
    parser.add_argument("--patterns", action="store_true", help="every access pattern once, in place of the figure")
    parser.add_argument("--draw", action="store_true", help="draws what was measured before")
    parser.add_argument("--small", action="store_true", help="kilobytes, one round; changes no page")
    options = parser.parse_args()
    options.particles = [8192, 16384] if options.small else [1 << 20, 2 << 20, 4 << 20]
    if options.small:
        options.rounds, options.out = 1, Path(tempfile.mkdtemp()) / "small.jsonl"
    if options.patterns:
        table = all_patterns(options)
        print(table) if options.small else put("patterns", table)
        return
    if not options.draw:
        measure(options)
    found = rows(options.out)
    if options.small:
        print(tables(found))
        shutil.rmtree(options.out.parent)
        return
    draw(found, IMAGES / "arrow-vol-3.png")
    put("figure", tables(found))
    print(f"wrote {PAGE} and {IMAGES / 'arrow-vol-3.png'}")


if __name__ == "__main__":
    main()
