"""Sharded stores through the connector: unmodified programs, one and several at once; plain h5py reads the result."""

import json
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from redo_journals import interrupt

from vol import helpers


def write(code: str, folder: Path, **options: object) -> str:
    """Runs an h5py program whose new files are stores."""
    return helpers.run(
        f"import h5py, json, os, numpy as np\n{helpers.dedent(code)}", folder=folder, store=True, **options
    )


def names(folder: Path) -> list[str]:
    """Returns the suffixes of the files of a store."""
    return sorted(path.suffix for path in folder.iterdir())


def test_one_process(tmp_path: Path) -> None:
    told = write(
        """
        with h5py.File("a.h5", "w") as file:
            x = file.create_dataset("x", (10, 20), ">i4", fillvalue=-1)
            x[...] = np.arange(200).reshape(10, 20)
            x[2:4, 3:5] = 7
            x[[1, 3, 5]] = np.full((3, 20), -2)
            x[::2, 1] = np.arange(5)
            mask = np.zeros((10, 20), bool)
            mask[3, 4] = mask[9, 19] = True
            x[mask] = 99
            filters = {"compression": "gzip", "shuffle": True}
            c = file.create_dataset("g/c", (100,), "f8", chunks=(10,), maxshape=(None,), **filters)
            c[5:50] = 1.5
            c.resize((120,))
            c[110:] = 2
            told = [file.filename, file.driver, file.mode, c.chunks, c.compression, c.shuffle, c.maxshape, c.shape]
            print(json.dumps([*told, c.id.get_num_chunks(), x.fillvalue.item()]))
            np.save("x.npy", x[...])
            assert (x[::3, ::5] == x[...][::3, ::5]).all()
        """,
        tmp_path,
    )
    expected = ["a.h5", "sec2", "r+", [10], "gzip", True, [None], [120], 6, -1]
    assert json.loads(told) == expected
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["x"], np.load(tmp_path / "x.npy"))
        c = np.zeros(120)
        c[5:50], c[110:] = 1.5, 2
        np.testing.assert_array_equal(file["g/c"], c)
    assert names(tmp_path / "a.h5.d") == [".log", ".manifest"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "a.h5.d", "config", "x.npy"]


RANK = """
import h5py, sys, numpy as np
rank, size = int(sys.argv[1]), 4
with h5py.File("run.h5", "w") as file:
    slab = file.create_dataset("slab", (4000,), "f4")
    columns = file.create_dataset("columns", (50, 40), ">i4")
    strided = file.create_dataset("strided", (400,), "i8", fillvalue=-1)
    packed = file.create_dataset("packed", (80, 8), "i2", chunks=(10, 8), compression="gzip")
    slab[rank * 1000 : (rank + 1) * 1000] = np.arange(1000, dtype="f8") + rank
    columns[:, rank * 10 : (rank + 1) * 10] = np.full((50, 10), rank, "i8")
    strided[rank::size] = np.arange(100) * size + rank
    packed[rank * 20 : (rank + 1) * 20] = rank + 1
    file.attrs[f"rank {rank}"] = rank
    file.attrs["all"] = "the same"
    file.create_group(f"group {rank}")["text"] = f"of {rank}"
"""


def test_four_processes_write_one_file(tmp_path: Path) -> None:
    env = hyperchunk.plugins.environment(store=True, writers=4, session="test")
    ranks = [helpers.start(RANK, rank, folder=tmp_path, env=env) for rank in range(4)]
    for rank in ranks:
        helpers.finish(rank)
    assert names(tmp_path / "run.h5.d") == [".log"] * 4 + [".manifest"]
    with h5py.File(tmp_path / "run.h5") as file:
        np.testing.assert_array_equal(file["slab"], np.concatenate([np.arange(1000) + rank for rank in range(4)]))
        np.testing.assert_array_equal(file["columns"], np.repeat(np.arange(4), 10)[None].repeat(50, 0))
        np.testing.assert_array_equal(file["strided"], np.arange(400))
        assert file["columns"].dtype == ">i4"
        assert {key: file.attrs[key] for key in file.attrs} == {f"rank {r}": r for r in range(4)} | {"all": "the same"}
        assert [file[f"group {rank}/text"][()] for rank in range(4)] == [f"of {rank}".encode() for rank in range(4)]
    packed = np.repeat(np.arange(1, 5), 20)[:, None].repeat(8, 1)
    read = write('np.save("packed.npy", h5py.File("run.h5")["packed"][...])', tmp_path)
    assert read == ""
    np.testing.assert_array_equal(np.load(tmp_path / "packed.npy"), packed)


@pytest.mark.parametrize("before", ["closes", "flushes"])
def test_a_pool_fills_what_its_parent_made(tmp_path: Path, before: str) -> None:
    write(
        f"""
        import multiprocessing

        def fill(part):
            with h5py.File("a.h5", "a") as file:
                file["x"][part * 10 : (part + 1) * 10] = part

        file = h5py.File("a.h5", "w")
        file.create_dataset("x", (40,), "i4")
        file.{"close" if before == "closes" else "flush"}()
        with multiprocessing.get_context("fork").Pool(4) as pool:
            pool.map(fill, range(4), chunksize=1)
        file.close()
        """,
        tmp_path,
    )
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["x"], np.repeat(np.arange(4), 10))


def test_a_forked_child_does_not_write_to_its_parents_log(tmp_path: Path) -> None:
    write(
        """
        file = h5py.File("a.h5", "w")
        x = file.create_dataset("x", (8,), "i4")
        x[:4] = 1
        if (child := os.fork()) == 0:
            try:
                x[4:] = 2
            except OSError as error:
                os._exit(3 if "belongs to process" in str(error) else 4)
            os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        x[6:] = 3
        file.close()
        """,
        tmp_path,
    )
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [1, 1, 1, 1, 0, 0, 3, 3]


def test_what_a_smaller_extent_cut_off_is_gone(tmp_path: Path) -> None:
    code = """
    with h5py.File("a.h5", "w") as file:
        x = file.create_dataset("x", (6, 2), "i4", maxshape=(None, 2), chunks=(4, 2), fillvalue=9)
        x[...] = 7
        x.resize((3, 2))
        x.resize((6, 2))
        x[5] = 1
        print(x[:, 0].tolist())
    with h5py.File("a.h5", "r+") as file:
        x = file["x"]
        print(x[:, 0].tolist())
        x.resize((2, 2))
        x.resize((4, 2))
        print(x[:, 0].tolist())
    with h5py.File("a.h5") as file:
        print(file["x"].shape, file["x"][:, 0].tolist())
    """
    told = write(code, tmp_path).splitlines()
    (tmp_path / "native").mkdir()
    native = helpers.run("import h5py" + helpers.dedent(code), folder=tmp_path / "native", native=True)
    assert told == native.splitlines()
    assert told[0] == "[7, 7, 7, 9, 9, 1]"


def test_copies_are_datasets_of_their_own(tmp_path: Path) -> None:
    told = write(
        """
        plain = h5py.File("plain.h5", "w", userblock_size=512)  # such a file stays an ordinary one
        with h5py.File("b.h5", "w") as other, h5py.File("a.h5", "w") as file:
            x = file.create_dataset("g/x", (6,), "i4", chunks=(2,), compression="gzip", maxshape=(None,))
            x[:4] = 1
            x.attrs["unit"] = "m"
            x.attrs["list"] = np.array([b"a", b"bc"])
            x.attrs["text"] = ["one", "two"]
            file["g/y"] = np.arange(3)
            file["g/again"] = file["g/y"]
            file.copy("g", file["/"], "copy")
            file.copy("g", other)
            file.copy("g/x", plain)
            x[0] = 5
            file["copy/x"][1] = 6
            other["g/x"][2] = 7
            assert file["copy/y"] == file["copy/again"]
            print(json.dumps([d[...].tolist() for d in [x, file["copy/x"], other["g/x"], plain["x"]]]))
            print(dict(file["copy/x"].attrs)["unit"], *plain["x"].attrs["text"], file["copy/x"].compression)
        plain.close()
        """,
        tmp_path,
    ).splitlines()
    expected = [[5, 1, 1, 1, 0, 0], [1, 6, 1, 1, 0, 0], [1, 1, 7, 1, 0, 0], [1, 1, 1, 1, 0, 0]]
    assert json.loads(told[0]) == expected
    assert told[1] == "m one two gzip"
    assert not (tmp_path / "plain.h5.d").exists()
    places = ["a.h5", "g/x"], ["a.h5", "copy/x"], ["b.h5", "g/x"], ["plain.h5", "x"]
    for (name, path), values in zip(places, expected, strict=True):
        with h5py.File(tmp_path / name) as file:
            assert file[path][...].tolist() == values
            assert file[path].attrs["list"].tolist() == [b"a", b"bc"]


def test_virtual_datasets_over_what_is_not_committed_fail(tmp_path: Path) -> None:
    told = write(
        """
        source = h5py.File("source.h5", "w")
        source["x"] = np.arange(4)
        layout = h5py.VirtualLayout((4,), "i8")
        layout[:] = h5py.VirtualSource("source.h5", "x", (4,))
        with h5py.File("virtual.h5", "w") as file:
            file.create_virtual_dataset("v", layout, fillvalue=-1)
        with h5py.File("virtual.h5") as file:
            try:
                print(file["v"][...])
            except OSError as error:
                print("not committed" in str(error))
        source.close()
        with h5py.File("virtual.h5") as file:
            print(file["v"][...].tolist())
        """,
        tmp_path,
    )
    assert told.splitlines() == ["True", "[0, 1, 2, 3]"]


def test_data_of_others_that_nobody_has_committed(tmp_path: Path) -> None:
    first = helpers.start(
        """
        import h5py, sys
        file = h5py.File("a.h5", "w")
        x = file.create_dataset("x", (6,), "i4")
        x[:2] = 1
        file.flush()
        print("flushed", flush=True)
        sys.stdin.readline()
        file.close()
        """,
        folder=tmp_path,
        env=hyperchunk.plugins.environment(store=True),
    )
    assert first.stdout is not None
    assert first.stdin is not None
    first.stdout.readline()
    # Read-only: an error. For writing: the flushed data are present.
    told = write(
        """
        try:
            h5py.File("a.h5")
        except OSError as error:
            print("not committed yet: 1 writers" in str(error))
        with h5py.File("a.h5", "a") as file:
            file["x"][4:] = 2
            print(file["x"][...].tolist())
        """,
        tmp_path,
    )
    assert told.splitlines() == ["True", "[1, 1, 0, 0, 2, 2]"]
    first.stdin.write("\n")
    helpers.finish(first)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [1, 1, 0, 0, 2, 2]


def test_references_survive_the_commit(tmp_path: Path) -> None:
    write(
        """
        with h5py.File("a.h5", "w") as file:
            x = file.create_dataset("deep/x", (4, 5), "i4")
            x[...] = 3
            file["object"] = x.ref
            file.attrs["region"] = x.regionref[1:3, 2:4]
            file.create_dataset("list", (2,), h5py.ref_dtype)[:] = [x.ref, file["deep"].ref]
            for index, name in enumerate(["a", "b"]):
                file[name] = np.arange(4 + index)
                file[name].make_scale(name)
                x.dims[index].attach_scale(file[name])
        """,
        tmp_path,
    )
    with h5py.File(tmp_path / "a.h5") as file:
        assert file[file["object"][()]] == file["deep/x"]
        assert file[file["list"][1]] == file["deep"]
        region = file.attrs["region"]
        assert file["deep/x"][region].shape == (2, 2)
        assert [scale.name for dim in file["deep/x"].dims for scale in dim.values()] == ["/a", "/b"]


def test_a_file_begun_anew(tmp_path: Path) -> None:
    told = write(
        """
        for n in range(3):
            with h5py.File("a.h5", "w") as file:
                file["x"] = np.full(4, n)
                file[f"only {n}"] = n
        with h5py.File("a.h5") as file:
            print(sorted(file), file["x"][...].tolist())
        with h5py.File("a.h5", "a") as file:
            file["x"][1] = 9
        for mode in ["w-", "x"]:
            try:
                h5py.File("a.h5", mode)
            except FileExistsError:
                print(mode)
        """,
        tmp_path,
    )
    assert told.splitlines() == ["['only 2', 'x'] [2, 2, 2, 2]", "w-", "x"]
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [2, 9, 2, 2]
    old = 'file = h5py.File("a.h5"); print(sorted(file), file["x"][...].tolist())'
    assert write(old, tmp_path, epoch=1).strip() == "['only 0', 'x'] [0, 0, 0, 0]"
    assert write(old, tmp_path, epoch=3).strip() == "['only 2', 'x'] [2, 2, 2, 2]"


def test_fields_of_compounds_are_written_one_by_one(tmp_path: Path) -> None:
    write(
        """
        with h5py.File("a.h5", "w") as file:
            x = file.create_dataset("x", (3,), [("a", "i4"), ("b", "f8")])
            x["a"] = [1, 2, 3]
            x["b"] = 0.5
            x[1, "a"] = 7
            assert x["a"].tolist() == [1, 7, 3]
        """,
        tmp_path,
    )
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [(1, 0.5), (7, 0.5), (3, 0.5)]


def test_what_plain_hdf5_cannot_read_fails_there(tmp_path: Path) -> None:
    told = write(
        """
        import zlib
        with h5py.File("a.h5", "w") as file:
            x = file.create_dataset("x", (4,), "i4", chunks=(4,), compression="gzip")
            x.id.write_direct_chunk((0,), zlib.compress(np.arange(4, dtype="i4").tobytes()))
            print(x[...].tolist(), x.id.get_num_chunks(), x.id.read_direct_chunk((0,))[0])
        with h5py.File("a.h5") as file:
            print(file["x"][1:].tolist())
        """,
        tmp_path,
    )
    assert told.splitlines() == ["[0, 1, 2, 3] 1 0", "[1, 2, 3]"]
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        with pytest.raises(OSError, match="external"):
            file["x"][...]
        with pytest.raises(OSError, match="external"):
            file["x"][...] = 1


def test_a_file_without_its_folder_is_refused(tmp_path: Path) -> None:
    write('h5py.File("a.h5", "w")["x"] = np.arange(4)', tmp_path)
    (tmp_path / "b.h5").write_bytes((tmp_path / "a.h5").read_bytes())
    told = write(
        """
        try:
            h5py.File("b.h5")["x"]
        except KeyError as error:
            print("without its folder" in str(error))
        """,
        tmp_path,
    )
    assert told.strip() == "True"


def test_links_to_other_files(tmp_path: Path) -> None:
    told = write(
        """
        with h5py.File("b.h5", "w") as other:
            other["x"] = np.arange(3)
            other.create_group("g")
        with h5py.File("a.h5", "w") as file:
            file["link"] = h5py.ExternalLink("b.h5", "/x")
            file["group"] = h5py.ExternalLink("b.h5", "/g")
            print(file["link"][...].tolist(), os.path.basename(file["link"].file.filename))
            file["group"].attrs["kept"] = 1
            try:
                file["link"][0] = 5
            except OSError as error:
                print("for reading only" in str(error))
        with h5py.File("b.h5") as other:
            print(dict(other["g"].attrs), other["x"][...].tolist())
        """,
        tmp_path,
    )
    assert told.splitlines() == ["[0, 1, 2] b.h5", "True", "{'kept': np.int64(1)} [0, 1, 2]"]


def test_ordinary_files_stay_ordinary(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(4)
    write('h5py.File("a.h5", "r+")["x"][1] = 7', tmp_path)
    assert not (tmp_path / "a.h5.d").exists()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [0, 7, 2, 3]


def test_commits_by_hand(tmp_path: Path) -> None:
    write('h5py.File("a.h5", "w")["x"] = np.arange(4)', tmp_path, commit="manual")
    assert names(tmp_path / "a.h5.d") == [".log"]
    with h5py.File(tmp_path / "a.h5") as file:
        assert list(file) == []


def test_filters_are_applied_at_once_if_that_is_asked_for(tmp_path: Path) -> None:
    code = """
    with h5py.File("a.h5", "w") as file:
        x = file.create_dataset("x", (10, 9), "f8", chunks=(4, 3), scaleoffset=1, fillvalue=2)
        x[:8] = np.arange(72).reshape(8, 9) + 0.123
        x[8:, 3:] = 7
        x[9, 0] = 1
        print([x.id.get_chunk_info(n).chunk_offset for n in range(x.id.get_num_chunks())])
    with h5py.File("a.h5") as file:
        print(file["x"][...].tolist())
    """
    told = write(code, tmp_path, codec="filters").splitlines()
    (tmp_path / "native").mkdir()
    program = f"import h5py, numpy as np\n{helpers.dedent(code)}"
    native = helpers.run(program, folder=tmp_path / "native", native=True).splitlines()
    assert told == native


def test_a_process_that_ends_without_closing(tmp_path: Path) -> None:
    write(
        """
        file = h5py.File("a.h5", "w")
        x = file.create_dataset("x", (4,), "i4")
        x[:] = 3
        """,
        tmp_path,
    )
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [3, 3, 3, 3]


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    code = """
    import h5py, os
    file = h5py.File("a.h5", "w")
    x = file.create_dataset("x", (4,), "i4")
    x[:2] = 3
    file.flush()
    x[2:] = 4
    os.kill(os.getpid(), 9)
    """
    process = helpers.start(code, folder=tmp_path, env=hyperchunk.plugins.environment(store=True))
    process.communicate()
    told = write(
        """
        for mode in ("r", "a"):
            with h5py.File("a.h5", mode) as file:
                print(file["x"][...].tolist())
        """,
        tmp_path,
    )
    assert told.splitlines() == ["[3, 3, 0, 0]"] * 2


NETCDF = """
import netCDF4, numpy as np
with netCDF4.Dataset("a.nc", "w") as file:
    file.createDimension("time", None)
    file.createDimension("x", 5)
    x = file.createVariable("x", "f8", ("x",))
    x[:] = np.linspace(0, 1, 5)
    x.units = "m"
    t = file.createVariable("group/t", "f4", ("time", "x"), zlib=True, fill_value=-9)
    for step in range(3):
        t[step] = np.arange(5) + step
    t.setncattr("long name", "temperature")
with netCDF4.Dataset("a.nc", "a") as file:
    file["group/t"][3, 1:3] = [50, 60]
with netCDF4.Dataset("a.nc") as file:
    file.set_auto_mask(False)
    print(file["group/t"][:].tolist(), file["x"].units, file["group/t"].dimensions)
"""


def test_netcdf4(tmp_path: Path) -> None:
    (tmp_path / "native").mkdir()
    told = helpers.run(NETCDF, folder=tmp_path, store=True)
    assert told == helpers.run(NETCDF, folder=tmp_path / "native", native=True)
    assert names(tmp_path / "a.nc.d") == [".log", ".log", ".manifest", ".manifest"]
    read = 'import netCDF4; print(netCDF4.Dataset("a.nc")["x"][:].tolist())'
    assert helpers.run(read, folder=tmp_path, native=True) == helpers.run(read, folder=tmp_path / "native", native=True)


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_xarray(tmp_path: Path, engine: str) -> None:
    code = f"""
    import numpy as np, xarray
    data = xarray.Dataset(
        {{"t": (("y", "x"), np.arange(12.0).reshape(3, 4), {{"units": "K"}}), "n": ((), 5)}},
        coords={{"x": np.arange(4), "y": ["a", "b", "c"]}},
        attrs={{"title": "test"}},
    )
    data.to_netcdf("a.nc", engine="{engine}", encoding={{"t": {{"zlib": True, "chunksizes": (2, 2)}}}})
    with xarray.open_dataset("a.nc", engine="{engine}") as read:
        xarray.testing.assert_identical(read.load(), data)
        print(read.t.encoding["chunksizes"])
    """
    assert helpers.run(code, folder=tmp_path, store=True).strip() == "(2, 2)"
    assert (tmp_path / "a.nc.d").is_dir()


def test_a_store_is_not_created_beside_the_journal_of_a_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["c"] = np.zeros(1000)
    before = path.read_bytes()
    with hyperchunk.open(path, "r+") as file:
        file["c"][:] = 1
    interrupt(path, before, path.read_bytes())
    path.unlink()
    write(
        """
        try:
            h5py.File("a.h5", "w")
        except OSError as error:
            assert "move it beside that file" in str(error), error
        else:
            raise AssertionError
        """,
        tmp_path,
    )
    assert not path.exists()
    path.with_name("a.h5.redo").unlink()
