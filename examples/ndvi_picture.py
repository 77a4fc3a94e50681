"""Picture of the demo: the scene beside the NDVI computed by a live dataset."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle

INK, QUIET = "#1c2321", "#66706c"
# Increasingly dark from bare soil to forest, suitable for red-green colour blindness. Water is below the scale.
SOIL_TO_FOREST = LinearSegmentedColormap.from_list(
    "soil_to_forest", ["#f3e6cf", "#dcbf8a", "#b9b35f", "#7f9f45", "#4a8239", "#22612f", "#0b3d24"], N=72
)
SOIL_TO_FOREST.set_under("#4f7ea8")
PIXELS_PER_KM = 100


def stretch(bands: dict[str, np.ndarray]) -> np.ndarray:
    """Converts red, green and blue to a picture: each band stretched a little, and brightened for the eye."""
    picture = [
        np.clip((bands[b] - low) / (high - low), 0, 1)
        for b, low, high in (("Red", 0.015, 0.21), ("Green", 0.025, 0.175), ("Blue", 0.015, 0.145))
    ]
    levels = 48  # the number of levels distinguishable here: a smaller file
    return np.round(np.stack(picture, axis=-1) ** (1 / 1.3) * levels) / levels


def draw(bands: dict[str, np.ndarray], ndvi: np.ndarray, stored: int, path: Path) -> None:
    """Writes the picture; `stored` is the size of the live dataset in its file."""
    plt.rcParams["font.family"] = ["DejaVu Sans"]
    scale, width, height = 100, 1490, 760  # points of the layout, in pixels at 100 dpi
    figure = plt.figure(figsize=(width / scale, height / scale), dpi=scale, facecolor="white")

    def panel(left: float, across: float) -> plt.Axes:
        axes = figure.add_axes((left / width, 60 / height, across / width, 600 / height))
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
        return axes

    def title(left: float, text: str, below: str) -> None:
        figure.text(left / width, 716 / height, text, size=17, weight="bold", color=INK)
        figure.text(left / width, 686 / height, below, size=11.5, color=QUIET)

    left = panel(40, 600)
    left.imshow(stretch(bands), interpolation="nearest")
    title(40, "Sentinel-2, true colour", f"four bands, stored: {bands['Red'].nbytes:,} bytes each")
    left.add_patch(Rectangle((284 - PIXELS_PER_KM, 286), PIXELS_PER_KM, 2.5, color="white"))
    middle = 284 - PIXELS_PER_KM / 2
    left.text(middle, 283, "1 km", color="white", size=11, ha="center", va="bottom", weight="bold")

    right = panel(680, 600)
    image = right.imshow(ndvi, cmap=SOIL_TO_FOREST, vmin=0, vmax=0.9, interpolation="nearest")
    title(680, "NDVI, a live dataset", f"seven lines of Lua, run when it is read, stored: {stored:,} bytes")

    bar = figure.colorbar(image, cax=panel(1310, 22), extend="min", extendfrac=0.04)
    bar.set_ticks([0, 0.2, 0.4, 0.6, 0.8])
    bar.ax.tick_params(length=0, labelsize=11, labelcolor=INK, pad=6)
    bar.outline.set_visible(False)
    beside = bar.ax.get_yaxis_transform()
    for value, label in ((-0.018, "water"), (0.15, "bare soil"), (0.5, "grass, crops"), (0.83, "forest")):
        bar.ax.text(2.9, value, label, size=11, color=QUIET, va="center", transform=beside)
    figure.text(40 / width, 24 / height, "Contains modified Copernicus Sentinel data", size=9.5, color=QUIET)
    figure.savefig(path, dpi=scale, pil_kwargs={"optimize": True})
    plt.close(figure)
