"""Runs programs in one process, each in a folder of its own, and prints their outputs as JSON:
`python run_snippets.py WHO PROGRAM…`, where WHO is `h5py` or `hyperchunk`.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import tempfile
import warnings
from pathlib import Path


def main(who: str, programs: list[str]) -> None:
    """Runs the programs."""
    if who == "hyperchunk":
        import hyperchunk.h5py

        hyperchunk.h5py.install()
    warnings.simplefilter("ignore")
    outputs = {}
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                try:
                    runpy.run_path(program, run_name="__main__")
                except Exception as error:
                    print(f"{type(error).__name__}: {error}")
            outputs[Path(program).stem] = text.getvalue()
            os.chdir("/")
    json.dump(outputs, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
