"""Makes ``import h5py`` mean hyperchunk.h5py in every process of a run, unless ``HYPERCHUNK_STOCK`` is set."""

import os

if not os.environ.get("HYPERCHUNK_STOCK"):
    import hyperchunk.h5py

    hyperchunk.h5py.install()
    if folder := os.environ.get("HYPERCHUNK_H5PY_TESTS"):
        # The folder has h5py's own tests, as the package `tests`.
        hyperchunk.h5py.__path__.append(folder)
