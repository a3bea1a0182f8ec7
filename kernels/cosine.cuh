/* SPDX-License-Identifier: MIT */
/*
 * Kernel of cosine: the best target of each query by cosine similarity.  A block compares a tile
 * of targets with a tile of queries through shared memory, and each of its threads four pairs of
 * a column; the best pair of a query is kept by an atomic maximum.  Blocks that follow each other
 * share their targets, which so come from the cache for all but the first of them.
 */
#define COSINE_TILE 32u /* queries and targets a tile */
#define COSINE_SLAB 32u /* dimensions at a time */
#define COSINE_ROWS 8u  /* rows of threads in a block; each has four targets */
#define COSINE_EACH (COSINE_TILE / COSINE_ROWS)

/*
 * A score and its target as one number, so that the greater is the better one, and of equal ones
 * the first.  Scores are not negative, so their bits are in the order of their values.
 */
union cosine_score {
    float value;
    unsigned bits;
};

__global__ void cosine(const float *queries, const float *targets, unsigned long long *best,
                       unsigned query_count, unsigned target_count, unsigned dimensions)
{
    __shared__ float q[COSINE_TILE][COSINE_SLAB + 1];
    __shared__ float t[COSINE_TILE][COSINE_SLAB + 1];
    unsigned across = (query_count + COSINE_TILE - 1) / COSINE_TILE;
    unsigned first_query = blockIdx.x % across * COSINE_TILE;
    unsigned first_target = blockIdx.x / across * COSINE_TILE;
    unsigned x = threadIdx.x, y = threadIdx.y;
    float dot[COSINE_EACH] = {}, target_square[COSINE_EACH] = {}, query_square = 0.0f;

    for (unsigned k = 0; k < dimensions; k += COSINE_SLAB) {
        for (unsigned i = 0; i < COSINE_EACH; i++) {
            unsigned row = y + i * COSINE_ROWS;
            bool inside = k + x < dimensions;
            q[row][x] = inside && first_query + row < query_count
                            ? queries[(size_t)(first_query + row) * dimensions + k + x]
                            : 0.0f;
            t[row][x] = inside && first_target + row < target_count
                            ? targets[(size_t)(first_target + row) * dimensions + k + x]
                            : 0.0f;
        }
        __syncthreads();
        for (unsigned d = 0; d < COSINE_SLAB; d++) {
            float from = q[x][d];
            query_square += from * from;
            for (unsigned i = 0; i < COSINE_EACH; i++) {
                float to = t[y + i * COSINE_ROWS][d];
                dot[i] += from * to;
                target_square[i] += to * to;
            }
        }
        __syncthreads();
    }
    if (first_query + x >= query_count)
        return;
    for (unsigned i = 0; i < COSINE_EACH; i++) {
        unsigned target = first_target + y + i * COSINE_ROWS;
        union cosine_score score;
        if (target >= target_count)
            break;
        score.value = dot[i] / (sqrtf(query_square) * sqrtf(target_square[i]));
        atomicMax(&best[first_query + x],
                  (unsigned long long)score.bits << 32 | (0xffffffffu - target));
    }
}
