/* Imports of a module: the same for C and C++. */
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#define HYPERCHUNK_NEVER [[noreturn]]
extern "C" {
#else
#define HYPERCHUNK_NEVER _Noreturn
#endif
#define HYPERCHUNK_IMPORT(NAME) __attribute__((import_module("hyperchunk"), import_name(#NAME)))
HYPERCHUNK_IMPORT(find) int32_t hyperchunk_import_find(const char *name, size_t length);
HYPERCHUNK_IMPORT(data) void *hyperchunk_import_data(uint32_t slot);
HYPERCHUNK_IMPORT(rank) uint32_t hyperchunk_import_rank(uint32_t slot);
HYPERCHUNK_IMPORT(dim) uint64_t hyperchunk_import_dim(uint32_t slot, uint32_t n);
HYPERCHUNK_IMPORT(start) uint64_t hyperchunk_import_start(uint32_t slot, uint32_t n);
HYPERCHUNK_IMPORT(type) size_t hyperchunk_import_type(uint32_t slot, char *to, size_t room);
HYPERCHUNK_IMPORT(file_path) size_t hyperchunk_import_file_path(char *to, size_t room);
HYPERCHUNK_IMPORT(seed) uint64_t hyperchunk_import_seed(void);
HYPERCHUNK_IMPORT(clock) double hyperchunk_import_clock(void);
HYPERCHUNK_IMPORT(fail) HYPERCHUNK_NEVER void hyperchunk_import_fail(const char *text, size_t length);
#ifdef __cplusplus
}
#endif
