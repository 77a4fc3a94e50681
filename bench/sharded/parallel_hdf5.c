/* The pattern of transfers with parallel HDF5, for peers.py, which calls these two functions in every rank. They are in a
 * separate library with its own HDF5 linked in and hidden, since h5py's different HDF5 is in the same process.
 *
 * A transfer is (dataset, first element, number of elements, memory). All ranks have the same number of transfers, so
 * that each may be collective. */
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct transfer {
    int64_t dataset;
    uint64_t start, count;
    void *memory;
};

static hid_t file_access(MPI_Fint comm)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (list < 0 || H5Pset_fapl_mpio(list, MPI_Comm_f2c(comm), MPI_INFO_NULL) < 0)
        return H5I_INVALID_HID;
    return list;
}

static int move(hid_t set, hid_t type, hid_t how, const struct transfer *t, int writing)
{
    hsize_t start = t->start, count = t->count;
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &count, NULL);
    int failed = space < 0 || memory < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL) < 0;
    if (!failed)
        failed = writing ? H5Dwrite(set, type, memory, space, how, t->memory) < 0
                         : H5Dread(set, type, memory, space, how, t->memory) < 0;
    H5Sclose(memory);
    H5Sclose(space);
    return failed;
}

static hid_t element(int size)
{
    return size == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_UCHAR;
}

/* Makes the file and its datasets v0, v1, … of `length` elements each, and writes; returns 0 on success. */
EXPORT int phdf5_write(const char *path, MPI_Fint comm, int collective, int size, int datasets, uint64_t length,
                       int transfers, const struct transfer *list)
{
    hsize_t dims = length;
    hid_t sets[64], access = file_access(comm), type = element(size), how = H5Pcreate(H5P_DATASET_XFER);
    int failed = datasets > 64 || access < 0 || how < 0;
    if (failed || H5Pset_dxpl_mpio(how, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT) < 0)
        return 1;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (file < 0)
        return 1;
    hid_t space = H5Screate_simple(1, &dims, NULL);
    for (int i = 0; i < datasets; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        sets[i] = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        failed |= sets[i] < 0;
    }
    for (int i = 0; i < transfers && !failed; i++)
        failed |= move(sets[list[i].dataset], type, how, &list[i], 1);
    for (int i = 0; i < datasets; i++)
        failed |= H5Dclose(sets[i]) < 0;
    H5Sclose(space);
    H5Pclose(how);
    H5Pclose(access);
    return failed | (H5Fclose(file) < 0);
}

/* Reads the transfers; `done` is called after each. */
EXPORT int phdf5_read(const char *path, MPI_Fint comm, int size, int transfers, const struct transfer *list,
                      void (*done)(int))
{
    hid_t access = file_access(comm), type = element(size);
    hid_t file = access < 0 ? access : H5Fopen(path, H5F_ACC_RDONLY, access), set = H5I_INVALID_HID;
    int64_t open = -1;
    int failed = file < 0;
    for (int i = 0; i < transfers && !failed; i++) {
        if (list[i].dataset != open) {
            char name[32];
            if (set >= 0)
                H5Dclose(set);
            open = list[i].dataset;
            snprintf(name, sizeof name, "v%lld", (long long)open);
            set = H5Dopen2(file, name, H5P_DEFAULT);
        }
        failed |= set < 0 || move(set, type, H5P_DEFAULT, &list[i], 0);
        if (done)
            done(i);
    }
    if (set >= 0)
        H5Dclose(set);
    H5Pclose(access);
    return failed | (file < 0 || H5Fclose(file) < 0);
}
