"""The connector in releases of libhdf5 other than h5py's: C calls, in processes without Hyperchunk."""

from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest

from vol import helpers, releases

# Makes /g/x with `ranks` rows, or reads it; arguments: the library, rank, ranks, the mode. Identifiers have 64 bits.
PROGRAM = """
    import ctypes, sys
    import numpy as np
    hdf5 = ctypes.CDLL(sys.argv[1])
    rank, ranks, mode = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    ID, N = ctypes.c_int64, ctypes.c_uint64
    for name in "H5Fcreate H5Fopen H5Gcreate2 H5Dcreate2 H5Dopen2 H5Screate_simple H5Dget_space".split():
        getattr(hdf5, name).restype = ID
    def good(value):
        assert value >= 0
        return value
    good(hdf5.H5open())
    version = [ctypes.c_uint() for _ in range(3)]
    good(hdf5.H5get_libversion(*map(ctypes.byref, version)))
    double = ID.in_dll(hdf5, "H5T_NATIVE_DOUBLE_g")
    zero = ID(0)
    if mode == "write":
        file = good(hdf5.H5Fcreate(b"a.h5", 2, zero, zero))
        group = good(hdf5.H5Gcreate2(ID(file), b"g", zero, zero, zero))
        space = good(hdf5.H5Screate_simple(2, (N * 2)(ranks, 1000), None))
        data = good(hdf5.H5Dcreate2(ID(group), b"x", double, ID(space), zero, zero, zero))
        start, count = (N * 2)(rank, 0), (N * 2)(1, 1000)
        good(hdf5.H5Sselect_hyperslab(ID(space), 0, start, None, count, None))
        memory = good(hdf5.H5Screate_simple(2, count, None))
        row = np.arange(1000.0) + 1000 * rank
        good(hdf5.H5Dwrite(ID(data), double, ID(memory), ID(space), zero, ID(row.ctypes.data)))
        good(hdf5.H5Sclose(ID(memory)))
    else:
        file = group = good(hdf5.H5Fopen(b"a.h5", 0, zero))
        data = good(hdf5.H5Dopen2(ID(file), b"/g/x", zero))
        space = good(hdf5.H5Dget_space(ID(data)))
        got = np.zeros((ranks, 1000))
        good(hdf5.H5Dread(ID(data), double, zero, zero, zero, ID(got.ctypes.data)))
        assert (got.reshape(-1) == np.arange(ranks * 1000)).all()
    good(hdf5.H5Dclose(ID(data)))
    good(hdf5.H5Sclose(ID(space)))
    if group != file:
        good(hdf5.H5Gclose(ID(group)))
    good(hdf5.H5Fclose(ID(file)))
    print(".".join(str(part.value) for part in version))
"""


@pytest.mark.parametrize(("package", "version"), releases.RELEASES)
def test_many_processes_write_and_read(package: str, version: str, tmp_path: Path) -> None:
    library = releases.library(package)
    beside = {"LD_LIBRARY_PATH": str(library.parent)}
    connected = hyperchunk.plugins.environment(store=True, writers=3) | beside
    ranks = [helpers.start(PROGRAM, library, rank, 3, "write", folder=tmp_path, env=connected) for rank in range(3)]
    for rank in ranks:
        assert helpers.finish(rank).startswith(version)
    assert sorted(path.suffix for path in (tmp_path / "a.h5.d").iterdir()) == [".log"] * 3 + [".manifest"]
    # Through the connector, through the same release without it, and with h5py's.
    for env in (connected, beside):
        helpers.finish(helpers.start(PROGRAM, library, 0, 3, "read", folder=tmp_path, env=env))
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["g/x"][...].reshape(-1), np.arange(3000))
