"""Simulation of a full disk."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def short_files(size: int) -> Iterator[None]:
    """Limits the size of this process's files to `size` bytes. Python ignores `SIGXFSZ`, so the write fails. Keep the
    scope to the tested call, since the test runner writes files, too.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
