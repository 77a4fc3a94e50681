"""Fresh processes with only HDF5_PLUGIN_PATH set, and reads in this process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np

HYPERCHUNK = Path(sys.executable).with_name("hyperchunk")
ANOTHER_PYTHON = ("PYTHONPATH", "HYPERCHUNK_PYTHON")
"""What `tools/another_python.py` sets."""

READERS = {
    "h5py": """
import sys, h5py, numpy
with h5py.File(sys.argv[1]) as file:
    numpy.save(sys.argv[3], file[sys.argv[2]][{selection}])
""",
    "netCDF4": """
import sys, netCDF4, numpy
with netCDF4.Dataset(sys.argv[1]) as file:
    file.set_auto_mask(False)
    numpy.save(sys.argv[3], file[sys.argv[2]][{selection}])
""",
}


def environment(config: Path | None = None, **more: str) -> dict[str, str]:
    """Returns the environment of a shell in which only HDF5_PLUGIN_PATH (and the location of the keys) is set."""
    keep = (
        "PATH",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "HYPERCHUNK_CODE_CACHE",
        "HYPERCHUNK_PRINT",
        *ANOTHER_PYTHON,
    )
    env = {name: os.environ[name] for name in keep if name in os.environ}
    env["HDF5_PLUGIN_PATH"] = str(hyperchunk.plugins.folder())
    env["XDG_CONFIG_HOME"] = str(config or os.environ["XDG_CONFIG_HOME"])
    return env | more


def run_python(code: str, *arguments: object, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter. An empty ``HDF5_PLUGIN_PATH=""`` unsets it."""
    variables = {name: value for name, value in environment(**env).items() if value}
    words = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def read_fresh(
    file: Path, dataset: str, selection: str, reader: str, *, config: Path | None = None, scratch: Path
) -> np.ndarray:
    """Reads with a stock reader in a fresh process."""
    result = scratch / "fresh.npy"
    result.unlink(missing_ok=True)
    code = READERS[reader].format(selection=selection)
    run_python(code, file, dataset, result, XDG_CONFIG_HOME=str(config or os.environ["XDG_CONFIG_HOME"]))
    return np.load(result)


def read(file: Path, dataset: str, selection: Any = ...) -> np.ndarray:
    """Reads with h5py in this process."""
    with h5py.File(file) as opened:
        return opened[dataset][selection]


def failure(file: Path, dataset: str, selection: Any = ...) -> str:
    """Checks that a read fails, and returns the reason from HDF5's error stack."""
    try:
        values = read(file, dataset, selection)
    except OSError as error:
        text = str(error)
    else:
        raise AssertionError(f"{dataset} was read as {values!r}")
    return text
