/* Programs for parallel HDF5, as users write them: parallel CASE FILE. They contain nothing about stores. Every rank prints
 * its unexpected values; on success, nothing is printed. */
#include <hdf5.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, wrong;
static hid_t collective;

static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "rank %d: ", rank);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    wrong = 1;
}

#define CHECK(call) \
    do { \
        if ((call) < 0) \
            say("%s failed", #call); \
    } while (0)

static hid_t list_of(MPI_Comm communicator)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_mpio(list, communicator, MPI_INFO_NULL));
    return list;
}

static hid_t create(const char *name, MPI_Comm communicator)
{
    hid_t list = list_of(communicator), file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list);
    CHECK(file);
    H5Pclose(list);
    return file;
}

static hid_t open_file(const char *name, unsigned flags, MPI_Comm communicator)
{
    hid_t list = list_of(communicator), file = H5Fopen(name, flags, list);
    CHECK(file);
    H5Pclose(list);
    return file;
}

/* Selects the box of `rank_of_it` in a dataset of `dims`, along the first axis; blocks are contiguous or interleaved. */
static hid_t part(int rank_of_it, int axes, const hsize_t *dims, int interleaved, hid_t *memory)
{
    hsize_t start[3] = {0}, stride[3], count[3], block[3], all = 1;
    for (int i = 0; i < axes; i++) {
        stride[i] = block[i] = count[i] = 1;
        count[i] = dims[i];
    }
    count[0] = dims[0] / (hsize_t)ranks;
    start[0] = interleaved ? (hsize_t)rank_of_it : count[0] * (hsize_t)rank_of_it;
    stride[0] = interleaved ? (hsize_t)ranks : 1;
    for (int i = 0; i < axes; i++)
        all *= count[i];
    hid_t space = H5Screate_simple(axes, dims, NULL);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block));
    *memory = H5Screate_simple(1, &all, NULL);
    return space;
}

/* Returns the values of a part: their indices in the dataset. */
static int *values_of(int rank_of_it, int axes, const hsize_t *dims, int interleaved, hsize_t *count)
{
    hsize_t row = 1;
    for (int i = 1; i < axes; i++)
        row *= dims[i];
    hsize_t rows = dims[0] / (hsize_t)ranks;
    int *values = malloc(rows * row * sizeof *values);
    for (hsize_t i = 0; i < rows; i++) {
        hsize_t at = interleaved ? i * (hsize_t)ranks + (hsize_t)rank_of_it : rows * (hsize_t)rank_of_it + i;
        for (hsize_t j = 0; j < row; j++)
            values[i * row + j] = (int)(at * row + j);
    }
    *count = rows * row;
    return values;
}

static void write_part(hid_t set, int axes, const hsize_t *dims, int interleaved, hid_t transfer)
{
    hsize_t count;
    hid_t memory, space = part(rank, axes, dims, interleaved, &memory);
    int *values = values_of(rank, axes, dims, interleaved, &count);
    CHECK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, transfer, values));
    free(values);
    H5Sclose(space);
    H5Sclose(memory);
}

static void read_part(hid_t set, int of, int axes, const hsize_t *dims, int interleaved, hid_t transfer)
{
    hsize_t count;
    hid_t memory, space = part(of, axes, dims, interleaved, &memory);
    int *expected = values_of(of, axes, dims, interleaved, &count), *values = calloc(count, sizeof *values);
    CHECK(H5Dread(set, H5T_NATIVE_INT, memory, space, transfer, values));
    for (hsize_t i = 0; i < count; i++)
        if (values[i] != expected[i]) {
            say("element %llu of rank %d: expected %d, got %d", (unsigned long long)i, of, expected[i], values[i]);
            break;
        }
    free(values);
    free(expected);
    H5Sclose(space);
    H5Sclose(memory);
}

static const hsize_t SIZES[3][3] = {{24000}, {240, 100}, {24, 40, 25}};

static hid_t new_set(hid_t at, const char *name, int axes, const hsize_t *dims, hid_t list)
{
    hid_t space = H5Screate_simple(axes, dims, NULL);
    hid_t set = H5Dcreate2(at, name, H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    CHECK(set);
    H5Sclose(space);
    return set;
}

/* One to three dimensions, contiguous and interleaved parts, collective and not, with chunks and without. */
static void kernels(const char *name)
{
    hid_t file = create(name, MPI_COMM_WORLD);
    hid_t group = H5Gcreate2(file, "kernels", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (int number = 0; number < 24; number++) {
        int axes = number % 3 + 1, interleaved = number / 3 % 2, together = number / 6 % 2, chunked = number / 12;
        char called[40];
        sprintf(called, "%d-%s-%s-%s", axes, interleaved ? "interleaved" : "contiguous",
                together ? "collective" : "independent", chunked ? "chunks" : "whole");
        hid_t list = H5Pcreate(H5P_DATASET_CREATE);
        hsize_t chunk[3] = {7, 11, 13};
        if (chunked)
            CHECK(H5Pset_chunk(list, axes, chunk));
        hid_t set = new_set(group, called, axes, SIZES[axes - 1], list);
        write_part(set, axes, SIZES[axes - 1], interleaved, together ? collective : H5P_DEFAULT);
        H5Pclose(list);
        CHECK(H5Dclose(set));
    }
    CHECK(H5Gclose(group));
    CHECK(H5Fclose(file));
    /* Committed, for every rank, with any driver. */
    hid_t lists[2] = {H5P_DEFAULT, list_of(MPI_COMM_WORLD)};
    for (int way = 0; way < 2; way++) {
        file = H5Fopen(name, H5F_ACC_RDONLY, lists[way]);
        CHECK(file);
        hid_t set = H5Dopen2(file, "kernels/2-interleaved-collective-chunks", H5P_DEFAULT);
        CHECK(set);
        for (int of = 0; of < ranks; of++)
            read_part(set, of, 2, SIZES[1], 1, way ? collective : H5P_DEFAULT);
        CHECK(H5Dclose(set));
        CHECK(H5Fclose(file));
    }
    H5Pclose(lists[1]);
}

typedef struct {
    int id;
    double energy;
    float place[3];
} Particle;

/* Compounds, whole and member by member. */
static void compounds(const char *name)
{
    enum { COUNT = 500 };
    hsize_t three = 3, all = COUNT * (hsize_t)ranks, count = COUNT, start = COUNT * (hsize_t)rank;
    hid_t place = H5Tarray_create2(H5T_NATIVE_FLOAT, 1, &three);
    hid_t kind = H5Tcreate(H5T_COMPOUND, sizeof(Particle));
    CHECK(H5Tinsert(kind, "id", offsetof(Particle, id), H5T_NATIVE_INT));
    CHECK(H5Tinsert(kind, "energy", offsetof(Particle, energy), H5T_NATIVE_DOUBLE));
    CHECK(H5Tinsert(kind, "place", offsetof(Particle, place), place));
    Particle *particles = calloc(COUNT, sizeof *particles);
    double *energies = malloc(COUNT * sizeof *energies);
    for (int i = 0; i < COUNT; i++) {
        Particle one = {(int)start + i, 0.5 * i + rank, {1.0f * (float)i, 2, (float)rank}};
        particles[i] = one;
        energies[i] = 1000 + i + rank;
    }
    hid_t file = create(name, MPI_COMM_WORLD), space = H5Screate_simple(1, &all, NULL);
    hid_t memory = H5Screate_simple(1, &count, NULL);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
    hid_t whole = H5Dcreate2(file, "whole", kind, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t fields = H5Dcreate2(file, "fields", kind, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(whole, kind, memory, space, collective, particles));
    hid_t energy = H5Tcreate(H5T_COMPOUND, sizeof(double)), id = H5Tcreate(H5T_COMPOUND, sizeof(int));
    CHECK(H5Tinsert(energy, "energy", 0, H5T_NATIVE_DOUBLE));
    CHECK(H5Tinsert(id, "id", 0, H5T_NATIVE_INT));
    int *ids = malloc(COUNT * sizeof *ids);
    for (int i = 0; i < COUNT; i++)
        ids[i] = 7 * i + rank;
    CHECK(H5Dwrite(fields, energy, memory, space, collective, energies));
    CHECK(H5Dwrite(fields, id, memory, space, collective, ids));
    CHECK(H5Dclose(whole));
    CHECK(H5Dclose(fields));
    CHECK(H5Fclose(file));
}

/* Ranks read other ranks' data, in the same open file. */
static void reads(const char *name)
{
    hid_t file = create(name, MPI_COMM_WORLD), list = H5Pcreate(H5P_DATASET_CREATE);
    hid_t set = new_set(file, "collective", 2, SIZES[1], H5P_DEFAULT);
    int next = (rank + 1) % ranks;
    write_part(set, 2, SIZES[1], 0, collective);
    read_part(set, next, 2, SIZES[1], 0, collective);
    MPI_Barrier(MPI_COMM_WORLD);
    write_part(set, 2, SIZES[1], 1, collective);
    CHECK(H5Dclose(set));
    set = new_set(file, "flushed", 1, SIZES[0], H5P_DEFAULT);
    write_part(set, 1, SIZES[0], 1, H5P_DEFAULT);
    CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    read_part(set, next, 1, SIZES[0], 1, H5P_DEFAULT);
    CHECK(H5Dclose(set));
    /* Small writes, no flush: natively they are in the file. */
    hsize_t few[1] = {4 * (hsize_t)ranks};
    set = new_set(file, "small", 1, few, H5P_DEFAULT);
    write_part(set, 1, few, 0, H5P_DEFAULT);
    MPI_Barrier(MPI_COMM_WORLD);
    read_part(set, next, 1, few, 0, H5P_DEFAULT);
    CHECK(H5Dclose(set));
    /* A dataset that grows. */
    hsize_t dims[2] = {(hsize_t)ranks, 10}, max[2] = {H5S_UNLIMITED, 10}, chunk[2] = {1, 10}, size[2] = {0, 10};
    hid_t space = H5Screate_simple(2, size, max);
    CHECK(H5Pset_chunk(list, 2, chunk));
    set = H5Dcreate2(file, "growing", H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    for (int step = 1; step <= 2; step++) {
        CHECK(H5Dset_extent(set, dims));
        write_part(set, 2, dims, 0, collective);
        read_part(set, next, 2, dims, 0, collective);
        dims[0] *= 2;
    }
    CHECK(H5Dclose(set));
    H5Sclose(space);
    H5Pclose(list);
    CHECK(H5Fclose(file));
}

/* A file reopened for writing: new datasets and attributes, and existing ones. */
static void appends(const char *name)
{
    hid_t file = create(name, MPI_COMM_WORLD);
    CHECK(H5Dclose(new_set(file, "first", 1, SIZES[0], H5P_DEFAULT)));
    CHECK(H5Fclose(file));
    for (int session = 1; session <= 2; session++) {
        file = open_file(name, H5F_ACC_RDWR, MPI_COMM_WORLD);
        hid_t set = H5Dopen2(file, "first", H5P_DEFAULT);
        write_part(set, 1, SIZES[0], session % 2, collective);
        read_part(set, (rank + session) % ranks, 1, SIZES[0], session % 2, collective);
        hid_t space = H5Screate(H5S_SCALAR);
        char called[20];
        sprintf(called, "session %d", session);
        hid_t attribute = H5Acreate2(set, called, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &session));
        CHECK(H5Aclose(attribute));
        CHECK(H5Dclose(set));
        set = new_set(file, called, 3, SIZES[2], H5P_DEFAULT);
        write_part(set, 3, SIZES[2], 1, collective);
        CHECK(H5Dclose(set));
        H5Sclose(space);
        CHECK(H5Fclose(file));
    }
}

/* Two files at once, one shared by some of the ranks, one of each rank alone. */
static void communicators(const char *name)
{
    char called[3][4096];
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    sprintf(called[0], "%s", name);
    sprintf(called[1], "half%d.h5", rank % 2);
    sprintf(called[2], "alone%d.h5", rank);
    hid_t files[3] = {create(called[0], MPI_COMM_WORLD), create(called[1], half), create(called[2], MPI_COMM_SELF)};
    for (int number = 0; number < 3; number++) {
        hid_t set = new_set(files[number], "x", 1, SIZES[0], H5P_DEFAULT);
        write_part(set, 1, SIZES[0], 0, collective);
        CHECK(H5Dclose(set));
    }
    for (int number = 0; number < 3; number++)
        CHECK(H5Fclose(files[number]));
    for (int number = 0; number < 3; number++) {
        hid_t file = H5Fopen(called[number], H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "x", H5P_DEFAULT);
        read_part(set, rank, 1, SIZES[0], 0, H5P_DEFAULT);
        CHECK(H5Dclose(set));
        CHECK(H5Fclose(file));
    }
    MPI_Comm_free(&half);
}

/* Queries about a file. */
static void questions(const char *name)
{
    hid_t list = list_of(MPI_COMM_WORLD), file = create(name, MPI_COMM_WORLD);
    for (int step = 0; step < 2; step++) {
        int size = 0, order = MPI_UNEQUAL;
        MPI_Comm communicator = MPI_COMM_NULL;
        hid_t answer = H5Fget_access_plist(file);
        CHECK(H5Pget_fapl_mpio(answer, &communicator, NULL));
        if (communicator != MPI_COMM_NULL) {
            MPI_Comm_size(communicator, &size);
            MPI_Comm_compare(communicator, MPI_COMM_WORLD, &order);
            MPI_Comm_free(&communicator);
        }
        if (size != ranks || order != MPI_CONGRUENT || H5Pget_driver(answer) != H5FD_MPIO)
            say("another communicator, of %d ranks", size);
        H5Pclose(answer);
        bool atomic = true;
        CHECK(H5Fget_mpi_atomicity(file, &atomic));
        if (atomic)
            say("atomic by itself");
        CHECK(H5Fset_mpi_atomicity(file, false));
        char called[4096];
        if (H5Fget_name(file, called, sizeof called) < 0 || strcmp(called, name) != 0)
            say("called %s", called);
        CHECK(H5Fclose(file));
        if (H5Fis_accessible(name, list) <= 0)
            say("not accessible");
        file = open_file(name, H5F_ACC_RDWR, MPI_COMM_WORLD);
    }
    CHECK(H5Fclose(file));
    H5Pclose(list);
}

/* Calls that fail on all ranks. */
static void failures(const char *name)
{
    hid_t list = list_of(MPI_COMM_WORLD);
    CHECK(H5Fclose(create(name, MPI_COMM_WORLD)));
    H5E_BEGIN_TRY
    {
        if (H5Fcreate(name, H5F_ACC_EXCL, H5P_DEFAULT, list) >= 0)
            say("a file that is there was created");
        if (H5Fopen("none.h5", H5F_ACC_RDWR, list) >= 0)
            say("a file that is not there was opened");
        if (H5Fcreate("none/none.h5", H5F_ACC_TRUNC, H5P_DEFAULT, list) >= 0)
            say("a file in no folder was created");
    }
    H5E_END_TRY
    H5Pclose(list);
}

/* Left open: HDF5 closes it when MPI ends. */
static void left_open(const char *name)
{
    hid_t file = create(name, MPI_COMM_WORLD), set = new_set(file, "x", 1, SIZES[0], H5P_DEFAULT);
    write_part(set, 1, SIZES[0], 0, collective);
}

/* One rank writes a scalar dataset, and others read it in the same open file. */
static void scalar(const char *name)
{
    int value = 17, read = 0;
    hid_t file = create(name, MPI_COMM_WORLD), space = H5Screate(H5S_SCALAR);
    hid_t set = H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (rank == 0)
        CHECK(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
    CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    if (H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, collective, &read) < 0)
        say("not read");
    else if (read != value)
        say("expected %d, got %d", value, read);
    CHECK(H5Dclose(set));
    H5Sclose(space);
    CHECK(H5Fclose(file));
}

/* Ranks that write different values to one element. */
static void conflict(const char *name)
{
    hsize_t dims[1] = {4};
    int values[4] = {rank, rank, rank, rank};
    hid_t file = create(name, MPI_COMM_WORLD), set = new_set(file, "x", 1, dims, H5P_DEFAULT);
    CHECK(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, collective, values));
    CHECK(H5Dclose(set));
    CHECK(H5Fclose(file));
}

int main(int count, char **arguments)
{
    struct {
        const char *name;
        void (*run)(const char *);
    } cases[] = {{"kernels", kernels},     {"compounds", compounds},         {"reads", reads},
                 {"appends", appends},     {"communicators", communicators}, {"questions", questions},
                 {"left_open", left_open}, {"conflict", conflict},           {"failures", failures},
                 {"scalar", scalar}};
    /* One write, so that lines of several ranks are not mixed. */
    setvbuf(stderr, NULL, _IOFBF, 1 << 16);
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    collective = H5Pcreate(H5P_DATASET_XFER);
    CHECK(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE));
    for (size_t number = 0; number < sizeof cases / sizeof *cases; number++)
        if (count == 3 && strcmp(arguments[1], cases[number].name) == 0)
            cases[number].run(arguments[2]);
    H5Pclose(collective);
    /* Launchers stop the other ranks when one has failed. */
    fflush(stderr);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong;
}
