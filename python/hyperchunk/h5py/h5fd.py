"""Drivers: names of access methods."""

from __future__ import annotations

from hyperchunk.h5py._objects import missing

MEM_DEFAULT, MEM_SUPER, MEM_BTREE, MEM_DRAW, MEM_GHEAP, MEM_LHEAP, MEM_OHDR, MEM_NTYPES = range(8)
MPIO_INDEPENDENT, MPIO_COLLECTIVE = 0, 1
LOG_LOC_READ, LOG_LOC_WRITE, LOG_LOC_SEEK, LOG_LOC_IO = 2, 4, 8, 14
LOG_FILE_READ, LOG_FILE_WRITE, LOG_FILE_IO, LOG_FLAVOR = 16, 32, 48, 64
LOG_NUM_READ, LOG_NUM_WRITE, LOG_NUM_SEEK, LOG_NUM_IO = 128, 256, 512, 1920
LOG_TIME_OPEN, LOG_TIME_READ, LOG_TIME_WRITE, LOG_TIME_SEEK = 2048, 8192, 16384, 32768
LOG_TIME_CLOSE, LOG_TIME_IO, LOG_ALLOC, LOG_ALL = 131072, 260096, 262144, 1048575
_FIRST_DRIVER = 8 << 56
CORE, FAMILY, LOG, MULTI, SEC2, STDIO = (_FIRST_DRIVER + number for number in (0, 1, 2, 3, 5, 7))
fileobj_driver = _FIRST_DRIVER + 8
# Drivers that are not available.
DIRECT = MPIO = MPIPOSIX = ROS3D = WINDOWS = -1

_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
