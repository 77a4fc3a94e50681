"""Virtual datasets whose sources are in stores: what libhdf5 would read or write wrongly is an error."""

from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest

from vol import helpers

MAKE = """
import h5py, sys, numpy as np
SOURCE = sys.argv[1]
with h5py.File("other.h5", "w") as file:
    file["x"] = np.arange(4)
with h5py.File("a.h5", "w") as file:
    file["x"], file["y"] = np.arange(4), np.arange(4)
    layout = h5py.VirtualLayout((4,), "i8")
    layout[:] = h5py.VirtualSource(SOURCE, "x", (4,))
    file.create_virtual_dataset("v", layout)
"""

#: Programs between the open and the read of a virtual dataset, and whether it is read.
CHANGES = {
    "nothing": ("", True),
    "another dataset": ("file['y'][0] = 9", True),
    "the source": ("other['x'][0] = 9", False),
    "the source, flushed": ("other['x'][0] = 9; other.flush()", False),
    "the source, made anew": ("del other['x']; other['x'] = np.arange(4)", False),
}


@pytest.mark.parametrize("source", [".", "other.h5"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_was_changed_is_not_read(source: str, change: str, tmp_path: Path) -> None:
    code, is_read = CHANGES[change]
    program = f"""
        file = h5py.File("a.h5", "r+")
        other = file if SOURCE == "." else h5py.File(SOURCE, "r+")
        {code}
        try:
            print(file["v"][:].tolist())
        except OSError as error:
            print(error)
        if other is not file:
            other.close()
        file.close()
        with h5py.File("a.h5") as file:
            print(file["v"][:].tolist())
        """
    told = helpers.run(MAKE + helpers.dedent(program), source, folder=tmp_path, store=True)
    during, after = told.splitlines()
    assert during == "[0, 1, 2, 3]" if is_read else "cannot read the virtual dataset" in during, during
    expected = np.arange(4)
    if "[0] = 9" in code and "'y'" not in code:
        expected[0] = 9
    assert after == str(expected.tolist())
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["v"][...].tolist() == expected.tolist()


@pytest.mark.parametrize("source", [".", "other.h5"])
def test_a_write_through_a_virtual_dataset_does_not_reach_the_logs(source: str, tmp_path: Path) -> None:
    program = """
        with h5py.File("a.h5", "r+") as file:
            try:
                file["v"][1] = 77
            except OSError as error:
                print(error)
        """
    told = helpers.run(MAKE + helpers.dedent(program), source, folder=tmp_path, store=True)
    assert "cannot write through the virtual dataset: its source x is in" in told
    for name in "a.h5", "other.h5":
        with hyperchunk.open(tmp_path / name) as file:
            assert file["x"][...].tolist() == [0, 1, 2, 3]
