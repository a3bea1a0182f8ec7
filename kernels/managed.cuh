/* SPDX-License-Identifier: MIT */
/* Prefetching and advice in the signatures of CUDA 12 and 13, for the programs written by hand. */
#ifndef KERNELS_MANAGED_CUH
#define KERNELS_MANAGED_CUH

#include "common.cuh"

/* The destination of managed pages. */
enum side { SIDE_CPU, SIDE_GPU };

#if CUDART_VERSION >= 13000
typedef struct cudaMemLocation managed_location;

static inline managed_location location_of(enum side side)
{
    managed_location where = {};

    where.type = side == SIDE_CPU ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    return where;
}

static inline void prefetch_to(enum side side, const void *p, size_t bytes)
{
    CHECK(cudaMemPrefetchAsync(p, bytes, location_of(side), 0, 0));
}
#else
typedef int managed_location;

static inline managed_location location_of(enum side side)
{
    return side == SIDE_CPU ? cudaCpuDeviceId : 0;
}

static inline void prefetch_to(enum side side, const void *p, size_t bytes)
{
    CHECK(cudaMemPrefetchAsync(p, bytes, location_of(side), 0));
}
#endif

static inline void *managed_alloc(size_t bytes)
{
    void *p;

    CHECK(cudaMallocManaged(&p, bytes));
    return p;
}

#endif
