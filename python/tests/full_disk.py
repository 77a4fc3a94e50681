"""A disk that is full, as a program sees it."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def short_files(size: int) -> Iterator[None]:
    """Files of this process get no longer than `size` bytes. Python ignores `SIGXFSZ`; the write fails.
    Not for longer than the call that is tried, since the test runner writes files, too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
