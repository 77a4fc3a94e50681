"""Several releases of libhdf5 over the sessions of one store: each reads and rewrites the others' data."""

import itertools
import subprocess
from pathlib import Path

import h5py
import hyperchunk.store
import numpy as np
import pytest

from vol import helpers, releases

# Opens a.h5 for one session: changes an element of /x, and adds a group with a dataset. Arguments: the library, the
# number of the session, "plain" for a program without the connector, which cannot reach /x, and for each earlier
# session whether it had the connector.
SESSION = """
    import ctypes, sys
    import numpy as np
    hdf5 = ctypes.CDLL(sys.argv[1])
    number, plain = int(sys.argv[2]), sys.argv[3] == "plain"
    ID, N = ctypes.c_int64, ctypes.c_uint64
    for name in "H5Fcreate H5Fopen H5Gcreate2 H5Dcreate2 H5Dopen2 H5Screate_simple".split():
        getattr(hdf5, name).restype = ID
    def good(value):
        assert value >= 0
        return value
    good(hdf5.H5open())
    double = ID.in_dll(hdf5, "H5T_NATIVE_DOUBLE_g")
    zero = ID(0)
    space = ID(good(hdf5.H5Screate_simple(1, (N * 1)(6), None)))
    if number == 0:
        file = ID(good(hdf5.H5Fcreate(b"a.h5", 2, zero, zero)))
        data = ID(good(hdf5.H5Dcreate2(file, b"x", double, space, zero, zero, zero)))
    else:
        file = ID(good(hdf5.H5Fopen(b"a.h5", 1, zero)))
    values = np.zeros(6)
    if number and not plain:
        data = ID(good(hdf5.H5Dopen2(file, b"x", zero)))
        good(hdf5.H5Dread(data, double, zero, zero, zero, ID(values.ctypes.data)))
        assert values[:number].tolist() == [float(flag) for flag in sys.argv[4]]
        assert not values[number:].any()
    if not plain:
        values[number] = 1
        good(hdf5.H5Dwrite(data, double, zero, zero, zero, ID(values.ctypes.data)))
        good(hdf5.H5Dclose(data))
    group = ID(good(hdf5.H5Gcreate2(file, b"g%d" % number, zero, zero, zero)))
    data = ID(good(hdf5.H5Dcreate2(group, b"y", double, space, zero, zero, zero)))
    values[:] = number
    good(hdf5.H5Dwrite(data, double, zero, zero, zero, ID(values.ctypes.data)))
    good(hdf5.H5Dclose(data))
    good(hdf5.H5Gclose(group))
    good(hdf5.H5Sclose(space))
    good(hdf5.H5Fclose(file))
"""

PACKAGES = [package for package, _ in releases.RELEASES]
FETCHED = releases.fetched()


def loaded(release: str) -> Path:
    """Returns the libhdf5 of a package's wheel or of a fetched release."""
    return FETCHED.get(release) or releases.library(release)


def has_connectors(release: str) -> bool:
    """True if programs with that release can use the connector: HDF5 1.12 has another interface."""
    return not release.startswith("1.12")


# The first session creates the store, with the connector.
ORDERS = [order for order in itertools.product([*FETCHED, *PACKAGES], repeat=3) if has_connectors(order[0])]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_sessions_of_several_releases(order: tuple[str, ...], tmp_path: Path) -> None:
    wrote = [has_connectors(release) for release in order]
    for number, release in enumerate(order):
        library = loaded(release)
        env = hyperchunk.plugins.environment(store=True) if wrote[number] else {}
        flags = "".join(str(int(flag)) for flag in wrote[:number])
        words = (library, number, "connector" if wrote[number] else "plain", flags)
        env |= {"LD_LIBRARY_PATH": str(library.parent)}
        helpers.finish(helpers.start(SESSION, *words, folder=tmp_path, env=env))
    expected = [float(flag) for flag in wrote] + [0.0] * 3
    # The last changes of a program without the connector are part of the next epoch.
    with hyperchunk.store.open(tmp_path / "a.h5").writer() as writer:
        writer.attrs["end"] = 1
    done = subprocess.run(
        [helpers.command(), "store", "commit", "a.h5"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == expected
        for number in range(len(order)):
            assert file[f"g{number}/y"][...].tolist() == [number] * 6
    subprocess.run([helpers.command(), "store", "pack", "a.h5", "b.h5"], cwd=tmp_path, check=True)
    with h5py.File(tmp_path / "b.h5") as file:
        assert np.array_equal(file["x"][...], expected)
        for number in range(len(order)):
            assert file[f"g{number}/y"][...].tolist() == [number] * 6


# Leaves a.h5 open, after another file was closed: HDF5 closes it at exit.
LEFT_OPEN = """
    import ctypes, sys
    import numpy as np
    hdf5 = ctypes.CDLL(sys.argv[1])
    ID, N = ctypes.c_int64, ctypes.c_uint64
    for name in "H5Fcreate H5Fopen H5Dcreate2 H5Dopen2 H5Screate_simple".split():
        getattr(hdf5, name).restype = ID
    hdf5.H5open()
    double, zero = ID.in_dll(hdf5, "H5T_NATIVE_DOUBLE_g"), ID(0)
    space = ID(hdf5.H5Screate_simple(1, (N * 1)(6), None))
    values = np.arange(6.0)
    for name in (b"first.h5", b"a.h5"):
        file = ID(hdf5.H5Fcreate(name, 2, zero, zero))
        data = ID(hdf5.H5Dcreate2(file, b"x", double, space, zero, zero, zero))
        assert hdf5.H5Dwrite(data, double, zero, zero, zero, ID(values.ctypes.data)) >= 0
        if name == b"first.h5":
            hdf5.H5Dclose(data), hdf5.H5Fclose(file)
            file = ID(hdf5.H5Fopen(name, 0, zero))
            data = ID(hdf5.H5Dopen2(file, b"x", zero))
            assert hdf5.H5Dread(data, double, zero, zero, zero, ID(values.ctypes.data)) >= 0
            hdf5.H5Dclose(data), hdf5.H5Fclose(file)
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_file_left_open_is_committed_at_exit(package: str, tmp_path: Path) -> None:
    library = releases.library(package)
    env = hyperchunk.plugins.environment(store=True) | {"LD_LIBRARY_PATH": str(library.parent)}
    process = helpers.start(LEFT_OPEN, library, folder=tmp_path, env=env)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "", "")
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [0, 1, 2, 3, 4, 5]


# A dataset of a committed type, made in a later session. Arguments: the type, the name.
COMMITTED_TYPE = """
    import sys
    import h5py, numpy as np
    kind = {"string": h5py.string_dtype(length=3), "vlen": h5py.string_dtype(), "opaque": np.dtype("V3"),
            "enum": h5py.enum_dtype({"a": 1}, "i1"), "array": np.dtype(("i1", 3)),
            "compound": np.dtype([("a", "i1")])}.get(sys.argv[1]) or np.dtype(sys.argv[1])
    with h5py.File("t.h5", "w") as file:
        file.create_group("g")["type"] = kind
    for session in range(3):
        with h5py.File("t.h5", "a") as file:
            file["g"].create_dataset(sys.argv[2] + str(session), (3, 3), dtype=file["g/type"])
"""


@pytest.mark.parametrize("name", ["d", "d" * 11])
@pytest.mark.parametrize("kind", ["i1", "i8", "f4", "string", "vlen", "opaque", "enum", "array", "compound"])
def test_committed_type_is_used_in_later_sessions(kind: str, name: str, tmp_path: Path) -> None:
    helpers.run(COMMITTED_TYPE, kind, name, folder=tmp_path, store=True)
    with hyperchunk.open(tmp_path / "t.h5") as file:
        assert [f"{name}{session}" in file["g"] for session in range(3)] == [True] * 3
