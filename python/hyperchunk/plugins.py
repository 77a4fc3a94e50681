"""HDF5 plugins of this package, and the environment through which programs find them."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TypedDict, Unpack

from hyperchunk import _core

_VARIABLE = "HDF5_PLUGIN_PATH"
_CONNECTOR = "HDF5_VOL_CONNECTOR"


def folder() -> Path:
    """Returns the folder with the filter plugins, for ``HDF5_PLUGIN_PATH``.

    Example:
        >>> hyperchunk.plugins.folder().name
        'plugins'
    """
    return Path(__file__).resolve().parent / "plugins"


def connector_folder() -> Path:
    """Returns the folder with the VOL connector, for the ``HDF5_PLUGIN_PATH`` of programs that use it.

    :func:`environment` sets all variables for such programs. No other program should have this folder on its path:
    HDF5 1.13 and newer ask every connector there about each file that they fail to open.

    Example:
        >>> hyperchunk.plugins.connector_folder().name
        'connector'
    """
    return Path(__file__).resolve().parent / "connector"


def _path() -> list[str]:
    """Returns the folders in ``HDF5_PLUGIN_PATH``; if it is not set, netCDF4's folder of filters (zstd, bzip2, blosc).

    netCDF4 adds its folder on import, but only if the variable is not set yet.
    """
    if _VARIABLE in os.environ:
        return [p for p in os.environ[_VARIABLE].split(":") if p]
    try:
        spec = importlib.util.find_spec("netCDF4")
    except (ImportError, ValueError):
        return []
    folders = [Path(location) / "plugins" for location in (spec and spec.submodule_search_locations) or []]
    return [str(folder) for folder in folders if (folder / "lib__nczhdf5filters.so").exists()]


def enable() -> Path:
    """Makes live datasets readable in this process and its child processes.

    Every libhdf5 already loaded (h5py's, netCDF4's) gets the folder at once; ``HDF5_PLUGIN_PATH`` is set for libraries
    loaded later and for child processes.

    Returns:
        The folder with the plugins.

    Example:
        >>> import hyperchunk
        >>> hyperchunk.plugins.enable()  # doctest: +SKIP
        >>> h5py.File("scene.h5")["NDVI"][10:20, 5]  # doctest: +SKIP
    """
    path = folder()
    known = _path()
    if str(path) not in known:
        os.environ[_VARIABLE] = ":".join([str(path), *known])
    if "h5py" in sys.modules:
        import h5py

        with h5py._objects.phil:
            _core.prepend_plugin_folder(str(path))
    else:
        _core.prepend_plugin_folder(str(path))
    return path


class ConnectorOptions(TypedDict, total=False):
    """Options of :func:`connector`."""

    fsync: bool | str
    commit: bool | str
    writers: int
    session: str
    checksum: bool
    statistics: bool
    epoch: int
    codec: str
    links: str
    command: str


def connector(*, store: bool = False, **options: Unpack[ConnectorOptions]) -> str:
    """Returns the value of ``HDF5_VOL_CONNECTOR`` that makes HDF5 programs use the connector.

    Args:
        store: New files become sharded stores; without it they are ordinary files.
        **options: Further options: ``fsync``, ``commit``, ``writers``, ``session``, ``checksum``, ``statistics``,
            ``epoch``, ``codec``, ``links``, ``command``.

    Example:
        >>> connector(store=True, writers=4, checksum=False)
        'hyperchunk store;writers=4;checksum=off'
    """
    items = ["store"] if store else []
    for key, value in options.items():
        text = ("off", "on")[value] if isinstance(value, bool) else str(value)
        if any(c in text for c in ";,{}") or text.split() != [text]:
            raise ValueError(f"{key}={text!r} must not contain white space, semicolons, commas or braces")
        items.append(f"{key}={text}")
    return " ".join(["hyperchunk", ";".join(items)]).rstrip()


def environment(*, store: bool = False, **options: Unpack[ConnectorOptions]) -> dict[str, str]:
    """Returns the environment variables that make HDF5 programs use the connector; arguments as for :func:`connector`.

    HDF5 reads them at its start: set them for a new process, or in this one before it first
    imports h5py or netCDF4.

    Example:
        >>> import subprocess, sys
        >>> variables = os.environ | hyperchunk.plugins.environment(store=True)  # doctest: +SKIP
        >>> subprocess.run([sys.executable, "simulation.py"], env=variables)  # doctest: +SKIP
    """
    ours = [str(folder()), str(connector_folder())]
    known = [p for p in _path() if p not in ours]
    return {_VARIABLE: ":".join([*ours, *known]), _CONNECTOR: connector(store=store, **options)}
