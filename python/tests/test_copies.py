"""Live datasets in other tools: displays and copies are live datasets or their values, never wrong values."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import netCDF4
import numpy as np
import pytest
from fresh import environment, run_python
from hostile import records
from programs import elementwise
from stored_records import record_of

X = np.arange(60.0).reshape(3, 20)


def need(*tools: str) -> None:
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (hdf5-tools, netcdf-bin, nco, cdo)")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in words], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def both(file: Path, name: str) -> np.ndarray:
    """Returns the values, the same in both readers."""
    with h5py.File(file) as opened:
        values: np.ndarray = opened[name][...]
    with hyperchunk.open(file) as opened:
        np.testing.assert_array_equal(opened[name][...], values)
    return values


def without_the_plugin(file: Path, name: str) -> np.ndarray:
    code = "import sys, h5py, numpy; numpy.save(sys.argv[3], h5py.File(sys.argv[1])[sys.argv[2]][...])"
    result = file.with_suffix(".npy")
    run_python(code, file, name, result, HDF5_PLUGIN_PATH="")
    return np.load(result)


@pytest.fixture
def file(scene: Any, attach: Any) -> Path:
    """A dataset, and one computed from it in three chunks."""
    path: Path = scene(x=X)
    attach(path, "lua", elementwise("lua", "a[i] * 2", "y", ["x"]), chunks="1x20")
    return path


@pytest.fixture
def netcdf(tmp_path: Path, attach: Any) -> Path:
    """The same in a netCDF file."""
    path = tmp_path / "n.nc"
    with netCDF4.Dataset(path, "w") as made:
        made.createDimension("time", None)
        made.createDimension("lon", 20)
        made.createVariable("x", "f8", ("time", "lon"))[:] = X
    attach(path, "lua", elementwise("lua", "a[i] * 2", "y", ["x"]), chunks="1x20")
    return path


def test_a_live_dataset_shows_nothing_but_itself(file: Path) -> None:
    """Tools neither print nor compare the record."""
    with h5py.File(file) as opened:
        assert dict(opened["y"].attrs) == {}
        assert b"source_code" in record_of(opened["y"])
    need("h5dump", "h5diff")
    shown = run("h5dump", "-p", "-d", "/y", file).stdout
    assert "ATTRIBUTE" not in shown
    assert "source_code" not in shown
    other = file.with_name("other.h5")
    with h5py.File(other, "w") as made:
        made["x"], made["y"] = X, X * 2
    run("h5diff", "-v", file, other)


def test_h5repack(file: Path) -> None:
    """Without options everything is copied in its stored form; with options, the tool writes the values."""
    need("h5repack")
    for words, live in (([], True), (["-f", "x:GZIP=1"], False), (["-f", "GZIP=1"], False), (["-l", "CONTI"], False)):
        copy = file.with_name("copy.h5")
        copy.unlink(missing_ok=True)
        run("h5repack", *words, file, copy)
        np.testing.assert_array_equal(both(copy, "y"), X * 2)
        assert [d.path for d in hyperchunk.udf.ls(copy)] == (["/y"] if live else [])
        if live:
            continue
        np.testing.assert_array_equal(without_the_plugin(copy, "y"), X * 2)
        with h5py.File(copy, "r+") as opened:
            opened["x"][...] = 0
            opened["y"][0, :3] = 7
        np.testing.assert_array_equal(both(copy, "y")[0, :5], [7, 7, 7, 6, 8])


def test_programs_that_copy_netcdf_files(netcdf: Path) -> None:
    copies: dict[str, tuple[str, ...]] = {
        "nccopy": ("nccopy",),
        "nccopy without filters": ("nccopy", "-F", "none"),
        "nccopy deflated": ("nccopy", "-d1"),
        "ncks": ("ncks", "-O", "-v", "y"),
        "cdo": ("cdo", "-s", "-O", "copy"),
    }
    need("nccopy", "ncks", "cdo", "ncdiff")
    for words in copies.values():
        copy = netcdf.with_name("copy.nc")
        copy.unlink(missing_ok=True)
        run(*words, netcdf, copy)
        np.testing.assert_array_equal(both(copy, "y"), X * 2)
        np.testing.assert_array_equal(without_the_plugin(copy, "y"), X * 2)
    run("ncdiff", "-O", netcdf, copy, netcdf.with_name("difference.nc"))
    assert not both(netcdf.with_name("difference.nc"), "y").any()


def test_h5copy(file: Path) -> None:
    """H5Ocopy copies stored chunks, and so the record."""
    need("h5copy")
    other = file.with_name("other.h5")
    with h5py.File(other, "w") as made:
        made["x"] = X + 1
    run("h5copy", "-i", file, "-o", other, "-s", "/y", "-d", "/y")
    with h5py.File(file) as source, h5py.File(other, "r+") as made:
        source.copy("y", made, "z")
    np.testing.assert_array_equal(both(other, "y"), (X + 1) * 2)
    np.testing.assert_array_equal(both(other, "z"), (X + 1) * 2)


def copied(file: Path, chunks: Callable[[int], bool]) -> None:
    """Simulates a program that copies some chunks in their stored form."""
    with h5py.File(file) as source, h5py.File(file.with_name("copy.h5"), "w") as made:
        made["x"] = source["x"][...]
        old = source["y"].id
        new = h5py.h5d.create(made.id, b"y", old.get_type(), old.get_space(), old.get_create_plist())
        for n in filter(chunks, range(old.get_num_chunks())):
            where = old.get_chunk_info(n).chunk_offset
            new.write_direct_chunk(where, old.read_direct_chunk(where)[1])


def test_stored_chunks_make_a_live_dataset(file: Path) -> None:
    copied(file, lambda n: True)
    copy = file.with_name("copy.h5")
    np.testing.assert_array_equal(both(copy, "y"), X * 2)
    with h5py.File(copy, "r+") as opened, pytest.raises(OSError, match="cannot be written"):
        opened["y"][0] = 1


def test_stored_chunks_without_the_first_are_an_error(file: Path) -> None:
    copied(file, lambda n: n > 0)
    copy = file.with_name("copy.h5")
    with h5py.File(copy) as opened, pytest.raises(OSError, match="no record"):
        opened["y"][1]
    with hyperchunk.open(copy) as opened, pytest.raises(hyperchunk.HyperchunkError):
        opened["y"][1]


def test_a_copy_of_values_beside_its_source(file: Path) -> None:
    """Both have the same id; one is computed."""
    with h5py.File(file) as source, h5py.File(file.with_name("copy.h5"), "w") as made:
        old = source["y"].id
        new = h5py.h5d.create(made.id, b"y", old.get_type(), old.get_space(), old.get_create_plist())
        new.write(h5py.h5s.ALL, h5py.h5s.ALL, source["y"][...] + 1)
        np.testing.assert_array_equal(source["y"][...], X * 2)
        np.testing.assert_array_equal(made["y"][...], X * 2 + 1)
    np.testing.assert_array_equal(both(file.with_name("copy.h5"), "y"), X * 2 + 1)


def test_files_of_before(file: Path) -> None:
    """In files of earlier versions the record is in an attribute; `rebuild` moves it."""
    with h5py.File(file, "r+") as opened:
        record = record_of(opened["y"])
        live = opened["y"].id
        identity = live.read_direct_chunk((0, 0))[1][8:24]
        for row in range(3):
            live.write_direct_chunk((row, 0), records.stub(identity, record, (row, 0)))
        records.store_record(opened["y"], record)
    np.testing.assert_array_equal(both(file, "y"), X * 2)
    hyperchunk.udf.rebuild(file, "/y")
    with h5py.File(file) as opened:
        assert dict(opened["y"].attrs) == {}
    np.testing.assert_array_equal(both(file, "y"), X * 2)


def test_a_dataset_that_begins_empty_has_an_attribute(tmp_path: Path, attach: Any, command: Any) -> None:
    """An initially empty dataset has no first chunk, so the record is in an attribute; the same holds where HDF5
    cannot store the size of a large chunk.
    """
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as made:
        made.create_dataset("a", (0, 4), maxshape=(None, 4), chunks=(1, 4), dtype="f8")
    attach(file, "lua", elementwise("lua", "a[i] + 1", inputs=["a"]), chunks="auto", maxshape="inputs")
    with h5py.File(file, "r+") as opened:
        assert list(opened["out"].attrs) == ["hyperchunk_udf"]
        opened["a"].resize((2, 4))
        opened["a"][...] = 1
    assert command("udf", "extend", file).returncode == 0
    assert both(file, "out").tolist() == [[2] * 4] * 2
