"""Filters."""

from __future__ import annotations

from hyperchunk import _core
from hyperchunk.exceptions import UnsupportedError
from hyperchunk.h5py._objects import missing

CLASS_T_VERS = 1
ERROR_EDC, DISABLE_EDC, ENABLE_EDC, NO_EDC = -1, 0, 1, 2
FILTER_ERROR, FILTER_NONE, FILTER_ALL = -1, 0, 0
FILTER_DEFLATE, FILTER_SHUFFLE, FILTER_FLETCHER32, FILTER_SZIP, FILTER_NBIT, FILTER_SCALEOFFSET = 1, 2, 3, 4, 5, 6
FILTER_RESERVED, FILTER_MAX, FILTER_LZF = 256, 65535, 32000
FILTER_CONFIG_ENCODE_ENABLED, FILTER_CONFIG_DECODE_ENABLED = 1, 2
FLAG_MANDATORY, FLAG_OPTIONAL, FLAG_DEFMASK, FLAG_REVERSE, FLAG_SKIP_EDC, FLAG_INVMASK = 0, 1, 255, 256, 512, 65280
SO_FLOAT_DSCALE, SO_FLOAT_ESCALE, SO_INT, SO_INT_MINBITS_DEFAULT = 0, 1, 2, 0
SZIP_ALLOW_K13_OPTION_MASK, SZIP_CHIP_OPTION_MASK, SZIP_EC_OPTION_MASK, SZIP_NN_OPTION_MASK = 1, 2, 4, 32
SZIP_MAX_PIXELS_PER_BLOCK = 32


def filter_avail(filter_code: int) -> bool:
    """Returns whether a filter is available."""
    if not 0 <= filter_code <= FILTER_MAX:
        raise ValueError(f"expected a number of a filter, 0 to {FILTER_MAX}, got {filter_code}")
    return bool(_core.knows_filter(filter_code))


def get_filter_info(filter_code: int) -> int:
    """Returns whether a filter can encode and decode, as ``FILTER_CONFIG_…`` bits.

    Raises:
        RuntimeError: There is no such filter.
    """
    if not filter_avail(filter_code):
        raise RuntimeError(f"Filter info not retrieved (filter {filter_code} is not available)")
    return FILTER_CONFIG_ENCODE_ENABLED | FILTER_CONFIG_DECODE_ENABLED


def register_filter(cls_pointer_address: int) -> bool:
    """Raises an error: filters of libhdf5 cannot be called. :func:`hyperchunk.register_filter` takes functions."""
    raise UnsupportedError(
        "h5z.register_filter: a filter of libhdf5 cannot be called without it; hyperchunk.register_filter takes a "
        "Python function"
    )


def _register_lzf() -> None:
    """Does nothing: LZF is built in."""


_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
