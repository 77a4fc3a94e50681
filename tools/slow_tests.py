"""Chooses the tests that `make test` and `make quick` leave out: the longest ones, by reports of a whole run.

    pytest --junitxml=report.xml python/tests
    python tools/slow_tests.py report.xml [--seconds 420] [--quick-seconds 100]

The others take at most so many seconds of one processor. Writes `slow_tests.txt` and `longer_tests.txt` in
`python/tests`: tests that `make test-slow` runs, and further ones that `make test` runs and `make quick` leaves out.
Functions without a report stay as they are. Standard library only."""

import argparse
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
SLOW = ROOT / "python" / "tests" / "slow_tests.txt"
LONGER = ROOT / "python" / "tests" / "longer_tests.txt"
HEADERS = {
    SLOW: "# Tests that `make test-slow` runs, and `make test` leaves out. Made by tools/slow_tests.py.\n",
    LONGER: "# Tests that `make test` runs, and `make quick` leaves out. Made by tools/slow_tests.py.\n",
}


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


def listed(file: Path) -> set[str]:
    """Returns the functions of a list."""
    return {line for line in file.read_text().splitlines() if line and not line.startswith("#")}


def write(file: Path, chosen: set[str]) -> None:
    """Writes a list."""
    file.write_text(HEADERS[file] + "".join(f"{name}\n" for name in sorted(chosen)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT", help="JUnit report of pytest")
    parser.add_argument("--seconds", type=float, default=420, help="time of the tests that `make test` runs")
    parser.add_argument("--quick-seconds", type=float, default=100, help="time of the tests that `make quick` runs")
    given = parser.parse_args()
    seconds = durations(given.reports)
    slow = slowest(seconds, given.seconds)
    longer = slowest(seconds, given.quick_seconds) - slow
    write(SLOW, slow | listed(SLOW) - set(seconds))
    write(LONGER, longer | listed(LONGER) - set(seconds))
    for name, chosen in {"slow": slow, "longer": longer, "quick": set(seconds) - slow - longer}.items():
        print(f"{name}: {len(chosen)} of {len(seconds)} functions, {sum(seconds[each] for each in chosen):.0f} s")


if __name__ == "__main__":
    main()
