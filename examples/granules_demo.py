"""Part of the demo with many files: 200 granules in a real S3 server, 25 ms away, become one dataset."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
from s3_scene import BUCKET

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import s3server  # noqa: E402

LATENCY = "25ms"
GRANULES, STEP_DAYS = 200, 5
CHUNK = 100
#: Row and column of the pixels: a forest, and a field.
PIXELS = {"forest": (40, 60), "field": (150, 220)}
FILL = -32768


@dataclass
class Answer:
    """What the part found out."""

    #: Days of the series, and NDVI of each pixel.
    days: np.ndarray
    series: dict[str, np.ndarray]
    #: NDVI of one day.
    picture: np.ndarray
    #: Size of all granules in bytes.
    size: int
    #: Seconds and requests of each job.
    jobs: list[tuple[str, float, int]] = field(default_factory=list)
    #: Values that were read wrong.
    wrong: list[str] = field(default_factory=list)


def year(bands: dict[str, np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Iterates over days and NDVI as stored: the scene's own, with made-up seasons and clouds."""
    ndvi = (bands["NIR"] - bands["Red"]) / (bands["NIR"] + bands["Red"])
    numbers = np.random.default_rng(0)
    # Greener pixels change more with the seasons.
    swing = np.clip(ndvi, 0, 1) * 0.45
    for number in range(GRANULES):
        day = number * STEP_DAYS
        season = np.cos((day - 200) / 365 * 2 * np.pi)
        values = (ndvi - swing * (1 - season) / 2 + numbers.normal(0, 0.01, ndvi.shape)) * 10_000
        stored = np.round(values).astype("i2")
        top, left = numbers.integers(0, 300, 2)
        stored[top : top + 60, left : left + 60] = FILL
        yield day, stored


def make(folder: Path, bands: dict[str, np.ndarray]) -> tuple[list[Path], np.ndarray]:
    """Writes the granules, a day each, by plain h5py; returns them, and what they hold."""
    folder.mkdir(parents=True)
    paths, all_values = [], []
    for day, values in year(bands):
        path = folder / f"ndvi_{day:04}.nc"
        with h5py.File(path, "w") as file:
            stamp = file.create_dataset("time", data=np.array([float(day)]), maxshape=(None,), chunks=(1,))
            stamp.attrs["units"] = "days since 2020-01-01"
            for name in ("y", "x"):
                file[name] = np.arange(300) * 10.0
            for name in ("time", "y", "x"):
                file[name].make_scale(name)
            made = file.create_dataset(
                "ndvi",
                data=values[None],
                maxshape=(None, 300, 300),
                chunks=(1, CHUNK, CHUNK),
                compression="gzip",
                compression_opts=1,
                shuffle=True,
                fillvalue=FILL,
            )
            for axis, name in enumerate(("time", "y", "x")):
                made.dims[axis].attach_scale(file[name])
            made.attrs["scale_factor"], made.attrs["_FillValue"] = 1e-4, np.int16(FILL)
        paths.append(path)
        all_values.append(values)
    return paths, np.stack(all_values)


@contextmanager
def timed(answer: Answer, job: str, proxy: s3server.Proxy) -> Iterator[None]:
    """Adds the time and the requests of a job to the answer."""
    proxy.reset()
    start = time.monotonic()
    yield
    answer.jobs.append((job, time.monotonic() - start, proxy.stats()["requests"]))


def ask(answer: Answer, proxy: s3server.Proxy, saved: Path, stored: np.ndarray) -> None:
    """Joins the granules, and reads from them."""
    import xarray

    options: dict[str, Any] = s3server.storage_options(proxy.endpoint)
    with timed(answer, "join 200 files, save", proxy):
        hyperchunk.open_collection(f"s3://{BUCKET}/granules/*.nc", storage_options=options).save(saved, overwrite=True)
    with timed(answer, "open the collection", proxy):
        ds = xarray.open_dataset(saved, engine="hyperchunk", storage_options=options)
    values = np.where(stored == FILL, np.nan, stored * 1e-4)
    for name, (row, column) in PIXELS.items():
        with timed(answer, f"series of a pixel: {name}", proxy):
            answer.series[name] = ds["ndvi"][:, row, column].values
        if not np.array_equal(answer.series[name], values[:, row, column], equal_nan=True):
            answer.wrong.append(f"the series of the {name} differs from what was written")
    with timed(answer, "one day", proxy):
        answer.picture = ds["ndvi"][110].values
    if not np.array_equal(answer.picture, values[110], equal_nan=True):
        answer.wrong.append("one day differs from what was written")
    answer.days = ds["time"].values


def act(bands: dict[str, np.ndarray], folder: Path) -> Answer | None:
    """Runs the part; returns None without an S3 server, after printing the reason."""
    answer = Answer(np.empty(0), {}, np.empty(0), 0)
    try:
        with (
            s3server.Server(folder / "s3 of granules") as server,
            s3server.Proxy(server.address, server.folder, latency=LATENCY) as proxy,
        ):
            paths, stored = make(folder / "granules", bands)
            answer.size = sum(path.stat().st_size for path in paths)
            for path in paths:
                server.put(BUCKET, f"granules/{path.name}", path)
            ask(answer, proxy, folder / "ndvi.hcx", stored)
    except s3server.UnavailableError as reason:
        print(f"\nThe act with many files is left out: {reason}")
        return None
    print(f"\n{GRANULES} granules, {answer.size / 1e6:.0f} MB, in an S3 server, {LATENCY} before each request, as one:")
    print("                                requests        s")
    for job, seconds, requests in answer.jobs:
        print(f"{job:<30} {requests:>9} {seconds:>8.2f}")
    return answer
