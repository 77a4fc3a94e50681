"""The exceptions of hyperchunk. Each is also the built-in exception that comes closest."""

from __future__ import annotations

import errno


class HyperchunkError(Exception):
    """Any failure that hyperchunk reports."""


class UdfSyntaxError(HyperchunkError, ValueError):
    """A dataset description or a source cannot be understood."""


class UnsupportedError(HyperchunkError, NotImplementedError):
    """A valid request for something that is not supported."""


class NotFoundError(HyperchunkError, FileNotFoundError, KeyError):
    """A file, dataset, key or program does not exist."""

    __str__ = Exception.__str__


class ExistsError(HyperchunkError, FileExistsError):
    """Something of that name is there already."""

    __str__ = Exception.__str__


class InvalidRecordError(HyperchunkError, ValueError):
    """A stub or record in a file is damaged or was tampered with."""


class RefusedError(HyperchunkError, PermissionError):
    """A trust profile does not allow it."""

    __str__ = Exception.__str__


class SandboxError(HyperchunkError, PermissionError):
    """The sandbox stopped the function."""

    __str__ = Exception.__str__


class LimitError(HyperchunkError, RuntimeError):
    """A limit on time, memory, depth or size was reached."""


class UdfError(HyperchunkError, RuntimeError):
    """The function itself failed: an exception, or a compiler's message."""


class WorkerError(HyperchunkError, RuntimeError):
    """The worker could not be started."""


class KeyFileError(HyperchunkError, PermissionError):
    """A key file is missing, unreadable or unsafe."""

    __str__ = Exception.__str__


class NotHdf5Error(HyperchunkError, OSError):
    """The file has no HDF5 signature."""


class TruncatedError(HyperchunkError, OSError):
    """The file ends before what it declares."""


class CorruptError(HyperchunkError, OSError, RuntimeError):
    """The file contradicts the HDF5 specification or itself."""


class MissingFilterError(UnsupportedError, OSError):
    """The data went through a filter that is not known here."""


class FilterError(HyperchunkError, OSError):
    """A filter could not undo what it did: the data are damaged."""


class LockedError(HyperchunkError, BlockingIOError):
    """Another program has the file locked, or it is marked as open for writing."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = errno.EAGAIN

    __str__ = Exception.__str__


class ObjectNotFoundError(HyperchunkError, KeyError):
    """No object, link or attribute of that name."""

    __str__ = Exception.__str__


class InvalidError(HyperchunkError, ValueError):
    """A request that makes no sense for this object."""


class ClosedError(HyperchunkError, ValueError):
    """The file is closed."""


class ConversionError(HyperchunkError, OSError, TypeError):
    """HDF5 has no conversion between the two datatypes."""


class ReadError(HyperchunkError, OSError):
    """The operating system refused to read."""


class ChangedError(ReadError):
    """The file is not the one that was opened: it was written in between."""


class CudaError(HyperchunkError, RuntimeError):
    """NVIDIA's driver or a GPU is missing, or failed."""


class NewerFormatWarning(UserWarning):
    """Something that is written needs a newer release of HDF5 to be read than was asked for."""


class LeftOutWarning(UserWarning):
    """Something of a file is not shown, since the program that asks for it cannot say it."""
