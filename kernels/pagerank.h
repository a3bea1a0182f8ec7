/* What the programs of pagerank have in common: the iteration of the GPU and that of the CPU. */
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

/* Counts to how many pages each page links. */
static inline void count_links(const struct rmat *g, const unsigned *columns, unsigned *links)
{
    memset(links, 0, g->vertices * sizeof(unsigned));
    for (size_t e = 0; e < g->edges; e++)
        links[columns[e]]++;
}

/* The arrays are the GPU's. */
static void pagerank_iterate(const struct rmat *g, const unsigned *offsets,
                             const unsigned *columns, const unsigned *links, float *ranks,
                             float *given, size_t iterations)
{
    const unsigned threads = 256, n = (unsigned)g->vertices, blocks = (n + threads - 1) / threads;

    for (size_t i = 0; i < iterations; i++) {
        pagerank_give<<<blocks, threads>>>(ranks, links, given, n);
        pagerank_gather<<<blocks, threads>>>(offsets, columns, given, ranks, n);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
}

/* The CPU adds in the kernel's order, so all bits must be equal. */
static int pagerank_verify(const struct rmat *g, const unsigned *offsets, const unsigned *columns,
                           const unsigned *links, const float *ranks, size_t iterations)
{
    float *expected = (float *)host_alloc(g->vertices * sizeof(float));
    float *given = (float *)host_alloc(g->vertices * sizeof(float));

    pagerank_start(g, expected);
    for (size_t i = 0; i < iterations; i++) {
        for (size_t v = 0; v < g->vertices; v++)
            given[v] = links[v] == 0 ? 0.0f : expected[v] / (float)links[v];
        for (size_t v = 0; v < g->vertices; v++) {
            float sum = 0.0f;
            for (unsigned e = offsets[v]; e < offsets[v + 1]; e++)
                sum += given[columns[e]];
            expected[v] = (1.0f - PAGERANK_DAMPING) / (float)g->vertices + PAGERANK_DAMPING * sum;
        }
    }
    int same = memcmp(expected, ranks, g->vertices * sizeof(float)) == 0;
    free(expected);
    free(given);
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
