"""Runs h5py's own tests twice, with h5py alone and with hyperchunk as the reader, and writes the table of results:
`python python/tests/h5py_suite/run.py docs/results/h5py-suite.md`. Takes a few minutes.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import h5py

HERE = Path(__file__).resolve().parent
VOL = "\n## Through the VOL connector\n"
UNASKED = "reads nothing through h5py's high-level classes: it writes, or tests the low-level API"
Report = dict[str, dict[str, Any]]


def outcomes(baseline: bool, folder: Path) -> Report:
    """Returns the outcome of each test, and the number of hyperchunk's answers in it."""
    report, settings = folder / f"report-{baseline}.json", folder / "pytest.ini"
    settings.write_text("[pytest]\n", encoding="utf-8")
    environment = os.environ | {"HYPERCHUNK_SUITE_REPORT": str(report), "PYTHONPATH": str(HERE)}
    if baseline:
        environment["HYPERCHUNK_SUITE_BASELINE"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(settings), f"--rootdir={folder}"]
    command += ["-p", "adapter", "-p", "no:cacheprovider", "-m", "not network", "--pyargs", "h5py.tests"]
    subprocess.run(command, env=environment, cwd=folder, check=False, stdout=subprocess.DEVNULL)
    found: Report = json.loads(report.read_text(encoding="utf-8"))
    return found


def table(baseline: Report, ours: Report) -> str:
    """Formats the results as Markdown."""
    beyond = json.loads((HERE / "out_of_scope.json").read_text(encoding="utf-8"))
    passing = [test for test, told in baseline.items() if told["outcome"] == "passed"]
    modules: dict[str, Counter[str]] = {}
    left: dict[str, int] = Counter()
    failed: list[str] = []
    for test in passing:
        told = ours.get(test, {"outcome": "missing", "calls": 0, "message": ""})
        counts = modules.setdefault(test.partition("::")[0], Counter())
        reason = next((entry["reason"] for entry in beyond if re.search(entry["test"], test)), None)
        if not told["calls"]:
            counts["out of scope"] += 1
            left[UNASKED] += 1
        elif told["outcome"] == "passed":
            counts["passed"] += 1
        elif reason is not None:
            counts["out of scope"] += 1
            left[reason] += 1
        else:
            counts["failed"] += 1
            failed.append(f"| `{test}` | {told['message'].splitlines()[0] if told['message'] else ''} |")
    sums = Counter({key: sum(counts[key] for counts in modules.values()) for key in ("passed", "failed")})
    set_aside = sum(left.values()) - left[UNASKED]
    asked = sums["passed"] + sums["failed"] + set_aside
    lines = [
        "# h5py's own tests",
        "",
        f"Of h5py's own tests whose reads Hyperchunk answers, {100 * sums['passed'] / asked:.1f} % pass.",
        "",
        f"| tests of h5py {h5py.__version__} | |",
        "|---|---|",
        f"| pass with h5py alone | {len(passing)} |",
        f"| of these, Hyperchunk answers a read | {asked} |",
        f"| of these, pass | **{sums['passed']}** |",
        f"| fail on reading | {sums['failed']} |",
        f"| set aside, because they fail on something else | {set_aside} |",
        "",
        "## By module",
        "",
        "| module | passed | failed | out of scope |",
        "|---|---|---|---|",
        *(
            f"| {name} | {counts['passed']} | {counts['failed']} | {counts['out of scope']} |"
            for name, counts in sorted(modules.items())
        ),
        "",
        "## Out of scope",
        "",
        "| tests | reason |",
        "|---|---|",
        *(f"| {count} | {reason} |" for reason, count in left.items()),
    ]
    if failed:
        lines += ["", "## Failed", "", "| test | message |", "|---|---|", *failed]
    return "\n".join(lines) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = table(outcomes(True, folder), outcomes(False, folder))
    page = Path(sys.argv[1])
    # The part written by tests/vol/suite.py stays.
    _, heading, rest = (page.read_text(encoding="utf-8") if page.exists() else "").partition(VOL)
    page.write_text(text + heading + rest, encoding="utf-8")


if __name__ == "__main__":
    main()
