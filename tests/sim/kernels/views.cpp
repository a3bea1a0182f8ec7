/* SPDX-License-Identifier: MIT */
/* The kernels of zc-views, whose PTX is in tools/views/kernels.h. */
#include "../device.h"

extern "C" __global__ void view_copy(const volatile unsigned *from, volatile unsigned *to,
                                     unsigned long long words)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
        to[i] = from[i];
}

extern "C" __global__ void view_fill(volatile unsigned *to, unsigned long long words,
                                     unsigned value)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
        to[i] = value;
}

extern "C" __global__ void view_watch(const volatile unsigned *from, unsigned long long stride,
                                      unsigned long long count, unsigned expected,
                                      volatile unsigned *wrong, const volatile unsigned *stop,
                                      unsigned most)
{
    unsigned bad = 0, reads = 0;
    do {
        bad += from[reads % count * stride] != expected;
        wrong[1] = ++reads;
    } while (!*stop && reads < most);
    wrong[0] = bad;
}

extern "C" __global__ void view_count(volatile unsigned *to, const volatile unsigned *stop,
                                      volatile unsigned *last, unsigned most)
{
    unsigned i = 0;
    do
        *to = ++i;
    while (!*stop && i < most);
    *last = i;
}

SIM_KERNEL(view_copy)
SIM_KERNEL(view_fill)
SIM_KERNEL(view_watch)
SIM_KERNEL(view_count)
