/* SPDX-License-Identifier: MIT */
/* Kernel of gather: block b copies row picks[b] of the table to row b of out, 32 bits at a time. */
__global__ void gather(const unsigned *table, const unsigned *picks, unsigned *out,
                       unsigned row_words)
{
    const unsigned *row = table + (size_t)picks[blockIdx.x] * row_words;
    unsigned *to = out + (size_t)blockIdx.x * row_words;

    for (unsigned w = threadIdx.x; w < row_words; w += blockDim.x)
        to[w] = row[w];
}
