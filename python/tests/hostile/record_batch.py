"""Reads every file of `damage`; runs in the jail. Prints JSON. Arguments: substrings of the names to run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import damage, jail, lanes, places


def main(*only: str) -> None:
    """Makes the files, reads them, and reports."""
    jail.require_confined()
    hyperchunk.plugins.enable()
    own = places.make()
    rows: list[dict[str, Any]] = []
    for one in damage.ALL:
        if only and not any(part in one.name for part in only):
            continue
        path = places.FILES / damage.file_name(one)
        with h5py.File(path, "w") as file:
            one.build(file, own)
        row = {"name": one.name, "file": str(path), "dataset": one.dataset, "mode": one.mode, "workers": one.workers}
        rows.append(row | ({"pieces": one.pieces} if one.pieces else {}))
    # A home that is not writable, even for its owner, does not prevent reading.
    folders = [places.CONFIG, *(p for p in places.CONFIG.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555 if folder.name != "keys" else 0o500)
    places.HOME.chmod(0o500)
    before = places.digest(places.HOME)
    results = lanes.run(rows, lanes=3)
    report = {
        "cases": results,
        "home_unchanged": places.digest(places.HOME) == before,
        "marks": sorted(p.name for p in places.MARKS.iterdir()),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
