"""Settings of the library, and orders of iteration."""

from __future__ import annotations

from hyperchunk.exceptions import UnsupportedError
from hyperchunk.h5py._objects import missing, phil, with_phil
from hyperchunk.h5py.h5py_warnings import H5pyDeprecationWarning

INDEX_NAME, INDEX_CRT_ORDER = 0, 1
ITER_INC, ITER_DEC, ITER_NATIVE = 0, 1, 2
#: Release of HDF5 whose files this package writes and reads.
HDF5_VERSION_COMPILED_AGAINST = (2, 0, 0)
NUMPY_VERSION_COMPILED_AGAINST = "2.0"
CYTHON_VERSION_COMPILED_WITH = "none"


class ByteStringContext:
    """Holds a setting of old releases of h5py: whether strings are read as bytes. Without effect."""

    def __init__(self) -> None:
        self._depth = 0

    def __bool__(self) -> bool:
        return self._depth > 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1


class H5PYConfig:
    """Settings: :func:`get_config` returns the only one."""

    _r_name, _i_name = b"r", b"i"
    #: Names of the two values of booleans.
    bool_names: tuple[bytes, bytes] = (b"FALSE", b"TRUE")
    mpi = False
    ros3 = False
    direct_vfd = False
    swmr_min_hdf5_version = (1, 9, 178)
    vds_min_hdf5_version = (1, 9, 233)
    has_native_complex = True
    native_complex = False
    default_file_mode = "r"

    def __init__(self) -> None:
        self.read_byte_strings = ByteStringContext()
        self._track_order = False

    @property
    def complex_names(self) -> tuple[str, str]:
        """Names of the two parts of complex numbers: always ``("r", "i")``."""
        return "r", "i"

    @complex_names.setter
    def complex_names(self, value: tuple[str, str]) -> None:
        if not isinstance(value, tuple) or len(value) != 2:
            raise TypeError("complex_names must be a pair of names")
        if value != ("r", "i"):
            raise UnsupportedError("get_config().complex_names: complex numbers are stored as pairs of 'r' and 'i'")

    @property
    def track_order(self) -> bool:
        """Whether new groups, files and datasets track the order of creation by default."""
        return self._track_order

    @track_order.setter
    def track_order(self, value: bool) -> None:
        self._track_order = bool(value)


_config = H5PYConfig()


def get_config() -> H5PYConfig:
    """Returns the settings."""
    return _config


def get_libversion() -> tuple[int, int, int]:
    """Returns the release of HDF5 whose interface this is."""
    return HDF5_VERSION_COMPILED_AGAINST


__all__ = ["H5PYConfig", "H5pyDeprecationWarning", "get_config", "get_libversion", "phil", "with_phil"]
_missing = missing(__name__)


def __getattr__(name: str) -> object:
    return _missing(name)
