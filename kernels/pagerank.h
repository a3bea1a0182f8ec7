/* SPDX-License-Identifier: MIT */
/* Shared by the programs of pagerank: the iteration of the GPU and that of the CPU. */
#ifndef KERNELS_PAGERANK_H
#define KERNELS_PAGERANK_H

#include "common.cuh"
#include "pagerank.cuh"
#include "rmat.h"

/* The ranks before the first iteration. */
static inline void pagerank_start(const struct rmat *g, float *ranks)
{
    for (size_t v = 0; v < g->vertices; v++)
        ranks[v] = 1.0f / (float)g->vertices;
}

/* Links to count: `links` of every page in `columns`. */
struct link_count {
    const unsigned *columns;
    unsigned *links;
};

static void count_some(void *job, size_t begin, size_t end)
{
    const struct link_count *count = (const struct link_count *)job;

    for (size_t e = begin; e < end; e++)
        __atomic_fetch_add(&count->links[count->columns[e]], 1, __ATOMIC_RELAXED);
}

/* Counts to how many pages each page links. */
static inline void count_links(const struct rmat *g, const unsigned *columns, unsigned *links)
{
    struct link_count count = {columns, links};

    memset(links, 0, g->vertices * sizeof(unsigned));
    parallel(g->edges, count_some, &count);
}

/* The arrays are the GPU's. */
static void pagerank_iterate(const struct rmat *g, const unsigned *offsets, const unsigned *columns,
                             const unsigned *links, float *ranks, float *given, size_t iterations)
{
    const unsigned threads = 256, n = (unsigned)g->vertices, blocks = (n + threads - 1) / threads;

    for (size_t i = 0; i < iterations; i++) {
        pagerank_give<<<blocks, threads>>>(ranks, links, given, n);
        pagerank_gather<<<blocks, threads>>>(offsets, columns, given, ranks, n);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
}

/* The ranks that the CPU computes. */
struct rank_check {
    const struct rmat *graph;
    const unsigned *offsets, *columns, *links;
    float *ranks, *given;
};

static void rank_give(void *job, size_t begin, size_t end)
{
    const struct rank_check *check = (const struct rank_check *)job;

    for (size_t v = begin; v < end; v++)
        check->given[v] = check->links[v] == 0 ? 0.0f : check->ranks[v] / (float)check->links[v];
}

static void rank_gather(void *job, size_t begin, size_t end)
{
    const struct rank_check *check = (const struct rank_check *)job;
    float start = (1.0f - PAGERANK_DAMPING) / (float)check->graph->vertices;

    for (size_t v = begin; v < end; v++) {
        float sum = 0.0f;
        for (unsigned e = check->offsets[v]; e < check->offsets[v + 1]; e++)
            sum += check->given[check->columns[e]];
        check->ranks[v] = start + PAGERANK_DAMPING * sum;
    }
}

/* The CPU adds in the kernel's order, so all bits must be equal. */
static int pagerank_verify(const struct rmat *g, const unsigned *offsets, const unsigned *columns,
                           const unsigned *links, const float *ranks, size_t iterations)
{
    size_t bytes = g->vertices * sizeof(float);
    struct rank_check check = {
        g, offsets, columns, links, (float *)host_alloc(bytes), (float *)host_alloc(bytes)};

    pagerank_start(g, check.ranks);
    for (size_t i = 0; i < iterations; i++) {
        parallel(g->vertices, rank_give, &check);
        parallel(g->vertices, rank_gather, &check);
    }
    int same = memcmp(check.ranks, ranks, bytes) == 0;
    free(check.ranks);
    free(check.given);
    return same;
}

/* Reads [scale [edges_a_vertex [seed [iterations]]]] and writes the sizes into the report. */
static size_t pagerank_arguments(struct rmat *g, int argc, char **argv, struct report *report)
{
    at_most_arguments(argc, argv, 4, "[scale [edges_a_vertex [seed [iterations]]]]");
    rmat_arguments(g, argc, argv, 1, report);
    size_t iterations = size_argument(argc, argv, 4, "iterations", 3, 1, 1000);

    report_size(report, "iterations", iterations);
    return iterations;
}

#endif
