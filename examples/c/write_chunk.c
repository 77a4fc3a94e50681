/* Writes a dataset chunk by chunk, each compressed here and stored unchanged. This is the program of "RFC: Direct
 * Chunk Write", Appendix B, for Hyperchunk: no HDF5 library is needed to write, and any of them reads the file.
 *
 *     make -C examples/c && examples/c/write_chunk out.h5 */
#include <hyperchunk.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { NX = 16, NY = 16, CHUNK_NX = 4, CHUNK_NY = 4, LEVEL = 9 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, hc_error());
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "direct_chunk.h5";
    const uint64_t dims[] = {NX, NY};
    const uint64_t max_dims[] = {HC_UNLIMITED, HC_UNLIMITED};
    const uint64_t chunk_dims[] = {CHUNK_NX, CHUNK_NY};
    int chunk[CHUNK_NX * CHUNK_NY];
    const uLong size = sizeof chunk;
    uLongf packed_size = compressBound(size);
    unsigned char *packed = malloc(packed_size);

    for (int i = 0; i < CHUNK_NX * CHUNK_NY; i++)
        chunk[i] = i;
    if (packed == NULL || compress2(packed, &packed_size, (const Bytef *)chunk, size, LEVEL) != Z_OK) {
        fprintf(stderr, "zlib could not compress a chunk\n");
        return EXIT_FAILURE;
    }

    hc_id file = hc_create(path, HC_TRUNC);
    if (file < 0)
        return failed("hc_create");
    hc_id dset = hc_create_dataset(file, "data", HC_NATIVE_INT, 2, dims, max_dims, chunk_dims, 0, LEVEL);
    if (dset < 0)
        return failed("hc_create_dataset");
    if (hc_set_string(dset, "made by", "examples/c/write_chunk.c") < 0)
        return failed("hc_set_string");

    for (uint64_t x = 0; x < NX; x += CHUNK_NX) {
        for (uint64_t y = 0; y < NY; y += CHUNK_NY) {
            const uint64_t offset[] = {x, y};
            /* The last chunk is stored uncompressed: bit 0 of its mask means that the first filter was skipped. */
            int last = x + CHUNK_NX == NX && y + CHUNK_NY == NY;
            int status = last ? hc_write_chunk(dset, HC_DEFAULT, 1u, offset, size, chunk)
                              : hc_write_chunk(dset, HC_DEFAULT, 0u, offset, packed_size, packed);
            if (status < 0)
                return failed("hc_write_chunk");
        }
    }

    /* Chunks already written can be read back in their stored form. */
    const uint64_t first[] = {0, 0};
    uint32_t mask = 0;
    size_t stored = 0;
    if (hc_read_chunk(dset, HC_DEFAULT, first, &mask, NULL, &stored) < 0)
        return failed("hc_read_chunk");
    if (hc_close(dset) < 0 || hc_close(file) < 0)
        return failed("hc_close");
    printf("%s: %d chunks of %lu bytes, stored in %zu\n", path, (NX / CHUNK_NX) * (NY / CHUNK_NY), size, stored);
    free(packed);
    return EXIT_SUCCESS;
}
