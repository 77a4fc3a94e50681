"""Test files of the cloud benchmarks; made once, in a cache folder (3.3 GB).

    python bench/cloud/make.py FOLDER

| file | contents |
|---|---|
| granule | as ATL03: 6 beams of 10 one-dimensional datasets, whose chunks alternate; B-trees of version 1 |
| granule_paged | the same, pages of 4 MiB: "cloud-optimised HDF5" |
| granule_latest | the same in the newest format: fixed and extensible arrays, 12 attributes an object, dense |
| granule_btree2 | the same, two unlimited dimensions: B-trees of version 2 |
| granule_big_endian | big-endian; a dataset's chunks are contiguous |
| cube | 182 days of a global field, a chunk 1 x 180 x 360 |
| contig | 1 GiB, contiguous |
"""

from __future__ import annotations

import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np

BEAMS = ["gt1l", "gt1r", "gt2l", "gt2r", "gt3l", "gt3r"]
ROWS, CHUNK = 1_800_000, 10_000
PHOTONS = {
    "lat_ph": "f8",
    "lon_ph": "f8",
    "h_ph": "f4",
    "delta_time": "f8",
    "dist_ph_along": "f4",
    "dist_ph_across": "f4",
    "signal_conf_ph": "i1",
    "quality_ph": "i1",
    "ph_id_pulse": "u1",
    "pce_mframe_cnt": "u4",
}
ABOUT_PHOTONS = {
    "units": "1",
    "source": "bench",
    "contentType": "physicalMeasurement",
    "description": "synthetic field used for the measurement of cloud readers",
    "coordinates": "lat_ph lon_ph",
}
CUBE = (182, 720, 1440)
CONTIGUOUS = 1 << 27
FILES = ["granule", "granule_paged", "granule_latest", "granule_btree2", "granule_big_endian", "cube", "contig"]


def photons(name: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Returns one column of a beam."""
    k = np.arange(count)
    columns: dict[str, Any] = {
        "lat_ph": lambda: 30 + k * 6.2e-8 + rng.normal(0, 2e-9, count),
        "lon_ph": lambda: -105 - k * 1.1e-8 + rng.normal(0, 2e-9, count),
        "h_ph": lambda: 300 + 40 * np.sin(k / 5e4) + rng.normal(0, 8, count),
        "delta_time": lambda: 1.3e8 + np.cumsum(rng.integers(0, 3, count)) * 5e-5,
        "dist_ph_along": lambda: (k * 0.007) % 20 + rng.normal(0, 1e-3, count),
        "dist_ph_across": lambda: 3000 + rng.normal(0, 0.5, count),
        "signal_conf_ph": lambda: rng.integers(-1, 5, count),
        "quality_ph": lambda: rng.random(count) < 0.02,
        "ph_id_pulse": lambda: np.sort(rng.integers(0, 200, count).reshape(-1, 1000), axis=1).ravel(),
        "pce_mframe_cnt": lambda: 400_000_000 + k // 400,
    }
    return columns[name]().astype(PHOTONS[name])


def encoded(values: np.ndarray, level: int = 6) -> bytes:
    """Applies shuffle and deflate to a chunk."""
    raw, size = values.tobytes(), values.dtype.itemsize
    if size > 1:
        raw = np.frombuffer(raw, "u1").reshape(-1, size).T.tobytes()
    return zlib.compress(raw, level)


def start(path: Path) -> h5py.File:
    """Creates a granule without its beams."""
    latest = path.stem in {"granule_latest", "granule_btree2"}
    paged = {"fs_strategy": "page", "fs_page_size": 4 << 20} if "paged" in path.stem else {}
    file = h5py.File(path, "w", libver="latest" if latest else None, **paged)
    for name, value in {"title": "ATL03-like granule", "institution": "bench", "Conventions": "CF-1.6"}.items():
        file.attrs[name] = value
    file["orbit_info/sc_orient"] = np.array([1], "i1")
    file["ancillary_data/atlas_sdp_gps_epoch"] = np.array([1198800018.0])
    return file


def add_beam(file: h5py.File, beam: str, rows: int, order: str = "<") -> dict[str, Any]:
    """Creates a beam's datasets, empty, so that their headers precede the beam's chunks."""
    latest, two = "latest" in file.filename, "btree2" in file.filename
    group = file.create_group(beam)
    for name, value in {"atlas_beam_type": "strong", "groundtrack_id": beam, "sc_orientation": "Forward"}.items():
        group.attrs[name] = value
    datasets = {}
    for number, (name, kind) in enumerate(PHOTONS.items()):
        shape, chunks, most = ((rows, 1), (CHUNK, 1), (None, None)) if two else ((rows,), (CHUNK,), (None,))
        dataset = file.create_dataset(
            f"{beam}/heights/{name}",
            shape=shape,
            dtype=np.dtype(kind).newbyteorder(order),
            chunks=chunks,
            maxshape=None if latest and number % 2 else most,
            shuffle=True,
            compression="gzip",
            compression_opts=6,
        )
        more = {f"note_{n}": f"attribute {n} of {name}" for n in range(6)} if latest else {}
        for key, value in {"long_name": name, **ABOUT_PHOTONS, **more}.items():
            dataset.attrs[key] = value
        datasets[name] = dataset
    return datasets


def granules(folder: Path, pool: ThreadPoolExecutor) -> None:
    """Makes all granules: the same chunks in each, except the big-endian one."""
    files = [start(folder / f"{name}.h5") for name in FILES if name.startswith("granule")]
    for number, beam in enumerate(BEAMS):
        rng = np.random.default_rng(100 + number)
        columns = {name: photons(name, ROWS, rng) for name in PHOTONS}
        big = add_beam(files[-1], beam, ROWS, ">")
        made = [add_beam(file, beam, ROWS) for file in files[:-1]]
        places = [(first, name) for first in range(0, ROWS, CHUNK) for name in PHOTONS]
        parts = (columns[name][first : first + CHUNK] for first, name in places)
        for (first, name), chunk in zip(places, pool.map(encoded, parts), strict=True):
            for datasets in made:
                dataset = datasets[name]
                dataset.id.write_direct_chunk((first,) + (0,) * (dataset.ndim - 1), chunk)
        for name, values in columns.items():
            big[name][...] = values
        print("granule", beam, flush=True)
    for file in files:
        file.close()


def cube(folder: Path, pool: ThreadPoolExecutor) -> None:
    """Makes the field."""
    days, height, width = CUBE
    latitude, longitude = np.linspace(-np.pi / 2, np.pi / 2, height), np.linspace(0, 12, width)
    base = 280 + 30 * np.cos(latitude)[:, None] + 3 * np.sin(longitude)[None, :]
    rng = np.random.default_rng(5)

    def day(number: int) -> list[tuple[int, int, bytes]]:
        noise = rng.normal(0, 0.3, (height, width))
        values = np.round(base + np.sin(number / 7) + noise, 2).astype("f4")
        corners = [(y, x) for y in range(0, height, 180) for x in range(0, width, 360)]
        return [(y, x, zlib.compress(values[y : y + 180, x : x + 360].tobytes(), 4)) for y, x in corners]

    with h5py.File(folder / "cube.h5", "w") as file:
        options = {"chunks": (1, 180, 360), "compression": "gzip", "compression_opts": 4}
        dataset = file.create_dataset("t2m", shape=CUBE, dtype="f4", **options)
        for name, value in {"units": "K", "long_name": "2 metre temperature"}.items():
            dataset.attrs[name] = value
        file["lat"], file["lon"] = np.linspace(90, -90, height), np.linspace(0, 359.75, width)
        file["time"] = np.arange(days)
        for number, chunks in enumerate(map(day, range(days))):
            for y, x, chunk in chunks:
                dataset.id.write_direct_chunk((number, y, x), chunk)
    print("cube", flush=True)


def contiguous(folder: Path) -> None:
    """Makes a contiguous gibibyte."""
    with h5py.File(folder / "contig.h5", "w") as file:
        dataset = file.create_dataset("x", shape=(CONTIGUOUS,), dtype="f8")
        block = np.random.default_rng(1).random(1 << 20)
        for start in range(0, CONTIGUOUS, 1 << 20):
            dataset[start : start + (1 << 20)] = block + start
    print("contig", flush=True)


def make(folder: Path) -> None:
    """Makes all missing files."""
    made = folder / ".complete-2"
    if made.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        granules(folder, pool)
        cube(folder, pool)
    contiguous(folder)
    made.touch()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
