__global__ void ndvi(const int *Red, const int *NIR, int *NDVI, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < count)
        NDVI[i] = 10000 * (NIR[i] - Red[i]) / (NIR[i] + Red[i]);
}
