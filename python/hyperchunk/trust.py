"""Whose functions may do what: keys, and the profiles that they are in.

The same as ``hyperchunk trust``. Reading a live dataset never changes any of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hyperchunk import _core, _libhdf5
from hyperchunk.exceptions import KeyFileError

__all__ = ["ImportedProfile", "Key", "add", "import_profile", "ls", "move", "profiles", "revoke", "rm"]

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Key:
    """A key that somebody here knows."""

    fingerprint: str
    """``SHA256:…``, of the public key."""
    profile: str | None
    """The profile that lists it, ``"self"`` for your own; ``None`` if it was revoked."""
    revoked: str | None
    """Since when it is revoked, or ``None``."""
    name: str
    """A label."""
    email: str
    """A label."""
    shared: bool
    """Whether an administrator keeps it, for everybody on this machine."""


@dataclass(frozen=True)
class ImportedProfile:
    """A profile that was made of HDF5-UDF's rules."""

    toml: str
    """The text of its file."""
    warnings: list[str]
    """What was left out, and why."""
    name: str | None
    """Its name, unless nothing was to be written."""
    path: str | None
    """Its file, unless nothing was to be written."""


def ls() -> list[Key]:
    """Your own key, those in profiles, and those that were revoked.

    Raises:
        KeyFileError: A key's file is unsafe or damaged. Nothing that it signed runs.
    """
    keys, bad = _core.trust_list()
    if bad:
        raise KeyFileError(bad)
    return [Key(*key) for key in keys]


def profiles() -> list[str]:
    """The names of the profiles that there are."""
    return _core.trust_profiles()


def add(key: Path, profile: str, *, name: str | None = None, even_if_revoked: bool = False) -> Key:
    """Put somebody's key into a profile, and into no other: what they signed then has that profile's rights.

    Args:
        key: A public key file (ours, or HDF5-UDF's), a fingerprint, or ``"FILE:/DATASET"`` for the key that signed it.
        profile: ``"untrusted"``, ``"default"``, or one of yours.
        name: A label for yourself, instead of the one in the key.
        even_if_revoked: Trust a key again that you revoked.

    Raises:
        UdfSyntaxError: It is no key.
        NotFoundError: There is no such file, dataset or profile, or nobody signed it.
        RefusedError: It was revoked, or the profile is ``"self"``.
    """
    with _libhdf5.exclusive():
        return Key(*_core.trust_add(os.fspath(key), profile, name, even_if_revoked, _libhdf5.of_h5py()))


def move(fingerprint: str, profile: str) -> Key:
    """Put a listed key into another profile.

    Raises:
        NotFoundError: It is in none, or there is no such profile.
    """
    return Key(*_core.trust_move(fingerprint, profile))


def revoke(fingerprint: str) -> None:
    """Take all trust from a key: what it signed is refused from now on, even as a stranger's."""
    _core.trust_revoke(fingerprint)


def rm(fingerprint: str) -> None:
    """Take a key out of your profiles. It is then a stranger's.

    Raises:
        NotFoundError: It is in none of yours.
    """
    _core.trust_remove(fingerprint)


def import_profile(file: Path, name: str | None = None, *, dry_run: bool = False) -> ImportedProfile:
    """Make a profile of HDF5-UDF's rules (JSON). What has no counterpart is left out, never widened.

    Args:
        file: The rules, such as ``~/.config/hdf5-udf/lab/lab.json``.
        name: The new profile's name; without it, the file's.
        dry_run: Write nothing.

    Raises:
        ExistsError: There is a profile of that name.
    """
    toml, warnings, made, path = _core.trust_import(os.fspath(file), name, dry_run)
    return ImportedProfile(toml, warnings, made, None if path is None else os.fspath(path))
