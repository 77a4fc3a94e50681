"""Entry point of the ``hyperchunk`` command.

The command is implemented in Rust; this passes it the filter folder that netCDF4 would put on the path.
"""

from __future__ import annotations

import os
import sys

from hyperchunk import _core


def main() -> None:
    """Runs the command and exits with its status."""
    if sys.argv[1:2] == ["env"]:
        from hyperchunk import plugins

        path = plugins._path()
        if path:
            os.environ["HDF5_PLUGIN_PATH"] = ":".join(path)
    try:
        sys.exit(_core.run_command(["hyperchunk", *sys.argv[1:]]))
    except KeyboardInterrupt:
        # The shell's exit status for a program ended by Ctrl-C; the module signal is imported only here.
        import signal

        sys.exit(128 + signal.SIGINT)
