/* SPDX-License-Identifier: MIT */
/* Kernel of pipeline: a few integer rounds on every word of one chunk. */
__global__ void mix(const unsigned *in, unsigned *out, unsigned n, unsigned rounds)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n) {
        unsigned x = in[i];

        for (unsigned r = 0; r < rounds; r++)
            x = x * 1664525u + 1013904223u;
        out[i] = x;
    }
}
