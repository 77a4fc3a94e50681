"""The exceptions of hyperchunk. Each is also the built-in exception that comes closest."""

from __future__ import annotations


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
