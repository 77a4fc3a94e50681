"""Warnings in h5py's name."""

from __future__ import annotations


class H5pyWarning(UserWarning):
    """A warning in h5py's name."""


class H5pyDeprecationWarning(H5pyWarning):
    """A warning about a name that h5py plans to remove."""
