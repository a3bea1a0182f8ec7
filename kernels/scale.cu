/* SPDX-License-Identifier: MIT */
/*
 * scale [elements [repeats]]: copies a vector to the GPU, scales it there, and copies it back.
 */
#include "scale.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct scale_sizes s = scale_arguments(argc, argv, &report);
    float *x, *y, *device_x, *device_y;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    x = (float *)host_alloc(s.bytes);
    y = (float *)host_alloc(s.bytes);
    CHECK(cudaMalloc(&device_x, s.bytes));
    CHECK(cudaMalloc(&device_y, s.bytes));
    phase_end(&report, "alloc");

    fill_vector(x, s.n);
    phase_end(&report, "fill");

    for (size_t i = 0; i < s.repeats; i++) {
        CHECK(cudaMemcpy(device_x, x, s.bytes, cudaMemcpyHostToDevice));
        launch_scale(device_x, device_y, s.n);
        CHECK(cudaMemcpy(y, device_y, s.bytes, cudaMemcpyDeviceToHost));
    }
    phase_end(&report, "scale");

    int verified = verify_scaled(y, s.n);
    uint64_t checksum = fnv1a(FNV_START, y, s.bytes);

    phase_begin(&report);
    CHECK(cudaFree(device_x));
    CHECK(cudaFree(device_y));
    free(x);
    free(y);
    phase_end(&report, "free");
    return report_print(&report, "scale", checksum, verified);
}
