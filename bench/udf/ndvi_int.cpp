extern "C" void dynamic_dataset() {
    int *ndvi = lib.getData<int>("NDVI");
    const int *red = lib.getData<int>("Red"), *nir = lib.getData<int>("NIR");
    auto dims = lib.getDims("NDVI");
    for (size_t i = 0; i < dims[0] * dims[1]; i++)
        ndvi[i] = 10000 * (nir[i] - red[i]) / (nir[i] + red[i]);
}
