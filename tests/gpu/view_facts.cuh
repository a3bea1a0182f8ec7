/* SPDX-License-Identifier: MIT */
/* Kernels of view_facts: one thread reads or writes one number. */
__global__ void load_number(const int *from, int *to)
{
    *to = *from;
}

__global__ void store_number(int *to, int value)
{
    *to = value;
}
