"""Environments of the rivals: installs the available packages, and reports the others.

`environment(folder, requirements)` makes a virtual environment once. All packages are installed together; if that
fails, each is installed by itself with the others' versions fixed, so that one that needs a newer Python affects no
other.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# The newest one available makes the environments: some rivals need 3.12.
PREFERRED = ("python3.13", "python3.12")
STAMP = "left-out.json"


def works(interpreter: str) -> bool:
    """True if this Python can make an environment."""
    try:
        return subprocess.run([interpreter, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0
    except OSError:
        return False


def wanted(requirements: Path) -> list[str]:
    """Returns the requirements of a file, without comments."""
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    return [line for line in lines if line]


def reason(output: str) -> str:
    """Returns the first error line of pip's output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["pip said nothing"])[0][:200]


def install(pip: Sequence[str | Path], requirements: Path) -> dict[str, str]:
    """Installs the available packages; returns the others with reasons."""
    done = subprocess.run([*pip, "install", "-r", requirements], capture_output=True, text=True)
    if done.returncode == 0:
        return {}
    left_out = {}
    for requirement in wanted(requirements):
        one = subprocess.run([*pip, "install", requirement, "-c", requirements], capture_output=True, text=True)
        if one.returncode:
            left_out[requirement] = reason(one.stderr)
    return left_out


def environment(folder: Path, requirements: Path) -> Path:
    """Returns the interpreter of an environment with the available requirements; reports the missing ones."""
    stamp, python = folder / STAMP, folder / "bin" / "python"
    text = requirements.read_text()
    known = json.loads(stamp.read_text()) if stamp.exists() else {}
    if known.get("requirements") != text:
        print(f"bench: installing {requirements.name}, once", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        interpreter = next(filter(works, PREFERRED), sys.executable)
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
        known = {"requirements": text, "left out": install(pip, requirements)}
        partial = stamp.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(known))
        partial.replace(stamp)
    for requirement, why in known["left out"].items():
        print(f"bench: left out: {requirement}: {why}", file=sys.stderr)
    return python


def lacking(python: str | Path, modules: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """Returns the reason why an interpreter cannot import these modules, in one line, or None."""
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    done = subprocess.run([python, "-c", code, *modules], capture_output=True, text=True, env=variables)
    return (done.stderr.strip().splitlines() or ["no output"])[-1][:200] if done.returncode else None
