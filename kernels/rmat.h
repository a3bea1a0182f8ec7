/* SPDX-License-Identifier: MIT */
/*
 * Directed graphs with the skewed degrees of social networks, with the distribution of the
 * recursive-matrix method (R-MAT) of Chakrabarti, Zhan and Faloutsos and Graph500's probabilities,
 * in compressed sparse rows: the neighbours of vertex v are columns[offsets[v]] to
 * columns[offsets[v + 1] - 1].
 */
#ifndef KERNELS_RMAT_H
#define KERNELS_RMAT_H

#include <math.h>

#include "parallel.h"

/* Bits of a vertex that one lookup decides, and random bits that it takes. */
#define RMAT_STEP 4
#define RMAT_RANDOM 10

/* Shares of the quarters of the matrix: 0.57 0.19 above, 0.19 0.05 below. */
#define RMAT_UPPER 0.76             /* of the edges have 0 in a bit of their row */
#define RMAT_LEFT (0.57 / 0.76)     /* of these have 0 in that bit of their column */
#define RMAT_LEFT_LOW (0.19 / 0.24) /* and of the others */

/* A graph's size, and the generator's table. */
struct rmat {
    size_t scale;    /* log2 of the vertices */
    size_t vertices; /* 1 << scale */
    size_t edges;    /* vertices * edges a vertex; at most 2^32 - 1 */
    size_t seed;     /* another seed gives another graph */
    unsigned char columns[1 << RMAT_STEP][1 << RMAT_RANDOM]; /* bits of row, random -> of column */
};

/* Reads [scale [edges_a_vertex [seed]]] from argv[first] on and writes the sizes to the report. */
static inline void rmat_arguments(struct rmat *g, int argc, char **argv, int first,
                                  struct report *report)
{
    g->scale = size_argument(argc, argv, first, "scale", 14, 1, 30);
    size_t degree = size_argument(argc, argv, first + 1, "edges_a_vertex", 16, 1, 1024);
    g->seed = size_argument(argc, argv, first + 2, "seed", 1, 0, 1 << 30);
    g->vertices = (size_t)1 << g->scale;
    g->edges = g->vertices * degree;
    if (g->edges > UINT32_MAX) {
        fprintf(stderr, "%s: %zu edges are more than 2^32 - 1\n", argv[0], g->edges);
        exit(EXIT_USAGE);
    }
    report_size(report, "vertices", g->vertices);
    report_size(report, "edges", g->edges);
    report_size(report, "seed", g->seed);
}

static inline size_t rmat_offset_bytes(const struct rmat *g)
{
    return (g->vertices + 1) * sizeof(unsigned);
}

static inline size_t rmat_column_bytes(const struct rmat *g)
{
    return g->edges * sizeof(unsigned);
}

/* Fills the table: each value of a column's bits gets its share of the random numbers. */
static inline void rmat_prepare(struct rmat *g)
{
    const unsigned values = 1 << RMAT_STEP, numbers = 1 << RMAT_RANDOM;

    for (unsigned row = 0; row < values; row++) {
        double sum = 0;
        unsigned done = 0;
        for (unsigned column = 0; column < values; column++) {
            double share = 1;
            for (unsigned bit = 0; bit < RMAT_STEP; bit++) {
                double left = row >> bit & 1 ? RMAT_LEFT_LOW : RMAT_LEFT;
                share *= column >> bit & 1 ? 1 - left : left;
            }
            sum += share;
            for (; done < (unsigned)(sum * numbers + 0.5); done++)
                g->columns[row][done] = (unsigned char)column;
        }
    }
}

/* The column of edge number i, which is one of the given row. */
static inline unsigned rmat_column(const struct rmat *g, unsigned row, size_t i)
{
    uint64_t state = ((uint64_t)g->seed << 34) + 2 * i, random = splitmix(state);
    unsigned column = 0;

    for (size_t bit = 0; bit < g->scale; bit += RMAT_STEP) {
        if (bit == 6 * RMAT_STEP)
            random = splitmix(state + 1); /* six lookups use up the first number */
        unsigned four = g->columns[row >> bit & 15][random & ((1 << RMAT_RANDOM) - 1)];
        random >>= RMAT_RANDOM;
        column |= four << bit;
    }
    return column & (unsigned)(g->vertices - 1);
}

/* The arrays of a graph that is being written. */
struct rmat_lists {
    const struct rmat *graph;
    const unsigned *offsets;
    unsigned *columns;
};

static void rmat_fill_lists(void *job, size_t begin, size_t end)
{
    const struct rmat_lists *lists = (const struct rmat_lists *)job;

    for (size_t v = begin; v < end; v++) {
        for (size_t i = lists->offsets[v]; i < lists->offsets[v + 1]; i++)
            lists->columns[i] = rmat_column(lists->graph, (unsigned)v, i);
    }
}

/*
 * Writes where the vertices' lists begin.  Every vertex has the number of neighbours that the
 * method gives it on average, so that the lists can be written one after the other.  The sum of
 * hundreds of millions of shares may have become a few edges more than there are.
 */
static inline void rmat_fill_offsets(const struct rmat *g, unsigned *offsets)
{
    double edges = (double)g->edges, sum = 0, share[32]; /* edges of one with so many bits set */

    for (size_t ones = 0; ones <= g->scale; ones++)
        share[ones] =
            edges * pow(1 - RMAT_UPPER, (double)ones) * pow(RMAT_UPPER, (double)(g->scale - ones));
    for (size_t v = 0; v < g->vertices; v++) {
        offsets[v] = (unsigned)(sum < edges ? sum : edges);
        sum += share[__builtin_popcountll(v)];
    }
    offsets[g->vertices] = (unsigned)g->edges;
}

/*
 * Writes the graph into arrays of rmat_offset_bytes and rmat_column_bytes; which neighbours a
 * vertex has is random.
 */
static inline void rmat_fill(struct rmat *g, unsigned *offsets, unsigned *columns)
{
    struct rmat_lists lists = {g, offsets, columns};

    rmat_prepare(g);
    rmat_fill_offsets(g, offsets);
    parallel(g->vertices, rmat_fill_lists, &lists);
}

/* The vertex with the most neighbours, the first of them: part of the graph's large component. */
static inline unsigned rmat_hub(const struct rmat *g, const unsigned *offsets)
{
    unsigned hub = 0;

    for (size_t v = 1; v < g->vertices; v++) {
        if (offsets[v + 1] - offsets[v] > offsets[hub + 1] - offsets[hub])
            hub = (unsigned)v;
    }
    return hub;
}

#endif
