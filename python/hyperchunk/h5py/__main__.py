"""``python -m hyperchunk.h5py PROGRAM [ARGUMENT …]``: runs an unmodified program with this module as its h5py."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from hyperchunk.h5py import install

_USAGE = "usage: python -m hyperchunk.h5py PROGRAM.py [ARGUMENT ...]\n       python -m hyperchunk.h5py -m MODULE ..."


def main(arguments: list[str]) -> None:
    """Runs a program, or with ``-m`` a module, with the rest of the arguments."""
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        sys.exit(_USAGE)
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


main(sys.argv[1:])
