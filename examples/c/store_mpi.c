/* An MPI program written as for parallel HDF5, but without the two calls that select MPI-IO: every rank creates the same
 * file and the same datasets, and writes its own part. With the native library alone the ranks would overwrite each other.
 * With Hyperchunk's connector, which the program does not mention, they write one file, each at its own pace, and no HDF5
 * call waits for another rank. HDF5 need not be built with MPI; 1.14 or newer.
 *
 *     make -C examples/c store_mpi
 *     eval "$(hyperchunk env --vol)"
 *     mpiexec -n 4 examples/c/store_mpi out.h5
 *     h5dump -d /energy -s 0 -c 4 out.h5 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTICLES = 100003 }; /* per rank: nothing is aligned */

static void check(hid_t status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "%s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
}

/* Returns the energy of a particle: made up, but reproducible. */
static float energy(hsize_t particle)
{
    return (float)(particle % 9973) * 0.5f;
}

static void write_part(hid_t file, const char *name, hid_t type, hsize_t total, hsize_t start, hsize_t count,
                       const void *values)
{
    hid_t space = H5Screate_simple(1, &total, NULL);
    hid_t memory = H5Screate_simple(1, &count, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    check(set, "H5Dcreate2");
    check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL), "H5Sselect_hyperslab");
    check(H5Dwrite(set, type, memory, space, H5P_DEFAULT, values), "H5Dwrite");
    check(H5Dclose(set), "H5Dclose");
    H5Sclose(memory);
    H5Sclose(space);
}

/* Reads everything back, as one file; returns the number of wrong values. */
static hsize_t count_wrong(const char *path, hsize_t total)
{
    float *values = malloc(total * sizeof *values);
    hsize_t wrong = 0, dims = 0;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    check(file, "H5Fopen");
    hid_t set = H5Dopen2(file, "energy", H5P_DEFAULT);
    check(set, "H5Dopen2");
    hid_t space = H5Dget_space(set);
    if (values == NULL || H5Sget_simple_extent_dims(space, &dims, NULL) != 1 || dims != total)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    check(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dread");
    for (hsize_t i = 0; i < total; i++)
        wrong += values[i] != energy(i);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
    free(values);
    return wrong;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "particles.h5";
    int rank = 0, ranks = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    const hsize_t count = PARTICLES, total = count * (hsize_t)ranks, start = count * (hsize_t)rank;
    float *energies = malloc(count * sizeof *energies);
    long long *ids = malloc(count * sizeof *ids);
    if (energies == NULL || ids == NULL)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    for (hsize_t i = 0; i < count; i++) {
        energies[i] = energy(start + i);
        ids[i] = (long long)(start + i);
    }

    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    check(file, "H5Fcreate");
    write_part(file, "energy", H5T_NATIVE_FLOAT, total, start, count, energies);
    write_part(file, "id", H5T_NATIVE_LLONG, total, start, count, ids);
    /* The last rank that closes commits. */
    check(H5Fclose(file), "H5Fclose");

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        hsize_t wrong = count_wrong(path, total);
        printf("%d ranks wrote %llu particles to %s; %llu are wrong\n", ranks, (unsigned long long)total, path,
               (unsigned long long)wrong);
        if (wrong)
            MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    free(ids);
    free(energies);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
