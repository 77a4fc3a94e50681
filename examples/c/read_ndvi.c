/* Reads a slice of a dataset with nothing but HDF5's C library:
 *
 *     h5cc read_ndvi.c -o read_ndvi && ./read_ndvi scene.h5 NDVI 10 20 5
 *
 * prints NDVI[10:20, 5]. The program is the same for a stored and a computed dataset. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: %s FILE DATASET FIRST_ROW END_ROW COLUMN\n", argv[0]);
        return 2;
    }
    hsize_t first = strtoull(argv[3], NULL, 10), end = strtoull(argv[4], NULL, 10);
    hsize_t offset[2] = {first, strtoull(argv[5], NULL, 10)};
    hsize_t count[2] = {end > first ? end - first : 1, 1};

    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t dataset = H5Dopen2(file, argv[2], H5P_DEFAULT);
    hid_t space = H5Dget_space(dataset);
    hid_t memory = H5Screate_simple(2, count, NULL);
    float *values = malloc(count[0] * sizeof *values);
    int failed = values == NULL || H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, count, NULL) < 0 ||
                 H5Dread(dataset, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, values) < 0;
    for (hsize_t i = 0; !failed && i < count[0]; i++)
        printf("%.9g\n", values[i]);

    free(values);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(file);
    return failed;
}
