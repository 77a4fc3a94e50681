"""Controls: the same attacks without our sandbox, by the same user in the same jail, to prove that each would work."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from hostile import cases, jail, lanes, places

ENDLESS = {name for name, (cause, _) in {**cases.PYTHON, **cases.CPP}.items() if cause == cases.LATE}
SURVIVES = 1.0
"""Seconds after which a function that should never end is believed."""


def run(chosen: list[cases.Case], built: bytes) -> dict[str, Any]:
    """Runs the controls of these cases; returns for each whether and how the attack worked."""
    jail.require_confined()
    results: dict[str, Any] = {}
    listener = socket.create_server(("127.0.0.1", 4242))
    lanes.side_by_side(lambda n: _some(chosen[n::3], built, results), range(3))
    results["connections"] = 0
    while select.select([listener], [], [], 0)[0]:
        listener.accept()[0].close()
        results["connections"] += 1
    listener.close()
    return results


def _some(chosen: list[cases.Case], built: bytes, results: dict[str, Any]) -> None:
    for case in chosen:
        results[case.name] = _one(case, built)


def _one(case: cases.Case, built: bytes) -> dict[str, Any]:
    path = jail.WORK / f"control-{case.name}.so"
    if case.language == "cpp":
        path.write_bytes(places.attack_object(built, case))
    else:
        path.write_text(places.attack_source(case))
    # Files to be removed must exist; each control removes one.
    for name in ("spare.txt", f"spare-{case.language}.txt"):
        (places.HOME / name).touch()
    command = [sys.executable, "-I", Path(__file__).with_name("control.py"), case.language, path]
    environment = dict(os.environ) | {"HOSTILE_CANARY": "canary-in-environment"}
    endless = case.attack in ENDLESS
    try:
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            env=environment,
            cwd=places.READER,
            timeout=SURVIVES if endless else 30,
            check=False,
            preexec_fn=jail.die_with_parent,
        )
    except subprocess.TimeoutExpired:
        return {"worked": endless, "text": "still running"}
    mark = places.MARKS / f"{case.language}-{case.phase}:{case.attack}"
    left_mark = os.path.lexists(mark)
    with contextlib.suppress(FileNotFoundError):
        mark.rmdir() if mark.is_dir() and not mark.is_symlink() else mark.unlink()
    worked = "WORKED" in done.stdout or left_mark
    return {"worked": worked, "text": f"{done.returncode} {done.stdout[-200:]} {done.stderr[-500:]}"}
