/* SPDX-License-Identifier: MIT */
/* Kernel of peers: reads a vector that lies on another device and writes where it runs. */
__global__ void scale_from_peer(const float *far, float *near, float *far_out, size_t n)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n) {
        near[i] = 2.0f * far[i];
        far_out[i] = far[i] + 1.0f;
    }
}
