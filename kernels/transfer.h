/* SPDX-License-Identifier: MIT */
/* Shared by the programs of transfer: a buffer that goes to the GPU and back. */
#ifndef KERNELS_TRANSFER_H
#define KERNELS_TRANSFER_H

#include "common.cuh"
#include "transfer.cuh"

/* Sizes of one run. */
struct transfer_sizes {
    size_t bytes;   /* of the buffer; a multiple of 4 */
    size_t words;   /* bytes / 4 */
    size_t repeats; /* how often it goes to the GPU and back */
};

/* Reads [bytes [repeats]] and writes the sizes into the report. */
static inline struct transfer_sizes transfer_arguments(int argc, char **argv, struct report *report)
{
    struct transfer_sizes s;

    at_most_arguments(argc, argv, 2, "[bytes [repeats]]");
    s.bytes = size_argument(argc, argv, 1, "bytes", 1 << 20, 4, (size_t)1 << 40);
    s.repeats = size_argument(argc, argv, 2, "repeats", 10, 1, 1000000);
    if (s.bytes % sizeof(unsigned) != 0) {
        fprintf(stderr, "%s: bytes must be a multiple of 4: %zu\n", argv[0], s.bytes);
        exit(EXIT_USAGE);
    }
    s.words = s.bytes / sizeof(unsigned);
    report_size(report, "bytes", s.bytes);
    report_size(report, "repeats", s.repeats);
    return s;
}

static inline void fill_words(unsigned *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        words[i] = (unsigned)i * 2654435761u;
}

static inline void launch_add_one(unsigned *words, size_t n)
{
    const unsigned threads = 256;

    add_one<<<(unsigned)((n + threads - 1) / threads), threads>>>(words, n);
    CHECK(cudaGetLastError());
}

static inline int verify_words(const unsigned *words, const struct transfer_sizes *s)
{
    for (size_t i = 0; i < s->words; i++) {
        if (words[i] != (unsigned)i * 2654435761u + (unsigned)s->repeats)
            return 0;
    }
    return 1;
}

#endif
