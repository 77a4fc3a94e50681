/* Live datasets for C, with the interface of HDF5-UDF 2.1. The stored datasets are live datasets of Hyperchunk; HDF5 programs
 * read them through Hyperchunk's plugin. Programs written for HDF5-UDF link with -lhyperchunk instead of -lhdf5-udf.
 *
 * Functions return false on failure; libudf_get_error returns the reason. A context may be used by one thread at a time. The
 * functions use the libhdf5 of the program, or the system's ($HYPERCHUNK_LIBHDF5 names another). Workers are found beside the
 * library, or through $HDF5_PLUGIN_PATH: eval "$(hyperchunk env)". Dual licensed under MIT or Apache-2.0. */
#ifndef HYPERCHUNK_HDF5_UDF_H
#define HYPERCHUNK_HDF5_UDF_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file, and a function to store in it. */
typedef struct udf_context udf_context;

/* Creates a context. `udf_file` (.py, .lua, .cpp or .expr) may be NULL if only libudf_get_metadata is used. Returns NULL if
 * `hdf5_file` is NULL; does not check whether the files exist. */
udf_context *libudf_init(const char *hdf5_file, const char *udf_file);

/* Frees a context. Stored datasets stay. */
void libudf_destroy(udf_context *ctx);

/* Sets an option. "overwrite": "true" replaces existing datasets with the outputs' names; the default is "false".
 * "save_sourcecode" has no effect: the source is always stored. */
bool libudf_set_option(const char *option, const char *value, udf_context *ctx);

/* Adds an output: "NAME", "NAME:RESOLUTION:TYPE" or "NAME:{MEMBER:TYPE,...}:RESOLUTION". */
bool libudf_push_dataset(const char *description, udf_context *ctx);

/* Checks the function and loads it in the sandbox. Writes nothing. */
bool libudf_compile(udf_context *ctx);

/* Stores the function, signed with the user's key (hyperchunk key new). If `metadata` and `size` are not NULL, copies the headers
 * of the outputs, a JSON list, to `metadata`, truncated to *size bytes with the NUL, and sets *size to the length of the whole
 * list without the NUL. */
bool libudf_store(char *metadata, size_t *size, udf_context *ctx);

/* Returns the header of a live dataset in JSON, also of one that HDF5-UDF wrote. *size is the size of `metadata`; the function
 * sets it to the size of the header with its NUL. If `metadata` is NULL, the header is not copied. */
bool libudf_get_metadata(const char *dataset, char *metadata, size_t *size, udf_context *ctx);

/* Copies the reason of the last failure to `buf`, truncated to `size` bytes with its NUL; returns the whole text's length. */
size_t libudf_get_error(char *buf, size_t size, udf_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
