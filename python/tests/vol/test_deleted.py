"""A dataset deleted by one writer while another writes to it: the written data stay, and the conflict is reported."""

import itertools
from pathlib import Path

import h5py
import hyperchunk
import pytest
from hyperchunk import store

from vol import helpers

WRITE = {
    "api": """
        from hyperchunk import store
        with store.open("a.h5").writer() as w:
            w["/g/x"][1:3] = 5
    """,
    "api with structure": """
        from hyperchunk import store
        with store.open("a.h5").writer() as w:
            w["/g/x"][1:3] = 5
            w.attrs["other"] = 1
    """,
    "connector": """
        import h5py
        with h5py.File("a.h5", "r+") as f:
            f["g/x"][1:3] = 5
    """,
}

DELETE = {
    "dataset": 'import h5py\nwith h5py.File("a.h5", "r+") as f: del f["g/x"]\n',
    "group": 'import h5py\nwith h5py.File("a.h5", "r+") as f: del f["g"]\n',
}


def make(folder: Path) -> store.Store:
    run = store.create(folder / "a.h5", {"/g/x": store.Dataset((4,), "i4"), "/y": store.Dataset((4,), "i4")})
    with run.writer() as writer:
        writer["/g/x"][...] = 1
        writer["/y"][...] = 2
    run.commit()
    return run


@pytest.mark.parametrize(("how", "what", "_"), list(itertools.product(WRITE, DELETE, range(3))))
def test_what_was_written_stays(tmp_path: Path, how: str, what: str, _: int) -> None:
    # Two writers are ordered by their ids, which are random.
    run = make(tmp_path)
    env = hyperchunk.plugins.environment(store=True, commit="manual")
    for one in [helpers.start(code, folder=tmp_path, env=env) for code in (WRITE[how], DELETE[what])]:
        helpers.finish(one)
    with pytest.raises(ValueError, match="/g"):
        run.commit()
    with pytest.warns(store.StoreWarning, match="one deleted it, the other changed it"):
        epoch = run.commit(on_conflict="warn")
    assert epoch is not None
    assert [conflict.path in ("/g", "/g/x") for conflict in epoch.conflicts] == [True]
    for library in (h5py.File, hyperchunk.open):
        with library(tmp_path / "a.h5") as file:
            assert file["g/x"][...].tolist() == [1, 5, 5, 1]
            assert file["y"][...].tolist() == [2, 2, 2, 2]


def test_who_deletes_what_they_wrote_disagrees_with_nobody(tmp_path: Path) -> None:
    run = make(tmp_path)
    env = hyperchunk.plugins.environment(store=True, commit="manual")
    code = 'import h5py\nwith h5py.File("a.h5", "r+") as f:\n    f["g/x"][1:3] = 5\n    del f["g/x"]\n'
    for one in [helpers.start(code, folder=tmp_path, env=env) for _ in range(2)]:
        helpers.finish(one)
    epoch = run.commit()
    assert epoch is not None
    assert not epoch.conflicts
    with h5py.File(tmp_path / "a.h5") as file:
        assert list(file["g"]) == []
