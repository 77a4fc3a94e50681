// Environment of a C++ function: the global `lib`. Indices start at 0.
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <type_traits>
#include <vector>

// WebAssembly has no exceptions.
#ifdef __wasm__
#define HYPERCHUNK_FAIL(text) hyperchunk_import_fail(text, strlen(text))
// A throw ends the function with the exception's message, since it cannot be caught.
namespace hyperchunk {
struct thrown {
    template <class T> [[noreturn]] void operator<<(const T &what) {
        if constexpr (std::is_base_of<std::exception, T>::value)
            HYPERCHUNK_FAIL(what.what());
        else
            HYPERCHUNK_FAIL("the function threw something that is not a std::exception");
    }
};
} // namespace hyperchunk
#else
#define HYPERCHUNK_FAIL(text) throw std::runtime_error(text)
#endif

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
    int (*connect)(const char *target, char *message, size_t size);
    const uint64_t *const *starts; // offset of each slot's block in its dataset
    int64_t seed;                  // -1 if there is none
    double (*clock)(char *message, size_t size);
    uint64_t wide; // 1 if the processor has AVX2
};
static const table *current;

static const char *bare(const char *name) { return *name == '/' ? name + 1 : name; }

static bool fits(const char *datatype, char type) {
    if (*datatype == 'u') datatype++;
    const char is = *datatype == 'i' ? datatype[3] : *datatype;
    return is == type || is == 's' || is == 'c' || (type == 'W' && (is == '3' || is == 'f')) || (type == 'L' && (is == '6' || is == 'd'));
}

// Returns the dataset of a name. Numbers must be of the `type` (see type_of), if it is given.
static const slot &find(const char *name, char type = 0) {
    const char *what = " was recorded when this function was attached";
    for (uint64_t i = 0; i < current->count; i++) {
#ifdef __x86_64__
        __asm__("" : "+r"(i)); // no-op that stops the compiler from prefetching these few: 100 bytes of a function
#endif
        if (strcmp(bare(current->slots[i].name), bare(name)) == 0) {
            if (!type || fits(current->slots[i].datatype, type)) return current->slots[i];
            what = " has elements of the type of lib.getData<T>";
        }
    }
    // Neither strings nor printf, which would be half of a small function.
    char message[512] = "lib: no dataset ";
    strncat(message, name, 400);
    strcat(message, what);
    HYPERCHUNK_FAIL(message);
}

// Code of a number type: the letter or digit that distinguishes its name; for unsigned integers, a code for any number of their size, as
// they may read its bits. 0 for types that may read any bytes.
template <class T> static constexpr char type_of() {
#ifdef __wasm__
    return 0; // A module is stored in the file: it should stay small.
#endif
    if (!std::is_arithmetic<T>::value || sizeof(T) == 1 || sizeof(T) > 8) return 0;
    if (std::is_floating_point<T>::value) return sizeof(T) == 4 ? 'f' : 'd';
    if (std::is_unsigned<T>::value) return sizeof(T) == 2 ? '1' : sizeof(T) == 4 ? 'W' : 'L';
    return sizeof(T) == 2 ? '1' : sizeof(T) == 4 ? '3' : '6';
}

// Returns a number of a dataset, converted to T.
template <class T> static T number(const slot &s, size_t n) {
    const char *is = s.datatype;
    if (*is == 'f') return T(static_cast<const float *>(s.data)[n]);
    if (*is == 'd') return T(static_cast<const double *>(s.data)[n]);
    bool has_sign = *is != 'u';
    if (!has_sign) is++;
    if (*is != 'i') HYPERCHUNK_FAIL("lib.getAttr: the attribute is no number");
    switch (is[3]) {
    case '8': return has_sign ? T(static_cast<const int8_t *>(s.data)[n]) : T(static_cast<const uint8_t *>(s.data)[n]);
    case '1': return has_sign ? T(static_cast<const int16_t *>(s.data)[n]) : T(static_cast<const uint16_t *>(s.data)[n]);
    case '3': return has_sign ? T(static_cast<const int32_t *>(s.data)[n]) : T(static_cast<const uint32_t *>(s.data)[n]);
    default: return has_sign ? T(static_cast<const int64_t *>(s.data)[n]) : T(static_cast<const uint64_t *>(s.data)[n]);
    }
}

// Returns a fixed-length string with a terminator; if it has none, a copy that stays valid for the next 64 calls.
static const char *terminated(const char *text, size_t size) {
    if (memchr(text, 0, size)) return text;
    static std::string copies[64];
    static unsigned next;
    return (copies[next++ % 64] = std::string(text, size)).c_str();
}

static void print(char *to, size_t size, const char *format, va_list list) {
    va_list again;
    va_copy(again, list);
    int length = vsnprintf(nullptr, 0, format, again);
    va_end(again);
    if (length < 0) HYPERCHUNK_FAIL("lib.setString: the format cannot be printed");
    std::string text(size_t(length) + 1, 0);
    vsnprintf(&text[0], text.size(), format, list);
    text.resize(length);
    size_t kept = text.size() < size ? text.size() : size;
    memcpy(to, text.data(), kept);
    memset(to + kept, 0, size - kept);
}
} // namespace hyperchunk

class UserDefinedLibrary {
  public:
    template <class T> T *getData(const char *name) {
        return static_cast<T *>(hyperchunk::find(name, hyperchunk::type_of<typename std::remove_cv<T>::type>()).data);
    }
    template <class T> T *getData(const std::string &name) { return getData<T>(name.c_str()); }
    std::vector<size_t> getDims(const char *name) {
        const hyperchunk::slot &s = hyperchunk::find(name);
        return std::vector<size_t>(s.dims, s.dims + s.rank);
    }
    std::vector<size_t> getDims(const std::string &name) { return getDims(name.c_str()); }
    std::vector<size_t> getSize(const char *name) { return getDims(name); }
    // Returns an attribute: a number, converted to T; a string, for T = std::string; or all numbers, for T = std::vector<N>.
    template <class T = double> T getAttr(const std::string &object, const std::string &name) {
        const hyperchunk::slot &s = hyperchunk::find((object + "@" + name).c_str());
        if constexpr (std::is_arithmetic<T>::value) {
            return hyperchunk::number<T>(s, 0);
        } else if constexpr (std::is_same<T, std::string>::value || std::is_same<T, const char *>::value) {
            if (*s.datatype != 's') HYPERCHUNK_FAIL("lib.getAttr: the attribute is no string");
            return static_cast<const char *>(s.data); // ends with a zero
        } else {
            size_t count = 1;
            for (uint64_t n = 0; n < s.rank; n++) count *= size_t(s.dims[n]);
            T list(count);
            for (size_t n = 0; n < count; n++) list[n] = hyperchunk::number<typename T::value_type>(s, n);
            return list;
        }
    }
    // Returns the shape of the computed block.
    std::vector<size_t> getChunk() {
        const hyperchunk::slot &s = hyperchunk::current->slots[0];
        return std::vector<size_t>(s.dims, s.dims + s.rank);
    }
    // Returns the offset of that block in its dataset, or of an input's part in the input's dataset.
    std::vector<size_t> getOffset(const char *name = nullptr) {
        const hyperchunk::slot &s = name ? hyperchunk::find(name) : hyperchunk::current->slots[0];
        const uint64_t *start = hyperchunk::current->starts[&s - hyperchunk::current->slots];
        for (uint64_t n = 0; n < s.rank; n++)
            if (start[n] > SIZE_MAX) HYPERCHUNK_FAIL("lib.getOffset: the block begins beyond 4 Gi, which WebAssembly cannot count");
        return std::vector<size_t>(start, start + s.rank);
    }
    std::vector<size_t> getOffset(const std::string &name) { return getOffset(name.c_str()); }
    const char *getType(const char *name) { return hyperchunk::find(name).datatype; }
    const char *getType(const std::string &name) { return getType(name.c_str()); }
    // Returns the string in an element of a string dataset, or in a member. Fixed-length strings without a terminator are copied.
    template <class T> const char *string(const T &from) {
        if constexpr (std::is_pointer<T>::value)
            return from ? from : "";
        else if constexpr (std::is_array<T>::value)
            return hyperchunk::terminated(from, sizeof from);
        else
            return string(from.value);
    }
    // Sets a string of an output. A longer text is truncated; the rest of the string is cleared.
    template <class T> void setString(T &to, const char *format, ...) {
        va_list list;
        va_start(list, format);
        if constexpr (std::is_array<T>::value)
            hyperchunk::print(to, sizeof to, format, list);
        else
            hyperchunk::print(to.value, sizeof to.value, format, list);
        va_end(list);
    }
    const char *getFilePath() { return hyperchunk::current->file_path; }
#ifdef __wasm__
    uint64_t seed() { return hyperchunk_import_seed(); }
    double clock() { return hyperchunk_import_clock(); }
#else
    // Returns the seed of this block, an integer that is the same for each reader.
    uint64_t seed() {
        if (hyperchunk::current->seed < 0)
            throw std::runtime_error("lib.seed: the record has no seed; attach the function again");
        return uint64_t(hyperchunk::current->seed);
    }
    // Returns seconds since 1970, if the profile grants the clock.
    double clock() {
        char message[1024];
        double now = hyperchunk::current->clock(message, sizeof message);
        if (now < 0) throw std::runtime_error(message);
        return now;
    }
    // Returns a connected socket for "host:port", if the profile grants it: for read, write, send, recv, poll, shutdown and close.
    int connect(const std::string &target) {
        char message[1024];
        int fd = hyperchunk::current->connect(target.c_str(), message, sizeof message);
        if (fd < 0) throw std::runtime_error(message);
        return fd;
    }
#endif
};
static UserDefinedLibrary lib;

#if defined(__x86_64__) && !defined(HYPERCHUNK_NARROW)
// Compiled twice: for every processor, and with registers of twice the width.
extern "C" __attribute__((always_inline)) void dynamic_dataset();
#endif
