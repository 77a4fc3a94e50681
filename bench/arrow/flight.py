"""256 MiB over a Unix socket: `hyperchunk serve --flight` over an HDF5 file, and pyarrow's own Flight server over the
same columns in memory. The client is pyarrow's, for both; rounds are interleaved.

    python bench/arrow/flight.py [--rounds 9] [--rows 8388608] [--command path/to/hyperchunk] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

NAMES = ("x", "y", "z", "px", "py", "pz", "id_1", "id_2")

RIVAL = """
import sys, h5py, pyarrow as pa, pyarrow.flight as fl
path, url, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
with h5py.File(path) as file:
    table = pa.table({name: file["particles"][name][...] for name in file["particles"]})
batches = table.to_batches(max_chunksize=rows)
class Server(fl.FlightServerBase):
    def do_get(self, context, ticket):
        return fl.RecordBatchStream(pa.RecordBatchReader.from_batches(table.schema, batches))
server = Server(url)
print("serving", flush=True)
server.serve()
"""


def make(path: Path, rows: int) -> None:
    """Makes the file: eight contiguous columns."""
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for name in NAMES:
            data = np.arange(rows, dtype="i4") if name == "id_1" else random.random(rows, dtype="f4")
            file[f"particles/{name}"] = data


def spent(process: int) -> float:
    """Returns the processor seconds of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(server: int, get: Callable[[], pa.Table], rows: int) -> tuple[float, float]:
    """Returns seconds, and processor seconds of client and server."""

    def own() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    before, started = spent(server) + own(), time.perf_counter()
    table = get()
    wall, cpu = time.perf_counter() - started, spent(server) + own() - before
    assert table.num_rows == rows
    return wall, cpu


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", type=int, default=8 << 20)
    parser.add_argument("--command", default=str(Path(sys.executable).with_name("hyperchunk")))
    parser.add_argument("--folder", default=None)
    parser.add_argument("--json", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        make(folder / "data.h5", given.rows)
        ours = f"grpc+unix://{folder}/ours"
        commands: dict[str, tuple[list[str], str]] = {
            "hyperchunk": (
                [given.command, "serve", "--flight", "--no-token", f"--listen={ours}", str(folder / "data.h5")],
                ours,
            )
        }
        for rows in (1 << 16, 1 << 20, given.rows):
            url = f"grpc+unix://{folder}/rival{rows}"
            command = [sys.executable, "-c", RIVAL, str(folder / "data.h5"), url, str(rows)]
            commands[f"pyarrow, {rows} rows a batch"] = (command, url)
        running: dict[str, subprocess.Popen[str]] = {}
        found: dict[str, list[tuple[float, float]]] = {}
        try:
            for name, (command, _) in commands.items():
                running[name] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                stdout = running[name].stdout
                assert stdout is not None
                assert stdout.readline().startswith("serving")
            clients = {name: fl.FlightClient(url) for name, (_, url) in commands.items()}
            ticket = fl.Ticket(json.dumps({"file": "data.h5", "table": "particles"}))
            for turn in range(given.rounds + 1):
                for name, client in clients.items():
                    one = measured(running[name].pid, lambda c=client: c.do_get(ticket).read_all(), given.rows)
                    if turn:  # the first is a warm-up
                        found.setdefault(name, []).append(one)
        finally:
            for process in running.values():
                process.terminate()
                process.wait()
    show(found, given.rows * 32, given.json)


def show(found: dict[str, list[tuple[float, float]]], size: int, to: str | None) -> None:
    """Prints the results; ratios are to pyarrow's best."""
    best: dict[str, Any] = {}
    for name, rounds in found.items():
        wall, cpu = zip(*rounds, strict=True)
        best[name] = {
            "wall_min": min(wall),
            "wall_median": statistics.median(wall),
            "cpu_min": min(cpu),
            "cpu_median": statistics.median(cpu),
            "rounds": len(rounds),
        }
    rivals = [values for name, values in best.items() if name != "hyperchunk"]
    print(f"get of {size / 2**20:.0f} MiB over a Unix socket, seconds (ratio to pyarrow's best)")
    for name, values in best.items():
        cells = [
            f"{key} {values[key]:.3f} ({values[key] / min(rival[key] for rival in rivals):.2f}x)"
            for key in ("wall_min", "wall_median", "cpu_min", "cpu_median")
        ]
        print(f"{name:32} {'  '.join(cells)}")
    if to:
        Path(to).write_text(json.dumps({"bytes": size, "found": best}, indent=1))


if __name__ == "__main__":
    main()
