"""Link classes, for ``Group.get(name, getlink=True)``."""

from __future__ import annotations

import os

from hyperchunk.likeness import class_of_h5py


class HardLink:
    """A hard link, as ``Group.get(name, getlink=True)`` returns it.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"] = 1
        ...     isinstance(file.get("x", getlink=True), hyperchunk.HardLink)
        True
    """

    __slots__ = ()

    __class__ = class_of_h5py("HardLink")


class SoftLink:
    """A soft link: a path in the same file, which may be dangling.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["x"] = 1
        ...     file["alias"] = hyperchunk.SoftLink("/x")
        ...     int(file["alias"][()])
        1
    """

    __slots__ = ("_path",)

    __class__ = class_of_h5py("SoftLink")

    def __init__(self, path: str | bytes) -> None:
        self._path = path if isinstance(path, bytes) else str(path)

    @property
    def path(self) -> str | bytes:
        """Path of the target; bytes if it is not UTF-8."""
        return self._path

    def __repr__(self) -> str:
        return f'<SoftLink to "{self._path!s}">'


class ExternalLink:
    """An external link: a path in another file; neither needs to exist.

    Example:
        >>> with hyperchunk.open("a.h5", "w") as file:
        ...     file["elsewhere"] = hyperchunk.ExternalLink("b.h5", "/x")
        ...     file.get("elsewhere", getlink=True)
        <ExternalLink to "/x" in file "b.h5">
    """

    __slots__ = ("_filename", "_path")

    __class__ = class_of_h5py("ExternalLink")

    def __init__(self, filename: str | bytes | os.PathLike[str], path: str | bytes) -> None:
        self._filename = os.fsdecode(filename)
        self._path = path

    @property
    def path(self) -> str | bytes:
        """Path in the other file; bytes if it is not UTF-8."""
        return self._path

    @property
    def filename(self) -> str:
        """Name of the other file, as stored."""
        return self._filename

    def __repr__(self) -> str:
        return f'<ExternalLink to "{self._path!s}" in file "{self._filename}">'


class UserLink:
    """A link of an application-defined class, which only that application can follow."""

    __slots__ = ("data", "link_class")

    def __init__(self, link_class: int, data: bytes) -> None:
        #: Link class, 65 to 255.
        self.link_class = link_class
        #: Data stored by the application.
        self.data = data

    def __repr__(self) -> str:
        return f"<UserLink of class {self.link_class}>"


def from_h5py(value: object) -> object:
    """Converts a link of h5py to a class of this module; returns other values unchanged."""
    kind = type(value)
    if not kind.__module__.startswith("h5py."):
        return value
    if kind.__name__ == "SoftLink":
        return SoftLink(getattr(value, "path"))  # noqa: B009
    if kind.__name__ == "ExternalLink":
        return ExternalLink(getattr(value, "filename"), getattr(value, "path"))  # noqa: B009
    return HardLink() if kind.__name__ == "HardLink" else value
