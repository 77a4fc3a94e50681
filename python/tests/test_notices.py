"""Reasons of failed reads, in programs or libraries that hide HDF5's error stack."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fresh import environment

FAILS = "function dynamic_dataset() error('no such station') end"
NETCDF = """
import netCDF4, sys
for _ in range(3):
    try:
        netCDF4.Dataset(sys.argv[1])["out"][:]
    except RuntimeError as error:
        print(error)
"""
H5PY = """
import h5py, sys
try:
    h5py.File(sys.argv[1])["out"][:]
except OSError as error:
    print(error)
"""


@pytest.fixture
def failing(scene: Any, attach: Any) -> Path:
    """A file with a function that fails when it is read."""
    path: Path = scene()
    attach(path, "lua", FAILS, "out:10:double")
    return path


def run(program: str, file: Path, config: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a separate process."""
    words = [sys.executable, "-c", program, str(file)]
    env = environment(config) | {"PATH": os.environ["PATH"]} | more
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True)


def test_the_reason_is_said_once_where_the_stack_is_swallowed(failing: Path, config: Path) -> None:
    pytest.importorskip("netCDF4")
    done = run(NETCDF, failing, config)
    assert done.stdout.count("HDF error") == 3
    assert "no such station" not in done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"hyperchunk udf: {failing}:/out: ")
    assert "no such station" in lines[0]


def test_it_is_switched_off(failing: Path, config: Path) -> None:
    pytest.importorskip("netCDF4")
    assert run(NETCDF, failing, config, HYPERCHUNK_ERRORS="quiet").stderr == ""


def test_who_learns_the_reason_is_told_once(failing: Path, config: Path) -> None:
    done = run(H5PY, failing, config)
    assert "no such station" in done.stdout
    assert done.stderr == ""
