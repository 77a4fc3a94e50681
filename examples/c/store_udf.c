/* Stores a function in an HDF5 file as a dataset, as programs written for HDF5-UDF do.
 *   make -C examples/c && eval "$(hyperchunk env)" && examples/c/store_udf scene.h5 examples/udf/ndvi.lua [NAME:RESOLUTION:TYPE ...] */
#include <hdf5-udf.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what, udf_context *ctx)
{
    char why[1000];
    libudf_get_error(why, sizeof why, ctx);
    fprintf(stderr, "%s: %s\n", what, why);
    libudf_destroy(ctx);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s FILE FUNCTION [NAME:RESOLUTION:TYPE ...]\n", argv[0]);
        return 2;
    }
    udf_context *ctx = libudf_init(argv[1], argv[2]);
    if (!libudf_set_option("overwrite", "true", ctx))
        return failed("libudf_set_option", ctx);
    for (int i = 3; i < argc; i++)
        if (!libudf_push_dataset(argv[i], ctx))
            return failed("libudf_push_dataset", ctx);
    if (!libudf_compile(ctx))
        return failed("libudf_compile", ctx);
    size_t size = 1 << 16;
    char *headers = malloc(size);
    if (headers == NULL || !libudf_store(headers, &size, ctx)) {
        free(headers);
        return failed("libudf_store", ctx);
    }
    printf("%s\n", headers);
    free(headers);
    libudf_destroy(ctx);
    return 0;
}
