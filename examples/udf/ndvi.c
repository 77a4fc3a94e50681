void dynamic_dataset(void)
{
    float *ndvi = lib.getData("NDVI");
    const float *red = lib.getData("Red"), *nir = lib.getData("NIR");
    const size_t *dims = lib.getDims("NDVI");
    for (size_t i = 0; i < dims[0] * dims[1]; i++)
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i]);
}
