"""Objects created through an external link into another store belong to that store."""

from pathlib import Path

import h5py

from vol import helpers


def test_datasets_through_an_external_link(tmp_path: Path) -> None:
    helpers.run(
        """
        import h5py, numpy as np
        with h5py.File("b.h5", "w") as b:
            b["g/x"] = np.ones(4)
        with h5py.File("a.h5", "w") as a:
            a["ext"] = h5py.ExternalLink("b.h5", "/g")
        with h5py.File("a.h5", "r+") as a:
            a["ext"]["new"] = np.arange(5)
            h5py.h5d.create(a.id, b"ext/low", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((2,))).write(
                h5py.h5s.ALL, h5py.h5s.ALL, np.ones(2, "i4"))
        with h5py.File("b.h5", "r+") as b, h5py.File("a.h5", "r+") as a:
            a["ext"]["both"] = np.arange(3)
            b["z"] = np.arange(3)
        """,
        folder=tmp_path,
        store=True,
    )
    with h5py.File(tmp_path / "b.h5") as file:
        found = {name: file[name][...].tolist() for name in ("g/new", "g/low", "g/both", "z")}
    assert found == {"g/new": [0, 1, 2, 3, 4], "g/low": [1, 1], "g/both": [0, 1, 2], "z": [0, 1, 2]}
