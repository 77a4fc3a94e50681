typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
struct Region {
    size_t rank;
    size_t dims[32];
    size_t start[32];
};
#define DATASET(name)
#define THREADS(...)
namespace hyperchunk {
template <typename A, typename B> struct same { enum { value = 0 }; };
template <typename A> struct same<A, A> { enum { value = 1 }; };
}
