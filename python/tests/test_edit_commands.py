"""Commands that edit files: attributes, links, groups, copies, and packing in place. h5py reads the results."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import _core
from programs import elementwise

STRING = h5py.string_dtype()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.h5", "w") as made:
        made.attrs["title"] = "Größe"
        made["bands/red"] = np.arange(12.0).reshape(3, 4)
        made["bands/red"].attrs["units"] = "K"
        made["bands/red"].attrs["table"] = np.arange(6, dtype="<i2").reshape(2, 3)
        made.create_dataset("frames", data=np.arange(1000).reshape(10, 100), chunks=(3, 40), compression="gzip")
        made["soft"] = h5py.SoftLink("/bands/red")
        made["hard"] = made["frames"]
    return "a.h5"


def run(*words: object, out: Any = None) -> str:
    """Runs a command that should succeed; returns what it prints."""
    assert _core.run_command(["hyperchunk", *map(str, words)]) == 0
    return str(out.readouterr().out) if out is not None else ""


@pytest.fixture
def fails(capfd: pytest.CaptureFixture[str]) -> Any:
    """Returns a function that checks that a command fails and leaves a file as it is; it returns the message."""

    def check(*words: object, file: str = "a.h5") -> str:
        before = Path(file).read_bytes() if Path(file).exists() else None
        names = sorted(Path().iterdir())
        capfd.readouterr()
        assert _core.run_command(["hyperchunk", *map(str, words)]) == 1
        said = capfd.readouterr()
        assert said.out == ""
        assert said.err.startswith("hyperchunk: ")
        assert (Path(file).read_bytes() if Path(file).exists() else None) == before
        assert sorted(Path().iterdir()) == names
        return said.err

    return check


# --- Attributes ---


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("5", None, np.int64(5)),
        ("-5", None, np.int64(-5)),
        ("2.5", None, np.float64(2.5)),
        ("18446744073709551615", None, np.uint64(2**64 - 1)),
        ("true", None, np.bool_(True)),
        ("[1, 2, 3]", None, np.arange(1, 4)),
        ("[[1, 2.5], [3, 4]]", "float", np.array([[1, 2.5], [3, 4]], "f4")),
        ("300", "int16", np.int16(300)),
        ("1e3", "int32", np.int32(1000)),
        ("inf", "double", np.float64("inf")),
        ("0.1", "float16", np.float16(0.1)),
    ],
)
def test_attribute_types(file: str, text: str, kind: str | None, expected: Any) -> None:
    run("attr", "set", file, "/bands/red", "x", text, *(["--type", kind] if kind else []))
    with h5py.File(file) as read:
        value = read["bands/red"].attrs["x"]
        assert np.asarray(value).dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("text", ["m s-1", "größer\nzweite Zeile", "", '"5"', "5 K", "-x"])
def test_attribute_texts(file: str, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    run("attr", "set", file, "/", "x", text)
    with h5py.File(file) as read:
        assert read.attrs["x"] == text.strip('"')
        assert h5py.check_string_dtype(read.attrs.get_id("x").dtype).encoding == "utf-8"
    capfd.readouterr()
    run("attr", "get", file, "/", "x")
    assert capfd.readouterr().out == text.strip('"') + "\n"


def test_attribute_of_fixed_text(file: str) -> None:
    run("attr", "set", file, "/", "x", '["ab", "größe"]', "--type", "string(8)")
    with h5py.File(file) as read:
        assert read.attrs.get_id("x").dtype == np.dtype("S8")
        assert [text.decode() for text in read.attrs["x"]] == ["ab", "größe"]


def test_attributes_are_listed_and_removed(file: str, capfd: pytest.CaptureFixture[str], fails: Any) -> None:
    run("attr", "ls", file, "/bands/red")
    assert capfd.readouterr().out == 'table: (2, 3) int16 = [0, 1, 2, 3, 4, 5]\nunits: scalar string = "K"\n'
    listed = json.loads(run("attr", "ls", file, "/bands/red", "--json", out=capfd))
    assert listed["table"] == {"type": "int16", "shape": [2, 3], "value": [[0, 1, 2], [3, 4, 5]]}
    assert run("attr", "get", file, "/bands/red", "table", out=capfd) == "[[0, 1, 2], [3, 4, 5]]\n"
    assert json.loads(run("attr", "get", file, "/", "title", "--json", out=capfd))["value"] == "Größe"
    assert "did you mean `units`?" in fails("attr", "get", file, "/bands/red", "unit")
    assert "did you mean `units`?" in fails("attr", "rm", file, "/bands/red", "table", "unit")
    run("attr", "rm", file, "/bands/red", "table", "units")
    with h5py.File(file) as read:
        assert not read["bands/red"].attrs
    assert "the object has none" in fails("attr", "rm", file, "/bands/red", "table")


def test_existing_attribute_is_replaced_on_request(file: str, fails: Any) -> None:
    assert "--overwrite replaces it" in fails("attr", "set", file, "/", "title", "new")
    run("attr", "set", file, "/", "title", "7", "--overwrite")
    with h5py.File(file) as read:
        assert read.attrs["title"] == 7


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("300", "int8", "-128 to 127"),
        ("1.5", "int32", "expected int32"),
        ("x", "double", "expected a number"),
        ("2", "bool", "true or false"),
        ("[1, [2]]", None, "same number"),
        ("[1", None, "not a JSON array"),
        ('{"a": 1}', None, "expected a number, text or an array"),
        ("toolong", "string(3)", "7 bytes"),
        ("[1, 18446744073709551615, -1]", None, "would lose digits as a double; `--type double` rounds it"),
        ("36893488147419103233", None, "would lose digits as a double"),
    ],
)
def test_wrong_attribute_values(file: str, text: str, kind: str | None, why: str, fails: Any) -> None:
    assert why in fails("attr", "set", file, "/", "x", text, *(["--type", kind] if kind else []))


# --- Links and groups ---


def test_moves(file: str, fails: Any) -> None:
    run("mv", file, "/bands/red", "/rot")
    run("mv", file, "/frames", "/archive/2026/", "-p")
    with h5py.File(file) as read:
        assert read["rot"].attrs["units"] == "K"
        assert read["archive/2026/frames"].id.get_offset() is None
        assert read["archive/2026/frames"] == read["hard"]
        assert list(read["bands"]) == []
        assert isinstance(read.get("soft", getlink=True), h5py.SoftLink)
    run("mv", file, "/soft", "/bands/")
    with h5py.File(file) as read:
        assert read["bands"].get("soft", getlink=True).path == "/bands/red"
    assert "inside of it" in fails("mv", file, "/archive", "/archive/2026/x")
    assert "/hard exists; --overwrite replaces it" in fails("mv", file, "/rot", "/hard")
    assert "did you mean `rot`?" in fails("mv", file, "/rott", "/x")
    assert "no link `nowhere`" in fails("mv", file, "/rot", "/nowhere/x")
    assert "inside of the object to be replaced" in fails("mv", file, "/archive/2026", "/archive", "--overwrite")
    assert "root group" in fails("mv", file, "/", "/x")
    run("mv", file, "/rot", "/hard", "--overwrite")
    with h5py.File(file) as read:
        assert read["hard"].attrs["units"] == "K"
        assert "rot" not in read
        assert read["archive/2026/frames"].shape == (10, 100)


def test_removals(file: str, fails: Any) -> None:
    assert "--recursive" in fails("rm", file, "/frames", "/bands")
    assert "did you mean `frames`?" in fails("rm", file, "/bands/red", "/Framse")
    run("rm", file, "/soft", "/frames")
    with h5py.File(file) as read:
        assert sorted(read) == ["bands", "hard"]
    run("rm", "-r", file, "/bands", "/hard")
    with h5py.File(file) as read:
        assert list(read) == []
        assert read.attrs["title"] == "Größe"


def test_groups_are_made(file: str, fails: Any) -> None:
    assert "no link `x`" in fails("mkdir", file, "/x/y")
    assert "/bands exists" in fails("mkdir", file, "/new", "/bands")
    assert "/bands/red exists" in fails("mkdir", "-p", file, "/bands/red")
    assert "not a group" in fails("mkdir", "-p", file, "/bands/red/x")
    for path in ("", "/", "."):
        assert "got that of the root group, which exists" in fails("mkdir", file, path)
    run("mkdir", "-p", file, "/x/y/z", "/bands")
    run("mkdir", file, "/x/y/w")
    with h5py.File(file) as read:
        assert sorted(read["x/y"]) == ["w", "z"]


def test_links_are_made(file: str, fails: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with h5py.File("other.h5", "w") as other:
        other["deep/x"] = [1, 2, 3]
    run("ln", file, "/bands/red", "/red")
    run("ln", "-s", file, "/red", "/latest")
    run("ln", "-e", file, "other.h5:/deep/x", "/links/", "-p")
    with h5py.File(file) as read:
        assert read["red"] == read["bands/red"]
        assert read.get("latest", getlink=True).path == "/red"
        link = read.get("links/x", getlink=True)
        assert (link.filename, link.path) == ("other.h5", "/deep/x")
        assert list(read["links/x"]) == [1, 2, 3]
    capfd.readouterr()
    run("ln", "-s", file, "/later", "/dangling")
    assert "nothing is at /later yet" in capfd.readouterr().err
    assert "no link `later`" in fails("ln", file, "/later", "/x")
    assert "expected OTHER-FILE:/PATH" in fails("ln", "-e", file, "other.h5", "/x")
    assert "/red exists" in fails("ln", file, "/frames", "/red")
    run("ln", file, "/frames", "/red", "--overwrite")
    with h5py.File(file) as read:
        assert read["red"] == read["frames"]


def test_only_local_files_are_edited(fails: Any) -> None:
    assert "expected a local file, got a URL" in fails("rm", "s3://bucket/a.h5", "/x")
    assert "no" in fails("mkdir", "missing.h5", "/x")


# --- Copies ---


def same(one: Any, other: Any) -> None:
    """Checks that two objects of h5py's are the same, with everything below them."""
    assert type(one) is type(other)
    assert set(one.attrs) == set(other.attrs)
    for name in one.attrs:
        dtype = one.attrs.get_id(name).dtype
        if not dtype.hasobject or h5py.check_string_dtype(dtype):
            np.testing.assert_array_equal(one.attrs[name], other.attrs[name])
    if isinstance(one, h5py.Group):
        assert list(one) == list(other)
        for name in one:
            link = one.get(name, getlink=True)
            assert type(other.get(name, getlink=True)) is type(link)
            if isinstance(link, h5py.HardLink):
                same(one[name], other[name])
    elif isinstance(one, h5py.Dataset):
        assert (one.dtype, one.shape, one.maxshape, one.chunks) == (
            other.dtype,
            other.shape,
            other.maxshape,
            other.chunks,
        )
        assert one._filters == other._filters
        if h5py.check_ref_dtype(one.dtype) is None:
            np.testing.assert_array_equal(one[()], other[()])


@pytest.fixture
def rich(file: str) -> str:
    with h5py.File("rich.h5", "w", track_order=True) as made:
        group = made.create_group("g", track_order=True)
        group["x"] = np.arange(5.0)
        group["x"].make_scale("x")
        group.create_dataset(
            "data", data=np.arange(50.0).reshape(10, 5), chunks=(4, 2), compression="gzip", shuffle=True
        )
        group["data"].dims[1].attach_scale(group["x"])
        group.create_dataset("text", data=["a", "bb", ""], dtype=STRING, chunks=(2,), maxshape=(None,))
        group["type"] = np.dtype([("a", "i4"), ("b", "f8")])
        group.create_dataset("typed", (3,), group["type"])
        group["self"] = group["data"]
        group["soft"] = h5py.SoftLink("/g/data")
        made["outside"] = [1]
        group.create_dataset("references", data=[group["x"].ref, made["outside"].ref], dtype=h5py.ref_dtype)
        group.create_dataset("regions", data=[group["data"].regionref[1:3, 2:]], dtype=h5py.regionref_dtype)
        group.attrs["reference"] = group["x"].ref
        group.attrs.create("texts", ["ä", "b"], dtype=STRING)
    return "rich.h5"


def test_copy_to_another_file(file: str, rich: str, capfd: pytest.CaptureFixture[str]) -> None:
    report = json.loads(run("cp", f"{rich}:/g", f"{file}:/copies/g", "-p", "--json", out=capfd))
    assert (report["datasets"], report["groups"], report["datatypes"]) == (6, 1, 1)
    assert report["chunks_copied"] == 9
    assert report["null_references"] == 1
    with h5py.File(rich) as old, h5py.File(file) as new:
        same(old["g"], new["copies/g"])
        copy = new["copies/g"]
        assert copy["self"] == copy["data"]
        assert copy["typed"].id.get_type().committed()
        assert new[copy.attrs["reference"]].name == "/copies/g/x"
        inside, outside = copy["references"][()]
        assert new[inside] == copy["x"]
        assert not outside
        region = copy["regions"][0]
        np.testing.assert_array_equal(new[region][region], old["g/data"][1:3, 2:])
        assert copy["data"].dims[1][0] == copy["x"]
        for number in range(copy["data"].id.get_num_chunks()):
            info = copy["data"].id.get_chunk_info(number)
            assert copy["data"].id.read_direct_chunk(info.chunk_offset) == old["g/data"].id.read_direct_chunk(
                info.chunk_offset
            )


def test_copy_has_the_references_of_libhdf5s(file: str, rich: str) -> None:
    """A tree without references out of it: h5py's copy with expanded references."""
    with h5py.File(rich, "r+") as made:
        del made["g/references"]
    with h5py.File(rich) as old, h5py.File("expanded.h5", "w") as new:
        old.copy("g", new, "g", expand_refs=True)
    run("cp", f"{rich}:/g", "ours.h5:/g")
    with h5py.File("expanded.h5") as theirs, h5py.File("ours.h5") as ours:
        same(theirs["g"], ours["g"])
        for found in (theirs, ours):
            assert found[found["g"].attrs["reference"]] == found["g/x"]


def test_copy_within_a_file(rich: str) -> None:
    run("cp", f"{rich}:/g", f"{rich}:/g/inner")
    with h5py.File(rich) as read:
        copy = read["g/inner"]
        assert sorted(copy) == sorted(set(read["g"]) - {"inner"})
        inside, outside = copy["references"][()]
        assert read[inside] == copy["x"]
        assert read[outside] == read["outside"]
        assert copy["data"].dims[1][0] == copy["x"]
        np.testing.assert_array_equal(copy["text"].asstr()[()], ["a", "bb", ""])
        # The original's committed type is used by two datasets and the copy's by one of its own.
        assert copy["typed"].id.get_type().committed()
    run("cp", f"{rich}:/g/typed", f"{rich}:/other")
    run("rm", rich, "/g/typed")
    with h5py.File(rich) as read:
        assert read["other"].id.get_type().committed()
        assert h5py.h5o.get_info(read["g/type"].id).rc == 2


def test_copy_names(file: str, rich: str, fails: Any) -> None:
    run("cp", f"{rich}:/g/x", file)
    run("cp", f"{rich}:/g/x", f"{file}:/bands/")
    run("cp", rich, f"{file}:/all")
    with h5py.File(file) as read:
        assert list(read["x"]) == list(read["bands/x"]) == [0, 1, 2, 3, 4]
        assert sorted(read["all"]) == ["g", "outside"]
    assert "expected a path of the copy" in fails("cp", rich, file)
    assert "/x exists; --overwrite" in fails("cp", f"{rich}:/g/x", file)
    assert "no link `none`" in fails("cp", f"{rich}:/g/x", f"{file}:/none/x")
    assert "none" in fails("cp", f"{rich}:/none", f"{file}:/y")
    assert "cannot replace /bands/red" in fails("cp", f"{file}:/bands/red", f"{file}:/bands/red", "--overwrite")
    assert "cannot replace /bands/red" in fails("cp", f"{file}:/bands/red", f"{file}:/bands", "--overwrite")
    assert "got a URL" in fails("cp", file, "s3://bucket/b.h5:/x")
    run("cp", f"{rich}:/outside", f"{file}:/x", "--overwrite")
    with h5py.File(file) as read:
        assert list(read["x"]) == [1]


def test_failed_copy_makes_no_file(file: str, fails: Any) -> None:
    assert "none" in fails("cp", f"{file}:/none", "new.h5:/x", file="new.h5")


def test_copy_embeds_other_files(file: str) -> None:
    Path("raw.bin").write_bytes(np.arange(4, dtype="<i4").tobytes())
    with h5py.File("raw.h5", "w") as made:
        made.create_dataset("raw", (4,), "i4", external="raw.bin")
    run("cp", "raw.h5:/raw", f"{file}:/kept")
    run("cp", "raw.h5:/raw", f"{file}:/embedded", "--embed")
    with h5py.File(file) as read:
        assert [name for name, *_ in read["kept"].external] == ["raw.bin"]
        assert read["embedded"].external is None
        assert list(read["embedded"]) == list(read["kept"]) == [0, 1, 2, 3]


def test_embedding_needs_the_sources_of_virtual_datasets(file: str, fails: Any) -> None:
    with h5py.File("source.h5", "w") as made:
        made["x"] = np.arange(4, dtype="i4")
    with h5py.File("virtual.h5", "w") as made:
        layout = h5py.VirtualLayout((8,), "i4")
        layout[:4] = h5py.VirtualSource("source.h5", "x", (4,))
        layout[4:] = h5py.VirtualSource("none.h5", "x", (4,))
        made.create_virtual_dataset("v", layout)
    for words in (
        ("pack", "--embed", "virtual.h5", "new.h5"),
        ("pack", "--embed", "--in-place", "virtual.h5"),
        ("cp", "--embed", "virtual.h5:/v", f"{file}:/v"),
        ("get", "virtual.h5", "/v", "-o", "new.h5"),
        ("store", "export", "virtual.h5", "--tree", "tree"),
    ):
        told = fails(*words)
        assert "source file none.h5" in told, words
        assert "virtual.h5" in told, words
    run("cp", "virtual.h5:/v", f"{file}:/kept")
    run("get", "virtual.h5", "/v", "--slice", ":4", "-o", "part.h5")
    with h5py.File("part.h5") as read, h5py.File(file) as kept:
        assert read["v"][:].tolist() == [0, 1, 2, 3]
        assert kept["kept"].is_virtual
    with h5py.File("none.h5", "w") as made:
        made["y"] = 1
    assert "dataset x in its source file none.h5" in fails("pack", "--embed", "virtual.h5", "new.h5")
    with h5py.File("none.h5", "a") as made:
        made["x"] = np.arange(4, 8, dtype="i4")
    run("pack", "--embed", "virtual.h5", "new.h5", "--verify")
    with h5py.File("new.h5") as read:
        assert read["v"][:].tolist() == list(range(8))


def test_the_copy_of_a_root_group_needs_a_path(file: str, fails: Any) -> None:
    for to in ("new.h5:/", "new.h5"):
        told = fails("cp", file, to, file="new.h5")
        assert "hyperchunk pack" in told
        assert "new.h5:/copy" in told
    run("cp", f"{file}:/frames", "new.h5:/")
    with h5py.File("new.h5") as read:
        assert list(read) == ["frames"]


def test_copied_live_dataset_is_live(scene: Any, attach: Any, tmp_path: Path) -> None:
    path = str(scene(a=np.arange(6, dtype="f4")))
    attach(path, "lua", elementwise("lua", "a[i] + 1", inputs=["a"]))
    run("cp", f"{path}:/a", f"{tmp_path}/copy.h5")
    run("cp", f"{path}:/out", f"{tmp_path}/copy.h5")
    with h5py.File(path) as old, h5py.File(tmp_path / "copy.h5") as new:
        assert new["out"].id.read_direct_chunk((0,)) == old["out"].id.read_direct_chunk((0,))
    with hyperchunk.open(tmp_path / "copy.h5") as read:
        assert list(read["out"]) == [1, 2, 3, 4, 5, 6]


# --- Packing in place ---


def test_pack_in_place(file: str, capfd: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as made:
        made["gone"] = np.zeros(100_000)
        made["after"] = np.ones(5)
    with h5py.File(file, "r+") as made:
        del made["gone"]
    Path(file).chmod(0o640)
    try:
        os.setxattr(file, "user.origin", b"detector 7")
    except OSError:
        pytest.skip("a file system without extended attributes")
    size = Path(file).stat().st_size
    Path("link.h5").symlink_to(file)
    report = json.loads(run("pack", "--in-place", "link.h5", "--json", out=capfd))
    assert report["verified"]["datasets"] == 3
    assert Path("link.h5").is_symlink()
    assert Path(file).stat().st_size < size - 700_000
    assert Path(file).stat().st_mode & 0o777 == 0o640
    assert os.getxattr(file, "user.origin") == b"detector 7"
    assert not list(Path().glob(".*.part"))
    with h5py.File(file) as read:
        np.testing.assert_array_equal(read["frames"], np.arange(1000).reshape(10, 100))
        assert read["hard"] == read["frames"]


def test_pack_in_place_makes_a_file_that_can_be_edited(tmp_path: Path) -> None:
    path = tmp_path / "narrow.h5"
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    plist.set_sizes(4, 4)
    with h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_TRUNC, fcpl=plist)) as made:
        made["x"] = [1, 2]
    assert _core.run_command(["hyperchunk", "mkdir", str(path), "/g"]) == 1
    run("pack", "--in-place", path)
    run("mkdir", path, "/g")
    with h5py.File(path) as read:
        assert sorted(read) == ["g", "x"]


def test_what_is_not_packed_in_place(file: str, fails: Any) -> None:
    assert "got a URL" not in fails("pack", "--in-place", "s3://bucket/a.h5")
    assert "expected files to pack, and OUT" in fails("pack", file)
    with h5py.File(file):
        pass
    os.link(file, "second.h5")
    assert "hard links" in fails("pack", "--in-place", file)
    Path("second.h5").unlink()
    Path("loop.h5").symlink_to("loop.h5")
    assert "symbolic links" in fails("pack", "--in-place", "loop.h5")
    Path("loop.h5").unlink()
    with hyperchunk.open(file, "r+"):
        fails("pack", "--in-place", file)
    Path("text.h5").write_text("no HDF5")
    fails("pack", "--in-place", "text.h5", file="text.h5")


def test_pack_in_place_is_for_files_without_a_writer(file: str) -> None:
    with h5py.File(file, "r+"):
        done = subprocess.run([HYPERCHUNK, "pack", "--in-place", file], capture_output=True, text=True)
        assert done.returncode == 1
