/* SPDX-License-Identifier: MIT */
/* Kernel of both: adds every stride-th word of a table to *sum, beginning at word `first`. */
__global__ void add_strided(const unsigned *table, size_t words, size_t first, size_t stride,
                            unsigned *sum)
{
    size_t step = (size_t)gridDim.x * blockDim.x * stride;

    for (size_t i = first + ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * stride; i < words;
         i += step)
        atomicAdd(sum, table[i]);
}
