"""The ``hyperchunk`` command. All of it is in Rust; this hands over h5py's libhdf5."""

from __future__ import annotations

import signal
import sys

from hyperchunk import _core, _libhdf5


def main() -> None:
    """Run the command and exit with its status."""
    try:
        sys.exit(_core.run_command(["hyperchunk", *sys.argv[1:]], _libhdf5.of_h5py()))
    except KeyboardInterrupt:
        # As the shell tells of a program that Ctrl-C ended.
        sys.exit(128 + signal.SIGINT)
