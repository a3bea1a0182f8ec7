/* SPDX-License-Identifier: MIT */
/* Kernel of vecadd: c = a + b, one thread an element. */
__global__ void vecadd(const float *a, const float *b, float *c, size_t n)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        c[i] = a[i] + b[i];
}
