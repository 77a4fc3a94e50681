"""Programs with the connector under a file size limit: HDF5's calls fail, and incomplete data are not committed."""

import subprocess
from pathlib import Path

import h5py
import hyperchunk
import pytest

from vol import helpers

PROGRAM = """
import h5py, os, resource, signal, sys
import numpy as np
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def full(size=1 << 20):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
def room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
def refused(call, *arguments):
    try:
        call(*arguments)
    except (OSError, RuntimeError) as error:
        print(error, flush=True)
        return
    print("NOT REFUSED", call, flush=True)
"""

# The failing operation, and whether H5Fclose is the first call to report it.
FAILING = {
    "large": "refused(lambda: file['x'].__setitem__(slice(None), np.ones(1 << 20)))",
    "small": "file['x'][8:1000] = 1; full(500)",
    "attributes": "file['text'] = 'x' * (1 << 21)",
    "late": "file['x'][8:1000] = 1; file.flush(); file['x'][8:1000] = 2; full(3000)",
}


@pytest.mark.parametrize("kind", FAILING)
def test_closing_fails(tmp_path: Path, kind: str) -> None:
    code = f"""
    file = h5py.File("a.h5", "w")
    file.create_dataset("x", (1 << 20,), "f8")[:8] = 5
    full()
    {FAILING[kind]}
    refused(file.close)
    """
    process = helpers.start(
        PROGRAM + helpers.dedent(code), folder=tmp_path, env=hyperchunk.plugins.environment(store=True)
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert "NOT REFUSED" not in out, out + err
    assert "rror" in out + err or "nable" in out
    # The session is not committed as complete.
    done = subprocess.run(
        [helpers.command(), "store", "commit", "a.h5"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0, done.stdout
    assert "could not write all" in done.stderr
    recovered = subprocess.run(
        [helpers.command(), "store", "recover", "a.h5"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert recovered.returncode == 0, recovered.stderr


def test_an_earlier_epoch_stays(tmp_path: Path) -> None:
    helpers.run(PROGRAM + 'with h5py.File("a.h5", "w") as f: f["x"] = np.ones(8)', folder=tmp_path, store=True)
    code = """
    file = h5py.File("a.h5", "a")
    full()
    refused(lambda: file.create_dataset("y", data=np.ones(1 << 20)))
    refused(file.close)
    room()
    # The next session is one of its own.
    with h5py.File("a.h5", "a") as file:
        file["z"] = np.arange(4)
    """
    out = helpers.run(PROGRAM + helpers.dedent(code), folder=tmp_path, store=True)
    assert "NOT REFUSED" not in out
    with h5py.File(tmp_path / "a.h5") as file:
        assert sorted(file) == ["x", "z"]
        assert file["x"][...].tolist() == [1] * 8
        assert file["z"][...].tolist() == [0, 1, 2, 3]
