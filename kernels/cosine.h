/*
 * What cosine and cosine_managed have in common: the sizes, the vectors, the launch, and the
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
    size_t targets, queries; /* vectors */
    size_t dimensions;       /* floats a vector */
    size_t batches;          /* how often all queries are asked */
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
    struct vector_fill fill = { v, seed };

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

/* What the kernel makes of a pair, in the same order of operations, so that all bits are equal. */
static unsigned long long cosine_pair(const float *query, const float *targets, size_t target,
                                      size_t dimensions)
{
    const float *to = targets + target * dimensions;
    float dot = 0.0f, query_square = 0.0f, target_square = 0.0f;
    union cosine_score score;

    for (size_t d = 0; d < dimensions; d++) {
        dot += query[d] * to[d];
        query_square += query[d] * query[d];
        target_square += to[d] * to[d];
    }
    score.value = dot / (sqrtf(query_square) * sqrtf(target_square));
    return (unsigned long long)score.bits << 32 | (0xffffffffu - (unsigned)target);
}

/* The search of the CPU for the target that is most similar to one query. */
struct cosine_search {
    const float *query, *targets;
    size_t dimensions;
    unsigned long long best; /* of the parts that have ended */
};

static void search_targets(void *job, size_t begin, size_t end)
{
    struct cosine_search *search = (struct cosine_search *)job;
    unsigned long long best = 0, known;

    for (size_t target = begin; target < end; target++) {
        unsigned long long pair =
            cosine_pair(search->query, search->targets, target, search->dimensions);
        best = pair > best ? pair : best;
    }
    known = __atomic_load_n(&search->best, __ATOMIC_RELAXED);
    while (best > known && !__atomic_compare_exchange_n(&search->best, &known, best, 0,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* Compares the first and the last query with all targets. */
static int cosine_verify(const struct cosine_sizes *s, const float *queries, const float *targets,
                         const unsigned long long *best)
{
    for (size_t query = 0; query < s->queries; query += s->queries > 1 ? s->queries - 1 : 1) {
        struct cosine_search search = { queries + query * s->dimensions, targets, s->dimensions,
                                        0 };
        parallel(s->targets, search_targets, &search);
        if (search.best != best[query])
            return 0;
    }
    return 1;
}

#endif
