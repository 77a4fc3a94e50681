/* Hyperchunk's reader, writer and editor of HDF5 files, for C. No HDF5 library is needed; any of them reads what it writes.
 *
 * Numbers of objects are those of one process. All functions may be called from many threads at once, also for one dataset;
 * hc_close of a number must come after all else with it. What returns a number or a status returns -1 if it failed: then
 * hc_error says why. Dual licensed under MIT or Apache-2.0.
 *
 * Written by hand, because it is the reference of the interface; crates/hyperchunk-c/tests/headers.rs compares it with the functions. */
#ifndef HYPERCHUNK_H
#define HYPERCHUNK_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file, group or dataset. As HDF5's hid_t. */
typedef int64_t hc_id;

/* The type of an element, in this machine's byte order. */
typedef enum hc_type {
    HC_STORED = 0, /* for reading: as it is stored, in the byte order and with the padding of the file */
    HC_INT8 = 1,
    HC_INT16 = 2,
    HC_INT32 = 3,
    HC_INT64 = 4,
    HC_UINT8 = 5,
    HC_UINT16 = 6,
    HC_UINT32 = 7,
    HC_UINT64 = 8,
    HC_FLOAT32 = 9,
    HC_FLOAT64 = 10
} hc_type;

/* As H5T_NATIVE_…. */
#define HC_NATIVE_SCHAR HC_INT8
#define HC_NATIVE_UCHAR HC_UINT8
#define HC_NATIVE_SHORT HC_INT16
#define HC_NATIVE_USHORT HC_UINT16
#define HC_NATIVE_INT HC_INT32
#define HC_NATIVE_UINT HC_UINT32
#if LONG_MAX == INT_MAX
#define HC_NATIVE_LONG HC_INT32
#define HC_NATIVE_ULONG HC_UINT32
#else
#define HC_NATIVE_LONG HC_INT64
#define HC_NATIVE_ULONG HC_UINT64
#endif
#define HC_NATIVE_LLONG HC_INT64
#define HC_NATIVE_ULLONG HC_UINT64
#define HC_NATIVE_FLOAT HC_FLOAT32
#define HC_NATIVE_DOUBLE HC_FLOAT64

/* For hc_create: replace a file of that name; or fail if there is one. */
#define HC_TRUNC 0u
#define HC_EXCL 1u

/* In max_dims: without a bound. As H5S_UNLIMITED. */
#define HC_UNLIMITED UINT64_MAX

/* As deflate_level: no deflate. */
#define HC_NO_DEFLATE (-1)

/* For dxpl, as H5P_DEFAULT: nothing is looked at. */
#define HC_DEFAULT ((hc_id)0)

/* Why the last call on this thread that failed did so: one line, UTF-8, valid until the next failure on this thread. An empty
 * string if none failed. */
const char *hc_error(void);

/* Starts a file. It has its name when it is flushed or closed; until then that is `name`.partial. `name` is UTF-8: a path, or
 * in builds with object stores also a URL such as s3://bucket/key, with credentials from the environment. */
hc_id hc_create(const char *name, unsigned flags);

/* Opens an existing local file for changes. Each hc_flush, and hc_close, is one commit: whatever ends in the middle of it, the
 * file is in the state before or after it. */
hc_id hc_open_rw(const char *name);

/* Opens a file for reading. `name` is UTF-8: a path, or in builds with object stores also a URL (https, s3, gs, az), with
 * credentials from the environment. Live datasets are computed, and sharded stores are read as of their last commit. */
hc_id hc_open(const char *name);

/* Opens a dataset, or a group, of a file or group. `path` is from there, or from the root if it begins with a slash. Of a file
 * that is open for reading, soft and external links are followed. */
hc_id hc_open_dataset(hc_id parent, const char *path);
hc_id hc_open_group(hc_id parent, const char *path);

/* The number of a dataset's dimensions; their extents go to `dims`, which has room for `room` of them, unless it is NULL. */
int hc_dims(hc_id dset, int room, uint64_t *dims);

/* Makes what was written so far a whole file; `id` is the file or something in it. An object in a store is whole after the first. */
int hc_flush(hc_id id);

/* Of a file that is written: makes it whole and ends it; what is in it cannot be written any more. If that fails, the number
 * stays valid. Of a group or dataset, or a file that is open for reading: only the number ends, and what was opened in it
 * stays usable. */
int hc_close(hc_id id);

/* Gives up a file that was neither flushed nor closed: nothing is left of it. Of a file from hc_open_rw, what was not flushed. */
int hc_discard(hc_id file);

/* Makes a group in a file or group. `name` is one name, without slashes. */
hc_id hc_create_group(hc_id parent, const char *name);

/* Makes a dataset in a file or group. `dims` has `rank` extents; `max_dims` how far they may grow, or is NULL for not at all;
 * `chunk_dims` the extents of a chunk, or is NULL for a dataset in one piece, which has no filters and cannot grow. The
 * filters are, in this order: shuffle if `shuffle` is not 0, deflate if `deflate_level` is from 0 to 9. */
hc_id hc_create_dataset(hc_id parent, const char *name, hc_type type, int rank, const uint64_t *dims,
                        const uint64_t *max_dims, const uint64_t *chunk_dims, int shuffle, int deflate_level);

/* Writes a chunk as it is to be stored: after its filters. The parameters are those of H5DOwrite_chunk (H5Dwrite_chunk has
 * them, too). A bit of `filter_mask` that is set says that the filter of that number was not applied; `offset` is the place of
 * the chunk's first element. Nobody looks at the bytes. The buffer may be used again when this returns. A chunk at the
 * edge has the size of the others; one that was written before is replaced. */
int hc_write_chunk(hc_id dset, hc_id dxpl, uint32_t filter_mask, const uint64_t *offset, size_t data_size,
                   const void *buf);

/* Reads a chunk as it is stored, of a file that is written or open for reading. `*buf_size` is the size of `buf` before and of the chunk after; if `buf` is
 * NULL, nothing else happens. `filter_mask` may be NULL. The parameters are those of H5Dread_chunk2. */
int hc_read_chunk(hc_id dset, hc_id dxpl, const uint64_t *offset, uint32_t *filter_mask, void *buf, size_t *buf_size);

/* Writes a whole dataset: `buf` has its elements, row by row, as `type`; they are converted where the dataset has another. Chunks
 * are compressed on all cores. */
int hc_write(hc_id dset, hc_type type, const void *buf);

/* Changes the extent of a dataset. As H5Dset_extent. */
int hc_resize(hc_id dset, const uint64_t *dims);

/* Sets an attribute of a file's root, a group or a dataset to an array of `count` numbers, or to one number if `count` is 0. */
int hc_set_numbers(hc_id object, const char *name, hc_type type, size_t count, const void *values);

/* The same to a string, which is UTF-8. */
int hc_set_string(hc_id object, const char *name, const char *text);

/* The rest is for files from hc_open. */

/* The members of a group or file, sorted by name; 0 is the first. The name's length without its NUL is returned, and as much of it
 * goes to `buf` as its `size` allows, always with a NUL; `buf` may be NULL. */
int64_t hc_member_count(hc_id group);
int64_t hc_member_name(hc_id group, int64_t number, char *buf, size_t size);

/* What hc_kind returns: the kind of the object that a path leads to, or HC_NONE if there is none. */
#define HC_NONE 0
#define HC_GROUP 1
#define HC_DATASET 2
#define HC_DATATYPE 3
int hc_kind(hc_id parent, const char *path);

/* The class of the elements of a dataset, or of an attribute of any object: `attribute` is its name, or NULL for the dataset. The
 * numbers are those of H5T_class_t. */
#define HC_CLASS_INTEGER 0
#define HC_CLASS_FLOAT 1
#define HC_CLASS_TIME 2
#define HC_CLASS_STRING 3
#define HC_CLASS_BITFIELD 4
#define HC_CLASS_OPAQUE 5
#define HC_CLASS_COMPOUND 6
#define HC_CLASS_REFERENCE 7
#define HC_CLASS_ENUM 8
#define HC_CLASS_VLEN 9
#define HC_CLASS_ARRAY 10
#define HC_CLASS_COMPLEX 11
int hc_class_of(hc_id object, const char *attribute);

/* The hc_type that holds all values of these elements; 0 if none does. Those of an enumeration are numbers. */
int hc_type_of(hc_id object, const char *attribute);

/* The number of these elements: 1 of a scalar, 0 of a null dataspace, which both have no dimensions. */
int64_t hc_element_count(hc_id object, const char *attribute);

/* The size in bytes of one of these elements, with HC_STORED. */
int64_t hc_element_size(hc_id object, const char *attribute);

/* Reads elements of a dataset into `buf`, row by row, converted to `type` as HDF5 converts: numbers beyond its range become the
 * nearest that it has. In each dimension, `count` elements are read, `stride` apart, from `start` on. NULL for `start` is the
 * first element, for `stride` 1, for `count` all that follow. Chunks are decoded on all cores, and fetched with few requests. */
int hc_read(hc_id dset, hc_type type, const uint64_t *start, const uint64_t *count, const uint64_t *stride, void *buf);

/* A read for hc_read_many; the members are hc_read's parameters. */
typedef struct hc_read_request {
    hc_id dset;
    hc_type type;
    const uint64_t *start;
    const uint64_t *count;
    const uint64_t *stride;
    void *buf;
} hc_read_request;

/* Does several reads. Those of files over a network are planned together, and take the time of one. If it fails, the
 * contents of all buffers are undefined. */
int hc_read_many(size_t number, const hc_read_request *requests);

/* Reads strings of a dataset, of fixed or any length, without padding: an array of them, with a NULL at its end, and their number in `*number`,
 * which may be NULL. hc_free frees all of it. NULL if it fails. */
char **hc_read_strings(hc_id dset, const uint64_t *start, const uint64_t *count, const uint64_t *stride, size_t *number);
void hc_free(char **strings);

/* The attributes of an object, sorted by name, as hc_member_name. */
int64_t hc_attr_count(hc_id object);
int64_t hc_attr_name(hc_id object, int64_t number, char *buf, size_t size);

/* The number of an attribute's dimensions, as hc_dims. */
int hc_attr_dims(hc_id object, const char *name, int room, uint64_t *dims);

/* Reads an attribute as `type`; returns the number of its values. `values` has room for `room` of them; NULL to ask for the number. */
int64_t hc_get_numbers(hc_id object, const char *name, hc_type type, size_t room, void *values);

/* Reads an attribute that is one string, as hc_member_name; or one of any number of strings, as hc_read_strings. */
int64_t hc_get_string(hc_id object, const char *name, char *buf, size_t size);
char **hc_get_strings(hc_id object, const char *name, size_t *number);

#ifdef __cplusplus
}
#endif

#endif
