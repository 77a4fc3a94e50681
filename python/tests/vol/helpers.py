"""Programs in separate processes, with the connector in their environment."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import hyperchunk


def clean() -> dict[str, str]:
    """Returns this process's environment without variables of HDF5 and Hyperchunk."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("HDF5_", "HYPERCHUNK_"))}


def dedent(code: str) -> str:
    """Removes the indentation of a program in a test."""
    return textwrap.dedent(code)


def start(code: str, *arguments: object, folder: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    """Starts a program with these variables."""
    words = [sys.executable, "-c", dedent(code), *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, env=clean() | env, cwd=folder, text=True, **pipes)


def finish(process: subprocess.Popen[str]) -> str:
    """Returns the output of a program, which must succeed."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, f"{out}\n{err}"
    return out


def run(code: str, *arguments: object, folder: Path, native: bool = False, **options: object) -> str:
    """Runs a program with the connector, or natively without even the plugin; returns its output."""
    env = {} if native else hyperchunk.plugins.environment(**options)
    return finish(start(code, *arguments, folder=folder, env=env))


def command() -> Path:
    """Returns the `hyperchunk` command of this installation."""
    return Path(sys.executable).with_name("hyperchunk")
