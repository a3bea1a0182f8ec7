/* SPDX-License-Identifier: MIT */
/*
 * sweep_read [blocks [MiB [blocks that fit [sweeps [touches]]]]]: blocks of cudaMalloc that the
 * program fills once, and that kernels read again and again, as if the GPU had room for them.
 */
#include "sweep.h"

int main(int argc, char **argv)
{
    struct report report = {};
    const struct sweep s = sweep_arguments(argc, argv, &report);
    uint4 *block[SWEEP_MOST], *host;
    unsigned long long *sum, total = 0, expected = 0;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    host = (uint4 *)host_alloc(s.bytes);
    for (size_t b = 0; b < s.blocks; b++)
        CHECK(cudaMalloc(&block[b], s.bytes));
    CHECK(cudaMalloc(&sum, sizeof(*sum)));
    CHECK(cudaMemset(sum, 0, sizeof(*sum)));
    phase_end(&report, "alloc");

    for (size_t b = 0; b < s.blocks; b++) {
        sweep_fill(host, b, &s);
        expected += sweep_digest(host, &s);
        CHECK(cudaMemcpy(block[b], host, s.bytes, cudaMemcpyHostToDevice));
    }
    phase_end(&report, "fill");

    for (size_t i = 0; i < s.sweeps; i++)
        for (size_t b = 0; b < s.blocks; b++)
            sweep_read(block[b], &s, sum, 0);
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(&total, sum, sizeof(total), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(sum));
    for (size_t b = 0; b < s.blocks; b++)
        CHECK(cudaFree(block[b]));
    free(host);
    phase_end(&report, "free");
    return report_print(&report, "sweep_read", total, total == expected);
}
