/* SPDX-License-Identifier: MIT */
/* The kernel of the sweeps. */
#ifndef KERNELS_SWEEP_CUH
#define KERNELS_SWEEP_CUH

/* Reads and writes all words, `touches` times one after the other. */
__global__ void update(uint4 *block, unsigned words, unsigned touches)
{
    for (unsigned t = 0; t < touches; t++)
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
             i += gridDim.x * blockDim.x) {
            uint4 word = block[i];
            word.x += 1;
            word.y += 3;
            block[i] = word;
        }
}

#endif
