"""A dataset created through the connector is identical to one created by the API with the same properties."""

import json
from pathlib import Path
from typing import Any

import hyperchunk
import numpy as np
import pytest
from hyperchunk import store
from vol import helpers

SPECS: dict[str, tuple[Any, dict[str, Any]]] = {
    "contiguous": ("i4", {}),
    "contiguous, with a fill value": ("f8", {"fillvalue": 1.5}),
    "chunked": (">i2", {"chunks": (2,), "maxshape": (None,)}),
    "chunked, bounded": ("u1", {"chunks": (2,), "maxshape": (9,)}),
    "filtered": ("f4", {"chunks": (2,), "compression": "gzip"}),
    "filtered twice": ("f4", {"chunks": (2,), "compression": "gzip", "shuffle": True}),
    "compound": ([("a", "<i2"), ("b", ">f8")], {"chunks": (2,), "maxshape": (None,)}),
    "strings": ("S5", {}),
}


@pytest.mark.parametrize(
    ("name", "extent"),
    [(name, extent) for extent in (4, 0) for name, (_, options) in SPECS.items() if extent or "maxshape" in options],
)
def test_two_that_are_made_alike_are_one(name: str, extent: int, tmp_path: Path) -> None:
    kind, options = SPECS[name]
    dtype = np.dtype(kind)
    run = store.create(tmp_path / "a.h5", {"/z": store.Dataset((1,), "i4")})
    with run.writer() as writer:
        writer["/z"][0] = 1
    values = np.zeros(extent, dtype)
    values[:2] = np.ones(2 if extent else 0, dtype)
    code = f"""
        import h5py, numpy as np
        with h5py.File("a.h5", "r+") as f:
            f.create_dataset("e", ({extent},), np.dtype({kind!r}), **{options!r})
    """
    run.commit()
    with run.writer() as writer:
        dataset = writer.create_dataset("/e", (extent,), dtype, **options)
        if extent:
            dataset[:2] = values[:2]
    helpers.run(code, folder=tmp_path, store=True, commit="manual")
    epoch = run.commit(on_conflict="error")
    assert epoch is not None
    assert epoch.conflicts == []
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert file["e"].shape == (extent,)
        np.testing.assert_array_equal(file["e"][:2], values[:2])


@pytest.mark.parametrize(("first", "second"), [("text", "other"), (3, 2.5), (np.array([1, 2]), 2.5)])
@pytest.mark.parametrize("anew", [False, True])
def test_a_value_is_that_of_all_names(first: Any, second: Any, anew: bool, tmp_path: Path) -> None:
    run = store.create(tmp_path / "a.h5", {})
    with run.writer() as writer:
        writer.structure["g/s"] = first
    run.commit()

    def connected(code: str) -> None:
        code = f"import h5py; f = h5py.File('a.h5', 'r+'); {code}; f.close()"
        helpers.run(code, folder=tmp_path, store=True, commit="manual")
        run.commit(on_conflict="error")

    connected("f['g/other'] = f['g/s']")
    if anew:
        connected(f"del f['g/s']; f['g/s'] = {second!r}")
    else:
        with store.open(tmp_path / "a.h5").writer() as writer:
            writer.structure["g/s"] = second
        run.commit(on_conflict="error")
    with hyperchunk.open(tmp_path / "a.h5") as file:
        kept = first if anew else second
        for name, value in (("g/s", second), ("g/other", kept)):
            found = file[name]
            np.testing.assert_array_equal(found.asstr()[()] if isinstance(value, str) else found[()], value)


@pytest.mark.parametrize("other", ["a/other", "z/other", "other"])
@pytest.mark.parametrize("value", ["''", "7.5", "[1, 2]", "2.5"])
def test_what_is_made_anew_may_have_two_names(value: str, other: str, tmp_path: Path) -> None:
    """A recreated object may have two names: this is no conflict with the object that it replaces, in either order of
    names.
    """
    run = store.create(tmp_path / "a.h5", {})
    with run.writer() as writer:
        writer.structure["s"] = 2.5
        writer.create_group("a")
        writer.create_group("z")
    run.commit()
    code = f"""
        import h5py
        with h5py.File("a.h5", "r+") as file:
            del file["s"]
            file["s"] = {value}
            file[{other!r}] = file["s"]
    """
    helpers.run(code, folder=tmp_path, store=True, commit="manual")
    epoch = run.commit(on_conflict="error")
    assert epoch is not None
    assert epoch.conflicts == []
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert file["s"] == file[other]
        np.testing.assert_array_equal(file["s"][()], b"" if value == "''" else np.array(json.loads(value)))


@pytest.mark.parametrize("other", ["h", "t"])
@pytest.mark.parametrize("value", [7, "text", [1.5, 2.5]])
@pytest.mark.parametrize("between", ["", "flush", "commit", "others"])
def test_a_name_that_was_deleted_and_made_again_is_another_object(
    between: str, value: Any, other: str, tmp_path: Path
) -> None:
    """Also if both were one object in an epoch of the same writer."""
    run = store.create(tmp_path / "a.h5", {})
    writer = run.writer()
    structure = writer.structure
    structure["s"] = 5
    structure[other] = structure["s"]
    if between in ("flush", "commit"):
        ticket = writer.flush()
        if between == "commit":
            run.commit(tickets=[ticket], on_conflict="error")
    if between == "others":
        with store.open(tmp_path / "a.h5").writer() as another:
            another.structure["s"] = value
        run.commit(on_conflict="error")
    del structure["s"]
    structure["s"] = value
    writer.close()
    run.commit(on_conflict="error")
    with hyperchunk.open(tmp_path / "a.h5") as file:
        assert file["s"] != file[other]
        assert file[other][()] == 5
        found = file["s"]
        np.testing.assert_array_equal(found.asstr()[()] if isinstance(value, str) else found[()], value)


@pytest.mark.parametrize(
    "replacement",
    [
        "file.create_group('g/s')",
        "file['g/s'] = [1, 2, 3]",
        "file['h'] = 2.5; file['g/s'] = file['h']",
        "file['a'] = [1.5, 2]; file['g/s'] = file['a']",
        "file['g/s'] = h5py.SoftLink('/d')",
    ],
)
def test_an_object_replaced_by_one_writer_and_changed_by_another(replacement: str, tmp_path: Path) -> None:
    """Whichever comes first, the commit reports a conflict. Writers' ids are random, and so is their order."""
    runs = [store.create(tmp_path / f"{number}.h5", {"d": store.Dataset((2,), "i4")}) for number in range(6)]
    for run in runs:
        with run.writer() as writer:
            writer.structure["g/s"] = 2.5
        run.commit()
    code = f"""
        import h5py
        for number in range({len(runs)}):
            with h5py.File(f"{{number}}.h5", "r+") as file:
                file["g/s"].attrs["x"] = 7
            with h5py.File(f"{{number}}.h5", "r+") as file:
                del file["g/s"]
                {replacement}
    """
    helpers.run(code, folder=tmp_path, store=True, commit="manual")
    for run in runs:
        with pytest.raises(Exception, match=r"/g/s: .*nothing was committed"):
            run.commit()
        with pytest.warns(store.StoreWarning, match="/g/s"):
            epoch = run.commit(on_conflict="warn")
        assert epoch is not None
        assert [conflict.path for conflict in epoch.conflicts] == ["/g/s"]


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("again", [1, 2])
def test_a_name_that_was_moved_away_may_be_made_again(name: str, again: int, tmp_path: Path) -> None:
    """The dataset that was moved keeps its data, and the new one has none of them."""
    kind, options = SPECS[name]
    dtype = np.dtype(kind)
    run = store.create(tmp_path / "a.h5", {"/d": store.Dataset((4,), dtype, **options)})
    with run.writer() as writer:
        writer["/d"][:] = np.ones(4, dtype)
    run.commit()
    for number in range(again):
        code = f"""
            import h5py
            with h5py.File("a.h5", "r+") as f:
                f.move("d", "moved{number}")
        """
        helpers.run(code, folder=tmp_path, store=True, commit="manual")
        run.commit()
        # Two writers agree about it without communication.
        for writer in [run.writer(), run.writer()]:
            with writer:
                writer.create_dataset("/d", (4,), dtype, **options)[:1] = np.full(1, 2, dtype)
        run.commit()
    with hyperchunk.open(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["moved0"][:], np.ones(4, dtype))
        np.testing.assert_array_equal(file["d"][:1], np.full(1, 2, dtype))
        fill = np.full(3, options.get("fillvalue", 0), dtype) if dtype.kind != "S" else np.zeros(3, dtype)
        np.testing.assert_array_equal(file["d"][1:], fill)
