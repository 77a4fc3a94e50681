"""Inputs with data outside the file, or computed from such data: they may change while the file is open."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import run_python

FIRST = 'def dynamic_dataset():\n    lib.array("out")[...] = lib.array("a")[0]\n'


def virtual(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((8,), "f8")
    layout[...] = h5py.VirtualSource(other, "x", (8,))
    file.create_virtual_dataset("a", layout)


def external(file: h5py.File, other: Path) -> None:
    file.create_dataset("a", (8,), "f8", external=[(other.with_suffix(".bin"), 0, 64)])


def link(file: h5py.File, other: Path) -> None:
    file["a"] = h5py.ExternalLink(other, "x")


def live(file: h5py.File, other: Path) -> None:
    file["link"] = h5py.ExternalLink(other, "x")


@pytest.mark.parametrize("reader", ["h5py", "hyperchunk"])
@pytest.mark.parametrize("how", [virtual, external, link, live])
def test_what_changes_outside_is_read_again(
    how: Callable[[h5py.File, Path], None], reader: str, tmp_path: Path, attach: Any
) -> None:
    """A worker keeps whole inputs from block to block, as long as they cannot change."""
    other, file = tmp_path / "other.h5", tmp_path / "main.h5"
    with h5py.File(other, "w") as opened:
        opened["x"] = np.zeros(8)
    raw = other.with_suffix(".bin")
    np.zeros(8).tofile(raw)
    with h5py.File(file, "w") as opened:
        how(opened, other)
    if how is live:
        hyperchunk.udf.attach(file, outputs="a", expression="link + 0")
    attach(file, "py", FIRST, "out:4:double", chunks="2")
    change = f"import h5py; f = h5py.File({str(other)!r}, 'r+', locking=False); f['x'][...] = 5; f.close()"
    hyperchunk.plugins.enable()
    with h5py.File(file) if reader == "h5py" else hyperchunk.open(file) as opened:
        assert opened["out"][:2].tolist() == [0, 0]
        run_python(change, other)
        np.full(8, 5.0).tofile(raw)
        if isinstance(opened, hyperchunk.File) and how in (virtual, link, live):
            # An HDF5 file that was written after it was opened.
            with pytest.raises(hyperchunk.exceptions.ReadError, match="written to since"):
                opened["a"][0]
            opened.refresh()
        assert opened["a"][0] == 5
        assert opened["out"][2:].tolist() == [5, 5]
