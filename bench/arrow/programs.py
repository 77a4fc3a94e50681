"""Builds vpic_io and bdcats_io over parallel HDF5 2.2.0, once, in a cache folder, and runs them under `mpiexec`.

python bench/arrow/programs.py     # prints the two programs
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "sharded"))

import environment  # noqa: E402

WRITE_PATTERNS = (
    "contiguous",
    "interleaved-contiguous",
    "contiguous-interleaved",
    "interleaved",
    "strided",
    "2d",
    "3d",
    "append",
    "overwrite",
    "unlimited",
)
READ_PATTERNS = ("full", "partial", "strided", "cs", "ldc", "rdc", "prl")


def hdf5() -> Path:
    """Returns the folder of parallel HDF5, built by the benchmarks of sharded stores if necessary (ten minutes)."""
    builder = [environment.python(), HERE.parent / "sharded" / "parallel_hdf5.py", "--hdf5"]
    return Path(subprocess.run(builder, check=True, capture_output=True, text=True).stdout.strip())


def program(name: str) -> Path:
    """Returns a built program."""
    sources = [HERE / f"{name}.c", HERE / "particles.h"]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    made = environment.cache() / f"{name}-{digest}"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        folder = hdf5()
        partial = made.with_suffix(f".{os.getpid()}")
        flags = ["-O2", "-std=gnu11", "-Wall", "-Wextra", f"-I{folder / 'include'}"]
        linked = [f"-L{folder / 'lib'}", f"-Wl,-rpath,{folder / 'lib'}", "-lhdf5", "-lm"]
        compiler = environment.python().parent / "mpicc"
        subprocess.run([compiler, *flags, sources[0], "-o", partial, *linked], check=True)
        partial.replace(made)
    return made


def run(
    name: str, ranks: int, path: Path, connector: str | None = None, check: bool = False, **more: Any
) -> dict[str, Any]:
    """Runs a program in `ranks` processes, natively with MPI-IO or through the connector; returns its output.

    Raises:
        SystemExit: The program failed, with its error output.
    """
    launcher = environment.python().parent / "mpiexec"
    command: list[str | Path] = [launcher, "-n", str(ranks), program(name)]
    variables = environment.variables()
    if connector is None:
        command.append("--mpio")
    else:
        package = environment.ROOT / "python" / "hyperchunk"
        variables["HDF5_PLUGIN_PATH"] = f"{package / 'plugins'}:{package / 'connector'}"
        variables["HDF5_VOL_CONNECTOR"] = connector
    for key, value in more.items():
        command += [f"--{key}", str(value)]
    command += ["--check"] * check + [path]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{connector or ''}\n{done.stdout}{done.stderr}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


if __name__ == "__main__":
    print(program("vpic_io"), program("bdcats_io"), sep="\n")
