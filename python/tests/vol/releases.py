"""Releases of libhdf5 other than h5py's: of other packages' wheels, and those that tools/hdf5_releases.py fetched."""

import importlib.util
import os
from pathlib import Path

import pytest

# Whose wheel has which: 1.14.6 that of arraymorph, 2.2.0 that of netCDF4.
RELEASES = [("arraymorph", "1.14."), ("netCDF4", "2.")]


def library(package: str) -> Path:
    """The libhdf5 of a package's wheel; skips where there is none."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    folder = Path(spec.origin).parent.parent / f"{package.lower()}.libs"
    found = [
        path for path in sorted(folder.glob("libhdf5*")) if not path.name.startswith(("libhdf5_hl", "libhdf5_cpp"))
    ]
    if not found:
        pytest.skip(f"{package} carries no libhdf5")
    return found[0]


def fetched() -> dict[str, Path]:
    """The libhdf5 of each release in the folder that HYPERCHUNK_HDF5_RELEASES names."""
    root = os.environ.get("HYPERCHUNK_HDF5_RELEASES")
    if root is None:
        return {}
    found = {folder.name: sorted(folder.glob("libhdf5[-.]*")) for folder in sorted(Path(root).iterdir())}
    assert found, f"HYPERCHUNK_HDF5_RELEASES: no releases in {root}"
    return {version: libraries[0] for version, libraries in found.items()}
