"""The HDF5 plugins of this package, and how programs find them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hyperchunk import _core

_VARIABLE = "HDF5_PLUGIN_PATH"


def folder() -> Path:
    """The folder with the plugins, for ``HDF5_PLUGIN_PATH``."""
    return Path(__file__).resolve().parent / "plugins"


def enable() -> Path:
    """Make live datasets readable in this process and in those that it starts.

    Every libhdf5 that is loaded already (h5py's, netCDF4's) is told at once; ``HDF5_PLUGIN_PATH`` is set for those
    that come later and for child processes.

    Returns:
        The folder with the plugins.

    Example:
        >>> import hyperchunk
        >>> hyperchunk.plugins.enable()  # doctest: +SKIP
        >>> h5py.File("scene.h5")["NDVI"][10:20, 5]  # doctest: +SKIP
    """
    path = folder()
    known = [p for p in os.environ.get(_VARIABLE, "").split(":") if p]
    if str(path) not in known:
        os.environ[_VARIABLE] = ":".join([str(path), *known])
    if "h5py" in sys.modules:
        import h5py

        with h5py._objects.phil:
            _core.prepend_plugin_folder(str(path))
    else:
        _core.prepend_plugin_folder(str(path))
    return path
