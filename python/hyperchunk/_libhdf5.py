"""Finds the libhdf5 of the installed h5py, which edits existing files."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def of_h5py() -> str | None:
    """Returns the path of h5py's own libhdf5, or ``None`` if h5py uses the system's or is not installed.

    Only looks into h5py's folder, without importing it.
    """
    if os.environ.get("HYPERCHUNK_LIBHDF5"):
        return None
    spec = importlib.util.find_spec("h5py")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    for libraries in (package.parent / "h5py.libs", package / ".libs", package / ".dylibs"):
        found = sorted(p for p in libraries.glob("libhdf5*") if not p.name.startswith(("libhdf5_hl", "libhdf5_cpp")))
        if found:
            return str(found[0])
    return _loaded()


def _loaded() -> str | None:
    """Returns the libhdf5 that an h5py without its own library loads into the process."""
    import h5py  # noqa: F401

    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    names = (line.split(maxsplit=5)[-1] for line in maps.splitlines() if "libhdf5" in line)
    return next((n for n in names if "_hl" not in n and "_cpp" not in n), None)


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Locks other threads out of h5py's libhdf5, which is not thread-safe."""
    if "h5py" in sys.modules:
        import h5py

        with h5py._objects.phil:
            yield
    else:
        yield
