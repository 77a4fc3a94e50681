"""Plugins that HDF5 loads from a relative path, as in HDF5-UDF's tests (`HDF5_PLUGIN_PATH=../build`)."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import environment

READ = """
import os, sys
import h5py
file = h5py.File("a.h5")
if sys.argv[1] == "elsewhere":
    file["lua"][0]
    os.chdir("/")
print(file["py"][1], file["lua"][1])
"""


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_relative_plugin_path(where: str, tmp_path: Path, attach: Any, config: Path) -> None:
    """The process may also leave the folder to which the path is relative."""
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["a"] = np.arange(10.0)
    attach(file, "py", "def dynamic_dataset():\n    lib.getData('py')[:] = 2 * lib.getData('a')[:]\n", "py:10:double")
    lua = "function dynamic_dataset() lib.getData('lua')[2] = lib.getData('a')[2] end"
    attach(file, "lua", lua, "lua:10:double")
    relative = os.path.relpath(hyperchunk.plugins.folder(), tmp_path)
    env = environment(config) | {"HDF5_PLUGIN_PATH": relative}
    # The interpreter for functions is found through the plugin's folder, not through the reader.
    done = subprocess.run(
        [sys.executable, "-c", READ, where], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "2.0 1.0\n"), done.stderr


def test_relative_connector_path(tmp_path: Path) -> None:
    variables = hyperchunk.plugins.environment(store=True)
    folders = variables["HDF5_PLUGIN_PATH"].split(":")[:2]
    variables["HDF5_PLUGIN_PATH"] = ":".join(os.path.relpath(folder, tmp_path) for folder in folders)
    code = "import h5py, os\nwith h5py.File('a.h5', 'w') as f:\n    os.mkdir('b'); os.chdir('b'); f['x'] = [1, 2]\n"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | variables, check=True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][:].tolist() == [1, 2]
