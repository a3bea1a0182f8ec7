/* SPDX-License-Identifier: MIT */
/*
 * Kernels of coherence.  Each rests on a guarantee of the CUDA C++ Programming Guide for mapped
 * host memory: what a kernel wrote is there for the CPU when it has ended, and before that what
 * was written ahead of a system-wide fence is there when what was written behind it is.
 */
__global__ void count_up(unsigned *counter, unsigned each)
{
    for (unsigned i = 0; i < each; i++)
        atomicAdd_system(counter, 1u);
}

/* Answers `rounds` times: waits for its turn, adds one to each word, and gives the turn back. */
__global__ void answer(volatile unsigned *turn, volatile unsigned *words, unsigned count,
                       unsigned rounds)
{
    for (unsigned r = 0; r < rounds; r++) {
        while (*turn != 2 * r + 1) {
        }
        __threadfence_system();
        for (unsigned i = 0; i < count; i++)
            words[i] = words[i] + 1;
        __threadfence_system();
        *turn = 2 * r + 2;
    }
}

/* Writes every word of an output that the CPU reads when the kernel has ended. */
__global__ void write_out(unsigned *out, const unsigned *in, size_t n)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = in[i] ^ 0x5a5a5a5au;
}
