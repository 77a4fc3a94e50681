"""Exceptions of hyperchunk. Each also derives from the closest built-in exception, and from the ones that h5py raises
in the same case.
"""

from __future__ import annotations

import errno
import os
from io import UnsupportedOperation


def _shown(text: str) -> str:
    """Escapes control characters, which names from a file may bring into a message; keeps line breaks."""
    if text.isprintable():
        return text
    from hyperchunk._printable import printable  # imported late: `_core` imports this module

    return "\n".join(map(printable, text.split("\n")))


def _message(error: BaseException) -> str:
    """Returns the message of an exception that is also an OSError or a KeyError, which would format it differently."""
    return _shown(Exception.__str__(error))


class HyperchunkError(Exception):
    """Base class of every failure that hyperchunk reports."""

    def __str__(self) -> str:
        return _shown(super().__str__())

    def __reduce__(self) -> tuple[object, ...]:
        if not isinstance(self, OSError) or self.errno is None:
            plain: tuple[object, ...] = Exception.__reduce__(self)  # type: ignore[assignment]
            return plain
        return from_errno, (str(self), self.errno, self.filename, type(self).__name__)


class UdfSyntaxError(HyperchunkError, ValueError):
    """A dataset description or a source cannot be parsed."""


class UnsupportedError(HyperchunkError, NotImplementedError):
    """A valid request for an unsupported feature."""


class NotFoundError(HyperchunkError, FileNotFoundError, KeyError):
    """A file, dataset, key or program does not exist."""

    __str__ = _message


class ExistsError(HyperchunkError, FileExistsError):
    """An object or file of that name already exists."""

    __str__ = _message


class InvalidRecordError(HyperchunkError, ValueError):
    """A stub or record in a file is damaged or was tampered with."""


class RefusedError(HyperchunkError, PermissionError):
    """A trust profile refuses the operation."""

    __str__ = _message


class SandboxError(HyperchunkError, PermissionError):
    """The sandbox stopped the function."""

    __str__ = _message


class LimitError(HyperchunkError, RuntimeError):
    """A limit on time, memory, depth or size was reached."""


class UdfError(HyperchunkError, RuntimeError):
    """The function itself failed: an exception, or a compiler's message."""


class WorkerError(HyperchunkError, RuntimeError):
    """The worker could not be started."""


class KeyFileError(HyperchunkError, PermissionError):
    """A key file is missing, unreadable or unsafe."""

    __str__ = _message


class NameExistsError(ExistsError, ValueError, RuntimeError):
    """An object or link of that name already exists."""


class NotHdf5Error(HyperchunkError, OSError):
    """The file has no HDF5 signature."""


class TruncatedError(HyperchunkError, OSError):
    """The file is shorter than it declares."""


class CorruptError(HyperchunkError, OSError, RuntimeError):
    """The file contradicts the HDF5 specification or itself."""


class MissingFilterError(UnsupportedError, OSError):
    """The data need a filter that is not available."""


class FilterError(HyperchunkError, OSError):
    """A filter could not be reversed: the data are damaged."""


class LockedError(HyperchunkError, BlockingIOError):
    """Another program holds a lock on the file, or the file is marked as open for writing."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = errno.EAGAIN

    __str__ = _message


class ObjectNotFoundError(HyperchunkError, KeyError):
    """No object, link or attribute of that name."""

    __str__ = _message


class SourceNotFoundError(ObjectNotFoundError, ValueError, RuntimeError):
    """The object or link to be moved or copied does not exist."""


class InvalidError(HyperchunkError, ValueError):
    """An invalid request for this object."""


class ExtentError(InvalidError, RuntimeError):
    """An extent beyond the `maxshape` of a dataset."""


class ChunkOffsetError(InvalidError, OSError):
    """No chunk begins at these indices."""

    __str__ = _message


class ReadOnlyError(UnsupportedError, UnsupportedOperation, KeyError):
    """An attempt to change a file that is open for reading."""

    __str__ = _message


class ClosedError(HyperchunkError, ValueError, RuntimeError, KeyError):
    """The file is closed."""

    __str__ = _message


class ConversionError(HyperchunkError, OSError, TypeError):
    """HDF5 has no conversion between the two datatypes."""


class ReadError(HyperchunkError, OSError):
    """The operating system refused a read or a write."""

    __str__ = _message


class AccessError(ReadError, PermissionError):
    """The system's permissions deny access."""


class IsFolderError(ReadError, IsADirectoryError):
    """A folder, where a file is needed."""


class NotFolderError(ReadError, NotADirectoryError):
    """A file, where a folder is needed."""


class FileThereError(ReadError, ExistsError):
    """A file of that name already exists."""


class ChangedError(ReadError):
    """The file changed after it was opened."""


class CudaError(HyperchunkError, RuntimeError):
    """NVIDIA's driver or a GPU is missing, or failed."""


class NewerFormatWarning(UserWarning):
    """A written feature needs a newer release of HDF5 for reading than requested."""


class LeftOutWarning(UserWarning):
    """A part of a file is omitted, since the target format or program cannot represent it."""


# Classes of system errors, by `errno`. Other numbers keep the class of the operation.
_OF_SYSTEM: dict[int, type[HyperchunkError]] = {
    errno.ENOENT: NotFoundError,
    errno.EACCES: AccessError,
    errno.EPERM: AccessError,
    errno.EISDIR: IsFolderError,
    errno.ENOTDIR: NotFolderError,
    errno.EEXIST: FileThereError,
}


def from_errno(message: str, code: int, filename: str | None, name: str) -> HyperchunkError:
    """Makes the exception of a system call that failed with `errno` `code`; `name` is the class for other numbers."""
    kind = _OF_SYSTEM.get(code, globals()[name])
    error: HyperchunkError = kind(message)
    if isinstance(error, OSError):
        error.errno, error.strerror, error.filename = code, os.strerror(code), filename
    return error


# Cache of classes that derive from one of this module and from a built-in one.
_JOINED: dict[tuple[type[HyperchunkError], type[Exception]], type[HyperchunkError]] = {}


def _joined(first: type[HyperchunkError], second: type[Exception]) -> type[HyperchunkError]:
    if (known := _JOINED.get((first, second))) is not None:
        return known
    members = {"__doc__": first.__doc__, "__module__": __name__, "__str__": _message, "__reduce__": _reduce}
    return _JOINED.setdefault((first, second), type(first.__name__, (first, second), members))


def _reduce(self: HyperchunkError) -> tuple[object, ...]:
    first, second = type(self).__bases__
    return also, (first(*self.args), second)


def also(error: HyperchunkError, second: type[Exception]) -> HyperchunkError:
    """Returns the error as an instance of a second built-in class too: the one that h5py raises here."""
    if isinstance(error, second):
        return error
    made = _joined(type(error), second)(*error.args)
    if isinstance(error, OSError) and isinstance(made, OSError):
        made.errno, made.strerror, made.filename = error.errno, error.strerror, error.filename
    return made
