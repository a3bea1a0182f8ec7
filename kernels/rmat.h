/*
 * Directed graphs with the skewed degrees of social networks, by the recursive-matrix method of
 * Chakrabarti, Zhan and Faloutsos with Graph500's probabilities, in compressed sparse rows: the
 * neighbours of vertex v are columns[offsets[v]] to columns[offsets[v + 1] - 1].
 */
#ifndef KERNELS_RMAT_H
#define KERNELS_RMAT_H

#include "common.h"

/* Log2 of the vertices that one lookup decides; four bits of row and column a lookup. */
#define RMAT_STEP 4

/* A graph's size, and the generator's table. */
struct rmat {
    size_t scale;                /* log2 of the vertices */
    size_t vertices;             /* 1 << scale */
    size_t edges;                /* vertices * edges a vertex; at most 2^32 - 1 */
    size_t seed;                 /* another seed gives another graph */
    unsigned char quad[1 << 16]; /* 16 random bits -> 4 bits of the row, 4 of the column */
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

/* Fills the table: the 256 cells of a 16 x 16 matrix get shares of 65536 by their probability. */
static inline void rmat_prepare(struct rmat *g)
{
    static const double share[4] = { 0.57, 0.19, 0.19, 0.05 };
    double sum = 0;
    size_t done = 0;

    for (unsigned cell = 0; cell < 256; cell++) {
        double p = 1;
        unsigned row = 0, column = 0;
        for (unsigned bit = 0; bit < RMAT_STEP; bit++) {
            unsigned quarter = cell >> 2 * bit & 3;
            p *= share[quarter];
            row |= (quarter >> 1) << bit;
            column |= (quarter & 1) << bit;
        }
        sum += p;
        for (; done < (size_t)(sum * 65536 + 0.5); done++)
            g->quad[done] = (unsigned char)(row << RMAT_STEP | column);
    }
    for (; done < 65536; done++)
        g->quad[done] = 0;
}

/* Steele, Lea and Flood's SplitMix64: the output for the given state. */
static inline uint64_t splitmix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* Edge number i; the same at every call, so that a graph needs no list of its edges. */
static inline void rmat_edge(const struct rmat *g, size_t i, unsigned *row_out,
                             unsigned *column_out)
{
    unsigned row = 0, column = 0, left = 0;
    uint64_t state = ((uint64_t)g->seed << 34) + 2 * i, random = 0;

    for (size_t bits = 0; bits < g->scale; bits += RMAT_STEP) {
        if (left == 0) {
            random = splitmix(state++);
            left = 4;
        }
        unsigned char quad = g->quad[random & 0xffff];
        random >>= 16;
        left--;
        row = row << RMAT_STEP | quad >> RMAT_STEP;
        column = column << RMAT_STEP | (quad & 15);
    }
    *row_out = row & (unsigned)(g->vertices - 1);
    *column_out = column & (unsigned)(g->vertices - 1);
}

/* Writes the graph into arrays of rmat_offset_bytes and rmat_column_bytes. */
static inline void rmat_fill(struct rmat *g, unsigned *offsets, unsigned *columns)
{
    unsigned row, column;

    rmat_prepare(g);
    memset(offsets, 0, rmat_offset_bytes(g));
    for (size_t i = 0; i < g->edges; i++) {
        rmat_edge(g, i, &row, &column);
        offsets[row + 1]++;
    }
    for (size_t v = 0; v < g->vertices; v++)
        offsets[v + 1] += offsets[v];
    /* offsets[v] runs through the list of v here, and ends where that of v + 1 began. */
    for (size_t i = 0; i < g->edges; i++) {
        rmat_edge(g, i, &row, &column);
        columns[offsets[row]++] = column;
    }
    memmove(offsets + 1, offsets, g->vertices * sizeof(unsigned));
    offsets[0] = 0;
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
