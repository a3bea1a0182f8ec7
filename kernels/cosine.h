/* SPDX-License-Identifier: MIT */
/*
 * Shared by cosine and cosine_managed: the sizes, the vectors, the launch, and the
 * search of the CPU.
 */
#ifndef KERNELS_COSINE_H
#define KERNELS_COSINE_H

#include <math.h>

#include "common.cuh"
#include "cosine.cuh"
#include "parallel.h"

/* Sizes of one run. */
struct cosine_sizes {
    size_t targets, queries;                      /* vectors */
    size_t dimensions;                            /* floats a vector */
    size_t batches;                               /* how often all queries are asked */
    size_t target_bytes, query_bytes, best_bytes; /* of the three arrays */
};

/* Reads [targets [queries [dimensions [batches]]]] and writes the sizes into the report. */
static inline struct cosine_sizes cosine_arguments(int argc, char **argv, struct report *report)
{
    struct cosine_sizes s;

    s.targets = size_argument(argc, argv, 1, "targets", 500, 1, 1 << 24);
    s.queries = size_argument(argc, argv, 2, "queries", 40, 1, 1 << 20);
    s.dimensions = size_argument(argc, argv, 3, "dimensions", 48, 1, 1 << 16);
    s.batches = size_argument(argc, argv, 4, "batches", 1, 1, 1000);
    if (s.targets / COSINE_TILE * (s.queries / COSINE_TILE + 1) >= (size_t)1 << 31) {
        fprintf(stderr, "%s: %zu targets are too many for %zu queries\n", argv[0], s.targets,
                s.queries);
        exit(EXIT_USAGE);
    }
    s.target_bytes = s.targets * s.dimensions * sizeof(float);
    s.query_bytes = s.queries * s.dimensions * sizeof(float);
    s.best_bytes = s.queries * sizeof(unsigned long long);
    report_size(report, "targets", s.targets);
    report_size(report, "queries", s.queries);
    report_size(report, "dimensions", s.dimensions);
    report_size(report, "batches", s.batches);
    return s;
}

/* Vectors that are being filled. */
struct vector_fill {
    float *v;
    uint64_t seed;
};

static void fill_numbers(void *job, size_t begin, size_t end)
{
    const struct vector_fill *fill = (const struct vector_fill *)job;

    for (size_t i = begin; i < end; i++)
        fill->v[i] = (float)(splitmix((fill->seed << 40) + i) >> 40) / 16777216.0f + 0.001f;
}

/* Vectors without negative numbers and without a pattern. */
static inline void fill_vectors(float *v, size_t count, uint64_t seed)
{
    struct vector_fill fill = {v, seed};

    parallel(count, fill_numbers, &fill);
}

/* Asks all queries `batches` times; the arrays are the GPU's. */
static void cosine_ask(const struct cosine_sizes *s, const float *queries, const float *targets,
                       unsigned long long *best)
{
    size_t across = (s->queries + COSINE_TILE - 1) / COSINE_TILE;
    size_t down = (s->targets + COSINE_TILE - 1) / COSINE_TILE;

    for (size_t b = 0; b < s->batches; b++) {
        CHECK(cudaMemset(best, 0, s->best_bytes));
        cosine<<<(unsigned)(across * down), dim3(COSINE_TILE, COSINE_ROWS)>>>(
            queries, targets, best, (unsigned)s->queries, (unsigned)s->targets,
            (unsigned)s->dimensions);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
}

/* The kernel's order of operations in all of these, so that all bits are equal. */
static float cosine_dot(const float *a, const float *b, size_t dimensions)
{
    float dot = 0.0f;

    for (size_t d = 0; d < dimensions; d++)
        dot += a[d] * b[d];
    return dot;
}

static unsigned long long cosine_pair(float dot, float query_square, float target_square,
                                      size_t target)
{
    union cosine_score score;

    score.value = dot / (sqrtf(query_square) * sqrtf(target_square));
    return (unsigned long long)score.bits << 32 | (0xffffffffu - (unsigned)target);
}

/* The search of the CPU for the targets that are most similar to two queries. */
struct cosine_search {
    const float *query[2], *targets;
    float square[2]; /* of the queries */
    size_t dimensions;
    unsigned long long best[2]; /* of the parts that have ended */
};

/* One reading of the targets serves both queries. */
static void search_targets(void *job, size_t begin, size_t end)
{
    struct cosine_search *s = (struct cosine_search *)job;
    const float *a = s->query[0], *b = s->query[1];
    unsigned long long best[2] = {};

    for (size_t target = begin; target < end; target++) {
        const float *to = s->targets + target * s->dimensions;
        float dot_a = 0.0f, dot_b = 0.0f, square = 0.0f;
        for (size_t d = 0; d < s->dimensions; d++) {
            dot_a += a[d] * to[d];
            dot_b += b[d] * to[d];
            square += to[d] * to[d];
        }
        unsigned long long pair_a = cosine_pair(dot_a, s->square[0], square, target);
        unsigned long long pair_b = cosine_pair(dot_b, s->square[1], square, target);
        best[0] = pair_a > best[0] ? pair_a : best[0];
        best[1] = pair_b > best[1] ? pair_b : best[1];
    }
    for (size_t i = 0; i < 2; i++) {
        unsigned long long known = __atomic_load_n(&s->best[i], __ATOMIC_RELAXED);
        while (best[i] > known &&
               !__atomic_compare_exchange_n(&s->best[i], &known, best[i], 0, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED)) {
        }
    }
}

/* Whether a query's answer names a target and has that target's score. */
static int cosine_scored(const struct cosine_sizes *s, const float *query, const float *targets,
                         unsigned long long answer)
{
    size_t target = 0xffffffffu - (unsigned)answer, n = s->dimensions;
    const float *to = targets + target * n;

    return target < s->targets &&
           answer == cosine_pair(cosine_dot(query, to, n), cosine_dot(query, query, n),
                                 cosine_dot(to, to, n), target);
}

/*
 * Compares the first and the last query with all targets, which for each of the others would take
 * longer than all that is shown; those have to have the scores of the targets that they name.
 */
static int cosine_verify(const struct cosine_sizes *s, const float *queries, const float *targets,
                         const unsigned long long *best)
{
    size_t n = s->dimensions, last = s->queries - 1;
    const float *end = queries + last * n;
    struct cosine_search search = {
        {queries, end}, targets, {cosine_dot(queries, queries, n), cosine_dot(end, end, n)}, n, {}};

    parallel(s->targets, search_targets, &search);
    for (size_t query = 1; query < last; query++) {
        if (!cosine_scored(s, queries + query * n, targets, best[query]))
            return 0;
    }
    return search.best[0] == best[0] && search.best[1] == best[last];
}

#endif
