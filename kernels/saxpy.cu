/* SPDX-License-Identifier: MIT */
/* saxpy [elements]: y = a x + y, the job of driver_saxpy, by the runtime API. */
#include "common.cuh"
#include "driver_saxpy.cuh"

/* All values are small whole numbers: exact with and without fused multiply-add. */
static int verify(const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (y[i] != 3.0f * (float)(i % 511) + (float)(i % 97))
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    const unsigned threads = 128;
    struct report report = {};
    float *device_x, *device_y;

    at_most_arguments(argc, argv, 1, "[elements]");
    size_t n = size_argument(argc, argv, 1, "elements", 1 << 20, 1, (size_t)1 << 30);
    size_t bytes = n * sizeof(float);
    float *x = (float *)host_alloc(bytes);
    float *y = (float *)host_alloc(bytes);
    report_size(&report, "elements", n);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(i % 511);
        y[i] = (float)(i % 97);
    }

    phase_begin(&report);
    CHECK(cudaFree(0));
    phase_end(&report, "setup");

    CHECK(cudaMalloc(&device_x, bytes));
    CHECK(cudaMalloc(&device_y, bytes));
    CHECK(cudaMemcpy(device_x, x, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_y, y, bytes, cudaMemcpyHostToDevice));
    phase_end(&report, "copy");

    saxpy<<<(unsigned)((n + threads - 1) / threads), threads>>>(3.0f, device_x, device_y,
                                                                (unsigned)n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(y, device_y, bytes, cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    int verified = verify(y, n);
    uint64_t checksum = fnv1a(FNV_START, y, bytes);
    CHECK(cudaFree(device_x));
    CHECK(cudaFree(device_y));
    free(x);
    free(y);
    return report_print(&report, "saxpy", checksum, verified);
}
