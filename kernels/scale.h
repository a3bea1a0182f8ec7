/* SPDX-License-Identifier: MIT */
/*
 * Shared by the three programs of scale: a vector is scaled again and again, each time
 * with what it takes to have the result on the CPU.  They differ in where the vectors lie.
 */
#ifndef KERNELS_SCALE_H
#define KERNELS_SCALE_H

#include "common.cuh"
#include "scale.cuh"

#define SCALE_FACTOR 3.0f

/* Sizes of one run. */
struct scale_sizes {
    size_t n;       /* floats */
    size_t bytes;   /* n * 4 */
    size_t repeats; /* how often the vector is scaled */
};

/* Reads [elements [repeats]] and writes the sizes into the report. */
static inline struct scale_sizes scale_arguments(int argc, char **argv, struct report *report)
{
    struct scale_sizes s;

    at_most_arguments(argc, argv, 2, "[elements [repeats]]");
    s.n = size_argument(argc, argv, 1, "elements", 1 << 20, 1, (size_t)1 << 32);
    s.repeats = size_argument(argc, argv, 2, "repeats", 3, 1, 1000000);
    s.bytes = s.n * sizeof(float);
    report_size(report, "elements", s.n);
    report_size(report, "repeats", s.repeats);
    return s;
}

static inline void fill_vector(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 1009);
}

static inline void launch_scale(const float *x, float *y, size_t n)
{
    const unsigned threads = 256;

    scale<<<(unsigned)((n + threads - 1) / threads), threads>>>(SCALE_FACTOR, x, y, n);
    CHECK(cudaGetLastError());
}

static inline int verify_scaled(const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (y[i] != SCALE_FACTOR * (float)(i % 1009))
            return 0;
    }
    return 1;
}

#endif
