// What the library calls where it would throw. Its own prints, and printf is most of what a small module would have.
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION >= 150000
[[noreturn]] void std::__libcpp_verbose_abort(const char *format, ...) noexcept {
    char message[512] = "";
    va_list list;
    va_start(list, format);
    for (size_t n = 0; *format && n < 400; n = strlen(message)) {
        if (format[0] == '%' && format[1] == 's') {
            strncat(message, va_arg(list, const char *), 400 - n);
            format += 2;
        } else {
            strncat(message, format++, 1);
        }
    }
    va_end(list);
    HYPERCHUNK_FAIL(message);
}
#endif

extern "C" {
#define HYPERCHUNK_IMPORT(NAME) __attribute__((import_module("hyperchunk"), import_name(#NAME)))
HYPERCHUNK_IMPORT(find) int32_t hyperchunk_import_find(const char *name, uint32_t length);
HYPERCHUNK_IMPORT(data) void *hyperchunk_import_data(uint32_t slot);
HYPERCHUNK_IMPORT(rank) uint32_t hyperchunk_import_rank(uint32_t slot);
HYPERCHUNK_IMPORT(dim) uint64_t hyperchunk_import_dim(uint32_t slot, uint32_t n);
HYPERCHUNK_IMPORT(start) uint64_t hyperchunk_import_start(uint32_t slot, uint32_t n);
HYPERCHUNK_IMPORT(type) uint32_t hyperchunk_import_type(uint32_t slot, char *to, uint32_t room);
HYPERCHUNK_IMPORT(file_path) uint32_t hyperchunk_import_file_path(char *to, uint32_t room);
}

namespace hyperchunk {
static constexpr size_t count = sizeof hyperchunk_names / sizeof *hyperchunk_names;
static uint64_t extents[count][32], places[count][32];
static char types[count][32], path[4097];
static slot slots[count];
static const uint64_t *starts[count];
} // namespace hyperchunk

extern "C" __attribute__((export_name("dynamic_dataset"))) void hyperchunk_run() {
    using namespace hyperchunk;
    for (size_t i = 0; i < count; i++) {
        const char *name = hyperchunk_names[i];
        int32_t found = hyperchunk_import_find(name, strlen(name));
        if (found < 0) HYPERCHUNK_FAIL(name);
        uint32_t rank = hyperchunk_import_rank(found);
        for (uint32_t n = 0; n < rank && n < 32; n++) {
            extents[i][n] = hyperchunk_import_dim(found, n);
            places[i][n] = hyperchunk_import_start(found, n);
        }
        hyperchunk_import_type(found, types[i], sizeof types[i] - 1);
        slots[i] = {name, types[i], hyperchunk_import_data(found), rank, extents[i]};
        starts[i] = places[i];
    }
    hyperchunk_import_file_path(path, sizeof path - 1);
    static table all;
    all = {count, slots, path, nullptr, starts};
    current = &all;
    hyperchunk_function();
    fflush(nullptr); // stdout by name would be in every module
}
