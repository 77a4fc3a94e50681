import numpy as np


def dynamic_dataset():
    red, nir = np.asarray(lib.getData("Red")), np.asarray(lib.getData("NIR"))
    lib.getData("NDVI")[:] = (nir - red) / (nir + red)
