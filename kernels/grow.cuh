/* SPDX-License-Identifier: MIT */
/* Kernel of grow: writes the words first to first + count - 1 of a vector. */
__global__ void append(unsigned *vector, size_t first, size_t count)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count)
        vector[first + i] = (unsigned)(first + i) * 2654435761u;
}
