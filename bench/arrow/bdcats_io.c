/* The I/O of BD-CATS, which clusters VPIC's particles: reads the eight properties of every time step, in the patterns of
 * h5bench. Reads the files of vpic_io with the pattern contiguous (full, partial, strided) or 2d (cs, ldc, rdc, prl).
 *
 *     mpiexec -n 4 bdcats_io --particles 1048576 --pattern full --mpio --check out.h5
 *
 * partial: the first half, shared among the ranks. strided: every second block. Selections of a rank's matrix rows: cs is a
 * block that moves along the diagonal (cross stencil); ldc, rdc are the left and right lower corners; prl is the periphery.
 * Rank 0 prints one line of JSON: seconds in H5Dread (`raw`) and from H5Fopen to H5Fclose (`observed`). */
#include "particles.h"

enum pattern { FULL, PARTIAL, STRIDED, CS, LDC, RDC, PRL, PATTERNS };
static const char *const patterns[PATTERNS] = {"full", "partial", "strided", "cs", "ldc", "rdc", "prl"};

/* Returns a rank's rows of a matrix. */
struct rows {
    hsize_t first, count;
};

static int in_block(hsize_t at, hsize_t first, hsize_t count)
{
    return at >= first && at < first + count;
}

/* True if a pattern selects an element of a rank's rows. */
static int taken(enum pattern pattern, hsize_t row, hsize_t column, hsize_t rows)
{
    switch (pattern) {
    case CS: return in_block(column, row / 8 * 8 % WIDTH, 8);
    case LDC: return row >= rows / 2 && column < WIDTH / 2;
    case RDC: return row >= rows / 2 && column >= WIDTH / 2;
    case PRL: return row < 4 || row >= rows - 4 || column < 4 || column >= WIDTH - 4;
    default: return 0;
    }
}

static void add(hid_t space, int first, hsize_t row, hsize_t column, hsize_t rows, hsize_t columns)
{
    hsize_t start[2] = {row, column}, count[2] = {rows, columns};
    check(H5Sselect_hyperslab(space, first ? H5S_SELECT_SET : H5S_SELECT_OR, start, NULL, count, NULL), "H5Sselect_hyperslab");
}

static void select_matrix(hid_t space, enum pattern pattern, struct rows mine)
{
    hsize_t half = mine.count / 2, rest = mine.count - half;
    switch (pattern) {
    case CS: /* of eight columns, eight rows in every 64: one regular selection per column of blocks */
        for (hsize_t block = 0; block < WIDTH / 8; block++) {
            hsize_t start[2] = {mine.first + block * 8, block * 8}, stride[2] = {WIDTH, WIDTH};
            hsize_t count[2] = {mine.count / WIDTH, 1}, size[2] = {8, 8};
            check(H5Sselect_hyperslab(space, block ? H5S_SELECT_OR : H5S_SELECT_SET, start, stride, count, size),
                  "H5Sselect_hyperslab");
        }
        return;
    case LDC: add(space, 1, mine.first + half, 0, rest, WIDTH / 2); return;
    case RDC: add(space, 1, mine.first + half, WIDTH / 2, rest, WIDTH / 2); return;
    default:
        add(space, 1, mine.first, 0, 4, WIDTH);
        add(space, 0, mine.first + mine.count - 4, 0, 4, WIDTH);
        add(space, 0, mine.first, 0, mine.count, 4);
        add(space, 0, mine.first, WIDTH - 4, mine.count, 4);
    }
}

/* Selects a rank's part of a line; returns its first index, and the stride of blocks. */
static hsize_t select_line(hid_t space, enum pattern pattern, const struct run *run)
{
    hsize_t count = pattern == FULL ? run->particles : run->particles / 2, first = run->rank * count;
    if (pattern == STRIDED) {
        hsize_t stride = 2 * run->block, blocks = count / run->block;
        first = run->rank * run->particles;
        check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, &stride, &blocks, &run->block), "H5Sselect_hyperslab");
    } else {
        check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL), "H5Sselect_hyperslab");
    }
    return first;
}

static void compare(uint32_t got, hsize_t particle, int property)
{
    if (got != value(particle, property)) {
        fprintf(stderr, "%s of particle %llu reads back wrong\n", names[property], (unsigned long long)particle);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    struct run run = begin(argc, argv);
    enum pattern pattern = (enum pattern)find(patterns, PATTERNS, run.pattern);
    uint32_t *buffer = malloc(run.particles * 4);
    if (buffer == NULL)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    memset(buffer, 0xee, run.particles * 4);
    struct rows mine = {0, run.particles / WIDTH};
    mine.first = mine.count * (hsize_t)run.rank;
    double raw = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), checking = 0;
    hid_t file = H5Fopen(run.path, H5F_ACC_RDONLY, run.access);
    check(file, "H5Fopen");
    for (int step = 0; step < run.steps; step++) {
        char name[32];
        snprintf(name, sizeof name, "Timestep_%d", step);
        hid_t group = H5Gopen2(file, name, H5P_DEFAULT);
        check(group, "H5Gopen2");
        for (int property = 0; property < PROPERTIES; property++) {
            hid_t set = H5Dopen2(group, names[property], H5P_DEFAULT);
            check(set, "H5Dopen2");
            hid_t space = H5Dget_space(set);
            hsize_t first = 0;
            if (pattern >= CS)
                select_matrix(space, pattern, mine);
            else
                first = select_line(space, pattern, &run);
            hsize_t count = (hsize_t)H5Sget_select_npoints(space);
            hid_t memory = H5Screate_simple(1, &count, NULL);
            double before = MPI_Wtime();
            check(H5Dread(set, property_type(property), memory, space, transfer, buffer), "H5Dread");
            double after = MPI_Wtime();
            raw += after - before;
            if (run.check && pattern >= CS) {
                const uint32_t *next = buffer;
                for (hsize_t row = 0; row < mine.count; row++)
                    for (hsize_t column = 0; column < WIDTH; column++)
                        if (taken(pattern, row, column, mine.count))
                            compare(*next++, (mine.first + row) * WIDTH + column, property);
                if ((hsize_t)(next - buffer) != count)
                    check(-1, "the count of elements");
            } else if (run.check) {
                hsize_t wide = pattern == STRIDED ? 2 * run.block : run.block;
                for (hsize_t i = 0; i < count; i++)
                    compare(buffer[i], first + i / run.block * wide + i % run.block, property);
            }
            checking += MPI_Wtime() - after;
            H5Sclose(memory);
            H5Sclose(space);
            H5Dclose(set);
        }
        H5Gclose(group);
    }
    check(H5Fclose(file), "H5Fclose");
    double closed = MPI_Wtime() - start - (run.check ? checking : 0);
    report("read", &run, raw, closed);
    return 0;
}
