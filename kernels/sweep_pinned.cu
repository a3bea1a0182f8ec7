/* SPDX-License-Identifier: MIT */
/*
 * sweep_pinned [blocks [MiB [blocks that fit [sweeps [touches]]]]]: sweep as an expert writes it
 * for a GPU with less room: all blocks lie in page-locked memory and go through slots on the GPU,
 * so that the copy of the next one in, the kernel, and the copy of the last one out overlap.
 */
#include "sweep.h"

int main(int argc, char **argv)
{
    struct report report = {};
    const struct sweep s = sweep_arguments(argc, argv, &report);
    uint4 *host[SWEEP_MOST], *slot[SWEEP_MOST];
    cudaStream_t stream[SWEEP_MOST];
    uint64_t checksum = FNV_START;
    int verified = 1;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    for (size_t b = 0; b < s.blocks; b++)
        CHECK(cudaMallocHost(&host[b], s.bytes));
    for (size_t i = 0; i < s.fit; i++) {
        CHECK(cudaMalloc(&slot[i], s.bytes));
        CHECK(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
    }
    phase_end(&report, "alloc");

    for (size_t b = 0; b < s.blocks; b++)
        sweep_fill(host[b], b, &s);
    phase_end(&report, "fill");

    for (size_t i = 0, n = 0; i < s.sweeps; i++) {
        for (size_t b = 0; b < s.blocks; b++, n++) {
            size_t at = n % s.fit;
            CHECK(cudaMemcpyAsync(slot[at], host[b], s.bytes, cudaMemcpyHostToDevice, stream[at]));
            sweep_launch(slot[at], &s, stream[at]);
            CHECK(cudaMemcpyAsync(host[b], slot[at], s.bytes, cudaMemcpyDeviceToHost, stream[at]));
        }
        CHECK(cudaDeviceSynchronize()); /* the next sweep reads what this one has written */
    }
    phase_end(&report, "kernel");

    for (size_t b = 0; b < s.blocks; b++) {
        verified = verified && sweep_verify(host[b], b, &s);
        checksum = fnv1a(checksum, host[b], s.bytes);
    }

    phase_begin(&report);
    for (size_t i = 0; i < s.fit; i++) {
        CHECK(cudaFree(slot[i]));
        CHECK(cudaStreamDestroy(stream[i]));
    }
    for (size_t b = 0; b < s.blocks; b++)
        CHECK(cudaFreeHost(host[b]));
    phase_end(&report, "free");
    return report_print(&report, "sweep_pinned", checksum, verified);
}
