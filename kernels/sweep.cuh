/* SPDX-License-Identifier: MIT */
/* The kernels of the sweeps. */
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

/* Reads all words, `touches` times one after the other, and adds what they hold to the sum. */
__global__ void digest(const uint4 *block, unsigned words, unsigned touches,
                       unsigned long long *sum)
{
    unsigned long long all = 0;

    for (unsigned t = 0; t < touches; t++)
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
             i += gridDim.x * blockDim.x) {
            uint4 word = block[i];
            all += word.x + 3ull * word.y + 5ull * word.z + 7ull * word.w;
        }
    atomicAdd(sum, all);
}

#endif
