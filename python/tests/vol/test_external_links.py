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


def test_a_link_to_a_store_that_the_process_writes_shows_what_it_wrote(tmp_path: Path) -> None:
    """As with plain HDF5, the link and the file itself are the same objects."""
    program = """
        import h5py, numpy as np
        with h5py.File("d.h5", "w") as d:
            d.create_dataset("x", data=[1, 2], maxshape=(None,), chunks=(2,))
            d.create_dataset("g/y", data=[5])
            d["text"], d.attrs["n"] = ["a", "b"], 1
        with h5py.File("m.h5", "w") as m:
            m["all"] = h5py.ExternalLink("d.h5", "/")
            m["x"] = h5py.ExternalLink("d.h5", "/x")
        for mode in "r", "r+":
            with h5py.File("d.h5", "r+") as d, h5py.File("m.h5", mode) as m:
                d["x"].resize((3,))
                d["x"][0], d["x"][2], d["text"][0], d.attrs["n"] = 9, 7, "new", d.attrs["n"] + 1
                d["new" + mode] = 5
                d.pop("g", None)
                linked = m["all"]
                print(m["x"][:], m["x"].shape, linked["text"].asstr()[:], linked.attrs["n"], sorted(linked))
                if mode == "r+":
                    m["x"][1] = 77
                    linked.attrs["n"], linked["through"] = 8, 3
                    print(d["x"][:], d.attrs["n"], d["through"][()])
                copied = m.file.filename if mode == "r" else m.copy("x", "copy", expand_external=True)
                if mode == "r+":
                    print(m["copy"][:])
        with h5py.File("d.h5") as d:
            print(d["x"][:], d["text"].asstr()[:], d.attrs["n"], sorted(d))
        """
    outputs = []
    for name, options in {"plain": {"native": True}, "store": {"store": True}}.items():
        (tmp_path / name).mkdir()
        outputs.append(helpers.run(program, folder=tmp_path / name, **options))
    assert outputs[0] == outputs[1]
