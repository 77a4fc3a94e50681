"""A grid of longitude and latitude in another projection, UTM zone 33, by bilinear interpolation with pyproj."""

import numpy as np
import pyproj


def dynamic_dataset():
    grid, lon, lat = lib.array("temperature"), lib.array("lon"), lib.array("lat")
    x, y = np.meshgrid(lib.array("x"), lib.array("y"))
    there = pyproj.Transformer.from_crs("EPSG:32633", "EPSG:4326", always_xy=True)
    longitude, latitude = there.transform(x, y)
    # Position of each point between the rows and columns of the regular grid.
    column = (longitude - lon[0]) / (lon[1] - lon[0])
    row = (latitude - lat[0]) / (lat[1] - lat[0])
    left = np.clip(column.astype(int), 0, lon.size - 2)
    above = np.clip(row.astype(int), 0, lat.size - 2)
    right, down = column - left, row - above
    upper = grid[above, left] * (1 - right) + grid[above, left + 1] * right
    lower = grid[above + 1, left] * (1 - right) + grid[above + 1, left + 1] * right
    inside = (column >= 0) & (column <= lon.size - 1) & (row >= 0) & (row <= lat.size - 1)
    lib.array("utm")[...] = np.where(inside, upper * (1 - down) + lower * down, np.nan)
