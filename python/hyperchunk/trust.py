"""Trust settings: keys, and the profiles to which they belong.

Equivalent to ``hyperchunk trust``. Reading a live dataset never changes these settings.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hyperchunk import _core, observing
from hyperchunk.exceptions import KeyFileError

__all__ = ["ImportedProfile", "Key", "add", "import_profile", "ls", "move", "profiles", "revoke", "rm"]

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Key:
    """A known key."""

    fingerprint: str
    """``SHA256:…``, of the public key."""
    profile: str | None
    """The profile that lists it, ``"self"`` for your own; ``None`` if it was revoked."""
    revoked: str | None
    """Time since which it is revoked, or ``None``."""
    name: str
    """A label."""
    email: str
    """A label."""
    shared: bool
    """True if it is in the machine-wide settings, which an administrator manages."""


@dataclass(frozen=True)
class ImportedProfile:
    """A profile converted from HDF5-UDF's rules."""

    toml: str
    """The text of its file."""
    warnings: list[str]
    """Rules that were left out, and the reasons."""
    name: str | None
    """Its name; ``None`` with ``dry_run``."""
    path: str | None
    """Its file; ``None`` with ``dry_run``."""


def ls() -> list[Key]:
    """Lists your own key, the keys in profiles, and revoked keys.

    Raises:
        KeyFileError: A key's file is unsafe or damaged. Functions signed by it do not run.

    Example:
        >>> [key.name for key in hyperchunk.trust.ls() if key.profile == "default"]  # doctest: +SKIP
        ['lab']
    """
    keys, bad = _core.trust_list()
    if bad:
        raise KeyFileError(bad)
    return [Key(*key) for key in keys]


def profiles() -> list[str]:
    """Lists the names of the profiles.

    Example:
        >>> "untrusted" in hyperchunk.trust.profiles()
        True
    """
    return _core.trust_profiles()


def add(key: Path, profile: str, *, name: str | None = None, even_if_revoked: bool = False) -> Key:
    """Puts a key into a profile, and into no other: functions signed by it get that profile's rights.

    Args:
        key: A public key file (ours, or HDF5-UDF's), a fingerprint, or ``"FILE:/DATASET"`` for the key that signed it.
        profile: ``"untrusted"``, ``"default"``, or one of yours.
        name: A label for your own use, instead of the one in the key.
        even_if_revoked: Trust a key again that you revoked.

    Raises:
        UdfSyntaxError: The argument is not a key.
        NotFoundError: There is no such file, dataset or profile, or the dataset is not signed.
        RefusedError: The key was revoked, or the profile is ``"self"``.

    Example:
        >>> hyperchunk.trust.add("colleague.pub", "default", name="lab")  # doctest: +SKIP
    """
    added = Key(*_core.trust_add(os.fspath(key), profile, name, even_if_revoked))
    observing.LOG.info("key %s is trusted: profile %s", added.fingerprint, profile)
    return added


def move(fingerprint: str, profile: str) -> Key:
    """Moves a listed key to another profile.

    Raises:
        NotFoundError: The key is in no profile, or there is no such profile.

    Example:
        >>> hyperchunk.trust.move("SHA256:…", "untrusted")  # doctest: +SKIP
    """
    moved = Key(*_core.trust_move(fingerprint, profile))
    observing.LOG.info("key %s is in profile %s now", moved.fingerprint, profile)
    return moved


def revoke(fingerprint: str) -> None:
    """Revokes a key: functions signed by it are refused from now on, even in the profile for unknown keys.

    Example:
        >>> hyperchunk.trust.revoke("SHA256:…")  # doctest: +SKIP
    """
    _core.trust_revoke(fingerprint)
    observing.LOG.info("key %s is revoked", fingerprint)


def rm(fingerprint: str) -> None:
    """Removes a key from your profiles. It then counts as unknown.

    Raises:
        NotFoundError: The key is in none of your profiles.

    Example:
        >>> hyperchunk.trust.rm("SHA256:…")  # doctest: +SKIP
    """
    _core.trust_remove(fingerprint)
    observing.LOG.info("key %s is no longer trusted", fingerprint)


def import_profile(file: Path, name: str | None = None, *, dry_run: bool = False) -> ImportedProfile:
    """Converts HDF5-UDF's rules (JSON) to a profile. Rules without a counterpart are omitted, never widened.

    Args:
        file: The rules, such as ``~/.config/hdf5-udf/lab/lab.json``.
        name: Name of the new profile; by default the file's.
        dry_run: Write nothing.

    Raises:
        ExistsError: A profile of that name exists.

    Example:
        >>> hyperchunk.trust.import_profile("lab.json", dry_run=True).warnings  # doctest: +SKIP
        []
    """
    toml, warnings, made, path = _core.trust_import(os.fspath(file), name, dry_run)
    return ImportedProfile(toml, warnings, made, None if path is None else os.fspath(path))
