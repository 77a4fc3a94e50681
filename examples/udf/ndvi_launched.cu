// NDVI on the GPU, as in HDF5-UDF: dynamic_dataset says what is launched. It is translated, and never runs.
__global__ void kernel(float *red, float *nir, float *ndvi, size_t n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i]);
}

extern "C" void dynamic_dataset()
{
    auto ndvi = lib.getData<float>("NDVI");
    auto dims = lib.getDims("NDVI");
    auto n = dims[0] * dims[1];
    auto red = lib.getData<float>("Red");
    auto nir = lib.getData<float>("NIR");

    int block_dim = 1024;
    int grid_dim = (int) ceil((float) n / block_dim);
    kernel<<<grid_dim, block_dim>>>(red, nir, ndvi, n);
}
