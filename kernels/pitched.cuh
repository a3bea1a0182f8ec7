/* SPDX-License-Identifier: MIT */
/*
 * Kernels and symbols of pitched: a 3-point blur along the rows of a pitched image, and a sum over
 * a pitched volume.
 */
__constant__ unsigned weights[3];
__device__ unsigned long long volume_sum;

__global__ void blur(const unsigned char *in, unsigned char *out, size_t in_pitch, size_t out_pitch,
                     unsigned width, unsigned height)
{
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;

    if (x < width && y < height) {
        const unsigned *row = (const unsigned *)(in + y * in_pitch);
        unsigned *to = (unsigned *)(out + y * out_pitch);
        unsigned left = x > 0 ? row[x - 1] : 0;
        unsigned right = x + 1 < width ? row[x + 1] : 0;

        to[x] = weights[0] * left + weights[1] * row[x] + weights[2] * right;
    }
}

/* One block a row of the volume: its threads add up the row in shared memory, then one of them adds
   the row to the total. */
__global__ void sum_volume(const unsigned char *volume, size_t pitch, unsigned width)
{
    __shared__ unsigned long long partial[64];
    const unsigned *row = (const unsigned *)(volume + blockIdx.x * pitch);
    unsigned long long sum = 0;

    for (unsigned x = threadIdx.x; x < width; x += blockDim.x)
        sum += row[x];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(&volume_sum, partial[0]);
}
