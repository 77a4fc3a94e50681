"""The Python environment of these benchmarks, made once in a cache folder, and the start of programs under `mpiexec`.

HYPERCHUNK_BENCH_PYTHON names another interpreter with the packages of requirements.txt.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import environments  # noqa: E402

# Each rank computes with one thread; the library's own file lock is not part of the comparison.
SETTINGS = {"HDF5_USE_FILE_LOCKING": "FALSE", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def cache() -> Path:
    """Returns the cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperchunk" / "bench-sharded"


def python() -> Path:
    """Returns the interpreter with the packages of requirements.txt."""
    if named := os.environ.get("HYPERCHUNK_BENCH_PYTHON"):
        return Path(named)
    return environments.environment(cache() / "venv", HERE / "requirements.txt")


def variables() -> dict[str, str]:
    """Returns the environment variables of these programs: this repository's package, one thread per rank."""
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **SETTINGS, "PYTHONPATH": os.pathsep.join(paths)}


def run(command: Sequence[str | Path]) -> int:
    """Runs a program with these variables; returns its exit status."""
    return subprocess.run(list(map(str, command)), env=variables()).returncode


def mpiexec(ranks: int, program: Sequence[str | Path], before: Sequence[str | Path] = (), **more: str) -> None:
    """Runs a Python program in `ranks` processes; `before` precedes the interpreter (strace)."""
    interpreter = python()
    launcher = interpreter.parent / "mpiexec"
    command = [launcher, "-n", str(ranks), *before, interpreter, *program]
    subprocess.run(list(map(str, command)), env={**variables(), **more}, check=True)
