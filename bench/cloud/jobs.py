"""Jobs on the files for any reader, with a check of the answer; one measurement per process.

python jobs.py READER JOB      # called by run.py
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from make import BEAMS, CONTIGUOUS, ROWS
from readers import READERS, Reader

FIELDS = ["lat_ph", "lon_ph", "h_ph", "delta_time", "signal_conf_ph"]
THIRTY = [f"{beam}/heights/{name}" for beam in BEAMS for name in FIELDS]
Job = Callable[[Reader], Any]


def slices() -> list[tuple[int, slice, slice]]:
    """Returns a hundred places in the cube."""
    draw = random.Random(7)
    places = [(draw.randrange(182), draw.randrange(710), draw.randrange(1430)) for _ in range(100)]
    return [(day, slice(y, y + 10), slice(x, x + 10)) for day, y, x in places]


def rows(path: str, count: int, part: int = 100) -> Job:
    """Returns a job that reads a hundredth of the rows, from the middle."""
    return lambda reader: reader.read(path, slice(count // 2, count // 2 + count // part))


JOBS: dict[str, Job] = {
    "list": lambda reader: reader.listing(),
    "whole": lambda reader: reader.read("gt2l/heights/h_ph"),
    "range": rows("gt2r/heights/lat_ph", ROWS),
    "thirty": lambda reader: reader.read_many(THIRTY),
    "slices": lambda reader: reader.read_slices("t2m", slices()),
    "contig": rows("x", CONTIGUOUS),
}
GRANULE_JOBS = ["list", "whole", "range", "thirty"]
# `job` uses the granule, `file:job` another file.
NAMES = [
    *GRANULE_JOBS,
    "slices",
    "contig",
    *(f"{layout}:{job}" for layout in ("paged", "latest", "btree2", "big_endian") for job in GRANULE_JOBS),
]


def read_name(name: str) -> str:
    """Returns the file of a job."""
    layout, _, job = name.rpartition(":")
    return {"slices": "cube.h5", "contig": "contig.h5"}.get(job, f"granule_{layout}.h5" if layout else "granule.h5")


def answer(result: Any) -> str:
    """Returns a digest of values, independent of byte order and array type."""
    if isinstance(result, int):
        return str(result)
    digest = hashlib.sha256()
    for values in result if isinstance(result, list) else [result]:
        array = np.asarray(values)
        plain = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
        digest.update(f"{plain.dtype.str}{plain.size}".encode())
        digest.update(plain.data.cast("B") if plain.size else b"")
    return digest.hexdigest()[:16]


def main() -> None:
    """Does one measurement; prints a line of JSON."""
    logging.disable(logging.CRITICAL)
    label, name = sys.argv[1:3]
    kind = READERS[label]
    kind.prepare()
    job = JOBS[name.rpartition(":")[2]]
    reader = kind()
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    reader.open(read_name(name))
    opened = time.perf_counter()
    result = job(reader)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    own: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        own = reader.stats()
    found = {
        "seconds": seconds,
        "open": opened - start,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "rss": after.ru_maxrss >> 10,
        "answer": answer(result),
        "own": own,
    }
    print("@@" + json.dumps(found), flush=True)
    os._exit(0)  # some rivals hang in their threads


if __name__ == "__main__":
    main()
