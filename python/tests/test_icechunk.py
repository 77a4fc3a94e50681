"""Commits of collections to Icechunk: files and branches that were changed since."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from hyperchunk.exceptions import ChangedError, InvalidError, LeftOutWarning, ObjectNotFoundError

icechunk = pytest.importorskip("icechunk")
zarr = pytest.importorskip("zarr", minversion="3.1")
from test_zarr import make_repository  # noqa: E402 (skips without zarr)

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


def make(folder: Path, number: int, rows: int = 2, value: int | None = None) -> Path:
    """Makes a file with references, encoded strings, a coordinate and data that are not joined."""
    (folder / "files").mkdir(exist_ok=True)
    path = folder / "files" / f"{number}.h5"
    gc.collect()
    path.unlink(missing_ok=True)
    shown = number if value is None else value
    with h5py.File(path, "w") as file:
        time = file.create_dataset("time", data=np.arange(rows) + 10.0 * shown, maxshape=(None,))
        time.make_scale("time")
        x = file.create_dataset(
            "x", data=np.full((rows, 3), shown, "i4"), maxshape=(None, 3), chunks=(2, 3), compression="gzip"
        )
        x.attrs["note"] = np.array([1.5, 2])
        texts = [f"s{shown}"] * rows
        s = file.create_dataset("s", data=texts, dtype=h5py.string_dtype(), maxshape=(None,), chunks=(2,))
        for one in (x, s):
            one.dims[0].attach_scale(time)
        file["const"] = np.arange(3) + shown // 100
    return path


def opened(repository: Any) -> Any:
    return zarr.open_group(repository.readonly_session("main").store, mode="r")


def check(repository: Any, collection: hyperchunk.Collection) -> None:
    """Compares a branch with h5py's values of the files."""
    group = opened(repository)
    for name in ("time", "x", "s", "const"):
        parts = []
        for path in collection.files:
            with h5py.File(path) as file:
                parts.append(file[name].asstr()[:] if name == "s" else file[name][:])
        expected = parts[0] if name == "const" else np.concatenate(parts)
        found = group[name][:]
        assert found.shape == expected.shape, name
        assert found.tolist() == expected.tolist(), name


def messages(repository: Any) -> list[str]:
    return [one.message for one in repository.ancestry(branch="main")]


def written_chunks(repository: Any, since: str) -> dict[str, list[Any]]:
    told = repository.diff(from_snapshot_id=since, to_branch="main")
    return {path.strip("/"): sorted(map(tuple, places)) for path, places in told.updated_chunks.items()}


def test_an_append_writes_new_chunks_only(tmp_path: Path) -> None:
    paths = [make(tmp_path, number) for number in range(2)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    first = hyperchunk.open_collection(paths).to_icechunk(repository)
    paths += [make(tmp_path, 2), make(tmp_path, 3)]
    collection = hyperchunk.open_collection(paths)
    collection.to_icechunk(repository)
    check(repository, collection)
    found = written_chunks(repository, first)
    assert found["x"] == [(2, 0), (3, 0)]
    assert found["s"] == [(2,), (3,)]
    assert "const" not in found


def test_a_changed_file_is_written_again(tmp_path: Path) -> None:
    paths = [make(tmp_path, number) for number in range(3)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    first = hyperchunk.open_collection(paths).to_icechunk(repository)
    make(tmp_path, 1, value=555)
    collection = hyperchunk.open_collection(paths)
    second = collection.to_icechunk(repository)
    assert second != first
    check(repository, collection)
    assert collection.to_icechunk(repository) == second
    assert messages(repository)[:2] == ["3 of 3 files", "3 of 3 files"]


def test_an_append_to_changed_files_writes_all_again(tmp_path: Path) -> None:
    paths = [make(tmp_path, number) for number in range(2)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    hyperchunk.open_collection(paths).to_icechunk(repository)
    make(tmp_path, 0, value=700)
    paths.append(make(tmp_path, 2))
    collection = hyperchunk.open_collection(paths)
    collection.to_icechunk(repository)
    check(repository, collection)
    assert messages(repository)[0] == "3 of 3 files"


def test_a_dataset_that_the_files_lost_is_deleted(tmp_path: Path) -> None:
    path = make(tmp_path, 0)
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    hyperchunk.open_collection([path]).to_icechunk(repository)
    gc.collect()
    with h5py.File(path, "r+") as file:
        del file["const"]
        del file["x"].attrs["note"]
    hyperchunk.open_collection([path]).to_icechunk(repository)
    group = opened(repository)
    assert sorted(group) == ["s", "time", "x"]
    assert dict(group["x"].attrs) == {}


def test_files_without_rows_are_nothing_new(tmp_path: Path) -> None:
    paths = [make(tmp_path, 0), make(tmp_path, 1)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    made = hyperchunk.open_collection(paths).to_icechunk(repository)
    paths.append(make(tmp_path, 2, rows=0))
    assert hyperchunk.open_collection(paths).to_icechunk(repository) == made
    paths.append(make(tmp_path, 3))
    collection = hyperchunk.open_collection(paths)
    collection.to_icechunk(repository)
    check(repository, collection)
    assert messages(repository)[0] == "2 of 4 files"


def test_additions_of_others_stay(tmp_path: Path) -> None:
    paths = [make(tmp_path, number) for number in range(3)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    hyperchunk.open_collection(paths[:2]).to_icechunk(repository)
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="a")
    group.attrs["mine"] = 1
    group["x"].attrs["mine"] = "x"
    group.create_array("own", shape=(3,), dtype="f4")[:] = 7
    tip = session.commit("mine")
    assert hyperchunk.open_collection(paths[:2]).to_icechunk(repository) == tip
    for collection in (hyperchunk.open_collection(paths), hyperchunk.open_collection(paths[:3])):
        collection.to_icechunk(repository)
        check(repository, collection)
        group = opened(repository)
        assert dict(group.attrs) == {"mine": 1}
        assert group["x"].attrs["mine"] == "x"
        assert group["own"][:].tolist() == [7, 7, 7]
    # All is written again, and still nothing is lost.
    make(tmp_path, 0, value=700)
    collection = hyperchunk.open_collection(paths)
    collection.to_icechunk(repository)
    check(repository, collection)
    assert opened(repository).attrs["mine"] == 1
    assert opened(repository)["x"].attrs["mine"] == "x"


@pytest.mark.parametrize("how", ["shorter", "there and back", "values", "deleted", "another"])
def test_arrays_that_others_changed_are_restored(tmp_path: Path, how: str) -> None:
    paths = [make(tmp_path, number) for number in range(2)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    collection = hyperchunk.open_collection(paths)
    collection.to_icechunk(repository)
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="a")
    if how in ("shorter", "there and back"):
        group["x"].resize((1, 3))
    elif how == "values":
        group["s"][0] = "mine"
    else:
        del group["x"]
        if how == "another":
            group.create_array("x", shape=(4, 3), dtype="i4", chunks=(2, 3))[:] = 9
    tip = session.commit("changed")
    if how == "there and back":
        session = repository.writable_session("main")
        zarr.open_group(session.store, mode="a")["x"].resize((4, 3))
        tip = session.commit("changed back")
    assert collection.to_icechunk(repository) != tip
    check(repository, collection)
    assert messages(repository)[0] == "2 files, as they are"


def test_arrays_of_others_are_not_replaced(tmp_path: Path) -> None:
    path = make(tmp_path, 0)
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    hyperchunk.open_collection([path]).to_icechunk(repository)
    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array("y", shape=(3,), dtype="f4")
    session.commit("mine")
    gc.collect()
    with h5py.File(path, "r+") as file:
        file["y"] = [1, 2]
    with pytest.raises(InvalidError, match="cannot commit /y: expected no array of another program"):
        hyperchunk.open_collection([path]).to_icechunk(repository)


def test_a_change_after_the_commit_is_refused(tmp_path: Path) -> None:
    paths = [make(tmp_path, number) for number in range(2)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    hyperchunk.open_collection(paths).to_icechunk(repository)
    assert opened(repository)["x"][:, 0].tolist() == [0, 0, 1, 1]
    make(tmp_path, 1, value=99)
    with pytest.raises(icechunk.IcechunkError, match="has changed"):
        opened(repository)["x"][:]


def test_a_change_before_the_commit_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hyperchunk.zarr import commits

    paths = [make(tmp_path, number) for number in range(2)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    collection = hyperchunk.open_collection(paths)
    put = commits._put_chunks

    def put_and_change(*given: Any) -> None:
        put(*given)
        if given[1] == "x":
            with h5py.File(paths[1], "r+", locking=False) as file:
                file["x"][...] = 9

    monkeypatch.setattr(commits, "_put_chunks", put_and_change)
    with pytest.raises(ChangedError, match=r"1\.h5: expected the version that was collected; collect it again"):
        collection.to_icechunk(repository)
    assert len(messages(repository)) == 1


def test_another_form_is_written_again(tmp_path: Path) -> None:
    paths = [make(tmp_path, number) for number in range(2)]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    collection = hyperchunk.open_collection(paths)
    collection.to_icechunk(repository)
    second = collection.to_icechunk(repository, strings="bytes")
    assert opened(repository)["s"][:].tolist() == [b"s0", b"s0", b"s1", b"s1"]
    assert collection.to_icechunk(repository, strings="bytes") == second
    # Joined in another way, of equal extent.
    collection = hyperchunk.open_collection(paths, concat=0)
    collection.to_icechunk(repository)
    assert opened(repository)["const"][:].tolist() == [0, 1, 2, 0, 1, 2]
    assert opened(repository)["s"][:].tolist() == ["s0", "s0", "s1", "s1"]


def test_attributes_with_nan_are_left_out(tmp_path: Path) -> None:
    path = make(tmp_path, 0)
    with h5py.File(path, "r+") as file:
        file["x"].attrs["missing_value"] = np.nan
        file.attrs["limits"] = [0, np.inf]
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    with pytest.warns(LeftOutWarning) as told:
        hyperchunk.open_collection([path]).to_icechunk(repository)
    assert [str(one.message).partition(" is left")[0] for one in told if one.category is LeftOutWarning] == [
        "the attribute 'limits' of /",
        "the attribute 'missing_value' of /x",
    ]
    assert dict(opened(repository)["x"].attrs) == {"note": [1.5, 2]}


def test_metadata_tell_what_was_committed(tmp_path: Path) -> None:
    path = make(tmp_path, 0)
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    hyperchunk.open_collection([path]).to_icechunk(repository)
    told = json.loads(next(iter(repository.ancestry(branch="main"))).metadata["hyperchunk"])
    assert told["files"] == 1
    assert told["attributes"]["x"] == ["note"]


def test_values_of_virtual_datasets_are_stored_only_if_their_sources_exist(tmp_path: Path) -> None:
    paths = [make(tmp_path, 0)]
    with h5py.File(paths[0], "a") as file:
        layout = h5py.VirtualLayout((2,), "i4")
        layout[:] = h5py.VirtualSource(".", "later", (2,))
        file.create_virtual_dataset("v", layout)
    repository = make_repository(icechunk, tmp_path, tmp_path / "files")
    with hyperchunk.open_collection(paths, concat=0) as collection:
        with pytest.raises(ObjectNotFoundError, match="dataset later in the same file"):
            collection.to_icechunk(repository)
        with pytest.raises(ObjectNotFoundError, match="dataset later in the same file"):
            collection.to_kerchunk(tmp_path / "references.json")
    assert not (tmp_path / "references.json").exists()
    gc.collect()
    with h5py.File(paths[0], "a") as file:
        file["later"] = np.array([5, 6], "i4")
    hyperchunk.open_collection(paths, concat=0).to_icechunk(repository)
    assert opened(repository)["v"][:].tolist() == [5, 6]
