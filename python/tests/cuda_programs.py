"""Programs in CUDA."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from programs import LANGUAGES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "udf"


def installed(name: str) -> list[Path]:
    """Returns the folders of one of NVIDIA's packages."""
    found = importlib.util.find_spec(f"nvidia.{name}") if importlib.util.find_spec("nvidia") else None
    return [Path(folder) for folder in (found.submodule_search_locations or [] if found else [])]


HAS_NVRTC = "HYPERCHUNK_NVRTC" in os.environ or bool(installed("cuda_nvrtc"))

#: Languages of tests that a kernel can pass.
WITH_CUDA = (*LANGUAGES, pytest.param("cu", marks=pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is missing")))

NDVI = (EXAMPLES / "ndvi.cu").read_text()
#: Based on the paper's Listing 5.
LISTING_5 = (EXAMPLES / "ndvi_launched.cu").read_text()
OUT = "__global__ void k(uint8_t *out, size_t count) { if (threadIdx.x < count) out[threadIdx.x] = 7; }"

ENDLESS = "__global__ void k(const int *a, int *out) { while (*(const volatile int *) a == 0) {} out[0] = 1; }"


def attach_endless(file: Path, attach: Any, profile: Any) -> None:
    """Attaches a dataset ``out`` whose kernel ends only if ``a`` is not 0, which it is; the time limit is 2 s."""
    with h5py.File(file, "w") as opened:
        opened["a"] = np.zeros(4, "i4")
    attach(file, "cu", ENDLESS, "out:4:int32")
    profile("self", "[grant]\ngpu = true\n[limits]\nwall_s = 2")


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

#: Many features of kernels, so that their PTX has many instructions.
FEATURES = """
__device__ __constant__ float WEIGHTS[4] = {1, 2, 3, 4};
__device__ __noinline__ double slow(double x, int n) { return n < 2 ? x : slow(x * 0.5, n - 1) + cbrt(x); }
THREADS(64)
__global__ void k(const float *Red, const float *NIR, float *out, size_t count)
{
    __shared__ float part[64];
    __shared__ unsigned int hits;
    size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;
    float a = i < count ? Red[i] : 0.0f, b = i < count ? NIR[i] : 1.0f;
    if (threadIdx.x == 0) hits = 0;
    part[threadIdx.x] = sqrtf(a) + sinf(b) * expf(a) + powf(a, b) + fmodf(a, 3) + __fdividef(a, b);
    part[threadIdx.x] += rsqrtf(b + 1) + atan2f(a, b);
    __syncthreads();
    for (int step = 32; step > 0; step >>= 1) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    float all = a;
    for (int step = 16; step > 0; step >>= 1) all += __shfl_down_sync(0xffffffffu, all, step);
    unsigned votes = __ballot_sync(0xffffffffu, a > b), active = __activemask();
    atomicAdd(&hits, __popc(votes) + __clz(active) + __ffs(votes) + __brev(votes));
    atomicMax(&hits, (unsigned) (unsigned char) (i * 7));
    atomicCAS(&hits, 3u, 4u);
    __threadfence();
    __syncthreads();
    long long wide = (long long) (i * 3) / ((long long) count + 1) % 7;
    wide += __umulhi((unsigned) i, votes) + (__float_as_int(a) ^ 5);
    double exact = slow(a, 3) + sqrt((double) b) + erf((double) a) + fma((double) a, (double) b, 1.0) + (double) wide;
    short narrow = (short) (a * 100) - (short) b;
    int turned = __byte_perm((int) i, votes, 0x3120) + __funnelshift_l((unsigned) i, votes, 5);
    turned += abs(narrow) + min((int) i, narrow);
    float2 pair = make_float2(all, part[0]);
    if (i < count)
        out[i] = (float) exact + WEIGHTS[i & 3] + (isnan(a) ? 1 : ceilf(b)) + turned + hits + pair.x * pair.y
            + rintf(a) + clock64() * 0;
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
