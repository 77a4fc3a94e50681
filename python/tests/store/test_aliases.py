"""Stores reached by another name: symbolic links, hard links, other working folders, moved folders."""

import os
import shutil
import subprocess
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from vol import helpers

# Paths to a store's file: the name that a program uses, and the links that it passes through.
LINKS = {
    "of the file": ("link/a.h5", {"link/a.h5": "../real/a.h5"}),
    "of another name": ("link/b.h5", {"link/b.h5": "../real/a.h5"}),
    "with an absolute target": ("link/a.h5", {"link/a.h5": "{root}/real/a.h5"}),
    "of a folder": ("folder/a.h5", {"folder": "real"}),
    "of a link": ("link/c.h5", {"link/c.h5": "b.h5", "link/b.h5": "../folder/a.h5", "folder": "real"}),
}


def make_links(root: Path, links: dict[str, str]) -> None:
    (root / "real").mkdir()
    (root / "link").mkdir()
    for link, target in links.items():
        (root / link).symlink_to(target.format(root=root))


def check(root: Path, name: str, links: dict[str, str], values: list[float]) -> None:
    """Checks that both names show the same data, the store's folder is beside the file, and links are still links."""
    for path in (root / "real" / "a.h5", root / name):
        with h5py.File(path) as file:
            assert file["x"][...].tolist() == values, path
        with hyperchunk.open(path) as file:
            assert file["x"][...].tolist() == values, path
    assert all((root / link).is_symlink() for link in links)
    assert sorted(path.name for path in (root / "real").iterdir()) == ["a.h5", "a.h5.d"]
    assert sorted(path.name for path in (root / "link").iterdir()) == sorted(
        Path(link).name for link in links if link.startswith("link/")
    )


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_leads_to_the_store_of_its_file(tmp_path: Path, kind: str) -> None:
    name, links = LINKS[kind]
    make_links(tmp_path, links)
    # The file does not exist yet: the first link dangles.
    run = store.create(tmp_path / name, {"/x": store.Dataset((4,), "f8")})
    with run.writer() as writer:
        writer["x"][...] = 1
    assert run.commit().number == 1
    check(tmp_path, name, links, [1, 1, 1, 1])
    again = store.open(tmp_path / name)
    with again.writer() as writer:
        writer["x"][2:] = 2
    assert again.commit().number == 2
    real = store.open(tmp_path / "real/a.h5")
    with real.writer() as writer:
        writer["x"][3] = 3
    assert real.commit().number == 3
    check(tmp_path, name, links, [1, 1, 2, 3])


@pytest.mark.parametrize("kind", LINKS)
def test_commands_follow_links(tmp_path: Path, kind: str) -> None:
    name, links = LINKS[kind]
    make_links(tmp_path, links)
    run = store.create(tmp_path / "real/a.h5", {"/x": store.Dataset((4,), "f8")})
    for number in range(4):
        with run.writer() as writer:
            writer["x"][number] = number
        if number == 2:
            run.commit()

    def command(*words: str) -> str:
        done = subprocess.run(
            [helpers.command(), "store", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "epoch 2" in command("commit", name)
    check(tmp_path, name, links, [0, 1, 2, 3])
    assert "epoch 2" in command("status", name)
    command("verify", name)
    command("link", name)
    command("pack", name, "packed.h5")
    with h5py.File(tmp_path / "packed.h5") as file:
        assert file["x"][...].tolist() == [0, 1, 2, 3]
    command("compact", name)
    command("vacuum", name)
    check(tmp_path, name, links, [0, 1, 2, 3])


def test_layouts_follow_links(tmp_path: Path) -> None:
    make_links(tmp_path, {"link/a.h5": "../real/a.h5"})
    values = np.arange(10_000, dtype="f8").reshape(100, 100)
    run = store.create(tmp_path / "real/a.h5", {"/x": store.Dataset((100, 100), "f8")})
    with run.writer() as writer:
        writer["x"][...] = values
    run.commit()
    hyperchunk.restructure(tmp_path / "link/a.h5", "/x", order="column")
    assert (tmp_path / "real/a.h5.d/layouts").is_dir()
    assert [path.name for path in (tmp_path / "link").iterdir()] == ["a.h5"]
    with hyperchunk.open(tmp_path / "link/a.h5") as file:
        np.testing.assert_array_equal(file["x"][:, 3], values[:, 3])


def test_links_that_lead_round_are_errors(tmp_path: Path) -> None:
    (tmp_path / "a.h5").symlink_to("b.h5")
    (tmp_path / "b.h5").symlink_to("a.h5")
    with pytest.raises(OSError, match="symbolic links"):
        store.create(tmp_path / "a.h5", {"/x": store.Dataset((4,), "f8")}).writer()
    assert not list(tmp_path.glob("*.d"))


def test_a_hard_link_says_that_it_has_no_folder(tmp_path: Path) -> None:
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset((4,), "f8")})
    os.link(tmp_path / "a.h5", tmp_path / "early.h5")
    with run.writer() as writer:
        writer["x"][...] = 1
    run.commit(link="none")
    os.link(tmp_path / "a.h5", tmp_path / "late.h5")
    for name in ("early.h5", "late.h5"):
        with pytest.raises(FileNotFoundError, match="hard link"):
            store.open(tmp_path / name)
        assert not (tmp_path / f"{name}.d").exists()
    with (
        hyperchunk.open(tmp_path / "late.h5") as file,
        pytest.raises(hyperchunk.exceptions.ObjectNotFoundError, match="hard link"),
    ):
        file["x"][...]
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [1, 1, 1, 1]


def test_a_store_is_moved_with_its_folder(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    run = store.create(old / "a.h5", {"/x": store.Dataset((4,), "f8")})
    with run.writer() as writer:
        writer["x"][...] = 1
    run.commit()
    old.rename(new)
    (new / "a.h5").rename(new / "b.h5")
    (new / "a.h5.d").rename(new / "b.h5.d")
    moved = store.open(new / "b.h5")
    with moved.writer() as writer:
        writer["x"][3] = 2
    assert moved.commit().number == 2
    for opened in (h5py.File, hyperchunk.open):
        with opened(new / "b.h5") as file:
            assert file["x"][...].tolist() == [1, 1, 1, 2]
    # A store that moves while it is being written; nothing stays at the old place.
    writer = moved.writer()
    writer["x"][0] = 5
    shutil.move(new / "b.h5", tmp_path / "c.h5")
    shutil.move(new / "b.h5.d", tmp_path / "c.h5.d")
    writer.close()
    assert store.open(tmp_path / "c.h5").commit().number == 3
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["x"][...].tolist() == [5, 1, 1, 2]


def test_the_folder_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "a.h5.d").symlink_to("scratch")
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset((4,), "f8")})
    for number in range(4):
        with run.writer() as writer:
            writer["x"][number] = number
        assert run.commit().number == number + 1
    for opened in (h5py.File, hyperchunk.open):
        with opened(tmp_path / "a.h5") as file:
            assert file["x"][...].tolist() == [0, 1, 2, 3]
    for words in (["compact"], ["vacuum"], ["status"]):
        subprocess.run([helpers.command(), "store", *words, tmp_path / "a.h5"], check=True, timeout=60)
    assert (tmp_path / "a.h5.d").is_symlink()
    assert (tmp_path / "scratch").is_dir()
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [0, 1, 2, 3]


def test_the_working_folder_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run = store.create("a.h5", {"/x": store.Dataset((4,), "f8")})
    monkeypatch.chdir(tmp_path / "there")
    with run.writer() as writer:
        writer["x"][...] = 1
    run.commit()
    again = store.open("../here/a.h5")
    monkeypatch.chdir(tmp_path)
    with again.writer() as writer:
        writer["x"][3] = 2
    again.commit()
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["a.h5", "a.h5.d"]
    assert not list((tmp_path / "there").iterdir())
    with h5py.File("here/a.h5") as file:
        assert file["x"][...].tolist() == [1, 1, 1, 2]


def test_datasets_with_several_names_are_written_by_each(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/g/x": store.Dataset((4,), "i4"), "/z": store.Dataset((4,), "i4")})
    with run.writer() as writer:
        writer["/g/x"][...] = 1
        writer["/z"][...] = 1
    run.commit()
    with h5py.File(path, "r+") as file:
        file["again"] = file["g/x"]
        file["h"] = file["g"]
        file["g/root"] = file["/"]
    names = ["again", "g/x", "h/x", "g/root/z"]
    for number, name in enumerate(names):
        with store.open(path).writer() as writer:
            writer[name][number] = number + 10
        store.open(path).commit()
        with h5py.File(path) as file:
            assert file[name][number] == number + 10
            assert file["again"] == file["g/x"] == file["h/x"]
    with h5py.File(path) as file:
        assert file["again"][...].tolist() == [10, 11, 12, 1]
        assert file["z"][...].tolist() == [1, 1, 1, 13]
