/* Lists a file, its attributes and the first values of its datasets: `read_file FILE-OR-URL [DATASET]`. With a dataset's
 * path, writes all its values to the standard output, as doubles. */
#include <hyperchunk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 4096, RANK = 32, SHOWN = 4 };

static void fail(const char *what)
{
    fprintf(stderr, "read_file: %s: %s\n", what, hc_error());
    exit(1);
}

/* Returns the number of elements of a dataset, and prints its extent. */
static uint64_t extent(hc_id dset, uint64_t *dims, int *rank, int print)
{
    uint64_t count = 1;
    *rank = hc_dims(dset, RANK, dims);
    if (*rank < 0)
        fail("hc_dims");
    for (int axis = 0; axis < *rank; axis++) {
        count *= dims[axis];
        if (print)
            printf("%s%llu", axis ? " x " : "  ", (unsigned long long)dims[axis]);
    }
    return count;
}

static void print_attributes(hc_id object)
{
    char name[PATH], text[80];
    double values[SHOWN];
    int64_t count = hc_attr_count(object);
    for (int64_t number = 0; number < count; number++) {
        hc_attr_name(object, number, name, sizeof name);
        printf("    @%s", name);
        if (hc_class_of(object, name) == HC_CLASS_STRING && hc_get_string(object, name, text, sizeof text) >= 0)
            printf(" = \"%s\"", text);
        else if (hc_type_of(object, name) > 0 && hc_get_numbers(object, name, HC_FLOAT64, SHOWN, values) == 1)
            printf(" = %g", values[0]);
        printf("\n");
    }
}

static void print_values(hc_id dset, const uint64_t *dims, int rank)
{
    uint64_t count[RANK];
    double values[SHOWN];
    int shown = 1;
    for (int axis = 0; axis < rank; axis++)
        count[axis] = dims[axis] != 0;
    if (rank > 0 && dims[rank - 1] > 1)
        shown = (int)(count[rank - 1] = dims[rank - 1] < SHOWN ? dims[rank - 1] : SHOWN);
    for (int axis = 0; axis < rank; axis++)
        if (dims[axis] == 0)
            return;
    if (hc_type_of(dset, NULL) <= 0)
        return;
    if (hc_read(dset, HC_FLOAT64, NULL, rank ? count : NULL, NULL, values) < 0)
        fail("hc_read");
    printf(":");
    for (int number = 0; number < shown; number++)
        printf(" %g", values[number]);
}

static void list(hc_id group, const char *above)
{
    char name[PATH], path[2 * PATH];
    int64_t count = hc_member_count(group);
    if (count < 0)
        fail(above);
    for (int64_t number = 0; number < count; number++) {
        uint64_t dims[RANK];
        int rank, kind;
        hc_id object;
        hc_member_name(group, number, name, sizeof name);
        snprintf(path, sizeof path, "%s/%s", above, name);
        kind = hc_kind(group, name);
        printf("%s", path);
        if (kind == HC_GROUP) {
            if ((object = hc_open_group(group, name)) < 0)
                fail(path);
            printf("/\n");
            print_attributes(object);
            if (strlen(path) < PATH)
                list(object, path);
            hc_close(object);
        } else if (kind == HC_DATASET) {
            if ((object = hc_open_dataset(group, name)) < 0)
                fail(path);
            extent(object, dims, &rank, 1);
            print_values(object, dims, rank);
            printf("\n");
            print_attributes(object);
            hc_close(object);
        } else {
            printf(kind == HC_DATATYPE ? "  (datatype)\n" : "  (dangling link)\n");
        }
    }
}

int main(int argc, char **argv)
{
    hc_id file;
    if (argc < 2) {
        fprintf(stderr, "usage: read_file FILE-OR-URL [DATASET]\n");
        return 2;
    }
    if ((file = hc_open(argv[1])) < 0)
        fail(argv[1]);
    if (argc == 2) {
        print_attributes(file);
        list(file, "");
    } else {
        uint64_t dims[RANK];
        int rank;
        hc_id dset = hc_open_dataset(file, argv[2]);
        if (dset < 0)
            fail(argv[2]);
        uint64_t count = extent(dset, dims, &rank, 0);
        double *values = malloc(count * sizeof *values + 1);
        if (values == NULL || hc_read(dset, HC_FLOAT64, NULL, NULL, NULL, values) < 0)
            fail(argv[2]);
        fwrite(values, sizeof *values, count, stdout);
        free(values);
    }
    return hc_close(file) < 0;
}
