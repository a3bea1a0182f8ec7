/* SPDX-License-Identifier: MIT */
/*
 * Shared by the programs of gather and of rowsum, and independent of CUDA: the sizes, what
 * the table holds, which rows are picked, and what must come out.
 */
#ifndef KERNELS_GATHER_H
#define KERNELS_GATHER_H

#include <math.h>

#include "common.h"

/* The sizes of one run. */
struct gather_sizes {
    size_t rows;        /* of the table */
    size_t words;       /* 32-bit words a row */
    size_t count;       /* rows gathered */
    size_t seed;        /* chooses the rows; also part of what the table holds */
    size_t table_bytes; /* rows * words * 4 */
    size_t out_bytes;   /* count * words * 4 */
};

/* Reads [rows [row_bytes [percent [seed]]]] and writes the sizes into the report. */
static inline struct gather_sizes gather_arguments(int argc, char **argv, struct report *report)
{
    struct gather_sizes s;

    at_most_arguments(argc, argv, 4, "[rows [row_bytes [percent [seed]]]]");
    s.rows = size_argument(argc, argv, 1, "rows", 65536, 1, (size_t)1 << 31);
    size_t row_bytes = size_argument(argc, argv, 2, "row_bytes", 1024, 4, 1 << 20);
    double percent = real_argument(argc, argv, 3, "percent", 1, 0.000001, 100);
    s.seed = size_argument(argc, argv, 4, "seed", 0, 0, 1 << 30);
    if (row_bytes % sizeof(unsigned) != 0 || s.rows > ((size_t)1 << 40) / row_bytes) {
        fprintf(stderr, "%s: row_bytes must be a multiple of 4 and the table at most 1 TiB\n",
                argv[0]);
        exit(EXIT_USAGE);
    }
    s.words = row_bytes / sizeof(unsigned);
    s.count = (size_t)ceil((double)s.rows * percent / 100);
    if (s.count >= (size_t)1 << 31) {
        fprintf(stderr, "%s: more than 2^31 - 1 rows to gather\n", argv[0]);
        exit(EXIT_USAGE);
    }
    s.table_bytes = s.rows * row_bytes;
    s.out_bytes = s.count * row_bytes;
    report_size(report, "rows", s.rows);
    report_size(report, "row_bytes", row_bytes);
    report_size(report, "gathered_rows", s.count);
    report_size(report, "seed", s.seed);
    return s;
}

/* The words of the table: any function of (row, word) that differs from row to row. */
static inline unsigned table_word(size_t row, size_t word, size_t seed)
{
    return (unsigned)(row * 2654435761u + word * 40503u + 12345u + seed);
}

static inline void fill_table(unsigned *table, const struct gather_sizes *s)
{
    for (size_t r = 0; r < s->rows; r++) {
        for (size_t w = 0; w < s->words; w++)
            table[r * s->words + w] = table_word(r, w, s->seed);
    }
}

static inline size_t common_divisor(size_t a, size_t b)
{
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * Picks different rows, spread over the table and out of order: multiples of a step that shares
 * no divisor with the number of rows visit every row once before one comes again.
 */
static inline void pick_rows(unsigned *picks, const struct gather_sizes *s)
{
    size_t step = (s->rows * 5 / 8 + s->seed * 40503u) % s->rows + 1;

    while (common_divisor(step, s->rows) != 1)
        step++;
    for (size_t i = 0; i < s->count; i++)
        picks[i] = (unsigned)((i * step + 7) % s->rows);
}

static inline int verify_rows(const unsigned *out, const unsigned *picks,
                              const struct gather_sizes *s)
{
    for (size_t i = 0; i < s->count; i++) {
        for (size_t w = 0; w < s->words; w++) {
            if (out[i * s->words + w] != table_word(picks[i], w, s->seed))
                return 0;
        }
    }
    return 1;
}

static inline int verify_sums(const unsigned *sums, const unsigned *picks,
                              const struct gather_sizes *s)
{
    for (size_t i = 0; i < s->count; i++) {
        unsigned sum = 0;
        for (size_t w = 0; w < s->words; w++)
            sum += table_word(picks[i], w, s->seed);
        if (sum != sums[i])
            return 0;
    }
    return 1;
}

#endif
