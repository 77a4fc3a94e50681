"""Registration of Python functions as decoders of HDF5 filters that are not built in."""

from __future__ import annotations

from collections.abc import Callable

from hyperchunk import _core

#: Decoder of a filter for one chunk: takes the filtered bytes, the filter's parameters, and the expected size of
#: the result (None if the preceding filters do not determine it).
Undo = Callable[[bytes, list[int], int | None], bytes]


def register_filter(number: int, decode: Undo, *, name: str = "") -> None:
    """Registers a function as the decoder of a filter, in all files of this process; replaces a built-in one.

    Args:
        number: The filter's number, as it is registered with The HDF Group, such as 32020 for VBZ.
        decode: Called with the stored bytes of a chunk, the filter's parameters and the expected size (or None);
            returns the decoded bytes. It is called from several threads; its exceptions are raised as
            :class:`~hyperchunk.exceptions.FilterError`.
        name: Name of the filter in messages and in ``filter_names`` where the file has no name.

    Example:
        >>> hyperchunk.register_filter(32020, lambda data, parameters, size: vbz.decompress(data, parameters))
    """
    _core.register_filter(number, decode, name)


__all__ = ["register_filter"]
