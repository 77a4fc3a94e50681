"""The package as installed by a user: `pip install .` in an empty environment, and the source archive."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

WITH_H5PY = """
import hyperchunk

hyperchunk.plugins.enable()

import h5py.h5z

assert h5py.h5z.filter_avail(31300)
with h5py.File("a.h5") as file:
    # The probe has set a[0] to 5.
    assert list(file["b"]) == [6, 3]
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Runs a command that must succeed, without the settings of this environment; returns its output."""
    ours = ("PYTHON", "HDF5_", "HYPERCHUNK_", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_pip_install_in_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    bin_dir = tmp_path / "env" / "bin"
    run(bin_dir / "python", "-m", "pip", "install", "--disable-pip-version-check", ROOT, cwd=tmp_path)
    home = run(bin_dir / "python", ROOT / "tools" / "probe_wheel.py", cwd=tmp_path)
    assert home.startswith(str(tmp_path)), "the installed package was shadowed by another"
    assert "hyperchunk" in run(bin_dir / "hyperchunk", "--help", cwd=tmp_path)
    run(bin_dir / "python", "-m", "pip", "install", "--disable-pip-version-check", "h5py", cwd=tmp_path)
    run(bin_dir / "python", "-c", WITH_H5PY, cwd=tmp_path)


@pytest.mark.slow
def test_the_source_archive_holds_every_source(tmp_path: Path) -> None:
    tracked = run("git", "ls-files", "Cargo.*", ".cargo", "crates", "gpu", "plugins", "python", cwd=ROOT).split()
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert set(tracked) <= held
