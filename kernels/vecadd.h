/* SPDX-License-Identifier: MIT */
/* Shared by vecadd and vecadd_zerocopy: the length, the vectors and their sums. */
#ifndef KERNELS_VECADD_H
#define KERNELS_VECADD_H

#include "common.h"

#define VECADD_THREADS 256u

/* Reads [elements] and writes it into the report. */
static inline size_t vecadd_arguments(int argc, char **argv, struct report *report)
{
    at_most_arguments(argc, argv, 1, "[elements]");
    size_t n = size_argument(argc, argv, 1, "elements", 1 << 20, 1, (size_t)1 << 32);

    report_size(report, "elements", n);
    return n;
}

static inline unsigned vecadd_blocks(size_t n)
{
    return (unsigned)((n + VECADD_THREADS - 1) / VECADD_THREADS);
}

static inline void fill_vectors(float *a, float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)(i % 1000);
        b[i] = (float)(i % 777);
    }
}

/* Every sum is a small whole number, so float arithmetic is exact and the checksum is fixed. */
static inline int verify_sums(const float *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (c[i] != (float)(i % 1000) + (float)(i % 777))
            return 0;
    }
    return 1;
}

#endif
