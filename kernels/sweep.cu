/* SPDX-License-Identifier: MIT */
/*
 * sweep [blocks [MiB [blocks that fit [sweeps [touches]]]]]: blocks of cudaMalloc, through all of
 * which kernels go again and again, as if the GPU had room for them.
 */
#include "sweep.h"

int main(int argc, char **argv)
{
    struct report report = {};
    const struct sweep s = sweep_arguments(argc, argv, &report);
    uint4 *block[SWEEP_MOST], *host;
    uint64_t checksum = FNV_START;
    int verified = 1;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    host = (uint4 *)host_alloc(s.bytes);
    for (size_t b = 0; b < s.blocks; b++)
        CHECK(cudaMalloc(&block[b], s.bytes));
    phase_end(&report, "alloc");

    for (size_t b = 0; b < s.blocks; b++) {
        sweep_fill(host, b, &s);
        CHECK(cudaMemcpy(block[b], host, s.bytes, cudaMemcpyHostToDevice));
    }
    phase_end(&report, "fill");

    for (size_t i = 0; i < s.sweeps; i++)
        for (size_t b = 0; b < s.blocks; b++)
            sweep_launch(block[b], &s, 0);
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    for (size_t b = 0; b < s.blocks; b++) {
        CHECK(cudaMemcpy(host, block[b], s.bytes, cudaMemcpyDeviceToHost));
        verified = verified && sweep_verify(host, b, &s);
        checksum = fnv1a(checksum, host, s.bytes);
    }

    phase_begin(&report);
    for (size_t b = 0; b < s.blocks; b++)
        CHECK(cudaFree(block[b]));
    free(host);
    phase_end(&report, "free");
    return report_print(&report, "sweep", checksum, verified);
}
