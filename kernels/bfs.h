/* What bfs and bfs_zerocopy have in common: the search of the GPU, and the same by the CPU. */
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

/* Searches with a queue and compares every level.  The vertices reached go into the report. */
static int bfs_verify(const struct rmat *g, const unsigned *offsets, const unsigned *columns,
                      const unsigned *levels, unsigned root, struct report *report)
{
    unsigned *expected = (unsigned *)host_alloc(g->vertices * sizeof(unsigned));
    unsigned *queue = (unsigned *)host_alloc(g->vertices * sizeof(unsigned));
    size_t head = 0, tail = 0;

    memset(expected, 0xff, g->vertices * sizeof(unsigned));
    expected[root] = 0;
    queue[tail++] = root;
    while (head < tail) {
        unsigned v = queue[head++];
        for (unsigned e = offsets[v]; e < offsets[v + 1]; e++) {
            unsigned to = columns[e];
            if (expected[to] == BFS_UNSEEN) {
                expected[to] = expected[v] + 1;
                queue[tail++] = to;
            }
        }
    }
    int same = memcmp(expected, levels, g->vertices * sizeof(unsigned)) == 0;
    report_size(report, "reached", tail);
    free(expected);
    free(queue);
    return same;
}

#endif
