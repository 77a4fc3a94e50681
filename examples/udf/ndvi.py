# In the style of HDF5-UDF's paper: two calls on one line, and a loop over flat elements.


def dynamic_dataset():
    ndvi = lib.getData("NDVI")
    red, nir = lib.getData("Red"), lib.getData("NIR")
    dims = lib.getDims("NDVI")
    for i in range(dims[0] * dims[1]):
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i])
