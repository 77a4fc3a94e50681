"""`hyperchunk env` keeps existing plugins available: filters found without it are found with it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import udf

ZSTD = """
import sys, netCDF4, numpy as np
with netCDF4.Dataset(sys.argv[1], "w") as file:
    file.createDimension("x", 1000)
    file.createVariable("v", "f8", ("x",), compression="zstd", complevel=4)[:] = np.arange(1000.)
with netCDF4.Dataset(sys.argv[1]) as file:
    print(file["v"][5], file.has_zstd_filter())
"""
ENABLE = "import hyperchunk; hyperchunk.plugins.enable()\n"


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}


def with_env(before: dict[str, str]) -> dict[str, str]:
    """Returns an environment after `eval "$(hyperchunk env)"`."""
    words = [str(HYPERCHUNK), "env", "--plain"]
    lines = subprocess.run(words, env=before, capture_output=True, text=True, check=True).stdout.splitlines()
    return before | dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("how", ["nothing", "env", "enable"])
def test_netcdf4_has_its_filters(how: str, tmp_path: Path) -> None:
    """netCDF4 adds its folder only if the variable is not set."""
    if importlib.util.find_spec("netCDF4") is None:
        pytest.skip("netCDF4 is not installed")
    environment = with_env(clean()) if how == "env" else clean()
    code = (ENABLE if how == "enable" else "") + ZSTD
    words = [sys.executable, "-c", code, str(tmp_path / "z.nc")]
    assert subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout == "5.0 True\n"


def test_what_is_on_the_path_stays() -> None:
    """Only our folder is added to an existing path."""
    path = with_env(clean() | {"HDF5_PLUGIN_PATH": "/a:/b"})["HDF5_PLUGIN_PATH"].split(":")
    assert path[1:] == ["/a", "/b"]
    assert path[0].endswith("plugins")


def test_address_space_too_small_for_the_plugins(tmp_path: Path) -> None:
    """The message says that the limit is in the way, not that the package is damaged."""
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(4.0)
    udf.attach(path, outputs="y", expression="2 * x", unsigned=True)
    environment = with_env(clean())
    said = []
    for kib in range(60_000, 20_000, -4_000):
        words = ["bash", "-c", f"ulimit -v {kib} && exec h5dump -d y '{path}'"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        said += [line for line in done.stderr.splitlines() if "cannot load the HDF5 plugins" in line]
    assert said
    assert all("address space" in line and "ulimit -v" in line and "reinstall" not in line for line in said)
