/* Common parts of vpic_io and bdcats_io: particles whose values are functions of their numbers, options, and the report. */
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROPERTIES = 8, ID_1 = 6, WIDTH = 64, DEPTH = 16 };
static const char *const names[PROPERTIES] = {"x", "y", "z", "px", "py", "pz", "id_1", "id_2"};

static hid_t transfer = H5P_DEFAULT;

struct run {
    int rank, ranks, steps, mpio, check;
    hsize_t particles, block;
    const char *pattern, *path;
    hid_t access;
};

struct particles {
    void *columns[PROPERTIES];
    uint32_t *rows; /* the same, particle by particle */
};

static inline void check(hid_t status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "%s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
}

/* Returns the bits of a property: z, pz are ramps, id_1 is the number itself, the others are spread over 0 to 64. */
static inline uint32_t value(hsize_t particle, int property)
{
    float number;
    uint32_t bits;
    if (property == ID_1)
        return (uint32_t)particle;
    if (property == 2 || property == 5)
        number = (float)particle;
    else
        number = (float)((uint32_t)(particle * 2654435761u + (unsigned)property * 40503u) >> 8) * 0x1p-18f;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static inline hid_t property_type(int property)
{
    return property == ID_1 ? H5T_NATIVE_INT32 : H5T_NATIVE_FLOAT;
}

static inline hid_t particle_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, 4 * PROPERTIES);
    for (int property = 0; property < PROPERTIES; property++)
        check(H5Tinsert(type, names[property], 4 * (size_t)property, property_type(property)), "H5Tinsert");
    return type;
}

/* Returns the extent of all particles in two or three dimensions. */
static inline int shape(const struct run *run, int rank, hsize_t *dims)
{
    dims[0] = run->ranks * (run->particles / WIDTH / (rank == 3 ? DEPTH : 1));
    dims[1] = WIDTH;
    dims[2] = DEPTH;
    return rank;
}

/* Returns the particle number of a rank's `index`th value. */
static inline hsize_t number_of(const struct run *run, hsize_t index)
{
    if (strcmp(run->pattern, "strided") == 0)
        return (index / run->block * (hsize_t)run->ranks + (hsize_t)run->rank) * run->block + index % run->block;
    if (strcmp(run->pattern, "append") == 0) {
        hsize_t half = run->particles / 2;
        return (index < half ? 0 : (hsize_t)run->ranks * half) + (hsize_t)run->rank * half + index % half;
    }
    return (hsize_t)run->rank * run->particles + index;
}

static inline struct particles make_particles(const struct run *run)
{
    struct particles data = {{NULL}, malloc(run->particles * PROPERTIES * 4)};
    if (data.rows == NULL)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    for (int property = 0; property < PROPERTIES; property++) {
        uint32_t *column = malloc(run->particles * 4);
        if (column == NULL)
            MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
        for (hsize_t i = 0; i < run->particles; i++)
            data.rows[i * PROPERTIES + (hsize_t)property] = column[i] = value(number_of(run, i), property);
        data.columns[property] = column;
    }
    return data;
}

static inline int find(const char *const *words, int count, const char *wanted)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], wanted) == 0)
            return i;
    fprintf(stderr, "no such pattern: %s\n", wanted);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    return -1;
}

static inline struct run begin(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct run run = {.steps = 1, .particles = 1 << 20, .block = 4096, .pattern = "contiguous", .access = H5P_DEFAULT};
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run.ranks);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mpio") == 0)
            run.mpio = 1;
        else if (strcmp(argv[i], "--check") == 0)
            run.check = 1;
        else if (strcmp(argv[i], "--particles") == 0 && i + 1 < argc)
            run.particles = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc)
            run.steps = atoi(argv[++i]);
        else if (strcmp(argv[i], "--pattern") == 0 && i + 1 < argc)
            run.pattern = argv[++i];
        else
            run.path = argv[i];
    }
    if (run.path == NULL || run.particles % ((hsize_t)2 * run.block) != 0) {
        fprintf(stderr, "usage: %s [--mpio] [--check] [--particles N (a multiple of 8192)] [--steps N] [--pattern P] FILE\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (run.mpio) {
#ifdef H5_HAVE_PARALLEL
        run.access = H5Pcreate(H5P_FILE_ACCESS);
        check(H5Pset_fapl_mpio(run.access, MPI_COMM_WORLD, MPI_INFO_NULL), "H5Pset_fapl_mpio");
#else
        fprintf(stderr, "this HDF5 is not built with MPI\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
#endif
    }
    return run;
}

/* Prints `seconds` of the slowest rank in one line. */
static inline void report(const char *what, const struct run *run, double raw, double observed)
{
    double mine[2] = {raw, observed}, worst[2];
    MPI_Reduce(mine, worst, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (run->rank == 0)
        printf("{\"what\": \"%s\", \"pattern\": \"%s\", \"ranks\": %d, \"particles\": %llu, \"steps\": %d, \"raw\": %.6f, "
               "\"observed\": %.6f, \"bytes\": %llu}\n",
               what, run->pattern, run->ranks, (unsigned long long)run->particles, run->steps, worst[0], worst[1],
               (unsigned long long)run->particles * (unsigned)run->ranks * (unsigned)run->steps * PROPERTIES * 4);
    fflush(stdout);
    MPI_Finalize();
}
