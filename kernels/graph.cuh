/* SPDX-License-Identifier: MIT */
/* Kernels of graph: state = state * 3 + in, then out = state ^ (state >> 7). */
__global__ void accumulate(unsigned *state, const unsigned *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        state[i] = state[i] * 3 + in[i];
}

__global__ void fold(const unsigned *state, unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = state[i] ^ (state[i] >> 7);
}
