/* Hyperchunk's reader, writer and editor of HDF5 files, for C. It needs no HDF5 library; every HDF5 library reads the files that
 * it writes.
 *
 * An hc_id is valid in one process. All functions may be called from several threads at once, also for one dataset; hc_close of
 * an ID must come after all other calls with it. Functions that return an integer return -1 on failure; functions that return
 * a pointer return NULL. hc_error then returns the reason. Dual licensed under MIT or Apache-2.0.
 *
 * Written by hand, as the reference of the interface; crates/hyperchunk-c/tests/headers.rs compares it with the functions. */
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
    HC_STORED = 0, /* for reading: as stored, in the byte order and with the padding of the file */
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

/* Flags of hc_create: replace a file of that name, or fail if one exists. */
#define HC_TRUNC 0u
#define HC_EXCL 1u

/* In max_dims: an unlimited dimension. As H5S_UNLIMITED. */
#define HC_UNLIMITED UINT64_MAX

/* As deflate_level: no deflate. */
#define HC_NO_DEFLATE (-1)

/* For dxpl, as H5P_DEFAULT. The parameter is ignored. */
#define HC_DEFAULT ((hc_id)0)

/* Returns the error message of this thread's last failed call: one line of UTF-8, valid until the next failure on this thread.
 * An empty string if no call failed. */
const char *hc_error(void);

/* Creates a file. It is named `name`.partial until it is flushed or closed. `name` is UTF-8: a path, or in builds with object
 * stores also a URL such as s3://bucket/key, with credentials from the environment. */
hc_id hc_create(const char *name, unsigned flags);

/* Opens an existing local file for reading and writing. Each hc_flush, and hc_close, is one commit: if the process or the
 * machine stops during it, the file is in the state before or after it. */
hc_id hc_open_rw(const char *name);

/* Opens a file for reading. `name` is UTF-8: a path, or in builds with object stores also a URL (https, s3, gs, az), with
 * credentials from the environment. Live datasets are computed; sharded stores are read as of their last commit. */
hc_id hc_open(const char *name);

/* Open a dataset or a group of a file or group. `path` is relative to `parent`, or to the root if it begins with a slash. In a
 * file that is open for reading, soft and external links are followed. */
hc_id hc_open_dataset(hc_id parent, const char *path);
hc_id hc_open_group(hc_id parent, const char *path);

/* Returns the number of a dataset's dimensions. Unless `dims` is NULL, copies their extents to it; it has room for `room`. */
int hc_dims(hc_id dset, int room, uint64_t *dims);

/* Commits all written data, so that the file is complete and can be read; `id` is the file or an object in it. In an object
 * store, only the first commit of a file is possible. */
int hc_flush(hc_id id);

/* Closes an ID. For a file that is open for writing: commits all data and closes the file; its objects can no longer be
 * written. If that fails, the ID stays valid. For a group, a dataset, or a file that is open for reading: releases the ID
 * only; objects that were opened through it stay usable. */
int hc_close(hc_id id);

/* Deletes a new file that was neither flushed nor closed. For a file from hc_open_rw: discards all changes since the last
 * hc_flush. */
int hc_discard(hc_id file);

/* Creates a group in a file or group. `name` is one name, without slashes. */
hc_id hc_create_group(hc_id parent, const char *name);

/* Creates a dataset in a file or group. `dims` has `rank` extents. `max_dims` has the maximum extents, or is NULL for a
 * dataset of fixed size. `chunk_dims` has the extents of a chunk, or is NULL for contiguous storage, which has no filters and
 * cannot grow. The filters are, in this order: shuffle if `shuffle` is not 0, deflate if `deflate_level` is 0 to 9. */
hc_id hc_create_dataset(hc_id parent, const char *name, hc_type type, int rank, const uint64_t *dims,
                        const uint64_t *max_dims, const uint64_t *chunk_dims, int shuffle, int deflate_level);

/* Writes a chunk in its stored form, after its filters. The parameters are those of H5DOwrite_chunk and H5Dwrite_chunk. A bit
 * that is set in `filter_mask` means that the filter with that number was not applied. `offset` has the index of the chunk's
 * first element. The bytes are not checked. The buffer may be reused when the function returns. A chunk at the edge of the
 * dataset has full size. A chunk that was written before is replaced. */
int hc_write_chunk(hc_id dset, hc_id dxpl, uint32_t filter_mask, const uint64_t *offset, size_t data_size,
                   const void *buf);

/* Reads a chunk in its stored form, of a file that is open for writing or reading. The parameters are those of H5Dread_chunk2.
 * `*buf_size` is the size of `buf`; the function sets it to the size of the chunk. If `buf` is NULL, no bytes are copied.
 * `filter_mask` may be NULL. */
int hc_read_chunk(hc_id dset, hc_id dxpl, const uint64_t *offset, uint32_t *filter_mask, void *buf, size_t *buf_size);

/* Writes a whole dataset. `buf` has its elements in row-major order, as `type`; they are converted to the dataset's type. Chunks
 * are compressed on all cores. */
int hc_write(hc_id dset, hc_type type, const void *buf);

/* Changes the extent of a dataset. As H5Dset_extent. */
int hc_resize(hc_id dset, const uint64_t *dims);

/* Sets an attribute of a file's root, a group or a dataset to an array of `count` numbers, or to a scalar if `count` is 0. */
int hc_set_numbers(hc_id object, const char *name, hc_type type, size_t count, const void *values);

/* Sets an attribute to a string, which is UTF-8. */
int hc_set_string(hc_id object, const char *name, const char *text);

/* The following functions are for files from hc_open. */

/* Return the number of members of a group or file, and the name of one; they are sorted by name, and 0 is the first.
 * hc_member_name returns the name's length without its NUL. It copies the name to `buf`, truncated to `size` bytes with the
 * NUL; `buf` may be NULL. */
int64_t hc_member_count(hc_id group);
int64_t hc_member_name(hc_id group, int64_t number, char *buf, size_t size);

/* Results of hc_kind: the kind of the object at a path, or HC_NONE if it does not exist. */
#define HC_NONE 0
#define HC_GROUP 1
#define HC_DATASET 2
#define HC_DATATYPE 3
int hc_kind(hc_id parent, const char *path);

/* Returns the class of the elements of a dataset, or of an attribute of any object: `attribute` is its name, or NULL for the
 * dataset. The numbers are those of H5T_class_t. */
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

/* Returns the hc_type that can represent all values of these elements, 0 if none can. An enumeration has the type of its
 * numbers. */
int hc_type_of(hc_id object, const char *attribute);

/* Returns the number of these elements: 1 for a scalar, 0 for a null dataspace; both have no dimensions. */
int64_t hc_element_count(hc_id object, const char *attribute);

/* Returns the size in bytes of one of these elements when read as HC_STORED. */
int64_t hc_element_size(hc_id object, const char *attribute);

/* Reads elements of a dataset into `buf`, in row-major order, converted to `type` as by HDF5: numbers out of its range become
 * its nearest number. In each dimension, `count` elements are read, `stride` apart, from index `start` on. NULL means 0 for
 * `start`, 1 for `stride`, and all remaining elements for `count`. Chunks are decoded on all cores, and fetched with few
 * requests. */
int hc_read(hc_id dset, hc_type type, const uint64_t *start, const uint64_t *count, const uint64_t *stride, void *buf);

/* A request for hc_read_many; the members are the parameters of hc_read. */
typedef struct hc_read_request {
    hc_id dset;
    hc_type type;
    const uint64_t *start;
    const uint64_t *count;
    const uint64_t *stride;
    void *buf;
} hc_read_request;

/* Runs several reads. Reads over a network are planned together, and take about the time of one. On failure, the contents of
 * all buffers are undefined. */
int hc_read_many(size_t number, const hc_read_request *requests);

/* Reads strings of a dataset, of fixed or variable length, without padding. Returns an array of them with a NULL at its end,
 * to be freed with hc_free, and sets `*number` to their number; `number` may be NULL. */
char **hc_read_strings(hc_id dset, const uint64_t *start, const uint64_t *count, const uint64_t *stride, size_t *number);
void hc_free(char **strings);

/* Return the number of attributes of an object, and the name of one, as hc_member_count and hc_member_name. */
int64_t hc_attr_count(hc_id object);
int64_t hc_attr_name(hc_id object, int64_t number, char *buf, size_t size);

/* Returns the number of an attribute's dimensions, and their extents, as hc_dims. */
int hc_attr_dims(hc_id object, const char *name, int room, uint64_t *dims);

/* Reads an attribute as `type`; returns the number of its values. `values` has room for `room` values; if it is NULL, only
 * their number is returned. */
int64_t hc_get_numbers(hc_id object, const char *name, hc_type type, size_t room, void *values);

/* Read an attribute with one string, as hc_member_name; or with any number of strings, as hc_read_strings. */
int64_t hc_get_string(hc_id object, const char *name, char *buf, size_t size);
char **hc_get_strings(hc_id object, const char *name, size_t *number);

#ifdef __cplusplus
}
#endif

#endif
