/* SPDX-License-Identifier: MIT */
/* Times of kernels that are given blocks which move: with these on the device, and over the link.
 * By what is known of those that were launched, the GPU rests in so long. */
#pragma once

#include "driver/real.h"

/* Times of a kernel in microseconds, by the bytes of the blocks that move among those it is
 * given. */
struct zc_rate {
    uint64_t kernel;      /* A CUfunction, a CUkernel, or what stands for those of a graph. */
    uint64_t bytes, time; /* With all of them on the device; 0: unknown, */
    uint64_t all, spilled, time_of_them; /* and with `spilled` of `all` bytes in host memory. */
    uint64_t spent;                      /* By moves while the latter is unknown. */
    uint64_t blind;                      /* Bytes of launches while `time` is unknown. */
};

/* A launch that is timed. */
struct zc_rated {
    uint64_t kernel;         /* As in struct zc_rate. */
    uint64_t bytes, spilled; /* Of all blocks that it names, and of those in host memory. */
    int device;
};

/* All that is known of a kernel. */
struct zc_rate zc_rate_of(uint64_t kernel);

/* A launch is about to be made, for which moves have taken `spent`; and one that was timed. */
void zc_rate_launched(const struct zc_rated *n, uint64_t spent);
void zc_rate_timed(const void *rated, uint64_t microseconds);

/* Microseconds that a kernel loses with so many bytes in host memory. */
uint64_t zc_rate_loss(const struct zc_rate *r, uint64_t bytes);

/* Milliseconds that a GPU will still be busy by known times; and it rests now. */
unsigned zc_rate_busy_ms(int device);
void zc_rate_rests(int device);

static inline uint64_t zc_rate_scaled(uint64_t value, uint64_t bytes, uint64_t by)
{
    return by ? (uint64_t)((double)value * (double)bytes / (double)by) : 0;
}
