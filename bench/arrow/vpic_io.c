/* The I/O of VPIC, a plasma simulation, in all the patterns of h5bench: eight properties of a particle, 32 bytes, for a
 * number of time steps, each a group. An ordinary MPI program: with HDF5_VOL_CONNECTOR it uses a connector,
 * otherwise the native library and MPI-IO (--mpio).
 *
 *     mpiexec -n 4 vpic_io --particles 1048576 --steps 1 --pattern contiguous --mpio out.h5
 *
 * Patterns (memory to file): contiguous, interleaved-contiguous, contiguous-interleaved, interleaved, strided, 2d, 3d,
 * append, overwrite, unlimited. Rank 0 prints one line of JSON: seconds in H5Dwrite alone (`raw`, of the slowest rank), from
 * H5Fcreate to H5Fclose (`observed`), and the bytes of all ranks. `durable` adds fsync of the file. */
#include "particles.h"

enum pattern { CC, IC, CI, II, STRIDED, P2D, P3D, APPEND, OVERWRITE, UNLIMITED, PATTERNS };
static const char *const patterns[PATTERNS] = {"contiguous", "interleaved-contiguous", "contiguous-interleaved", "interleaved",
                                               "strided", "2d", "3d", "append", "overwrite", "unlimited"};

static double raw; /* seconds in H5Dwrite */

static void timed_write(hid_t set, hid_t type, hid_t memory, hid_t space, const void *data)
{
    double start = MPI_Wtime();
    check(H5Dwrite(set, type, memory, space, transfer, data), "H5Dwrite");
    raw += MPI_Wtime() - start;
}

static hid_t create_set(hid_t group, const char *name, hid_t type, int rank, const hsize_t *dims, int unlimited)
{
    hsize_t max[3], chunk[3];
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    for (int i = 0; i < rank; i++) {
        max[i] = unlimited && i == 0 ? H5S_UNLIMITED : dims[i];
        chunk[i] = i == 0 ? (dims[0] < 65536 ? dims[0] : 65536) : dims[i];
    }
    if (unlimited)
        check(H5Pset_chunk(plist, rank, chunk), "H5Pset_chunk");
    hid_t space = H5Screate_simple(rank, dims, max);
    hid_t set = H5Dcreate2(group, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    check(set, "H5Dcreate2");
    H5Sclose(space);
    H5Pclose(plist);
    return set;
}

/* Writes a rank's part of one property in the given pattern. */
static void write_part(hid_t set, int property, enum pattern pattern, const struct run *run, const struct particles *data)
{
    hsize_t count = run->particles, first = run->rank * count, total = run->ranks * count;
    hid_t space = H5Dget_space(set), memory;
    hid_t type = property_type(property);
    const void *from = data->columns[property];
    switch (pattern) {
    case IC: { /* every eighth number in memory */
        hsize_t wide = count * PROPERTIES, start = (hsize_t)property, stride = PROPERTIES;
        memory = H5Screate_simple(1, &wide, NULL);
        check(H5Sselect_hyperslab(memory, H5S_SELECT_SET, &start, &stride, &count, NULL), "H5Sselect_hyperslab");
        check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL), "H5Sselect_hyperslab");
        from = data->rows;
        break;
    }
    case STRIDED: { /* ranks alternate, a block each */
        hsize_t block = run->block, blocks = count / block, stride = block * run->ranks, start = block * run->rank;
        memory = H5Screate_simple(1, &count, NULL);
        check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &stride, &blocks, &block), "H5Sselect_hyperslab");
        break;
    }
    case P2D:
    case P3D: {
        hsize_t dims[3], start[3] = {0, 0, 0};
        int rank = shape(run, pattern == P2D ? 2 : 3, dims);
        hsize_t rows = dims[0] / run->ranks;
        start[0] = rows * run->rank;
        dims[0] = rows;
        memory = H5Screate_simple(rank, dims, NULL);
        check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, dims, NULL), "H5Sselect_hyperslab");
        break;
    }
    default:
        memory = H5Screate_simple(1, &count, NULL);
        check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL), "H5Sselect_hyperslab");
    }
    (void)total;
    timed_write(set, type, memory, space, from);
    H5Sclose(memory);
    H5Sclose(space);
}

/* Writes one dataset of a compound type, from rows or column by column. */
static void write_rows(hid_t group, enum pattern pattern, const struct run *run, const struct particles *data)
{
    hsize_t count = run->particles, first = run->rank * count, total = run->ranks * count;
    hid_t type = particle_type();
    hid_t set = create_set(group, "particles", type, 1, &total, 0);
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &count, NULL);
    check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL), "H5Sselect_hyperslab");
    if (pattern == II)
        timed_write(set, type, memory, space, data->rows);
    for (int property = 0; pattern == CI && property < PROPERTIES; property++) {
        hid_t one = H5Tcreate(H5T_COMPOUND, 4);
        check(H5Tinsert(one, names[property], 0, property_type(property)), "H5Tinsert");
        timed_write(set, one, memory, space, data->columns[property]);
        H5Tclose(one);
    }
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(set);
    H5Tclose(type);
}

static void write_step(hid_t group, enum pattern pattern, const struct run *run, const struct particles *data)
{
    hsize_t dims[3] = {run->ranks * run->particles};
    int rank = pattern == P2D ? shape(run, 2, dims) : pattern == P3D ? shape(run, 3, dims) : 1;
    if (pattern == CI || pattern == II) {
        write_rows(group, pattern, run, data);
        return;
    }
    for (int property = 0; property < PROPERTIES; property++) {
        hid_t set = create_set(group, names[property], property_type(property), rank, dims,
                               pattern == UNLIMITED || pattern == APPEND);
        if (pattern == APPEND) { /* half of it, and the rest after the first halves of all ranks */
            struct run half = *run;
            half.particles /= 2;
            struct particles rest = *data;
            hsize_t whole = run->ranks * run->particles, start = run->ranks * half.particles;
            start += half.particles * run->rank;
            write_part(set, property, CC, &half, data);
            check(H5Dset_extent(set, &whole), "H5Dset_extent");
            hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &half.particles, NULL);
            rest.columns[property] = (char *)data->columns[property] + half.particles * 4;
            check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &half.particles, NULL), "H5Sselect_hyperslab");
            timed_write(set, property_type(property), memory, space, rest.columns[property]);
            H5Sclose(memory);
            H5Sclose(space);
        } else {
            write_part(set, property, pattern, run, data);
        }
        if (pattern == OVERWRITE)
            write_part(set, property, pattern, run, data);
        H5Dclose(set);
    }
}

int main(int argc, char **argv)
{
    struct run run = begin(argc, argv);
    int pattern = find(patterns, PATTERNS, run.pattern);
    struct particles data = make_particles(&run);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    hid_t file = H5Fcreate(run.path, H5F_ACC_TRUNC, H5P_DEFAULT, run.access);
    check(file, "H5Fcreate");
    for (int step = 0; step < run.steps; step++) {
        char name[32];
        snprintf(name, sizeof name, "Timestep_%d", step);
        hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        check(group, "H5Gcreate2");
        write_step(group, (enum pattern)pattern, &run, &data);
        H5Gclose(group);
    }
    check(H5Fclose(file), "H5Fclose");
    double closed = MPI_Wtime() - start;
    report("write", &run, raw, closed);
    return 0;
}
