/* SPDX-License-Identifier: MIT */
/* Kernel of stencil: each word becomes the sum of itself and its neighbours; the edge stays. */
__global__ void stencil(const unsigned *from, unsigned *to, unsigned width, unsigned height)
{
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    size_t i = (size_t)y * width + x;

    if (x >= width || y >= height)
        return;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
        to[i] = from[i];
    else
        to[i] = from[i] + from[i - 1] + from[i + 1] + from[i - width] + from[i + width];
}
