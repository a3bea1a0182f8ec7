/* SPDX-License-Identifier: MIT */
/* Kernel of rowsum: block b adds up the words of row picks[b] of the table. */
#define ROWSUM_THREADS 128u

__global__ void row_sums(const unsigned *table, const unsigned *picks, unsigned *sums,
                         unsigned row_words)
{
    __shared__ unsigned part[ROWSUM_THREADS];
    const unsigned *row = table + (size_t)picks[blockIdx.x] * row_words;
    unsigned sum = 0;

    for (unsigned w = threadIdx.x; w < row_words; w += ROWSUM_THREADS)
        sum += row[w];
    part[threadIdx.x] = sum;
    for (unsigned half = ROWSUM_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0];
}
