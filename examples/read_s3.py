"""One cold read from S3, as in a typical program: read_s3.py LIBRARY ENDPOINT OUTPUT.npy

Opens the mosaic, lists its contents, and computes NDVI of a window from two bands. Prints the seconds that took."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from s3_scene import KEY, REGION, SECRET, URL, WINDOW


def open_file(library: str, endpoint: str) -> Any:
    """Opens the file as the library's documentation shows."""
    if library == "hyperchunk":
        import hyperchunk

        options = {"endpoint": endpoint, "key": KEY, "secret": SECRET, "region": REGION, "allow_http": True}
        return hyperchunk.open(URL, storage_options=options)
    import h5py
    import s3fs

    client = {"endpoint_url": endpoint, "region_name": REGION}
    files = s3fs.S3FileSystem(key=KEY, secret=SECRET, client_kwargs=client)
    return h5py.File(files.open(URL, "rb"))


def main() -> None:
    """Does the read."""
    library, endpoint, output = sys.argv[1:]
    if library == "hyperchunk":  # imports are no part of a read
        import hyperchunk  # noqa: F401
    else:
        import aiobotocore.session  # noqa: F401
        import h5py  # noqa: F401
        import s3fs  # noqa: F401
    start = time.perf_counter()
    with open_file(library, endpoint) as file:
        for band in file.values():
            assert band.attrs["units"] == "reflectance x 10000"
        if library == "hyperchunk":
            red, nir = file.read_many([("Red", WINDOW), ("NIR", WINDOW)])
        else:
            red, nir = file["Red"][WINDOW], file["NIR"][WINDOW]
        red, nir = red.astype("f4"), nir.astype("f4")
        values = (nir - red) / (nir + red)
    print(time.perf_counter() - start)
    np.save(output, values)


if __name__ == "__main__":
    main()
