"""A file of a store, opened several times in one process, and closed in any order."""

import itertools
from pathlib import Path

import h5py
import hyperchunk
import pytest

from vol import helpers, releases

# Opens a new file `count` times, closes the identifiers in that order, and flushes and opens once more in between.
PROGRAM = """
    import ctypes, sys
    hdf5 = ctypes.CDLL(sys.argv[1])
    order = [int(place) for place in sys.argv[2]]
    ID, N = ctypes.c_int64, ctypes.c_uint64
    for name in "H5Fcreate H5Fopen H5Dcreate2 H5Screate_simple".split():
        getattr(hdf5, name).restype = ID
    def good(value):
        assert value >= 0
        return value
    for run in range(2):  # H5close, and the library starts again
        good(hdf5.H5open())
        kind = ID.in_dll(hdf5, "H5T_NATIVE_INT32_g")
        zero = ID(0)
        name = f"{run}.h5".encode()
        files = [good(hdf5.H5Fcreate(name, 2, zero, zero))]
        files += [good(hdf5.H5Fopen(name, 1, zero)) for _ in order[1:]]
        space = good(hdf5.H5Screate_simple(1, (N * 1)(3), None))
        values = (ctypes.c_int32 * 3)(1, 2, 3)
        for step, place in enumerate(order):
            data = good(hdf5.H5Dcreate2(ID(files[place]), f"d{step}".encode(), kind, ID(space), zero, zero, zero))
            good(hdf5.H5Dwrite(ID(data), kind, zero, zero, zero, values))
            good(hdf5.H5Dclose(ID(data)))
            good(hdf5.H5Fflush(ID(files[place]), 1))
            again = good(hdf5.H5Fopen(name, 1, zero))
            good(hdf5.H5Fclose(ID(again)))
            good(hdf5.H5Fclose(ID(files[place])))
        good(hdf5.H5Sclose(ID(space)))
        good(hdf5.H5close())
"""


@pytest.mark.parametrize(("package", "version"), releases.RELEASES)
@pytest.mark.parametrize("order", ["01", "10", *("".join(order) for order in itertools.permutations("012"))])
def test_identifiers_are_closed_in_any_order(package: str, version: str, order: str, tmp_path: Path) -> None:
    library = releases.library(package)
    env = hyperchunk.plugins.environment(store=True) | {"LD_LIBRARY_PATH": str(library.parent)}
    process = helpers.start(PROGRAM, library, order, folder=tmp_path, env=env)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", ""), version
    for run in range(2):
        with h5py.File(tmp_path / f"{run}.h5") as file:
            assert {name: file[name][:].tolist() for name in file} == {
                f"d{step}": [1, 2, 3] for step in range(len(order))
            }
