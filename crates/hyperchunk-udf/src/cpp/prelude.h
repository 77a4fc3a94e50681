/* Environment of a C function, compiled to WebAssembly: the global `lib`. Indices start at 0. */
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hyperchunk_slot {
    const char *name;
    char datatype[32];
    void *data;
    size_t rank;
    size_t dims[32];
    size_t start[32];
};
static const struct hyperchunk_slot *hyperchunk_find(const char *name);
static char hyperchunk_path[4097];

static void *hyperchunk_data(const char *name) { return hyperchunk_find(name)->data; }
static const struct hyperchunk_slot *hyperchunk_attribute(const char *object, const char *name) {
    char label[4200];
    snprintf(label, sizeof label, "%s@%s", object, name);
    return hyperchunk_find(label);
}
/* Returns an attribute that is a number. */
static double hyperchunk_number(const char *object, const char *name) {
    const struct hyperchunk_slot *s = hyperchunk_attribute(object, name);
    const char *is = s->datatype;
    if (*is == 'f') return *(const float *)s->data;
    if (*is == 'd') return *(const double *)s->data;
    bool has_sign = *is != 'u';
    if (!has_sign) is++;
    if (*is != 'i') {
        const char *text = "lib.getAttr: the attribute is no number";
        hyperchunk_import_fail(text, strlen(text));
    }
    switch (is[3]) {
    case '8': return has_sign ? (double)*(const int8_t *)s->data : (double)*(const uint8_t *)s->data;
    case '1': return has_sign ? (double)*(const int16_t *)s->data : (double)*(const uint16_t *)s->data;
    case '3': return has_sign ? (double)*(const int32_t *)s->data : (double)*(const uint32_t *)s->data;
    default: return has_sign ? (double)*(const int64_t *)s->data : (double)*(const uint64_t *)s->data;
    }
}
/* Returns an attribute that is a string. */
static const char *hyperchunk_text(const char *object, const char *name) {
    return (const char *)hyperchunk_attribute(object, name)->data;
}
static const size_t *hyperchunk_dims(const char *name) { return hyperchunk_find(name)->dims; }
static size_t hyperchunk_rank(const char *name) { return hyperchunk_find(name)->rank; }
static const char *hyperchunk_type(const char *name) { return hyperchunk_find(name)->datatype; }
static const size_t *hyperchunk_chunk(void) { return hyperchunk_find(NULL)->dims; }
static const size_t *hyperchunk_offset(const char *name) { return hyperchunk_find(name)->start; }
static const char *hyperchunk_file_path(void) { return hyperchunk_path; }
/* Returns the seed of this block, an integer that is the same for each reader. */
static uint64_t hyperchunk_seed(void) { return hyperchunk_import_seed(); }
/* Returns seconds since 1970, if the profile grants the clock. */
static double hyperchunk_clock(void) { return hyperchunk_import_clock(); }
/* Sets a string of an output, of `size` bytes. A longer text is truncated; the rest is cleared. */
static void hyperchunk_set_string(char *to, size_t size, const char *text) {
    size_t kept = strnlen(text, size);
    memcpy(to, text, kept);
    memset(to + kept, 0, size - kept);
}

static const struct {
    void *(*getData)(const char *name);
    const size_t *(*getDims)(const char *name);
    size_t (*getRank)(const char *name); /* number of dimensions */
    const char *(*getType)(const char *name);
    const size_t *(*getChunk)(void);
    const size_t *(*getOffset)(const char *name); /* NULL: offset of the block */
    const char *(*getFilePath)(void);
    void (*setString)(char *to, size_t size, const char *text);
    uint64_t (*seed)(void);
    double (*clock)(void);
    double (*getAttr)(const char *object, const char *name);
    const char *(*getAttrText)(const char *object, const char *name);
} lib = {hyperchunk_data,   hyperchunk_dims,   hyperchunk_rank,      hyperchunk_type,
         hyperchunk_chunk,  hyperchunk_offset, hyperchunk_file_path, hyperchunk_set_string,
         hyperchunk_seed,   hyperchunk_clock,  hyperchunk_number,    hyperchunk_text};
