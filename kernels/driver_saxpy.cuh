/* SPDX-License-Identifier: MIT */
/* Kernel of driver_saxpy: y = a x + y.  C linkage makes "saxpy" its name in the module. */
extern "C" __global__ void saxpy(float a, const float *x, float *y, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = a * x[i] + y[i];
}
