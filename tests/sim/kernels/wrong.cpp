/* SPDX-License-Identifier: MIT */
/*
 * Kernels of the sample programs' names, each with one wrong result, for the tests that the
 * programs verify what they get.  The right kernels are here under other names.
 */
#include "../device.h"

#define bfs_start right_bfs_start
#define cosine right_cosine
#define pagerank_gather right_pagerank_gather
#define stencil right_stencil
#define vecadd right_vecadd
#include "bfs.cuh"
#include "cosine.cuh"
#include "pagerank.cuh"
#include "stencil.cuh"
#include "vecadd.cuh"
#undef bfs_start
#undef cosine
#undef pagerank_gather
#undef stencil
#undef vecadd

/* Whether this thread is the first of all. */
static bool first_thread(void)
{
    return blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y == 0;
}

__global__ void vecadd(const float *a, const float *b, float *c, size_t n);
__global__ void bfs_start(unsigned *levels, unsigned vertices, unsigned root);
__global__ void cosine(const float *queries, const float *targets, unsigned long long *best,
                       unsigned query_count, unsigned target_count, unsigned dimensions);
__global__ void pagerank_gather(const unsigned *offsets, const unsigned *columns,
                                const float *given, float *ranks, unsigned n);
__global__ void stencil(const unsigned *from, unsigned *to, unsigned width, unsigned height);

/* Leaves the last sum out. */
__global__ void vecadd(const float *a, const float *b, float *c, size_t n)
{
    right_vecadd(a, b, c, n - 1);
}

/* The last vertex, which no path leads to, seems to be two levels below the root. */
__global__ void bfs_start(unsigned *levels, unsigned vertices, unsigned root)
{
    right_bfs_start(levels, vertices - 1, root);
    if (first_thread())
        levels[vertices - 1] = 2;
}

/*
 * Gives the last query the first target, which is not its best; with vectors of an odd length it
 * gives the query in the middle a score that its target has not.
 */
__global__ void cosine(const float *queries, const float *targets, unsigned long long *best,
                       unsigned query_count, unsigned target_count, unsigned dimensions)
{
    bool last = dimensions % 2 == 0;

    right_cosine(queries, targets, best, query_count - last, target_count, dimensions);
    if (last)
        right_cosine(queries + (size_t)(query_count - 1) * dimensions, targets,
                     best + query_count - 1, 1, 1, dimensions);
    else if (first_thread())
        best[query_count / 2] = (unsigned long long)0x3f800000 << 32 | 0xffffffffu;
}

/* The last page keeps its rank. */
__global__ void pagerank_gather(const unsigned *offsets, const unsigned *columns,
                                const float *given, float *ranks, unsigned n)
{
    right_pagerank_gather(offsets, columns, given, ranks, n - 1);
}

/* The last row is lost. */
__global__ void stencil(const unsigned *from, unsigned *to, unsigned width, unsigned height)
{
    right_stencil(from, to, width, height - 1);
}

SIM_KERNEL(vecadd)
SIM_KERNEL(bfs_start)
SIM_KERNEL(bfs_level)
SIM_KERNEL(cosine)
SIM_KERNEL(pagerank_give)
SIM_KERNEL(pagerank_gather)
SIM_KERNEL(stencil)
