"""Scaling of cloud reads in one process: threads that wait for the network, and many open files.

    .venv/bin/python bench/cloud/scaling.py             # the tables

Threads: one dataset by one thread, then eight datasets by eight threads of it, from a file that is reopened
each time, at 100 ms a request. Files: a thousand granules opened, their structure read, and kept open.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EIGHT = [f"{beam}/heights/{name}" for beam in ("gt1l", "gt2r", "gt3l", "gt3r") for name in ("lat_ph", "h_ph")]
READERS = ["hyperchunk", "h5coro", "h5py + s3fs, blockcache"]


def threads(label: str) -> dict[str, Any]:
    """Returns the seconds with one thread and with eight."""
    from make import ROWS
    from readers import READERS as KNOWN

    KNOWN[label].prepare()
    rows = slice(ROWS // 2, ROWS // 2 + ROWS // 100)
    times: dict[int, list[float]] = {1: [], 8: []}
    for number in range(5):
        for count, taken in times.items():
            reader = KNOWN[label]()
            start = time.perf_counter()
            # A different object each time, so that nothing of it is cached.
            reader.open(f"threads/{number}_{count}.h5")
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(lambda path, reader=reader: reader.read(path, rows), EIGHT[:count]))
            taken.append(time.perf_counter() - start)
    return {str(count): statistics.median(taken) for count, taken in times.items()}


def files(label: str, count: int, bound: int) -> dict[str, Any]:
    """Returns the memory after opening files, with a metadata cache of `bound` MiB."""
    import hyperchunk
    from readers import READERS as KNOWN

    KNOWN[label].prepare()
    hyperchunk.set_metadata_cache_bytes(bound << 20)
    kept, memory = [], {}
    start = time.perf_counter()
    for number in range(count + 1):
        if number in (0, 1, count // 10, count):
            status = Path("/proc/self/status").read_text().splitlines()
            memory[str(number)] = int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024
        reader = KNOWN[label]()
        reader.open(f"many/{number}.h5")
        reader.listing()
        kept.append(reader)
    return {"memory": memory, "seconds": time.perf_counter() - start}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        logging.disable(logging.CRITICAL)
        label, what, count, bound = sys.argv[2:6]
        found = threads(label) if what == "threads" else files(label, int(count), int(bound))
        print("@@" + json.dumps(found), flush=True)
        os._exit(0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    arguments = parser.parse_args()
    import run
    import s3server

    run.prepare()
    known = run.readers()
    with (
        s3server.Server(run.CACHE / "s3") as server,
        s3server.Proxy(server.address, server.folder, latency="100ms") as proxy,
    ):
        for name in [f"threads/{number}_{count}.h5" for number in range(5) for count in (1, 8)]:
            server.put("bench", name, run.DATA / "granule.h5")
        for number in range(arguments.files + 1):
            server.put("bench", f"many/{number}.h5", run.DATA / "granule_big_endian.h5")

        def child(label: str, what: str, bound: int = 128) -> dict[str, Any]:
            command = [run.python(known[label]["python"]), __file__, "--child", label, what]
            command += [str(arguments.files), str(bound)]
            env = run.environment(proxy.endpoint)
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1200)
            lines = [line for line in done.stdout.splitlines() if line.startswith("@@")]
            return json.loads(lines[-1][2:]) if lines else {"error": done.stderr.strip().splitlines()[-1][:100]}

        print("| reader | 1 dataset, 1 thread, s | 8 datasets, 8 threads, s | ratio |\n|---|---|---|---|")
        for label in filter(known.__contains__, READERS):
            found = child(label, "threads")
            if "error" in found:
                print(f"| {label} | {found['error']} | | |")
            else:
                print(f"| {label} | {found['1']:.3f} | {found['8']:.3f} | {found['8'] / found['1']:.2f} |", flush=True)
        if not arguments.files:
            return
        proxy.set(latency=0)
        print(f"\n| bound, MiB | RSS, MiB: none open | 1 | {arguments.files // 10} | {arguments.files} |")
        print("|---|---|---|---|---|")
        for bound in (16, 128):
            found = child("hyperchunk", "files", bound)
            memory = " | ".join(f"{value:.0f}" for value in found.get("memory", {}).values())
            print(f"| {bound} | {memory or found['error']} |", flush=True)


if __name__ == "__main__":
    main()
