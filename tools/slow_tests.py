"""Chooses the tests that `make test-slow` runs and `make test` leaves out: the longest ones, by reports of a whole run.

    pytest --junitxml=report.xml python/tests
    python tools/slow_tests.py report.xml [--seconds 900]

The others take at most SECONDS of one processor. Writes `python/tests/slow_tests.txt`. Functions without a report stay
as they are. Standard library only."""

import argparse
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "python" / "tests" / "slow_tests.txt"
HEADER = "# Tests that `make test-slow` runs, and `make test` leaves out. Made by tools/slow_tests.py.\n"


def durations(reports: list[Path]) -> dict[str, float]:
    """Returns the time in seconds of each test function, with all of its parameters, as `FOLDER/FILE.py::FUNCTION`."""
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            module = case.get("classname", "").removeprefix("python.tests.").replace(".", "/")
            function = case.get("name", "").partition("[")[0]
            seconds[f"{module}.py::{function}"] += float(case.get("time", "0"))
    return seconds


def slowest(seconds: dict[str, float], budget: float) -> set[str]:
    """Returns the functions to leave out so that the others take at most `budget` seconds: as few as possible."""
    rest = sum(seconds.values())
    chosen = set()
    for name, time in sorted(seconds.items(), key=lambda item: -item[1]):
        if rest <= budget:
            break
        chosen.add(name)
        rest -= time
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT", help="JUnit report of pytest")
    parser.add_argument("--seconds", type=float, default=900, help="time of the tests that `make test` runs")
    given = parser.parse_args()
    seconds = durations(given.reports)
    kept = {line for line in LIST.read_text().splitlines() if line and not line.startswith("#")} - set(seconds)
    chosen = slowest(seconds, given.seconds)
    LIST.write_text(HEADER + "".join(f"{name}\n" for name in sorted(chosen | kept)))
    print(f"slow: {len(chosen)} of {len(seconds)} functions, {sum(seconds[name] for name in chosen):.0f} s")
    print(f"others: {sum(seconds.values()) - sum(seconds[name] for name in chosen):.0f} s")


if __name__ == "__main__":
    main()
