"""A GeoTIFF beside the HDF5 file as two datasets: its pixels, and the numbers that convert their indices to
coordinates.
"""

from pathlib import Path

import tifffile


def dynamic_dataset():
    with tifffile.TiffFile(Path(str(lib.getFilePath())).with_name("elevation.tif")) as tiff:
        page = tiff.pages[0]
        lib.array("elevation")[...] = page.asarray(maxworkers=1)
        width, height, _ = page.tags["ModelPixelScaleTag"].value
        column, row, _, x, y, _ = page.tags["ModelTiepointTag"].value
    lib.array("transform")[...] = [x - column * width, width, 0, y + row * height, 0, -height]
