"""Picture of a zone map: the statistics of the ocean's waves, without reading the data.

python examples/store/zone_picture.py [zones.png]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from ocean import HOURS, ROWS, write

INK, QUIET, MARK = "#1d2b26", "#6c7a74", "#c0703a"


def draw(path: Path, folder: Path) -> None:
    """Writes the picture."""
    run = write(folder / "ocean.h5")
    largest = np.full((ROWS, HOURS), np.nan)
    for zone in run.zones("/ocean/h"):
        for hours, rows, _ in zone.boxes:
            largest[rows, hours] = zone.summary.max if zone.summary is not None else np.nan
    top = run.zones("/ocean/h").top(1)
    waves = run.query("/ocean/h", "value > 12")
    figure, axes = plt.subplots(figsize=(9, 4.6), dpi=120)
    extent = (0, HOURS, 0, ROWS)
    shown = axes.imshow(largest, aspect="auto", origin="lower", cmap="YlGnBu", interpolation="nearest", extent=extent)
    for hours, rows, _ in waves.boxes:
        size = (hours.stop - hours.start, rows.stop - rows.start)
        axes.add_patch(plt.Rectangle((hours.start, rows.start), *size, fill=False, edgecolor=MARK, linewidth=2))
    hour, row, _ = top[0].index or (0, 0, 0)
    axes.plot(hour + 0.5, row, "o", color=MARK)
    axes.annotate(
        f"{top[0].value:.2f} m",
        (hour + 0.5, row),
        (0, 75),
        textcoords="offset points",
        ha="center",
        color=INK,
        arrowprops={"arrowstyle": "-", "color": MARK},
    )
    axes.set_xlabel("hour")
    axes.set_ylabel("row of the basin")
    share = top.bytes_scanned / top.total
    title = f"The biggest wave, found by reading {top.bytes_scanned:,} of {top.total:,} bytes ({share:.3%})"
    axes.set_title(title, loc="left", color=INK)
    figure.colorbar(shown, label="largest height of each zone, m")
    share = waves.bytes_candidate / waves.total
    note = f"framed: the zones that may hold waves of more than 12 m, {share:.1%} of the data"
    figure.text(0.01, 0.01, note, color=QUIET, size=9)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        draw(Path(sys.argv[1] if len(sys.argv) > 1 else "zones.png"), Path(scratch))
