/*
 * gather [rows [row_bytes [percent]]]: reads a few rows of a big table, as an embedding lookup
 * does.  The whole table is copied to the GPU although the kernel reads only `percent` of its rows.
 */
#include "common.cuh"
#include "gather.cuh"

/* The words of the table: any function of (row, word) that differs from row to row. */
static unsigned table_word(size_t row, size_t word)
{
    return (unsigned)(row * 2654435761u + word * 40503u + 12345u);
}

static size_t common_divisor(size_t a, size_t b)
{
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * Picks `count` different rows, spread over the table and out of order: multiples of a step that
 * shares no divisor with the number of rows visit every row once before one comes again.
 */
static void pick_rows(unsigned *picks, size_t count, size_t rows)
{
    size_t step = rows * 5 / 8 + 1;

    while (common_divisor(step, rows) != 1)
        step++;
    for (size_t i = 0; i < count; i++)
        picks[i] = (unsigned)((i * step + 7) % rows);
}

static int verify(const unsigned *out, const unsigned *picks, size_t count, size_t words)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t w = 0; w < words; w++) {
            if (out[i * words + w] != table_word(picks[i], w))
                return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct report report = {};

    at_most_arguments(argc, argv, 3, "[rows [row_bytes [percent]]]");
    size_t rows = size_argument(argc, argv, 1, "rows", 65536, 1, (size_t)1 << 28);
    size_t row_bytes = size_argument(argc, argv, 2, "row_bytes", 1024, 4, 1 << 20);
    size_t percent = size_argument(argc, argv, 3, "percent", 1, 1, 100);
    if (row_bytes % sizeof(unsigned) != 0 || rows > ((size_t)1 << 40) / row_bytes) {
        fprintf(stderr, "%s: row_bytes must be a multiple of 4 and the table at most 1 TiB\n",
                argv[0]);
        return EXIT_USAGE;
    }
    size_t words = row_bytes / sizeof(unsigned);
    size_t count = (rows * percent + 99) / 100;
    report_size(&report, "rows", rows);
    report_size(&report, "row_bytes", row_bytes);
    report_size(&report, "gathered_rows", count);

    double start = now_ms();
    unsigned *table = (unsigned *)host_alloc(rows * row_bytes);
    unsigned *picks = (unsigned *)host_alloc(count * sizeof(unsigned));
    unsigned *out = (unsigned *)host_alloc(count * row_bytes);
    for (size_t r = 0; r < rows; r++) {
        for (size_t w = 0; w < words; w++)
            table[r * words + w] = table_word(r, w);
    }
    pick_rows(picks, count, rows);
    report_ms(&report, "fill", now_ms() - start);

    start = now_ms();
    unsigned *device_table, *device_picks, *device_out;
    CHECK(cudaMalloc(&device_table, rows * row_bytes));
    CHECK(cudaMalloc(&device_picks, count * sizeof(unsigned)));
    CHECK(cudaMalloc(&device_out, count * row_bytes));
    report_ms(&report, "allocate", now_ms() - start);

    start = now_ms();
    CHECK(cudaMemcpy(device_table, table, rows * row_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_picks, picks, count * sizeof(unsigned), cudaMemcpyHostToDevice));
    report_ms(&report, "copy_in", now_ms() - start);

    start = now_ms();
    gather<<<(unsigned)count, 128>>>(device_table, device_picks, device_out, (unsigned)words);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    report_ms(&report, "kernel", now_ms() - start);

    start = now_ms();
    CHECK(cudaMemcpy(out, device_out, count * row_bytes, cudaMemcpyDeviceToHost));
    report_ms(&report, "copy_out", now_ms() - start);

    int verified = verify(out, picks, count, words);
    uint64_t checksum = fnv1a(FNV_START, out, count * row_bytes);
    CHECK(cudaFree(device_table));
    CHECK(cudaFree(device_picks));
    CHECK(cudaFree(device_out));
    free(table);
    free(picks);
    free(out);
    return report_print(&report, "gather", checksum, verified);
}
