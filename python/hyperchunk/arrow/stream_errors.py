"""Errors of streams that pyarrow reads: Arrow's C interface passes on their texts, but not their classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hyperchunk import _core
from hyperchunk.exceptions import HyperchunkError, also


@contextmanager
def own_errors() -> Iterator[None]:
    """Raises errors of a stream as instances of their own class and pyarrow's."""
    _core.take_stream_error()
    try:
        yield
    except Exception as error:
        found = _core.take_stream_error()
        if not isinstance(found, HyperchunkError):
            raise
        raise also(found, type(error)) from None
