"""Tables of write.py's measurements.

    python bench/sharded/report.py sharded-write.jsonl

prints one for each pattern, number of ranks and sizes in the file.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]
LIMIT = 2.0
PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "plfs.md"


def rows(path: Path) -> list[Row]:
    """Reads a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ratios(found: list[Row], peer: str, what: str) -> list[float]:
    """Returns a peer's times relative to the floor's of the same rounds, without round 0."""
    base = {row["round"]: row[what] for row in found if row["peer"] == "floor" and what in row}
    return [row[what] / base[row["round"]] for row in found if row["peer"] == peer and row["round"] and what in row]


def unsteady(found: list[Row], what: str) -> float:
    """Returns the variation of the floor: its longest round relative to its shortest."""
    times = [row[what] for row in found if row["peer"] == "floor" and row["round"] and what in row]
    return max(times) / min(times) if times else 1.0


def shown(values: list[float]) -> str:
    """Formats median [least..most]."""
    if not values:
        return "-"
    return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]"


def table(found: list[Row]) -> str:
    """Returns the table of one run of one pattern."""
    first = found[0]
    rounds = max(row["round"] for row in found)
    size = first["count"] * (4 if first["pattern"] == "vpic" else 1)
    sizes = f"{first['datasets']} datasets, {first['transfers']} x {size:,} bytes a rank each"
    run = f"{first['pattern']}: {first['ranks']} ranks, {sizes}, {first['total'] / 1e6:.0f} MB"
    lines = [f"\n{run}; {rounds} rounds, median [least..most]\n"]
    for what in ("write", "read"):
        if (spread := unsteady(found, what)) > LIMIT:
            lines.append(f"NO RESULT ({what}): the floor itself varies by {spread:.1f}\n")
    lines += [
        "| way | write, to the floor | read, to the floor | write, MB/s | files and folders |",
        "|---|---|---|---|---|",
    ]
    for peer, label in {row["peer"]: row["label"] for row in found}.items():
        mine = [row for row in found if row["peer"] == peer and row["round"]]
        speed = first["total"] / 1e6 / statistics.median(row["write"] for row in mine)
        cells = [label, shown(ratios(found, peer, "write")), shown(ratios(found, peer, "read"))]
        lines.append(f"| {' | '.join(cells)} | {speed:.0f} | {mine[0]['entries']} |")
    return "\n".join(lines)


def put(name: str, text: str) -> None:
    """Replaces a measured part of the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = PAGE.read_text()
    before, after = page[: page.index(begin)], page[page.index(end) :]
    PAGE.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{after}")
    print(f"{PAGE}: {name}")


def runs(found: list[Row]) -> list[list[Row]]:
    """Groups rows by run: the same pattern, sizes and ranks."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in found:
        key = tuple(row[name] for name in ("pattern", "ranks", "datasets", "transfers", "count"))
        groups.setdefault(key, []).append(row)
    return list(groups.values())


if __name__ == "__main__":
    for run in runs(rows(Path(sys.argv[1]))):
        print(table(run))
