"""Every attack of `cases`, with the sandbox, and the controls, without; runs in the jail. Prints JSON.

Arguments: substrings of the names to run; by default all.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import hyperchunk

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import cases, controls, jail, lanes, places


def main(*only: str) -> None:
    """Makes the files, reads them, runs the controls, and reports."""
    jail.require_confined()
    hyperchunk.plugins.enable()
    start = time.monotonic()
    chosen = [c for c in cases.ALL if not only or any(part in c.name for part in only)]
    own = places.make()
    built = places.build_cpp()
    # Slow ones first, so that the lanes end together.
    chosen.sort(key=lambda c: c.cause != cases.LATE)
    rows = []
    for case in chosen:
        path = places.write_case(case, own, built)
        row = {"name": case.name, "file": str(path), "dataset": "out", "target": True}
        rows.append(row)
    before = places.digest(places.HOME)
    made = time.monotonic()
    results = lanes.run(rows)
    read = time.monotonic()
    report: dict[str, Any] = {
        "cases": results,
        "home_unchanged": places.digest(places.HOME) == before,
        "marks": sorted(p.name for p in places.MARKS.iterdir()),
    }
    report["controls"] = controls.run([c for c in chosen if c.works_without], built)
    ended = time.monotonic()
    report["seconds"] = {"make": made - start, "read": read - made, "controls": ended - read}
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
