"""NDVI on a GPU, fed from storage: live datasets in CUDA against C++ on the processor, and h5py with CuPy by hand.

    .venv/bin/python bench/gpu.py                                     # all of it, then docs/results/gpu.md
    .venv/bin/python bench/gpu.py --sizes 1000,2000 --no-page
    .venv/bin/python bench/gpu.py --driver /path/libfake.so --sizes 64 --rounds 1      # its logic, without a GPU

Grids of N by N, int32 and float32, contiguous and in chunks of N by 100 with Snappy, as in the HDF5-UDF paper. Each
round reads each way in turn into a new array; times are wall times, medians of the rounds after a warm-up round.
The GPU's results are compared with the processor's: integers must be equal, floats within one unit in the
last place. Exits with 2 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results" / "gpu.md"
SIZES = "1000,2000,4000,8000,16000"
TYPES = {
    "int32": ("i4", "int32", "ndvi_int.cpp", "ndvi_int.cu"),
    "float32": ("f4", "float", "ndvi.cpp", "ndvi_float.cu"),
}
LAYOUTS = ("contiguous", "Snappy")
MARKS = ("<!-- figures: begin -->", "<!-- figures: end -->")
NO_GPU = 2
#: Phases of the transfer to the GPU: see `hyperchunk.cuda.Report`.
PARTS = ("reading", "copying", "decompressing", "arranging")
#: CUDA program for CuPy.
FORMULA = {"int32": "out = 10000 * (nir - red) / (nir + red)", "float32": "out = (nir - red) / (nir + red)"}


@dataclass
class Row:
    """Seconds of one way with one grid."""

    size: int
    type: str
    layout: str
    way: str
    seconds: float


def make(folder: Path, size: int, kind: str, layout: str) -> Path:
    """Makes a file with two inputs and a live dataset for each language."""
    import hyperchunk
    import numpy as np

    path = folder / f"{layout}-{kind}-{size}.h5"
    _, output, *sources = TYPES[kind]
    rng = np.random.default_rng(size)
    options: dict[str, Any] = {"layout": "contiguous"}
    if layout == "Snappy":
        options = {"chunks": (size, min(100, size)), "filters": ["snappy"]}
    with hyperchunk.open(path, "w") as file:
        for n, name in enumerate(("Red", "NIR")):
            along, across = np.ogrid[0:size, 0:size]
            values = 2500 + 1500 * np.sin(along / 300 + n) * np.cos(across / 200)
            values = (values + rng.integers(0, 40, values.shape)).astype("i4")
            data = values if kind == "int32" else (values / 10000).astype("f4")
            file.create_dataset(name, data=data, **options)
    for source, chunks in zip(sources, ("auto", None), strict=True):
        name = "CUDA" if source.endswith(".cu") else "C++"
        attach(path, HERE / "udf" / source, f"NDVI:{size}x{size}:{output}", chunks, name)
    with path.open("rb+") as opened:
        os.fsync(opened.fileno())
    return path


def attach(file: Path, source: Path, output: str, chunks: str | None, name: str) -> None:
    """Makes a live dataset and calls it `name`."""
    import h5py

    command = [str(Path(sys.executable).with_name("hyperchunk")), "udf", "attach", str(file), str(source), output]
    done = subprocess.run([*command, *(["--chunks", chunks] if chunks else [])], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{source.name} could not be attached: {done.stderr.strip()}")
    with h5py.File(file, "r+") as opened:
        opened.move("NDVI", name)


def trust(folder: Path) -> None:
    """Makes a key for this run, whose profile may use the GPU."""
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    command = str(Path(sys.executable).with_name("hyperchunk"))
    subprocess.run([command, "key", "new"], check=True, stdout=subprocess.DEVNULL)
    profile = folder / "hyperchunk" / "profiles" / "self" / "profile.toml"
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text("version = 1\n[limits]\nwall_s = 600\ncpu_s = 600\n[grant]\ngpu = true\n")


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the wall time of a call, and its result."""
    start = time.perf_counter()
    given = work()
    return time.perf_counter() - start, given


def cupy() -> Any:
    """Returns CuPy, or None if it is not installed or finds no GPU."""
    try:
        import cupy as found

        found.cuda.runtime.getDeviceCount()
    except Exception:
        return None
    return found


def ways(path: Path, kind: str, device: int) -> dict[str, Callable[[], Any]]:
    """Returns the measured ways: each returns the NDVI in a new array, except those that only transfer an input to
    the GPU.
    """
    import h5py
    import hyperchunk

    def opened(name: str) -> Callable[[], Any]:
        def read() -> Any:
            with hyperchunk.open(path) as file:
                return file[name][...]

        return read

    def to_gpu() -> list[Any]:
        with hyperchunk.open(path) as file:
            return [file[name].cuda(device=device).report for name in ("Red", "NIR")]

    found: dict[str, Callable[[], Any]] = {"C++": opened("C++"), "CUDA": opened("CUDA"), "to the GPU": to_gpu}
    cp = cupy() if "HYPERCHUNK_CUDA_DRIVER" not in os.environ else None
    if cp is not None:
        letter = TYPES[kind][0]
        dtype = {"i4": "int32", "f4": "float32"}[letter]
        kernel = cp.ElementwiseKernel(f"{dtype} red, {dtype} nir", f"{dtype} out", FORMULA[kind], "ndvi")

        def by_hand() -> Any:
            with h5py.File(path) as file:
                red, nir = cp.asarray(file["Red"][...]), cp.asarray(file["NIR"][...])
            return kernel(red, nir).get()

        def handed_over() -> Any:
            with hyperchunk.open(path) as file:
                red, nir = (cp.from_dlpack(file[name].cuda(device=device)) for name in ("Red", "NIR"))
                return kernel(red, nir).get()

        found |= {"h5py and CuPy": by_hand, "Dataset.cuda and CuPy": handed_over}
        red, nir = handed_inputs(cp, path, device)
        found["kernel"] = lambda: (kernel(red, nir), cp.cuda.Device(device).synchronize())
    return found


def handed_inputs(cp: Any, path: Path, device: int) -> tuple[Any, Any]:
    """Returns both inputs on the GPU."""
    import hyperchunk

    with hyperchunk.open(path) as file:
        return cp.from_dlpack(file["Red"].cuda(device=device)), cp.from_dlpack(file["NIR"].cuda(device=device))


def equal(kind: str, way: str, got: Any, expected: Any) -> None:
    """Exits if values differ."""
    import numpy as np

    if kind == "int32":
        if not np.array_equal(got, expected):
            raise SystemExit(f"{way}: {np.count_nonzero(got != expected)} integers differ from those of the processor")
        return
    # Neighbouring floats of one sign are neighbouring integers.
    apart = np.abs(got.view("i4").astype("i8") - expected.view("i4").astype("i8"))
    if apart.max() > 1:
        raise SystemExit(f"{way}: floats differ by up to {apart.max()} units in the last place")


def measure(folder: Path, sizes: list[int], rounds: int, device: int) -> list[Row]:
    """Returns all rows."""
    rows: list[Row] = []
    order = random.Random(1)
    for size in sizes:
        for kind in TYPES:
            for layout in LAYOUTS:
                path = make(folder, size, kind, layout)
                measured = ways(path, kind, device)
                expected = measured["C++"]()
                for way, work in measured.items():
                    got = work()
                    if way not in ("to the GPU", "kernel"):
                        equal(kind, way, got, expected)
                    del got
                for _ in range(rounds):
                    for way in order.sample(list(measured), len(measured)):
                        spent, given = seconds(measured[way])
                        rows.append(Row(size, kind, layout, way, spent))
                        if way == "to the GPU":
                            for part in PARTS:
                                rows.append(Row(size, kind, layout, part, sum(getattr(one, part) for one in given)))
                        del given
                print(f"{path.name}: measured", file=sys.stderr)
                del measured
                path.unlink()
    return rows


def median(rows: list[Row], **where: object) -> float | None:
    """Returns the median of the matching rows."""
    found = [row.seconds for row in rows if all(getattr(row, key) == value for key, value in where.items())]
    return statistics.median(found) if found else None


def milliseconds(value: float | None) -> str:
    """Formats a time for a table."""
    return "" if value is None else f"{1e3 * value:.1f}" if value < 0.1 else f"{1e3 * value:.0f}"


def tables(rows: list[Row], bandwidth: float, about: str) -> str:
    """Returns the figures of the page."""
    order = ("C++", "CUDA", "h5py and CuPy", "Dataset.cuda and CuPy", "to the GPU", *PARTS, "kernel")
    there = [way for way in order if median(rows, way=way) is not None]
    lines = [f"{about} Page-locked memory to the GPU: {bandwidth / 1e9:.1f} GB/s.", ""]
    lines.append("Milliseconds. *GB/s* is what arrives on the GPU a second, and its share of what the bus can do.")
    for kind in TYPES:
        for layout in LAYOUTS:
            lines += ["", f"### {kind}, {layout}", "", f"| N | {' | '.join(there)} | GB/s | of the bus |"]
            lines.append("|---" * (len(there) + 3) + "|")
            for size in sorted({row.size for row in rows}):
                cells = [median(rows, size=size, type=kind, layout=layout, way=way) for way in there]
                moved = median(rows, size=size, type=kind, layout=layout, way="to the GPU")
                speed = 2 * 4 * size * size / moved if moved else 0.0
                share = speed / bandwidth
                shown = " | ".join(milliseconds(cell) for cell in cells)
                lines.append(f"| {size} | {shown} | {speed / 1e9:.2f} | {share:.0%} |")
            lines += ["", break_even(rows, kind, layout)]
    return "\n".join(lines)


def break_even(rows: list[Row], kind: str, layout: str) -> str:
    """Returns the size from which on CUDA is always faster than C++."""
    first = None
    for size in sorted({row.size for row in rows}, reverse=True):
        ours, theirs = (median(rows, size=size, type=kind, layout=layout, way=way) for way in ("CUDA", "C++"))
        if ours is None or theirs is None or ours >= theirs:
            break
        first = size
    if first is None:
        return "CUDA is not faster than C++ at the largest size measured."
    return f"CUDA is faster than C++ from {first}² on."


def main() -> None:
    """Measures, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, help=f"values of N (default {SIZES})")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", type=int, default=0, help="the number of the GPU")
    parser.add_argument(
        "--driver", help="another library in the place of NVIDIA's driver: checks this program, measures nothing"
    )
    parser.add_argument("--folder", help="where the files go (default: a temporary folder)")
    parser.add_argument("--json", help="writes all rows to this file, too")
    parser.add_argument("--no-page", action="store_true", help="only prints")
    arguments = parser.parse_args()
    if arguments.driver:
        os.environ["HYPERCHUNK_CUDA_DRIVER"] = str(Path(arguments.driver).resolve())
        arguments.no_page = True

    import hyperchunk
    from gpu_driver import Driver

    try:
        devices = hyperchunk.cuda.devices()
    except hyperchunk.exceptions.CudaError as error:
        print(f"There is no GPU here, so nothing is measured: {error}", file=sys.stderr)
        sys.exit(NO_GPU)
    if arguments.device >= len(devices):
        print(f"There is no GPU {arguments.device} here, so nothing is measured.", file=sys.stderr)
        sys.exit(NO_GPU)
    sizes = [int(size) for size in arguments.sizes.split(",")]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        trust(Path(name) / "config")
        largest = 4 * max(sizes) ** 2
        bandwidth = Driver(arguments.driver, arguments.device).bandwidth(max(min(largest, 1 << 28), 1 << 16), 5)
        rows = measure(Path(name), sizes, arguments.rounds, arguments.device)
    gpu = devices[arguments.device]
    about = f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB, {platform.machine()}, {os.cpu_count()} processors."
    if arguments.driver:
        about += " **Not NVIDIA's driver: the figures mean nothing.**"
    figures = tables(rows, bandwidth, about)
    print(figures)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows]))
    if not arguments.no_page:
        text = PAGE.read_text()
        (before, rest), (_, after) = text.split(MARKS[0], 1), text.split(MARKS[1], 1)
        assert rest
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{figures}\n\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
