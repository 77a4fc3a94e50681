
extern "C" __attribute__((visibility("default"))) int
hyperchunk_run_2(const hyperchunk::table *table, char *message, size_t size) {
    hyperchunk::current = table;
    try {
        dynamic_dataset();
        return 0;
    } catch (const std::exception &error) {
        snprintf(message, size, "%s", error.what());
    } catch (...) {
        snprintf(message, size, "the function threw something that is not a std::exception");
    }
    return 1;
}
