"""Pytest plugin that writes the outcome of each test to the file that ``HYPERCHUNK_REPORT`` names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

outcomes: dict[str, dict[str, str]] = {}


def pytest_runtest_logreport(report: Any) -> None:
    """Keeps the outcome of a test; a failure of its set-up or clean-up counts as its own."""
    entry = outcomes.setdefault(report.nodeid, {"outcome": "passed", "message": ""})
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr)
        entry.update(outcome="failed", message=text[:400])
    elif report.skipped and entry["outcome"] == "passed":
        entry["outcome"] = "xfailed" if hasattr(report, "wasxfail") else "skipped"


def pytest_collectreport(report: Any) -> None:
    """Keeps a module that cannot be imported as a failure."""
    if report.failed:
        outcomes[report.nodeid] = {"outcome": "failed", "message": str(report.longrepr)[-400:]}


def pytest_sessionfinish() -> None:
    """Writes the outcomes."""
    if path := os.environ.get("HYPERCHUNK_REPORT"):
        Path(path).write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
