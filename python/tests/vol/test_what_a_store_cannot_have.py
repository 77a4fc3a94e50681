"""Objects that the file of a commit cannot hold are refused at their creation: the rest of the session is committed."""

from pathlib import Path

import h5py
import pytest

from vol import helpers

REFUSED = {
    "group": 'f.create_group("m" * 70000)',
    "group below": 'f.create_group("a/" + "m" * 65000 + "/b")',
    "ordered group": 'f.create_group("g", track_order=True).create_group("m" * 70000)',
    "dataset": 'f["m" * 70000] = [1, 2]',
    "scalar": 'f["m" * 70000] = "text"',
    "datatype": 'f["m" * 70000] = np.dtype("i4")',
    "soft link": 'f["s" * 70000] = h5py.SoftLink("/x")',
    "soft target": 'f["s"] = h5py.SoftLink("/" + "x" * 70000)',
    "external target": 'f["e"] = h5py.ExternalLink("x" * 70000, "/y")',
    "hard link": 'f["m" * 70000] = f["d"]',
    "move": 'f.move("d", "m" * 70000)',
    "copy": 'f.copy("d", "m" * 70000)',
    "attribute's name": 'f.attrs["y" * 70000] = 1',
    "attribute": 'f.attrs["b"] = np.zeros(70000, "i1")',
    "fill value": 'f.create_dataset("v", (3,), "S70000", fillvalue=b"x" * 70000)',
    "fill value of chunks": 'f.create_dataset("v", (3,), "S70000", fillvalue=b"x" * 70000, chunks=(1,))',
    "compound": 'f.create_dataset("v", (3,), [(f"field_number_{i}", "i4") for i in range(3000)])',
    "committed compound": 'f["v"] = np.dtype([(f"field_number_{i}", "i4") for i in range(3000)])',
    "enumeration": 'f.create_dataset("v", (3,), h5py.enum_dtype({f"value_{i}" * 3: i for i in range(4000)}))',
    "comment": 'h5py.h5o.set_comment(f["g0"].id, b"c" * 70000)',
}


@pytest.mark.parametrize("kind", REFUSED)
def test_it_is_refused_at_the_call(kind: str, tmp_path: Path) -> None:
    code = f"""
        import h5py, numpy as np
        with h5py.File("a.h5", "w") as f:
            f["d"], f.attrs["k"] = [1, 2], 1
            f.create_group("g0")
            try:
                {REFUSED[kind]}
            except Exception as error:
                print("refused")
            f["later"] = 2
    """
    assert helpers.run(code, folder=tmp_path, store=True) == "refused\n"
    with h5py.File(tmp_path / "a.h5") as f:
        assert {"d", "g0", "later"} <= set(f) <= {"d", "g0", "later", "g", "a"}
        assert f["d"][:].tolist() == [1, 2]
        assert dict(f.attrs) == {"k": 1}


ALLOWED = """
    import h5py, numpy as np
    with h5py.File("a.h5", "w") as f:
        f["m" * 64000] = [1, 2]
        f["s"] = h5py.SoftLink("/" + "x" * 64000)
        f.attrs["y" * 30000] = np.arange(1000)
        f.create_group("g", track_order=True).attrs["b"] = np.zeros(70000, "i1")
        f.create_dataset("v", (3,), "S60000", fillvalue=b"x" * 60000)
        f.attrs["text"] = "z" * 100000
"""


def test_what_is_just_small_enough(tmp_path: Path) -> None:
    helpers.run(ALLOWED, folder=tmp_path, store=True)
    code = """
        import h5py
        with h5py.File("a.h5") as f:
            print(f["m" * 64000][:].tolist(), len(f.get("s", getlink=True).path), f.attrs["y" * 30000].sum())
            print(len(f["v"][0]), f["v"].fillvalue == b"x" * 60000, len(f["g"].attrs["b"]), len(f.attrs["text"]))
    """
    expected = "[1, 2] 64001 499500\n60000 True 70000 100000\n"
    assert helpers.run(code, folder=tmp_path, store=True) == expected
    assert helpers.run(code, folder=tmp_path, native=True) == expected


FILLS = """
    import h5py, numpy as np
    with h5py.File("a.h5", "w") as f:
        f.create_dataset("i", (4,), "i4", fillvalue=-7)[1:3] = 1
        f.create_dataset("all", (4,), "i4", fillvalue=-7)[:] = 1
        f.create_dataset("default", (4,), "f8")[:] = 1
        f.create_dataset("text", (3,), "S5", fillvalue=b"abc")[:] = b"x"
        f.create_dataset("big", (3,), ">i2", fillvalue=300)[:] = 2
        f.create_dataset("never", (3,), "i4", fillvalue=9)
"""

LOOK = """
    import h5py
    with h5py.File("a.h5") as f:
        print([f[name].fillvalue for name in ("i", "all", "default", "text", "big", "never")])
"""


def test_fill_values_are_seen_with_and_without_the_connector(tmp_path: Path) -> None:
    helpers.run(FILLS, folder=tmp_path, native=True)
    expected = helpers.run(LOOK, folder=tmp_path, native=True)
    (tmp_path / "a.h5").unlink()
    helpers.run(FILLS, folder=tmp_path, store=True)
    assert helpers.run(LOOK, folder=tmp_path, store=True) == expected
    assert helpers.run(LOOK, folder=tmp_path, native=True) == expected
