/* SPDX-License-Identifier: MIT */
/*
 * rewrite [bytes [copies]]: the CPU rewrites the whole buffer before each copy to the GPU, which
 * then reads some of it: data that never stays the same.
 */
#include "sampled.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct sampled_sizes s = sampled_arguments(argc, argv, 20, &report);
    unsigned *device_buffer, *device_sum, sum, expected = 0;
    double fill = 0, copy = 0, kernel = 0;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *buffer = (unsigned *)host_alloc(s.bytes);
    CHECK(cudaMalloc(&device_buffer, s.bytes));
    CHECK(cudaMalloc(&device_sum, sizeof(sum)));
    CHECK(cudaMemset(device_sum, 0, sizeof(sum)));
    phase_end(&report, "alloc");

    for (size_t round = 0; round < s.copies; round++) {
        double start = now_ms();
        fill_round(buffer, &s, round);
        double filled = now_ms();
        CHECK(cudaMemcpy(device_buffer, buffer, s.bytes, cudaMemcpyHostToDevice));
        double copied = now_ms();
        launch_samples(device_buffer, &s, device_sum);
        fill += filled - start;
        copy += copied - filled;
        kernel += now_ms() - copied;
    }
    report_ms(&report, "fill", fill);
    report_ms(&report, "copy", copy);
    report_ms(&report, "kernel", kernel);

    phase_begin(&report);
    CHECK(cudaMemcpy(&sum, device_sum, sizeof(sum), cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    for (size_t round = 0; round < s.copies; round++)
        expected += expected_sum(&s, round);
    int verified = sum == expected;

    phase_begin(&report);
    CHECK(cudaFree(device_buffer));
    CHECK(cudaFree(device_sum));
    free(buffer);
    phase_end(&report, "free");
    return report_print(&report, "rewrite", fnv1a(FNV_START, &sum, sizeof(sum)), verified);
}
