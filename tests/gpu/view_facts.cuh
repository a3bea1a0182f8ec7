/* SPDX-License-Identifier: MIT */
/* Kernels of view_facts, address_facts and border_facts: one thread reads or writes one number, or
 * adds two; a grid sets numbers, or adds to one. */
__global__ void load_number(const int *from, int *to)
{
    *to = *from;
}

__global__ void store_number(int *to, int value)
{
    *to = value;
}

__global__ void add_numbers(const int *from, size_t words_between, int *to)
{
    *to = from[0] + from[words_between];
}

__global__ void store_numbers(int *to, size_t words, int value)
{
    for (size_t i = threadIdx.x; i < words; i += blockDim.x)
        to[i] = value;
}

__global__ void add_together(int *to)
{
    atomicAdd(to, 1);
}
