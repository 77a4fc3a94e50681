// Environment of a C++ analysis.
#include <map>

namespace hyperchunk {

// Number, string, or list of numbers.
class value {
  public:
    enum kind_t : uint8_t { is_signed, is_unsigned, is_double, is_text, is_list };
    kind_t kind = is_signed;
    int64_t i = 0;
    uint64_t u = 0;
    double d = 0;
    std::string text;
    std::vector<value> list;

    value() {}
    template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type> value(T x) {
        if (std::is_floating_point<T>::value) {
            kind = is_double;
            d = double(x);
        } else if (std::is_unsigned<T>::value && !std::is_same<T, bool>::value) {
            kind = is_unsigned;
            u = uint64_t(x);
        } else
            i = int64_t(x);
    }
    value(const char *x) : kind(is_text), text(x) {}
    value(const std::string &x) : kind(is_text), text(x) {}
    template <class T> value(const std::vector<T> &x) : kind(is_list), list(x.begin(), x.end()) {}
    // Returns any kind of number as floating-point.
    double number() const { return kind == is_signed ? double(i) : kind == is_unsigned ? double(u) : d; }
};

// Results of an analysis.
using pairs = std::map<std::string, value>;

// Box of a dataset: its offset and extent.
struct box {
    std::vector<size_t> start, count;
    size_t size() const {
        size_t n = 1;
        for (size_t c : count) n *= c;
        return n;
    }
};

// Written elements, row-major.
class array {
    const void *elements;
    const char *name;
    size_t many;
    template <class T> static const char *called() {
        if (std::is_floating_point<T>::value) return sizeof(T) == 4 ? "float" : sizeof(T) == 8 ? "double" : "";
        static const char *const names[2][4] = {{"uint8", "uint16", "uint32", "uint64"}, {"int8", "int16", "int32", "int64"}};
        if (!std::is_integral<T>::value || sizeof(T) > 8) return "";
        return names[std::is_signed<T>::value][sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3];
    }

  public:
    array(const void *elements, const char *name, size_t many) : elements(elements), name(name), many(many) {}
    size_t size() const { return many; }
    // Returns the type's name: "float", "int32", …
    const char *type() const { return name; }
    // Returns the elements, which must be of this type.
    template <class T> const T *data() const {
        if (strcmp(called<T>(), name) != 0)
            throw std::runtime_error(std::string("the data are of type ") + name + ", not of the type that was asked for");
        return static_cast<const T *>(elements);
    }
    const void *bytes() const { return elements; }
};
} // namespace hyperchunk

// Optional: merges the results of two parts.
hyperchunk::pairs merge(const hyperchunk::pairs &a, const hyperchunk::pairs &b) __attribute__((weak));
