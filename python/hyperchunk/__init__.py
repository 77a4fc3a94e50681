"""Hyperchunk: HDF5 that computes, streams and scales.

- :mod:`hyperchunk.udf` attaches programs to HDF5 files as live datasets.
- :mod:`hyperchunk.plugins` makes them readable for every HDF5 program.
"""

from __future__ import annotations

from pathlib import Path

from hyperchunk import _core, exceptions, plugins, udf
from hyperchunk._core import __version__
from hyperchunk.exceptions import HyperchunkError

_core.set_package_dir(str(Path(__file__).resolve().parent))

__all__ = ["HyperchunkError", "__version__", "exceptions", "plugins", "udf"]
