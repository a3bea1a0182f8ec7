/* SPDX-License-Identifier: MIT */
/*
 * Kernels of pagerank.  A vertex's list holds the pages that link to it, so a thread gathers its
 * page's next rank from what these give away.
 */
#define PAGERANK_DAMPING 0.85f

/* A page's contribution to each page that it links to; nothing for a page without links. */
__global__ void pagerank_give(const float *ranks, const unsigned *links, float *given, unsigned n)
{
    unsigned v = blockIdx.x * blockDim.x + threadIdx.x;

    if (v < n)
        given[v] = links[v] == 0 ? 0.0f : ranks[v] / (float)links[v];
}

__global__ void pagerank_gather(const unsigned *offsets, const unsigned *columns,
                                const float *given, float *ranks, unsigned n)
{
    unsigned v = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;

    if (v >= n)
        return;
    for (unsigned e = offsets[v]; e < offsets[v + 1]; e++)
        sum += given[columns[e]];
    ranks[v] = (1.0f - PAGERANK_DAMPING) / (float)n + PAGERANK_DAMPING * sum;
}
