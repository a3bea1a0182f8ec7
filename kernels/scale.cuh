/* SPDX-License-Identifier: MIT */
/* Kernel of scale: y = factor x. */
__global__ void scale(float factor, const float *x, float *y, size_t n)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = factor * x[i];
}
