/* SPDX-License-Identifier: MIT */
/*
 * Shared by recopy and rewrite: a buffer that is copied again and again, of which the
 * GPU reads one word in SAMPLE_STRIDE after each copy, and what the sum of these words must be.
 */
#ifndef KERNELS_SAMPLED_H
#define KERNELS_SAMPLED_H

#include "common.cuh"
#include "sampled.cuh"

#define SAMPLE_STRIDE 1021u

/* Sizes of one run. */
struct sampled_sizes {
    size_t bytes;  /* of the buffer; a multiple of 4 */
    size_t words;  /* bytes / 4 */
    size_t copies; /* how often the whole buffer is copied */
};

/* Reads [bytes [copies]] and writes the sizes into the report. */
static inline struct sampled_sizes sampled_arguments(int argc, char **argv, size_t copies,
                                                     struct report *report)
{
    struct sampled_sizes s;

    at_most_arguments(argc, argv, 2, "[bytes [copies]]");
    s.bytes = size_argument(argc, argv, 1, "bytes", 8 << 20, 4, (size_t)1 << 40);
    s.copies = size_argument(argc, argv, 2, "copies", copies, 1, 1000000);
    if (s.bytes % sizeof(unsigned) != 0) {
        fprintf(stderr, "%s: bytes must be a multiple of 4: %zu\n", argv[0], s.bytes);
        exit(EXIT_USAGE);
    }
    s.words = s.bytes / sizeof(unsigned);
    report_size(report, "bytes", s.bytes);
    report_size(report, "copies", s.copies);
    return s;
}

/* The buffer's words in the given round. */
static inline void fill_round(unsigned *buffer, const struct sampled_sizes *s, size_t round)
{
    for (size_t i = 0; i < s->words; i++)
        buffer[i] = (unsigned)i * 2654435761u + (unsigned)round;
}

/* The sum that one launch of add_samples adds if the GPU sees the words of that round. */
static inline unsigned expected_sum(const struct sampled_sizes *s, size_t round)
{
    unsigned sum = 0;

    for (size_t i = 0; i < s->words; i += SAMPLE_STRIDE)
        sum += (unsigned)i * 2654435761u + (unsigned)round;
    return sum;
}

static inline void launch_samples(const unsigned *buffer, const struct sampled_sizes *s,
                                  unsigned *sum)
{
    add_samples<<<64, 128>>>(buffer, s->words, SAMPLE_STRIDE, sum);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

#endif
