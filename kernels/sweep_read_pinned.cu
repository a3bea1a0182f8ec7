/* SPDX-License-Identifier: MIT */
/*
 * sweep_read_pinned [blocks [MiB [blocks that fit [sweeps [touches]]]]]: sweep_read as an expert
 * writes it for a GPU with less room: two slots are for blocks that come by turns from page-locked
 * memory, while kernels read the others, which stay.
 */
#include "sweep.h"

#define SLOTS 2

int main(int argc, char **argv)
{
    struct report report = {};
    const struct sweep s = sweep_arguments(argc, argv, &report);
    uint4 *host[SWEEP_MOST], *block[SWEEP_MOST], *slot[SLOTS];
    cudaStream_t copies, kernels;
    cudaEvent_t came[SLOTS], used[SLOTS];
    unsigned long long *sum, total = 0, expected = 0;
    size_t stay = s.blocks <= s.fit ? s.blocks : s.fit - SLOTS, n = 0;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
    for (size_t b = 0; b < s.blocks; b++)
        CHECK(cudaMallocHost(&host[b], s.bytes));
    for (size_t b = 0; b < stay; b++)
        CHECK(cudaMalloc(&block[b], s.bytes));
    for (size_t i = 0; i < SLOTS; i++) {
        CHECK(cudaMalloc(&slot[i], stay < s.blocks ? s.bytes : 1));
        CHECK(cudaEventCreateWithFlags(&came[i], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&used[i], cudaEventDisableTiming));
    }
    CHECK(cudaMalloc(&sum, sizeof(*sum)));
    CHECK(cudaMemset(sum, 0, sizeof(*sum)));
    phase_end(&report, "alloc");

    for (size_t b = 0; b < s.blocks; b++) {
        sweep_fill(host[b], b, &s);
        expected += sweep_digest(host[b], &s);
        if (b < stay)
            CHECK(cudaMemcpy(block[b], host[b], s.bytes, cudaMemcpyHostToDevice));
    }
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "fill");

    for (size_t i = 0; i < s.sweeps; i++)
        for (size_t b = 0; b < s.blocks; b++) {
            /* Those that stay lie among the others as evenly as possible. */
            size_t at = n % SLOTS, before = b * stay / s.blocks;
            if ((b + 1) * stay / s.blocks > before) {
                sweep_read(block[before], &s, sum, kernels);
                continue;
            }
            CHECK(cudaStreamWaitEvent(copies, used[at], 0));
            CHECK(cudaMemcpyAsync(slot[at], host[stay + b - before], s.bytes,
                                  cudaMemcpyHostToDevice, copies));
            CHECK(cudaEventRecord(came[at], copies));
            CHECK(cudaStreamWaitEvent(kernels, came[at], 0));
            sweep_read(slot[at], &s, sum, kernels);
            CHECK(cudaEventRecord(used[at], kernels));
            n++;
        }
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "kernel");

    CHECK(cudaMemcpy(&total, sum, sizeof(total), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(sum));
    for (size_t b = 0; b < stay; b++)
        CHECK(cudaFree(block[b]));
    for (size_t i = 0; i < SLOTS; i++) {
        CHECK(cudaFree(slot[i]));
        CHECK(cudaEventDestroy(came[i]));
        CHECK(cudaEventDestroy(used[i]));
    }
    for (size_t b = 0; b < s.blocks; b++)
        CHECK(cudaFreeHost(host[b]));
    CHECK(cudaStreamDestroy(copies));
    CHECK(cudaStreamDestroy(kernels));
    phase_end(&report, "free");
    return report_print(&report, "sweep_read_pinned", total, total == expected);
}
