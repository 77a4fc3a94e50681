"""Reopened stores: data of earlier epochs stay, whatever a later writer adds."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from fresh import HYPERCHUNK
from hyperchunk import store


def first(path: Path) -> store.Store:
    """Makes a store with a dataset, a group and attributes, committed."""
    run = store.create(path, {"/g/d": store.Dataset((4,), "i4")}, attrs={"title": "first"})
    with run.writer() as writer:
        writer["/g/d"][...] = 1
        writer["/g/d"].attrs["units"] = "K"
        writer.create_group("about").attrs["x"] = 1
        writer.structure["host"] = "node1"
    run.commit()
    return run


def tree(path: Path) -> dict[str, Any]:
    """Returns all objects and attributes of a file, read by plain h5py."""
    found: dict[str, Any] = {}

    def visit(name: str, thing: Any) -> None:
        found[name] = thing[()] if isinstance(thing, h5py.Dataset) else None
        found.update({f"{name}@{key}": value for key, value in thing.attrs.items()})

    with h5py.File(path) as file:
        visit("", file)
        file.visititems(visit)
    return found


def check(path: Path, **changed: Any) -> None:
    expected: dict[str, Any] = {
        "": None,
        "@title": "first",
        "g": None,
        "g/d": np.ones(4, "i4"),
        "g/d@units": "K",
        "about": None,
        "about@x": 1,
        "host": b"node1",
    }
    expected |= {key.replace("__", "/"): value for key, value in changed.items()}
    found = tree(path)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


def root_attribute(writer: store.Writer) -> dict[str, Any]:
    writer.attrs["k"] = 1
    return {"@k": 1}


def changed_attribute(writer: store.Writer) -> dict[str, Any]:
    writer.attrs["title"] = "second"
    return {"@title": "second"}


def dataset_attribute(writer: store.Writer) -> dict[str, Any]:
    writer["/g/d"].attrs["k"] = 1
    return {"g/d@k": 1}


def group(writer: store.Writer) -> dict[str, Any]:
    writer.create_group("more/below")
    return {"more": None, "more/below": None}


def group_attribute(writer: store.Writer) -> dict[str, Any]:
    writer.create_group("g").attrs["k"] = "v"
    return {"g@k": "v"}


def dataset(writer: store.Writer) -> dict[str, Any]:
    writer.create_dataset("g/new", (3,), "f8")[...] = 3
    return {"g/new": np.full(3, 3.0)}


def string(writer: store.Writer) -> dict[str, Any]:
    writer.structure["host"] = "node2"
    return {"host": b"node2"}


CHANGES = [root_attribute, changed_attribute, dataset_attribute, group, group_attribute, dataset, string]

OTHER_PROCESS = """
import sys
from hyperchunk import store
run = store.open(sys.argv[1])
with run.writer() as writer:
    writer["/g/d"][...] = 1
    writer.attrs["other"] = 1
run.commit()
"""


@pytest.mark.parametrize("how", ["create", "open", "pickle", "compact", "another process between"])
@pytest.mark.parametrize("change", CHANGES)
def test_additions_keep_earlier_epochs(
    change: Callable[[store.Writer], dict[str, Any]], how: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.h5"
    run = first(path)
    expected: dict[str, Any] = {}
    if how == "another process between":
        subprocess.run([sys.executable, "-c", OTHER_PROCESS, str(path)], check=True, timeout=60)
        expected["@other"] = 1
    if how == "compact":
        subprocess.run([HYPERCHUNK, "store", "compact", str(path)], check=True, timeout=60)
        subprocess.run([HYPERCHUNK, "store", "vacuum", "--grace", "0", str(path)], check=True, timeout=60)
    again = {"open": store.open(path), "pickle": pickle.loads(pickle.dumps(run))}.get(how, run)
    with again.writer() as writer:
        expected |= change(writer)
    epoch = again.commit()
    assert epoch is not None
    assert epoch.conflicts == []
    check(path, **expected)


def test_writers_at_work_keep_what_others_committed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = first(path)
    early = run.writer()
    early.create_group("early")
    with store.open(path).writer() as writer:
        writer.attrs["between"] = 1
        writer.create_dataset("new", (3,), "f8")[...] = 3
    run.commit()
    early.close()
    run.commit()
    check(path, early=None, new=np.full(3, 3.0), **{"@between": 1})


def test_a_writer_of_an_old_handle_sees_the_extent_that_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/rows": store.Dataset((0, 3), "f8", maxshape=(None, 3), chunks=(10, 3))})
    for number in range(4):
        with pickle.loads(pickle.dumps(run)).writer() as writer:
            rows = writer["rows"]
            assert rows.shape == (10 * number, 3)
            rows.resize(10 * number + 10, axis=0)
            rows[10 * number :] = number
        run.commit()
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["rows"][...], np.repeat(np.arange(4.0), 10)[:, None] * np.ones(3))


def test_an_old_handle_knows_datasets_of_later_epochs(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = first(path)
    with store.open(path).writer() as writer:
        writer.create_dataset("new", (3,), "f8")[...] = 3
    run.commit()
    with run.writer() as writer:
        with pytest.raises(ValueError, match="name already exists"):
            writer.create_dataset("new", (3,), "f4")
        writer["new"][1] = 4
    run.commit()
    check(path, new=[3.0, 4.0, 3.0])


def test_a_handle_of_a_store_that_was_replaced_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    first(path)
    old = store.open(path)
    other = store.create(tmp_path / "b.h5", {"/x": store.Dataset(3, "i4")})
    with other.writer() as writer:
        writer["x"][...] = 1
    other.commit()
    for name in ("a.h5", "a.h5.d"):
        (tmp_path / name).rename(tmp_path / f"old-{name}")
        (tmp_path / name.replace("a", "b", 1)).rename(tmp_path / name)
    with pytest.raises(Exception, match="another store has taken its place"):
        old.writer()
    (tmp_path / "a.h5").unlink()
    with pytest.raises(FileNotFoundError):
        old.writer()


def test_another_kind_of_object_in_an_additive_image_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = first(path)
    with run.writer() as writer:
        writer.structure["about"] = 5
    with pytest.raises(Exception, match=r"different objects or links of the same name.*nothing was committed"):
        run.commit()
    with pytest.warns(store.StoreWarning, match="/about: different objects"):
        epoch = run.commit(on_conflict="warn")
    assert epoch is not None
    assert [(conflict.path, conflict.what) for conflict in epoch.conflicts] == [
        ("/about", "different objects or links of the same name")
    ]


def test_a_dataset_that_was_moved_is_found_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = first(path)
    with h5py.File(path, "r+") as file:
        file.move("g/d", "about/moved")
    run = store.open(path)
    with run.writer() as writer:
        writer["about/moved"][0] = 7
        writer["about/moved"].attrs["k"] = 1
    run.commit()
    found = tree(path)
    np.testing.assert_array_equal(found["about/moved"], [7, 1, 1, 1])
    assert found["about/moved@k"] == 1
    assert found["about/moved@units"] == "K"
    assert "g/d" not in found


def test_a_writer_that_goes_on_after_a_commit_keeps_its_objects_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = store.create(path, {"/d": store.Dataset(4, "i4")})
    writer = run.writer()
    expected: dict[str, Any] = {"": None, "d": np.zeros(4, "i4")}
    writer["d"][...] = 0
    # Names before the existing ones: a full rewrite changes all addresses each time.
    for number in range(12, 0, -1):
        name = f"g{number:02}"
        group = writer.create_group(name)
        group.attrs["number"] = number
        writer.structure[f"{name}/text"] = f"text {number}"
        expected |= {name: None, f"{name}@number": number, f"{name}/text": f"text {number}".encode()}
        run.commit([writer.flush()])
        found = tree(path)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            np.testing.assert_array_equal(found[key], value, err_msg=key)


def test_edits_of_a_store_without_datasets_of_its_own_stay(tmp_path: Path) -> None:
    # Only bytes that no object owns identify such a file as a store.
    path = tmp_path / "a.h5"
    run = store.create(path, {})
    with run.writer() as writer:
        writer.structure["host"] = "node1"
    run.commit()
    for number in range(3):
        with h5py.File(path, "r+") as file:
            file[f"added{number}"] = f"by h5py {number}"
            if number:
                del file[f"added{number - 1}"]
        with run.writer() as writer:
            writer.attrs["number"] = number
        run.commit()
        with h5py.File(path) as file:
            assert set(file) == {"host", f"added{number}"}
            assert file.attrs["number"] == number


def test_a_file_that_is_none_of_the_stores_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = first(path)
    with h5py.File(path, "w") as file:
        file["mine"] = 1
    with run.writer() as writer:
        writer.attrs["more"] = 1
    with pytest.raises(ValueError, match=r"got another HDF5 file.* move it away"):
        run.commit()
    with h5py.File(path) as file:
        assert set(file) == {"mine"}
    path.rename(tmp_path / "mine.h5")
    run.commit()
    assert tree(path)["@more"] == 1
    np.testing.assert_array_equal(tree(path)["g/d"], 1)


def test_link_keeps_what_was_edited_since_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = first(path)
    with h5py.File(path, "r+") as file:
        file["added"] = 2
        file.attrs["a"] = 1
        del file["host"]
    subprocess.run([HYPERCHUNK, "store", "link", str(path)], check=True, timeout=60)
    found = tree(path)
    assert (found["added"], found["@a"]) == (2, 1)
    assert "host" not in found
    with run.writer() as writer:
        writer.attrs["b"] = 1
    run.commit()
    found = tree(path)
    assert (found["added"], found["@a"], found["@b"]) == (2, 1, 1)
    assert "host" not in found
    np.testing.assert_array_equal(found["g/d"], 1)


@pytest.mark.parametrize("wrap", [lambda ticket: ticket, lambda ticket: bytearray(ticket), lambda ticket: ["run"]])
def test_tickets_that_are_no_list_of_tickets(tmp_path: Path, wrap: Callable[[bytes], Any]) -> None:
    run = store.create(tmp_path / "a.h5", {"/x": store.Dataset((4,), "i4")})
    with run.writer() as writer:
        writer["/x"][:] = 1
        ticket = writer.close()
    with pytest.raises(TypeError, match="ticket"):
        run.commit(wrap(ticket))
    assert run.commit([ticket]).number == 1
