"""Picture of the demo's part with SQL."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
from ndvi_picture import INK, QUIET
from store_picture import COLOURS


def draw(seconds: dict[str, float], size: int, question: str, path: Path) -> None:
    """Writes the picture: CPU seconds of each way to an answer."""
    plt.rcParams["font.family"] = ["DejaVu Sans"]
    scale, width, height = 100, 1490, 470
    figure = plt.figure(figsize=(width / scale, height / scale), dpi=scale, facecolor="white")

    def text(left: float, top: float, words: str, **style: object) -> None:
        figure.text(left / width, 1 - top / height, words, va="top", **style)

    text(40, 28, "SQL over an HDF5 file that h5py wrote", size=17, weight="bold", color=INK)
    text(40, 62, question, size=11.5, color=QUIET, family="DejaVu Sans Mono")
    axes = figure.add_axes((40 / width, 95 / height, 1380 / width, 260 / height))
    best = min(seconds.values())
    colours = [COLOURS[1], COLOURS[0], COLOURS[2]]
    for row, (label, taken) in enumerate(seconds.items()):
        axes.barh(row, taken, height=0.34, color=colours[row], linewidth=0)
        axes.text(0, row - 0.27, label, size=13, weight="bold", color=colours[row] if row != 1 else QUIET, va="bottom")
        told = f"{taken * 1e3:.0f} ms of CPU" + ("" if taken == best else f", {taken / best:.1f} times")
        axes.text(taken + max(seconds.values()) * 0.012, row, told, size=13, color=INK, va="center")
    axes.set(xlim=(0, max(seconds.values()) * 1.22), ylim=(2.4, -0.7), yticks=[], xticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    told = f"DuckDB; the bands of a scene as columns, {size / 1e6:.0f} MB; opening the file included; least of 7 rounds"
    text(40, 385, told, size=11.5, color=QUIET)
    text(40, 430, "Contains modified Copernicus Sentinel data", size=9.5, color=QUIET)
    figure.savefig(path, dpi=scale, pil_kwargs={"optimize": True})
    plt.close(figure)
