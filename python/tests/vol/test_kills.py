"""Programs killed while they reopen a store and append to it: committed data are never lost."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import hyperchunk.store
import numpy as np
import pytest

from vol import helpers, releases

# Number of kills over all releases; the slow lane has more.
KILLS = int(os.environ.get("HYPERCHUNK_KILLS", "24"))

RELEASES = ["arraymorph", "netCDF4", "h5py"]

# Appends rows to /x and adds a group, session by session, and prints the closed ones. Arguments: the library, the
# first number.
APPEND = """
    import ctypes, itertools, sys
    import numpy as np
    hdf5 = ctypes.CDLL(sys.argv[1])
    ID, N = ctypes.c_int64, ctypes.c_uint64
    for name in "H5Fcreate H5Fopen H5Gcreate2 H5Dcreate2 H5Dopen2 H5Screate_simple H5Dget_space".split():
        getattr(hdf5, name).restype = ID
    def good(value):
        assert value >= 0
        return value
    good(hdf5.H5open())
    double, zero = ID.in_dll(hdf5, "H5T_NATIVE_DOUBLE_g"), ID(0)
    for number in itertools.count(int(sys.argv[2])):
        file = ID(good(hdf5.H5Fopen(b"a.h5", 1, zero)))
        data = ID(good(hdf5.H5Dopen2(file, b"x", zero)))
        space = ID(good(hdf5.H5Dget_space(data)))
        good(hdf5.H5Sselect_hyperslab(space, 0, (N * 1)(number * 1000), None, (N * 1)(1000), None))
        memory = ID(good(hdf5.H5Screate_simple(1, (N * 1)(1000), None)))
        values = np.full(1000, number + 1.0)
        good(hdf5.H5Dwrite(data, double, memory, space, zero, ID(values.ctypes.data)))
        group = ID(good(hdf5.H5Gcreate2(file, b"g%d" % number, zero, zero, zero)))
        good(hdf5.H5Dclose(data)), good(hdf5.H5Gclose(group))
        if number % 3 == 1:
            good(hdf5.H5Fflush(file, 1))
        good(hdf5.H5Fclose(file))
        print(number, flush=True)
"""


def library_of(release: str) -> Path:
    """Returns the libhdf5 of a package's wheel."""
    if release != "h5py":
        return releases.library(release)
    folder = Path(h5py.__file__).parent.parent / "h5py.libs"
    return sorted(folder.glob("libhdf5[-.]*"))[0]


def verify(path: Path, closed: set[int], begun: int) -> None:
    """Checks that closed sessions are present, and a started one is present completely or not at all."""
    with hyperchunk.open(path) as file:
        values = file["x"][...].reshape(-1, 1000)
        for number in closed:
            assert (values[number] == number + 1).all(), f"session {number} was closed"
            assert f"g{number}" in file
        for number in range(begun):
            assert np.isin(values[number], [0, number + 1]).all()
        assert not values[begun:].any()


@pytest.mark.parametrize("seed", range(max(KILLS // 24, 1)))
def test_appending_programs_are_killed(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "a.h5"
    run = hyperchunk.store.create(path, {"/x": hyperchunk.store.Dataset((1_000_000,), "f8")})
    with run.writer() as writer:
        writer.attrs["title"] = "kills"
    run.commit()
    closed: set[int] = set()
    begun = 0
    for kill in range(24):
        library = library_of(chance.choice(RELEASES))
        env = hyperchunk.plugins.environment(store=True) | {"LD_LIBRARY_PATH": str(library.parent)}
        words = [sys.executable, "-c", helpers.dedent(APPEND), library, str(begun)]
        # A file, since data left in a pipe at the end would not be read.
        said = tmp_path / "said.txt"
        with said.open("wb") as out:
            process = subprocess.Popen(words, env=helpers.clean() | env, cwd=tmp_path, stdout=out, stderr=out)
        if chance.random() < 0.7:
            # Waits until it works.
            while not said.read_bytes() and process.poll() is None:
                time.sleep(0.005)
        time.sleep(chance.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        lines = said.read_text().splitlines()
        assert process.returncode == -signal.SIGKILL, f"{kill}: {lines}"
        closed.update(int(line) for line in lines)
        begun = max([begun, *closed]) + 2
        how = chance.choice(["nothing", "commit", "recover", "verify"])
        if how in ("commit", "recover"):
            words = [helpers.command(), "store", how, path]
            done_by = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
            assert done_by.returncode == 0, f"{kill}: {done_by.stderr}"
        verify(path, closed, begun)
    assert len(closed) > 10
    with run.writer() as writer:
        writer["x"][-1] = 0
        writer.attrs["end"] = 1
    run.commit(salvage=True)
    verify(path, closed, begun)
    run.commit()
    packed = tmp_path / "packed.h5"
    subprocess.run([helpers.command(), "store", "pack", path, packed], check=True, timeout=60)
    verify(packed, closed, begun)


def test_what_a_killed_writer_flushed_hides_no_later_epoch(tmp_path: Path) -> None:
    flushed = 'import h5py, os\nf = h5py.File("a.h5", "a")\nf["d"][0] = 1\nf.flush()\nos._exit(1)\n'
    env = hyperchunk.plugins.environment(store=True)
    make = 'import h5py\nwith h5py.File("a.h5", "w") as f: f["d"] = [0.0, 0, 0]\n'
    helpers.run(make, folder=tmp_path, store=True)
    killed = helpers.start(flushed, folder=tmp_path, env=env)
    killed.communicate(timeout=60)
    assert killed.returncode == 1
    helpers.run('import h5py\nwith h5py.File("a.h5", "a") as f: f["d"][:] = 2\n', folder=tmp_path, store=True)
    for number in range(2):
        code = f'import h5py\nwith h5py.File("a.h5", "a") as f: f["copy{number}"] = f["d"][:]\n'
        helpers.run(code, folder=tmp_path, store=True)
        with h5py.File(tmp_path / "a.h5") as file:
            assert file["d"][:].tolist() == file[f"copy{number}"][:].tolist() == [2, 2, 2]


def test_a_dead_process_that_nobody_waited_for_is_dead(tmp_path: Path) -> None:
    make = 'import h5py\nwith h5py.File("a.h5", "w") as f: f["d"] = [0.0, 0, 0]\n'
    helpers.run(make, folder=tmp_path, store=True)
    flushed = 'import h5py, os\nf = h5py.File("a.h5", "a")\nf["d"][0] = 1\nf.flush()\nprint("done")\nos._exit(1)\n'
    dead = helpers.start(flushed, folder=tmp_path, env=hyperchunk.plugins.environment(store=True))
    stat = Path(f"/proc/{dead.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    helpers.run('import h5py\nwith h5py.File("a.h5", "a") as f: f["d"][1] = 2\n', folder=tmp_path, store=True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["d"][1] == 2
    dead.communicate()
