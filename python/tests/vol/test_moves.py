"""References and netCDF's structure in a later session: moved and recreated objects, and references to them."""

import json
import subprocess
from pathlib import Path

import h5py
import pytest

from vol import helpers

pytest.importorskip("netCDF4")

MAKE = """
import netCDF4, numpy as np
with netCDF4.Dataset("a.nc", "w") as file:
    file.createDimension("t", None)
    file.createDimension("y", 6)
    file.createVariable("v", "f4", ("t", "y"))[:] = np.ones((5, 6))
    file.createVariable("packed", "i2", ("y",))[:] = 1
    file.createVariable("y", "f8", ("y",))[:] = np.arange(6)
    file.createVariable("last", "i4", ("t", "y"))[:] = 3
"""

CHANGES = {
    "a variable": ('file.renameVariable("packed", "pk")', {"packed": "pk"}),
    "the first": ('file.renameVariable("v", "w")', {"v": "w"}),
    "a coordinate": ('file.renameVariable("y", "latitude")', {"y": "latitude"}),
    "a dimension": ('file.renameDimension("y", "latitude")', {}),
    "both": ('file.renameDimension("y", "b"); file.renameVariable("y", "b")', {"y": "b"}),
    "twice": ('file.renameVariable("packed", "a"); file.renameVariable("last", "b")', {"packed": "a", "last": "b"}),
    "with more": (
        'file.renameVariable("packed", "pk"); file.createVariable("new", "i8", ("y",))[:] = 1; file["v"].units = "K"',
        {"packed": "pk"},
    ),
}

TELL = """
import json, sys, netCDF4
with netCDF4.Dataset(sys.argv[1]) as file:
    file.set_auto_mask(False)
    found = {k: (v.dimensions, v.shape, v[...].tolist()) for k, v in file.variables.items()}
    print(json.dumps([list(file.dimensions), found]))
"""


@pytest.mark.parametrize("kind", CHANGES)
def test_netcdf_renames_in_a_later_session(tmp_path: Path, kind: str) -> None:
    change, _ = CHANGES[kind]
    changing = f"import netCDF4\nwith netCDF4.Dataset('a.nc', 'a') as file: {change}"
    (tmp_path / "native").mkdir()
    for code in (MAKE, changing):
        helpers.run(code, folder=tmp_path / "native", native=True)
    expected = json.loads(helpers.run(TELL, "a.nc", folder=tmp_path / "native", native=True))
    for code in (MAKE, changing):
        helpers.run(code, folder=tmp_path, store=True)
    assert json.loads(helpers.run(TELL, "a.nc", folder=tmp_path, store=True)) == expected
    command = [helpers.command(), "store", "pack", "a.nc", "packed.nc"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert json.loads(helpers.run(TELL, "packed.nc", folder=tmp_path, native=True)) == expected


def test_references_lead_to_what_was_moved(tmp_path: Path) -> None:
    helpers.run(
        """
        import h5py, numpy as np
        with h5py.File("a.h5", "w", track_order=True) as file:
            x = file.create_dataset("x", data=np.arange(10))
            y = file.create_dataset("g/y", data=np.arange(5))
            file.attrs["refs"] = np.array([x.ref, y.ref], dtype=h5py.ref_dtype)
            file.attrs.create("region", x.regionref[2:4], dtype=h5py.regionref_dtype)
            refs = file.create_dataset("refs", (2,), dtype=h5py.ref_dtype)
            refs[...] = [x.ref, y.ref]
        """,
        folder=tmp_path,
        store=True,
    )
    for change in ('file.move("x", "g/moved")', 'file.move("g/moved", "x2"); file.move("g", "h")', 'file["x2"][0] = 7'):
        code = f"import h5py\nwith h5py.File('a.h5', 'r+') as file: {change}"
        helpers.run(code, folder=tmp_path, store=True)
    with h5py.File(tmp_path / "a.h5") as file:
        for refs in (file.attrs["refs"], file["refs"][...]):
            assert [file[ref].name for ref in refs] == ["/x2", "/h/y"]
        assert file["x2"][file.attrs["region"]].tolist() == [2, 3]
        assert file["x2"][:3].tolist() == [7, 1, 2]
