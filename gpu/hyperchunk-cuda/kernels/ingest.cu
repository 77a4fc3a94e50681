// Kernels that turn stored bytes on the GPU into an array: unshuffling, copies of boxes, and a checksum.
//
// NVRTC compiles this file to `ingest.ptx`; the test `kernels::ptx_is_that_of_the_source` repeats this and compares.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// The host's `ingest::tables` has the same structures.
struct Piece {
    u64 from, to, bytes;
};

const u32 MAX_RANK = 8;

struct Box {
    u64 from, to;
    // Number of units in the box.
    u64 count;
    u32 rank, reserved;
    // Outermost dimension first: sizes in units, and strides in bytes.
    u64 size[MAX_RANK], from_stride[MAX_RANK], to_stride[MAX_RANK];
};

template <class Unit> __device__ Unit same(Unit value) { return value; }
__device__ u16 reversed(u16 value) { return value << 8 | value >> 8; }
__device__ u32 reversed(u32 value) { return __byte_perm(value, 0, 0x0123); }
__device__ u64 reversed(u64 value) { return (u64)reversed((u32)value) << 32 | reversed((u32)(value >> 32)); }

// Copies boxes, one for each row of blocks.
template <class Unit, bool SWAP> __device__ void scatter(const Box *boxes) {
    const Box &box = boxes[blockIdx.y];
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 unit = blockIdx.x * (u64)blockDim.x + threadIdx.x; unit < box.count; unit += step) {
        u64 rest = unit, from = box.from, to = box.to;
#pragma unroll 1
        for (u32 axis = box.rank; axis-- > 0;) {
            const u64 size = box.size[axis], whole = rest / size, place = rest - whole * size;
            from += place * box.from_stride[axis];
            to += place * box.to_stride[axis];
            rest = whole;
        }
        const Unit value = *(const Unit *)from;
        if constexpr (SWAP)
            *(Unit *)to = reversed(value);
        else
            *(Unit *)to = value;
    }
}

struct __align__(16) u128 {
    u64 low, high;
};

extern "C" __global__ void scatter_1(const Box *boxes) { scatter<u8, false>(boxes); }
extern "C" __global__ void scatter_2(const Box *boxes) { scatter<u16, false>(boxes); }
extern "C" __global__ void scatter_4(const Box *boxes) { scatter<u32, false>(boxes); }
extern "C" __global__ void scatter_8(const Box *boxes) { scatter<u64, false>(boxes); }
extern "C" __global__ void scatter_16(const Box *boxes) { scatter<u128, false>(boxes); }
extern "C" __global__ void swap_2(const Box *boxes) { scatter<u16, true>(boxes); }
extern "C" __global__ void swap_4(const Box *boxes) { scatter<u32, true>(boxes); }
extern "C" __global__ void swap_8(const Box *boxes) { scatter<u64, true>(boxes); }

// Undoes the filter shuffle, which stores the first bytes of all elements, then the second ones, and so on.
// Bytes of an incomplete last element follow unshuffled.
// One row of blocks for each piece, one thread for each element.
template <class Unit> __device__ void unshuffle_words(const Piece *pieces) {
    const Piece &piece = pieces[blockIdx.y];
    const u8 *from = (const u8 *)piece.from;
    const u64 count = piece.bytes / sizeof(Unit);
    const u64 step = (u64)gridDim.x * blockDim.x, first = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    for (u64 element = first; element < count; element += step) {
        Unit value = 0;
        for (u32 byte = 0; byte < sizeof(Unit); byte++)
            value |= (Unit)from[byte * count + element] << (8 * byte);
        ((Unit *)piece.to)[element] = value;
    }
    for (u64 byte = count * sizeof(Unit) + first; byte < piece.bytes; byte += step)
        ((u8 *)piece.to)[byte] = from[byte];
}

extern "C" __global__ void unshuffle_2(const Piece *pieces) { unshuffle_words<u16>(pieces); }
extern "C" __global__ void unshuffle_4(const Piece *pieces) { unshuffle_words<u32>(pieces); }
extern "C" __global__ void unshuffle_8(const Piece *pieces) { unshuffle_words<u64>(pieces); }

extern "C" __global__ void unshuffle(const Piece *pieces, u32 size) {
    const Piece &piece = pieces[blockIdx.y];
    const u8 *from = (const u8 *)piece.from;
    u8 *to = (u8 *)piece.to;
    const u64 count = piece.bytes / size;
    const u64 step = (u64)gridDim.x * blockDim.x, first = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    for (u64 element = first; element < count; element += step)
        for (u32 byte = 0; byte < size; byte++)
            to[element * size + byte] = from[byte * count + element];
    for (u64 byte = count * size + first; byte < piece.bytes; byte += step)
        to[byte] = from[byte];
}

// Adler-32, the checksum of zlib's streams (RFC 1950), of each piece: one block each, of 256 threads.
extern "C" __global__ void adler32(const Piece *pieces, u32 *sums) {
    const u32 THREADS = 256, MODULUS = 65521;
    __shared__ u64 plain[THREADS], weighted[THREADS];
    const Piece &piece = pieces[blockIdx.x];
    const u8 *from = (const u8 *)piece.from;
    u64 sum = 0, total = 0;
    // The weight of a byte is the number of bytes from it to the end of the piece.
    u32 weight = (u32)((piece.bytes - threadIdx.x) % MODULUS);
    for (u64 byte = threadIdx.x; byte < piece.bytes; byte += THREADS) {
        sum += from[byte];
        total += (u64)weight * from[byte];
        weight = weight >= THREADS ? weight - THREADS : weight + MODULUS - THREADS;
    }
    plain[threadIdx.x] = sum;
    weighted[threadIdx.x] = total % MODULUS;
    __syncthreads();
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            plain[threadIdx.x] += plain[threadIdx.x + half];
            weighted[threadIdx.x] += weighted[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        const u32 low = (u32)((1 + plain[0]) % MODULUS), high = (u32)((piece.bytes + weighted[0]) % MODULUS);
        sums[blockIdx.x] = high << 16 | low;
    }
}
