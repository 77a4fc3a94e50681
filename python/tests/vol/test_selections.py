"""Selections that HDF5 refuses are refused in a store, too, without effect."""

from pathlib import Path

import pytest

from vol import helpers

# Arguments: selections in memory and in the file of a dataset of four elements, as slices.
PROGRAM = """
    import sys
    import h5py, numpy as np
    def space(text):
        found = h5py.h5s.create_simple((4,))
        if text == "none":
            found.select_none()
        else:
            start, stop = map(int, text.split(":"))
            found.select_hyperslab((start,), (stop - start,))
        return found
    with h5py.File("a.h5", "w") as f:
        d = f.create_dataset("d", data=np.arange(4))
        for call in (d.id.read, d.id.write):
            memory = np.full(4, 9)
            try:
                call(space(sys.argv[1]), space(sys.argv[2]), memory)
                print("done", end=" ")
            except OSError:
                print("refused", end=" ")
        print(memory.tolist(), d[:].tolist())
"""


@pytest.mark.parametrize(
    "selected", [("0:4", "none"), ("none", "0:4"), ("0:3", "0:2"), ("none", "none"), ("1:3", "2:4")]
)
def test_as_many_elements_in_memory_as_in_the_file(selected: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "native").mkdir()
    native = helpers.run(PROGRAM, *selected, folder=tmp_path / "native", native=True)
    assert helpers.run(PROGRAM, *selected, folder=tmp_path, store=True) == native
