"""Objects keep their identity over the sessions of a store: moves, additional names, references."""

from pathlib import Path

import h5py
import hyperchunk
import hyperchunk.store

from vol import helpers

FIRST = """
    import h5py, numpy as np
    with h5py.File("a.h5", "w") as f:
        f.create_dataset("s0", data="text")
        f.create_dataset("d", data=np.arange(4))
        f.create_dataset("e", data=np.arange(3))
        f.create_dataset("strings", data=["a", "b"])
        f.create_group("g").create_group("below").attrs["k"] = 1
        f["refs"] = np.array([f[name].ref for name in ("s0", "d", "strings", "g/below")], h5py.ref_dtype)
        f.attrs["ref"] = f["g/below"].ref
        f["regions"] = np.array([f["d"].regionref[1:3]], h5py.regionref_dtype)
"""


def names(path: Path) -> list[str]:
    """Returns the targets of the references in the file."""
    with h5py.File(path) as f:
        found = [f[reference].name for reference in f["refs"][:]]
        found.append(f[f.attrs["ref"]].name)
        region = f["regions"][0]
        found.append(f[region].name)
        assert f[region][region].tolist() == [1, 2]
        return found


def change(folder: Path, code: str) -> Path:
    """Returns the file after a first session and a second one that runs `code`."""
    helpers.run(FIRST, folder=folder, store=True)
    second = f'import h5py\nwith h5py.File("a.h5", "r+") as f:\n    {code}\n'
    helpers.run(second, folder=folder, store=True)
    return folder / "a.h5"


def test_further_names_of_committed_objects_are_names_of_one(tmp_path: Path) -> None:
    path = change(tmp_path, 'f["a0"] = f["s0"]; f["g/a1"] = f["d"]; f["a2"] = f["g"]; f["a3"] = f["strings"]')
    with h5py.File(path) as f:
        for one, other in [("a0", "s0"), ("g/a1", "d"), ("a2", "g"), ("a3", "strings")]:
            assert f[one] == f[other], (one, other)
    with hyperchunk.open(path) as f:
        assert f["a0"] == f["s0"]


def test_references_follow_moves(tmp_path: Path) -> None:
    path = change(
        tmp_path,
        'f.move("s0", "z0"); f.move("d", "g/moved"); f.move("strings", "a1"); f.move("g", "h")',
    )
    assert names(path) == ["/z0", "/h/moved", "/a1", "/h/below", "/h/below", "/h/moved"]
    with h5py.File(path) as f:
        assert set(f) == {"z0", "e", "a1", "h", "refs", "regions"}
        assert f["h/below"].attrs["k"] == 1
        assert f["h/moved"][:].tolist() == [0, 1, 2, 3]


def test_two_objects_change_places(tmp_path: Path) -> None:
    path = change(tmp_path, 'f.move("d", "tmp"); f.move("e", "d"); f.move("tmp", "e"); f["d"].attrs["was"] = "e"')
    with h5py.File(path) as f:
        assert f["d"][:].tolist() == [0, 1, 2]
        assert f["e"][:].tolist() == [0, 1, 2, 3]
        assert dict(f["d"].attrs) == {"was": "e"}
        assert dict(f["e"].attrs) == {}
    assert names(path) == ["/s0", "/e", "/strings", "/g/below", "/g/below", "/e"]


def test_a_name_that_leads_to_a_new_object(tmp_path: Path) -> None:
    path = change(tmp_path, 'del f["s0"]; f["s0"] = "other"; del f["g"]; f.create_group("g").attrs["new"] = 2')
    with h5py.File(path) as f:
        assert f["s0"].asstr()[()] == "other"
        assert list(f["g"]) == []
        assert dict(f["g"].attrs) == {"new": 2}


def test_a_file_is_joined_before_any_writer_has_flushed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    run = hyperchunk.store.create(path, {})
    writer = run.writer()
    helpers.run('import h5py\nwith h5py.File("a.h5", "r+") as f:\n    f["x"] = [1, 2]\n', folder=tmp_path, store=True)
    writer.create_group("g")
    writer.close()
    run.commit()
    with h5py.File(path) as f:
        assert f["x"][:].tolist() == [1, 2]
        assert "g" in f


def test_objects_made_again_under_a_name_that_moved_are_others(tmp_path: Path) -> None:
    """New objects under the name of a moved one look the same, but are different objects."""
    first = """
        import h5py
        with h5py.File("a.h5", "w") as f:
            f["cfg"], f["text"], f["vlen"] = 3, "x", ["a", "b"]
            f.create_group("cur/below").attrs["v"] = 1
            f.create_group("old")
    """
    second = """
        import h5py
        with h5py.File("a.h5", "r+") as f:
            f["backup"] = f["cfg"]
            del f["cfg"]
            f.move("text", "old/text")
            f.move("vlen", "a_vlen")
            f.move("cur", "old/cur")
            f["cfg"], f["text"], f["vlen"] = 3, "x", ["a", "b"]
            f.create_group("cur/below").attrs["v"] = 1
    """
    third = """
        import h5py
        with h5py.File("a.h5", "r+") as f:
            f["cfg"][()] = 4
            f["vlen"][0] = "new"
            f["cur/below"].attrs["v"] = 2
            f["cur/more"] = 1
    """
    for code in (first, second, third):
        helpers.run(code, folder=tmp_path, store=True)
    with h5py.File(tmp_path / "a.h5") as f:
        assert (f["backup"][()], f["cfg"][()]) == (3, 4)
        assert f["text"] != f["old/text"]
        assert (f["a_vlen"].asstr()[0], f["vlen"].asstr()[0]) == ("a", "new")
        assert (f["old/cur/below"].attrs["v"], f["cur/below"].attrs["v"]) == (1, 2)
        assert list(f["old/cur"]) == ["below"]


def test_a_writing_session_sees_what_plain_programs_changed(tmp_path: Path) -> None:
    first = """
        import h5py
        with h5py.File("a.h5", "w") as f:
            f["d"], f["s"], f["t"], f.attrs["n"] = [0.0, 1, 2], 1, 0, 0
            f["lin"] = ["a", "b"]
    """
    plain = """
        import h5py
        with h5py.File("a.h5", "r+") as f:
            f.attrs["n"] += 1
            f["s"][()] = 5
            f["lin"][0] = "plain"
            f.move("lin", "lin2")
            f["new"] = [0, 1]
            del f["d"]
            f["d"] = [50, 51, 52]
    """
    second = """
        import h5py
        with h5py.File("a.h5", "a") as f:
            f.attrs["n"] += 1
            f["t"][()] = f["s"][()] * 10
            f["lin2"][1] = f["lin2"][0] + b"!"
            assert f.require_dataset("new", (2,), "i8")[:].tolist() == [0, 1]
            f["d"][0] = 1
    """
    helpers.run(first, folder=tmp_path, store=True)
    helpers.run(plain, folder=tmp_path, native=True)
    helpers.run(second, folder=tmp_path, store=True)
    with h5py.File(tmp_path / "a.h5") as f:
        assert (f.attrs["n"], f["t"][()]) == (2, 50)
        assert f["lin2"].asstr()[:].tolist() == ["plain", "plain!"]
        assert "lin" not in f
        assert f["new"][:].tolist() == [0, 1]
        assert f["d"][:].tolist() == [1, 51, 52]


def test_a_dimension_scale_is_deleted_and_made_again(tmp_path: Path) -> None:
    first = """
        import h5py
        with h5py.File("a.h5", "w") as f:
            f["x"], f["y"], f["d"], f["e"] = [0.0, 1, 2], [0.0, 1, 2], [5, 6, 7], [8, 9, 10]
            for scale, data in (("x", "d"), ("y", "d"), ("y", "e")):
                f[scale].make_scale(scale)
                f[data].dims[0].attach_scale(f[scale])
    """
    second = 'import h5py\nwith h5py.File("a.h5", "a") as f:\n    del f["x"], f["e"]\n'
    third = """
        import h5py
        with h5py.File("a.h5", "a") as f:
            assert [scale.name for scale in f["d"].dims[0].values()] == ["/y"]
            f["x"], f["e"] = [1.0, 2, 3], [1, 2, 3]
            f["x"].make_scale("x")
            f["d"].dims[0].attach_scale(f["x"])
            f["e"].dims[0].attach_scale(f["y"])
            f["e"].dims[0].attach_scale(f["x"])
    """
    for code in (first, second, third):
        helpers.run(code, folder=tmp_path, store=True)
    with h5py.File(tmp_path / "a.h5") as f:
        assert [scale.name for scale in f["d"].dims[0].values()] == ["/y", "/x"]
        assert [scale.name for scale in f["e"].dims[0].values()] == ["/y", "/x"]
        for scale in "xy":
            assert sorted(f[entry[0]].name for entry in f[scale].attrs["REFERENCE_LIST"]) == ["/d", "/e"]


def test_an_attribute_that_is_made_again_is_the_last_one(tmp_path: Path) -> None:
    first = """
        import h5py
        with h5py.File("a.h5", "w", track_order=True) as f:
            f.create_group("g", track_order=True)
            f.create_dataset("d", (2,), "i4", track_order=True)
            for thing in (f, f["g"], f["d"]):
                for name in "zyxabc":
                    thing.attrs[name] = name
    """
    second = """
        import h5py
        with h5py.File("a.h5", "a") as f:
            for thing in (f, f["g"], f["d"]):
                thing.attrs["y"] = 5
                del thing.attrs["a"]
                thing.attrs["new"] = 1
                thing.attrs["a"] = 2
    """
    orders = {}
    for native in (True, False):
        for code in (first, second):
            helpers.run(code, folder=tmp_path, store=True, native=native)
        with h5py.File(tmp_path / "a.h5") as f:
            orders[native] = [list(thing.attrs) for thing in (f, f["g"], f["d"])]
        (tmp_path / "a.h5").unlink()
    assert orders[False] == orders[True]
