/* SPDX-License-Identifier: MIT */
/*
 * recopy [bytes [copies]]: copies the same unchanged buffer to the GPU again and again, as
 * programs do that don't keep track of what the GPU has.
 */
#include "sampled.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct sampled_sizes s = sampled_arguments(argc, argv, 100, &report);
    unsigned *device_buffer, *device_sum, sum;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    unsigned *buffer = (unsigned *)host_alloc(s.bytes);
    CHECK(cudaMalloc(&device_buffer, s.bytes));
    CHECK(cudaMalloc(&device_sum, sizeof(sum)));
    CHECK(cudaMemset(device_sum, 0, sizeof(sum)));
    phase_end(&report, "alloc");

    fill_round(buffer, &s, 0);
    phase_end(&report, "fill");

    CHECK(cudaMemcpy(device_buffer, buffer, s.bytes, cudaMemcpyHostToDevice));
    phase_end(&report, "first");

    double start = now_ms();
    for (size_t i = 1; i < s.copies; i++)
        CHECK(cudaMemcpy(device_buffer, buffer, s.bytes, cudaMemcpyHostToDevice));
    double each = s.copies > 1 ? (now_ms() - start) / (double)(s.copies - 1) : 0;
    phase_end(&report, "copy");

    launch_samples(device_buffer, &s, device_sum);
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(&sum, device_sum, sizeof(sum), cudaMemcpyDeviceToHost));
    phase_end(&report, "result");

    report_ms(&report, "each", each);
    int verified = sum == expected_sum(&s, 0);

    phase_begin(&report);
    CHECK(cudaFree(device_buffer));
    CHECK(cudaFree(device_sum));
    free(buffer);
    phase_end(&report, "free");
    return report_print(&report, "recopy", fnv1a(FNV_START, &sum, sizeof(sum)), verified);
}
