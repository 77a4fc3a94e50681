"""h5py's warning categories."""

from __future__ import annotations


class H5pyWarning(UserWarning):
    """Category of h5py's warnings."""


class H5pyDeprecationWarning(H5pyWarning):
    """A warning about a name that h5py plans to remove."""
