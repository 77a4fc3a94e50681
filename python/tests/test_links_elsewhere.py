"""Objects reached through external links: their names and errors are those of their own file."""

import h5py
import hyperchunk
import numpy as np
import pytest


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """`a.h5` links to `b.h5`, which links to `c.h5`."""
    folder = tmp_path_factory.mktemp("chain")
    with h5py.File(folder / "c.h5", "w") as f:
        f["x"] = np.arange(3)
        f["g/y"] = np.arange(4)
        f["g/soft"] = h5py.SoftLink("/x")
        f["g/dangling"] = h5py.SoftLink("/not/here")
    with h5py.File(folder / "b.h5", "w") as f:
        for name, path in {"toc": "/g", "in": "/", "lost": "/nope", "deep": "g/y", "twice": "/g/soft"}.items():
            f[name] = h5py.ExternalLink("c.h5", path)
        f["gone"] = h5py.ExternalLink("missing.h5", "/x")
        f["own"] = 1
    with h5py.File(folder / "a.h5", "w") as f:
        for name in ("toc", "in", "lost", "gone", "deep", "twice"):
            f[name] = h5py.ExternalLink("b.h5", f"/{name}")
        f["b"] = h5py.ExternalLink("b.h5", "/")
        f["soft"] = h5py.SoftLink("/b/toc")
    return folder


@pytest.mark.parametrize(
    "path",
    ["toc", "toc/y", "in", "in/x", "in/g/y", "deep", "b", "b/own", "b/toc/y", "b/in/g", "/b/toc"],
)
def test_name_and_file_are_h5py_s(chain, path):
    with h5py.File(chain / "a.h5") as theirs, hyperchunk.open(chain / "a.h5") as ours:
        their, our = theirs[path], ours[path]
        assert our.name == their.name
        assert (chain / our.file.filename).samefile(their.file.filename)
        assert our.parent.name == their.parent.name


@pytest.mark.parametrize(("path", "name"), [("soft", "/g"), ("soft/y", "/g/y")])
def test_soft_link_to_an_external_one(chain, path, name):
    """libhdf5 returns `/soft`, a path that does not exist in that file."""
    with hyperchunk.open(chain / "a.h5") as f:
        assert f[path].name == name
        assert f[path].file[name] == f[path]


@pytest.mark.parametrize(
    ("path", "file", "place"),
    [
        ("lost", "c.h5", "/nope"),
        ("toc/none", "c.h5", "/g/none"),
        ("in/g/y/z", "c.h5", "/g/y/z"),
        ("b/none", "b.h5", "/none"),
        ("b/own/none", "b.h5", "/own/none"),
        ("b/in/none", "c.h5", "/none"),
        ("soft/none", "c.h5", "/g/none"),
        ("toc/dangling", "c.h5", "/g/dangling"),
        ("gone", "b.h5", "/gone"),
        ("b/gone", "b.h5", "/gone"),
        ("none", "a.h5", "/none"),
    ],
)
def test_error_names_the_place_in_the_file_that_it_names(chain, path, file, place):
    with hyperchunk.open(chain / "a.h5") as f, pytest.raises(KeyError) as caught:
        f[path]
    said = str(caught.value)
    assert f"{file}, object {place})" in said, said


@pytest.mark.parametrize("path", ["toc/y", "b/toc/y", "soft/y", "deep"])
def test_damage_is_named_where_it_is(chain, tmp_path, path):
    for name in ("a.h5", "b.h5"):
        (tmp_path / name).write_bytes((chain / name).read_bytes())
    whole = (chain / "c.h5").read_bytes()
    with h5py.File(chain / "c.h5") as f:
        end = f["g/y"].id.get_offset() + 8
    (tmp_path / "c.h5").write_bytes(whole[:end])
    with hyperchunk.open(tmp_path / "a.h5") as f, pytest.raises(OSError) as caught:
        f[path][...]
    assert "c.h5" in str(caught.value)
    assert "a.h5" not in str(caught.value)


def look(file):
    """Reads everything of `a.h5` that is in `b.h5`."""
    return [file["v"][:].tolist(), file["link"][:].tolist(), file["raw"][:].tolist()]


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """`a.h5`, opened by its bare name, has data in `b.h5` and `raw`; the folder `other` has others by these names."""
    for folder, first in ((tmp_path, 0), (tmp_path / "other", 90)):
        folder.mkdir(exist_ok=True)
        with h5py.File(folder / "b.h5", "w") as f:
            f["y"] = np.arange(first, first + 5)
        np.arange(first, first + 5).tofile(folder / "raw")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        layout = h5py.VirtualLayout((5,), "i8")
        layout[:] = h5py.VirtualSource("b.h5", "y", (5,))
        f.create_virtual_dataset("v", layout)
        f["link"] = h5py.ExternalLink("b.h5", "/y")
        f.create_dataset("raw", (5,), "i8", external=[("raw", 0, 40)])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("folder", ["/", "other"])
def test_other_files_are_beside_the_file_whatever_the_working_folder(beside, monkeypatch, folder, mode):
    with hyperchunk.open("a.h5", mode) as file:
        tables = [file.table(name) for name in ("v", "raw")] if mode == "r" else []
        monkeypatch.chdir(folder)
        assert look(file) == [list(range(5))] * 3
        assert [table.to_numpy()[name].tolist() for table, name in zip(tables, ("v", "raw"), strict=False)] == [
            list(range(5)) for _ in tables
        ]
        assert file.filename == "a.h5"


def test_links_of_a_new_file_whatever_the_working_folder(beside, monkeypatch):
    with hyperchunk.open("new.h5", "w") as file:
        file["link"] = hyperchunk.ExternalLink("b.h5", "/y")
        monkeypatch.chdir("other")
        assert file["link"][:].tolist() == list(range(5))
