/* SPDX-License-Identifier: MIT */
/*
 * both_zerocopy [bytes [stride]]: both as an expert writes it for a table of which little is
 * read: one table in pinned host memory that both GPUs read over their links.
 */
#include "both.h"

int main(int argc, char **argv)
{
    struct report report = {};
    struct both_sizes s = both_arguments(argc, argv, &report);
    unsigned *table, *tables[GPUS];

    for (int d = GPUS - 1; d >= 0; d--) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */
    }

    phase_begin(&report);
    CHECK(cudaHostAlloc(&table, s.bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    for (int d = 0; d < GPUS; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaHostGetDevicePointer(&tables[d], table, 0));
    }
    phase_end(&report, "alloc");

    fill_words(table, s.words);
    phase_end(&report, "fill");

    unsigned sum = both_add(tables, &s);
    phase_end(&report, "kernel");

    int verified = sum == expected_sum(&s);
    phase_begin(&report);
    CHECK(cudaFreeHost(table));
    phase_end(&report, "free");
    return report_print(&report, "both_zerocopy", fnv1a(FNV_START, &sum, sizeof(sum)), verified);
}
