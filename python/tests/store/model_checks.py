"""Comparison of observed contents with the model, and reads of packed stores by other programs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from store.model_tree import Tree


def without_bounds(tree: dict[str, Any]) -> dict[str, Any]:
    """Returns a tree without the maximum extents."""
    return {
        path: ("dataset", (*one[1][:2], *one[1][3:]), one[2]) if one[:1] == ("dataset",) else one
        for path, one in tree.items()
    }


def compare(expected: dict[str, Any], found: dict[str, Any], who: str, refusable: set[str] | None = None) -> None:
    """Checks that a reader sees the model's contents. `refusable` is for plain HDF5, which does not know the maximum
    extents: the datasets that it may refuse to read.
    """
    if refusable is not None:
        expected, found = without_bounds(expected), without_bounds(found)
        # Blocks of virtual datasets.
        found = {path: one for path, one in found.items() if not path.startswith("/.hyperchunk-store")}
    wrong = []
    for path in sorted(expected.keys() | found.keys()):
        want, got = expected.get(path), found.get(path)
        if want == got:
            continue
        if refusable and path in refusable and want and got and got[0] == "refused" and want[2] == got[2]:
            continue
        wrong.append(f"{path}\n    expected {want}\n    got      {got}")
    assert not wrong, f"{who}:\n  " + "\n  ".join(wrong)


def dumped(path: Path) -> None:
    """Reads a whole file with HDF5's own tool."""
    done = subprocess.run(["h5dump", path], capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, f"h5dump ended with {done.returncode}: {done.stderr}"
    assert "unable" not in done.stderr.lower(), done.stderr


def of_netcdf(tree: Tree) -> bool:
    """True if netCDF-C supports everything in a file: only hard links, no committed types, only numbers."""
    return all(
        entry.kind == "group" or (entry.values is not None and entry.values.dtype.kind in "iuf")
        for entry in tree.values()
    ) and all("empty" not in value and "|b1" not in value for entry in tree.values() for value in entry.attrs.values())


def read_by_netcdf(path: Path, tree: Tree) -> None:
    """Checks that netCDF-C reads the model's elements."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        for name, entry in tree.items():
            if entry.values is not None:
                np.testing.assert_array_equal(file[name][...], entry.values, err_msg=f"netCDF4: {name}")
