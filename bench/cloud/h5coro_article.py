"""The comparison of the H5Coro article (SlideRule, 2021), repeated on this machine with today's readers.

    .venv/bin/python bench/cloud/h5coro_article.py [--granules 8] [--rounds 3] [--bandwidth 80]

The article's work: a region is processed, for which every granule that crosses it is read from S3, several at once, by
one server process. Here: from each of 8 granules, the same hundredth of the rows of five datasets of all six beams, and
mean elevations of it; 1, 2 and 4 granules at once, as threads of one process. Nothing is cached between granules. The
article's baseline is the original file in S3 without a cache; `paged` is the file rewritten for the cloud, a sidecar an
index made before.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PARALLEL = (1, 2, 4)
# Label, reader, file. Ratios are to the first that reads from S3: libhdf5's own way.
ROWS = [
    ("HDF5 library, ros3", "h5py ros3", "granule"),
    ("HDF5 library, ros3; file paged for the cloud", "h5py ros3", "granule_paged"),
    ("HDF5 library, s3fs", "h5py + s3fs", "granule"),
    ("HDF5 library, s3fs with a block cache", "h5py + s3fs, blockcache", "granule"),
    ("h5coro", "h5coro", "granule"),
    ("pyfive, s3fs with a block cache", "pyfive + s3fs, blockcache", "granule"),
    ("async-hdf5", "async-hdf5", "granule"),
    ("h5coro-hidefix, index made before", "h5coro-hidefix", "granule"),
    ("**hyperchunk**", "hyperchunk", "granule"),
    ("**hyperchunk**; file paged for the cloud", "hyperchunk", "granule_paged"),
    ("**hyperchunk**, sidecar made before", "hyperchunk, sidecar", "granule"),
    ("HDF5 library, file on this machine", "h5py, local file", "granule"),
]


def child(label: str, parallel: int, names: list[str]) -> None:
    """Processes granules; prints a line of JSON."""
    import numpy as np
    from jobs import THIRTY
    from make import ROWS as COUNT
    from readers import READERS

    logging.disable(logging.CRITICAL)
    kind = READERS[label]
    kind.prepare()
    rows = slice(COUNT // 2, COUNT // 2 + COUNT // 100)

    def process(name: str) -> float:
        reader = kind()
        reader.open(name)
        found = dict(zip(THIRTY, reader.read_rows(THIRTY, rows), strict=True))
        # Mean elevation of groups of 100 likely ground photons, of all beams.
        total = 0.0
        for path, values in found.items():
            if path.endswith("h_ph"):
                likely = np.asarray(found[path.replace("h_ph", "signal_conf_ph")]) >= 2
                heights = np.where(likely, np.asarray(values, "f8"), np.nan).reshape(-1, 100)
                total += float(np.nansum(np.nanmean(heights, axis=1)))
            elif not path.endswith("signal_conf_ph"):
                total += float(np.asarray(values, "f8").sum())
        return total

    start = time.perf_counter()
    with ThreadPoolExecutor(parallel) as pool:
        totals = list(pool.map(process, names))
    print("@@" + json.dumps({"seconds": time.perf_counter() - start, "answer": totals}), flush=True)
    os._exit(0)


def measure(proxy: Any, reader: str, where: str, parallel: int, names: list[str]) -> dict[str, Any]:
    """Measures in one process."""
    import subprocess

    import run

    proxy.reset()
    command = [run.python(where), __file__, "--child", reader, str(parallel), *names]
    environment = run.environment(proxy.endpoint)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("@@")]
    if not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1][:100]}
    found: dict[str, Any] = json.loads(lines[-1][2:]) | {"http": proxy.stats()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--granules", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", default="25ms")
    parser.add_argument("--bandwidth", type=float, default=0)
    parser.add_argument("--only", default="", help="only rows with this in their name")
    arguments = parser.parse_args()
    import run
    import s3server

    run.prepare()
    known = run.readers()
    rows = [row for row in ROWS if arguments.only in row[0] and row[1] in known]
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    with (
        s3server.Server(run.CACHE / "s3") as server,
        s3server.Proxy(
            server.address, server.folder, latency=arguments.latency, bandwidth=arguments.bandwidth
        ) as proxy,
    ):
        names: dict[str, list[str]] = {}
        for _, reader, file in rows:
            names[file] = [f"{file}_{number}.h5" for number in range(arguments.granules)]
            for name in names[file]:
                server.put("bench", name, run.DATA / f"{file}.h5")
                link(run.DATA / "copies" / name, run.DATA / f"{file}.h5")
            if known[reader]["index"]:
                run.make_indexes()
                for index in run.INDEXES.glob(f"{file}.h5.*"):
                    for name in names[file]:
                        link(run.INDEXES / f"{name}{index.name.removeprefix(f'{file}.h5')}", index)
                run.make_sidecars(server.endpoint, names[file])
        for number in range(arguments.rounds):
            for row, reader, file in rows:
                for parallel in PARALLEL:
                    one = measure(proxy, reader, known[reader]["python"], parallel, names[file])
                    found.setdefault((row, parallel), []).append(one)
                    told = one.get("error") or f"{one['seconds']:.2f} s, {one['http']['requests']} requests"
                    print(f"round {number + 1}  {row:46} {parallel} at once  {told}", file=sys.stderr, flush=True)
    print(table(rows, found))


def link(name: Path, target: Path) -> None:
    """Links a file under another name."""
    name.parent.mkdir(parents=True, exist_ok=True)
    name.unlink(missing_ok=True)
    name.symlink_to(target)


def table(rows: list[tuple[str, str, str]], found: dict[tuple[str, int], list[dict[str, Any]]]) -> str:
    """Formats the results as Markdown."""
    right = next(one["answer"] for row, _, _ in reversed(rows) for one in found[row, 1] if "answer" in one)
    lines = [
        "| reader | 1 at once, s | 2 | 4 | from 1 to 4 | times as fast as ros3, 4 at once | requests | MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = None
    for row, _, _ in rows:
        ones = [found[row, parallel] for parallel in PARALLEL]
        failed = [one for group in ones for one in group if "error" in one]
        if failed:
            lines.append(f"| {row} | {failed[0]['error']} | | | | | | |")
            continue
        wrong = any(
            abs(a - b) > 1e-6 * abs(b) for g in ones for one in g for a, b in zip(one["answer"], right, strict=True)
        )
        seconds = [statistics.median(one["seconds"] for one in group) for group in ones]
        base = base or seconds[-1]
        http = ones[0][-1]["http"]
        cells = [row + (" **wrong values**" if wrong else ""), *(f"{s:.2f}" for s in seconds)]
        cells += [f"{seconds[0] / seconds[-1]:.2f}", f"{base / seconds[-1]:.1f}", str(http["requests"])]
        cells.append(f"{http['bytes'] / 1e6:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    else:
        main()
