"""The Python environment of these benchmarks, made once in a cache folder, and how programs start under `mpiexec`.

HYPERCHUNK_BENCH_PYTHON names another interpreter that has requirements.txt.
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

# Each rank computes alone; the library's own file lock has no part in what is compared.
SETTINGS = {"HDF5_USE_FILE_LOCKING": "FALSE", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def cache() -> Path:
    """Where what is made once stays."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperchunk" / "bench-sharded"


def python() -> Path:
    """The interpreter, with all that requirements.txt names."""
    if named := os.environ.get("HYPERCHUNK_BENCH_PYTHON"):
        return Path(named)
    return environments.environment(cache() / "venv", HERE / "requirements.txt")


def variables() -> dict[str, str]:
    """The variables that these programs run with: this repository's package, one thread a rank."""
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **SETTINGS, "PYTHONPATH": os.pathsep.join(paths)}


def run(command: Sequence[str | Path]) -> int:
    """Runs a program with them; its exit status."""
    return subprocess.run(list(map(str, command)), env=variables()).returncode


def mpiexec(ranks: int, program: Sequence[str | Path], before: Sequence[str | Path] = (), **more: str) -> None:
    """Runs a Python program in `ranks` processes; `before` stands before the interpreter (strace)."""
    interpreter = python()
    launcher = interpreter.parent / "mpiexec"
    command = [launcher, "-n", str(ranks), *before, interpreter, *program]
    subprocess.run(list(map(str, command)), env={**variables(), **more}, check=True)
