"""Programs in CUDA."""

import importlib.util
import os
from pathlib import Path

import pytest
from programs import LANGUAGES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "udf"


def installed(name: str) -> list[Path]:
    """The folders of one of NVIDIA's packages."""
    found = importlib.util.find_spec(f"nvidia.{name}") if importlib.util.find_spec("nvidia") else None
    return [Path(folder) for folder in (found.submodule_search_locations or [] if found else [])]


HAS_NVRTC = "HYPERCHUNK_NVRTC" in os.environ or bool(installed("cuda_nvrtc"))

#: Of tests that a kernel can pass.
WITH_CUDA = (*LANGUAGES, pytest.param("cu", marks=pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is missing")))

NDVI = (EXAMPLES / "ndvi.cu").read_text()
#: After the paper's Listing 5.
LISTING_5 = (EXAMPLES / "ndvi_launched.cu").read_text()
OUT = "__global__ void k(uint8_t *out, size_t count) { if (threadIdx.x < count) out[threadIdx.x] = 7; }"

REGIONS = """
#define INDEX(n, d) blockIdx.d * blockDim.d + threadIdx.d
THREADS(8, 4)
__global__ void smooth(const float *image, Region image_region, float *smooth, const Region smooth_region)
{
    int i = INDEX(0, y), j = INDEX(1, x);
    if (i >= smooth_region.dims[0] || j >= smooth_region.dims[1]) return;
    int wide = image_region.dims[1], high = image_region.dims[0];
    int top = smooth_region.start[0] - image_region.start[0], left = smooth_region.start[1] - image_region.start[1];
    float sum = 0;
    int count = 0;
    for (int y = i + top - 1; y <= i + top + 1; y++)
        for (int x = j + left - 1; x <= j + left + 1; x++)
            if (y >= 0 && y < high && x >= 0 && x < wide) {
                sum += image[y * wide + x];
                count++;
            }
    smooth[i * smooth_region.dims[1] + j] = sum / count;
}
"""

SMOOTH_CPP = """
extern "C" void dynamic_dataset()
{
    auto image = lib.getData<float>("image"), out = lib.getData<float>("C");
    auto dims = lib.getDims("image");
    for (int i = 0; i < dims[0]; i++)
        for (int j = 0; j < dims[1]; j++) {
            float sum = 0;
            int count = 0;
            for (int y = i - 1; y <= i + 1; y++)
                for (int x = j - 1; x <= j + 1; x++)
                    if (y >= 0 && y < dims[0] && x >= 0 && x < dims[1]) {
                        sum += image[y * dims[1] + x];
                        count++;
                    }
            out[i * dims[1] + j] = sum / count;
        }
}
"""

SEVERAL = """
__global__ void both(DATASET("bands/NIR") const short *nir, int *sum, double *mean, unsigned count)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    sum[i] = nir[i] + 1000000;
    mean[i] = sum[i] / 2.0;
}
"""

COMPOUNDS = """
__global__ void k(const sites_t *Sites, report_t *report, size_t count)
{
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    report[i].id = Sites[i].serial_number * 2;
    report[i].mean = (Sites[i].low + Sites[i].high) / 2;
    for (int n = 0; n < 8; n++) report[i].place[n] = Sites[i].place[7 - n];
}
"""

TEMPLATES = """
#define BLOCK 64
template <typename T> __device__ T twice(T x) { return x + x; }
template <typename T, int ADD> __global__ void step(const T *in, T *out, size_t n)
{
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = twice(in[i]) + ADD;
}
void dynamic_dataset()
{
    auto dims = lib.getDims("out"), at = lib.getOffset();
    size_t n = dims[0];
    auto out = lib.getData<int>("out");
    dim3 grid((n + BLOCK - 1) / BLOCK);
    step<int, 3><<<grid, BLOCK>>>(lib.getData<int>("a"), out, n);
    step<int, 5><<<grid, dim3(BLOCK)>>>(out, out, n - (at[0] == 0 ? 1 : 0));
    cudaDeviceSynchronize();
}
"""
