__global__ void ndvi(const float *Red, const float *NIR, float *NDVI, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < count)
        NDVI[i] = (NIR[i] - Red[i]) / (NIR[i] + Red[i]);
}
