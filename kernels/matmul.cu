/* SPDX-License-Identifier: MIT */
/*
 * matmul [n [seed]]: multiplies two square matrices of n rows.  Every number is used n times, so
 * it is worth a copy to the GPU.
 */
#include "common.cuh"
#include "matmul.cuh"

/* Small whole numbers, so that sums are exact in any order up to n = 2^17. */
static float number(size_t i, size_t seed)
{
    return (float)((i * 2654435761u + seed) >> 7 & 7);
}

static void fill_matrix(float *m, size_t n, size_t seed)
{
    for (size_t i = 0; i < n * n; i++)
        m[i] = number(i, seed);
}

/* Computes some of the products again: those of every row, at a column that changes with it. */
static int verify(const float *a, const float *b, const float *c, size_t n)
{
    for (size_t row = 0; row < n; row++) {
        size_t column = row * 7 % n;
        float sum = 0.0f;
        for (size_t k = 0; k < n; k++)
            sum += a[row * n + k] * b[k * n + column];
        if (sum != c[row * n + column])
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct report report = {};
    float *device_a, *device_b, *device_c;

    at_most_arguments(argc, argv, 2, "[n [seed]]");
    size_t n = size_argument(argc, argv, 1, "n", 64, 1, 65536);
    size_t seed = size_argument(argc, argv, 2, "seed", 1, 0, 1 << 30);
    size_t bytes = n * n * sizeof(float);
    report_size(&report, "n", n);
    report_size(&report, "seed", seed);
    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    float *a = (float *)host_alloc(bytes);
    float *b = (float *)host_alloc(bytes);
    float *c = (float *)host_alloc(bytes);
    CHECK(cudaMalloc(&device_a, bytes));
    CHECK(cudaMalloc(&device_b, bytes));
    CHECK(cudaMalloc(&device_c, bytes));
    phase_end(&report, "alloc");

    fill_matrix(a, n, seed);
    fill_matrix(b, n, seed + 99);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(device_a, a, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b, bytes, cudaMemcpyHostToDevice));
    phase_end(&report, "copy");

    unsigned tiles = (unsigned)((n + TILE - 1) / TILE);
    matmul<<<dim3(tiles, tiles), dim3(TILE, TILE)>>>(device_a, device_b, device_c, (unsigned)n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(c, device_c, bytes, cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    int verified = verify(a, b, c, n);
    uint64_t checksum = fnv1a(FNV_START, c, bytes);

    phase_begin(&report);
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));
    free(a);
    free(b);
    free(c);
    phase_end(&report, "free");
    return report_print(&report, "matmul", checksum, verified);
}
