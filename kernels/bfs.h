/* SPDX-License-Identifier: MIT */
/* Shared by bfs and bfs_zerocopy: the search of the GPU, and the same by the CPU. */
#ifndef KERNELS_BFS_H
#define KERNELS_BFS_H

#include "common.cuh"
#include "bfs.cuh"
#include "rmat.h"

/* Runs level after level until one finds nothing; the arrays are the GPU's.  Gives the levels. */
static unsigned bfs_search(const struct rmat *g, const unsigned *offsets, const unsigned *columns,
                           unsigned *levels, unsigned root, unsigned *found)
{
    const unsigned blocks = 1024, threads = 256;
    unsigned level = 0, any = 1;

    bfs_start<<<blocks, threads>>>(levels, (unsigned)g->vertices, root);
    CHECK(cudaGetLastError());
    while (any) {
        CHECK(cudaMemset(found, 0, sizeof(any)));
        bfs_level<<<blocks, threads>>>(offsets, columns, levels, (unsigned)g->vertices, level,
                                       found);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&any, found, sizeof(any), cudaMemcpyDeviceToHost));
        level++;
    }
    return level;
}

/* The check of the levels that the GPU found. */
struct bfs_check {
    const unsigned *offsets, *columns, *levels;
    unsigned root;
    unsigned char *led_to; /* 1 for each vertex that has a neighbour one level above it */
    size_t reached;        /* vertices that have a level */
    int wrong;
};

/* An edge from a vertex that was reached leads to one that was, and at most one level down. */
static void bfs_check_edges(void *job, size_t begin, size_t end)
{
    struct bfs_check *check = (struct bfs_check *)job;
    const unsigned *levels = check->levels;

    for (size_t v = begin; v < end; v++) {
        if (levels[v] == BFS_UNSEEN)
            continue;
        for (unsigned e = check->offsets[v]; e < check->offsets[v + 1]; e++) {
            unsigned to = levels[check->columns[e]];
            if (to == BFS_UNSEEN || to > levels[v] + 1)
                __atomic_store_n(&check->wrong, 1, __ATOMIC_RELAXED);
            if (to == levels[v] + 1)
                __atomic_store_n(&check->led_to[check->columns[e]], 1, __ATOMIC_RELAXED);
        }
    }
}

/* The root alone is at the top; every other vertex with a level hangs on one of the level above. */
static void bfs_check_vertices(void *job, size_t begin, size_t end)
{
    struct bfs_check *check = (struct bfs_check *)job;
    size_t reached = 0;

    for (size_t v = begin; v < end; v++) {
        if (check->levels[v] == BFS_UNSEEN)
            continue;
        reached++;
        if ((v == check->root) != (check->levels[v] == 0) ||
            (v != check->root && !check->led_to[v]))
            __atomic_store_n(&check->wrong, 1, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&check->reached, reached, __ATOMIC_RELAXED);
}

/*
 * Checks the levels as Graph500 validates a search: conditions on edges and vertices that only the
 * lengths of the shortest paths fulfil.  The vertices reached go into the report.
 */
static int bfs_verify(const struct rmat *g, const unsigned *offsets, const unsigned *columns,
                      const unsigned *levels, unsigned root, struct report *report)
{
    struct bfs_check check = {
        offsets, columns, levels, root, (unsigned char *)host_alloc(g->vertices), 0, 0};

    memset(check.led_to, 0, g->vertices);
    parallel(g->vertices, bfs_check_edges, &check);
    parallel(g->vertices, bfs_check_vertices, &check);
    report_size(report, "reached", check.reached);
    free(check.led_to);
    return !check.wrong && levels[root] == 0;
}

#endif
