/* SPDX-License-Identifier: MIT */
/* Kernels of pair_model: one reads a range of bytes, one writes it. */
#ifndef PAIR_MODEL_CUH
#define PAIR_MODEL_CUH

__global__ void sum_bytes(const unsigned char *from, int n, unsigned *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        atomicAdd(sum, (unsigned)from[i] * (unsigned)(i % 251 + 1));
}

__global__ void write_bytes(unsigned char *to, int n, unsigned seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        to[i] = (unsigned char)(seed + (unsigned)i * 7u);
}

#endif
