"""Picture of the demo's part with many files: the series of two pixels, and one day."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
from granules_demo import GRANULES, PIXELS, Answer
from ndvi_picture import INK, QUIET, SOIL_TO_FOREST

COLOURS = {"forest": "#2f6f5e", "field": "#c0703a"}


def draw(answer: Answer, path: Path) -> None:
    """Writes the picture."""
    plt.rcParams["font.family"] = ["DejaVu Sans"]
    scale, width, height = 100, 1490, 560
    figure = plt.figure(figsize=(width / scale, height / scale), dpi=scale, facecolor="white")

    def text(left: float, top: float, words: str, **style: object) -> None:
        figure.text(left / width, 1 - top / height, words, va="top", **style)

    text(40, 28, f"{GRANULES} files in S3, one dataset", size=17, weight="bold", color=INK)
    about = f"NDVI, a file every five days, {answer.size / 1e6:.0f} MB in a real S3 server, 25 ms before each request"
    text(40, 62, about, size=11.5, color=QUIET)

    panel = figure.add_axes((40 / width, 85 / height, 370 / width, 370 / height))
    panel.set_facecolor("#d9dddb")
    panel.imshow(answer.picture, cmap=SOIL_TO_FOREST, vmin=0, vmax=0.9, interpolation="nearest")
    panel.set(xticks=[], yticks=[])
    for spine in panel.spines.values():
        spine.set_visible(False)
    for name, (row, column) in PIXELS.items():
        panel.plot(column, row, "o", markersize=10, markerfacecolor=COLOURS[name], markeredgecolor="white")
    text(40, 485, "one day; grey: a cloud", size=11.5, color=QUIET)

    axes = figure.add_axes((490 / width, 130 / height, 940 / width, 325 / height))
    jobs = {job: (seconds, requests) for job, seconds, requests in answer.jobs}
    for name, series in answer.series.items():
        axes.plot(answer.days, series, ".", color=COLOURS[name], markersize=6)
        seconds, requests = jobs[f"series of a pixel: {name}"]
        last = series[~(series != series)][-1]
        axes.annotate(
            name, (answer.days[-1], last), (8, 0), textcoords="offset points", size=13, weight="bold",
            color=COLOURS[name], va="center",
        )  # fmt: skip
    axes.set_ylim(0, 0.95)
    axes.tick_params(length=0, labelsize=10, labelcolor=QUIET)
    axes.grid(axis="y", color="#e6e9e7", linewidth=1)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    joined = jobs["join 200 files, save"]
    told = (
        f"joined in {joined[0]:.1f} s, {joined[1]} requests; then the series of a pixel "
        f"in {seconds:.2f} s, {requests} requests"
    )
    text(490, 485, told, size=11.5, color=QUIET)
    text(40, 525, "Contains modified Copernicus Sentinel data; seasons and clouds are made up", size=9.5, color=QUIET)
    figure.savefig(path, dpi=scale, pil_kwargs={"optimize": True})
    plt.close(figure)
