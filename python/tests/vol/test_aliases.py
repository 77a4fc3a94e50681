"""Stores reached through the connector by another name: symbolic links, hard links, moved folders."""

import os
from pathlib import Path

import h5py
import hyperchunk
import pytest
from store.test_aliases import LINKS, check, make_links

from vol import helpers

IMPORTS = "import h5py, os, sys, numpy as np\n"


def session(code: str, folder: Path, *arguments: object) -> str:
    """Runs an h5py program whose new files are stores."""
    return helpers.run(IMPORTS + helpers.dedent(code), *arguments, folder=folder, store=True)


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_leads_to_the_store_of_its_file(tmp_path: Path, kind: str) -> None:
    name, links = LINKS[kind]
    make_links(tmp_path, links)
    told = session(
        """
        with h5py.File(sys.argv[1], "w") as file:
            file["x"] = np.ones(4)
            file["elsewhere"] = h5py.ExternalLink("far.h5", "/y")
            print(file.filename)
        """,
        tmp_path,
        name,
    )
    assert told.strip() == name
    check(tmp_path, name, links, [1, 1, 1, 1])
    # The second is opened while the first is open: both are the same file.
    session(
        """
        with h5py.File(sys.argv[1], "r+") as file, h5py.File("real/a.h5", "r+") as real:
            file["x"][2:] = 2
            real["x"][3] = 3
            assert file["x"][...].tolist() == real["x"][...].tolist() == [1, 1, 2, 3]
        """,
        tmp_path,
        name,
    )
    check(tmp_path, name, links, [1, 1, 2, 3])
    assert not {path.name for path in tmp_path.iterdir()} - {"real", "link", "folder", "config"}


def test_links_of_a_linked_file_lead_beside_the_file_itself(tmp_path: Path) -> None:
    make_links(tmp_path, {"link/a.h5": "../real/a.h5"})
    with h5py.File(tmp_path / "real/far.h5", "w") as file:
        file["y"] = 5
    session(
        """
        with h5py.File("link/a.h5", "w") as file:
            file["far"] = h5py.ExternalLink("far.h5", "/y")
            assert file["far"][()] == 5
        with h5py.File("link/a.h5", "r+") as file:
            assert file["far"][()] == 5
        with h5py.File("link/a.h5") as file:
            assert file["far"][()] == 5
        """,
        tmp_path,
    )


def test_a_hard_link_is_not_written_to(tmp_path: Path) -> None:
    session('with h5py.File("a.h5", "w") as file: file["x"] = np.ones(4)', tmp_path)
    os.link(tmp_path / "a.h5", tmp_path / "b.h5")
    before = (tmp_path / "a.h5").read_bytes()
    told = session(
        """
        for mode in ("r+", "a"):
            try:
                h5py.File("b.h5", mode)
            except OSError as error:
                print(error)
        with h5py.File("b.h5", "r") as file:
            try:
                print(file["x"][...])
            except (OSError, KeyError) as error:
                print(error)
        """,
        tmp_path,
    )
    assert told.count("hard link") == 2
    assert "copy or move both" in told
    assert (tmp_path / "a.h5").read_bytes() == before
    assert not (tmp_path / "b.h5.d").exists()
    # An ordinary file with two names is one file.
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["x"] = 1
    os.link(tmp_path / "plain.h5", tmp_path / "other.h5")
    session('with h5py.File("other.h5", "r+") as file: file["x"][()] = 2', tmp_path)
    with h5py.File(tmp_path / "plain.h5") as file:
        assert file["x"][()] == 2


def test_a_moved_store_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    session('with h5py.File("old/a.h5", "w") as file: file["x"] = np.ones(4)', tmp_path)
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "new/a.h5").rename(tmp_path / "new/b.h5")
    (tmp_path / "new/a.h5.d").rename(tmp_path / "new/b.h5.d")
    session(
        """
        os.chdir("new")
        with h5py.File("b.h5", "a") as file:
            file["x"][3] = 2
            file["y"] = np.arange(3)
        """,
        tmp_path,
    )
    for opened in (h5py.File, hyperchunk.open):
        with opened(tmp_path / "new/b.h5") as file:
            assert file["x"][...].tolist() == [1, 1, 1, 2]
            assert file["y"][...].tolist() == [0, 1, 2]


def test_a_copy_without_the_folder_is_not_written_to(tmp_path: Path) -> None:
    session('with h5py.File("a.h5", "w") as file: file["x"] = np.ones(4)', tmp_path)
    before = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "b.h5").write_bytes(before)
    told = session(
        """
        for mode in ("r+", "a"):
            try:
                h5py.File("b.h5", mode)
            except OSError as error:
                print(error)
        """,
        tmp_path,
    )
    assert told.count("without its folder of logs; copy or move both") == 2
    assert (tmp_path / "b.h5").read_bytes() == before
