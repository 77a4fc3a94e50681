"""Files, groups, links, attributes and dimension scales, each read by h5py."""

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import h5py
import hyperchunk
import numpy as np
import pytest

# --- Files ---


def test_modes(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.open(path, "x") as file:
        file["d"] = 1
        assert file.mode == "r+"
        assert file.filename == str(path)
    for mode in ("x", "w-"):
        with pytest.raises(OSError, match="exists"):
            hyperchunk.open(path, mode)
    with hyperchunk.create(path, libver="latest") as file:
        file["e"] = 2
    with hyperchunk.open(path) as file:
        assert list(file) == ["e"]
    for mode in ("a", "r+"):
        with hyperchunk.open(path, mode) as file:
            file[mode] = 3
    with hyperchunk.open(path) as file:
        assert sorted(file) == ["a", "e", "r+"]
    with pytest.raises(FileNotFoundError):
        hyperchunk.open(tmp_path / "missing.h5", "r+")
    with hyperchunk.open(tmp_path / "made.h5", "a") as file:
        assert list(file) == []


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    path.write_text("what was there before")
    file = hyperchunk.File(path, "w")
    file["d"] = np.arange(5)
    assert path.read_text() == "what was there before"
    file.flush()
    with h5py.File(path) as other:
        assert other["d"][:].tolist() == [0, 1, 2, 3, 4]
    file["e"] = 5
    file["d"][0] = 9
    file.flush()
    with h5py.File(path) as other:
        assert other["e"][()] == 5
        assert other["d"][0] == 9
    file.close()
    file.close()
    assert sorted(name.name for name in tmp_path.iterdir() if name.suffix != "") == ["a.h5"]


def test_what_is_closed_is_closed(library: ModuleType, tmp_path: Path) -> None:
    file = library.File(tmp_path / "a.h5", "w")
    dataset = file.create_dataset("d", (5,), "i4")
    group = file.create_group("g")
    file.close()
    assert not file
    assert not dataset
    assert repr(dataset) == "<Closed HDF5 dataset>"
    with pytest.raises(ValueError):
        dataset[0] = 1
    with pytest.raises(ValueError):
        group.create_group("h")
    with pytest.raises((ValueError, RuntimeError)):
        group.attrs["a"] = 1


@pytest.mark.parametrize("end", ["del file", "sys.exit(0)", "pass", "raise SystemExit(3)"])
def test_what_is_forgotten_is_committed(tmp_path: Path, end: str) -> None:
    source = (
        "import hyperchunk, os, sys\n"
        f"file = hyperchunk.File({str(tmp_path / 'a.h5')!r}, 'w')\n"
        "file['d'] = 5\n"
        "if os.fork() == 0:\n    sys.exit(0)\n"
        "os.wait()\n"
        f"assert not os.path.exists({str(tmp_path / 'a.h5')!r})\n"
        f"{end}\n"
    )
    subprocess.run([sys.executable, "-c", source], check=end != "raise SystemExit(3)", env=dict(os.environ))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["d"][()] == 5


def test_an_error_within_commits_what_was_written(library: ModuleType, tmp_path: Path) -> None:
    def fail() -> None:
        with library.File(tmp_path / "a.h5", "w") as file:
            file["d"] = 5
            file["missing"]

    with pytest.raises(KeyError):
        fail()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["d"][()] == 5


def test_file_like_objects_and_memory(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with hyperchunk.File(buffer, "w") as file:
        file.create_dataset("d", data=np.arange(100), compression=1)
    with h5py.File(buffer) as file:
        assert file["d"][:].sum() == 4950
    with hyperchunk.File("name", "w", driver="core") as file:
        file["d"] = 5
        file.flush()
        data = file.getbuffer()
    assert hyperchunk.File.from_bytes(data)["d"][()] == 5
    with hyperchunk.File.in_memory() as file:
        file["d"] = [1, 2]
        assert file["d"][:].tolist() == [1, 2]


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for options in [{"sync": "never"}, {"sync": "write"}, {"threads": 1}, {"journal": False}, {"alignment": 4096}]:
        with hyperchunk.File(path, "w", **options) as file:
            file.create_dataset("d", data=np.arange(10_000), chunks=(1000,), compression=1)
        with h5py.File(path) as file:
            assert file["d"][:].sum() == 49_995_000
            assert all(
                file["d"].id.get_chunk_info(at).byte_offset % options.get("alignment", 1) == 0 for at in range(10)
            )
    for options in [{"libver": "v1"}, {"sync": "sometimes"}, {"layout": "sky"}]:
        with pytest.raises(ValueError):
            hyperchunk.File(path, "w", **options)
    with pytest.raises(TypeError):
        hyperchunk.File(path, "w", nonsense=5)
    with hyperchunk.File(path, "w", userblock_size=512) as file:
        file["d"] = np.arange(10)
    with h5py.File(path) as file:
        assert file.userblock_size == 512
        assert list(file["d"]) == list(range(10))
    with pytest.raises(ValueError):
        hyperchunk.File(path, "w", userblock_size=1000)
    with pytest.raises(TypeError, match="pickled"), hyperchunk.File(path, "w") as file:
        pickle.dumps(file)


@pytest.mark.parametrize(("libver", "superblock"), [(None, 2), ("v108", 2), ("v110", 3), ("v200", 3), ("latest", 3)])
def test_superblocks(tmp_path: Path, libver: str | None, superblock: int) -> None:
    with hyperchunk.File(tmp_path / "a.h5", "w", libver=libver) as file:
        file["d"] = 5
    assert (tmp_path / "a.h5").read_bytes()[8] == superblock


def test_a_file_for_object_stores(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.File(path, "w", layout="cloud", page_size=1 << 18) as file:
        for number in range(50):
            file.create_dataset(f"g{number}/d", data=np.arange(1000), chunks=(100,), compression=1)
    with h5py.File(path) as file:
        for number in range(50):
            assert file[f"g{number}/d"][:].sum() == 499_500
            assert h5py.h5o.get_info(file[f"g{number}/d"].id).addr < 1 << 18


# --- Groups and links ---


def test_groups(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("a/b/c")
        assert group.name == "/a/b/c"
        assert file.require_group("a/b") == file["a"]["b"]
        file["a"].create_group("/d")
        file["a/b"].create_group("größer")
        group["x/y"] = 5
        anonymous = file.create_group(None)
        assert anonymous.name is None
        anonymous["inside"] = 7
        file["named"] = anonymous
        assert sorted(file) == ["a", "d", "named"]
        assert "a/b/c/x/y" in file
        assert "a/b/q" not in file
        assert file.get("q") is None
        assert file.get("a", getclass=True) == library.Group
        assert len(file["a/b"]) == 2
        assert isinstance(file["a"], library.Group)
        assert group.file == file
        assert group.parent == file["a/b"]
        with pytest.raises((ValueError, TypeError)):
            file.create_group("a")
        with pytest.raises(KeyError):
            file["nothing"]
        with pytest.raises((ValueError, KeyError)):
            file.create_group("a/b/c/x/y/z")
        with pytest.raises(TypeError):
            file.require_group("a/b/c/x/y")
        found: list[str] = []
        file.visit(found.append)
    with h5py.File(tmp_path / "a.h5") as file:
        again: list[str] = []
        file.visit(again.append)
        assert found == again
        assert again == ["a", "a/b", "a/b/c", "a/b/c/x", "a/b/c/x/y", "a/b/größer", "d", "named", "named/inside"]
        assert file["named/inside"][()] == 7


def test_links(library: ModuleType, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["there"] = 42
    with library.File(tmp_path / "a.h5", "w") as file:
        file["g/d"] = [1, 2]
        file["soft"] = library.SoftLink("/g/d")
        file["dangling"] = library.SoftLink("/nowhere")
        file["external"] = library.ExternalLink("other.h5", "/there")
        file["hard"] = file["g/d"]
        file["loop"] = file["/"]
        assert file["soft"] == file["g/d"]
        assert file["hard"] == file["g/d"]
        assert file["loop/loop/g/d"] == file["g/d"]
        assert file["external"][()] == 42
        assert "dangling" in file
        with pytest.raises(KeyError):
            file["dangling"]
        assert isinstance(file.get("soft", getlink=True), library.SoftLink)
        assert file.get("external", getlink=True).filename == "other.h5"
        assert file.get("hard", getclass=True, getlink=True) is library.HardLink
        del file["g/d"]
        assert "g/d" not in file
        with pytest.raises(KeyError):
            del file["g/d"]
        file.move("hard", "g/moved")
        assert file["g/moved"][:].tolist() == [1, 2]
        with pytest.raises((ValueError, OSError, RuntimeError)):
            file["g"] = file["g/moved"]
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.get("soft", getlink=True).path == "/g/d"
        assert file["external"][()] == 42
        assert file["g/moved"][:].tolist() == [1, 2]
        assert file["loop"] == file["/"]
        assert h5py.h5o.get_info(file.id).rc == 2


@pytest.mark.parametrize("count", [0, 1, 8, 9, 100, 3000])
@pytest.mark.parametrize("track_order", [False, True])
def test_many_links_and_attributes(library: ModuleType, tmp_path: Path, count: int, track_order: bool) -> None:
    if library is h5py and count > 100:
        pytest.skip("a control of this is slow")
    names = [f"name {(7919 * number) % 100_003}" for number in range(count)]
    with library.File(tmp_path / "a.h5", "w", track_order=track_order) as file:
        group = file.create_group("g", track_order=track_order)
        for number, name in enumerate(names):
            group[name] = library.SoftLink("/x")
            if number < 1000:
                group.attrs[name] = number
        expected = names if track_order else sorted(names)
        assert list(group) == expected
        assert len(group) == count
        if track_order or count <= 8:
            assert list(group.attrs) == [name for name in expected if name in names[:1000]]
    with h5py.File(tmp_path / "a.h5") as file:
        group = file["g"]
        assert list(group) == expected
        assert len(group.attrs) == min(count, 1000)
        for number, name in enumerate(names[:1000]):
            assert group.attrs[name] == number
            assert group.get(name, getlink=True).path == "/x"


def test_items_of_groups(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        file.update({"a": 1, "b": [1, 2]})
        file.setdefault("c", 5)
        assert {name: type(item).__name__ for name, item in file.items()} == dict.fromkeys("abc", "Dataset") or (
            library is hyperchunk
        )
        assert [item.shape for item in file.values()] == [(), (2,), ()]
        file.clear()
        assert list(file) == []


def test_required_datasets(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        dataset = file.require_dataset("d", (5,), "i4")
        assert file.require_dataset("d", (5,), "i4") == dataset
        assert file.require_dataset("d", (5,), "i2") == dataset
        for arguments in [((6,), "i4"), ((5,), "f8")]:
            with pytest.raises(TypeError):
                file.require_dataset("d", *arguments)
        with pytest.raises(TypeError):
            file.require_dataset("d", (5,), "i2", exact=True)


def test_what_is_of_another_file(tmp_path: Path) -> None:
    with hyperchunk.File(tmp_path / "a.h5", "w") as one, hyperchunk.File(tmp_path / "b.h5", "w") as two:
        one["d"] = 5
        with pytest.raises(ValueError, match="another file"):
            two["d"] = one["d"]


REFUSED = {
    "soft link": lambda file: file.__setitem__("a/b/c", hyperchunk.SoftLink("")),
    "external link": lambda file: file.__setitem__("a/b/c", hyperchunk.ExternalLink("", "/x")),
    "committed type": lambda file: file.__setitem__("a/b/c", np.dtype("O")),
    "name of a group": lambda file: file.create_group("a/b/" + 70000 * "c"),
    "name above": lambda file: file.create_group("a/" + 70000 * "b" + "/c"),
    "chunks": lambda file: file.create_dataset("a/b/c", (3,), "i4", chunks=(5,)),
    "filter": lambda file: file.create_dataset("a/b/c", (3,), "i4", compression="nope"),
    "option": lambda file: file.create_dataset("a/b/c", (3,), "i4", nope=1),
    "values": lambda file: file.create_dataset("a/b/c", (2,), "i4", data=["x", "y"]),
    "fill value": lambda file: file.create_dataset("a/b/c", (2,), "i4", fillvalue="x"),
    "virtual": lambda file: file.create_virtual_dataset("a/b/c", hyperchunk.VirtualLayout((4, 4), "i4", maxshape=5)),
    "copy": lambda file: file.copy("odd", "a/b/c"),
    "below a dataset": lambda file: file.create_group("d/b/c"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_creation_leaves_no_groups(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["d"], file["there/d"] = 1, 2
        # A copy fails at its second member, as that is of a class that nothing can copy.
        file["odd/a"] = 1
        h5py.h5d.create(file["odd"].id, b"b", h5py.h5t.UNIX_D32LE, h5py.h5s.create(h5py.h5s.SCALAR))
    with hyperchunk.open(path, "r+") as file:
        with pytest.raises((TypeError, ValueError, RuntimeError, OSError)):
            REFUSED[what](file)
        assert sorted(file) == ["d", "odd", "there"]
    with h5py.File(path) as file:
        assert sorted(file) == ["d", "odd", "there"]


def test_refused_creation_keeps_what_was_there(tmp_path: Path) -> None:
    with hyperchunk.File(tmp_path / "a.h5", "w") as file:
        file.create_group("there")
        with pytest.raises(ValueError, match="Chunk shape"):
            file.create_dataset("there/new/d", (3,), "i4", chunks=(5,))
        assert list(file["there"]) == []
        with pytest.raises(ValueError, match="already exists"):
            file.copy("there", "there")
        assert list(file) == ["there"]


# --- Attributes ---


def test_attributes(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        attrs = file.create_dataset("d", (3,), "i4").attrs
        attrs["a"] = 5
        attrs["a"] = "now text"
        attrs["gone"] = 1
        del attrs["gone"]
        attrs.create("shaped", np.arange(6), shape=(2, 3), dtype=">i2")
        attrs.create("zeros", np.zeros(3), dtype="f4")
        attrs["modified"] = np.arange(3, dtype="i8")
        attrs.modify("modified", [4, 5, 6])
        attrs.modify("fresh", 2.5)
        attrs["größer"] = ["ä", "ö"]
        attrs.update({"x": 1, "y": 2})
        assert attrs.pop("y") == 2
        assert attrs.setdefault("z", 3) == 3
        assert "gone" not in attrs
        assert attrs["a"] == "now text"
        assert sorted(attrs) == ["a", "fresh", "größer", "modified", "shaped", "x", "z", "zeros"]
        with pytest.raises(KeyError):
            attrs["gone"]
        with pytest.raises(KeyError):
            del attrs["gone"]
        with pytest.raises((TypeError, ValueError)):
            attrs.modify("modified", [1, 2])
    with h5py.File(tmp_path / "a.h5") as file:
        attrs = file["d"].attrs
        assert attrs["a"] == "now text"
        assert attrs["shaped"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert attrs["shaped"].dtype == ">i2"
        assert attrs["modified"].tolist() == [4, 5, 6]
        assert attrs["modified"].dtype == "i8"
        assert attrs["größer"].tolist() == ["ä", "ö"]
        assert len(attrs) == 8


@pytest.mark.parametrize("size", [1000, 65_000, 66_000, 500_000])
def test_large_attributes(tmp_path: Path, size: int) -> None:
    values = np.arange(size // 4, dtype="<i4")
    with hyperchunk.File(tmp_path / "a.h5", "w") as file:
        file.attrs["large"] = values
        file.attrs["small"] = 5
        assert np.array_equal(file.attrs["large"], values)
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file.attrs["large"], values)
        assert file.attrs["small"] == 5


# --- Dimension scales ---


def test_dimension_scales(library: ModuleType, tmp_path: Path) -> None:
    with library.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("d", (3, 4), "f4")
        file["lat"], file["lon"] = np.arange(3.0), np.arange(4.0)
        file["more"], file["gone"] = np.arange(3.0), np.arange(3.0)
        file["lat"].make_scale("latitude")
        for name in ("lat", "more", "gone", "lat"):
            dataset.dims[0].attach_scale(file[name])
        dataset.dims[1].attach_scale(file["lon"])
        dataset.dims[0].detach_scale(file["gone"])
        dataset.dims[0].label = "y"
        dataset.dims[1].label = "x"
        assert [dim.label for dim in dataset.dims] == ["y", "x"]
        assert dataset.dims[0]["latitude"] == file["lat"]
        assert len(dataset.dims[0]) == 2
        assert file["lat"].is_scale
        assert not dataset.is_scale
    with h5py.File(tmp_path / "a.h5") as file:
        dims = file["d"].dims
        assert [dim.label for dim in dims] == ["y", "x"]
        assert dims[0].keys() == ["latitude", ""]
        assert dims[0][0] == file["lat"]
        assert dims[0][1] == file["more"]
        assert dims[1][0] == file["lon"]
        assert file["lat"].attrs["REFERENCE_LIST"].shape == (1 if library is hyperchunk else 2,)
        assert h5py.h5ds.is_attached(file["d"].id, file["lon"].id, 1)
        assert not h5py.h5ds.is_attached(file["d"].id, file["gone"].id, 0)


@pytest.mark.needs_hdf5_tools
def test_scales_are_stored_as_h5py_stores_them(tmp_path: Path) -> None:
    for library in (hyperchunk, h5py):
        with library.File(tmp_path / f"{library.__name__}.h5", "w") as file:
            dataset = file.create_dataset("d", (3,), "f4")
            file["x"] = np.arange(3.0)
            file["x"].make_scale("x")
            dataset.dims[0].attach_scale(file["x"])
            dataset.dims[0].label = "along"
    with h5py.File(tmp_path / "hyperchunk.h5") as ours, h5py.File(tmp_path / "h5py.h5") as theirs:
        for name in ("d", "x"):
            assert sorted(ours[name].attrs) == sorted(theirs[name].attrs)
            for key in ours[name].attrs:
                types = [file[name].attrs.get_id(key).get_type() for file in (ours, theirs)]
                assert types[0] == types[1], key


def test_netcdf4_reads_it(tmp_path: Path) -> None:
    netcdf4 = pytest.importorskip("netCDF4")
    path = tmp_path / "a.nc"
    with hyperchunk.File(path, "w", track_order=True) as file:
        file["y"], file["x"] = np.arange(3.0), np.arange(4.0)
        for name in ("y", "x"):
            file[name].make_scale(name)
        data = file.create_dataset("data", data=np.arange(12.0).reshape(3, 4), compression=4, track_order=True)
        for at, name in enumerate(("y", "x")):
            data.dims[at].attach_scale(file[name])
        data.attrs["units"] = "K"
        data.attrs["_FillValue"] = np.array([-1.0])
        file.attrs["title"] = "written by hyperchunk"
    with netcdf4.Dataset(path) as dataset:
        assert dataset.title == "written by hyperchunk"
        assert dataset["data"].dimensions == ("y", "x")
        assert dataset["data"].units == "K"
        assert np.array_equal(dataset["data"][:], np.arange(12.0).reshape(3, 4))
        assert dataset["x"][:].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dest", ["g/x", "/g/x", "g/sub/x", "alias/x", "soft/x", "/soft/sub/y/z"])
def test_a_group_is_not_moved_into_itself(tmp_path: Path, dest: str) -> None:
    """libhdf5 moves it, and it is lost."""
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["g/sub/data"] = np.arange(4)
        made["alias"] = made["g"]
        made["soft"] = h5py.SoftLink("/g")
    with hyperchunk.open(tmp_path / "a.h5", "r+") as file:
        with pytest.raises(hyperchunk.exceptions.InvalidError, match="inside of the group"):
            file.move("g", dest)
        with pytest.raises(hyperchunk.exceptions.InvalidError, match="inside of the group"):
            file["g/sub"].move("/g", "x")
        file.move("g", "other")
        file.move("other/sub", "sub")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["sub/data"][...].tolist() == [0, 1, 2, 3]
        assert sorted(file) == ["alias", "other", "soft", "sub"]


def test_a_group_is_not_moved_into_itself_by_h5pys_low_level(tmp_path: Path) -> None:
    from hyperchunk import h5py as module

    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["g/sub/data"] = 1
    with module.File(tmp_path / "a.h5", "r+") as file:
        for place, name in ((file["g/sub"].id, b"x"), (file.id, b"g/x")):
            with pytest.raises(ValueError, match="inside of the group"):
                file.id.links.move(b"g", place, name)
        file.id.links.move(b"g", file.id, b"h")
        assert list(file) == ["h"]
