/* SPDX-License-Identifier: MIT */
/* Kernel of matmul: c = a b for square matrices, by tiles in shared memory. */
#define TILE 16u

__global__ void matmul(const float *a, const float *b, float *c, unsigned n)
{
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    unsigned x = threadIdx.x, y = threadIdx.y;
    unsigned row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0.0f;

    for (unsigned t = 0; t < n; t += TILE) {
        a_tile[y][x] = row < n && t + x < n ? a[(size_t)row * n + t + x] : 0.0f;
        b_tile[y][x] = column < n && t + y < n ? b[(size_t)(t + y) * n + column] : 0.0f;
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++)
            sum += a_tile[y][k] * b_tile[k][x];
        __syncthreads();
    }
    if (row < n && column < n)
        c[(size_t)row * n + column] = sum;
}
