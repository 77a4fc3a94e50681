"""The connector over ordinary files: no difference from native HDF5."""

import json
from pathlib import Path

import hyperchunk
import pytest

from vol import helpers, suite

EXPECTED = json.loads((suite.HERE / "expected.json").read_text(encoding="utf-8"))
# The fast files among h5py's tests, and the ones most strict about errors and files; suite.py runs all.
FILES = [
    "test_file.py",
    "test_errors.py",
    "test_h5d_direct_chunk.py",
    "test_attrs_data.py",
    "test_vds/test_lowlevel_vds.py",
]


@pytest.mark.parametrize("name", FILES)
def test_tests_of_h5py_end_as_natively(name: str) -> None:
    native = suite.run(name, "native", hyperchunk.plugins.folder())
    for mode in ["pass", "seen", "env"]:
        ours = suite.run(name, mode, hyperchunk.plugins.folder())
        assert suite.difference(native, ours, EXPECTED[mode]) == ([], [])


def test_two_libhdf5_in_one_process(tmp_path: Path) -> None:
    code = """
    import h5py, netCDF4, numpy
    with netCDF4.Dataset("a.nc", "w") as file:
        file.createDimension("x", 5)
        file.createVariable("v", "i4", ("x",), zlib=True)[:] = range(5)
    with h5py.File("a.nc", "r+") as file:
        assert file["v"][...].tolist() == [0, 1, 2, 3, 4]
        file["w"] = numpy.arange(5.0)
        file["w"].dims[0].attach_scale(file["x"])
    with netCDF4.Dataset("a.nc") as file:
        assert file["w"][:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    loaded = {line.split()[-1] for line in open("/proc/self/maps") if "/libhdf5-" in line or "/libhdf5." in line}
    print(len(loaded), "libhyperchunk_vol" in open("/proc/self/maps").read())
    """
    assert helpers.run(code, folder=tmp_path).split() == ["2", "True"]


def test_errors_name_their_number(tmp_path: Path) -> None:
    code = """
    import h5py
    for mode, path in [("r", "none.h5"), ("r+", "none.h5"), ("x", "here.h5"), ("w", "no/where.h5")]:
        try:
            h5py.File(path, mode)
        except OSError as error:
            print(type(error).__name__, error.errno)
    """
    (tmp_path / "here.h5").touch()
    natively = helpers.run(code, folder=tmp_path, native=True)
    assert natively.split() == [
        "FileNotFoundError",
        "2",
        "FileNotFoundError",
        "2",
        "FileExistsError",
        "17",
        "FileNotFoundError",
        "2",
    ]
    assert helpers.run(code, folder=tmp_path) == natively


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ({"fsync": "always"}, "never, epoch, record"),
        ({"stor": True}, "stor is not known"),
        ({"writers": 0}, "at least one"),
    ],
)
def test_mistakes_in_the_information_are_loud(tmp_path: Path, items: dict[str, object], says: str) -> None:
    env = hyperchunk.plugins.environment(**items)
    process = helpers.start("import h5py; h5py.File('a.h5', 'w')", folder=tmp_path, env=env)
    _, err = process.communicate()
    assert process.returncode != 0
    assert says in err


def test_over_another_connector(tmp_path: Path) -> None:
    code = """
    import h5py, sys
    with h5py.File("a.h5", "w") as file:
        file["x"] = 7
        print(file["x"][()])
    """
    env = hyperchunk.plugins.environment() | {
        "HDF5_VOL_CONNECTOR": "hyperchunk under_vol=1;under_info={under_vol=0;under_info={}}"
    }
    assert helpers.finish(helpers.start(code, folder=tmp_path, env=env)).strip() == "7"


def test_the_connector_as_a_string() -> None:
    made = hyperchunk.plugins.connector(store=True, writers=4, checksum=False, session="a")
    assert made == "hyperchunk store;writers=4;checksum=off;session=a"
    assert hyperchunk.plugins.connector() == "hyperchunk"
    with pytest.raises(ValueError, match="session"):
        hyperchunk.plugins.connector(session="a;b")
