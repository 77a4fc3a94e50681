"""Stores whose file and folder do not belong together, and content that a commit must not drop or replace."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store

from .test_command import run


def made(path: Path, value: float) -> store.Store:
    """Creates a store with one epoch."""
    one = store.create(path, {"/e": store.Dataset((4,), "f8")})
    with one.writer() as writer:
        writer["/e"][:] = value
        writer.attrs["own"] = path.name
    assert one.commit() is not None
    return one


@pytest.mark.parametrize("link", [h5py.SoftLink("/elsewhere"), h5py.ExternalLink("b.h5", "/x")])
@pytest.mark.parametrize("name", ["raw/e", "raw", "small", "group"])
def test_a_link_replaces_no_object_of_an_earlier_epoch(tmp_path: Path, name: str, link: object) -> None:
    path = tmp_path / "a.h5"
    one = store.create(path, {"/raw/e": store.Dataset((4,), "i4")})
    with one.writer() as writer:
        writer["/raw/e"][:] = 1
        writer.structure["small"] = 3
        writer.create_group("group/below")
    one.commit()
    with one.writer() as writer:
        writer.structure[name] = link
    with pytest.raises(hyperchunk.HyperchunkError, match="different objects or links of the same name"):
        one.commit()
    with h5py.File(path) as file:
        assert file["raw/e"][...].tolist() == [1] * 4
        assert file["small"][()] == 3
        assert "group/below" in file


def test_links_of_earlier_epochs_may_be_set_again(tmp_path: Path) -> None:
    one = made(tmp_path / "a.h5", 1)
    for target in ("/e", "/elsewhere"):
        with one.writer() as writer:
            writer.structure["link"] = h5py.SoftLink(target)
        assert one.commit() is not None
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.get("link", getlink=True).path == "/elsewhere"


@pytest.mark.parametrize("name", ["e", "/e", "e/below"])
def test_a_group_is_not_created_over_a_dataset(tmp_path: Path, name: str) -> None:
    one = made(tmp_path / "a.h5", 1)
    with one.writer() as writer:
        with pytest.raises(ValueError, match="/e is a dataset of the store"):
            writer.create_group(name)
        if name.endswith("below"):
            with pytest.raises(ValueError, match="/e is a dataset of the store"):
                writer.create_dataset(name, (4,), "f8")
        writer.create_group("/")
        writer.create_group("other")
    assert one.commit() is not None


@pytest.mark.parametrize("kind", ["file", "folder", "copy"])
def test_a_file_is_not_read_with_another_stores_folder(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "mon.h5", tmp_path / "tue.h5"
    one = made(path, 1)
    if kind == "copy":
        shutil.copy(path, other)
        shutil.copytree(f"{path}.d", f"{other}.d")
        for at, value in ((path, 4), (other, 5)):
            with store.open(at).writer() as writer:
                writer["/e"][:] = value
                writer.attrs["own"] = at.name
            store.open(at).commit()
    else:
        made(other, 2)
    if kind == "folder":
        shutil.rmtree(f"{path}.d")
        Path(f"{other}.d").replace(f"{path}.d")
    else:
        other.replace(path)
    # The file's own elements, which it names as raw data, or an error: never those of the other store.
    with hyperchunk.open(path) as file:
        if kind == "folder":
            with pytest.raises(hyperchunk.HyperchunkError, match="does not exist"):
                file["e"][:]
        else:
            with h5py.File(path) as plain:
                assert file.attrs["own"] == plain.attrs["own"] == "tue.h5"
                assert file["e"][0] == plain["e"][0] == {"file": 2, "copy": 5}[kind]
    shutil.move(f"{other}.d" if kind != "folder" else f"{path}.d", tmp_path / "elsewhere")
    if kind == "folder":
        shutil.copytree(tmp_path / "elsewhere", f"{path}.d")
    with hyperchunk.open(path) as file, pytest.raises(hyperchunk.HyperchunkError):
        file["e"][:]
    before = path.read_bytes()
    for words in (["pack", path, tmp_path / "out.h5"], ["compact", path], ["link", path]):
        assert "expected the file of the store" in run(*words, status=1)
    with one.writer() as writer:
        writer["/e"][:] = 6
    with pytest.raises(hyperchunk.HyperchunkError, match=r"expected the file of the store|it belongs to another store"):
        one.commit()
    assert path.read_bytes() == before
    # The way out: the file of the folder is made again.
    path.unlink()
    run("link", path)
    with hyperchunk.open(path) as file, h5py.File(path) as plain:
        np.testing.assert_array_equal(file["e"][:], plain["e"][:])


def test_an_edited_file_of_the_same_epoch_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    made(path, 1)
    with h5py.File(path, "r+") as file:
        file.attrs["later"] = 1
        file["more"] = np.arange(3000)
    with hyperchunk.open(path) as file:
        assert file["e"][:].tolist() == [1] * 4
        assert file.attrs["later"] == 1
    with store.open(path).writer() as writer:
        writer.attrs["third"] = 1
    assert "epoch" in run("commit", path)
    run("compact", path)
    run("link", path)
    with hyperchunk.open(path) as file:
        assert file["e"][:].tolist() == [1] * 4


def test_nothing_is_begun_anew_while_the_folder_is_away(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    one = made(path, 1)
    Path(f"{path}.d").rename(tmp_path / "away")
    for attempt in (one.writer, one.commit, lambda: store.open(path)):
        with pytest.raises(hyperchunk.HyperchunkError, match="expected its folder"):
            attempt()
    assert not Path(f"{path}.d").exists()
    (tmp_path / "away").rename(f"{path}.d")
    with one.writer() as writer:
        writer["/e"][0:1] = 2
    assert one.commit().number == 2
    with h5py.File(path) as file:
        assert file["e"][...].tolist() == [2, 1, 1, 1]


def test_a_ticket_of_a_writer_before_the_new_store_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    one = made(path, 1)
    first = one.writer()
    first["/e"][:] = 2
    store.create(path, {"/e": store.Dataset((4,), "f8")}, overwrite=True)
    ticket = first.close()
    with pytest.warns(store.StoreWarning, match=r"created anew after this writer began.*nothing of it is lost"):
        assert one.commit([ticket]) is None


def test_a_ticket_that_a_compaction_replaced_is_nothing_new(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = tmp_path / "a.h5"
    one = store.create(path, {"/e": store.Dataset((4,), "f8")})
    tickets = []
    for at in range(4):
        with one.writer() as writer:
            writer["/e"][at : at + 1] = at
            tickets.append(writer.flush())
    one.commit()
    run("compact", path)
    assert one.commit(tickets) is None
    assert not [str(found.message) for found in recwarn]
