"""Filters that a program brings: those of plugins that are not built in."""

from __future__ import annotations

from collections.abc import Callable

from hyperchunk import _core

#: Undoes a filter for one chunk: the filtered bytes, the filter's parameters, and how many bytes should come out (None
#: where the filters before it do not tell).
Undo = Callable[[bytes, list[int], int | None], bytes]


def register_filter(number: int, decode: Undo, *, name: str = "") -> None:
    """Makes a function the one that undoes a filter, in all files of this process, in place of one that is built in.

    Args:
        number: The filter's number, as it is registered with The HDF Group, such as 32020 for VBZ.
        decode: Called with the stored bytes of a chunk, the filter's parameters and the expected size (or None);
            returns the bytes that they were made of. It is called from several threads; what it raises is a
            :class:`~hyperchunk.exceptions.FilterError`.
        name: What the filter is called in messages and in ``filter_names`` where the file has no name.

    Example:
        >>> hyperchunk.register_filter(32020, lambda data, parameters, size: vbz.decompress(data, parameters))
    """
    _core.register_filter(number, decode, name)


__all__ = ["register_filter"]
