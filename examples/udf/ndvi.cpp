extern "C" void dynamic_dataset()
{
    auto ndvi = lib.getData<float>("NDVI");
    auto red = lib.getData<float>("Red"), nir = lib.getData<float>("NIR");
    auto dims = lib.getDims("NDVI");
    for (size_t i = 0; i < dims[0] * dims[1]; i++)
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i]);
}
