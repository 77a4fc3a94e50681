"""Releases of libhdf5 other than h5py's: those that other packages' wheels carry."""

import importlib.util
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
