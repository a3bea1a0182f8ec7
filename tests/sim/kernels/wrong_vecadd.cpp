/* A kernel of vecadd's name that leaves its last sum out, for the test that vecadd verifies. */
#include "../device.h"

__global__ void vecadd(const float *a, const float *b, float *c, size_t n);

__global__ void vecadd(const float *a, const float *b, float *c, size_t n)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i + 1 < n)
        c[i] = a[i] + b[i];
}

SIM_KERNEL(vecadd)
