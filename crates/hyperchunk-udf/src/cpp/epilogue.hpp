
namespace hyperchunk {
#if defined(__x86_64__) && !defined(HYPERCHUNK_NARROW)
__attribute__((target("avx2"), noinline)) static void hyperchunk_wide() { dynamic_dataset(); }
static void hyperchunk_each() { current->wide ? hyperchunk_wide() : dynamic_dataset(); }
#else
static void hyperchunk_each() { dynamic_dataset(); }
#endif
} // namespace hyperchunk

extern "C" __attribute__((visibility("default"))) int
hyperchunk_run_3(const hyperchunk::table *table, char *message, size_t size) {
    hyperchunk::current = table;
    try {
        hyperchunk::hyperchunk_each();
        return 0;
    } catch (const std::exception &error) {
        snprintf(message, size, "%s", error.what());
    } catch (...) {
        snprintf(message, size, "the function threw something that is not a std::exception");
    }
    return 1;
}
