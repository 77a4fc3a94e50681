/* Live datasets for C, with the names that HDF5-UDF 2.1 has: what is stored is a live dataset of Hyperchunk, which any HDF5 program
 * reads through Hyperchunk's plugin. Programs written for HDF5-UDF link with -lhyperchunk instead of -lhdf5-udf.
 *
 * Functions return false when they fail; libudf_get_error says why. A context is for one thread at a time. The libhdf5 of the
 * program is used, or the system's ($HYPERCHUNK_LIBHDF5 names another). Workers are found beside the library, or through
 * $HDF5_PLUGIN_PATH: eval "$(hyperchunk env)". Dual licensed under MIT or Apache-2.0. */
#ifndef HYPERCHUNK_HDF5_UDF_H
#define HYPERCHUNK_HDF5_UDF_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file, and a function that is about to be stored in it. */
typedef struct udf_context udf_context;

/* Begins. `udf_file` (.py, .lua, .cpp or .expr) may be NULL if only libudf_get_metadata is wanted. NULL if `hdf5_file` is NULL;
 * whether the files are there is seen later. */
udf_context *libudf_init(const char *hdf5_file, const char *udf_file);

/* Ends; what is stored stays. */
void libudf_destroy(udf_context *ctx);

/* "overwrite": "true" replaces datasets of the outputs' names ("false"). "save_sourcecode": of no effect, the source is always
 * stored. */
bool libudf_set_option(const char *option, const char *value, udf_context *ctx);

/* Says what an output looks like: "NAME", "NAME:RESOLUTION:TYPE" or "NAME:{MEMBER:TYPE,...}:RESOLUTION". */
bool libudf_push_dataset(const char *description, udf_context *ctx);

/* Checks the function and loads it in the sandbox. Writes nothing. */
bool libudf_compile(udf_context *ctx);

/* Stores the function, signed with the user's key (hyperchunk key new). If `metadata` and `size` are not NULL, `metadata` gets the
 * headers of the outputs, a list in JSON, with its NUL and cut off to *size bytes; *size becomes the length of all of it without
 * the NUL. */
bool libudf_store(char *metadata, size_t *size, udf_context *ctx);

/* The header of a dataset of the file, in JSON, also of one that HDF5-UDF wrote. *size has the room in `metadata`, and becomes what is
 * needed, with the NUL. If `metadata` is NULL that is all. */
bool libudf_get_metadata(const char *dataset, char *metadata, size_t *size, udf_context *ctx);

/* Why the last call failed, cut off to `size` bytes with its NUL; returns the length of all of it. */
size_t libudf_get_error(char *buf, size_t size, udf_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
