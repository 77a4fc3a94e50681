"""Figures 6 to 9 of *A Plugin for HDF5 using PLFS for Improved I/O Performance and Semantic Analysis*, reproduced.

    .venv/bin/python bench/sharded/plfs.py             # measures, draws, and puts the tables into docs/results/plfs.md
    .venv/bin/python bench/sharded/plfs.py --draw      # draws the last measurements
    .venv/bin/python bench/sharded/plfs.py --small     # megabytes, a round, pictures beside the figures only

10 one-dimensional datasets; transfers of 1 MiB to contiguous parts (Figures 6 and 7) and of 1 MiB + 10 B interleaved
(8 and 9); 1 to 64 processes, which share the same amount. The paper's figures omit open and close; these include
them. Every peer takes its turn in every round, beside the floor: each process with a raw file of its own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import environment
import report
import write

Row = dict[str, Any]
PEERS = {
    "floor": ("raw, a file each", "#9aa39f"),
    "paper": ("the paper's layout", "#c0703a"),
    "mpiio": ("MPI-IO, independent", "#6b5b95"),
    "store": ("Hyperchunk, with checksums", "#2f6f5e"),
    "vol": ("Hyperchunk, h5py through the VOL", "#7fb069"),
}
FIGURES = {
    6: ("contiguous", "write", "contiguous writes, 1 MiB a transfer"),
    7: ("contiguous", "read", "contiguous reads, 1 MiB a transfer"),
    8: ("interleaved", "write", "interleaved writes, 1 MiB + 10 B a transfer"),
    9: ("interleaved", "read", "interleaved reads, 1 MiB + 10 B a transfer"),
}
INK, QUIET = "#1f2a27", "#66716d"
IMAGES = environment.ROOT / "docs" / "images"


def measure(options: argparse.Namespace) -> None:
    """Measures both patterns with every number of processes; existing results are kept."""
    done = {(run[0]["pattern"], run[0]["ranks"]) for run in report.runs(report.rows(options.out))}
    for pattern in ("contiguous", "interleaved"):
        for ranks in options.ranks:
            if (pattern, ranks) in done:
                continue
            count = (1 << 20) // (64 if options.small else 1) + (10 if pattern == "interleaved" else 0)
            print(f"{pattern}, {ranks} processes", flush=True)
            sizes = {"datasets": 10, "transfers": max(64 // ranks, 1), "count": count}
            write.measure(pattern, options, options.out, ranks=ranks, **sizes)


def speeds(found: list[Row], peer: str, what: str) -> list[float]:
    """Returns GB/s of the rounds."""
    return [row["total"] / 1e9 / row[what] for row in found if row["peer"] == peer and row["round"] and what in row]


def draw(runs: list[list[Row]], number: int, path: Path) -> None:
    """Draws one figure: the speed against the number of processes."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    pattern, what, words = FIGURES[number]
    runs = sorted((run for run in runs if run[0]["pattern"] == pattern), key=lambda run: run[0]["ranks"])
    plt.rcParams["font.family"] = ["DejaVu Sans"]
    figure = plt.figure(figsize=(9.6, 5.6), dpi=100, facecolor="white")
    axes = figure.add_axes((0.085, 0.13, 0.56, 0.67))
    figure.text(0.03, 0.945, f"Figure {number}, again: {words}", size=14, weight="bold", color=INK)
    size = runs[0][0]["total"] / 1e6
    about = f"10 datasets, {size:.0f} MB, in memory; open and close included; median, least and most"
    figure.text(0.03, 0.89, about, size=10.5, color=QUIET)
    last: list[tuple[float, str, str]] = []
    for peer, (label, colour) in PEERS.items():
        points = [(run[0]["ranks"], speeds(run, peer, what)) for run in runs]
        points = [(ranks, values) for ranks, values in points if values]
        if not points:
            continue
        ranks = [point[0] for point in points]
        middle = [statistics.median(values) for _, values in points]
        below = [centre - min(values) for centre, (_, values) in zip(middle, points, strict=True)]
        above = [max(values) - centre for centre, (_, values) in zip(middle, points, strict=True)]
        style = {"color": colour, "linestyle": "--" if peer == "floor" else "-", "marker": "o", "markersize": 5}
        axes.errorbar(ranks, middle, [below, above], linewidth=2, capsize=2, elinewidth=0.8, **style)
        last.append((middle[-1], label, colour))
    axes.set_xscale("log", base=2)
    axes.set_xticks([run[0]["ranks"] for run in runs], [str(run[0]["ranks"]) for run in runs])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("processes", color=QUIET)
    axes.set_ylabel("GB/s", color=QUIET)
    axes.tick_params(length=0, labelcolor=QUIET)
    axes.minorticks_off()
    axes.grid(axis="y", color="#e6e9e7")
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    name_lines(figure, axes, last)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, pil_kwargs={"optimize": True})
    plt.close(figure)


def name_lines(figure: Any, axes: Any, last: list[tuple[float, str, str]]) -> None:
    """Writes each line's name at its right end, without overlap."""
    _, top = axes.get_ylim()
    box = axes.get_position()
    gap, before = 0.052, -1.0
    for value, label, colour in sorted(last):
        height = max(box.y0 + box.height * value / top, before + gap)
        before = height
        figure.text(box.x1 + 0.012, height, label, size=10.5, color=colour, va="center", weight="bold")


def tables(runs: list[list[Row]]) -> str:
    """Returns the measured part of the page."""
    lines: list[str] = []
    for number, (pattern, what, words) in FIGURES.items():
        mine = sorted((run for run in runs if run[0]["pattern"] == pattern), key=lambda run: run[0]["ranks"])
        peers = [peer for peer in PEERS if any(report.ratios(run, peer, what) for run in mine)]
        lines += [f"### Figure {number}: {words}", "", f"![{words}](../images/plfs-{number}.png)", ""]
        lines += [f"| processes | {' | '.join(PEERS[peer][0] for peer in peers)} |", "|---" * (len(peers) + 1) + "|"]
        for run in mine:
            spread = report.unsteady(run, what)
            mark = "" if spread <= report.LIMIT else " (unsteady)"
            floor = f"{statistics.median(speeds(run, 'floor', what)):.2f} GB/s"
            cells = [floor, *(report.shown(report.ratios(run, peer, what)) for peer in peers if peer != "floor")]
            lines.append(f"| {run[0]['ranks']}{mark} | {' | '.join(cells)} |")
        lines.append("")
    rounds = min(max(row["round"] for row in run) for run in runs)
    lines += [f"Times to the raw floor of the same round, median [least..most] of {rounds} rounds; less is better."]
    lines += ["*Unsteady*: the floor itself varied by more than 2, so the row says nothing."]
    return "\n".join(lines)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1,2,4,8,16,32,64", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", default="/dev/shm", help="where to write (default: memory)")
    parser.add_argument("--out", type=Path, default=Path("sharded-plfs.jsonl"), help="what is in it is not done again")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    parser.add_argument("--small", action="store_true", help="whether it works: little data, one round, no page")
    parser.add_argument("--drawn", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.small:
        options.rounds = 1
    if not options.draw and not options.drawn:
        measure(options)
    if not options.drawn:
        # Matplotlib is in the benchmark's environment.
        again = [environment.python(), *sys.argv, "--drawn"]
        raise SystemExit(environment.run(again))
    runs = report.runs(report.rows(options.out))
    images = options.out.parent if options.small else IMAGES
    for number in FIGURES:
        draw(runs, number, images / f"plfs-{number}.png")
        print(images / f"plfs-{number}.png")
    made = tables(runs)
    if options.small:
        print(made)
        return
    report.put("figures", made)


if __name__ == "__main__":
    main()
