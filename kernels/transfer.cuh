/* SPDX-License-Identifier: MIT */
/* Kernel of transfer: adds one to every word. */
__global__ void add_one(unsigned *words, size_t n)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        words[i]++;
}
