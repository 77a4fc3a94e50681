"""Several reading processes in parallel, supervised: a crash or hang is distinguished from an error."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hostile import places
from hostile.jail import WORK, die_with_parent

Row = dict[str, Any]
HUNG = 10.0
"""A read that takes this long will not come back."""


def reader_environment() -> dict[str, str]:
    """Environment of a careless or deceived user: none of it may reach a function."""
    lures = {
        "HOSTILE_CANARY": "canary-in-environment",
        "HOSTILE_SECRET_FILE": str(places.HOME / "secret.txt"),
        "AWS_SECRET_ACCESS_KEY": "canary-in-environment",
        "PYTHONPATH": str(places.READER),
        "PYTHONSTARTUP": str(places.READER / "evilmod.py"),
        "PYTHONHOME": "",
        "LUA_PATH": f"{places.READER}/?.lua",
        "LUA_INIT": f"@{places.READER}/evilmod.lua",
        "LD_LIBRARY_PATH": str(places.READER),
        "TMPDIR": str(WORK),
    }
    return dict(os.environ) | lures


def run(rows: list[Row], *, lanes: int = 6) -> dict[str, Row]:
    """Performs all reads (name, file, dataset and more) in a few processes; returns the result of each, by name."""
    results: dict[str, Row] = {}
    # Made here, since lanes that find none would all create it at once.
    good = places.good_file()

    def work(number: int) -> None:
        left = rows[number::lanes]
        while left:
            left = _one_host(number, left, good, results)

    side_by_side(work, range(lanes))
    return results


def side_by_side(work: Callable[[Any], object], items: Iterable[Any]) -> None:
    """Calls `work` with each item, in as many threads, and raises the first exception: a plain thread prints it."""
    rest = list(items)
    if not rest:
        return
    with ThreadPoolExecutor(len(rest)) as pool:
        for _ in pool.map(work, rest):
            pass


def _one_host(lane: int, batch: list[Row], good: Path, results: dict[str, Row]) -> list[Row]:
    """Runs a host until it ends; returns the remaining reads."""
    listed = WORK / f"lane-{lane}.json"
    listed.write_text(json.dumps(batch))
    ours, theirs = os.pipe()
    printed = (WORK / f"lane-{lane}.out").open("w+b")

    command = [sys.executable, "-I", Path(__file__).with_name("host.py"), listed, good, theirs]
    host = subprocess.Popen(
        list(map(str, command)),
        stdout=printed,
        stderr=printed,
        cwd=places.READER,
        env=reader_environment(),
        preexec_fn=die_with_parent,
        pass_fds=[theirs],
    )
    os.close(theirs)
    done, running, hung = _listen(ours, results)
    if hung:
        host.kill()
    status = host.wait()
    printed.seek(0)
    text = printed.read().decode("utf-8", "replace")
    for name in done:
        results[name]["printed"] = text if len(text) < 4000 else f"{text[:2000]} … {len(text)} in all"
        results[name]["canary"] = "canary-in" in text or "canary-in" in str(results[name])
    rest = [row for row in batch if row["name"] not in done]
    if not rest:
        return []
    died = running or rest[0]["name"]
    outcome = "hung" if hung else f"host ended with {status}"
    results[died] = {"name": died, "outcome": outcome, "text": text[-1500:], "printed": "", "canary": False}
    return [row for row in rest if row["name"] != died]


def _listen(fd: int, results: dict[str, Row]) -> tuple[list[str], str | None, bool]:
    done: list[str] = []
    running: str | None = None
    with selectors.DefaultSelector() as selector, os.fdopen(fd, "rb", buffering=0) as pipe:
        selector.register(pipe, selectors.EVENT_READ)
        buffer, last = b"", time.monotonic()
        while True:
            if not selector.select(1.0):
                if time.monotonic() - last > HUNG:
                    return done, running, True
                continue
            data = pipe.read(65536)
            if not data:
                return done, running, False
            last = time.monotonic()
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                row = json.loads(line)
                if "start" in row:
                    running = row["start"]
                else:
                    results[row["name"]] = row
                    done.append(row["name"])
                    running = None
