"""The tables and figures of the HDF5-UDF paper: sizes of functions (Table I), cost of reading an empty function and one
with an input (Figure 6), and every back end on both layouts, with and without the sandbox (Figure 7).

    .venv/bin/python bench/hdf5_udf.py                      # all of it, then docs/results/hdf5-udf.md and two pictures
    .venv/bin/python bench/hdf5_udf.py --sizes 1000,2000 --no-page
    .venv/bin/python bench/hdf5_udf.py --sizes 16000 --rounds 1 --no-page --json large.json
    .venv/bin/python bench/hdf5_udf.py --json small.json large.json      # measures nothing, merges them into the page

Each value is from fresh processes that open the file, read one dataset whole into a new array and close, timed inside;
CPU is the reader's and its workers'. The order of the ways changes from round to round. Without the sandbox means
another build of the plugin and the worker, made once beside the first (`HYPERCHUNK_BUILD_WITHOUT_SANDBOX`): no runtime
setting disables the sandbox.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "results" / "hdf5-udf.md"
FRAME = HERE / "hdf5_udf.md"
"""The page without its figures."""
IMAGES = ROOT / "docs" / "images"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperchunk"

BACKENDS = {"C++": "cpp", "Lua": "lua", "wasm": "wasm", "NumPy": "py", "expression": "expr"}
"""wasm is the program in C++, compiled to WebAssembly by Zig."""
LABELS = {language: label for label, language in BACKENDS.items()}
TABLE_1 = {"C++": 3904, "Lua": 2241, "NumPy": 6245}
"""The paper's bytes."""
SIZES = "1000,2000,4000,8000,16000"
EMPTY = [label for label in BACKENDS if label != "expression"]
"""What an empty function can be written in."""
READ = """
import json, os, sys, time
import h5py
way, path, name = sys.argv[1:4]
if way == "open":
    import hyperchunk.file
def others():
    import resource
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = spent.ru_utime + spent.ru_stime
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
            found = [int(p) for t in tasks for p in open(f"/proc/{pid}/task/{t}/children").read().split()]
        except OSError:
            continue
        for child in found:
            try:
                total += time.clock_gettime((~child << 3) | 2)
            except OSError:
                pass
        todo += found
    return total
wall, own = time.perf_counter(), time.process_time()
opened = (hyperchunk.open if way == "open" else h5py.File)(path)
names = name.split("&")
kept = [opened[n][...] for n in names]
wall, own = time.perf_counter() - wall, time.process_time() - own
children = others()
print(json.dumps({"wall": wall, "cpu": own + children, "sum": float(kept[0][::97, ::89].sum(dtype="f8"))}))
"""


@dataclass
class Row:
    """One read."""

    figure: str
    size: int
    layout: str
    way: str
    sandbox: bool
    wall: float
    cpu: float


def package(sandbox: bool) -> Path:
    """Returns the folder with the Python package: this checkout's, or a copy of it built without the sandbox."""
    if sandbox:
        return ROOT / "python"
    target, copy = CACHE / "target-without-sandbox", CACHE / "without-sandbox"
    built = Path(os.environ.get("CARGO_TARGET_DIR") or CACHE / "target") / "release"
    if not target.exists() and built.exists():
        # Third-party crates need not be built twice. (Hard links would share cargo's lock.)
        target.mkdir(parents=True)
        subprocess.run(["cp", "-a", built, target / "release"], check=True)
    print("building without the sandbox …", file=sys.stderr)
    variables = os.environ | {"CARGO_TARGET_DIR": str(target), "HYPERCHUNK_BUILD_WITHOUT_SANDBOX": "1"}
    variables["PATH"] += os.pathsep + str(Path(os.environ.get("CARGO_HOME") or "~/.cargo").expanduser() / "bin")
    crates = ("python", "filter", "vol", "udf-worker", "wasm-worker")
    names = [word for crate in crates for word in ("-p", f"hyperchunk-{crate}")]
    words = ["cargo", "build", "--quiet", "--release", "--locked", *names]
    subprocess.run(words, cwd=ROOT, env=variables, check=True)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "hyperchunk", copy / "hyperchunk", ignore=shutil.ignore_patterns("__pycache__"))
    for name, place in {
        "lib_core.so": "_core.abi3.so",
        "libhyperchunk_filter.so": "plugins/libhyperchunk_filter.so",
        "libhyperchunk_vol.so": "connector/libhyperchunk_vol.so",
        "hyperchunk-udf-worker": "libexec/hyperchunk-udf-worker",
        "hyperchunk-wasm-worker": "libexec/hyperchunk-wasm-worker",
    }.items():
        shutil.copy2(target / "release" / name, copy / "hyperchunk" / place)
    code = "import hyperchunk._command as c; c.main()"
    variables["PYTHONPATH"] = str(copy)
    said = subprocess.run(
        [sys.executable, "-c", code, "doctor"], env=variables, capture_output=True, text=True, check=False
    )
    if "lua     runs, without a sandbox" not in said.stdout:
        raise SystemExit(f"this build is not without the sandbox:\n{said.stdout}{said.stderr}")
    return copy


def attach(file: Path, name: str, language: str, size: int, chunks: str | None, to: str | None = None) -> None:
    """Makes a live dataset from `bench/udf/NAME.LANGUAGE`, and calls it `to`."""
    import h5py

    source = HERE / "udf" / f"{name}.{'cpp' if language == 'wasm' else language}"
    command = [Path(sys.executable).with_name("hyperchunk"), "udf", "attach", file, source, f"NDVI:{size}x{size}:float"]
    if language == "wasm":
        command += ["--backend", "wasm"]
    if chunks is not None and language != "expr":
        command += ["--chunks", chunks]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with h5py.File(file, "r+") as opened:
        opened.move("NDVI", to or f"{name} {LABELS[language]}")


def make(folder: Path, size: int, layout: str) -> Path:
    """Makes a file with two inputs in this layout, a plain dataset and all functions.

    The inputs are slowly varying reflectances in steps of 1/10000, like a satellite's.
    """
    import h5py
    import numpy as np

    path = folder / f"{layout}-{size}.h5"
    rng = np.random.default_rng(size)
    options = {} if layout == "contiguous" else {"chunks": (size, 100), "compression": 1, "shuffle": True}
    with h5py.File(path, "w") as file:
        for n, name in enumerate(("Red", "NIR")):
            dataset = file.create_dataset(name, (size, size), "f4", **options)
            step = size if layout == "contiguous" else 100
            for at in range(0, size, step):
                along, across = np.ogrid[0:size, at : min(at + step, size)]
                values = 2500 + 1500 * np.sin(along / 300 + n) * np.cos(across / 200)
                noise = rng.integers(0, 40, values.shape)
                dataset[:, at : at + step] = ((values + noise).astype("i4") / 10000).astype("f4")
    for label, language in BACKENDS.items():
        if layout == "contiguous":
            attach(path, "copy", language, size, "auto")
            if label in EMPTY:
                attach(path, "empty", language, size, "auto")
        attach(path, "ndvi", language, size, "auto")
    with path.open("rb+") as opened:
        os.fsync(opened.fileno())
    return path


def forget(path: Path) -> None:
    """Evicts the file from the page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(way: str, path: Path, name: str, folder: Path) -> dict[str, float]:
    """Does one read in a fresh process."""
    variables = os.environ | {"HDF5_PLUGIN_PATH": str(folder / "hyperchunk" / "plugins"), "PYTHONPATH": str(folder)}
    words = [sys.executable, "-c", READ, way, str(path), name]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{path.name}: {name} ({way}): {done.stderr.strip()[-600:]}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def ways(folders: dict[bool, Path], figure: str) -> list[tuple[str, str, str, bool]]:
    """Returns the reads of a round: label, reader, dataset, sandbox."""
    if figure != "7":
        names = [
            f"{what} {label}" for what in ("empty", "copy") for label in BACKENDS if what == "copy" or label in EMPTY
        ]
        return [("contiguous", "h5py", "Red", True), *((name, "h5py", name, True) for name in names)]
    reads = [("inputs", "h5py", "Red&NIR", True)]
    for label, language in BACKENDS.items():
        reads += [(label, "h5py", f"ndvi {label}", on) for on in folders if on or language != "expr"]
        reads.append((f"{label}, open", "open", f"ndvi {label}", True))
    return reads


def measure(folder: Path, sizes: Iterable[int], rounds: int, folders: dict[bool, Path]) -> list[Row]:
    """Returns every figure's rows."""
    rows: list[Row] = []
    order = random.Random(1)
    for size in sizes:
        for layout in ("contiguous", "chunked"):
            path = make(folder, size, layout)
            figures = [("7", False)] + ([("6", True), ("6 warm", False)] if layout == "contiguous" else [])
            for figure, cold in figures:
                reads = ways(folders, figure)
                truth: dict[str, float] = {}
                for turn in range(rounds + 1):
                    for label, way, name, on in order.sample(reads, len(reads)):
                        if cold:
                            forget(path)
                        got = read(way, path, name, folders[on])
                        kind = name.split()[0]
                        # One round warms the cache; every one is checked.
                        if abs(truth.setdefault(kind, got["sum"]) - got["sum"]) > 1e-4 * abs(got["sum"]) + 1e-3:
                            raise SystemExit(
                                f"{path.name}: {name} ({way}) has other values: {got['sum']}, {truth[kind]}"
                            )
                        if turn:
                            rows.append(Row(figure, size, layout, label, on, got["wall"], got["cpu"]))
                print(f"{path.name}: figure {figure}", file=sys.stderr)
            path.unlink()
    return rows


def median(rows: list[Row], what: str, **where: object) -> float | None:
    """Returns the median of the matching rows."""
    found = [getattr(row, what) for row in rows if all(getattr(row, k) == v for k, v in where.items())]
    return statistics.median(found) if found else None


def shown(value: float | None, unit: float = 1e3) -> str:
    """Formats milliseconds."""
    if value is None:
        return ""
    return f"{value * unit:.1f}" if value * unit < 100 else f"{value * unit:.0f}"


def storage(folder: Path) -> list[str]:
    """Returns Table I: bytes of an empty function, compared with arrays."""
    import h5py
    import numpy as np

    lines = [
        "| function | record and stub, bytes | paper | a stub in blocks | the file grows by |",
        "|---|---|---|---|---|",
    ]
    for label, language in BACKENDS.items():
        file = folder / f"size-{language}.h5"
        with h5py.File(file, "w") as opened:
            opened["Red"] = np.zeros((1000, 1000), "f4")
        before = file.stat().st_size
        what = "empty" if label in EMPTY else "copy"
        attach(file, what, language, 1000, None, "live")
        grown = file.stat().st_size - before
        attach(file, what, language, 1000, "10x1000", "blocks")
        with h5py.File(file) as opened:
            live, blocks = opened["live"], opened["blocks"]
            # In the first chunk, the record follows the stub.
            record_and_stub = live.id.get_storage_size()
            stub = blocks.id.get_chunk_info(1).size
        lines.append(f"| {label} | {record_and_stub} | {TABLE_1.get(label, '')} | {stub} | {grown} |")
    return lines


def figure_6(rows: list[Row], sizes: list[int], figure: str) -> list[str]:
    """Compares reads of empty functions and of functions with one input with a contiguous read: wall milliseconds and
    ratios.
    """
    labels = [f"{what} {label}" for what in ("empty", "copy") for label in BACKENDS if what == "copy" or label in EMPTY]
    lines = ["| N | contiguous, ms | " + " | ".join(labels) + " |", "|---" * (len(labels) + 2) + "|"]
    for size in sizes:
        base = median(rows, "wall", figure=figure, size=size, way="contiguous")
        assert base is not None
        cells = []
        for label in labels:
            value = median(rows, "wall", figure=figure, size=size, way=label)
            cells.append("" if value is None else f"{shown(value)} ({value / base:.2f})")
        lines.append(f"| {size} | {shown(base)} | " + " | ".join(cells) + " |")
    return lines


def figure_7(rows: list[Row], sizes: list[int], layout: str, what: str) -> list[str]:
    """Lists every back end: milliseconds, with and without the sandbox, and with `hyperchunk.open`."""
    heads = [
        f"{label}{end}"
        for label in BACKENDS
        for end in (("", ", no sandbox", ", open") if label != "expression" else ("", ", open"))
    ]
    lines = ["| N | both inputs | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for size in sizes:
        cells = [shown(median(rows, what, figure="7", size=size, layout=layout, way="inputs"))]
        for head in heads:
            way, on = (head.removesuffix(", no sandbox"), False) if head.endswith("no sandbox") else (head, True)
            cells.append(shown(median(rows, what, figure="7", size=size, layout=layout, way=way, sandbox=on)))
        lines.append(f"| {size} | " + " | ".join(cells) + " |")
    return lines


def pictures(rows: list[Row], sizes: list[int]) -> None:
    """Draws Figures 6 and 7."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = dict(zip(BACKENDS, ("#3b6fb6", "#c8553d", "#b8893b", "#4c9f70", "#8d6cab"), strict=True))
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True)
    for axis, what, title in zip(axes, ("empty", "copy"), ("an empty function", "one input"), strict=True):
        for label in BACKENDS:
            points = [
                (size, value / base)
                for size in sizes
                if (value := median(rows, "wall", figure="6", size=size, way=f"{what} {label}")) is not None
                and (base := median(rows, "wall", figure="6", size=size, way="contiguous"))
            ]
            if points:
                axis.plot(*zip(*points, strict=True), "o-", color=colours[label], label=label)
        axis.axhline(1, color="#999999", lw=1)
        axis.set(title=title, xlabel="N (N x N float32)", xscale="log", xticks=sizes, xticklabels=sizes)
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
    axes[0].set_ylabel("time to that of a contiguous read")
    axes[1].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(IMAGES / "hdf5-udf-6.png", dpi=110)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    for axis, layout in zip(axes, ("contiguous", "chunked"), strict=True):
        for label in BACKENDS:
            for on, style in ((True, "o-"), (False, "x:")):
                points = [
                    (size, value)
                    for size in sizes
                    if (value := median(rows, "wall", figure="7", size=size, layout=layout, way=label, sandbox=on))
                ]
                if points:
                    name = label if on else f"{label}, no sandbox"
                    axis.plot(*zip(*points, strict=True), style, color=colours[label], label=name)
        base = [(s, v) for s in sizes if (v := median(rows, "wall", figure="7", size=s, layout=layout, way="inputs"))]
        axis.plot(*zip(*base, strict=True), "-", color="#555555", lw=1, label="both inputs, plain")
        title = "contiguous inputs" if layout == "contiguous" else "inputs in N x 100 chunks, shuffle and deflate"
        axis.set(title=title, xlabel="N (N x N float32)", xscale="log", yscale="log", xticks=sizes, xticklabels=sizes)
        axis.minorticks_off()
    axes[0].set_ylabel("seconds to read NDVI")
    axes[1].legend(frameon=False, fontsize=7, loc="lower right", ncols=2)
    figure.tight_layout()
    figure.savefig(IMAGES / "hdf5-udf-7.png", dpi=110)


def write_page(parts: dict[str, list[str]]) -> None:
    """Writes the page: its frame with the measurements."""
    page = FRAME.read_text()
    for name, lines in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, after = page[: page.index(begin)], page[page.index(end) :]
        page = f"{before}{begin}\n\n" + "\n".join(lines) + f"\n\n{after}"
    PAGE.write_text(page)


def main() -> None:
    """Measures, prints, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", help=f"rows and columns (default: {SIZES}, or those of the figures that are there)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, after one that warms up (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where files go: 4 GB at N = 16000 (default: a temporary one)")
    parser.add_argument(
        "--json",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="keep the figures there; if it is there, use them and measure nothing; several are joined",
    )
    parser.add_argument("--no-page", action="store_true", help="print the tables, leave the page as it is")
    arguments = parser.parse_args()
    kept = [path for path in arguments.json if path.exists()]
    if len(arguments.json) > 1 and len(kept) < len(arguments.json):
        missing = ", ".join(str(path) for path in arguments.json if path not in kept)
        parser.error(f"{missing}: not there, and only one file can be made at a time")
    if not arguments.no_page and importlib.util.find_spec("matplotlib") is None:
        parser.error("the pictures need matplotlib: tools/setup.sh demo, or --no-page")
    sizes = [int(size) for size in (arguments.sizes or SIZES).split(",")]
    with tempfile.TemporaryDirectory(prefix="hyperchunk-bench-", dir=arguments.folder) as name:
        folder = Path(name)
        os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
        command = Path(sys.executable).with_name("hyperchunk")
        subprocess.run([command, "key", "new"], check=True, stdout=subprocess.DEVNULL)
        parts = {"table 1": storage(folder)}
        if kept:
            rows = [Row(**row) for path in kept for row in json.loads(path.read_text())]
            if not arguments.sizes:
                sizes = sorted({row.size for row in rows})
        else:
            folders = {True: package(True), False: package(False)}
            rows = measure(folder, sizes, arguments.rounds, folders)
            for path in arguments.json:
                path.write_text(json.dumps([asdict(row) for row in rows]))
    parts |= {"figure 6": figure_6(rows, sizes, "6"), "figure 6 warm": figure_6(rows, sizes, "6 warm")}
    for layout in ("contiguous", "chunked"):
        for what in ("wall", "cpu"):
            parts[f"figure 7 {layout} {what}"] = figure_7(rows, sizes, layout, what)
    for name, lines in parts.items():
        print(f"\n{name}\n\n" + "\n".join(lines))
    if not arguments.no_page:
        write_page(parts)
        pictures(rows, sizes)


if __name__ == "__main__":
    main()
