"""``hyperchunk store``."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store

VALUES = np.arange(4000, dtype="i4").reshape(400, 10)


def run(*words: str | Path, status: int = 0) -> str:
    """Runs the command, checks its exit status, and returns its output."""
    command = [HYPERCHUNK, "store", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A store without a commit."""
    path = tmp_path / "run.h5"
    made = store.create(path, {"/a": store.Dataset((400, 10), "i4")}, statistics=True)
    for part in range(4):
        with made.writer() as writer:
            writer["a"][part * 100 : (part + 1) * 100] = VALUES[part * 100 : (part + 1) * 100]
    return path


def test_a_packed_file_does_not_replace_one_to_which_the_store_refers(written: Path) -> None:
    run("commit", written)
    with h5py.File(written, "r+") as file:
        file["calibration"] = h5py.ExternalLink("other.h5", "/x")
    other = written.with_name("other.h5")
    with h5py.File(other, "w") as file:
        file["x"] = VALUES
    before = other.read_bytes()
    assert "refers to it" in run("pack", written, other, "--overwrite", status=1)
    assert other.read_bytes() == before
    run("pack", written, written.with_name("one.h5"))
    with h5py.File(written.with_name("one.h5")) as file:
        np.testing.assert_array_equal(file["calibration"], VALUES)


def test_a_store_is_committed_shown_packed_and_tidied(written: Path) -> None:
    assert "nothing is committed" in run("status", written)
    assert "4 writers are done" in run("status", written)
    assert "epoch 1, of 4 writers" in run("commit", written)
    assert "nothing new" in run("commit", written)
    with h5py.File(written) as file:
        np.testing.assert_array_equal(file["a"][...], VALUES)
    assert "plain HDF5 reads 1 of 1 datasets" in run("status", written)
    state = json.loads(run("status", written, "--json"))
    assert [log["state"] for log in state["logs"]] == ["committed"] * 4
    listed = json.loads(run("ls", written, "--json"))
    assert [(one["path"], one["pieces"], one["written"]) for one in listed] == [("/a", 4, 16_000)]
    assert "0 to 3999" in run("ls", written)
    assert "4 logs" in run("verify", written)
    packed = written.with_name("one.h5")
    assert "1 datasets" in run("pack", written, packed)
    assert "exists" in run("pack", written, packed, status=1)
    run("pack", written, packed, "--overwrite")
    shutil.rmtree(f"{written}.d")
    with h5py.File(packed) as file:
        np.testing.assert_array_equal(file["a"][...], VALUES)


def test_a_moved_store_is_linked_anew(written: Path, tmp_path: Path) -> None:
    run("commit", written)
    moved = tmp_path / "other" / "moved.h5"
    moved.parent.mkdir()
    written.rename(moved)
    Path(f"{written}.d").rename(f"{moved}.d")
    with h5py.File(moved) as file, pytest.raises(OSError, match="external"):
        file["a"][...]
    assert "store link" in run("status", moved)
    run("link", moved)
    with h5py.File(moved) as file:
        np.testing.assert_array_equal(file["a"][...], VALUES)
    run("link", moved, "--relative")
    # libhdf5 reads its environment only once.
    program = "import sys, h5py; print(h5py.File(sys.argv[1])['a'][...].sum())"
    command = [sys.executable, "-c", program, moved]
    prefix = os.environ | {"HDF5_EXTFILE_PREFIX": "${ORIGIN}"}
    done = subprocess.run(command, env=prefix, cwd="/", capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) == VALUES.sum()
    run("link", moved, "--none")
    with h5py.File(moved) as file, pytest.raises(OSError, match="external"):
        file["a"][...]


def test_damage_is_found(written: Path) -> None:
    run("commit", written)
    log = sorted(Path(f"{written}.d").glob("*.log"))[2]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.unlink()
    log.write_bytes(data)
    message = run("verify", written, status=1)
    assert log.name in message
    assert "1 logs are damaged" in message
    log.unlink()
    assert log.name in run("verify", written, status=1), "it is not there"


def test_old_epochs_go(written: Path) -> None:
    run("commit", written)
    again = store.open(written)
    with again.writer() as writer:
        writer["a"][0] = 7
    run("commit", written)
    assert "epoch-0000000001" not in run("vacuum", written, "--dry-run"), "it is young"
    assert "epoch-0000000001" in run("vacuum", written, "--grace", "0")
    assert len(list(Path(f"{written}.d").glob("*.manifest"))) == 1
    with h5py.File(written) as file:
        assert (file["a"][0] == 7).all()


def test_a_store_of_many_pieces_is_compacted(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    made = store.create(path, {"/a": store.Dataset((20_000, 2), "i4")})
    with made.writer() as writer:
        for column in (0, 1):
            # Neighbouring columns are not written in sequence, so that they form no common block.
            for start in range(19_996, -4, -4):
                writer["a"][start : start + 4, column] = np.arange(start, start + 4) * (column + 1)
    assert "more pieces" in run("commit", path)
    with h5py.File(path) as file, pytest.raises(OSError, match="external"):
        file["a"][...]
    assert "10000 pieces merged to 1" in run("compact", path)
    assert "already" in run("compact", path)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["a"][...], np.arange(20_000)[:, None] * [1, 2])


def test_a_tree_of_folders_and_back(written: Path, tmp_path: Path) -> None:
    run("commit", written)
    tree, again = tmp_path / "tree", tmp_path / "again.h5"
    assert "1 datasets" in run("export", written, "--tree", tree)
    assert any(
        (np.fromfile(one, "<i4") == VALUES.ravel()).all() for one in tree.rglob("*") if one.stat().st_size == 16000
    )
    run("import", tree, again)
    with h5py.File(again) as file:
        np.testing.assert_array_equal(file["a"][...], VALUES)


def test_what_is_no_store_is_an_error(tmp_path: Path) -> None:
    for command in ("status", "ls", "commit", "verify", "link", "vacuum"):
        assert "there is no store" in run(command, tmp_path / "none.h5", status=1), command


def test_an_ordinary_file_is_no_store(tmp_path: Path) -> None:
    """Neither commands nor `store.open` take it for one, with a second layout or without; it stays as it is."""
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.arange(400.0).reshape(20, 20), chunks=(5, 5))
        # Neither is it read as a whole: these would be 256 GB.
        file.create_dataset("b", (1 << 35,), "f8")
        file["b"][-1] = 1
    before = path.stat().st_mtime_ns
    for layout in (False, True):
        if layout:
            hyperchunk.restructure(path, "/a", order="column")
        for command in ("status", "verify", "commit", "recover"):
            shown = run(command, path, status=1)
            assert "there is no store" in shown, command
            assert ("only second layouts" in shown) is layout, command
        with pytest.raises(hyperchunk.exceptions.InvalidError, match="got an ordinary HDF5 file; make a new store"):
            store.open(path)
        assert (tmp_path / "plain.h5.d").exists() is layout
    assert path.stat().st_mtime_ns == before


def test_references_to_regions_are_exported_and_come_back(tmp_path: Path) -> None:
    written, tree, back = tmp_path / "a.h5", tmp_path / "tree", tmp_path / "back.h5"
    with h5py.File(written, "w") as file:
        data = file.create_dataset("g/data", data=np.arange(60).reshape(6, 10))
        box, points = data.regionref[1:3, ::4], data.regionref[np.arange(60).reshape(6, 10) % 7 == 3]
        regions = file.create_dataset("regions", (3,), h5py.regionref_dtype)  # the last one is null
        regions[0], regions[1] = box, points
        file.attrs.create("region", box, dtype=h5py.regionref_dtype)
    run("export", written, "--tree", tree)
    run("import", tree, back)
    with h5py.File(written) as old, h5py.File(back) as new:
        for one, other in [
            *zip(old["regions"][:2], new["regions"][:2], strict=True),
            (old.attrs["region"], new.attrs["region"]),
        ]:
            assert new[other].name == "/g/data"
            assert np.array_equal(old["g/data"][one], new["g/data"][other])
            assert h5py.h5r.get_region(other, new.id).get_select_npoints() > 0
        assert not new["regions"][2]


def test_a_tree_of_a_live_dataset_has_its_values(tmp_path: Path) -> None:
    path, tree, back = tmp_path / "a.h5", tmp_path / "tree", tmp_path / "back.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(6.0)
        file.create_dataset("rounded", data=np.arange(6.0) / 3, chunks=(6,), scaleoffset=2)
        rounded = file["rounded"][...]
    hyperchunk.udf.attach(path, outputs="twice", expression="a * 2", attrs={"units": "K"})
    run("export", path, "--tree", tree)
    done = json.loads(run("import", tree, back, "--json"))
    assert [note.split()[0] for note in sorted(done["notes"])] == ["/rounded", "/twice"]
    with h5py.File(back) as file:
        assert list(file["twice"]) == [0, 2, 4, 6, 8, 10]
        assert list(file["twice"].attrs) == ["units"]
        assert file["twice"].id.get_create_plist().get_nfilters() == 0
        np.testing.assert_array_equal(file["rounded"][...], rounded)
    assert hyperchunk.udf.ls(back) == []
