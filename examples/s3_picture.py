"""Picture of the demo's S3 part: every request of two readers on a common clock."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from ndvi_picture import INK, QUIET, SOIL_TO_FOREST
from s3_demo import LIBRARIES, Read

COLOURS = {"h5py": "#c0703a", "hyperchunk": "#2f6f5e"}


def draw(reads: list[Read], size: int, path: Path) -> None:
    """Writes the picture."""
    plt.rcParams["font.family"] = ["DejaVu Sans"]
    scale, width, height = 100, 1490, 760
    figure = plt.figure(figsize=(width / scale, height / scale), dpi=scale, facecolor="white")

    def text(left: float, top: float, words: str, **style: object) -> None:
        figure.text(left / width, 1 - top / height, words, va="top", **style)

    text(40, 28, "The same window of the same file, from S3", size=17, weight="bold", color=INK)
    about = f"NDVI of 8 x 8 km from a mosaic of {size / 1e6:.0f} MB in a real S3 server, 25 ms before each request"
    text(40, 60, about, size=11.5, color=QUIET)

    panel = figure.add_axes((40 / width, 190 / height, 440 / width, 440 / height))
    panel.imshow(reads[-1].values, cmap=SOIL_TO_FOREST, vmin=0, vmax=0.9, interpolation="nearest")
    panel.set_axis_off()
    text(40, 590, "what both got, bit for bit", size=11.5, color=QUIET)

    end = max(one.seconds for one in reads) * 1.02
    for number, one in enumerate(reads):
        top = 120 + number * 300
        colour = COLOURS[one.library]
        counts = one.counts
        plural = "" if counts["requests"] == 1 else "s"
        text(540, top, LIBRARIES[one.library], size=15, weight="bold", color=colour)
        told = f"{counts['requests']} request{plural}, {counts['bytes'] / 1e6:.1f} MB, {one.seconds:.2f} s"
        text(800, top, told, size=15, color=INK)
        box = (540 / width, 1 - (top + 230) / height, 900 / width, 190 / height)
        axes = figure.add_axes(box)
        log = sorted(one.log, key=lambda entry: entry["start_us"])
        # The proxy's clock starts with the first request, the reader's a little before.
        first, last = log[0]["start_us"], max(entry["end_us"] for entry in log)
        before = max(one.seconds - (last - first) / 1e6, 0) / 2
        for row, entry in enumerate(log):
            start, stop = ((entry[edge] - first) / 1e6 + before for edge in ("start_us", "end_us"))
            axes.barh(row, stop - start, left=start, height=0.72, color=colour, linewidth=0)
            if len(log) <= 10:
                amount = entry["bytes"] / 1e6
                label = (
                    ""
                    if entry["method"] == "HEAD"
                    else f"{amount:.1f} MB"
                    if amount >= 0.1
                    else f"{amount * 1e3:.0f} kB"
                )
                axes.text(stop + end * 0.006, row, label, size=9, color=QUIET, va="center")
        rows = max(len(log), 8)
        axes.set(xlim=(0, end), ylim=(rows - 0.4, -0.6), yticks=[])
        axes.tick_params(length=0, labelsize=10, labelcolor=QUIET)
        axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(8))
        axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g} s")
        axes.grid(axis="x", color="#e6e9e7", linewidth=1)
        axes.set_axisbelow(True)
        for spine in axes.spines.values():
            spine.set_visible(False)
    text(540, 700, "each bar is a request, from when it was sent until its last byte", size=11.5, color=QUIET)
    text(40, 725, "Contains modified Copernicus Sentinel data", size=9.5, color=QUIET)
    figure.savefig(path, dpi=scale, pil_kwargs={"optimize": True})
    plt.close(figure)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """True if values are bit-identical, except for divisions of zero by zero."""
    return np.array_equal(one, other, equal_nan=True)
