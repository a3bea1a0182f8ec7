/* SPDX-License-Identifier: MIT */
/*
 * scale_zerocopy [elements [repeats]]: scale without copies: the kernel reads and writes pinned
 * host memory over the link.
 */
#include "scale.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct scale_sizes s = scale_arguments(argc, argv, &report);
    float *x, *y, *device_x, *device_y;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    CHECK(cudaHostAlloc(&x, s.bytes, cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&y, s.bytes, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device_x, x, 0));
    CHECK(cudaHostGetDevicePointer(&device_y, y, 0));
    phase_end(&report, "alloc");

    fill_vector(x, s.n);
    phase_end(&report, "fill");

    for (size_t i = 0; i < s.repeats; i++) {
        launch_scale(device_x, device_y, s.n);
        CHECK(cudaDeviceSynchronize());
    }
    phase_end(&report, "scale");

    int verified = verify_scaled(y, s.n);
    uint64_t checksum = fnv1a(FNV_START, y, s.bytes);

    phase_begin(&report);
    CHECK(cudaFreeHost(x));
    CHECK(cudaFreeHost(y));
    phase_end(&report, "free");
    return report_print(&report, "scale_zerocopy", checksum, verified);
}
