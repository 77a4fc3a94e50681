"""Releases of libhdf5 other than h5py's: from other packages' wheels, and fetched by tools/hdf5_releases.py."""

import importlib.util
import os
from pathlib import Path

import pytest

# Packages and their releases: arraymorph has 1.14.6, netCDF4 has 2.2.0.
RELEASES = [("arraymorph", "1.14."), ("netCDF4", "2.")]


def library(package: str) -> Path:
    """Returns the libhdf5 of a package's wheel; skips if it is not installed."""
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
    """Returns the libhdf5 of each release in the folder HYPERCHUNK_HDF5_RELEASES."""
    root = os.environ.get("HYPERCHUNK_HDF5_RELEASES")
    if root is None:
        return {}
    found = {folder.name: sorted(folder.glob("libhdf5[-.]*")) for folder in sorted(Path(root).iterdir())}
    assert found, f"HYPERCHUNK_HDF5_RELEASES: no releases in {root}"
    return {version: libraries[0] for version, libraries in found.items()}
