"""The ``hyperchunk`` command.

All of it is in Rust; this hands over h5py's libhdf5, and the folder of filters that netCDF4 would put on the path.
"""

from __future__ import annotations

import os
import signal
import sys

from hyperchunk import _core, _libhdf5, plugins


def main() -> None:
    """Run the command and exit with its status."""
    if sys.argv[1:2] == ["env"]:
        path = plugins._path()
        if path:
            os.environ["HDF5_PLUGIN_PATH"] = ":".join(path)
    try:
        sys.exit(_core.run_command(["hyperchunk", *sys.argv[1:]], _libhdf5.of_h5py()))
    except KeyboardInterrupt:
        # As the shell tells of a program that Ctrl-C ended.
        sys.exit(128 + signal.SIGINT)
