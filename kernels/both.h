/* SPDX-License-Identifier: MIT */
/*
 * Shared by both and both_zerocopy: two GPUs read different words of one table.  They
 * differ in where the GPUs read it.
 */
#ifndef KERNELS_BOTH_H
#define KERNELS_BOTH_H

#include "both.cuh"
#include "common.cuh"

#define GPUS 2
#define EXIT_SKIPPED 77

/* Sizes of one run. */
struct both_sizes {
    size_t bytes;  /* of the table; a multiple of 4 */
    size_t words;  /* bytes / 4 */
    size_t stride; /* each GPU reads one word in so many */
};

/* Reads [bytes [stride]]; skips the program on a machine with one GPU. */
static inline struct both_sizes both_arguments(int argc, char **argv, struct report *report)
{
    struct both_sizes s;
    int devices;

    at_most_arguments(argc, argv, 2, "[bytes [stride]]");
    s.bytes = size_argument(argc, argv, 1, "bytes", 4 << 20, 4, (size_t)1 << 40);
    s.stride = size_argument(argc, argv, 2, "stride", 1000, GPUS, 1 << 30);
    if (s.bytes % sizeof(unsigned) != 0) {
        fprintf(stderr, "%s: bytes must be a multiple of 4: %zu\n", argv[0], s.bytes);
        exit(EXIT_USAGE);
    }
    s.words = s.bytes / sizeof(unsigned);
    report_size(report, "bytes", s.bytes);
    report_size(report, "stride", s.stride);
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < GPUS) {
        fprintf(stderr, "%s: needs two GPUs\n", argv[0]);
        exit(EXIT_SKIPPED);
    }
    return s;
}

static inline void fill_words(unsigned *table, size_t words)
{
    for (size_t i = 0; i < words; i++)
        table[i] = (unsigned)i * 2654435761u;
}

/* Runs both GPUs at a time, each over its own copy or view of the table, and adds up the sums. */
static inline unsigned both_add(unsigned *const *tables, const struct both_sizes *s)
{
    unsigned *device_sum[GPUS], sum[GPUS];

    for (int d = 0; d < GPUS; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMalloc(&device_sum[d], sizeof(unsigned)));
        CHECK(cudaMemset(device_sum[d], 0, sizeof(unsigned)));
        add_strided<<<64, 128>>>(tables[d], s->words, (size_t)d, s->stride, device_sum[d]);
        CHECK(cudaGetLastError());
    }
    for (int d = 0; d < GPUS; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMemcpy(&sum[d], device_sum[d], sizeof(unsigned), cudaMemcpyDeviceToHost));
        CHECK(cudaFree(device_sum[d]));
    }
    return sum[0] + sum[1];
}

static inline unsigned expected_sum(const struct both_sizes *s)
{
    unsigned sum = 0;

    for (size_t d = 0; d < GPUS; d++) {
        for (size_t i = d; i < s->words; i += s->stride)
            sum += (unsigned)i * 2654435761u;
    }
    return sum;
}

#endif
