#ifdef HYPERCHUNK_SEED_RAND
#include <unistd.h>
#endif
// Called by the library instead of throwing. Its own version uses printf, which would be most of a small module.
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
    all.count = count, all.slots = slots, all.file_path = path, all.starts = starts;
    current = &all;
#ifdef HYPERCHUNK_SEED_RAND
    unsigned of_block;
    getentropy(&of_block, sizeof of_block); /* derived from the block's seed */
    srand(of_block);
#endif
    hyperchunk_function();
    fflush(nullptr); // naming stdout would link it into every module
}
