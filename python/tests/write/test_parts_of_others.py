"""Region references, virtual datasets and copies: objects that refer to parts of others."""

import errno
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest

VALUES = np.arange(60, dtype="<i4").reshape(6, 10)


# --- Region references ---

REGIONS = [
    np.s_[...],
    np.s_[2:4, 1:9:2],
    np.s_[3],
    np.s_[:, [1, 2, 5]],
    np.s_[0:0, :],
]


def test_region_references(new: Any, library: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with library.File(path, "w") as file:
        data = file.create_dataset("g/d", data=VALUES)
        regions = [data.regionref[args] for args in REGIONS]
        file.create_dataset("refs", data=regions, dtype=library.regionref_dtype)
        file["g"].attrs["ref"] = data.regionref[1:3, 4]
        pair = np.dtype([("n", "i4"), ("r", library.regionref_dtype)])
        file.create_dataset("pairs", (3,), pair)[1] = (7, regions[1])
        assert data.regionref.shape(regions[1]) == VALUES.shape
        assert data.regionref.selection(regions[1]) == (2, 4)
        found = file["refs"][:]
        assert np.array_equal(data[found[1]].ravel(), VALUES[REGIONS[1]].ravel())
    for reader in (h5py, hyperchunk):
        with reader.File(path, "r") as file:
            refs = file["refs"][:]
            for args, ref in zip(REGIONS, refs, strict=True):
                assert file[ref].name == "/g/d"
                assert np.array_equal(np.ravel(file["g/d"][ref]), VALUES[args].ravel())
            assert np.array_equal(np.ravel(file["g/d"][file["g"].attrs["ref"]]), VALUES[1:3, 4])
            pairs = file["pairs"][:]
            assert not pairs["r"][0]
            assert np.array_equal(np.ravel(file["g/d"][pairs["r"][1]]), VALUES[REGIONS[1]].ravel())


# --- Virtual datasets ---


def make_sources(folder: Path) -> None:
    for number in range(4):
        with h5py.File(folder / f"{number}.h5", "w") as file:
            file.create_dataset("data", data=np.arange(10, dtype="<i4") + 100 * number, maxshape=(None,))


def test_virtual_datasets(library: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_sources(tmp_path)
    monkeypatch.chdir(tmp_path)
    layout = library.VirtualLayout((5, 10), "<i4")
    for number in range(4):
        layout[number] = library.VirtualSource(f"{number}.h5", "data", (10,))
    with library.File("v.h5", "w") as file:
        file["own"] = np.arange(20, dtype="<i4")
        made = file.create_virtual_dataset("deep/v", layout, fillvalue=-5)
        assert made.is_virtual
        with file.build_virtual_dataset("own-v", (2, 5), "<i4") as second:
            second[0] = library.VirtualSource(file["own"])[2:12:2]
            second[1] = library.VirtualSource("v.h5", "own", (20,))[15:]
        lists = library.VirtualLayout((3,), ">f8")
        lists[:] = library.VirtualSource("1.h5", "data", 10)[[1, 4, 7]]
        file.create_virtual_dataset("lists", lists)
        # Only the third file of the series exists.
        growing = library.VirtualLayout((1, 10), "<i4", maxshape=(None, 10))
        growing[: h5py.h5s.UNLIMITED, :] = library.VirtualSource("%b.h5", "data", (10,))
        file.create_virtual_dataset("growing", growing)
    (tmp_path / "v.h5").rename(tmp_path / "renamed.h5")
    expected = np.concatenate([np.arange(10) + 100 * np.arange(4)[:, None], np.full((1, 10), -5)])
    for reader in (h5py, hyperchunk):
        with reader.File("renamed.h5", "r") as file:
            assert np.array_equal(file["deep/v"][...], expected)
            assert file["deep/v"].fillvalue == -5
            assert [(one.file_name, one.dset_name) for one in file["deep/v"].virtual_sources()] == [
                (f"{number}.h5", "data") for number in range(4)
            ]
            assert np.array_equal(file["own-v"][...], [[2, 4, 6, 8, 10], [15, 16, 17, 18, 19]])
            assert {one.file_name for one in file["own-v"].virtual_sources()} == {"."}
            assert np.array_equal(file["lists"][...], [101, 104, 107])
            assert file["growing"].shape == (4, 10)
            assert np.array_equal(file["growing"][...], expected[:4])


def test_virtual_layouts_that_make_no_sense(new: Any) -> None:
    with pytest.raises(TypeError):
        hyperchunk.VirtualSource("a.h5", "x")
    with pytest.raises(TypeError):
        hyperchunk.VirtualSource(new.file.create_dataset("d", (3,)), name="d")
    source = hyperchunk.VirtualSource("a.h5", "x", (10,))
    with pytest.raises(RuntimeError):
        source[1:3][0]
    assert source[2:8:3].shape == (2,)
    layout = hyperchunk.VirtualLayout((5,), "i4")
    with pytest.raises(ValueError):
        layout[:] = source
    layout[:] = source[::2]
    with pytest.raises(ValueError):
        new.file.create_virtual_dataset("v", hyperchunk.VirtualLayout((5,), "i4", filename="other.h5"))
    assert "v" not in new.file


# --- Copies ---


def make_tree(library: ModuleType, file: Any) -> None:
    group = file.create_group("g", track_order=True)
    for name in ("z", "a"):
        group[name] = VALUES
        group[name].attrs["n"] = [1, 2]
    deflated = file.create_dataset(
        "g/sub/deflated", data=VALUES, chunks=(4, 4), compression=4, shuffle=True, maxshape=(None, 10)
    )
    deflated.attrs["text"] = "größer"
    deflated.attrs["texts"] = ["a", "bc"]
    file["g/sub/again"] = deflated
    file["g/sub/texts"] = ["x", "", "größer"]
    file["g/empty"] = library.Empty("f4")
    file["g/scalar"] = 5
    file["g/type"] = np.dtype([("a", "i2"), ("b", "S3")])
    file["g/partial"] = 1.5
    file.create_dataset("g/unwritten", (100, 100), ">f4", chunks=(10, 10), fillvalue=7)[20:30] = 1
    rows = file.create_dataset("g/rows", (2,), library.vlen_dtype(np.dtype("<i2")))
    rows[0] = [1, 2, 3]
    refs = file.create_dataset("g/refs", (3,), library.ref_dtype)
    refs[1] = group.ref
    file["g"].attrs["ref"] = deflated.ref
    file["g/soft"] = library.SoftLink("/g/a")
    file["g/dangling"] = library.SoftLink("nowhere")
    file["g/external"] = library.ExternalLink("other.h5", "/x")


def same(ours: Any, theirs: Any, *, refs: bool) -> None:
    """Compares two objects, both read by h5py."""
    assert type(ours) is type(theirs)
    assert list(ours.attrs) == list(theirs.attrs)
    for name in ours.attrs:
        if name == "ref":
            assert bool(ours.attrs[name]) == refs
            continue
        assert ours.attrs.get_id(name).get_type() == theirs.attrs.get_id(name).get_type()
        assert np.array_equal(ours.attrs[name], theirs.attrs[name])
    if isinstance(ours, h5py.Dataset):
        assert (ours.shape, ours.maxshape, ours.chunks) == (theirs.shape, theirs.maxshape, theirs.chunks)
        assert ours.id.get_type() == theirs.id.get_type()
        if ours.chunks:
            assert ours.id.get_num_chunks() == theirs.id.get_num_chunks()
        if h5py.check_ref_dtype(ours.dtype):
            # libhdf5 makes them null in the same file, too.
            assert [bool(ref) for ref in ours[:]] == [False, refs, False]
        elif ours.shape is not None:
            assert repr(ours[()].tolist()) == repr(theirs[()].tolist())
    elif isinstance(ours, h5py.Group):
        assert list(ours) == list(theirs)
        for name in ours:
            one, two = ours.get(name, getlink=True), theirs.get(name, getlink=True)
            assert type(one) is type(two)
            if isinstance(one, h5py.HardLink):
                same(ours[name], theirs[name], refs=refs)
            else:
                assert one.path == two.path


@pytest.mark.parametrize("elsewhere", [False, True])
def test_copies_are_as_those_of_h5py(tmp_path: Path, elsewhere: bool) -> None:
    paths = [tmp_path / "ours.h5", tmp_path / "theirs.h5"]
    for library, path in zip((hyperchunk, h5py), paths, strict=True):
        if elsewhere:
            source = tmp_path / f"source-of-{path.name}"
            with library.File(source, "w") as file:
                make_tree(library, file)
            with library.File(source, "r") as other, library.File(path, "w") as file:
                other.copy("g", file, "copy")
                file.copy(other["g/sub/deflated"], "one")
                file.copy(other["g"], file, "shallow", shallow=True)
                file.copy(other["g"], file, "soft", expand_soft=True, without_attrs=True)
        else:
            with library.File(path, "w") as file:
                make_tree(library, file)
                file.copy("g", "copy")
                file.copy("g/sub/deflated", file["g"])
                file.copy(file["g"], file, "shallow", shallow=True)
                file.copy(file["g"], file, "soft", expand_soft=True, without_attrs=True)
                file["g"].copy("a", "inside")
                file.copy("g", "g/below")
    with h5py.File(paths[0]) as ours, h5py.File(paths[1]) as theirs:
        assert list(ours) == list(theirs)
        for name in ours:
            same(ours[name], theirs[name], refs=not elsewhere)
        assert ours["copy/sub/again"] == ours["copy/sub/deflated"]
        assert ours["copy/sub/deflated"] != (ours["one"] if elsewhere else ours["g/sub/deflated"])


def test_copies_of_what_lies_in_other_files(new: Any, tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(VALUES.tobytes())
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file.create_dataset("e", VALUES.shape, VALUES.dtype, external=[(str(tmp_path / "raw.bin"), 0, VALUES.nbytes)])
        layout = h5py.VirtualLayout((6,), "<i4")
        layout[:] = h5py.VirtualSource(str(tmp_path / "source.h5"), "e", VALUES.shape)[:, 3]
        file.create_virtual_dataset("v", layout, fillvalue=3)
        file["r"] = VALUES
        file.create_dataset("refs", data=[file["r"].regionref[1:2]], dtype=h5py.regionref_dtype)
    with hyperchunk.File(tmp_path / "source.h5") as source:
        for name in ("e", "v", "refs"):
            new.file.copy(source[name], new.file)
        with pytest.raises(TypeError):
            source.copy("e", "f")
    with pytest.raises(ValueError):
        new.file.copy("e", "v")
    with pytest.raises(hyperchunk.exceptions.UnsupportedError):
        new.file.copy("e", "f", expand_refs=True)
    with new.h5py() as file:
        assert np.array_equal(file["e"][...], VALUES)
        assert np.array_equal(file["v"][...], VALUES[:, 3])
        assert file["v"].fillvalue == 3
        assert not file["refs"][0]


def names(path: Path) -> list[str]:
    found: list[str] = []
    with h5py.File(path) as file:
        file.visit(found.append)
    return found


@pytest.mark.parametrize("mode", ["w", "r+"])
def test_copy_of_a_group_into_itself(tmp_path: Path, mode: str) -> None:
    """The copy has the earlier members, neither itself nor the groups on the way to it."""
    found = []
    for library in (h5py, hyperchunk):
        path = tmp_path / f"{library.__name__}.h5"
        with h5py.File(path, "w") as file:
            file["g/y"] = np.arange(3)
            file["g/deep/z"] = np.arange(4)
        if mode == "w":
            path.unlink()
        with library.File(path, mode) as file:
            if mode == "w":
                file["g/y"] = np.arange(3)
                file["g/deep/z"] = np.arange(4)
            file.copy("g", "g/sub")
            file.copy("g", "g/h/k")
            file.copy("g", "g/deep/k")
            file.copy("/", "g/root")
            file.copy("g", "g/shallow", shallow=True)
        found.append(names(path))
        with h5py.File(path) as file:
            assert file["g/root/g/deep/k/h/k/deep/z"][:].tolist() == [0, 1, 2, 3]
    assert found[0] == found[1]


def test_references_of_h5py_s_dtypes(new: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.File(path, "w") as file:
        file["x"] = np.arange(5)
        file.create_dataset("regions", (1,), h5py.regionref_dtype)[0] = file["x"].regionref[1:3]
        file.create_dataset("objects", (1,), h5py.ref_dtype)[0] = file["x"].ref
        file.attrs.create("region", file["x"].regionref[:2], dtype=h5py.regionref_dtype)
        pair = np.dtype([("n", "i4"), ("r", h5py.regionref_dtype)])
        file.create_dataset("pairs", (2,), pair)[1] = (7, file["x"].regionref[1:3])
    with h5py.File(path) as file:
        assert file["x"][file["regions"][0]].tolist() == [1, 2] == file["x"][file["pairs"]["r"][1]].tolist()
        assert file[file["objects"][0]] == file["x"]
        assert file["x"][file.attrs["region"]].tolist() == [0, 1]


def test_values_and_indices_of_h5py_s_classes(new: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hyperchunk.File(path, "w") as file:
        file["x"] = np.arange(10)
        file["set"] = h5py.Empty("i4")
        file.create_dataset("made", data=h5py.Empty("f4"))
        file.attrs["nothing"] = h5py.Empty("i2")
        blocks = h5py.MultiBlockSlice(start=1, stride=4, count=2, block=2)
        assert file["x"][blocks].tolist() == [1, 2, 5, 6]
        with pytest.raises(TypeError, match=r"expected a hyperchunk\.VirtualLayout"):
            file.create_virtual_dataset("v", h5py.VirtualLayout((5,), "i8"))
        with pytest.raises(OverflowError, match=r"below 2\*\*64"):
            file.create_dataset("huge", (2**64,), "i4")
    with h5py.File(path) as file:
        assert (file["set"].dtype, file["made"].dtype) == ("i4", "f4")
        assert file["set"].shape is None is file["made"].shape
        assert file.attrs["nothing"] == h5py.Empty("i2")


@pytest.mark.parametrize("mode", ["r+", "a"])
def test_edit_of_a_folder(tmp_path: Path, mode: str) -> None:
    with pytest.raises(IsADirectoryError, match="it is a folder") as caught:
        hyperchunk.open(tmp_path, mode)
    assert caught.value.errno == errno.EISDIR


def test_copies_of_scalars(tmp_path: Path) -> None:
    values = {
        "sequence": (h5py.vlen_dtype("i4"), [1, 2]),
        "text": (h5py.string_dtype(), "größer"),
        "array": (np.dtype(("i4", (3,))), [1, 2, 3]),
        "compound": (np.dtype([("a", "i2"), ("b", h5py.string_dtype())]), (1, "x")),
    }
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, (kind, value) in values.items():
            made = file.create_dataset(name, (), kind)
            made[()] = np.array(value, kind) if name == "compound" else value
    with hyperchunk.open(tmp_path / "a.h5") as source, hyperchunk.open(tmp_path / "b.h5", "w") as target:
        for name in values:
            target.copy(source[name], name)
    with h5py.File(tmp_path / "a.h5") as one, h5py.File(tmp_path / "b.h5") as other:
        for name in values:
            assert other[name].dtype == one[name].dtype
            np.testing.assert_array_equal(other[name][()], one[name][()])


@pytest.mark.parametrize("mode", ["w", "r+"])
def test_the_root_group_is_not_moved(tmp_path: Path, mode: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["A/x"] = 1
    with hyperchunk.open(tmp_path / "a.h5", mode) as file:
        file.require_group("A")
        with pytest.raises(ValueError, match="cannot move the root group"):
            file.move("/", "A/b/c")
        assert "b" not in file["A"]
