/* SPDX-License-Identifier: MIT */
/* Kernel of pooled: adds a ramp that starts at `first` to every word. */
__global__ void add_ramp(unsigned *words, unsigned n, unsigned first)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        words[i] += first + i;
}
