/* SPDX-License-Identifier: MIT */
/* Kernels of view_facts and address_facts: one thread reads or writes one number, or adds two. */
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
