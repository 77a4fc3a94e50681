"""The ``hyperchunk`` command as ``python -m hyperchunk``, for shells that do not find Python's scripts."""

from hyperchunk._command import main

main()
