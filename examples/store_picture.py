"""Picture of the demo's part with many processes."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
from ndvi_picture import INK, QUIET

COLOURS = ["#9aa5a0", "#2f6f5e", "#c0703a"]


def draw(ratios: dict[str, list[float]], size: int, files: int, path: Path) -> None:
    """Writes the picture."""
    plt.rcParams["font.family"] = ["DejaVu Sans"]
    scale, width, height = 100, 1490, 470
    figure = plt.figure(figsize=(width / scale, height / scale), dpi=scale, facecolor="white")

    def text(left: float, top: float, words: str, **style: object) -> None:
        figure.text(left / width, 1 - top / height, words, va="top", **style)

    text(40, 28, "Four processes write one HDF5 file at once", size=17, weight="bold", color=INK)
    about = (
        f"the bands of a scene, {size / 1e6:.0f} MB, each process a quarter of the rows; "
        "opening, closing and commit included"
    )
    text(40, 60, about, size=11.5, color=QUIET)
    axes = figure.add_axes((40 / width, 90 / height, 1380 / width, 260 / height))
    longest = max(median(taken) for taken in ratios.values())
    for row, (label, taken) in enumerate(ratios.items()):
        middle = median(taken)
        axes.barh(row, middle, height=0.34, color=COLOURS[row], linewidth=0)
        if row:
            axes.plot([min(taken), max(taken)], [row, row], color=INK, linewidth=1.2, solid_capstyle="butt")
        axes.text(0, row - 0.27, label, size=13, weight="bold", color=COLOURS[row] if row else QUIET, va="bottom")
        told = "the floor" if row == 0 else f"{middle:.2f} times the floor"
        axes.text(max(middle, *taken) + longest * 0.012, row, told, size=13, color=INK, va="center")
    axes.set(xlim=(0, max(max(taken) for taken in ratios.values()) * 1.22), ylim=(2.4, -0.7), yticks=[], xticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    rounds = len(next(iter(ratios.values())))
    told = f"median of {rounds} rounds, line: all of them; {files} files; then plain h5py, in a new process, read them"
    text(
        40,
        385,
        told,
        size=11.5,
        color=QUIET,
    )
    text(40, 430, "Contains modified Copernicus Sentinel data", size=9.5, color=QUIET)
    figure.savefig(path, dpi=scale, pil_kwargs={"optimize": True})
    plt.close(figure)
