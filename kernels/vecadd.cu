/* SPDX-License-Identifier: MIT */
/*
 * vecadd [elements]: adds two vectors of floats.
 * The textbook program: malloc, cudaMalloc, cudaMemcpy, one launch, cudaMemcpy back.
 */
#include "common.cuh"
#include "vecadd.cuh"
#include "vecadd.h"

int main(int argc, char **argv)
{
    struct report report = {};
    size_t n = vecadd_arguments(argc, argv, &report), bytes = n * sizeof(float);
    float *device_a, *device_b, *device_c;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    float *a = (float *)host_alloc(bytes);
    float *b = (float *)host_alloc(bytes);
    float *c = (float *)host_alloc(bytes);
    CHECK(cudaMalloc(&device_a, bytes));
    CHECK(cudaMalloc(&device_b, bytes));
    CHECK(cudaMalloc(&device_c, bytes));
    phase_end(&report, "alloc");

    fill_vectors(a, b, n);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(device_a, a, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b, bytes, cudaMemcpyHostToDevice));
    phase_end(&report, "copy");

    vecadd<<<vecadd_blocks(n), VECADD_THREADS>>>(device_a, device_b, device_c, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(c, device_c, bytes, cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    int verified = verify_sums(c, n);
    uint64_t checksum = fnv1a(FNV_START, c, bytes);

    phase_begin(&report);
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));
    free(a);
    free(b);
    free(c);
    phase_end(&report, "free");
    return report_print(&report, "vecadd", checksum, verified);
}
