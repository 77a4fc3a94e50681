"""HDF5's search for a connector after a failed open: with `hyperchunk env`, and with the connector on the path."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import hyperchunk
import pytest

from vol import helpers, releases

Setting = Callable[[], dict[str, str]]

# A lock that fails once, as if another process held it for a moment.
LOCKED_ONCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
int flock(int fd, int op) {
    static int calls;
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    if (calls++ == 0) { errno = EAGAIN; return -1; }
    return real(fd, op);
}
"""

OPEN = """
    import re, sys
    import h5py
    try:
        file = h5py.File(sys.argv[1], sys.argv[2])
        print("opened", file["x"][:].tolist())
    except OSError as error:
        print(type(error).__name__, re.sub("time = [^,]*|0x[0-9a-f]+", "", str(error)))
"""


def filters() -> dict[str, str]:
    """Returns the variables set by `hyperchunk env`."""
    return {"HDF5_PLUGIN_PATH": str(hyperchunk.plugins.folder())}


def in_sight() -> dict[str, str]:
    """Returns variables with the connector on the plugin path, but not named."""
    return {"HDF5_PLUGIN_PATH": f"{hyperchunk.plugins.folder()}:{hyperchunk.plugins.connector_folder()}"}


@pytest.fixture
def locked_once(tmp_path: Path) -> dict[str, str]:
    source, library = tmp_path / "once.c", tmp_path / "once.so"
    source.write_text(LOCKED_ONCE, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}


def opened(path: object, mode: str, folder: Path, env: dict[str, str]) -> str:
    return helpers.finish(helpers.start(OPEN, path, mode, folder=folder, env=env))


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("path", [filters, in_sight])
def test_lost_race_for_a_lock_is_the_native_error(
    mode: str, path: Setting, tmp_path: Path, locked_once: dict[str, str]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = [1, 2, 3]
    natively = opened("a.h5", mode, tmp_path, locked_once)
    assert natively.startswith("BlockingIOError [Errno 11]")
    assert opened("a.h5", mode, tmp_path, locked_once | path()) == natively


@pytest.mark.parametrize("name", ["none.h5", "text", ".", "broken.h5"])
def test_files_that_cannot_be_opened_have_the_native_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no HDF5\n" * 100, encoding="utf-8")
    (tmp_path / "broken.h5").write_bytes(b"\x89HDF\r\n\x1a\n\x00")
    natively = opened(name, "r", tmp_path, {})
    assert opened(name, "r", tmp_path, filters()) == opened(name, "r", tmp_path, in_sight()) == natively


def test_only_files_that_need_the_connector_are_claimed(tmp_path: Path) -> None:
    """HDF5 2.0 passes a file found by a search to the native connector, so such files are refused with advice."""
    subprocess.run([helpers.command(), "link", "grpc://host:1/a.h5", tmp_path / "remote.h5"], check=True)
    code = """
    import sys
    import h5py
    h5py._errors.unsilence_errors()
    try:
        h5py.h5f.open(sys.argv[1].encode())
    except OSError:
        pass
    """
    for name in ("remote.h5", "grpc://host:1/a.h5"):
        process = helpers.start(code, name, folder=tmp_path, env=in_sight())
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert f"cannot open {name}: expected the connector by name" in err
        assert "HDF5_VOL_CONNECTOR=hyperchunk" in err


# A program that requests the connector itself, in an access list.
CHOSEN = """
    import ctypes, sys
    hdf5 = ctypes.CDLL(sys.argv[1])
    ID = ctypes.c_int64
    for name in "H5Pcreate H5Fopen H5VLregister_connector_by_name".split():
        getattr(hdf5, name).restype = ID
    hdf5.H5open()
    connector = ID(hdf5.H5VLregister_connector_by_name(b"hyperchunk", ID(0)))
    assert connector.value >= 0
    fapl = ID(hdf5.H5Pcreate(ID.in_dll(hdf5, "H5P_CLS_FILE_ACCESS_ID_g")))
    assert hdf5.H5Pset_vol(fapl, connector, None) >= 0
    print(hdf5.H5Fis_accessible(b"a.h5", fapl), hdf5.H5Fis_accessible(b"text", fapl))
    hdf5.H5Eset_auto2(ID(0), None, None)
    print(hdf5.H5Fopen(b"none.h5", 0, ID(0)) < 0, hdf5.H5Fis_accessible(b"a.h5", fapl))
    file = ID(hdf5.H5Fopen(b"a.h5", 0, fapl))
    assert file.value >= 0 and hdf5.H5Fclose(file) >= 0
"""


@pytest.mark.parametrize("package", [package for package, _ in releases.RELEASES])
def test_connector_in_an_access_list_tells_the_truth(package: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no HDF5", encoding="utf-8")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = [1, 2, 3]
    library = releases.library(package)
    env = in_sight() | {"LD_LIBRARY_PATH": str(library.parent)}
    assert helpers.finish(helpers.start(CHOSEN, library, folder=tmp_path, env=env)).split() == ["1", "0", "True", "1"]


# Opens a store whose lock fails once, and reads it.
FOUND = """
    import ctypes, sys
    hdf5 = ctypes.CDLL(sys.argv[1])
    ID = ctypes.c_int64
    for name in "H5Fopen H5Dopen2".split():
        getattr(hdf5, name).restype = ID
    hdf5.H5open()
    file = ID(hdf5.H5Fopen(b"a.h5", 0, ID(0)))
    if file.value < 0:
        sys.exit("not opened")
    data = ID(hdf5.H5Dopen2(file, b"x", ID(0)))
    values = (ctypes.c_double * 3)()
    assert hdf5.H5Dread(data, ID.in_dll(hdf5, "H5T_NATIVE_DOUBLE_g"), ID(0), ID(0), ID(0), values) >= 0
    print(*values)
    assert hdf5.H5Dclose(data) >= 0 and hdf5.H5Fclose(file) >= 0
"""


@pytest.mark.parametrize("package", [package for package, _ in releases.RELEASES])
def test_store_that_a_search_finds(package: str, tmp_path: Path, locked_once: dict[str, str]) -> None:
    """The store is opened where HDF5 supports it (1.14), and refused with advice where HDF5 would crash (2.0 and
    newer).
    """
    code = "import h5py; h5py.File('a.h5', 'w')['x'] = [1.0, 2.0, 3.0]"
    helpers.finish(helpers.start(code, folder=tmp_path, env=hyperchunk.plugins.environment(store=True)))
    library = releases.library(package)
    env = in_sight() | locked_once | {"LD_LIBRARY_PATH": str(library.parent)}
    process = helpers.start(FOUND, library, folder=tmp_path, env=env)
    out, err = process.communicate(timeout=120)
    if ".so.310" in library.name:
        assert (process.returncode, out.split()) == (0, ["1.0", "2.0", "3.0"]), err
    else:
        assert process.returncode == 1, err
        assert "unable to lock file" in err
        assert "cannot open a.h5: expected the connector by name" in err


# Opens and closes a file repeatedly, as the other process does: each loses races for the lock.
RACE = """
    import sys, time
    import h5py
    end, lost, opened = time.monotonic() + float(sys.argv[2]), 0, 0
    while time.monotonic() < end:
        try:
            with h5py.File("a.h5", sys.argv[1]) as file:
                assert file["x"][0] == 1
                opened += 1
        except OSError:
            lost += 1
    print(opened, lost)
"""


@pytest.mark.parametrize("path", [filters, in_sight])
def test_two_processes_that_race_for_a_file(path: Setting, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = [1, 2, 3]
    seconds = float(os.environ.get("HYPERCHUNK_RACE_SECONDS", "3"))
    racers = [helpers.start(RACE, mode, seconds, folder=tmp_path, env=path()) for mode in ("r", "r+")]
    counts = []
    for racer in racers:
        out, err = racer.communicate(timeout=seconds + 120)
        assert racer.returncode == 0, err
        counts.append([int(word) for word in out.split()])
    assert sum(lost for _, lost in counts) > 0, "no race was lost: the test tests nothing"
    assert all(opened for opened, _ in counts)


# Counts the loads of shared libraries.
LOADS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
int loads;
void *dlopen(const char *path, int flags) {
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    loads += path != 0;
    return real(path, flags);
}
"""

FAIL = """
    import ctypes
    import h5py
    def fail():
        try:
            h5py.h5f.open(b"none.h5")
        except OSError:
            pass
    fail()
    loads = ctypes.c_int.in_dll(ctypes.CDLL(None), "loads")
    before = loads.value
    for _ in range(100):
        fail()
    print(loads.value - before)
"""


def test_failed_open_costs_little_more_than_natively(tmp_path: Path) -> None:
    """HDF5 loads each library of a plugin folder to check for a connector: three small ones, 10 us each."""
    source, library = tmp_path / "loads.c", tmp_path / "loads.so"
    source.write_text(LOADS, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    (tmp_path / "empty").mkdir()
    preload = {"LD_PRELOAD": str(library)}
    counts = [
        int(helpers.finish(helpers.start(FAIL, folder=tmp_path, env=preload | env)))
        for env in ({"HDF5_PLUGIN_PATH": str(tmp_path / "empty")}, filters(), in_sight())
    ]
    assert counts[0] == 0
    assert counts[1] <= 600
    # The count is that of the libraries in the folders: with the connector beside the filters, there are more.
    assert counts[2] > counts[1]


# Makes a store, and prints "connector" if HDF5 has ours. Argument: the libhdf5. The library may be loaded in
# any case: the filters' code is in it.
NAMED = """
    import ctypes, sys
    hdf5 = ctypes.CDLL(sys.argv[1])
    hdf5.H5Fcreate.restype = ctypes.c_int64
    hdf5.H5open()
    zero = ctypes.c_int64(0)
    file = ctypes.c_int64(hdf5.H5Fcreate(b"a.h5", 2, zero, zero))
    assert file.value >= 0
    assert hdf5.H5Fclose(file) >= 0
    assert hdf5.H5Fopen(b"none.h5", 0, zero) < 0
    print("connector" if hdf5.H5VLis_connector_registered_by_name(b"hyperchunk") > 0 else "none")
"""


@pytest.mark.parametrize("package", [package for package, _ in releases.RELEASES])
def test_connector_that_is_named_is_found_through_the_plugin_folder(package: str, tmp_path: Path) -> None:
    library = releases.library(package)
    env = filters() | {"LD_LIBRARY_PATH": str(library.parent)}
    named = env | {"HDF5_VOL_CONNECTOR": "hyperchunk store"}
    assert helpers.finish(helpers.start(NAMED, library, folder=tmp_path, env=named)) == "connector\n"
    assert (tmp_path / "a.h5.d").is_dir()
    plain = tmp_path / "plain"
    plain.mkdir()
    # HDF5 2.x ends on an unknown connector; 1.14 continues without it.
    for other, ends in [({}, False), ({"HDF5_VOL_CONNECTOR": "native"}, False), ({"HDF5_VOL_CONNECTOR": "our"}, None)]:
        process = helpers.start(NAMED, library, folder=plain, env=env | other)
        out, err = process.communicate(timeout=120)
        assert out.split() in ([], ["none"])
        assert not (plain / "a.h5.d").exists()
        assert ends is None or (process.returncode != 0) == ends, err


def test_plugin_that_waits_for_the_name_is_no_filter(tmp_path: Path) -> None:
    code = """
    import h5py
    assert h5py.h5z.filter_avail(31300)
    assert not h5py.h5z.filter_avail(31301)
    """
    for env in (filters(), hyperchunk.plugins.environment()):
        helpers.finish(helpers.start(code, folder=tmp_path, env=env))
