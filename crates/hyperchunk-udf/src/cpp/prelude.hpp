// What a C++ function sees: the global `lib`. Indices start at 0.
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace hyperchunk {
struct slot {
    const char *name;
    const char *datatype;
    void *data;
    uint64_t rank;
    const uint64_t *dims;
};
struct table {
    uint64_t count;
    const slot *slots;
    const char *file_path;
};
static const table *current;

static const char *bare(const char *name) { return *name == '/' ? name + 1 : name; }

static const slot &find(const char *name) {
    for (uint64_t i = 0; i < current->count; i++)
        if (strcmp(bare(current->slots[i].name), bare(name)) == 0) return current->slots[i];
    throw std::runtime_error(std::string("lib: no dataset ") + name +
                             " was recorded when this function was attached");
}
} // namespace hyperchunk

class UserDefinedLibrary {
  public:
    template <class T> T *getData(const char *name) { return static_cast<T *>(hyperchunk::find(name).data); }
    template <class T> T *getData(const std::string &name) { return getData<T>(name.c_str()); }
    std::vector<size_t> getDims(const char *name) {
        const hyperchunk::slot &s = hyperchunk::find(name);
        return std::vector<size_t>(s.dims, s.dims + s.rank);
    }
    std::vector<size_t> getDims(const std::string &name) { return getDims(name.c_str()); }
    std::vector<size_t> getSize(const char *name) { return getDims(name); }
    const char *getType(const char *name) { return hyperchunk::find(name).datatype; }
    const char *getType(const std::string &name) { return getType(name.c_str()); }
    const char *getFilePath() { return hyperchunk::current->file_path; }
};
static UserDefinedLibrary lib;
