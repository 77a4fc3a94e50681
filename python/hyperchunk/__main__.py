"""The ``hyperchunk`` command, as ``python -m hyperchunk``: for shells whose path lacks the folder of Python's scripts."""

from hyperchunk._command import main

main()
